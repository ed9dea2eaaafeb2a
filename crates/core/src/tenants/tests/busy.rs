//! Heaps that are busy, and have caches.

use super::*;

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

/// A thread that takes the first cache of a heap away waits for another one that uses it; meanwhile the heap gets a second cache.
fn with_a_cache_on_its_way<O: Os>(heap: &Heap<O>, id: HeapId, work: impl FnOnce()) {
    busy(heap, id);
    let tenant = heap.tenants.find(id).unwrap();
    let in_use = tenant.use_cache().unwrap();
    thread::scope(|scope| {
        let janitor = scope.spawn(|| heap.tenants.detach(&heap.store, tenant, id));
        while tenant.cache().is_some() {
            thread::yield_now();
        }
        busy(heap, id);
        assert!(tenant.cache().is_some(), "it has a second one");
        work();
        drop(in_use);
        janitor.join().unwrap().unwrap();
    });
}

#[test]
fn a_heap_ends_when_a_thread_that_takes_its_first_cache_away_has_brought_the_blocks_back() {
    for how in [Ending::FreeAll, Ending::HandOver] {
        let heap = real();
        let id = heap.make_heap(PLAIN).unwrap();
        let has_ended = AtomicUsize::new(0);
        thread::scope(|scope| {
            with_a_cache_on_its_way(&*heap, id, || {
                scope.spawn(|| {
                    heap.end_heap(id, how).unwrap();
                    has_ended.store(1, Ordering::Release);
                });
                thread::sleep(std::time::Duration::from_millis(100));
                assert_eq!(has_ended.load(Ordering::Acquire), 0, "blocks are in another thread's hands");
            });
        });
        heap.verify();
        heap.release(0);
        assert_eq!(heap.stats().live, 0);
    }
}

#[test]
fn the_janitor_does_not_wait_for_a_thread_that_takes_a_cache_away() {
    let heap = real();
    let id = heap.make_heap(PLAIN).unwrap();
    with_a_cache_on_its_way(&*heap, id, || {
        let tenant = heap.tenants.find(id).unwrap();
        heap.tenants.detach(&heap.store, tenant, id).unwrap();
        assert!(tenant.cache().is_none());
        // There is none, and the first is still on its way.
        heap.tenants.detach(&heap.store, tenant, id).unwrap();
    });
    heap.verify();
}

#[test]
fn a_name_that_was_good_a_moment_ago_gets_no_block_of_the_cache_of_the_next_heap() {
    let heap = real();
    let gone = heap.make_heap(PLAIN).unwrap();
    heap.end_heap(gone, Ending::FreeAll).unwrap();
    let id = heap.make_heap(PLAIN).unwrap();
    assert_eq!(id.number(), gone.number());
    busy(&*heap, id);
    let tenant = heap.tenants.find(id).unwrap();
    assert!(tenant.cache().is_some());
    let class = crate::class::SizeClass::for_small(100);
    let taken = heap.tenants.take_of(&heap.store, &heap.cache, tenant, gone, class).unwrap();
    assert_eq!(taken, Err(Refusal::Gone));
    heap.verify();
}
