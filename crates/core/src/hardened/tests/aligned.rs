//! Blocks with their frames behind them, and their neighbours.

use super::*;

#[test]
fn an_aligned_block_takes_twice_what_was_asked_for_at_the_most() {
    for (bytes, align) in [(32, 32), (64, 64), (100, 64), (512, 512), (1024, 256), (4096, 4096), (8192, 4096)]
    {
        let heap = hardened();
        let blocks: Vec<usize> = (0..50).map(|_| heap.allocate_aligned(align, bytes)).collect();
        for block in &blocks {
            assert!(block.is_multiple_of(align) && heap.usable_bytes(*block) == bytes);
            let (_, memory) = heap.heap.block_of(*block).unwrap();
            assert!(memory <= 2 * bytes, "{bytes} at {align}: {memory}");
            fill(*block, bytes, 7);
            heap.check_size(*block, bytes, align);
        }
        blocks.iter().for_each(|block| heap.free(*block));
        heap.audit();
    }
}

/// A block that has its frame behind it, and that is not the first of its span.
fn aligned_block(heap: &Hardened<Fake>) -> usize {
    (0..2).map(|_| heap.allocate_aligned(64, 64)).max().unwrap()
}

#[test]
fn an_aligned_block_is_checked_as_any_other_is() {
    let written = |place: isize| {
        let heap = hardened();
        let block = aligned_block(&heap);
        fill(block.wrapping_add_signed(place), 1, b'A');
        fault_of(heap.take_back(block, Maker::Malloc))
    };
    for place in -8..0 {
        assert_eq!(written(place), Some(Fault::Underflow), "{place}");
    }
    assert_eq!((written(0), written(63)), (None, None));
    for place in (64..96).chain(112..128) {
        assert_eq!(written(place), Some(Fault::Overflow), "{place}");
    }
    let heap = hardened();
    let block = aligned_block(&heap);
    assert_eq!(
        fault_of(heap.take_back(block, Maker::New)).map(|fault| fault == Fault::DoubleFree),
        Some(false)
    );
    assert_eq!(fault_of(heap.take_back(block + 16, Maker::Malloc)), Some(Fault::InteriorPointer));
    assert!(heap.look_at_copy(block, 64).is_ok() && heap.look_at_copy(block + 60, 4).is_ok());
    assert_eq!(fault_of(heap.look_at_copy(block, 65)), Some(Fault::PastEnd(Access::Write)));
    assert_eq!(fault_of(heap.look_at_copy(block + 60, 5)), Some(Fault::PastEnd(Access::Write)));
    assert_eq!(heap.explain(block + 8, Access::Execute).and_then(|misuse| misuse.block), Some((block, 64)));
    assert_eq!(heap.reallocate_aligned(block, 64, 100), block, "it has the room");
    assert!(heap.usable_bytes(block) == 100 && holds(block, 64, 0));
    assert_eq!(heap.reallocate_aligned(block, 64, 60), block);
    assert_eq!(fault_of(heap.take_back(block, Maker::Malloc)), None);
    assert_eq!(fault_of(heap.take_back(block, Maker::Malloc)), Some(Fault::DoubleFree));
}

#[test]
fn blocks_with_their_frames_before_and_behind_them_are_neighbours_in_every_order() {
    let heap = hardened();
    let mut random = 7u64;
    let mut live: Vec<(usize, usize, usize)> = Vec::new();
    for _ in 0..20_000 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (bytes, align) = ((random >> 33) as usize % 120, 1 << (random >> 60));
        if random >> 20 & 1 == 0 && !live.is_empty() {
            let (block, bytes, align) = live.swap_remove(random as usize % live.len());
            assert!(holds(block, bytes, block as u8 | 1), "its contents are its owner's");
            heap.check_size(block, bytes, align);
            assert_eq!(fault_of(heap.take_back(block, Maker::Malloc)), None);
        } else {
            let block = heap.allocate_aligned(align, bytes);
            fill(block, bytes, block as u8 | 1);
            live.push((block, bytes, align));
        }
    }
    live.into_iter().for_each(|(block, ..)| heap.free(block));
    heap.empty_quarantine();
    heap.audit();
}
