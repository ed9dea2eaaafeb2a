//! Threads that do everything at once on one heap in this process, for the Thread Sanitizer (fuzz/races/run).
//!
//! The heap lies where the sanitizer lets programs have memory. It runs on locked caches: restartable
//! sequences are machine code that the sanitizer does not see, and tests/preemption.rs proves them.

use std::sync::atomic::{AtomicBool, Ordering};

use vcmalloc_core::os::fake::Fake;
use vcmalloc_fuzz_targets::support::TestHeap;
use vcmalloc_fuzz_targets::{tenants, threads};

/// Below the sanitizer's shadow, which begins at 1 TiB.
const FIRST_PLACE: usize = 0x10_0000_0000;
const PLACE_BYTES: usize = 4 << 30;
const PLACES: u64 = 64;
/// Of each thread that works with heaps of tenants.
const STEPS: u64 = 400;

/// A number for every seed that looks like no other (S. Vigna's splitmix64).
fn mixed(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

fn input(round: u64) -> Vec<u8> {
    (0..6000 / 8).flat_map(|word| mixed(round << 32 | word).to_le_bytes()).collect()
}

/// Does what others do beside the threads that allocate: the janitor, and whoever asks for statistics.
fn look_on(heap: &TestHeap, done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        heap.tick(true);
        let _ = heap.stats();
        heap.release(1 << 20);
        heap.start_profile(4096);
        std::thread::yield_now();
    }
}

/// Two threads that write one word without any order: what the sanitizer must see, or it sees nothing.
fn race_on_purpose() {
    static mut WORD: usize = 0;
    // SAFETY: there is none, which is the point; the word is read by nobody.
    let write = || (0..1000).for_each(|value| unsafe { (&raw mut WORD).write_volatile(value) });
    let threads = [std::thread::spawn(write), std::thread::spawn(write)];
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn main() {
    if std::env::args().nth(1).is_some_and(|word| word == "control") {
        return race_on_purpose();
    }
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    for round in 0..rounds {
        let system = Fake::default();
        system.place.store(FIRST_PLACE + (round % PLACES) as usize * PLACE_BYTES, Ordering::Relaxed);
        let (heap, done) = (TestHeap::on(system), AtomicBool::new(false));
        heap.free(heap.allocate(1));
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| look_on(&heap, &done));
            let works = scope.spawn(|| {
                threads::work_on(&heap, &input(round), 4);
                tenants::work_on(&heap, STEPS, 4, |step| mixed(mixed(round) ^ step));
            });
            let works = works.join();
            done.store(true, Ordering::Release);
            works.expect("no panic");
            looks.join().expect("no panic");
        });
        threads::expect_empty(&heap);
    }
    println!(
        "{rounds} rounds of 4 threads, on the heap and on tenants' heaps, the janitor and statistics beside them"
    );
}
