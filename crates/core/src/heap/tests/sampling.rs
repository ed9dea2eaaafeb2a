use crate::base::memory::{fill, holds};
use crate::heap::*;
use crate::observe::Probes;
use crate::os::Linux;
use crate::os::fake::Fake;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

const HOOKS: Hooks = Hooks { before_guards: Some(|| ()), unwind: |_| 0 };

#[test]
fn a_heap_that_profiles_knows_its_samples_and_forgets_freed_ones() {
    let heap = Box::new(Heap::with_hooks(Fake::default(), HOOKS));
    assert!(heap.start_profile(1) && heap.is_profiling());
    let blocks: Vec<usize> = [64, 100, 5000, 300_000].into_iter().map(|bytes| heap.allocate(bytes)).collect();
    let aligned = heap.allocate_aligned(4096, 100);
    let zeroed = heap.allocate_zeroed(1, 1 << 20);
    assert_eq!(aligned % 4096, 0);
    let mut seen = Vec::new();
    heap.each_live_sample(|sample| {
        assert_eq!(sample.stack.len(), 3);
        // Nothing is held: the reader may allocate.
        heap.free(heap.allocate(100));
        seen.push((sample.address, sample.bytes));
    });
    for (block, bytes) in
        blocks.iter().zip([64, 100, 5000, 300_000]).chain([(&aligned, 100), (&zeroed, 1 << 20)])
    {
        assert!(seen.contains(&(*block, bytes)), "{bytes}");
    }
    let moved = heap.reallocate(blocks[3], 900_000);
    let mut sizes = Vec::new();
    heap.each_live_sample(|sample| sizes.push((sample.address, sample.bytes)));
    assert!(sizes.contains(&(moved, 900_000)) && !sizes.iter().any(|(_, bytes)| *bytes == 300_000));
    blocks[..3].iter().chain([&aligned, &zeroed, &moved]).for_each(|block| heap.free(*block));
    let stats = heap.profile_stats();
    assert_eq!((stats.live_samples, stats.live_bytes), (0, 0));
    heap.stop_profile();
    heap.free(heap.allocate(100));
    assert_eq!(heap.profile_stats().allocated_bytes, stats.allocated_bytes);
    assert!(!heap.write_profile(c"/nonexistent/file"));
}

/// A program that trims what has bytes to spare would trim samples, and no others.
#[test]
fn a_sample_has_as_many_usable_bytes_as_any_block_of_its_size() {
    let heap = Box::new(Heap::with_hooks(Fake::default(), HOOKS));
    // One byte of a mean of one is a sample in two cases of three only.
    let sizes = [20, 40, 100, 1003, 4000, 5000, 17_000, 24_000, 25_000, 100_000];
    // Guarded samples end where the request ends.
    heap.set_option(b"guarded_rate", b"0").unwrap();
    let plain = sizes.map(|bytes| heap.usable_bytes(heap.allocate(bytes)));
    assert!(heap.start_profile(1));
    for (bytes, usable) in sizes.into_iter().zip(plain) {
        let sample = heap.allocate(bytes);
        assert_eq!(heap.usable_bytes(sample), usable, "{bytes}");
        fill(sample, usable, 7);
        assert_eq!(heap.reallocate(sample, usable), sample, "{bytes}");
        let moved = heap.reallocate(sample, 3 * usable);
        assert!(holds(moved, usable, 7), "{bytes}");
        heap.free(moved);
    }
    let sample = heap.allocate(1003);
    heap.stop_profile();
    assert_eq!(heap.usable_bytes(sample), 1024, "as long as the program has it");
    // A block for which the run serves again has the whole run.
    heap.free(sample);
    let run = heap.large.allocate(&heap.os, &heap.pages, 16_000, 16).unwrap().address;
    assert_eq!((run, heap.usable_bytes(run)), (sample, 16 << 10));
}

#[test]
fn a_profile_says_how_much_was_requested_however_much_larger_the_blocks_are() {
    const COUNT: usize = 200_000;
    for bytes in [1, 17, 33, 100, 1025, 4097] {
        let heap = Box::new(Heap::with_hooks(Linux::new(), HOOKS));
        heap.free(heap.allocate(1));
        // Some 3,000 samples: 2 % are the deviation to expect.
        assert!(heap.start_profile((COUNT * bytes) as u64 / 3000));
        (0..COUNT).for_each(|_| _ = heap.allocate(bytes));
        let share = heap.profile_stats().allocated_bytes as f64 / (COUNT * bytes) as f64;
        assert!((0.9..1.1).contains(&share), "{bytes}: {share} of what was requested");
    }
}

/// Takes and frees blocks by every way in, all from the cache.
#[test]
fn what_is_taken_from_the_cache_and_freed_again_counts_as_allocated() {
    const COUNT: usize = 60_000;
    type Way = (&'static str, usize, fn(&Heap<Linux>) -> usize);
    let ways: [Way; 6] = [
        ("malloc", 100, |heap| heap.allocate(100)),
        ("malloc of 8 KiB", 8192, |heap| heap.allocate(8192)),
        ("calloc", 48, |heap| heap.allocate_zeroed(3, 16)),
        ("calloc of 20 KiB", 20_000, |heap| heap.allocate_zeroed(1, 20_000)),
        ("aligned", 200, |heap| heap.allocate_aligned(64, 200)),
        ("realloc", 300, |heap| heap.reallocate(0, 300)),
    ];
    for (name, bytes, way) in ways {
        let heap = Box::new(Heap::with_hooks(Linux::new(), HOOKS));
        heap.free(heap.allocate(1));
        // Some 2,000 samples: 2.2 % are the deviation to expect, and five of them are allowed.
        assert!(heap.start_profile((COUNT * bytes) as u64 / 2000));
        (0..COUNT).for_each(|_| heap.free(way(&heap)));
        let stats = heap.profile_stats();
        let share = stats.allocated_bytes as f64 / (COUNT * bytes) as f64;
        assert!((0.89..1.11).contains(&share), "{name}: {share} of what was requested");
        assert_eq!(stats.live_samples, 0, "{name}");
        heap.stop_profile();
        (0..100).for_each(|_| heap.free(way(&heap)));
        assert_eq!(heap.profile_stats().allocated_bytes, stats.allocated_bytes, "{name}");
        assert_eq!(heap.cache.front.is_direct(), heap.cache.front.is_on(), "{name}");
    }
}

/// Resizes blocks that may stay where they are: each time a free and an allocation, for watchers.
#[test]
fn what_realloc_leaves_where_it_is_counts_as_freed_and_allocated() {
    const COUNT: usize = 40_000;
    let heap = Box::new(Heap::with_hooks(Linux::new(), HOOKS));
    heap.free(heap.allocate(1));
    // Some 2,000 samples: 2.2 % are the deviation to expect, and five of them are allowed.
    assert!(heap.start_profile((COUNT * 100) as u64 / 2000));
    let mut block = heap.allocate(100);
    for round in 0..COUNT {
        fill(block, 99, 3);
        block = heap.reallocate(block, 100 - round % 2);
        assert!(holds(block, 99, 3));
    }
    heap.free(block);
    let stats = heap.profile_stats();
    let share = stats.allocated_bytes as f64 / (COUNT as f64 * 99.5);
    assert!((0.89..1.11).contains(&share), "{share} of what was requested");
    assert_eq!(stats.live_samples, 0);
}

#[test]
fn a_hardened_heap_knows_its_samples_where_they_lie_and_forgets_freed_ones() {
    use crate::hardened::Hardened;
    use crate::heap::Blocks;
    let heap = Box::new(Hardened::with_hooks(Fake::default(), Hooks { before_guards: None, unwind: |_| 0 }));
    let before = heap.allocate(64);
    assert!(heap.heap().start_profile(1) && heap.heap().is_profiling());
    let sizes = [64, 100, 5000, 300_000];
    let blocks: Vec<usize> = sizes.into_iter().map(|bytes| heap.allocate(bytes)).collect();
    let seen = || {
        let mut seen = Vec::new();
        heap.heap().each_live_sample(|sample| seen.push((sample.address, sample.bytes)));
        seen.sort();
        seen
    };
    let mut known: Vec<_> = blocks.iter().copied().zip(sizes).collect();
    known.sort();
    assert_eq!(seen(), known);
    assert!(heap.resize_in_place(blocks[1], 1, 99));
    assert!(seen().contains(&(blocks[1], 99)) && seen().len() == sizes.len());
    heap.free(before);

    // A signal handler interrupts a slow path, which may hold the lock of the profile.
    let entry = heap.heap().enter_for_test();
    heap.free(blocks[0]);
    let unseen = heap.allocate(100);
    drop(entry);
    heap.free(unseen);
    heap.heap().inside(|_| ());
    assert_eq!(seen().len(), sizes.len() - 1);
    blocks[1..].iter().for_each(|block| heap.free(*block));
    assert_eq!((heap.heap().profile_stats().live_samples, heap.heap().profile_stats().live_bytes), (0, 0));
    heap.heap().stop_profile();
    heap.free(heap.allocate(100));
    assert!(seen().is_empty());
}

/// The figures that a heap told its probes: the sum of the weights, and blocks announced and not yet freed.
static WEIGHT: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static ATTACHED: AtomicU16 = AtomicU16::new(0);

extern "C" fn count_allocated(_: usize, _: usize, weight: u64) {
    WEIGHT.fetch_add(weight, Ordering::Relaxed);
    LIVE.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn count_freed(_: usize) {
    LIVE.fetch_sub(1, Ordering::Relaxed);
}

#[test]
fn a_tracer_is_told_what_a_profile_knows() {
    static PROBES: Probes = Probes { semaphore: &ATTACHED, allocated: count_allocated, freed: count_freed };
    let heap = Box::new(Heap::with_hooks(Linux::new(), HOOKS).with_probes(PROBES));
    let look = |attached| {
        ATTACHED.store(attached, Ordering::Relaxed);
        heap.free(heap.allocate(1 << 20));
    };
    look(0);
    assert!(heap.start_profile(20_000));
    heap.free(heap.allocate(1 << 20));
    let before = heap.profile_stats();
    assert_eq!(WEIGHT.load(Ordering::Relaxed), 0, "no tracer");
    look(1);
    WEIGHT.store(0, Ordering::Relaxed);
    let large = heap.allocate_zeroed(1, 1 << 20);
    let grown = heap.reallocate(large, 3 << 20);
    let blocks: Vec<usize> = (0..20_000).map(|number| heap.allocate(1 + number % 5000)).collect();
    let after = heap.profile_stats();
    // The block that made the heap look.
    let by_look = 1 << 20;
    assert_eq!(WEIGHT.load(Ordering::Relaxed), after.allocated_bytes - before.allocated_bytes - by_look);
    assert_eq!(LIVE.load(Ordering::Relaxed), after.live_samples - before.live_samples);
    heap.stop_profile();
    assert!(!heap.cache.front.is_direct(), "the tracer is still there");
    look(0);
    assert_eq!(heap.cache.front.is_direct(), heap.cache.front.is_on());
    blocks.iter().for_each(|block| heap.free(*block));
    heap.free(grown);
    assert_eq!(LIVE.load(Ordering::Relaxed), 0, "frees are told of also after the tracer has gone");

    // Nothing comes to the slow path: the janitor looks.
    heap.set_option(b"release_delay", b"40ms").unwrap();
    ATTACHED.store(1, Ordering::Relaxed);
    assert!(!heap.is_watched());
    std::thread::scope(|scope| {
        scope.spawn(|| heap.run_janitor(false));
        for _ in 0..4000 {
            if !heap.is_watched() {
                std::thread::sleep(core::time::Duration::from_millis(5));
            }
        }
        heap.retire_janitor();
    });
    assert!(heap.is_watched());
}

const PAGE: usize = 4096;

/// A heap whose every small allocation is guarded as long as slots last.
fn guarded_heap() -> Box<Heap<Fake>> {
    let mut os = Fake::default();
    os.variables = &[("VCM_SAMPLE_INTERVAL", "1"), ("VCM_GUARDED_RATE", "1000000000")];
    let heap = Box::new(Heap::with_hooks(os, HOOKS));
    heap.free(heap.allocate(1));
    heap
}

/// The clock goes on so far that the next sample may be guarded.
fn later(heap: &Heap<Fake>) {
    heap.os().clock.fetch_add(1 << 40, core::sync::atomic::Ordering::Relaxed);
}

fn guarded(heap: &Heap<Fake>, bytes: usize) -> usize {
    later(heap);
    let address = heap.allocate(bytes);
    assert!(heap.is_guarded(address), "{bytes}");
    address
}

#[test]
fn a_guarded_block_behaves_as_any_block() {
    let heap = guarded_heap();
    let block = guarded(&heap, 100);
    assert_eq!(heap.usable_bytes(block), 100, "what was asked for");
    fill(block, 100, 7);
    heap.check_size(block, 100, 1);
    heap.check_size(block, 112, 1);
    assert_eq!(heap.reallocate(block, 100), block);
    later(&heap);
    let grown = heap.reallocate(block, 300);
    assert!(grown != block && heap.is_guarded(grown));
    assert!(holds(grown, 100, 7));
    let shrunk = heap.reallocate(grown, 50);
    assert!(shrunk != grown && heap.usable_bytes(shrunk) >= 50);
    heap.free(shrunk);
    later(&heap);
    let zeroed = heap.allocate_zeroed(30, 10);
    assert!(heap.is_guarded(zeroed));
    assert!(holds(zeroed, 300, 0));
    later(&heap);
    let aligned = heap.allocate_aligned(PAGE, 10);
    assert!(heap.is_guarded(aligned) && aligned.is_multiple_of(PAGE));
    later(&heap);
    let large = heap.allocate(PAGE + 1);
    assert!(!heap.is_guarded(large), "more than a page");
    [zeroed, aligned, large].into_iter().for_each(|block| heap.free(block));
    assert_eq!(heap.stats().guarded, 0);
}

#[test]
fn without_memory_for_it_a_sample_is_an_ordinary_block() {
    use crate::os::fake::Request;
    let heap = guarded_heap();
    let first = guarded(&heap, 10);
    heap.os().refuse_after(Request::Commit, 0);
    later(&heap);
    let block = heap.allocate(100);
    assert!(block == 0 || !heap.is_guarded(block));
    heap.os().grant(Request::Commit);
    let block = guarded(&heap, 100);
    heap.free(block);
    heap.free(first);
}

#[test]
fn the_bridge_adds_up_with_guarded_blocks_and_a_profile() {
    let heap = guarded_heap();
    assert!(heap.start_profile(4096));
    let blocks: Vec<usize> = (0..3000)
        .map(|number| {
            later(&heap);
            let bytes = 1 + number * 37 % 9000;
            let block = heap.allocate(bytes);
            fill(block, bytes, 1);
            block
        })
        .collect();
    blocks.iter().step_by(3).for_each(|block| heap.free(*block));
    let stats = heap.stats();
    let steps = stats.live + stats.vcpu_caches + stats.transfer + stats.free_in_spans + stats.span_tails;
    assert_eq!(steps + stats.dirty_free + stats.metadata - stats.not_in_memory, stats.resident, "{stats:?}");
    assert!(stats.guarded > 0 && stats.guarded_samples > 0 && heap.profile_stats().live_samples > 100);
}

#[test]
fn guards_can_be_switched_off_and_on() {
    let heap = guarded_heap();
    heap.set_option(b"guarded_rate", b"0").unwrap();
    later(&heap);
    assert!(!(0..100).any(|_| heap.is_guarded(heap.allocate(100))));
    heap.set_option(b"guarded_rate", b"1000000000").unwrap();
    guarded(&heap, 100);
}

#[test]
fn with_a_hard_limit_that_is_reached_nothing_is_guarded() {
    let heap = guarded_heap();
    heap.set_option(b"hard_limit", b"4M").unwrap();
    guarded(&heap, 100);
    (0..100).for_each(|_| _ = heap.allocate(100_000));
    later(&heap);
    assert!(!heap.is_guarded(heap.allocate(100)));
}

#[test]
fn a_heap_that_a_fuzzer_has_used_leaves_no_mapping() {
    let heap = Box::new(Heap::with_hooks(Fake::default(), HOOKS));
    assert!(heap.start_profile(1));
    [0, 1, 5000, 300_000].into_iter().for_each(|bytes| heap.free(heap.allocate(bytes)));
    // SAFETY: nobody uses the heap again.
    unsafe { heap.unmap_for_test() };
    let left = heap.os.mapped.lock().unwrap().clone();
    assert_eq!(left, []);
}
