mod aligned;
mod families;
mod guards;
mod limits;
mod tenants;

use super::frame::{FRONT, TAIL_LEAST};
use super::*;
use crate::base::fault::{Access, Fault, Maker, Misuse};
use crate::base::memory::{fill, holds};
use crate::base::sync::Ordering;
use crate::base::text::Buffer;
use crate::heap::Blocks;
use crate::options::{OptionId, Origin, VARIABLE_PREFIX, spec};
use crate::os::Linux;
use crate::os::fake::{Fake, Request};
use proptest::prelude::*;

fn hardened() -> Box<Hardened<Fake>> {
    Box::new(Hardened::new(Fake::default()))
}

fn fault_of<T>(outcome: Result<T, Misuse>) -> Option<Fault> {
    outcome.err().map(|misuse| misuse.fault)
}

#[test]
fn a_block_has_exactly_the_bytes_that_were_asked_for() {
    let heap = hardened();
    for bytes in [0, 1, 15, 16, 100, 4096, 40_000, 300_000, 5_000_000] {
        let block = heap.allocate(bytes);
        assert_eq!((heap.usable_bytes(block), block % 16, heap.owns(block)), (bytes, 0, true));
        assert!(holds(block, bytes, 0), "memory is zero when it is handed out");
        fill(block, bytes, 7);
        heap.free(block);
    }
}

#[test]
fn only_a_live_block_can_be_freed_and_only_once() {
    let heap = hardened();
    for bytes in [64, 1 << 20] {
        let block = heap.allocate(bytes);
        let free = |address| fault_of(heap.take_back(address, Maker::Malloc));
        assert_eq!(free(block + 1), Some(Fault::InteriorPointer));
        assert_eq!(free(block + 16), Some(Fault::InteriorPointer));
        assert_eq!(free(&raw const heap as usize), Some(Fault::ForeignPointer));
        assert_eq!(free(block), None);
        assert_eq!(free(block), Some(Fault::DoubleFree));
        for _ in 0..5000 {
            heap.free(heap.allocate(64));
        }
        assert_eq!(free(block), Some(Fault::DoubleFree));
        heap.release(0);
        // With the memory goes what was known of its blocks, where nothing else lies nearby.
        assert!(matches!(free(block), Some(Fault::DoubleFree | Fault::FreeMemory)));
    }
}

#[test]
fn what_is_known_of_freed_blocks_goes_with_their_memory() {
    let heap = hardened();
    let blocks: Vec<_> = (0..2000).map(|_| heap.allocate(20_000)).collect();
    blocks.iter().for_each(|block| fill(*block, 20_000, 7));
    blocks.iter().for_each(|block| heap.free(*block));
    heap.release(0);
    let known = blocks.iter().filter(|block| heap.state_of(**block) != super::states::State::Never).count();
    assert!(known < blocks.len() / 10, "{known} of {}", blocks.len());
    blocks.iter().for_each(|block| assert!(fault_of(heap.take_back(*block, Maker::Malloc)).is_some()));
    let again: Vec<_> = (0..2000).map(|_| heap.allocate(20_000)).collect();
    assert!(again.iter().all(|block| holds(*block, 20_000, 0)));
    again.iter().for_each(|block| heap.free(*block));
}

#[test]
fn a_block_that_nobody_got_cannot_be_freed() {
    let heap = hardened();
    let block = heap.allocate(1000);
    let never = block + 3 * SizeClass::for_small(1000 + FRONT + TAIL_LEAST).block_bytes();
    assert_eq!(fault_of(heap.take_back(never, Maker::Malloc)), Some(Fault::FreeMemory));
}

#[test]
fn one_byte_outside_is_found_at_the_free() {
    for bytes in [1, 104, 4000, 40_002, 300_007] {
        for (place, fault) in [(-1, Fault::Underflow), (-16, Fault::Underflow), (0, Fault::Overflow)] {
            let heap = hardened();
            let block = heap.allocate(bytes);
            let wrong = match place {
                0 => block + bytes,
                before => block.wrapping_add_signed(before),
            };
            fill(wrong, 1, b'A');
            let misuse = heap.take_back(block, Maker::Malloc).unwrap_err();
            assert_eq!(misuse.fault, fault, "{bytes} bytes, {place}");
            assert!(place != 0 || misuse.address == wrong);
            assert_eq!(misuse.block.map(|(start, _)| start), Some(block));
        }
    }
}

#[test]
fn a_write_to_a_freed_block_is_found_when_it_leaves_quarantine() {
    let heap = hardened();
    let block = heap.allocate(100);
    heap.free(block);
    fill(block + 40, 1, 1);
    let found = (0..5000).find_map(|_| {
        let other = heap.make(Of { id: HeapId::OWN, after_limit: Some(&|| ()) }, 1, 100).ok()?;
        assert_ne!(other, block);
        heap.take_back(other, Maker::Malloc).err()
    });
    assert_eq!(found.map(|misuse| (misuse.fault, misuse.address)), Some((Fault::WriteAfterFree, block + 40)));
}

#[test]
fn a_write_to_a_block_behind_quarantine_is_found_when_it_is_handed_out() {
    let heap = hardened();
    let block = heap.allocate(100);
    heap.free(block);
    heap.empty_quarantine();
    fill(block + 40, 1, 1);
    let misuse = (0..100)
        .find_map(|_| heap.make(Of { id: HeapId::OWN, after_limit: Some(&|| ()) }, 1, 100).err())
        .unwrap();
    assert_eq!((misuse.fault, misuse.address), (Fault::WriteAfterFree, block + 40));
}

#[test]
fn a_freed_block_waits_and_comes_back_in_no_order() {
    let heap = hardened();
    let mut before: Vec<usize> = (0..2000).map(|_| heap.allocate(100)).collect();
    before.iter().for_each(|block| heap.free(*block));
    let last = before[1999];
    before.sort();
    let again: Vec<usize> = (0..100).map(|_| heap.allocate(100)).collect();
    assert!(!again.contains(&last));
    let known = again.iter().filter_map(|block| before.binary_search(block).ok()).collect::<Vec<_>>();
    let rev = known.iter().rev().copied().collect::<Vec<_>>();
    assert!(known.len() > 50 && !known.is_sorted() && !rev.is_sorted());
}

#[test]
fn every_alignment_is_met_and_taken_back() {
    let heap = hardened();
    for shift in 0..24 {
        for bytes in [0, 1, 100, 5000, 70_000] {
            let block = heap.allocate_aligned(1 << shift, bytes);
            assert!(block != 0 && block.is_multiple_of(1 << shift), "{bytes} at 2^{shift}");
            fill(block, bytes, 9);
            heap.check_size(block, bytes, 1 << shift);
            heap.free(block);
        }
    }
    heap.empty_quarantine();
    assert_eq!(heap.heap.stats().large_blocks, 0);
    assert_eq!(heap.fenced.load(Ordering::Relaxed), 0);
}

#[test]
fn a_block_of_no_bytes_is_like_any_other_but_that_nobody_may_touch_it() {
    let heap = hardened();
    for maker in Maker::ALL {
        let block = heap.allocate(0);
        heap.mark(block, maker);
        assert_eq!((heap.usable_bytes(block), block % 16), (0, 0));
        let other = Maker::ALL[(maker as usize + 1) % Maker::ALL.len()];
        let wrong = Fault::WrongFunction { made: maker, freed: other };
        assert_eq!(fault_of(heap.take_back(block, other)), Some(wrong));
        let free = |address| fault_of(heap.take_back(address, maker));
        assert_eq!(free(block + 1), Some(Fault::InteriorPointer));
        assert_eq!(free(block + 16), Some(Fault::FreeMemory));
        assert_eq!((free(block), free(block)), (None, Some(Fault::DoubleFree)));
    }
    let read = |address| heap.explain(address, Access::Read).map(|misuse| (misuse.fault, misuse.block));
    let block = heap.allocate(0);
    assert_eq!(read(block + 3), Some((Fault::PastEnd(Access::Read), Some((block, 0)))));
    let grown = heap.reallocate(block, 100);
    assert!(holds(grown, 100, 0) && read(block) == Some((Fault::UseAfterFree, None)));
    let aligned = heap.allocate_aligned(512, 0);
    heap.check_size(aligned, 0, 512);
    assert!(aligned.is_multiple_of(512) && heap.resize_in_place(aligned, 512, 0));
    assert!(!heap.resize_in_place(aligned, 1, 1));
    [grown, aligned].into_iter().for_each(|block| heap.free(block));
}

#[test]
fn where_no_empty_block_can_be_had_an_ordinary_one_is() {
    let heap = hardened();
    heap.free(heap.allocate(1));
    heap.heap.os.refuse_after(Request::Reserve, 0);
    let block = heap.allocate(0);
    assert!(block != 0 && !heap.heap.sources.empties.owns(block) && heap.usable_bytes(block) == 0);
    heap.free(block);
}

#[test]
fn without_memory_there_is_none_and_the_heap_goes_on() {
    for request in [Request::Reserve, Request::Commit, Request::MapAt] {
        let heap = hardened();
        for allowed in 0..40 {
            heap.heap.os.refuse_after(request, allowed);
            let block = heap.allocate(100 + allowed as usize * 2000);
            heap.heap.os.grant(request);
            heap.free(block);
        }
        let block = heap.allocate(100);
        assert_ne!(block, 0);
        heap.free(block);
    }
}

#[test]
fn what_waits_in_quarantine_is_had_when_memory_is_short() {
    let heap = hardened();
    let blocks: Vec<usize> = (0..64).map(|_| heap.allocate(3 << 20)).collect();
    blocks.iter().for_each(|block| heap.free(*block));
    heap.heap.os.refuse_after(Request::MapAt, 0);
    assert_ne!(heap.allocate(150 << 20), 0);
}

#[test]
fn a_size_that_cannot_be_is_refused_and_the_block_stays() {
    let heap = hardened();
    for bytes in [10, 100_000] {
        let block = heap.allocate(bytes);
        for wrong in [usize::MAX, usize::MAX - 40, isize::MAX as usize, 1 << 50] {
            assert_eq!((heap.reallocate(block, wrong), heap.allocate(wrong)), (0, 0));
        }
        assert_eq!(heap.usable_bytes(block), bytes);
    }
}

proptest! {
    #[test]
    fn realloc_keeps_contents_and_the_exact_size(sizes in prop::collection::vec(0usize..120_000, 1..12)) {
        let heap = hardened();
        let mut block = heap.allocate(sizes[0]);
        let mut before = sizes[0];
        fill(block, before, 5);
        for size in sizes {
            block = heap.reallocate(block, size);
            prop_assert_eq!(heap.usable_bytes(block), size);
            prop_assert!(holds(block, before.min(size), 5));
            heap.check_size(block, size, 1);
            fill(block, size, 5);
            before = size;
        }
        heap.free(block);
        heap.audit();
    }
}

#[test]
fn a_block_that_realloc_makes_longer_and_longer_is_copied_a_few_times() {
    let heap = hardened();
    let (mut block, mut moves) = (heap.allocate(40_000), 0);
    fill(block, 40_000, 3);
    let mut bytes = 40_000;
    while bytes < 8 << 20 {
        let grown = heap.reallocate(block, bytes + 4096);
        moves += u32::from(grown != block);
        (block, bytes) = (grown, bytes + 4096);
    }
    assert!(moves < 12, "{moves}");
    assert!(holds(block, 40_000, 3));
    assert!(
        heap.heap.os.resident_bytes(block & !4095, bytes).unwrap() < 4 << 20,
        "what was never written takes no memory"
    );
    let less = heap.reallocate(block, 60_000);
    assert!(holds(less, 40_000, 3));
    let (grown, end) = (heap.reallocate(less, 90_000), 90_000);
    fill(grown, end, 4);
    heap.free(grown);
    heap.audit();
}

#[test]
fn a_block_that_is_resized_forgets_its_old_alignment_and_keeps_to_the_new_one() {
    let heap = hardened();
    for bytes in [100, 50_000] {
        for (old, new) in [(4, 12), (12, 4), (0, 20)] {
            let block = heap.allocate_aligned(1 << old, bytes);
            fill(block, bytes, 6);
            let other = heap.reallocate_aligned(block, 1 << new, bytes + 8);
            assert!(other.is_multiple_of(1 << new) && holds(other, bytes, 6));
            heap.check_size(other, bytes + 8, 1 << new);
            heap.free(other);
        }
    }
}

#[test]
fn a_block_is_resized_where_it_lies_or_not_at_all() {
    let heap = hardened();
    let (small, large) = (heap.allocate(100), heap.allocate(300_000));
    assert!(heap.resize_in_place(small, 1, 60) && !heap.resize_in_place(small, 1, 5000));
    assert!(heap.resize_in_place(large, 16, 100_000) && !heap.resize_in_place(large, 1 << 40, 100_000));
    assert!(!heap.resize_in_place(large, 1, usize::MAX));
    heap.check_size(small, 60, 1);
    heap.check_size(large, 100_000, 16);
    [small, large].into_iter().for_each(|block| heap.free(block));
}

#[test]
fn threads_that_share_virtual_cpus_get_each_block_once_while_quarantine_is_emptied() {
    let heap = Box::new(Hardened::new(Linux::new()));
    let running = std::sync::atomic::AtomicUsize::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let (heap, running) = (&heap, &running);
            scope.spawn(move || {
                let mut mine = [0; 32];
                for turn in 0..40_000usize {
                    let place = &mut mine[turn.wrapping_mul(0x9E37_79B9) >> 7 & 31];
                    if *place != 0 {
                        assert!(holds(*place, 40, thread as u8 + 1), "somebody else has it too");
                        heap.free(*place);
                    }
                    *place = heap.allocate(40);
                    fill(*place, 40, thread as u8 + 1);
                }
                mine.into_iter().for_each(|block| heap.free(block));
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while running.load(Ordering::Relaxed) != 0 {
            heap.empty_quarantine();
        }
    });
    heap.audit();
}

#[test]
fn one_block_does_not_tell_where_the_next_one_is() {
    let heap = hardened();
    let distances = |bytes| -> Vec<usize> {
        let blocks: Vec<usize> = (0..64).map(|_| heap.allocate(bytes)).collect();
        let mut found: Vec<usize> = blocks.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        blocks.iter().for_each(|block| heap.free(*block));
        found.sort();
        found.dedup();
        found
    };
    for (bytes, least) in [(100, 8), (1000, 5), (40_000, 4), (1 << 20, 4)] {
        assert!(distances(bytes).len() >= least, "{bytes}: {:?}", distances(bytes));
    }
}

#[test]
fn what_a_block_gives_up_where_it_lies_is_not_written() {
    for budget in [b"0".as_slice(), b"1000"] {
        let heap = hardened();
        heap.heap.options.set(b"guard_budget", budget, Origin::Environment).unwrap();
        let block = heap.allocate(2 << 20);
        assert!(heap.resize_in_place(block, 1, 1_200_000));
        let pages = block & !4095;
        assert!(heap.heap.os.resident_bytes(pages, (2 << 20) + 4096).unwrap() < 64 << 10);
        assert!(holds(block, 1_200_000, 0) && heap.usable_bytes(block) == 1_200_000);
        assert!(heap.resize_in_place(block, 1, 1_900_000) && holds(block, 1_900_000, 0));
        heap.free(block);
        heap.audit();
    }
}
