//! Memory that guards, waiting runs and quarantine hold, near a limit and in the figures.

use super::*;

#[test]
fn guards_and_runs_that_wait_hold_no_memory_and_do_not_count_for_limits() {
    let heap = hardened();
    let used_before = heap.allocate(300_000);
    fill(used_before, 300_000, 1);
    heap.free(used_before);
    heap.empty_quarantine();
    let blocks: Vec<usize> = (0..20).map(|_| heap.allocate(40_000)).collect();
    blocks.iter().for_each(|block| fill(*block, 40_000, 1));
    let pages_of_blocks = 20 * 11 * 4096;
    let footprint = || heap.heap.pages.footprint() - heap.heap.pages.dirty_free_bytes();
    assert!(footprint() <= pages_of_blocks, "{}", footprint());
    for block in &blocks {
        let live = heap.inspect(*block).unwrap();
        let ((run, body), guard) = (heap.run_of(&live), heap.guard_of(&live));
        let rest = run + heap.run_bytes(run) - guard;
        let resident = |start, bytes| heap.heap.os.resident_bytes(start, bytes).unwrap();
        assert_eq!((resident(run, body - run), resident(guard, rest)), (0, 0));
    }
    let grown = heap.reallocate(blocks[0], 60_000);
    assert!(footprint() <= pages_of_blocks + 5 * 4096 + 11 * 4096, "{}", footprint());
    heap.free(grown);
    blocks[1..].iter().for_each(|block| heap.free(*block));
    assert!(footprint() <= pages_of_blocks, "all of them wait, with their memory: {}", footprint());
    let longer: Vec<usize> = (0..20).map(|_| heap.allocate(100_000)).collect();
    longer.iter().for_each(|block| fill(*block, 100_000, 1));
    heap.empty_quarantine();
    longer.iter().for_each(|block| heap.free(*block));
    assert_eq!(footprint(), 0, "longer ones wait without");
    heap.empty_quarantine();
    heap.audit();
    assert_eq!(heap.heap.pages.released_bytes(), 0);
}

#[test]
fn near_the_soft_limit_blocks_above_48_kib_do_not_wait() {
    let heap = hardened();
    heap.heap.options.set(b"guard_budget", b"0", Origin::Environment).unwrap();
    let live: Vec<usize> = (0..100).map(|_| heap.allocate(100_000)).collect();
    let reused = || {
        let block = heap.allocate(100_000);
        heap.free(block);
        heap.allocate(100_000) == block
    };
    assert!(!reused());
    let footprint = heap.heap.pages.footprint();
    heap.heap.pages.limits.set(Some(footprint + footprint / 32), None);
    let small = heap.allocate(100);
    assert!((0..3).any(|_| reused()), "it comes back at once");
    heap.free(small);
    assert_ne!(heap.allocate(100), small, "small ones wait as ever");
    heap.heap.pages.limits.set(Some(footprint * 2), None);
    assert!(!(0..3).any(|_| reused()));
    live.into_iter().for_each(|block| heap.free(block));
}

#[test]
fn what_is_in_quarantine_is_told_apart_from_what_lives() {
    let heap = hardened();
    let kept: Vec<usize> =
        (0..10).flat_map(|_| [100, 5000, 50_000, 300_000].map(|bytes| heap.allocate(bytes))).collect();
    let before = heap.heap.stats();
    assert_eq!((before.quarantined, before.large_blocks), (0, 20));
    for _ in 0..3 {
        let more: Vec<usize> =
            (0..40).flat_map(|_| [100, 5000, 50_000, 300_000].map(|bytes| heap.allocate(bytes))).collect();
        more.iter().for_each(|block| heap.free(*block));
        let stats = heap.heap.stats();
        assert_eq!((stats.live, stats.large_blocks, stats.large), (before.live, 20, before.large));
        assert!(stats.quarantined >= 32 * 65_536, "32 runs at the least: {}", stats.quarantined);
    }
    let stats = heap.heap.stats();
    let sum: u64 =
        [stats.live_requested, stats.waste(), stats.quarantined, stats.vcpu_caches, stats.transfer]
            .into_iter()
            .chain([stats.free_in_spans, stats.span_tails, stats.dirty_free, stats.metadata])
            .sum();
    assert_eq!(sum - stats.not_in_memory, stats.resident, "{stats:?}");
    heap.empty_quarantine();
    let after = heap.heap.stats();
    assert_eq!((after.quarantined, after.live, after.large_blocks), (0, before.live, 20));
    kept.into_iter().for_each(|block| heap.free(block));
    heap.release(0);
    let stats = heap.heap.stats();
    assert_eq!((stats.live, stats.quarantined, stats.large_blocks), (0, 0, 0));
}
