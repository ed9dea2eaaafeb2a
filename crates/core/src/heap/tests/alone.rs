//! Memory that goes back without a janitor: at once, and at ticks that light traffic does; and memory that stays for a
//! program that wants it again.

use super::janitor::{MIB, alone, fill, free};
use crate::heap::Heap;
use crate::os::Os;
use crate::os::fake::Fake;
use std::sync::atomic::Ordering::Relaxed;

const MILLISECOND: u64 = 1_000_000;

fn in_memory(heap: &Heap<Fake>) -> usize {
    heap.stats().resident as usize
}

/// As with restartable sequences, whose fast paths nobody sees.
fn with_sequences() -> Box<Heap<Fake>> {
    let mut os = Fake::default();
    os.has_sequences = true;
    Box::new(Heap::new(os))
}

/// A few blocks come and go, ten times a second, for so many seconds.
fn light_traffic(heap: &Heap<Fake>, seconds: u64) {
    for _ in 0..10 * seconds {
        heap.os().clock.fetch_add(100 * MILLISECOND, Relaxed);
        heap.free(heap.allocate(100));
    }
}

#[test]
fn a_burst_that_silence_follows_leaves_little() {
    for (count, bytes) in [(1, 400 * MIB), (400, MIB), (4000, 100 << 10), (20_000, 20_000), (400_000, 1000)] {
        let heap = alone();
        let blocks = fill(&heap, count, bytes);
        free(&heap, blocks);
        let left = in_memory(&heap);
        assert!(left < 32 * MIB + count * bytes / 10, "{left} bytes of {count} times {bytes}");
        heap.verify();
    }
}

#[test]
fn light_traffic_has_the_rest_go_and_then_nobody_looks_any_more() {
    for heap in [alone(), with_sequences()] {
        let live = fill(&heap, 1000, 1000);
        let blocks = fill(&heap, 400_000, 700);
        free(&heap, blocks);
        light_traffic(&heap, 4);
        assert!(in_memory(&heap) < 12 * MIB, "{}", in_memory(&heap));
        assert_eq!(
            heap.cache.front.is_direct(),
            heap.cache.front.is_on(),
            "requests are served unseen again"
        );
        let ticks = heap.stats().ticks;
        light_traffic(&heap, 4);
        assert!(heap.stats().ticks <= ticks + 2);
        free(&heap, live);
    }
}

#[test]
fn while_memory_waits_to_go_few_requests_of_a_busy_program_look_at_the_clock() {
    let heap = with_sequences();
    let blocks = fill(&heap, 400_000, 700);
    free(&heap, blocks);
    assert!(!heap.cache.front.is_direct(), "something waits");
    for bytes in [100, 2000] {
        let before = heap.os().clock_asked.load(Relaxed);
        (0..50_000).for_each(|_| heap.free(heap.reallocate(0, bytes)));
        let asked = heap.os().clock_asked.load(Relaxed) - before;
        assert!(
            asked < 3 * 50_000 * bytes / (64 << 10) + 100,
            "{asked} of 50,000 requests for {bytes} bytes"
        );
    }
}

#[test]
fn light_traffic_has_the_rest_go_after_a_burst_that_took_some_ticks() {
    for bytes in [700, 20_000] {
        let heap = with_sequences();
        let blocks = fill(&heap, 200 * MIB / bytes, bytes);
        for part in blocks.chunks(blocks.len() / 5) {
            heap.os().clock.fetch_add(300 * MILLISECOND, Relaxed);
            free(&heap, part.iter().copied());
        }
        light_traffic(&heap, 4);
        assert!(in_memory(&heap) < 12 * MIB, "{} bytes after {bytes}", in_memory(&heap));
        assert!(heap.cache.front.is_direct());
    }
}

#[test]
fn what_may_stay_by_the_option_stays_as_it_becomes_free() {
    let heap = alone();
    heap.set_option(b"retain", b"1G").unwrap();
    let blocks = fill(&heap, 100, MIB);
    free(&heap, blocks);
    assert!(in_memory(&heap) >= 100 * MIB);
}

#[test]
fn what_a_program_fills_and_frees_again_and_again_stays_from_the_second_time_on() {
    for (count, bytes) in [(100, MIB), (100_000, 1000)] {
        let heap = alone();
        let given = |heap: &Heap<Fake>| heap.stats().given_back as usize;
        for _ in 0..2 {
            let blocks = fill(&heap, count, bytes);
            free(&heap, blocks);
        }
        let before = given(&heap);
        for _ in 0..20 {
            let blocks = fill(&heap, count, bytes);
            free(&heap, blocks);
        }
        let gone = given(&heap) - before;
        assert!(gone < 2 * count * bytes, "{gone} bytes went in 20 rounds of {}", count * bytes);
    }
}

#[test]
fn no_more_stays_than_what_came_back_where_threads_are_at_different_places() {
    let heap = alone();
    let [first, others] = [100, 300].map(|count| fill(&heap, count, MIB));
    free(&heap, first);
    // Another thread fills on, and takes what went again.
    let gone = heap.stats().given_back as usize;
    let last = fill(&heap, 100, MIB);
    free(&heap, others);
    free(&heap, last);
    let left = in_memory(&heap);
    assert!(gone > 8 * MIB && left < gone + 24 * MIB, "{left} bytes stay after {gone} came back");
    heap.verify();
}

#[test]
fn a_process_gets_a_janitor_and_nobody_looks_any_more() {
    let heap = with_sequences();
    let live = fill(&heap, 20, MIB);
    free(&heap, live);
    assert!(!heap.cache.front.is_direct(), "something waits");
    assert!(heap.claim_janitor());
    heap.free(heap.allocate(100));
    assert!(heap.cache.front.is_direct());
}

#[test]
fn a_ring_from_outside_is_heard_by_a_request_that_the_cache_could_serve() {
    let heap = with_sequences();
    heap.free(heap.allocate(100));
    assert!(heap.cache.front.is_direct());
    // As the tool does it.
    heap.cache.front.set_direct(false);
    heap.free(heap.allocate(100));
    assert!(heap.cache.front.is_direct());
}

#[test]
fn what_hardly_written_buffers_wrote_does_not_stay_under_later_ones() {
    let heap = super::janitor::heap();
    let write = |block: usize, bytes: usize, seed: usize| {
        for place in [0, seed * 7919 % bytes, bytes - 1] {
            crate::base::memory::fill(block + place, 1, 1);
        }
    };
    let bytes_of = |turn: usize| MIB + turn * 104_729 % (8 * MIB);
    let mut live: Vec<usize> = (0..20).map(|turn| heap.allocate(bytes_of(turn))).collect();
    for turn in 0..3000 {
        let place = turn * 31 % live.len();
        heap.free(live[place]);
        live[place] = heap.allocate(bytes_of(turn));
        write(live[place], bytes_of(turn), turn);
    }
    let there: usize =
        live.iter().map(|block| heap.os().resident_bytes(*block, heap.usable_bytes(*block)).unwrap()).sum();
    assert!(there < 8 * MIB, "{there} bytes under {} blocks of which each wrote three pages", live.len());
    free(&heap, live);
    heap.verify();
}

#[test]
fn a_child_process_learns_anew_what_is_wanted_again() {
    let heap = alone();
    let burst = || {
        let blocks = fill(&heap, 60, MIB);
        free(&heap, blocks);
        in_memory(&heap)
    };
    let held = [burst(), burst(), burst()];
    assert!(held[0] < 32 * MIB && held[2] > 50 * MIB, "{held:?}");
    // SAFETY: nobody else uses the heap.
    unsafe { heap.engine.repair(&*heap, true) };
    let held = burst();
    assert!(held < 32 * MIB, "{held}");
}
