//! The bound of the caches follows the CPUs that the process may use.

use super::janitor::{alone, fill, heap, quiet_ticks};
use crate::heap::Heap;
use crate::options::{CACHE_BYTES_PER_CPU, Origin};
use crate::os::fake::Fake;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

const TICKS: usize = 17;

#[test]
fn the_bound_follows_the_cpus_up_and_down_while_the_process_runs() {
    let heap = heap();
    assert_eq!(heap.setup().cache_limit, 2 * CACHE_BYTES_PER_CPU);
    for cpus in [8, 3, 1, 256] {
        heap.os().usable_cpus.store(cpus, Relaxed);
        quiet_ticks(&heap, TICKS);
        assert_eq!(heap.central.budget.limit(), cpus * CACHE_BYTES_PER_CPU);
    }
}

#[test]
fn a_bound_that_was_asked_for_stays_whatever_cpus_there_are() {
    let heap = heap();
    heap.setup();
    heap.options.set(b"cache_limit", b"5M", Origin::Api).unwrap();
    heap.upkeep.change_bound(&heap.floors).unwrap();
    heap.os().usable_cpus.store(8, Relaxed);
    quiet_ticks(&heap, TICKS);
    assert_eq!(heap.central.budget.limit(), 5 << 20);
}

#[test]
fn a_process_that_nobody_asked_for_its_cpus_does_not_ask() {
    let heap = alone();
    fill(&heap, 10, 100);
    heap.os().usable_cpus.store(8, Relaxed);
    quiet_ticks(&heap, TICKS);
    assert_eq!(heap.central.budget.limit(), CACHE_BYTES_PER_CPU);
}

/// The main thread is bound to one CPU and says so; its threads are not.
#[test]
fn virtual_cpus_that_are_used_count_whatever_the_system_says() {
    let mut os = Fake::default();
    os.has_sequences = true;
    os.usable_cpus.store(1, Relaxed);
    let heap = Box::new(Heap::new(os));
    heap.setup();
    let (done, many) = (AtomicBool::new(false), std::thread::available_parallelism().unwrap().get() > 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while many && !done.load(Relaxed) {
                    heap.free(heap.allocate(100));
                    done.fetch_or(heap.cache.cpus_seen() > 1, Relaxed);
                }
            });
        }
    });
    heap.free(heap.allocate(50_000));
    heap.free(heap.allocate(7000));
    let seen = heap.cache.cpus_seen();
    assert!(heap.central.budget.limit() >= seen * CACHE_BYTES_PER_CPU, "{seen} are used");
}
