//! Transfer arrays, and those of several domains.

use super::*;
use crate::central::exchange::{REFUSALS_BEFORE_STEALING, TRANSFER_SHARE};

#[test]
fn transfer_arrays_stay_within_their_share_of_the_budget() {
    let limit = 1 << 20;
    let middle = middle(limit);
    let class = SizeClass::for_small(4096);
    for class in [class, SizeClass::for_small(64), SizeClass::for_small(64 << 10)] {
        let blocks = middle.take(class, 500);
        for part in blocks.chunks(32) {
            middle.give(class, part).unwrap();
            assert!(middle.central.budget.taken() <= limit / TRANSFER_SHARE);
        }
    }
    assert!(middle.central.stats(class).transfer_blocks > 0);
}

#[test]
fn a_drained_array_returns_its_room_and_its_blocks() {
    let middle = middle(1 << 20);
    let class = SizeClass::for_small(256);
    let blocks = middle.take(class, 100);
    middle.give(class, &blocks).unwrap();
    assert_eq!(middle.central.stats(class).transfer_blocks, 100);
    middle.drain(class, usize::MAX);
    assert_eq!(middle.central.stats(class).transfer_blocks, 0);
    assert_eq!(middle.central.budget.taken(), 0);
}

#[test]
fn room_moves_to_the_class_that_needs_it() {
    let middle = middle(1 << 20);
    let (idle, busy) = (SizeClass::for_small(4096), SizeClass::for_small(2048));
    let blocks = middle.take(idle, 64);
    middle.give(idle, &blocks).unwrap();
    assert_eq!(middle.central.stats(idle).transfer_blocks, 64, "the whole share");
    let blocks = middle.take(busy, 32);
    for _ in 0..REFUSALS_BEFORE_STEALING * TABLE_LEN as u32 {
        middle.give(busy, &blocks).unwrap();
        assert_eq!(middle.take(busy, 32).len(), 32);
    }
    middle.give(busy, &blocks).unwrap();
    assert_eq!(middle.central.stats(busy).transfer_blocks, 32);
}

#[test]
fn without_arrays_everything_goes_to_the_spans() {
    let middle = Middle { os: Fake::default(), pages: Pages::new(), central: Central::new() };
    assert!(middle.pages.start(&middle.os));
    middle.os.refuse_after(Request::Reserve, 0);
    middle.central.start(&middle.os);
    middle.os.grant(Request::Reserve);
    middle.central.budget.set_limit(1 << 20);
    let class = SizeClass::for_small(64);
    let blocks = middle.take(class, 32);
    let (some, rest) = blocks.split_at(16);
    middle.give(class, some).unwrap();
    middle.central.start(&middle.os);
    middle.os.refuse_after(Request::Commit, 0);
    middle.give(class, rest).unwrap();
    assert_eq!(middle.central.stats(class).transfer_blocks, 0);
    assert_eq!(middle.central.stats(class).free_blocks, class.shape().blocks as u64);
}

#[test]
fn what_nobody_took_from_an_array_goes_back_to_its_spans() {
    let middle = middle(8 << 20);
    let class = SizeClass::for_small(512);
    let blocks = middle.take(class, 100);
    middle.give(class, &blocks).unwrap();
    middle.trim(class);
    assert_eq!(middle.central.stats(class).transfer_blocks, 100, "they came since the last look");
    middle.take(class, 30);
    middle.trim(class);
    assert_eq!(middle.central.stats(class).transfer_blocks, 0, "70 were there all the time");
    assert_eq!(middle.central.budget.taken(), 30 * 512, "what they took with them is room still");
}

#[test]
fn more_than_one_batch_leaves_an_array_by_trimming_and_by_draining() {
    let middle = middle(8 << 20);
    let class = SizeClass::for_small(512);
    let blocks = middle.take(class, 3 * DRAIN_BATCH);
    middle.give(class, &blocks).unwrap();
    middle.drain(class, DRAIN_BATCH + 5);
    assert_eq!(middle.transfer_blocks(class), 2 * DRAIN_BATCH as u64 - 5);
    middle.trim(class);
    middle.take(class, 3);
    middle.trim(class);
    assert_eq!(middle.transfer_blocks(class), 0);
}

#[test]
fn an_array_that_is_full_and_without_room_sends_blocks_to_their_spans() {
    let middle = middle(TRANSFER_SHARE * 8 * 1024);
    let class = SizeClass::for_small(1024);
    let blocks = middle.take(class, 20);
    middle.give(class, &blocks[..8]).unwrap();
    assert_eq!(middle.transfer_blocks(class), 8, "the whole share");
    middle.give(class, &blocks[8..]).unwrap();
    assert_eq!(middle.transfer_blocks(class), 8);
    assert_eq!(middle.central.budget.taken(), 8 * 1024);
    middle.take(class, 5);
    middle.give(class, &blocks[..2]).unwrap();
    assert_eq!(middle.transfer_blocks(class), 5, "there is place without more room");
}

#[test]
fn the_arrays_are_found_where_they_are() {
    let middle = middle(1 << 20);
    let class = SizeClass::for_small(64);
    let blocks = middle.take(class, 8);
    middle.give(class, &blocks).unwrap();
    middle.os.domain.store(1, Ordering::Relaxed);
    middle.give(class, &middle.take(class, 9)).unwrap();
    let mut found = Vec::new();
    middle.central.each_mapping(&mut |start, bytes| found.push((start, bytes)));
    assert_eq!(found.len(), 2, "those of a further domain too");
    for (start, bytes) in found {
        assert!(bytes >= places::ALL_BYTES && middle.os.resident_bytes(start, bytes) > Some(0));
    }
}

#[test]
fn each_domain_has_arrays_of_its_own_and_takes_from_others_before_the_heap_grows() {
    let middle = middle(64 << 20);
    let class = SizeClass::for_small(4096);
    let run_in = |domain: usize| middle.os.domain.store(domain, Ordering::Relaxed);
    run_in(7);
    let blocks = middle.take(class, 3 * class.shape().blocks as usize);
    middle.give(class, &blocks).unwrap();
    assert_eq!(
        middle.os.asked(Request::Reserve),
        RESERVED,
        "the domain that comes first has the first arrays"
    );
    let all = middle.transfer_blocks(class);
    assert_eq!(all, blocks.len() as u64);
    run_in(3);
    middle.give(class, &[]).unwrap();
    let open = middle.pages.stats().spans_open;
    let others = middle.take(class, blocks.len());
    assert_eq!(middle.os.asked(Request::Reserve), RESERVED + 1);
    assert_eq!(middle.pages.stats().spans_open, open, "those of the first domain");
    assert!(others.iter().all(|block| blocks.contains(block)));
    assert_eq!(middle.give(class, &others), Ok(()));
    assert!(others.iter().all(|block| middle.central.transfers(class, *block)));
    run_in(7);
    let one = middle.central.take_one(&middle.os, &middle.pages, class).address;
    assert!(!others.contains(&one), "nothing is left in this one, and there are free blocks in spans");
    middle.give(class, &[one]).unwrap();
    let taken = middle.central.budget.taken();
    assert!(taken > 0);
    middle.drain(class, usize::MAX);
    assert_eq!((middle.central.budget.taken(), middle.transfer_blocks(class)), (0, 0));
}

#[test]
fn what_one_domain_frees_and_another_takes_does_not_go_through_the_spans() {
    let middle = middle(64 << 20);
    let class = SizeClass::for_small(4096);
    let run_in = |domain: usize| middle.os.domain.store(domain, Ordering::Relaxed);
    let blocks = middle.take(class, 4 * class.shape().blocks as usize);
    for domain in [1, 2, 3] {
        run_in(domain);
        middle.give(class, &[]).unwrap();
    }
    middle.give(class, &blocks).unwrap();
    let in_spans = middle.central.stats(class).free_blocks;
    run_in(1);
    // A miss looks at one other domain, and the next one at the next.
    let got: Vec<usize> = (0..4).flat_map(|_| middle.take(class, 1)).collect();
    let in_arrays = middle.transfer_blocks(class);
    assert!(in_arrays < blocks.len() as u64 && got.iter().any(|block| blocks.contains(block)));
    middle.take(class, 4);
    assert_eq!(middle.transfer_blocks(class), in_arrays - 4, "from where the last came");
    assert!(in_spans <= class.shape().blocks as u64);
}

#[test]
fn a_domain_without_memory_for_arrays_uses_the_first_ones() {
    let middle = middle(64 << 20);
    let class = SizeClass::for_small(4096);
    let first = middle.take(class, 10);
    middle.give(class, &first).unwrap();
    middle.os.refuse_after(Request::Reserve, 0);
    middle.os.domain.store(9, Ordering::Relaxed);
    let again = middle.take(class, 10);
    assert!(again.iter().all(|block| first.contains(block)));
    assert_eq!(middle.give(class, &again), Ok(()));
}
