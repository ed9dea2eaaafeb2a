use crate::base::locks::Rank;
use crate::base::memory::{fill, holds};
use crate::class::UNIT_BYTES;
use crate::heap::{Blocks, Ending, Heap, HeapId, Made, Refusal};
use crate::os::fake::{Fake, Request};
use crate::os::{Linux, Os};
use proptest::prelude::*;
use std::collections::BTreeMap;
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
fn all_blocks_go_with_their_heap_and_the_pages_are_free_again() {
    let heap = heap();
    let kept = heap.allocate(1000);
    let before = used(&heap);
    let id = heap.make_heap(PLAIN).unwrap();
    for step in 0..30_000 {
        fill(heap.allocate_in(id, 16, step * 61 % 3000 + 1).unwrap(), 1, 1);
    }
    heap.allocate_in(id, 16, 9 << 20).unwrap();
    assert!(used(&heap) > before + (40 << 20));
    assert_eq!(heap.end_heap(id, Ending::FreeAll), Ok(()));
    assert_eq!(used(&heap), before);
    heap.verify();
    // The memory serves others, and nobody is told of blocks that are gone.
    let blocks: Vec<usize> = (0..20_000).map(|step| heap.allocate(step % 2000 + 1)).collect();
    blocks.into_iter().chain([kept]).for_each(|block| heap.free(block));
    heap.verify();
}

#[test]
fn a_heap_that_is_reset_has_nothing_and_goes_on() {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    (0..5000).for_each(|step| _ = heap.allocate_in(id, 16, step % 900 + 1).unwrap());
    assert_eq!(heap.reset_heap(id), Ok(()));
    let stats = heap.heap_stats(id).unwrap();
    assert_eq!((stats.live, stats.live_blocks, stats.bytes), (0, 0, 0));
    let block = heap.allocate_in(id, 16, 50).unwrap();
    heap.verify();
    heap.free(block);
}

#[test]
fn blocks_that_are_handed_over_are_the_parents_or_the_process_own() {
    for has_parent in [false, true] {
        let heap = heap();
        let parent = if has_parent { heap.make_heap(PLAIN).unwrap() } else { HeapId::OWN };
        let id = heap.make_heap(Made { parent, ..PLAIN }).unwrap();
        let mut blocks: Vec<usize> =
            (0..4000).map(|step| heap.allocate_in(id, 16, step * 7 % 5000 + 1).unwrap()).collect();
        blocks.push(heap.allocate_in(id, 16, 1 << 20).unwrap());
        blocks.iter().for_each(|block| fill(*block, 1, 9));
        let live = heap.heap_stats(id).unwrap().live;
        assert_eq!(heap.end_heap(id, Ending::HandOver), Ok(()));
        heap.verify();
        assert!(blocks.iter().all(|block| holds(*block, 1, 9)));
        let owner = has_parent.then_some(parent);
        assert!(blocks.iter().all(|block| heap.owner_heap(*block) == owner));
        match owner {
            Some(parent) => assert_eq!(heap.heap_stats(parent).unwrap().live, live),
            None => assert_eq!(heap.stats().live, live),
        }
        blocks.into_iter().for_each(|block| heap.free(block));
        heap.verify();
        assert_eq!(heap.stats().live, 0);
    }
}

#[test]
fn blocks_are_freed_while_they_are_handed_to_a_parent() {
    let heap = real();
    for _ in 0..60 {
        let parent = heap.make_heap(PLAIN).unwrap();
        let id = heap.make_heap(Made { parent, ..PLAIN }).unwrap();
        let sizes = (0..900).map(|step| if step % 9 == 0 { 300 << 10 } else { step * 7 % 5000 + 1 });
        let blocks: Vec<usize> = sizes.map(|bytes| heap.allocate_in(id, 16, bytes).unwrap()).collect();
        thread::scope(|scope| {
            scope.spawn(|| heap.end_heap(id, Ending::HandOver).unwrap());
            scope.spawn(|| blocks.iter().for_each(|block| Blocks::free(&*heap, *block)));
        });
        heap.verify();
        assert_eq!(heap.heap_stats(parent).unwrap().live_blocks, 0);
        heap.end_heap(parent, Ending::FreeAll).unwrap();
        heap.verify();
    }
    assert_eq!(heap.stats().live, 0);
}

#[test]
fn blocks_are_freed_while_they_are_handed_to_the_process() {
    let heap = real();
    for _ in 0..60 {
        let id = heap.make_heap(PLAIN).unwrap();
        let sizes = (0..900).map(|step| if step % 9 == 0 { 300 << 10 } else { step * 7 % 5000 + 1 });
        let blocks: Vec<usize> = sizes.map(|bytes| heap.allocate_in(id, 16, bytes).unwrap()).collect();
        thread::scope(|scope| {
            scope.spawn(|| heap.end_heap(id, Ending::HandOver).unwrap());
            scope.spawn(|| {
                for (index, block) in blocks.iter().enumerate() {
                    let grown = if index % 2 == 0 { Blocks::reallocate(&*heap, *block, 700) } else { *block };
                    assert!(grown != 0 && heap.usable_bytes(grown) != 0);
                    Blocks::free(&*heap, grown);
                }
            });
        });
        heap.verify();
    }
    assert_eq!(heap.stats().live, 0);
}

#[test]
fn a_heap_that_drains_goes_also_if_the_last_thread_in_it_is_refused() {
    let heap = real();
    for _ in 0..200 {
        let id = heap.make_heap(Made { limit: Some(4 << 20), ..PLAIN }).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| (0..6).for_each(|_| _ = heap.allocate_in(id, 16, 5 << 20)));
            scope.spawn(|| heap.end_heap(id, Ending::Drain).unwrap());
        });
        assert!(heap.heap_stats(id).is_none());
    }
    heap.verify();
}

#[test]
fn a_heap_that_drains_gives_nothing_and_goes_with_its_last_block() {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    let blocks = [10, 5000, 1 << 20].map(|bytes| heap.allocate_in(id, 16, bytes).unwrap());
    assert_eq!(heap.end_heap(id, Ending::Drain), Ok(()));
    assert_eq!(heap.allocate_in(id, 16, 1), Err(Refusal::Gone));
    assert_eq!(heap.end_heap(id, Ending::Drain), Err(Refusal::Gone));
    assert_eq!(heap.reallocate(blocks[0], 2000), 0, "nor does it grow one");
    for (index, block) in blocks.into_iter().enumerate() {
        let stats = heap.heap_stats(id).expect("it is there as long as a block is");
        assert_eq!((stats.live_blocks, stats.is_draining), (3 - index as u64, true));
        heap.free(block);
    }
    assert!(heap.heap_stats(id).is_none());
    heap.verify();
    let (empty, forced) = (heap.make_heap(PLAIN).unwrap(), heap.make_heap(PLAIN).unwrap());
    assert_eq!(heap.end_heap(empty, Ending::Drain), Ok(()));
    assert!(heap.heap_stats(empty).is_none(), "there is nothing to wait for");
    heap.allocate_in(forced, 16, 100).unwrap();
    assert_eq!(heap.end_heap(forced, Ending::Drain), Ok(()));
    assert_eq!(heap.end_heap(forced, Ending::FreeAll), Ok(()), "nor does its owner have to");
    heap.verify();
}

#[test]
fn a_heap_with_others_below_it_does_not_end() {
    let heap = heap();
    let outer = heap.make_heap(PLAIN).unwrap();
    let inner = heap.make_heap(Made { parent: outer, ..PLAIN }).unwrap();
    for how in [Ending::FreeAll, Ending::HandOver, Ending::Drain] {
        assert_eq!(heap.end_heap(outer, how), Err(Refusal::HasChildren));
    }
    heap.end_heap(inner, Ending::FreeAll).unwrap();
    assert_eq!(heap.end_heap(outer, Ending::FreeAll), Ok(()));
    assert_eq!(heap.make_heap(Made { parent: outer, ..PLAIN }), Err(Refusal::Gone));
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
fn a_block_that_is_freed_after_its_heap_is_found() {
    let mut os = Fake::default();
    os.panics = true;
    let heap = Box::new(Heap::new(os));
    let id = heap.make_heap(PLAIN).unwrap();
    let block = heap.allocate_in(id, 16, 100).unwrap();
    heap.end_heap(id, Ending::FreeAll).unwrap();
    heap.free(block);
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
fn a_busy_heap_has_a_cache_and_its_blocks_are_counted_as_before() {
    let heap = real();
    let id = heap.make_heap(PLAIN).unwrap();
    let mut blocks = Vec::new();
    for round in 0..40 {
        for step in 0..400 {
            let block = heap.allocate_in(id, 16, step * 7 % 3000 + 1).unwrap();
            fill(block, step * 7 % 3000 + 1, round as u8);
            blocks.push((block, step * 7 % 3000 + 1, round as u8));
        }
        for _ in 0..350 {
            let (block, bytes, mark) = blocks.swap_remove(blocks.len() * 7 / 11);
            assert!(holds(block, bytes, mark));
            Blocks::free(&*heap, block);
        }
        assert_eq!(heap.heap_stats(id).unwrap().live_blocks, blocks.len() as u64);
    }
    let cached = heap.tenants.cached_of(heap.tenants.find(id).unwrap());
    assert!(cached.1 > 0, "a cache holds something");
    assert!(heap.central.budget.taken() as u64 >= cached.0);
    heap.verify();
    blocks.into_iter().for_each(|(block, ..)| Blocks::free(&*heap, block));
    assert_eq!(heap.heap_stats(id).unwrap().live, 0);
    heap.release_heap(id);
    assert_eq!(heap.tenants.cached_of(heap.tenants.find(id).unwrap()), (0, 0));
    heap.verify();
}

#[test]
fn a_busy_heap_ends_whole_in_each_way_and_another_has_its_cache_then() {
    for how in [Ending::FreeAll, Ending::HandOver, Ending::Drain] {
        let heap = real();
        for _ in 0..3 {
            let id = heap.make_heap(PLAIN).unwrap();
            busy(&*heap, id);
            let kept: Vec<usize> =
                (0..500).map(|step| heap.allocate_in(id, 16, step % 300 + 1).unwrap()).collect();
            assert!(heap.tenants.find(id).unwrap().cache().is_some());
            heap.verify();
            heap.end_heap(id, how).unwrap();
            heap.verify();
            if how != Ending::FreeAll {
                kept.into_iter().for_each(|block| Blocks::free(&*heap, block));
            }
            assert!(heap.heap_stats(id).is_none());
        }
        heap.release(0);
        heap.verify();
        assert_eq!((heap.stats().live, heap.stats().vcpu_caches), (0, 0));
    }
}

#[test]
fn a_limit_takes_back_what_caches_hold_before_it_refuses() {
    let heap = real();
    let id = heap.make_heap(Made { limit: Some(4 << 20), ..PLAIN }).unwrap();
    busy(&*heap, id);
    let small: Vec<usize> = (0..).map_while(|_| heap.allocate_in(id, 16, 1000).ok()).collect();
    assert!(small.len() > 3000);
    small.into_iter().for_each(|block| Blocks::free(&*heap, block));
    assert!(heap.allocate_in(id, 16, 3 << 20).is_ok(), "all but some spans of it is free");
    heap.verify();
}

#[test]
fn a_heap_that_is_quiet_loses_its_cache() {
    let heap = real();
    let id = heap.make_heap(PLAIN).unwrap();
    busy(&*heap, id);
    let has_cache = || heap.tenants.find(id).unwrap().cache().is_some();
    assert!(has_cache());
    for _ in 0..400 {
        heap.tick(true);
    }
    assert!(!has_cache());
    busy(&*heap, id);
    assert!(has_cache());
    heap.verify();
}

#[test]
#[should_panic]
fn a_cached_block_that_is_freed_again_is_found() {
    let mut os = Fake::default();
    (os.panics, os.has_sequences) = (true, true);
    let heap = Box::new(Heap::new(os));
    let id = heap.make_heap(PLAIN).unwrap();
    busy(&*heap, id);
    let blocks: Vec<usize> = (0..20).map(|_| heap.allocate_in(id, 16, 40).unwrap()).collect();
    blocks.iter().for_each(|block| Blocks::free(&*heap, *block));
    Blocks::free(&*heap, blocks[3]);
}

#[test]
fn threads_of_several_heaps_free_each_others_blocks_while_heaps_come_and_go() {
    let heap = real();
    let (slots, turns) = ([const { AtomicUsize::new(0) }; 64], 12_000);
    thread::scope(|scope| {
        for thread in 0..8usize {
            let (heap, slots) = (&heap, &slots);
            scope.spawn(move || {
                let mut id = heap.make_heap(PLAIN).unwrap();
                for turn in 0..turns {
                    let bytes = (turn * 37 + thread * 11) % 2000 + 1;
                    let block = heap.allocate_in(id, 16, bytes).unwrap();
                    fill(block, bytes, (block >> 4) as u8);
                    let old = slots[(turn * 13 + thread) % slots.len()].swap(block, Ordering::AcqRel);
                    if old != 0 {
                        assert!(holds(old, 1, (old >> 4) as u8));
                        Blocks::free(&**heap, old);
                    }
                    if turn % 3000 == 2999 {
                        let how = if turn % 2 == thread % 2 { Ending::HandOver } else { Ending::Drain };
                        heap.end_heap(id, how).unwrap();
                        id = heap.make_heap(PLAIN).unwrap();
                    }
                }
            });
        }
    });
    slots
        .iter()
        .map(|slot| slot.load(Ordering::Relaxed))
        .filter(|block| *block != 0)
        .for_each(|block| heap.free(block));
    heap.release(0);
    heap.verify();
    assert_eq!(heap.stats().live, 0);
    let mut left = 0;
    heap.each_heap(|_| left += 1);
    assert_eq!(left, 8, "heaps that drained are gone");
}

#[derive(Clone, Debug)]
enum Step {
    Make(usize, usize),
    Take(usize, usize, u32),
    Free(usize),
    Resize(usize, usize),
    End(usize, u8),
    Reset(usize),
    Tidy(usize),
    Limit(usize, usize),
    Own(usize),
    Busy(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any = any::<usize>;
    let bytes = || prop_oneof![1usize..600, 1usize..40_000, 200_000usize..900_000];
    let step = prop_oneof![
        2 => (any(), 0usize..64).prop_map(|(parent, units)| Step::Make(parent, units)),
        10 => (any(), bytes(), 4u32..16).prop_map(|(heap, bytes, shift)| Step::Take(heap, bytes, shift)),
        6 => any().prop_map(Step::Free),
        3 => (any(), bytes()).prop_map(|(block, bytes)| Step::Resize(block, bytes)),
        1 => (any(), 0u8..3).prop_map(|(heap, how)| Step::End(heap, how)),
        1 => any().prop_map(Step::Reset),
        1 => any().prop_map(Step::Tidy),
        1 => (any(), 0usize..64).prop_map(|(heap, units)| Step::Limit(heap, units)),
        2 => bytes().prop_map(Step::Own),
        1 => any().prop_map(Step::Busy),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn heaps_hold_what_they_should_in_any_sequence(steps in steps()) {
        let heap = real();
        let (mut heaps, mut parents) = (vec![HeapId::OWN], BTreeMap::new());
        // Address, heap, bytes, mark.
        let mut blocks: Vec<(usize, HeapId, usize, u8)> = Vec::new();
        let mut mark = 0u8;
        for step in steps {
            mark = mark.wrapping_add(1);
            match step {
                Step::Make(parent, units) => {
                    let parent = heaps[parent % heaps.len()];
                    let limit = Some(units * UNIT_BYTES * 4).filter(|limit| *limit != 0);
                    if let Ok(id) = heap.make_heap(Made { parent, limit, ..PLAIN }) {
                        heaps.push(id);
                        parents.insert(id.0, parent);
                    }
                }
                Step::Take(which, bytes, shift) => {
                    let id = heaps[which % heaps.len()];
                    if let Ok(block) = heap.allocate_in(id, 1 << shift, bytes) {
                        prop_assert_eq!(block % (1 << shift), 0);
                        fill(block, bytes, mark);
                        blocks.push((block, id, bytes, mark));
                    }
                }
                Step::Own(bytes) => {
                    let block = heap.allocate(bytes);
                    fill(block, bytes, mark);
                    blocks.push((block, HeapId::OWN, bytes, mark));
                }
                Step::Free(which) if !blocks.is_empty() => {
                    let (block, _, bytes, mark) = blocks.swap_remove(which % blocks.len());
                    prop_assert!(holds(block, bytes, mark));
                    Blocks::free(&*heap, block);
                }
                Step::Resize(which, bytes) if !blocks.is_empty() => {
                    let which = which % blocks.len();
                    let (block, id, length, old) = blocks[which];
                    let moved = heap.reallocate(block, bytes);
                    if moved != 0 {
                        prop_assert!(holds(moved, length.min(bytes), old));
                        fill(moved, bytes, mark);
                        blocks[which] = (moved, id, bytes, mark);
                    }
                }
                Step::End(which, how) if heaps.len() > 1 => {
                    let at = 1 + which % (heaps.len() - 1);
                    let id = heaps[at];
                    let has_children = heaps.iter().any(|heap| parents.get(&heap.0) == Some(&id));
                    let how = [Ending::FreeAll, Ending::HandOver][how as usize % 2];
                    let ended = heap.end_heap(id, how);
                    prop_assert_eq!(ended.is_err(), has_children);
                    if ended.is_ok() {
                        heaps.remove(at);
                        let parent = parents[&id.0];
                        match how {
                            Ending::FreeAll => blocks.retain(|block| block.1 != id),
                            _ => blocks.iter_mut().filter(|block| block.1 == id).for_each(|block| block.1 = parent),
                        }
                    }
                }
                Step::Reset(which) if heaps.len() > 1 => {
                    let id = heaps[1 + which % (heaps.len() - 1)];
                    prop_assert_eq!(heap.reset_heap(id), Ok(()));
                    blocks.retain(|block| block.1 != id);
                }
                Step::Busy(which) if heaps.len() > 1 => {
                    for step in 0..1500 {
                        let id = heaps[1 + which % (heaps.len() - 1)];
                        heap.allocate_in(id, 16, step % 90 + 1).into_iter().for_each(|block| heap.free(block));
                    }
                }
                Step::Tidy(which) => {
                    heap.release_heap(heaps[which % heaps.len()]);
                }
                Step::Limit(which, units) => {
                    let limit = Some(units * UNIT_BYTES * 4).filter(|limit| *limit != 0);
                    let _ = heap.set_heap_limit(heaps[which % heaps.len()], limit);
                }
                _ => {}
            }
        }
        heap.verify();
        for (block, id, bytes, mark) in &blocks {
            prop_assert!(holds(*block, *bytes, *mark));
            prop_assert_eq!(heap.owner_heap(*block).unwrap_or(HeapId::OWN), *id);
        }
        for id in &heaps[1..] {
            let live = blocks.iter().filter(|block| block.1 == *id).count();
            prop_assert_eq!(heap.heap_stats(*id).unwrap().live_blocks, live as u64);
        }
        blocks.into_iter().for_each(|(block, ..)| heap.free(block));
        heap.verify();
    }
}
