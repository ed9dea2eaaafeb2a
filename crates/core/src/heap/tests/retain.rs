//! The memory that a heap keeps at a tick, by what lives, what it learned and what it is told.

use super::janitor::{MIB, fill, free, heap, quiet_ticks};
use crate::base::memory;

#[test]
fn memory_stays_for_the_delay_and_then_goes() {
    let heap = heap();
    heap.set_option(b"retain", b"1G").unwrap();
    let large = heap.allocate(8 * MIB);
    memory::fill(large, 8 * MIB, 1);
    heap.free(large);
    quiet_ticks(&heap, 3);
    assert_eq!(heap.stats().dirty_free, 8 * MIB as u64);
    quiet_ticks(&heap, 1);
    assert_eq!(heap.stats().dirty_free, 0);
}

#[test]
fn what_exceeds_retain_goes_at_the_next_tick() {
    let heap = heap();
    heap.set_option(b"retain", b"2M").unwrap();
    let blocks: Vec<_> = (0..4).map(|_| heap.allocate(2 * MIB)).collect();
    blocks.iter().for_each(|block| memory::fill(*block, 2 * MIB, 1));
    free(&heap, blocks);
    quiet_ticks(&heap, 1);
    assert_eq!(heap.stats().dirty_free, 2 * MIB as u64);
}

#[test]
fn a_share_to_retain_is_one_of_what_lives_not_of_the_spans_it_lies_in() {
    let heap = heap();
    heap.set_option(b"retain", b"100%").unwrap();
    let blocks = fill(&heap, 64 * 1024, 1024);
    // One block of each 16 KiB stays: spans stay open, and little lives.
    let (stay, go): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block / 1024 % 16 == 0);
    free(&heap, go);
    let large = fill(&heap, 1, 48 * MIB);
    free(&heap, large);
    quiet_ticks(&heap, 3);
    let dirty = heap.stats().dirty_free;
    assert!(dirty < 24 * MIB as u64, "{dirty} bytes are kept for {} that live", stay.len() * 1024);
    free(&heap, stay);
}

#[test]
fn memory_that_keeps_coming_back_waits_longer_and_goes_all_the_same_when_the_program_rests() {
    let heap = heap();
    heap.set_option(b"retain", b"0").unwrap();
    let given_back_after = |cycles: usize| {
        for _ in 0..cycles {
            free(&heap, fill(&heap, 8, MIB));
            (0..6).for_each(|_| heap.tick(true));
        }
        heap.stats().given_back
    };
    assert!(given_back_after(1) >= 8 * MIB as u64);
    let learned = given_back_after(10);
    assert_eq!(given_back_after(8), learned, "nothing goes any more");
    quiet_ticks(&heap, 8);
    assert_eq!(heap.stats().dirty_free, 0, "within twice the delay");
}

#[test]
fn pages_inside_spans_that_keep_coming_back_teach_the_same() {
    let heap = heap();
    let sparse: Vec<usize> =
        fill(&heap, 4000, 1024).into_iter().enumerate().fold(Vec::new(), |mut kept, one| {
            if one.0 % 64 == 0 {
                kept.push(one.1)
            } else {
                heap.free(one.1)
            };
            kept
        });
    heap.release(0);
    assert!(heap.stats().released > MIB as u64);
    for _ in 0..4 {
        let blocks = fill(&heap, 3000, 1024);
        heap.tick(true);
        free(&heap, blocks);
        heap.release(0);
    }
    assert!(heap.is_patient());
    free(&heap, sparse);
}

#[test]
fn free_memory_that_the_program_needs_every_now_and_then_is_no_excess() {
    let heap = heap();
    heap.set_option(b"retain", b"0").unwrap();
    for _ in 0..20 {
        free(&heap, fill(&heap, 4, MIB));
        heap.tick(true);
    }
    assert_eq!(heap.stats().given_back, 0);
    (0..4).for_each(|_| heap.tick(true));
    assert_eq!(heap.stats().dirty_free, 0);
}

#[test]
fn free_blocks_in_spans_beyond_retain_go_before_the_delay_is_over() {
    let gone_after_two_ticks = |survivor: usize| {
        let heap = heap();
        let blocks = fill(&heap, 40_000, 1024);
        heap.drain_everything();
        heap.tick(true);
        for (index, block) in blocks.iter().enumerate() {
            if index % survivor != 0 {
                heap.free(*block);
            }
        }
        heap.drain_everything();
        (0..2).for_each(|_| heap.tick(true));
        heap.stats().released
    };
    assert!(gone_after_two_ticks(64) > 20 * MIB as u64);
}

#[test]
fn what_large_blocks_need_again_and_again_stays_however_much_that_is_while_the_program_works() {
    let given_in_later_ticks = |bytes: usize| {
        let heap = heap();
        let given_after_swings = || {
            for _ in 0..8 {
                free(&heap, fill(&heap, (64 * MIB) / bytes, bytes));
                // Many large blocks one after the other are no need for many.
                (0..100).for_each(|_| free(&heap, fill(&heap, 1, MIB)));
                heap.drain_everything();
                heap.tick(true);
            }
            heap.stats().given_back
        };
        let early = given_after_swings();
        let later = given_after_swings() - early;
        heap.tick(false);
        assert!(heap.stats().dirty_free <= 8 * MIB as u64, "what may be retained, in a program at rest");
        later
    };
    assert!(given_in_later_ticks(MIB) < 16 * MIB as u64);
    assert!(given_in_later_ticks(1024) > 100 * MIB as u64, "small blocks may have left it in pieces");
}

#[test]
fn how_much_may_be_free_follows_from_what_lives_and_what_swings() {
    let heap = heap();
    let blocks = fill(&heap, 64, MIB);
    heap.tick(true);
    let holding = heap.upkeep.holding_now(&heap.floors);
    assert!((64 * MIB..66 * MIB).contains(&holding.live), "{}", holding.live);
    assert_eq!((holding.most, holding.wanted), (holding.live / 2 + 16 * MIB, 0));
    assert_eq!(holding.retained, holding.live / 100 * 25);
    free(&heap, blocks);
    let holding = heap.upkeep.holding_now(&heap.floors);
    assert!((64 * MIB..66 * MIB).contains(&holding.free), "{}", holding.free);
    assert_eq!((holding.wanted, holding.retained), (128 * MIB, 8 * MIB));
    assert!(!holding.is_plenty(), "large blocks may want it again");
}
