//! A slab is emptied only when a fence has passed that began after the slab was frozen: a sequence that saw the slab
//! before may still be under way on another CPU until then.

use super::*;
use std::cell::{Cell, RefCell};

/// Blocks that could be seen while a fence was under way.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Seen {
    /// Blocks that were cached.
    blocks: u64,
    /// Of these, in slabs that sequences could still get hold of.
    in_reach: u64,
}

thread_local! {
    static LOOKED_AT: Cell<*const Whole<Fake>> = const { Cell::new(std::ptr::null()) };
    static FENCES: RefCell<Vec<Seen>> = const { RefCell::new(Vec::new()) };
}

fn look(request: Request) {
    if request == Request::Fence {
        // SAFETY: set below by this thread, in a test that outlives its calls.
        let Whole { store: Store { os, .. }, cache } = unsafe { &*LOOKED_AT.get() };
        // As a thread would that comes to a virtual CPU of which nobody has a slab.
        let slot = cache.slots.load(Ordering::Relaxed) - 1;
        cache.make(os, slot);
        assert_eq!(cache.made(slot).load(Ordering::Relaxed), 0, "it did not wait");
        let mut seen = Seen::default();
        cache.each_made(|slot, slab| {
            let blocks = SizeClass::all().map(|class| slab.read(class).len(class) as u64).sum();
            seen.blocks += blocks;
            let is_frozen = cache.in_use(slot).load(Ordering::Relaxed) == cache.base.load(Ordering::Relaxed);
            seen.in_reach += if is_frozen { 0 } else { blocks };
        });
        FENCES.with_borrow_mut(|fences| fences.push(seen));
    }
}

/// Caches with blocks in them, and how many.
fn filled() -> Option<(Box<Whole<Fake>>, u64)> {
    let mut os = Fake::default();
    os.has_sequences = true;
    os.meanwhile = Some(look);
    let whole = Box::new(whole(os, 8 << 20));
    LOOKED_AT.set(&raw const *whole);
    // A machine without sequences has nothing to show here.
    whole.cache.front.is_on().then(|| {
        let blocks = fill(&whole);
        (whole, blocks)
    })
}

fn fill(whole: &Whole<Fake>) -> u64 {
    for class in [100, 500, 5000].map(SizeClass::for_small) {
        let blocks: Vec<_> = (0..20).map(|_| whole.allocate(class)).collect();
        blocks.iter().for_each(|block| whole.free(class, *block));
    }
    let blocks = cached(whole);
    assert!(blocks > 0);
    blocks
}

fn cached(whole: &Whole<Fake>) -> u64 {
    SizeClass::all().map(|class| whole.cache.cached_blocks(class)).sum()
}

#[test]
fn a_slab_is_emptied_behind_a_fence_that_began_when_it_was_frozen() {
    let Some((whole, blocks)) = filled() else { return };
    let fence = |blocks| Seen { blocks, in_reach: 0 };
    assert_eq!(whole.cache.drain(&whole.store), Ok(true));
    assert_eq!((FENCES.take(), cached(&whole)), (vec![fence(blocks)], 0), "one fence for all slabs");
    let blocks = fill(&whole);
    let now = Stillness { slab: Ticks(0), class: Ticks(0), anyhow: 0 };
    assert!(!whole.cache.drain_still(&whole.store, now, |_| Tick(7)).unwrap().refused);
    assert_eq!((FENCES.take(), cached(&whole)), (vec![fence(blocks)], 0));
}

#[test]
fn where_the_fence_is_refused_slabs_of_virtual_cpus_stay_full_and_in_use() {
    let Some((whole, blocks)) = filled() else { return };
    whole.os.refuse_after(Request::Fence, 0);
    assert_eq!(whole.cache.drain(&whole.store), Ok(false));
    assert_eq!((FENCES.take().len(), cached(&whole)), (1, blocks));
    whole.cache.each_made(|slot, slab| assert_eq!(whole.cache.in_use(slot).load(Ordering::Relaxed), slab.0));
}

/// The thread that empties caches may be without a CPU for long.
#[test]
fn who_needs_a_slab_while_others_are_emptied_does_not_wait_and_has_it_afterwards() {
    let Some((whole, _)) = filled() else { return };
    assert_eq!(whole.cache.drain(&whole.store), Ok(true));
    assert_eq!(FENCES.take().len(), 1, "somebody needed one meanwhile");
    let slot = whole.cache.slots.load(Ordering::Relaxed) - 1;
    whole.cache.make(&whole.os, slot);
    assert_ne!(whole.cache.made(slot).load(Ordering::Relaxed), 0);
}
