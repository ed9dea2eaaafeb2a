use super::*;
use crate::base::fault::Fault;
use crate::base::memory::{fill, holds};
use crate::class::UNIT_BYTES;
use crate::os::fake::{Fake, Request};
use std::collections::HashSet;

/// Requests of a middle that starts, for tables and arrays.
const RESERVED: u64 = 1;

mod arrays;

struct Middle {
    os: Fake,
    pages: Pages<Fake>,
    central: Central<Fake>,
}

fn middle(limit: usize) -> Middle {
    let middle = Middle { os: Fake::default(), pages: Pages::new(), central: Central::new() };
    assert!(middle.pages.start(&middle.os));
    middle.central.start(&middle.os);
    middle.central.budget.set_limit(limit);
    middle
}

impl Middle {
    fn take(&self, class: SizeClass, count: usize) -> Vec<usize> {
        let mut out = vec![0; count];
        let got = self.central.take(&self.os, &self.pages, class, &mut out);
        out.truncate(got);
        out
    }

    fn give(&self, class: SizeClass, blocks: &[usize]) -> Result<(), Misuse> {
        let outcome = self.central.give(&self.os, &self.pages, class, blocks);
        self.verify();
        outcome
    }

    fn drain(&self, class: SizeClass, entries: usize) {
        self.central.drain(&self.pages, class, entries).unwrap();
        self.verify();
    }

    fn trim(&self, class: SizeClass) {
        self.central.trim(&self.pages, class, Tick(0)).unwrap();
        self.verify();
    }

    /// Nobody else takes room here.
    fn verify(&self) {
        assert_eq!(self.central.verify(&self.pages), self.central.budget.taken());
    }

    fn transfer_blocks(&self, class: SizeClass) -> u64 {
        self.central.stats(class).transfer_blocks
    }
}

#[test]
fn blocks_are_distinct_aligned_and_in_address_order() {
    let middle = middle(0);
    for class in SizeClass::all() {
        let blocks = middle.take(class, 40);
        assert_eq!(blocks.iter().collect::<HashSet<_>>().len(), 40);
        assert!(blocks.iter().all(|block| middle.pages.class_of(*block) == class && block % 16 == 0));
        assert!(blocks.windows(2).take(1).all(|pair| pair[0] < pair[1]));
    }
}

#[test]
fn a_span_whose_last_block_returns_goes_back_to_the_page_heap() {
    let middle = middle(0);
    let class = SizeClass::for_small(4096);
    let per_span = class.shape().blocks as usize;
    let blocks = middle.take(class, per_span * 4);
    assert_eq!(middle.pages.stats().spans_open, 4);
    assert_eq!(middle.give(class, &blocks), Ok(()));
    assert_eq!(middle.pages.stats().spans_open, 1, "one stays so that the next block is cheap");
    let stats = middle.central.stats(class);
    assert_eq!((stats.spans, stats.free_blocks), (1, per_span as u64));
}

#[test]
fn a_class_that_grows_brings_its_new_memory_in_by_units_and_no_more() {
    let middle = middle(0);
    let class = SizeClass::for_small(1024);
    let per_span = class.shape().blocks as usize;
    middle.take(class, 15 * per_span);
    assert_eq!(middle.os.asked(Request::Populate), 0, "a small class may stay small");
    let first = *middle.take(class, 1).first().unwrap();
    assert_eq!(middle.os.asked(Request::Populate), 1);
    assert_eq!(middle.os.resident_bytes(first, per_span * 1024), Some(UNIT_BYTES));
    middle.take(class, 14);
    assert_eq!(middle.os.asked(Request::Populate), 1, "blocks in memory that is there already");
    middle.take(class, 3);
    assert_eq!(middle.os.asked(Request::Populate), 2);
    assert_eq!(middle.os.resident_bytes(first, per_span * 1024), Some(2 * UNIT_BYTES));
}

#[test]
fn memory_of_blocks_above_a_page_and_of_blocks_that_come_back_is_not_brought_in() {
    let middle = middle(0);
    let large = SizeClass::for_small(8192);
    middle.take(large, 40 * large.shape().blocks as usize);
    let small = SizeClass::for_small(512);
    let blocks = middle.take(small, 15 * small.shape().blocks as usize);
    assert_eq!(middle.give(small, &blocks[..100]), Ok(()));
    middle.take(small, 100);
    assert_eq!(middle.os.asked(Request::Populate), 0);
}

#[test]
fn what_was_touched_since_it_was_tidy_is_looked_at_and_nothing_else() {
    let middle = middle(0);
    let class = SizeClass::for_small(4096);
    let per_span = class.shape().blocks as usize;
    let blocks = middle.take(class, 40 * per_span);
    let looked_at = || Vec::from_iter(middle.pages.candidates_in(0..middle.pages.span_count()));
    assert_eq!(looked_at().len(), 40);
    looked_at()
        .into_iter()
        .for_each(|id| _ = middle.central.subrelease(&middle.os, &middle.pages, id, Ticks(0)));
    assert_eq!(looked_at(), []);
    assert_eq!(middle.give(class, &blocks[21 * per_span..][..1]), Ok(()));
    let touched = middle.pages.span_of(blocks[21 * per_span]).unwrap();
    assert_eq!(looked_at(), [touched]);
    assert_eq!(middle.central.subrelease(&middle.os, &middle.pages, touched, Ticks(0)), 4096);
    assert_eq!(looked_at(), []);
    middle.pages.verify();
}

#[test]
fn the_fullest_span_serves_first() {
    let middle = middle(0);
    let class = SizeClass::for_small(4096);
    let per_span = class.shape().blocks as usize;
    let blocks = middle.take(class, per_span * 2);
    let (first, second) = blocks.split_at(per_span);
    middle.give(class, &first[..per_span - 1]).unwrap();
    middle.give(class, &second[..1]).unwrap();
    assert_eq!(middle.take(class, 1), [second[0]]);
}

#[test]
fn double_and_interior_frees_are_found_when_the_block_comes_back() {
    let middle = middle(0);
    let class = SizeClass::for_small(100);
    let block = middle.take(class, 1)[0];
    let inside = middle.give(class, &[block + 16]).unwrap_err();
    assert_eq!((inside.fault, inside.block), (Fault::InteriorPointer, Some((block, 112))));
    assert_eq!(middle.give(class, &[block]), Ok(()));
    assert_eq!(middle.give(class, &[block]).unwrap_err().fault, Fault::DoubleFree);
    let next = block + 112;
    let twice = middle.give(class, &[next]).unwrap_err();
    assert_eq!((twice.fault, twice.block), (Fault::DoubleFree, Some((next, 112))), "never handed out");
    let not_allocated = middle.central.not_allocated(&middle.pages, class, next);
    assert_eq!((not_allocated.fault, not_allocated.block), (Fault::FreeBlock, Some((next, 112))));
    let other = SizeClass::for_small(5000);
    assert_eq!(middle.give(other, &[block]).unwrap_err().fault, Fault::FreeMemory);
}

#[test]
fn one_bad_block_does_not_lose_the_others() {
    let middle = middle(0);
    let class = SizeClass::for_small(64);
    let blocks = middle.take(class, 3);
    let bad = [blocks[0], blocks[0], blocks[1], blocks[2]];
    assert_eq!(middle.give(class, &bad).unwrap_err().fault, Fault::DoubleFree);
    assert_eq!(middle.central.stats(class).free_blocks, class.shape().blocks as u64);
}

#[test]
fn neighbours_go_back_together_and_strangers_between_them_each_to_their_own_span() {
    let middle = middle(0);
    let class = SizeClass::for_small(1024);
    let count = class.shape().blocks as usize;
    let (one, other) = (middle.take(class, count), middle.take(class, count));
    let span = |block: usize| middle.pages.span(middle.pages.span_of(block).unwrap()).free.get();
    let mixed = [one[3], one[2], other[7], one[2], one[4] + 16, other[8], other[9], one[5]];
    let misuse = middle.give(class, &mixed).unwrap_err();
    assert_eq!((misuse.fault, misuse.address), (Fault::DoubleFree, one[2]), "the first that is wrong");
    assert_eq!((span(one[0]), span(other[0])), (3, 3));
    let left = |blocks: &[usize]| blocks.iter().copied().filter(|block| !mixed.contains(block)).collect();
    let (one_left, other_left): (Vec<_>, Vec<_>) = (left(&one), left(&other));
    // The rest of one span lies in the middle of the other's batch: the empty one goes.
    middle.give(class, &[&other_left[..2], &one_left[..], &other_left[2..]].concat()).unwrap();
    let open = [one[0], other[0]].into_iter().filter(|block| middle.pages.span_of(*block).is_some());
    assert_eq!(open.count(), 1, "the class keeps one");
    assert_eq!(middle.pages.class_of_allocated(one[0]), None);
}

#[test]
fn without_memory_fewer_blocks_come_and_the_next_try_succeeds() {
    let middle = middle(0);
    let class = SizeClass::for_small(64 << 10);
    let all = middle.take(class, 8);
    assert_eq!(all.len(), 8);
    middle.os.refuse_after(Request::MapAt, 0);
    let few = middle.take(class, 2000);
    assert!(few.len() < 2000);
    middle.os.grant(Request::MapAt);
    assert_eq!(middle.take(class, 2000).len(), 2000);
}

#[test]
fn single_blocks_are_other_blocks_and_zero_as_long_as_nobody_had_them() {
    let middle = middle(1 << 20);
    let class = SizeClass::for_small(4096);
    let one = || middle.central.take_one(&middle.os, &middle.pages, class);
    let [first, second] = [one(), one()];
    assert!(first.zeroed && second.zeroed && first.address != second.address);
    assert_eq!(middle.pages.class_of(second.address), class);
    middle.give(class, &[first.address]).unwrap();
    assert_eq!(one(), crate::base::Fresh { zeroed: false, ..first }, "from the array");
    middle.central.give_to_spans(&middle.pages, class, &[second.address]).unwrap();
    assert_eq!(one(), crate::base::Fresh { zeroed: false, ..second }, "from its span");
    middle.os.refuse_after(Request::MapAt, 0);
    while one().address != 0 {}
    middle.verify();
}

#[test]
fn what_is_free_in_spans_is_the_sum_over_the_classes() {
    let middle = middle(0);
    for bytes in [48, 3000, 20_000] {
        middle.take(SizeClass::for_small(bytes), 1);
    }
    let of_class = |class| middle.central.stats(class).free_blocks as usize * class.block_bytes();
    let sum: usize = SizeClass::all().map(of_class).sum();
    assert_eq!((middle.central.free_in_spans(), sum > 100_000), (sum, true));
}

#[test]
fn lists_are_right_again_in_a_child_whose_parent_was_changing_them() {
    let middle = middle(0);
    let [small, large] = [300, 5000].map(SizeClass::for_small);
    let mut kept = Vec::new();
    for class in [small, large] {
        let blocks = middle.take(class, 3 * class.shape().blocks as usize);
        middle.give(class, &blocks[10..40]).unwrap();
        kept.extend_from_slice(&blocks[..10]);
    }
    let before = [small, large].map(|class| middle.central.stats(class));
    let gone = || {
        for class in [small, large] {
            middle.central.class(class).spans.hold();
            // SAFETY: held by the line above.
            *unsafe { middle.central.class(class).spans.seized() } = SpanLists::new();
        }
    };
    std::thread::scope(|scope| scope.spawn(gone).join()).unwrap();
    // SAFETY: the thread that held the locks is gone.
    unsafe { middle.central.repair_spans(&middle.pages, true) };
    middle.verify();
    assert_eq!([small, large].map(|class| middle.central.stats(class)), before);
    assert!(middle.take(small, 100).iter().all(|block| !kept.contains(block)));
}

#[test]
fn pages_inside_spans_that_were_just_given_back_are_counted_in_a_repair() {
    let middle = middle(0);
    let class = SizeClass::for_small(512);
    let blocks = middle.take(class, class.shape().blocks as usize);
    let id = middle.pages.span_of(blocks[0]).unwrap();
    middle.give(class, &blocks[1..]).unwrap();
    let gone = || {
        middle.central.class(class).spans.hold();
        middle.pages.span(id).add_released(0b110);
    };
    std::thread::scope(|scope| scope.spawn(gone).join()).unwrap();
    // SAFETY: the thread that held the lock is gone.
    unsafe { middle.central.repair_spans(&middle.pages, true) };
    middle.verify();
    middle.pages.verify();
    assert_eq!(middle.pages.released_bytes(), 2 * crate::base::PAGE_BYTES);
    middle.take(class, blocks.len() - 1);
    assert_eq!(middle.pages.released_bytes(), 0);
}

#[test]
fn pages_without_a_live_block_are_given_back_and_blocks_on_them_still_work() {
    let middle = middle(0);
    let class = SizeClass::for_small(512);
    let blocks = middle.take(class, class.shape().blocks as usize);
    for block in &blocks {
        fill(*block, 512, 1);
    }
    let freed: Vec<_> = blocks.iter().copied().filter(|block| block % 8192 != 0).collect();
    middle.give(class, &freed).unwrap();
    let id = middle.pages.span_of(blocks[0]).unwrap();
    let half = class.shape().span_bytes() / 2;
    assert_eq!(middle.central.subrelease(&middle.os, &middle.pages, id, Ticks(1)), 0, "touched in this tick");
    middle.pages.clock.advance(Ticks(1));
    assert_eq!(middle.central.subrelease(&middle.os, &middle.pages, id, Ticks(1)), half);
    assert_eq!(middle.pages.stats().released, half as u64);
    assert_eq!(
        middle.central.subrelease(&middle.os, &middle.pages, id, Ticks(1)),
        0,
        "nothing is left to give"
    );
    let again = middle.take(class, freed.len());
    assert!(again.iter().all(|block| freed.contains(block)));
    assert_eq!(middle.pages.stats().released, 0);
    for kept in blocks.iter().filter(|block| *block % 8192 == 0) {
        assert!(holds(*kept, 512, 1), "live blocks keep their contents");
    }
    middle.give(class, &blocks).unwrap();
    middle.pages.clock.advance(Ticks(5));
    middle.central.subrelease(&middle.os, &middle.pages, id, Ticks(1));
    assert_eq!(middle.pages.stats().spans_open, 0, "an empty span goes as a whole");
}

#[test]
fn idle_pages_go_back_wherever_in_the_span_they_lie() {
    let class = SizeClass::for_small(4096);
    for kept in 1..class.shape().blocks as usize {
        let middle = middle(0);
        let blocks = middle.take(class, class.shape().blocks as usize);
        middle.give(class, &blocks[..kept - 1]).unwrap();
        middle.give(class, &blocks[kept..]).unwrap();
        middle.pages.clock.advance(Ticks(1));
        let id = middle.pages.span_of(blocks[0]).unwrap();
        let given = middle.central.subrelease(&middle.os, &middle.pages, id, Ticks(1));
        assert_eq!(given, class.shape().span_bytes() - 4096, "all but page {}", kept - 1);
        assert_eq!(middle.pages.released_bytes(), given);
    }
}

#[test]
fn the_lock_of_a_class_is_taken_anew_for_every_few_blocks() {
    let middle = middle(0);
    let class = SizeClass::for_small(64);
    let blocks = middle.take(class, 5000);
    assert!(portions(&blocks).all(|part| part.len() <= 64) && portions(&blocks).flatten().eq(&blocks));
    assert_eq!(middle.central.give_to_spans(&middle.pages, class, &blocks), Ok(()));
    let twice = middle.central.give_to_spans(&middle.pages, class, &blocks[4000..]);
    assert!(twice.is_err(), "what one portion finds is told");
}

#[test]
fn a_span_whose_neighbours_move_while_its_pages_go_is_listed_once_when_it_comes_back() {
    let middle = middle(0);
    let class = SizeClass::for_small(4096);
    let each = class.shape().blocks as usize;
    let blocks = middle.take(class, 3 * each);
    let firsts: Vec<usize> = (0..3).map(|span| blocks[span * each]).collect();
    firsts.iter().for_each(|block| middle.give(class, &[*block]).unwrap());
    middle.pages.clock.advance(Ticks(1));
    // The middle one of the list.
    for span in [1, 0, 2] {
        let id = middle.pages.span_of(firsts[span]).unwrap();
        let lists = &middle.central.class(class).spans;
        let Some(subreleasing) = lists.lock().begin_subrelease(&middle.pages, id, Ticks(0)) else { continue };
        // Its neighbours go to other lists, and one of them ends.
        for other in (0..3).filter(|other| *other != span) {
            let rest = if other == (span + 1) % 3 { each - 1 } else { each / 2 };
            let freed = &blocks[other * each + 1..other * each + 1 + rest];
            middle.central.give(&middle.os, &middle.pages, class, freed).unwrap();
        }
        lists.lock().end_subrelease(&middle.pages, id, subreleasing, 0);
        middle.verify();
        return;
    }
    panic!("no span had idle pages");
}

#[test]
fn what_threads_had_away_that_are_gone_is_listed_again_in_a_child() {
    let middle = middle(0);
    let class = SizeClass::for_small(4096);
    let blocks = middle.take(class, 2 * class.shape().blocks as usize);
    middle.give(class, &blocks[1..]).unwrap();
    let tidied = middle.pages.span_of(blocks[0]).unwrap();
    let gone = || {
        let lists = &middle.central.class(class).spans;
        let subreleasing =
            lists.lock().begin_subrelease(&middle.pages, tidied, Ticks(0)).expect("idle pages");
        lists::release_pages(&middle.os, &middle.pages, tidied, subreleasing.idle);
        lists.lock().leave();
        let opened = middle.pages.open_span(&middle.os, class).unwrap();
        lists.lock().leave();
        let early = middle.pages.open_span(&middle.os, class).unwrap();
        lists.lock().arrive(&middle.pages, class, Some(early));
        opened
    };
    let opened = std::thread::scope(|scope| scope.spawn(gone).join()).unwrap();
    let stats = middle.central.stats(class);
    // SAFETY: the thread that had them is gone.
    unsafe {
        middle.pages.repair(true);
        middle.central.repair_spans(&middle.pages, true);
    }
    middle.verify();
    assert_eq!(middle.central.stats(class).spans, stats.spans + 1, "the one that was opened counts by now");
    assert!(middle.pages.span(opened).list.get() < lists::LISTS as u8);
    let again = middle.take(class, stats.free_blocks as usize);
    assert!(again.iter().all(|block| *block != blocks[0]));
}

#[test]
fn a_span_of_which_blocks_come_back_while_its_pages_go_stays_whole_and_is_looked_at_again() {
    static MIDDLE: std::sync::OnceLock<(Middle, Vec<usize>)> = std::sync::OnceLock::new();
    fn meanwhile(request: Request) {
        let Some((middle, blocks)) = MIDDLE.get().filter(|_| request == Request::Release) else { return };
        let class = SizeClass::for_small(4096);
        // Once: the second time it would be freed twice.
        if middle.central.stats(class).free_blocks == 3 {
            let outcome = middle.central.give_to_spans(&middle.pages, class, &blocks[..1]);
            assert_eq!(outcome, Ok(()));
            assert!(!middle.take(class, 20).contains(&blocks[4]), "what is on its way is nobody's");
        }
    }
    let class = SizeClass::for_small(4096);
    let mut new = middle(0);
    new.os.meanwhile = Some(meanwhile);
    let blocks = new.take(class, class.shape().blocks as usize);
    new.give(class, &blocks[3..6]).unwrap();
    let (middle, blocks) = MIDDLE.get_or_init(|| (new, blocks));
    let id = middle.pages.span_of(blocks[0]).unwrap();
    assert_eq!(middle.central.subrelease(&middle.os, &middle.pages, id, Ticks(0)), 3 * 4096);
    middle.verify();
    middle.pages.verify();
    assert_eq!(Vec::from_iter(middle.pages.candidates_in(id.0..id.0 + 1)), [id], "block 0 left a page idle");
    assert_eq!(middle.central.subrelease(&middle.os, &middle.pages, id, Ticks(0)), 4096);
}
