//! The work of a tick, on a system whose clock and limits the test sets.

use crate::base::locks::Rank;
use crate::base::memory;
use crate::class::SizeClass;
use crate::heap::Heap;
use crate::os::fake::{Fake, Request};
use core::sync::atomic::Ordering::Relaxed;

pub(crate) const MIB: usize = 1 << 20;

/// A heap whose janitor is the test, which calls `tick`.
pub(crate) fn heap() -> Box<Heap<Fake>> {
    let heap = alone();
    assert!(heap.claim_janitor());
    heap
}

/// A heap without a janitor: its slow paths do the ticks.
pub(crate) fn alone() -> Box<Heap<Fake>> {
    Box::new(Heap::new(Fake::default()))
}

pub(crate) fn fill(heap: &Heap<Fake>, count: usize, bytes: usize) -> Vec<usize> {
    (0..count)
        .map(|_| {
            let block = heap.allocate(bytes);
            assert_ne!(block, 0);
            memory::fill(block, bytes, 1);
            block
        })
        .collect()
}

pub(crate) fn free(heap: &Heap<Fake>, blocks: impl IntoIterator<Item = usize>) {
    blocks.into_iter().for_each(|block| heap.free(block));
}

pub(crate) fn quiet_ticks(heap: &Heap<Fake>, count: usize) {
    (0..count).for_each(|_| heap.tick(false));
}

#[test]
fn an_idle_heap_ends_with_its_live_pages_and_nothing_else() {
    let heap = heap();
    let blocks = fill(&heap, 20_000, 1000);
    free(&heap, blocks.iter().copied().filter(|block| block / 4096 % 16 != 0));
    let live_pages: std::collections::BTreeSet<_> = blocks
        .iter()
        .filter(|block| *block / 4096 % 16 == 0)
        .flat_map(|block| [block / 4096, (block + 999) / 4096])
        .collect();
    assert!(heap.stats().resident > 15 * MIB as u64);
    quiet_ticks(&heap, 11);
    let stats = heap.stats();
    assert_eq!((stats.vcpu_caches, stats.transfer, stats.dirty_free), (0, 0, 0));
    assert_eq!(stats.resident - stats.metadata, live_pages.len() as u64 * 4096);
}

#[test]
fn what_the_heap_knows_about_blocks_goes_with_their_memory() {
    let heap = heap();
    let blocks = fill(&heap, 64 << 10, 1024);
    let before = heap.stats().metadata;
    free(&heap, blocks);
    quiet_ticks(&heap, 11);
    let after = heap.stats().metadata;
    // A bit for every 16 bytes of 64 MiB.
    assert!(after + (448 << 10) < before, "{before} bytes of metadata, then {after}");
    heap.verify();
    let again = fill(&heap, 1000, 1024);
    free(&heap, again);
}

/// Bytes in memory of what caches and transfer arrays are made of.
fn bytes_of_caches(heap: &Heap<Fake>) -> [u64; 2] {
    let mut caches = 0;
    heap.cache.each_mapping(|start, length| caches += heap.resident(start, length));
    let mut arrays = 0;
    heap.central.each_mapping(&mut |start, length| arrays += heap.resident(start, length));
    [caches, arrays]
}

#[test]
fn what_caches_are_made_of_goes_when_nobody_uses_them() {
    type Idle = fn(&Heap<Fake>);
    let ways: [Idle; 2] = [|heap| quiet_ticks(heap, 11), |heap| _ = heap.release(0)];
    for idle in ways {
        let heap = heap();
        let work = || {
            for bytes in [16, 64, 256, 1024] {
                let blocks = fill(&heap, 40_000, bytes);
                free(&heap, blocks);
            }
        };
        work();
        let used = bytes_of_caches(&heap);
        heap.tick(true);
        assert_eq!(bytes_of_caches(&heap), used, "it may be wanted");
        idle(&heap);
        let [caches, arrays] = bytes_of_caches(&heap);
        assert!(used[0] >= 2 * caches && used[1] > 64 << 10, "{used:?} bytes");
        assert_eq!(arrays, 0);
        work();
        assert!(bytes_of_caches(&heap)[0] >= 2 * caches, "as large as before");
        heap.verify();
        idle(&heap);
        assert_eq!(bytes_of_caches(&heap), [caches, arrays], "once more");
    }
}

#[test]
fn long_arrays_go_too_where_classes_were_emptied_one_by_one() {
    let heap = heap();
    let class = SizeClass::for_small(3000);
    for bytes in [16, 64, 256, 1024] {
        free(&heap, fill(&heap, 40_000, bytes));
    }
    let used = bytes_of_caches(&heap)[0];
    // One class goes on in its short array, until nothing is left there.
    for _ in 0..8 {
        fill(&heap, 1, 3000);
        heap.tick(true);
    }
    while heap.cache.cached_blocks(class) > 0 {
        fill(&heap, 1, 3000);
    }
    quiet_ticks(&heap, 11);
    assert!(used >= 2 * bytes_of_caches(&heap)[0], "{used} bytes, then {:?}", bytes_of_caches(&heap));
}

#[test]
fn a_cache_that_was_emptied_grows_again_without_the_system_and_without_waiting() {
    let heap = heap();
    let (tell, hear) = std::sync::mpsc::channel();
    let (go_on, wait) = std::sync::mpsc::channel();
    let work = || {
        free(&heap, fill(&heap, 40_000, 64));
        heap.stats().vcpu_caches
    };
    let [before, again] = std::thread::scope(|scope| {
        // Both times by one thread: each may have a cache of its own.
        let worker = move || {
            tell.send(work()).unwrap();
            wait.recv().unwrap();
            tell.send(work()).unwrap();
        };
        scope.spawn(worker);
        let before = hear.recv().unwrap();
        heap.release(0);
        heap.os().refuse_after(Request::Commit, 0);
        // As one who empties the caches of others.
        heap.each_lock(Rank::Freezer, &mut |lock| lock.hold());
        go_on.send(()).unwrap();
        let again = hear.recv_timeout(std::time::Duration::from_secs(20));
        // SAFETY: held above.
        heap.each_lock(Rank::Freezer, &mut |lock| unsafe { lock.release() });
        [before, again.expect("it waits for nobody")]
    });
    assert!(2 * again > before, "{before} bytes cached, then {again}");
}

#[test]
fn a_cache_in_use_is_left_alone() {
    let heap = heap();
    let blocks = fill(&heap, 40, 64);
    free(&heap, blocks);
    let mut kept = Vec::new();
    for _ in 0..6 {
        heap.tick(true);
        kept.push(heap.allocate(64));
        assert!(heap.stats().vcpu_caches > 0);
    }
    quiet_ticks(&heap, 3);
    assert_eq!(heap.stats().vcpu_caches, 0);
}

/// A new heap, and one that learned to wait twice as long.
fn plain_and_patient() -> [Box<Heap<Fake>>; 2] {
    let (plain, patient) = (heap(), heap());
    free(&patient, fill(&patient, 1, MIB));
    patient.release(0);
    free(&patient, fill(&patient, 1, MIB));
    // From the second tick on what went before the first may come back.
    (0..2).for_each(|_| patient.tick(true));
    assert_eq!([&plain, &patient].map(|heap| heap.is_patient()), [false, true]);
    [plain, patient]
}

#[test]
fn idle_pages_in_spans_wait_for_the_delay_where_free_memory_is_no_plenty() {
    let ticks = plain_and_patient().map(|heap| {
        // To retain less than is free is no reason to hurry.
        heap.set_option(b"retain", b"0").unwrap();
        let blocks = fill(&heap, 4 << 10, 1024);
        free(&heap, blocks.into_iter().filter(|block| block / 1024 % 64 != 0));
        let goes = |_: &usize| {
            // As many slow paths at each tick, or it would rest.
            free(&heap, fill(&heap, 600, 2048));
            heap.drain_everything();
            heap.tick(true);
            heap.stats().released > 3 * MIB as u64
        };
        (1..20).find(goes)
    });
    assert_eq!(ticks, [Some(4), Some(8)]);
}

#[test]
fn what_stands_still_in_a_cache_waits_for_the_delay_or_half_of_it_where_all_of_the_cache_does() {
    let ticks_in = |is_in_use: bool| {
        plain_and_patient().map(|heap| {
            free(&heap, fill(&heap, 40, 64));
            free(&heap, fill(&heap, 40, 2048));
            let goes = |_: &usize| {
                let before = heap.stats().vcpu_caches;
                if is_in_use {
                    heap.allocate(2048);
                }
                // The first one sees what is there.
                heap.tick(true);
                before - heap.stats().vcpu_caches > 2048
            };
            (0..20).find(goes)
        })
    };
    assert_eq!([true, false].map(ticks_in), [[Some(4), Some(8)], [Some(2), Some(4)]]);
}

#[test]
fn what_caches_held_when_the_program_stopped_goes_with_the_tick_that_empties_them() {
    for (heap, ticks) in plain_and_patient().into_iter().zip([2, 4]) {
        free(&heap, fill(&heap, 100, 2048));
        (0..ticks).for_each(|_| heap.tick(true));
        assert!(heap.stats().vcpu_caches > 0);
        heap.tick(false);
        assert_eq!((heap.stats().vcpu_caches, heap.stats().dirty_free), (0, 0));
    }
}

#[test]
fn a_refused_release_is_tried_again() {
    let heap = heap();
    let blocks = fill(&heap, 5000, 1000);
    free(&heap, blocks);
    heap.os().refuse_after(Request::Release, 0);
    quiet_ticks(&heap, 12);
    assert!(heap.stats().resident > 4 * MIB as u64, "nothing went, nothing broke");
    heap.os().grant(Request::Release);
    quiet_ticks(&heap, 1);
    assert!(heap.stats().resident < MIB as u64);
}

#[test]
fn one_thread_does_the_work_on_its_slow_paths_when_the_time_has_come() {
    let heap = alone();
    let blocks = fill(&heap, 3000, 2000);
    free(&heap, blocks);
    let before = heap.stats().ticks;
    for round in 0..6u64 {
        heap.os().clock.store((round + 1) * 250_000_000, Relaxed);
        (0..64).for_each(|_| heap.free(heap.allocate(MIB)));
    }
    assert!(heap.stats().ticks >= before + 5);
    assert!(heap.stats().vcpu_caches < 1000);
}

#[test]
fn slow_paths_tick_once_in_a_quarter_of_the_delay_unless_a_thread_does() {
    let heap = alone();
    // As long as there is no memory for its tables a heap has no ticks.
    heap.os().refuse_after(Request::Reserve, 0);
    heap.tick(true);
    heap.os().grant(Request::Reserve);
    let ticks_at = |milliseconds: u64| {
        heap.os().clock.store(milliseconds * 1_000_000, Relaxed);
        let before = heap.stats().ticks;
        (0..64).for_each(|_| heap.free(heap.allocate(MIB)));
        heap.stats().ticks - before
    };
    assert_eq!([0, 249, 251, 499, 502].map(ticks_at), [1, 0, 1, 0, 1]);
    assert!(heap.claim_janitor());
    assert_eq!(ticks_at(5000), 0);
    heap.unclaim_janitor();
    assert_eq!([5000, 5001].map(ticks_at), [1, 0]);
}

#[test]
fn dense_warm_blocks_get_huge_pages_a_few_at_a_time_and_sparse_ones_never() {
    let heap = heap();
    heap.os().refuse_after(Request::TakeHuge, 0);
    let dense = fill(&heap, 40, 2 * MIB);
    quiet_ticks(&heap, 14);
    assert_eq!(heap.os().asked(Request::Collapse), 0, "not while they are new");
    quiet_ticks(&heap, 3);
    assert!((2..=6).contains(&heap.os().asked(Request::Collapse)), "two at a tick");
    quiet_ticks(&heap, 30);
    assert_eq!((heap.os().asked(Request::Collapse), heap.stats().huge), (40, 80 * MIB as u64));
    free(&heap, dense);
    quiet_ticks(&heap, 6);
    assert_eq!(heap.stats().huge, 0);
    let sparse: Vec<_> = (0..40).map(|_| heap.allocate(2 * MIB)).collect();
    quiet_ticks(&heap, 40);
    assert_eq!(heap.os().asked(Request::Collapse), 40, "untouched blocks are not dense");
    free(&heap, sparse);
}

#[test]
fn huge_pages_take_a_thousandth_of_a_cpu() {
    const MILLISECOND: u64 = 1_000_000;
    let mut os = Fake::default();
    os.collapse_takes = MILLISECOND;
    let heap = Box::new(Heap::new(os));
    heap.set_option(b"huge_pages", b"off").unwrap();
    fill(&heap, 40, 2 * MIB);
    heap.set_option(b"huge_pages", b"on").unwrap();
    let made_at = |milliseconds: u64| {
        heap.os().clock.store(milliseconds * MILLISECOND, Relaxed);
        quiet_ticks(&heap, 20);
        (heap.os().asked(Request::Collapse), heap.stats().huge_stall / MILLISECOND)
    };
    // At first one is warm, then two at a tick are; from the beginning on a thousand times as long is waited.
    let times = [10_000, 10_999, 11_000, 12_999, 13_000];
    assert_eq!(times.map(made_at), [(1, 1), (1, 1), (3, 3), (3, 3), (5, 5)]);
}

#[test]
fn huge_pages_can_be_switched_off_by_option_and_by_the_system() {
    for by_option in [true, false] {
        let mut os = Fake::default();
        if !by_option {
            os.huge_pages = crate::os::HugePages::Never;
        }
        let heap = Box::new(Heap::new(os));
        if by_option {
            heap.set_option(b"huge_pages", b"off").unwrap();
        }
        fill(&heap, 40, 2 * MIB);
        quiet_ticks(&heap, 40);
        assert_eq!(heap.os().asked(Request::Collapse) + heap.os().asked(Request::TakeHuge), 0);
    }
}

#[test]
fn empty_blocks_are_left_out_of_core_files_until_they_are_used_again() {
    let heap = heap();
    let blocks = fill(&heap, 4, 2 * MIB);
    free(&heap, blocks);
    quiet_ticks(&heap, 6);
    let left_out = heap.os().asked(Request::SetDumped);
    assert!(left_out >= 1, "in one call, if they lie side by side");
    fill(&heap, 4, 2 * MIB);
    assert_eq!(heap.os().asked(Request::SetDumped), left_out + 4);
}
