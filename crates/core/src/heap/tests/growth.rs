//! New blocks as huge pages, in a heap that grows densely, and only there.

use super::janitor::{MIB, fill, free, heap, quiet_ticks};
use crate::heap::Heap;
use crate::os::fake::{Fake, Request};

#[test]
fn a_heap_that_fills_what_it_takes_gets_its_next_blocks_as_huge_pages() {
    let heap = heap();
    fill(&heap, 7, MIB);
    assert_eq!(heap.os().asked(Request::TakeHuge), 0, "half a huge page would be too much of so little");
    fill(&heap, 17, MIB);
    let asked = heap.os().asked(Request::TakeHuge);
    assert!((3..8).contains(&asked), "{asked}: about half of a small heap's blocks");
    fill(&heap, 100, MIB);
    let asked = heap.os().asked(Request::TakeHuge);
    assert!((40..56).contains(&asked), "{asked}: all but the probes");
    assert_eq!(heap.stats().huge, 2 * asked * MIB as u64);
}

#[test]
fn blocks_of_a_page_or_less_need_no_probe() {
    let heap = heap();
    fill(&heap, 60 << 10, 1 << 10);
    let asked = heap.os().asked(Request::TakeHuge);
    assert!(asked >= 60 / 2 - 4 - 1, "{asked}: all but the first 8 MiB");
    assert_eq!(heap.stats().huge, 2 * asked * MIB as u64);
}

#[test]
fn a_heap_that_leaves_its_blocks_empty_gets_none() {
    let heap = heap();
    fill(&heap, 28, MIB);
    let before = heap.os().asked(Request::TakeHuge);
    (0..200).for_each(|_| assert_ne!(heap.allocate(MIB), 0));
    (0..20).for_each(|_| assert_ne!(heap.allocate(6 * MIB), 0));
    assert!(
        heap.os().asked(Request::TakeHuge) <= before + 12,
        "what was dense before counts for three turns"
    );
    assert!(heap.stats().resident < 60 * MIB as u64);
}

/// Blocks that grow by doubling from 64 KiB to 1 MiB; the first part of each written.
fn grow(heap: &Heap<Fake>, blocks: usize, written: usize) -> Vec<usize> {
    let one = |_| {
        let (mut block, mut bytes) = (heap.allocate(64 << 10), 64 << 10);
        while bytes < MIB {
            crate::base::memory::fill(block, bytes.min(written), 1);
            bytes *= 2;
            block = heap.reallocate(block, bytes);
        }
        crate::base::memory::fill(block, bytes.min(written), 1);
        block
    };
    (0..blocks).map(one).collect()
}

#[test]
fn blocks_that_grow_and_are_filled_get_huge_pages() {
    let heap = heap();
    let blocks = grow(&heap, 200, MIB);
    let asked = heap.os().asked(Request::TakeHuge);
    assert!(asked >= 50, "{asked} of some hundred");
    free(&heap, blocks);
    heap.verify();
}

#[test]
fn blocks_that_grow_and_stay_empty_get_none() {
    let heap = heap();
    grow(&heap, 200, 1000);
    let asked = heap.os().asked(Request::TakeHuge);
    assert!(asked < 4, "{asked}");
}

#[test]
fn a_buffer_comes_whole_after_two_that_were_filled_and_not_after_two_that_were_not() {
    for (written, least, most) in [(1, 12, 12), (16, 0, 0)] {
        let heap = heap();
        for bytes in [10 * MIB, 22 * MIB] {
            let block = heap.allocate(bytes);
            crate::base::memory::fill(block, bytes / written, 1);
            heap.free(block);
        }
        let before = heap.os().asked(Request::TakeHuge);
        assert_eq!(before, 0, "nothing is known yet");
        heap.free(heap.allocate(46 * MIB));
        let asked = heap.os().asked(Request::TakeHuge);
        assert!((least..=most).contains(&asked), "{asked} with a part of {written}");
        heap.verify();
    }
}

#[test]
fn of_a_very_long_buffer_a_part_comes_ahead() {
    let heap = heap();
    for bytes in [150 * MIB, 200 * MIB] {
        let block = heap.allocate(bytes);
        crate::base::memory::fill(block, bytes, 1);
        heap.free(block);
    }
    heap.free(heap.allocate(300 * MIB));
    assert_eq!(heap.os().asked(Request::TakeHuge), 32, "of 50");
}

#[test]
fn one_buffer_that_stayed_empty_ends_what_was_learned() {
    let heap = heap();
    for bytes in [10 * MIB, 22 * MIB] {
        let block = heap.allocate(bytes);
        crate::base::memory::fill(block, bytes, 1);
        heap.free(block);
    }
    let kept: Vec<usize> = (0..16).map(|_| heap.allocate(46 * MIB)).collect();
    let asked = heap.os().asked(Request::TakeHuge);
    free(&heap, kept);
    heap.allocate(100 * MIB);
    assert_eq!(
        heap.os().asked(Request::TakeHuge),
        asked,
        "one of eight was left to page faults, and nobody wrote to it"
    );
}

#[test]
fn near_a_limit_no_memory_is_taken_ahead() {
    for option in [&b"hard_limit"[..], b"memory_limit"] {
        let heap = heap();
        heap.set_option(option, b"80M").unwrap();
        fill(&heap, 58, MIB);
        let before = heap.os().asked(Request::TakeHuge);
        fill(&heap, 20, MIB);
        assert_eq!(heap.os().asked(Request::TakeHuge), before);
    }
}

#[test]
fn a_system_without_huge_pages_is_asked_ever_more_rarely() {
    let heap = heap();
    heap.os().refuse_after(Request::TakeHuge, 0);
    fill(&heap, 400, MIB);
    assert!((1..20).contains(&heap.os().asked(Request::TakeHuge)));
    assert_eq!(heap.stats().huge, 0);
}

#[test]
fn what_a_huge_page_holds_beyond_need_is_free_memory_and_goes_back() {
    let heap = heap();
    let mut blocks = fill(&heap, 64, MIB);
    while heap.stats().dirty_free == 0 {
        blocks.extend(fill(&heap, 1, MIB));
        assert!(blocks.len() < 200);
    }
    let stats = heap.stats();
    assert_eq!(stats.resident - stats.metadata, (stats.dirty_free as usize + blocks.len() * MIB) as u64);
    quiet_ticks(&heap, 12);
    assert_eq!(heap.stats().dirty_free, 0);
    free(&heap, blocks);
    quiet_ticks(&heap, 12);
    assert!(heap.stats().resident < 2 * MIB as u64);
}

#[test]
fn a_huge_page_of_which_a_part_goes_back_is_taken_apart_first() {
    let heap = heap();
    let mut blocks = fill(&heap, 64, MIB);
    let huge = blocks.iter().position(|block| heap.pages.is_huge(*block)).unwrap();
    let taken_apart = heap.os().asked(Request::SplitHuge);
    heap.free(blocks[huge]);
    quiet_ticks(&heap, 12);
    assert_eq!(heap.os().asked(Request::SplitHuge), taken_apart + 1);
    blocks.remove(huge);
    free(&heap, blocks);
    quiet_ticks(&heap, 12);
    assert_eq!(heap.os().asked(Request::SplitHuge), taken_apart + 1, "what goes back whole is not");
}

#[test]
fn a_huge_page_with_idle_pages_between_live_blocks_is_taken_apart_first() {
    let heap = heap();
    let blocks = fill(&heap, 64 << 10, 1 << 10);
    assert_ne!(heap.stats().huge, 0);
    // Every second page is left without a block; no span is left empty.
    let most = blocks.into_iter().enumerate().filter(|(number, _)| number % 8 != 0);
    free(&heap, most.map(|(_, block)| block).collect::<Vec<_>>());
    quiet_ticks(&heap, 12);
    assert_ne!(heap.os().asked(Request::SplitHuge), 0);
    assert!(heap.stats().resident < 48 * MIB as u64);
}

#[test]
fn calloc_in_a_huge_page_writes_and_leaves_the_page_whole() {
    let heap = heap();
    let blocks = fill(&heap, 128, MIB);
    let huge = *blocks.iter().find(|block| heap.pages.is_huge(**block)).unwrap();
    heap.free(huge);
    let released = heap.os().asked(Request::Release);
    let block = heap.allocate_zeroed(1, MIB);
    assert_eq!((block, heap.os().asked(Request::Release)), (huge, released));
    assert!(crate::base::memory::holds(block, MIB, 0));
}

#[test]
fn buffers_that_grow_in_turns_hold_little_more_than_lives() {
    let heap = heap();
    let mut blocks = vec![(0usize, 0usize); 3000];
    for round in 0..2 {
        for (block, bytes) in &mut blocks {
            if *block != 0 {
                heap.free(*block);
            }
            (*block, *bytes) = (0, 0);
        }
        let (mut random, mut done) = (7 + round, 0);
        while done < blocks.len() {
            let drawn = crate::base::chance::next_random(&mut random);
            let number = (drawn >> 33) as usize % blocks.len();
            let (block, bytes) = &mut blocks[number];
            if *bytes == 64 << 10 {
                continue;
            }
            let more = (*bytes + *bytes / 2 + 200 + drawn as usize % 500).min(64 << 10);
            *block = heap.reallocate(*block, more);
            crate::base::memory::fill(*block + *bytes, more - *bytes, 1);
            *bytes = more;
            done += usize::from(more == 64 << 10);
            if done.is_multiple_of(300) {
                heap.tick(true);
            }
        }
        let stats = heap.stats();
        let (held, live) =
            (stats.resident - stats.metadata - stats.vcpu_caches, blocks.len() as u64 * (64 << 10));
        assert!(held * 100 <= live * 125, "{held} for {live} in round {round}");
    }
    free(&heap, blocks.into_iter().map(|(block, _)| block));
    heap.verify();
}
