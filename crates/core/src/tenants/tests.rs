//! Blocks, names, limits and threads' heaps; in files of their own the ends, busy heaps, and any sequence of calls.

mod busy;
mod ends;
mod steps;

use crate::base::locks::Rank;
use crate::base::memory::{fill, holds};
use crate::class::UNIT_BYTES;
use crate::heap::{Blocks, Ending, Heap, HeapId, Made, Refusal};
use crate::os::fake::{Fake, Request};
use crate::os::{Linux, Os};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const PLAIN: Made<'static> =
    Made { name: b"tenant", parent: HeapId::OWN, limit: None, on_limit: None, argument: 0 };

fn heap() -> Box<Heap<Fake>> {
    Box::new(Heap::new(Fake::default()))
}

fn used(heap: &Heap<Fake>) -> u64 {
    heap.committed().in_spans
}

/// With sequences, where this machine has them: heaps that are busy get caches.
fn real() -> Box<Heap<Linux>> {
    Box::new(Heap::new(Linux::new()))
}

/// Makes a heap busy, and leaves blocks in its cache.
fn busy<O: Os>(heap: &Heap<O>, id: HeapId) {
    for step in 0..6000 {
        let block = heap.allocate_in(id, 16, step % 300 + 1).unwrap();
        heap.free(block);
    }
}

#[test]
fn blocks_belong_to_the_heap_that_gave_them_and_come_back_from_any_thread() {
    let heap = heap();
    let [one, other] = [(); 2].map(|()| heap.make_heap(PLAIN).unwrap());
    assert_ne!(one, other);
    let sizes = [1, 16, 100, 4096, 70_000, 256 << 10, 300 << 10, 3 << 20];
    let blocks: Vec<usize> = sizes.iter().map(|bytes| heap.allocate_in(one, 16, *bytes).unwrap()).collect();
    for (block, bytes) in blocks.iter().zip(sizes) {
        assert!(heap.usable_bytes(*block) >= bytes && heap.owns(*block));
        assert_eq!(heap.owner_heap(*block), Some(one));
        fill(*block, bytes, 7);
    }
    let foreign = heap.allocate(100);
    assert_eq!(heap.owner_heap(foreign), None);
    let (stats, empty) = (heap.heap_stats(one).unwrap(), heap.heap_stats(other).unwrap());
    assert_eq!(stats.live_blocks, sizes.len() as u64);
    assert!(stats.live >= sizes.iter().sum::<usize>() as u64 && stats.bytes >= stats.live);
    assert_eq!((empty.live, empty.bytes), (0, 0));
    heap.verify();
    thread::scope(|scope| scope.spawn(|| blocks.iter().for_each(|block| heap.free(*block))).join()).unwrap();
    assert_eq!(heap.heap_stats(one).unwrap().live_blocks, 0);
    heap.free(foreign);
    heap.verify();
}

#[test]
fn a_heap_is_known_by_its_name_until_it_ends_and_never_again() {
    let heap = heap();
    assert_eq!(heap.allocate_in(HeapId(77), 16, 1), Err(Refusal::Gone));
    assert_eq!(heap.allocate_in(HeapId::NONE, 16, 1), Err(Refusal::Gone));
    let first = heap.make_heap(PLAIN).unwrap();
    assert_eq!(heap.heap_name(first)[..7], *b"tenant\0");
    assert_eq!(heap.end_heap(first, Ending::FreeAll), Ok(()));
    let second = heap.make_heap(PLAIN).unwrap();
    assert_eq!((second.number(), first == second), (first.number(), false), "an entry is used again");
    for gone in [first, HeapId(0), HeapId(u64::MAX), HeapId(5)] {
        assert_eq!(heap.allocate_in(gone, 16, 1), Err(Refusal::Gone));
        assert_eq!(heap.end_heap(gone, Ending::FreeAll), Err(Refusal::Gone));
        assert_eq!(heap.reset_heap(gone), Err(Refusal::Gone));
        assert_eq!(heap.set_heap_limit(gone, None), Err(Refusal::Gone));
        assert!(heap.heap_stats(gone).is_none() && heap.push_heap(gone).is_none());
    }
    assert!(heap.allocate_in(second, 16, 1).is_ok());
}

#[test]
fn the_limit_is_never_passed_by_a_byte_whatever_threads_are_at_it() {
    let heap = heap();
    let limit = 40 * UNIT_BYTES;
    let outer = heap.make_heap(Made { limit: Some(limit), ..PLAIN }).unwrap();
    let inner = heap.make_heap(Made { parent: outer, limit: Some(limit * 3 / 4), ..PLAIN }).unwrap();
    let most = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..16 {
            let (heap, most) = (&heap, &most);
            scope.spawn(move || {
                let id = if thread % 2 == 0 { inner } else { outer };
                let mut blocks = Vec::new();
                for step in 0..600 {
                    match heap.allocate_in(id, 16, (thread * 31 + step * 97) % 40_000 + 1) {
                        Ok(block) => blocks.push(block),
                        Err(refusal) => {
                            assert!(matches!(refusal, Refusal::Limit(_)), "{refusal:?}");
                            blocks.drain(..).for_each(|block| heap.free(block));
                        }
                    }
                    most.fetch_max(heap.tenants.bytes_of(outer), Ordering::Relaxed);
                }
                blocks.into_iter().for_each(|block| heap.free(block));
            });
        }
    });
    let stats = heap.heap_stats(outer).unwrap();
    assert!(stats.peak as usize <= limit && most.into_inner() <= limit);
    assert!(heap.heap_stats(inner).unwrap().peak as usize <= limit * 3 / 4);
    assert!(stats.refused + heap.heap_stats(inner).unwrap().refused > 0);
    heap.verify();
}

#[test]
fn the_maker_of_a_heap_is_told_of_a_refusal_once_and_may_make_room() {
    extern "C" fn make_room(_: u64, _: usize, argument: usize) {
        // SAFETY: the test's own, which outlives the call.
        let own = unsafe { &*std::ptr::with_exposed_provenance::<(Box<Heap<Fake>>, AtomicUsize)>(argument) };
        own.0.free(own.1.swap(0, Ordering::Relaxed));
    }
    let own = Box::new((heap(), AtomicUsize::new(0)));
    let argument = (&raw const *own).expose_provenance();
    let made = Made { limit: Some(1 << 20), on_limit: Some(make_room), argument, ..PLAIN };
    let id = own.0.make_heap(made).unwrap();
    own.1.store(own.0.allocate_in(id, 16, 600 << 10).unwrap(), Ordering::Relaxed);
    let second = own.0.allocate_in(id, 16, 700 << 10).expect("room was made");
    assert_eq!(own.1.load(Ordering::Relaxed), 0);
    assert!(own.0.allocate_in(id, 16, 700 << 10).is_err(), "there is no more");
    own.0.free(second);
}

#[test]
fn the_function_for_a_limit_may_ask_the_heap_for_blocks_and_is_not_called_for_that() {
    extern "C" fn ask(id: u64, _: usize, argument: usize) {
        // SAFETY: the test's own, which outlives the call.
        let own = unsafe { &*std::ptr::with_exposed_provenance::<(Box<Heap<Fake>>, AtomicUsize)>(argument) };
        assert!(own.1.fetch_add(1, Ordering::Relaxed) < 2, "called for its own request");
        assert!(own.0.allocate_in(HeapId(id), 16, 700 << 10).is_err());
    }
    let own = Box::new((heap(), AtomicUsize::new(0)));
    let argument = (&raw const *own).expose_provenance();
    let made = Made { limit: Some(1 << 20), on_limit: Some(ask), argument, ..PLAIN };
    let id = own.0.make_heap(made).unwrap();
    own.0.allocate_in(id, 16, 600 << 10).unwrap();
    for calls in [1, 2] {
        assert!(own.0.allocate_in(id, 16, 700 << 10).is_err());
        assert_eq!(own.1.load(Ordering::Relaxed), calls, "once for each request from outside");
    }
}

#[test]
fn the_function_for_a_limit_is_not_called_for_its_own_request_after_another_thread_was_in_it() {
    extern "C" fn ask(id: u64, bytes: usize, argument: usize) {
        // SAFETY: the test's own, which outlives the call.
        let own = unsafe { &*std::ptr::with_exposed_provenance::<(Box<Heap<Fake>>, AtomicUsize)>(argument) };
        own.1.fetch_add(1, Ordering::Relaxed);
        let is_first = bytes == 700 << 10;
        if is_first {
            let refused = || assert!(own.0.allocate_in(HeapId(id), 16, 800 << 10).is_err());
            std::thread::scope(|scope| _ = scope.spawn(refused));
            assert!(own.0.allocate_in(HeapId(id), 16, 900 << 10).is_err());
        }
    }
    let own = Box::new((heap(), AtomicUsize::new(0)));
    let argument = (&raw const *own).expose_provenance();
    let made = Made { limit: Some(1 << 20), on_limit: Some(ask), argument, ..PLAIN };
    let id = own.0.make_heap(made).unwrap();
    own.0.allocate_in(id, 16, 600 << 10).unwrap();
    assert!(own.0.allocate_in(id, 16, 700 << 10).is_err());
    assert_eq!(own.1.load(Ordering::Relaxed), 2, "once for each thread's request from outside");
}

#[test]
fn of_many_threads_at_a_limit_some_are_told_and_none_twice_and_a_child_is_without_the_others() {
    extern "C" fn ask(_: u64, _: usize, argument: usize) {
        // SAFETY: the test's own, which outlives the call.
        let calls = unsafe { &*std::ptr::with_exposed_provenance::<AtomicUsize>(argument) };
        calls.fetch_add(1, Ordering::Relaxed);
    }
    let (heap, calls) = (heap(), AtomicUsize::new(0));
    let argument = (&raw const calls).expose_provenance();
    let made = Made { limit: Some(1 << 20), on_limit: Some(ask), argument, ..PLAIN };
    let id = heap.make_heap(made).unwrap();
    let tenant = heap.tenants.find(id).unwrap();
    tenant.in_on_limit.iter().enumerate().for_each(|(at, place)| place.store(at + 1, Ordering::Relaxed));
    let refused = || assert_eq!(heap.allocate_in(id, 16, 2 << 20), Err(Refusal::Limit(id)));
    refused();
    assert_eq!(calls.load(Ordering::Relaxed), 0, "it cannot be known that this thread is there");
    // SAFETY: no other thread has the rooms.
    unsafe { heap.tenants.repair_rooms(&heap.pages, true) };
    refused();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_heap_whose_end_began_in_the_parent_only_can_be_ended_in_the_child() {
    for how in [Ending::FreeAll, Ending::HandOver, Ending::Drain] {
        let heap = heap();
        let id = heap.make_heap(PLAIN).unwrap();
        let block = heap.allocate_in(id, 16, 100).unwrap();
        heap.tenants.find(id).unwrap().state.store(super::ENDING, Ordering::Relaxed);
        assert_eq!(heap.end_heap(id, how), Err(Refusal::Gone));
        // SAFETY: no other thread has the rooms.
        unsafe { heap.tenants.repair_rooms(&heap.pages, true) };
        assert!(heap.is_heap(id), "else a realloc would wait for ever");
        let grown = Blocks::reallocate(&*heap, block, 5000);
        assert_eq!(heap.owner_heap(grown), Some(id));
        assert_eq!(heap.end_heap(id, how), Ok(()));
        if how != Ending::FreeAll {
            heap.free(grown);
        }
        assert!(heap.heap_stats(id).is_none());
        heap.verify();
    }
}

#[test]
fn a_block_that_lies_at_a_multiple_by_chance_is_none_that_was_asked_for_there() {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    // Spans lie at multiples of 16 KiB: classes have no greater alignments.
    for (of, bytes, align) in
        [(id, 24 << 10, 16 << 10), (id, 64 << 10, 64 << 10), (HeapId::OWN, 64 << 10, 64 << 10)]
    {
        for _ in 0..64 {
            let block = heap.allocate_in(of, 16, bytes).unwrap();
            assert!(!heap.resize_in_place(block, align, bytes - 100));
            let moved = Blocks::reallocate_aligned(&*heap, block, align, bytes - 100);
            assert!(moved.is_multiple_of(align) && heap.owner_heap(moved).unwrap_or(HeapId::OWN) == of);
            assert!(heap.fits(moved, bytes - 100, align));
            let class = heap.pages.class_of_block(moved);
            assert!(!class.is_small() || class.block_bytes().is_multiple_of(align) && align <= UNIT_BYTES);
        }
    }
}

#[test]
fn a_block_that_is_resized_stays_in_its_heap() {
    let heap = heap();
    let [id, other] = [(); 2].map(|()| heap.make_heap(PLAIN).unwrap());
    for pushed in [HeapId::OWN, other] {
        heap.push_heap(pushed).unwrap();
        let mut block = heap.allocate_in(id, 16, 20).unwrap();
        let mut length = 20;
        fill(block, length, 3);
        for bytes in [40, 3000, 90_000, 500 << 10, 5 << 20, 2 << 20, 600 << 10, 900, 17] {
            block = Blocks::reallocate(&*heap, block, bytes);
            assert!(holds(block, length.min(bytes), 3), "{bytes}");
            assert_eq!(heap.owner_heap(block), Some(id), "{bytes}");
            fill(block, bytes, 3);
            length = bytes;
            heap.verify();
        }
        heap.free(block);
        let own = Heap::allocate_slow(&heap, 100);
        let moved = Blocks::reallocate(&*heap, own, 60_000);
        assert_eq!(heap.owner_heap(moved), None);
        heap.free(moved);
    }
    heap.push_heap(HeapId::OWN).unwrap();
}

#[test]
fn a_thread_is_served_by_the_heap_that_it_pushed_and_others_by_their_own() {
    let heap = heap();
    let [id, inner] = [(); 2].map(|()| heap.make_heap(PLAIN).unwrap());
    let own = |block: usize| heap.owner_heap(block);
    assert_eq!(heap.push_heap(id), Some(HeapId::OWN));
    let blocks = || {
        [
            Blocks::allocate(&*heap, 100),
            Blocks::allocate_zeroed(&*heap, 10, 33),
            Blocks::allocate_aligned(&*heap, 256, 1000),
            Blocks::allocate_aligned_zeroed(&*heap, 64, 1 << 20),
            Blocks::reallocate(&*heap, 0, 70),
            Blocks::reallocate_aligned(&*heap, 0, 32, 70),
        ]
    };
    let first = blocks();
    assert!(first.iter().all(|block| own(*block) == Some(id)));
    assert!(holds(first[1], 330, 0) && holds(first[3], 1 << 20, 0) && first[2] % 256 == 0);
    assert_eq!(heap.push_heap(inner), Some(id));
    assert_eq!(own(Blocks::allocate(&*heap, 8)), Some(inner));
    thread::scope(|scope| {
        scope.spawn(|| blocks().iter().for_each(|block| assert_eq!(own(*block), None)));
    });
    assert_eq!(heap.push_heap(id), Some(inner));
    heap.end_heap(inner, Ending::FreeAll).unwrap();
    heap.end_heap(id, Ending::FreeAll).unwrap();
    let block = Blocks::allocate(&*heap, 100);
    assert_eq!(own(block), None, "a heap that has ended serves nobody");
    heap.free(block);
    assert_eq!(heap.push_heap(HeapId::OWN), Some(id));
    heap.verify();
}

#[test]
#[should_panic]
fn a_block_that_is_freed_twice_is_found() {
    let mut os = Fake::default();
    os.panics = true;
    let heap = Box::new(Heap::new(os));
    let id = heap.make_heap(PLAIN).unwrap();
    let blocks = [(); 2].map(|()| heap.allocate_in(id, 16, 100).unwrap());
    heap.free(blocks[0]);
    heap.free(blocks[0]);
}

#[test]
#[should_panic]
fn an_address_inside_a_large_block_of_a_heap_is_no_block() {
    let mut os = Fake::default();
    os.panics = true;
    let heap = Box::new(Heap::new(os));
    let id = heap.make_heap(PLAIN).unwrap();
    let block = heap.allocate_in(id, 16, 1 << 20).unwrap();
    heap.free(block + UNIT_BYTES);
}

#[test]
fn without_memory_nothing_is_given_and_nothing_lost() {
    for request in [Request::MapAt, Request::Reserve, Request::Commit] {
        for after in 0..6 {
            let heap = heap();
            heap.free(heap.allocate(100));
            heap.os().refuse_after(request, after);
            let made = heap.make_heap(PLAIN);
            let mut blocks = Vec::new();
            if let Ok(id) = made {
                for bytes in [10, 300, 5000, 100_000, 1 << 20, 30 << 20, 64 << 20] {
                    blocks.extend(heap.allocate_in(id, 16, bytes));
                }
            }
            heap.verify();
            blocks.into_iter().for_each(|block| heap.free(block));
            heap.verify();
        }
    }
}

#[test]
fn a_child_of_any_moment_finds_heaps_whole() {
    for rank in [Rank::Tenant, Rank::Tenants, Rank::State, Rank::Spans] {
        let heap = heap();
        let id = heap.make_heap(PLAIN).unwrap();
        let blocks: Vec<usize> =
            (0..3000).map(|step| heap.allocate_in(id, 16, step * 13 % 3000 + 1).unwrap()).collect();
        thread::scope(|scope| scope.spawn(|| heap.each_lock(rank, &mut |lock| lock.hold())).join()).unwrap();
        // SAFETY: the thread that held the locks is gone.
        unsafe { heap.repair_for_test() };
        heap.verify();
        blocks.into_iter().for_each(|block| heap.free(block));
        assert_eq!(heap.heap_stats(id).unwrap().live_blocks, 0);
        heap.end_heap(id, Ending::FreeAll).unwrap();
        heap.make_heap(PLAIN).unwrap();
        heap.verify();
    }
}

#[test]
fn idle_pages_of_a_heap_go_to_the_system() {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    let blocks: Vec<usize> = (0..4000).map(|_| heap.allocate_in(id, 16, 4000).unwrap()).collect();
    blocks.iter().for_each(|block| fill(*block, 4000, 1));
    blocks.iter().skip(1).for_each(|block| heap.free(*block));
    let before = heap.os().asked(Request::Release);
    heap.release_heap(id);
    heap.release(0);
    assert!(heap.os().asked(Request::Release) > before);
    assert!(heap.heap_stats(id).unwrap().bytes <= 1 << 20);
    assert!(holds(blocks[0], 4000, 1));
    heap.verify();
    heap.free(blocks[0]);
}

/// Ticks until idle pages of a heap with this delay go.
fn ticks_until_pages_go(delay: Option<u64>) -> usize {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    heap.set_heap_delay(id, delay).unwrap();
    let blocks: Vec<usize> = (0..400).map(|_| heap.allocate_in(id, 16, 4000).unwrap()).collect();
    blocks.iter().for_each(|block| fill(*block, 4000, 1));
    // No span is empty: pages go out of those in use.
    let (kept, freed) = (blocks.iter().step_by(3), blocks.iter().enumerate().filter(|(at, _)| at % 3 != 0));
    freed.for_each(|(_, block)| heap.free(*block));
    let before = heap.os().asked(Request::Release);
    let ticks = (1..2000).find(|_| {
        heap.tick(true);
        heap.os().asked(Request::Release) > before
    });
    kept.for_each(|block| assert!(holds(*block, 4000, 1)));
    heap.verify();
    ticks.unwrap_or(usize::MAX)
}

#[test]
fn idle_pages_of_a_heap_wait_for_its_own_delay() {
    let tick = crate::upkeep::nanoseconds(&heap().options);
    let usually = ticks_until_pages_go(None);
    assert!(usually < 100, "{usually}");
    assert!(ticks_until_pages_go(Some(0)) <= usually);
    let late = ticks_until_pages_go(Some(300 * tick));
    assert!((300..400).contains(&late), "{late}");
    assert_eq!(ticks_until_pages_go(Some(u64::MAX - 1)), usize::MAX);
}

#[test]
fn each_block_of_a_heap_is_told_of() {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    let mut blocks: Vec<usize> =
        (0..500).map(|step| heap.allocate_in(id, 16, step * 411 % 400_000 + 1).unwrap()).collect();
    for index in (0..blocks.len()).rev().filter(|index| index % 4 == 0).collect::<Vec<_>>() {
        heap.free(blocks.swap_remove(index));
    }
    let mut told = Vec::new();
    heap.each_block_of(id, |block, bytes| {
        assert_eq!(bytes, heap.usable_bytes(block));
        told.push(block);
    });
    told.sort_unstable();
    blocks.sort_unstable();
    assert_eq!(told, blocks);
}
