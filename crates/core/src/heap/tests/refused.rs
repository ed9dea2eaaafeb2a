//! Requests that cannot be had, for ever or for now.

use super::*;

#[test]
fn absurd_requests_are_refused_and_the_heap_works_afterwards() {
    let heap = heap();
    for bytes in [usize::MAX, LARGEST_REQUEST + 1, LARGEST_REQUEST, 1 << 50] {
        assert_eq!(heap.allocate(bytes), 0);
        assert_eq!(heap.allocate_aligned(4096, bytes), 0);
    }
    assert_eq!(heap.allocate_zeroed(usize::MAX / 2, 3), 0);
    let block = heap.allocate(10);
    assert_eq!(heap.reallocate(block, usize::MAX), 0);
    fill(block, 10, 1);
    heap.free(block);
    heap.free(0);
}

/// The cost that a refused request could leave to later ones.
fn kept(heap: &Heap<Fake>) -> (u64, u64, u64, usize) {
    let cached = SizeClass::all().map(|class| {
        let blocks = heap.cache.cached_blocks(class) + heap.central.stats(class).transfer_blocks;
        blocks * class.block_bytes() as u64
    });
    let (os, stats) = (heap.os(), heap.pages.stats());
    let mapped = os.mapped.lock().unwrap().iter().map(|(_, bytes)| bytes).sum();
    (cached.sum(), stats.dirty_free, os.asked(Request::Release) + os.asked(Request::Fence), mapped)
}

/// A heap with blocks in caches, spans and runs.
fn warm(heap: &Heap<Fake>) {
    heap.set_option(b"retain", b"1G").unwrap();
    let blocks: Vec<_> = (0..20_000).map(|number| heap.allocate(16 + number % 2000)).collect();
    let large: Vec<_> = (0..8).map(|_| heap.allocate(1 << 20)).collect();
    // Memory that nobody wrote would go as it becomes free.
    large.iter().for_each(|block| fill(*block, 1 << 20, 1));
    blocks.iter().skip(1).step_by(2).chain(&large).for_each(|block| heap.free(*block));
}

#[test]
fn a_request_that_cannot_be_had_costs_the_others_nothing() {
    let heap = heap();
    warm(&heap);
    let before = kept(&heap);
    assert!(before.0 > 100_000 && before.1 >= 8 << 20, "{before:?}");
    let asks_in_vain = |bytes: usize| {
        assert_eq!(
            [heap.allocate(bytes), heap.allocate_zeroed(1, bytes), heap.allocate_aligned(4096, bytes)],
            [0; 3]
        );
        assert_eq!(kept(&heap), before, "{bytes} bytes");
    };
    [usize::MAX, LARGEST_REQUEST, 1 << 50, 1 << 48, 5 << 30].into_iter().for_each(asks_in_vain);
    // No address is such a multiple.
    assert_eq!([heap.allocate_aligned(1 << 46, 1), heap.allocate_aligned(1 << 60, 1)], [0; 2]);
    assert_eq!(kept(&heap), before);
    heap.os().refuse_after(Request::MapAt, 0);
    [3 << 30, 1 << 30, 100 << 20].into_iter().for_each(asks_in_vain);
    heap.os().grant(Request::MapAt);
    heap.set_option(b"hard_limit", b"60M").unwrap();
    let before = kept(&heap);
    for bytes in [2 << 30, 61 << 20, 59 << 20] {
        assert_eq!(heap.allocate(bytes), 0);
        assert_eq!(kept(&heap), before, "{bytes} bytes");
    }
    assert_ne!(heap.allocate(1 << 20), 0);
}

#[test]
fn a_large_block_is_had_where_small_ones_have_to_leave_the_caches_for_it() {
    let heap = heap();
    heap.set_option(b"cache_limit", b"64M").unwrap();
    heap.free(heap.allocate(3 << 20));
    heap.os().refuse_after(Request::MapAt, 0);
    let mut blocks = Vec::new();
    while let block @ 1.. = heap.allocate(10_000) {
        blocks.push(block);
    }
    blocks.into_iter().for_each(|block| heap.free(block));
    let cached = |heap: &Heap<Fake>| kept(heap).0;
    let before = cached(&heap);
    assert!(before > 2 << 20, "{before} bytes");
    assert_ne!(heap.allocate(1 << 20), 0);
    assert!(cached(&heap) < before);
}

#[test]
fn without_memory_null_comes_back_and_later_blocks_again() {
    let heap = heap();
    let kept = heap.allocate(100);
    fill(kept, 100, 7);
    heap.os().refuse_after(Request::MapAt, 0);
    let mut blocks = Vec::new();
    loop {
        match heap.allocate(5000) {
            0 => break,
            block => blocks.push(block),
        }
    }
    assert_eq!(heap.allocate(3 << 20), 0);
    assert_eq!(heap.reallocate(kept, 3 << 20), 0);
    assert!(holds(kept, 100, 7), "a failed realloc leaves the block alone");
    let count = blocks.len();
    blocks.drain(..).for_each(|block| heap.free(block));
    let again: Vec<_> = (0..count).map(|_| heap.allocate(5000)).filter(|block| *block != 0).collect();
    assert_eq!(again.len(), count, "all that was freed can be had again");
    again.into_iter().for_each(|block| heap.free(block));
    assert_ne!(heap.allocate(300), 0, "also as another size");
    heap.os().grant(Request::MapAt);
    assert_ne!(heap.allocate(3 << 20), 0);
}

#[test]
fn a_heap_that_cannot_start_refuses_until_it_can() {
    let heap = heap();
    heap.os().refuse_after(Request::Reserve, 0);
    assert_eq!((heap.allocate(1), heap.allocate(1 << 20)), (0, 0));
    heap.os().grant(Request::Reserve);
    assert_ne!(heap.allocate(1), 0);
}
