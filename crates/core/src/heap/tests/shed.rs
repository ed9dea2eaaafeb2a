//! The memory that goes while a heap grows, when, and in which portions.

use super::janitor::{MIB, fill, free, heap};
use crate::base::sync::Ordering;
use crate::heap::Heap;
use crate::os::fake::{Fake, Request};
use crate::upkeep::{BYTES_PER_PORTION, LEAST_GROWTH, SPANS_PER_PORTION};

/// Frees all blocks but one in so many.
fn free_but(heap: &Heap<Fake>, blocks: &[usize], survivor: usize) {
    free(heap, blocks.iter().enumerate().filter(|(index, _)| index % survivor != 0).map(|(_, block)| *block));
}

/// A heap with 64 MiB in spans, of which one KiB in so many is in use.
fn sparse(survivor: usize) -> Box<Heap<Fake>> {
    let heap = heap();
    let blocks = fill(&heap, 64 << 10, 1024);
    heap.drain_everything();
    // From now on only growth gives something back.
    heap.tick(true);
    free_but(&heap, &blocks, survivor);
    heap.drain_everything();
    heap
}

/// A heap with 50 MiB in large blocks and 150 MiB of free runs between them, of which the system takes nothing.
fn with_free_runs() -> Box<Heap<Fake>> {
    let heap = heap();
    let blocks = fill(&heap, 400, MIB / 2);
    free_but(&heap, &blocks, 4);
    heap.os.refuse_after(Request::Release, 0);
    // The swing of large blocks is forgotten.
    (0..3).for_each(|_| heap.tick(true));
    heap
}

/// Sheds a portion; returns the bytes that it gave back.
fn portion(heap: &Heap<Fake>) -> usize {
    let before = heap.stats().given_back;
    heap.upkeep.shed(&heap.floors);
    (heap.stats().given_back - before) as usize
}

#[test]
fn a_heap_that_grows_although_it_holds_plenty_gives_some_back_before_the_next_tick() {
    let held_after_growth = |survivor: usize| {
        let heap = sparse(survivor);
        fill(&heap, 16 << 10, 4096);
        let stats = heap.stats();
        (stats.resident - stats.metadata) as usize
    };
    let live = 64 * MIB + 64 * MIB / 64 * 4;
    assert!(held_after_growth(64) < live + 32 * MIB, "one block in 64 holds its page of 4 KiB");
    assert!(held_after_growth(2) > 120 * MIB, "no page is idle");
}

#[test]
fn where_the_system_takes_nothing_a_growing_heap_asks_once_a_step() {
    let heap = with_free_runs();
    let before = heap.os.asked(Request::Release);
    fill(&heap, 60, 2 * MIB);
    let asked = heap.os.asked(Request::Release) - before;
    // Each step asks about some hundred runs. Were it each slow path, it would be seven times as often.
    assert!((1..3000).contains(&asked), "{asked} times in a growth of 120 MiB");
}

#[test]
fn idle_pages_go_in_portions_until_no_more_is_plenty() {
    let heap = sparse(64);
    let free = |heap: &Heap<Fake>| heap.upkeep.holding_now(&heap.floors).free;
    let most_at_once = SPANS_PER_PORTION as usize * (64 << 10) + BYTES_PER_PORTION;
    let portions: Vec<usize> = (0..40).map(|_| portion(&heap)).take_while(|bytes| *bytes > 0).collect();
    assert!(portions.iter().all(|bytes| *bytes <= most_at_once), "{portions:?}");
    assert!((10..40).contains(&portions.len()), "{portions:?}");
    assert!((8 * MIB..17 * MIB).contains(&free(&heap)), "{} bytes are free", free(&heap));
    assert_eq!(
        heap.upkeep.shedding.take_shed(),
        portions.iter().sum::<usize>(),
        "the next tick learns from it"
    );
    assert_eq!(heap.upkeep.shedding.take_shed(), 0);
}

#[test]
fn free_runs_go_in_portions_too() {
    let heap = with_free_runs();
    heap.os.grant(Request::Release);
    let portions: Vec<usize> = (0..100).map(|_| portion(&heap)).take_while(|bytes| *bytes > 0).collect();
    assert!(portions.iter().all(|bytes| *bytes <= 2 * BYTES_PER_PORTION), "{portions:?}");
    let holding = heap.upkeep.holding_now(&heap.floors);
    assert!(holding.free <= holding.most && holding.free + 2 * BYTES_PER_PORTION > holding.most);
}

#[test]
fn what_may_be_retained_does_not_go() {
    let heap = sparse(64);
    heap.set_option(b"retain", b"1G").unwrap();
    assert_eq!(portion(&heap), 0);
    heap.set_option(b"retain", b"0").unwrap();
    assert!(portion(&heap) > 0);
}

#[test]
fn it_is_looked_at_again_when_the_heap_has_grown_by_a_step() {
    let heap = heap();
    // Somebody is at it, so what is due stays due.
    heap.upkeep.shedding.is_under_way.store(true, Ordering::Relaxed);
    let is_due = |bytes: usize| {
        heap.upkeep.watch_growth(&heap.floors, bytes);
        let start = heap.pages.footprint();
        let grown = || heap.pages.footprint() - start;
        while !heap.pages.limits.footprint.is_passed() {
            fill(&heap, 1, 300_000);
        }
        grown()
    };
    let near = |bytes: usize, step: usize| (step..step + MIB).contains(&bytes);
    assert!(near(is_due(0), LEAST_GROWTH) && near(is_due(256 * MIB), 32 * MIB));
}

#[test]
fn once_it_has_begun_it_goes_on_until_no_more_is_plenty() {
    let heap = with_free_runs();
    heap.os.grant(Request::Release);
    // Somebody is at it, so what is due stays due. The free runs are too short for these blocks.
    heap.upkeep.shedding.is_under_way.store(true, Ordering::Relaxed);
    while !heap.pages.limits.footprint.is_passed() {
        fill(&heap, 1, 2 * MIB);
    }
    heap.upkeep.shedding.is_under_way.store(false, Ordering::Relaxed);
    assert!(heap.upkeep.holding_now(&heap.floors).free > 64 * MIB);
    for _ in 0..1000 {
        if heap.pages.limits.footprint.is_passed() {
            heap.upkeep.shed(&heap.floors);
        }
    }
    let holding = heap.upkeep.holding_now(&heap.floors);
    assert!(holding.free <= holding.most, "{} of {} bytes", holding.free, holding.most);
}

#[test]
fn a_child_sheds_although_a_thread_of_its_parent_did_when_it_was_forked() {
    let heap = sparse(64);
    heap.upkeep.shedding.is_under_way.store(true, Ordering::Relaxed);
    assert_eq!(portion(&heap), 0, "one thread at a time");
    heap.upkeep.forget_threads(heap.pages.clock.load());
    assert!(portion(&heap) > 0);
}

#[test]
fn a_little_that_is_needed_again_of_much_that_was_shed_is_no_reason_for_patience() {
    let heap = sparse(64);
    let shed: usize = (0..40).map(|_| portion(&heap)).sum();
    fill(&heap, 4 << 10, 1024);
    // The next tick itself gives nothing.
    heap.os.refuse_after(Request::Release, 0);
    heap.tick(true);
    assert!(shed > 32 * MIB && !heap.is_patient());
}
