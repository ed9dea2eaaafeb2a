//! Guard pages of large blocks: what they explain, their budget, and systems that refuse them.

use super::*;
use crate::base::ceilings::MAPPED_FENCES;

/// None where this machine's kernel cannot mark pages.
fn with_marks() -> Option<Box<Hardened<Fake>>> {
    let mut os = Fake::default();
    os.marks = true;
    let heap = Box::new(Hardened::new(os));
    let page = heap.heap.os.map(4096)?;
    let can_mark = heap.heap.os.mark_pages(page, 4096);
    if !can_mark {
        vcmalloc_tests::skip!("this kernel marks no guard pages (Linux 6.13 does)");
    }
    can_mark.then_some(heap)
}

#[test]
fn accesses_beside_a_large_block_and_after_its_free_are_explained() {
    let heap = hardened();
    let block = heap.allocate(100_000);
    let of = |address, access| heap.explain(address, access).map(|misuse| (misuse.fault, misuse.block));
    let fault = |address| of(address, Access::Write);
    let meant = Some((block, 100_000));
    assert_eq!(fault(block + 100_000 + 4000), Some((Fault::PastEnd(Access::Write), meant)));
    assert_eq!(fault((block & !4095) - 1), Some((Fault::BeforeStart(Access::Write), meant)));
    assert_eq!(of(block + 200, Access::Execute), Some((Fault::Jump, meant)));
    heap.free(block);
    assert_eq!(fault(block), Some((Fault::UseAfterFree, None)));
    assert_eq!(of(block, Access::Execute), Some((Fault::Jump, None)));
    assert_eq!((fault(0x1000), of(0x1000, Access::Execute)), (None, None));
    let small = heap.allocate(100);
    assert_eq!(fault(small), None, "no page of it is closed");
    assert_eq!(of(small + 8, Access::Execute), Some((Fault::Jump, Some((small, 100)))));
}

#[test]
fn runs_whose_guards_the_system_does_not_open_are_had_again() {
    let heap = hardened();
    let blocks: Vec<usize> = (0..100).map(|_| heap.allocate(100_000)).collect();
    blocks.iter().for_each(|block| fill(*block, 100_000, 3));
    for request in [Request::Commit, Request::ClosePages, Request::MapAt] {
        heap.heap.os.refuse_after(request, 0);
    }
    blocks.iter().for_each(|block| heap.free(*block));
    for round in 0..3 {
        let again: Vec<usize> = (0..100).map(|_| heap.allocate(100_000)).collect();
        assert!(!again.contains(&0), "round {round}");
        for block in again {
            assert!(holds(block, 100_000, 0));
            fill(block, 100_000, 4);
            heap.free(block);
        }
    }
    [Request::Commit, Request::ClosePages].into_iter().for_each(|request| heap.heap.os.grant(request));
    heap.empty_quarantine();
    assert_eq!(
        (heap.heap.stats().large_blocks, heap.fenced.load(Ordering::Relaxed)),
        (0, 0),
        "all went back"
    );
}

#[test]
fn beyond_the_budget_for_guards_a_block_is_checked_as_small_ones_are() {
    let heap = hardened();
    heap.heap.options.set(b"guard_budget", b"2", Origin::Environment).unwrap();
    for bytes in [40_000, 200_000] {
        let blocks: Vec<usize> = (0..5).map(|_| heap.allocate(bytes)).collect();
        assert_eq!(heap.fenced.load(Ordering::Relaxed), 2, "of {bytes} bytes");
        let last = blocks[4];
        fill(last, bytes, 7);
        fill(last + bytes, 1, 1);
        assert_eq!(fault_of(heap.take_back(last, Maker::Malloc)), Some(Fault::Overflow));
        blocks[..4].iter().for_each(|block| heap.free(*block));
        assert_eq!(fault_of(heap.take_back(blocks[3], Maker::Malloc)), Some(Fault::DoubleFree));
        let again = heap.allocate(bytes);
        assert!(holds(again, bytes, 0), "freed memory holds nothing");
    }
}

#[test]
fn marked_guards_are_no_mappings_and_are_had_by_more_blocks() {
    let Some(heap) = with_marks() else { return };
    let os = &heap.heap.os;
    heap.heap.options.set(b"guard_budget", b"1000000000", Origin::Environment).unwrap();
    let blocks: Vec<usize> = (0..MAPPED_FENCES + 100).map(|_| heap.allocate(33_000)).collect();
    assert_eq!((heap.fenced.load(Ordering::Relaxed), os.asked(Request::ClosePages)), (blocks.len(), 0));
    for block in &blocks[..200] {
        fill(*block, 33_000, 3);
        heap.free(*block);
    }
    for _ in 0..200 {
        let block = heap.allocate(33_000);
        assert!(holds(block, 33_000, 0), "freed memory holds nothing");
    }
    let longer = heap.reallocate(blocks[300], 60_000);
    assert!(holds(longer, 60_000, 0));
    fill(longer, 60_000, 4);
    heap.free(heap.reallocate(longer, 34_000));
    heap.heap.verify();
}

#[test]
fn where_memory_is_locked_meanwhile_guards_are_mappings_and_marked_ones_open_all_the_same() {
    let Some(heap) = with_marks() else { return };
    let marked: Vec<usize> = (0..10).map(|_| heap.allocate(100_000)).collect();
    heap.heap.os.refuse_after(Request::MarkPages, 0);
    let mapped: Vec<usize> = (0..10).map(|_| heap.allocate(100_000)).collect();
    assert!(heap.heap.os.asked(Request::ClosePages) >= 20);
    for block in marked.into_iter().chain(mapped) {
        fill(block, 100_000, 3);
        heap.free(block);
    }
    heap.empty_quarantine();
    assert_eq!((heap.heap.stats().large_blocks, heap.fenced.load(Ordering::Relaxed)), (0, 0));
    for _ in 0..20 {
        let block = heap.allocate(100_000);
        fill(block, 100_000, 3);
    }
}

#[test]
fn marks_that_the_system_does_not_take_away_keep_their_runs() {
    let Some(heap) = with_marks() else { return };
    let blocks: Vec<usize> = (0..40).map(|_| heap.allocate(100_000)).collect();
    heap.heap.os.refuse_after(Request::UnmarkPages, 0);
    blocks.iter().for_each(|block| heap.free(*block));
    for _ in 0..40 {
        let block = heap.allocate(100_000);
        assert!(block != 0 && holds(block, 100_000, 0));
        fill(block, 100_000, 3);
        heap.free(block);
    }
    heap.heap.os.grant(Request::UnmarkPages);
    heap.empty_quarantine();
    assert_eq!((heap.heap.stats().large_blocks, heap.fenced.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn no_guards_where_the_system_refuses_them() {
    let heap = hardened();
    heap.heap.os.refuse_after(Request::ClosePages, 1);
    let block = heap.allocate(100_000);
    fill(block, 100_000, 3);
    heap.free(block);
    heap.empty_quarantine();
    assert_eq!((heap.heap.stats().large_blocks, heap.fenced.load(Ordering::Relaxed)), (0, 0));
    heap.heap.os.refuse_after(Request::Release, 0);
    let block = heap.allocate(100_000);
    fill(block, 100_000, 3);
    heap.free(block);
    let block = heap.allocate(100_000);
    assert!(holds(block, 100_000, 0));
}
