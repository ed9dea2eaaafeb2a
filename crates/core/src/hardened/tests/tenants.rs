//! Blocks of tenants' heaps: checked as all blocks are, alone in their quarantine, and gone or closed with their heap.

use super::*;
use crate::heap::{Ending, Made, Refusal};
use std::thread;

const PLAIN: Made<'static> =
    Made { name: b"tenant", parent: HeapId::OWN, limit: None, on_limit: None, argument: 0 };
const SIZES: [usize; 8] = [1, 15, 100, 4000, 20_000, 40_000, 300_000, 3_000_000];

fn with_heap() -> (Box<Hardened<Fake>>, HeapId) {
    let heap = hardened();
    let id = heap.heap.make_heap(PLAIN).unwrap();
    (heap, id)
}

fn take<O: Os>(heap: &Hardened<O>, id: HeapId, bytes: usize) -> usize {
    heap.allocate_in(id, 16, bytes).unwrap()
}

#[test]
fn blocks_have_exact_bytes_zeros_and_a_heap() {
    let (heap, id) = with_heap();
    for align in [16, 64, 4096, 1 << 16] {
        for bytes in SIZES {
            let block = heap.allocate_in(id, align, bytes).unwrap();
            assert_eq!((heap.usable_bytes(block), block % align), (bytes, 0));
            assert_eq!(heap.heap.owner_heap(block), Some(id), "{bytes} at {align}");
            assert!(heap.owns(block) && holds(block, bytes, 0));
            fill(block, bytes, 7);
            heap.free(block);
        }
    }
    heap.empty_quarantine();
    assert_eq!(heap.heap.heap_stats(id).unwrap().live_blocks, 0);
    heap.heap.verify();
}

#[test]
fn a_scope_serves_each_kind_of_request_and_realloc_stays_in_its_heap() {
    let (heap, id) = with_heap();
    let own = heap.allocate(100);
    let before = heap.heap.push_heap(id).unwrap();
    let blocks = [
        heap.allocate(100),
        heap.make_fast(100, Maker::New),
        heap.allocate_zeroed(10, 10),
        heap.allocate_aligned(64, 100),
        heap.allocate(50_000),
        heap.reallocate(0, 100),
    ];
    for (at, block) in blocks.iter().enumerate().filter(|(_, block)| **block != 0) {
        assert_eq!(heap.heap.owner_heap(*block), Some(id), "{at}");
    }
    let mut own = heap.reallocate(own, 5000);
    own = heap.reallocate(own, 100_000);
    assert_eq!(heap.heap.owner_heap(own), None);
    heap.heap.push_heap(before);
    let mut grown = blocks[0];
    for bytes in [3000, 40_000, 400_000, 2_000_000, 100] {
        grown = heap.reallocate(grown, bytes);
        assert_eq!((heap.heap.owner_heap(grown), heap.usable_bytes(grown)), (Some(id), bytes));
    }
    assert_eq!(heap.heap.owner_heap(heap.allocate(100)), None);
    heap.heap.verify();
}

#[test]
fn misuses_of_a_tenants_block_are_found() {
    for bytes in [100, 4000, 50_001] {
        let (heap, id) = with_heap();
        let free = |address| fault_of(heap.take_back(address, Maker::Malloc));
        let block = take(&heap, id, bytes);
        assert_eq!(free(block + 16), Some(Fault::InteriorPointer));
        assert_eq!(
            fault_of(heap.take_back(block, Maker::New)).map(|fault| fault.text()),
            Some("free by the wrong function")
        );
        fill(block + bytes, 1, 1);
        assert_eq!(free(block), Some(Fault::Overflow));
        let other = take(&heap, id, bytes);
        fill(other - 1, 1, 1);
        assert_eq!(free(other), Some(Fault::Underflow));
        let third = take(&heap, id, bytes);
        assert_eq!((free(third), free(third)), (None, Some(Fault::DoubleFree)));
    }
    let (heap, id) = with_heap();
    let block = take(&heap, id, 100);
    heap.free(block);
    fill(block + 40, 1, 1);
    let found = (0..5000).find_map(|_| heap.take_back(take(&heap, id, 100), Maker::Malloc).err());
    assert_eq!(found.map(|misuse| (misuse.fault, misuse.address)), Some((Fault::WriteAfterFree, block + 40)));
}

#[test]
fn the_process_gets_no_block_of_a_tenant_and_the_other_way_round() {
    // With sequences, where this machine has them: what leaves quarantine goes to a cache.
    let heap: Box<Hardened<Linux>> = Box::new(Hardened::new(Linux::new()));
    let id = heap.heap.make_heap(PLAIN).unwrap();
    let other = heap.heap.make_heap(PLAIN).unwrap();
    for step in 0..30_000 {
        let bytes = step % 400 + 1;
        let blocks = [heap.allocate(bytes), take(&heap, id, bytes), take(&heap, other, bytes)];
        let owners = blocks.map(|block| heap.heap.owner_heap(block));
        assert_eq!(owners, [None, Some(id), Some(other)]);
        blocks.into_iter().for_each(|block| heap.free(block));
    }
    heap.heap.verify();
}

#[test]
fn a_heap_ends_with_its_blocks_and_their_memory_holds_nothing() {
    let (heap, id) = with_heap();
    let blocks: Vec<usize> = SIZES.iter().cycle().take(400).map(|bytes| take(&heap, id, *bytes)).collect();
    blocks.iter().zip(SIZES.iter().cycle()).for_each(|(block, bytes)| fill(*block, *bytes, 9));
    blocks.iter().step_by(3).for_each(|block| heap.free(*block));
    assert_eq!(Blocks::end_heap(&*heap, id, Ending::FreeAll), Ok(()));
    assert_eq!(heap.heap.heap_stats(id), None);
    assert_eq!(heap.allocate_in(id, 16, 1), Err(Refusal::Gone));
    heap.heap.verify();
    assert_eq!((heap.heap.stats().large_blocks, heap.fenced.load(Ordering::Relaxed)), (0, 0));
    blocks.iter().for_each(|block| assert!(fault_of(heap.take_back(*block, Maker::Malloc)).is_some()));
    let again = heap.heap.make_heap(PLAIN).unwrap();
    for bytes in SIZES.iter().cycle().take(400) {
        assert!(holds(take(&heap, again, *bytes), *bytes, 0));
    }
}

#[test]
fn blocks_that_wait_are_no_live_ones_of_their_heap() {
    let (heap, id) = with_heap();
    let kept = SIZES.map(|bytes| take(&heap, id, bytes));
    let of_heap = || heap.heap.heap_stats(id).map(|stats| (stats.live, stats.live_blocks));
    let of_all = || {
        let stats = heap.heap.stats();
        (stats.live, stats.large_blocks)
    };
    let before = (of_heap(), of_all());
    SIZES.iter().for_each(|bytes| heap.free(take(&heap, id, *bytes)));
    assert_eq!((of_heap(), of_all()), before);
    assert!(heap.heap.stats().quarantined > 0);
    heap.empty_quarantine();
    assert_eq!((of_heap(), of_all()), before);
    kept.into_iter().for_each(|block| heap.free(block));
    assert_eq!(of_heap(), Some((0, 0)));
}

#[test]
fn a_reset_heap_is_empty_and_stays() {
    let (heap, id) = with_heap();
    for _ in 0..3 {
        SIZES.iter().for_each(|bytes| fill(take(&heap, id, *bytes), *bytes, 3));
        assert_eq!(Blocks::reset_heap(&*heap, id), Ok(()));
        assert_eq!(heap.heap.heap_stats(id).unwrap().live_blocks, 0);
    }
    assert_eq!(Blocks::reset_heap(&*heap, HeapId(77)), Err(Refusal::Gone));
}

#[test]
fn blocks_that_were_handed_over_are_the_parents() {
    let (heap, parent) = with_heap();
    for (above, owner) in [(parent, Some(parent)), (HeapId::OWN, None)] {
        let id = heap.heap.make_heap(Made { parent: above, ..PLAIN }).unwrap();
        let blocks = SIZES.map(|bytes| take(&heap, id, bytes));
        heap.free(take(&heap, id, 100));
        assert_eq!(Blocks::end_heap(&*heap, id, Ending::HandOver), Ok(()));
        for (block, bytes) in blocks.into_iter().zip(SIZES) {
            assert_eq!((heap.heap.owner_heap(block), heap.usable_bytes(block)), (owner, bytes));
            heap.free(block);
        }
        heap.empty_quarantine();
        heap.heap.verify();
    }
}

#[test]
fn a_limit_holds_and_blocks_that_wait_make_room() {
    let heap = hardened();
    let id = heap.heap.make_heap(Made { limit: Some(4 << 20), ..PLAIN }).unwrap();
    for round in 0..5 {
        let blocks: Vec<usize> = core::iter::from_fn(|| heap.allocate_in(id, 16, 3000).ok()).collect();
        assert!(blocks.len() > 800, "{} in round {round}", blocks.len());
        blocks.into_iter().for_each(|block| heap.free(block));
        assert!(heap.heap.heap_stats(id).unwrap().bytes <= 4 << 20);
    }
    assert_eq!(heap.allocate_in(id, 16, 8 << 20), Err(Refusal::Memory));
    assert_eq!(heap.heap.heap_stats(id).unwrap().refused, 6);
}

#[test]
fn each_live_block_is_told_with_its_bytes() {
    let (heap, id) = with_heap();
    let mut blocks: Vec<(usize, usize)> = SIZES.map(|bytes| (take(&heap, id, bytes), bytes)).to_vec();
    heap.free(take(&heap, id, 100));
    let mut seen = Vec::new();
    heap.each_block_of(id, |block, bytes| seen.push((block, bytes)));
    blocks.sort();
    seen.sort();
    assert_eq!(seen.len(), blocks.len());
    for ((block, bytes), (told, of)) in blocks.into_iter().zip(seen) {
        // Of a run all that its memory has.
        assert!(
            block == told && if bytes < 32 << 10 { bytes == of } else { bytes <= of },
            "{bytes}, not {of}"
        );
    }
}

/// With memory closed by marks where this kernel has them, and by mappings.
fn systems() -> Vec<Box<Hardened<Fake>>> {
    let mut os = Fake::default();
    os.marks = true;
    let marks = Box::new(Hardened::new(os));
    vec![hardened(), marks]
}

#[test]
fn a_late_access_to_a_zombie_is_explained_and_late_frees_are_counted() {
    for heap in systems() {
        let id = heap.heap.make_heap(PLAIN).unwrap();
        let blocks: Vec<(usize, usize)> =
            SIZES.iter().cycle().take(100).map(|bytes| (take(&heap, id, *bytes), *bytes)).collect();
        assert_eq!(Blocks::end_heap(&*heap, id, Ending::Zombie), Ok(()));
        assert_eq!(heap.allocate_in(id, 16, 1), Err(Refusal::Gone));
        for (number, (block, bytes)) in blocks.iter().enumerate() {
            let of = |access| heap.explain(*block + bytes / 2, access).map(|misuse| misuse.fault);
            assert_eq!(of(Access::Read), Some(Fault::AfterEnd(Access::Read)));
            assert_eq!(of(Access::Write), Some(Fault::AfterEnd(Access::Write)));
            let around = heap.explain(*block, Access::Read).unwrap().block.unwrap();
            assert!(around.0 == *block && around.1 >= *bytes);
            let stats = heap.heap.heap_stats(id).unwrap();
            assert_eq!((stats.late, stats.live_blocks), (number as u64, (blocks.len() - number) as u64));
            match number % 3 {
                0 => heap.free(*block),
                1 => {
                    heap.check_size(*block, *bytes, 0);
                    heap.free(*block);
                }
                _ => {
                    heap.hand_over(*block, Maker::New);
                    heap.free(*block);
                }
            }
            let again = fault_of(heap.take_back(*block, Maker::Malloc));
            assert!(again.is_some(), "{number}");
        }
        assert_eq!(heap.heap.heap_stats(id), None, "it went with the last one");
        heap.heap.verify();
        let next = heap.heap.make_heap(PLAIN).unwrap();
        for bytes in SIZES.iter().cycle().take(100) {
            let block = take(&heap, next, *bytes);
            assert!(holds(block, *bytes, 0));
            fill(block, *bytes, 1);
        }
        assert_eq!(Blocks::end_heap(&*heap, next, Ending::FreeAll), Ok(()));
        assert_eq!(heap.fenced.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_zombie_can_be_ended_and_nothing_else() {
    for heap in systems() {
        let id = heap.heap.make_heap(PLAIN).unwrap();
        let blocks = SIZES.map(|bytes| take(&heap, id, bytes));
        assert_eq!(Blocks::end_heap(&*heap, id, Ending::Zombie), Ok(()));
        heap.free(blocks[0]);
        for how in [Ending::Zombie, Ending::Drain, Ending::HandOver] {
            assert_eq!(Blocks::end_heap(&*heap, id, how), Err(Refusal::Gone));
        }
        assert_eq!(Blocks::reset_heap(&*heap, id), Err(Refusal::Gone));
        assert_eq!(Blocks::end_heap(&*heap, id, Ending::FreeAll), Ok(()));
        assert_eq!(heap.heap.heap_stats(id), None);
        assert!(blocks.iter().all(|block| fault_of(heap.take_back(*block, Maker::Malloc)).is_some()));
        heap.heap.verify();
        let empty = heap.heap.make_heap(PLAIN).unwrap();
        assert_eq!(Blocks::end_heap(&*heap, empty, Ending::Zombie), Ok(()));
        assert_eq!(heap.heap.heap_stats(empty), None);
    }
}

#[test]
fn a_zombie_whose_memory_the_system_does_not_open_stays_one() {
    let heap = hardened();
    let id = heap.heap.make_heap(PLAIN).unwrap();
    let block = take(&heap, id, 100);
    assert_eq!(Blocks::end_heap(&*heap, id, Ending::Zombie), Ok(()));
    heap.heap.os.refuse_after(Request::Commit, 0);
    heap.free(block);
    assert!(heap.heap.heap_stats(id).is_some());
    heap.heap.os.grant(Request::Commit);
    heap.heap.verify();
}

#[test]
fn threads_that_free_late_find_a_zombie_or_the_heap_before() {
    let heap: Box<Hardened<Linux>> = Box::new(Hardened::new(Linux::new()));
    for round in 0..40 {
        let id = heap.heap.make_heap(PLAIN).unwrap();
        let blocks: Vec<usize> = (0..2000).map(|step| take(&heap, id, step % 300 + 1)).collect();
        thread::scope(|scope| {
            for part in blocks.chunks(500) {
                let heap = &heap;
                scope.spawn(move || part.iter().for_each(|block| heap.free(*block)));
            }
            let how = if round % 2 == 0 { Ending::Zombie } else { Ending::Drain };
            Blocks::end_heap(&*heap, id, how).unwrap();
        });
        heap.empty_quarantine();
        assert_eq!(heap.heap.heap_stats(id), None, "round {round}");
        heap.heap.verify();
    }
}

#[test]
fn a_heap_with_blocks_that_waited_becomes_a_zombie_all_the_same() {
    for heap in systems() {
        let id = heap.heap.make_heap(PLAIN).unwrap();
        let (kept, large) = (take(&heap, id, 100), take(&heap, id, 100_000));
        (0..50).for_each(|step| heap.free(take(&heap, id, step * 400 + 1)));
        assert_eq!(Blocks::end_heap(&*heap, id, Ending::Zombie), Ok(()));
        let fault = heap.explain(kept + 8, Access::Read).map(|misuse| misuse.fault);
        assert_eq!(fault, Some(Fault::AfterEnd(Access::Read)));
        let stats = heap.heap.heap_stats(id).unwrap();
        assert_eq!((stats.late, stats.live_blocks), (0, 2), "frees before the end are not late");
        // No span of it goes back while it is closed.
        heap.heap.release_heap(id);
        heap.release(0);
        heap.free(kept);
        heap.free(large);
        assert_eq!((heap.heap.heap_stats(id), heap.fenced.load(Ordering::Relaxed)), (None, 0));
        let next = heap.heap.make_heap(PLAIN).unwrap();
        for bytes in SIZES.iter().cycle().take(200) {
            let block = take(&heap, next, *bytes);
            assert!(holds(block, *bytes, 0));
            fill(block, *bytes, 1);
        }
        heap.heap.verify();
    }
}

#[test]
fn a_block_that_is_aligned_to_much_ends_with_its_heap() {
    let (heap, id) = with_heap();
    let block = heap.allocate_in(id, 1 << 25, 1).unwrap();
    assert_eq!(Blocks::end_heap(&*heap, id, Ending::FreeAll), Ok(()));
    assert_eq!((heap.heap.heap_stats(id), heap.state_of(block).is_live()), (None, false));
}

#[test]
fn a_block_of_no_bytes_is_of_its_heap_and_goes_with_it() {
    let (heap, id) = with_heap();
    let block = heap.allocate_in(id, 16, 0).unwrap();
    assert_eq!((heap.heap.owner_heap(block), heap.usable_bytes(block)), (Some(id), 0));
    assert_eq!(Blocks::end_heap(&*heap, id, Ending::FreeAll), Ok(()));
    assert_eq!(heap.heap.heap_stats(id), None);
}

#[test]
fn where_memory_is_locked_a_zombie_is_closed_or_drains() {
    for heap in systems() {
        [Request::MarkPages, Request::Release]
            .into_iter()
            .for_each(|request| heap.heap.os.refuse_after(request, 0));
        let id = heap.heap.make_heap(PLAIN).unwrap();
        let blocks = SIZES.map(|bytes| take(&heap, id, bytes));
        blocks.iter().zip(SIZES).for_each(|(block, bytes)| fill(*block, bytes, 5));
        assert_eq!(Blocks::end_heap(&*heap, id, Ending::Zombie), Ok(()));
        blocks.into_iter().for_each(|block| heap.free(block));
        assert_eq!(heap.heap.heap_stats(id), None);
        let next = heap.heap.make_heap(PLAIN).unwrap();
        SIZES.iter().for_each(|bytes| assert!(holds(take(&heap, next, *bytes), *bytes, 0)));
    }
}
