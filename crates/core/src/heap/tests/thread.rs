//! The janitor's thread: how it is claimed, sleeps, wakes and ends, and what it leaves to threads of the program.

use super::janitor::{MIB, alone, fill, free, heap};
use crate::heap::Heap;
use crate::options::OptionId;
use crate::os::fake::Fake;
use crate::upkeep::Ticker;
use core::sync::atomic::Ordering::Relaxed;

#[test]
fn the_janitor_is_claimed_once_and_can_be_switched_off() {
    let heap = alone();
    assert!(heap.claim_janitor() && !heap.claim_janitor());
    heap.unclaim_janitor();
    assert!(heap.claim_janitor(), "its thread could not be made, or has ended");
    heap.unclaim_janitor();
    heap.set_option(b"janitor", b"off").unwrap();
    assert!(!heap.claim_janitor());
    assert!(!heap.options.is_on(OptionId::janitor));
}

#[test]
fn the_thread_sleeps_when_all_is_done_wakes_by_a_slow_path_and_ends_when_told() {
    let heap: &'static Heap<Fake> = Box::leak(alone());
    heap.set_option(b"release_delay", b"20ms").unwrap();
    let blocks = fill(heap, 3000, 2000);
    assert!(heap.claim_janitor());
    let thread = std::thread::spawn(|| heap.run_janitor(false));
    free(heap, blocks);
    let is_done = || heap.stats().resident < MIB as u64;
    // Some ticks' time without one.
    let sleeps = || {
        let ticks = heap.stats().ticks;
        std::thread::sleep(std::time::Duration::from_millis(100));
        heap.stats().ticks == ticks
    };
    assert!(is_so_soon(is_done));
    assert!((0..50).any(|_| sleeps()), "no tick while nothing happens");
    let ticks = heap.stats().ticks;
    free(heap, fill(heap, 3000, 2000));
    assert!(is_so_soon(|| heap.stats().ticks > ticks && is_done()));
    assert!(heap.stop_janitor());
    thread.join().unwrap();
}

/// Whether something is so within some seconds.
fn is_so_soon(is_so: impl Fn() -> bool) -> bool {
    let mut looks = 0..20_000;
    looks.any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        is_so()
    })
}

#[test]
fn the_thread_does_not_sleep_before_what_was_freed_last_is_gone_however_long_no_cache_has_moved() {
    let heap: &'static Heap<Fake> = Box::leak(alone());
    heap.set_option(b"release_delay", b"40ms").unwrap();
    assert!(heap.claim_janitor());
    let thread = std::thread::spawn(|| heap.run_janitor(false));
    let works_for_ticks = || {
        free(heap, fill(heap, 1, MIB));
        heap.stats().ticks >= 9
    };
    // Were these ticks quiet ones it would sleep soon.
    assert!(is_so_soon(works_for_ticks));
    assert!(is_so_soon(|| heap.stats().dirty_free == 0));
    assert!(heap.stop_janitor());
    thread.join().unwrap();
}

#[test]
fn a_janitor_that_is_retired_ends_and_there_is_no_other() {
    let heap: &'static Heap<Fake> = Box::leak(alone());
    heap.allocate(1);
    assert!(!heap.janitor_is_retired() && !heap.stop_janitor(), "there is no thread yet");
    let run = || std::thread::spawn(|| heap.run_janitor(false));
    let ends = |thread: std::thread::JoinHandle<()>| is_so_soon(|| thread.is_finished());
    assert!(heap.claim_janitor());
    let thread = run();
    heap.retire_janitor();
    assert!(ends(thread));
    heap.unclaim_janitor();
    assert!(heap.janitor_is_retired() && !heap.claim_janitor());
    let ticks = heap.stats().ticks;
    assert!(ends(run()), "one that was being made meanwhile");
    assert_eq!(heap.stats().ticks, ticks);
}

#[test]
fn a_janitor_ends_when_it_is_switched_off_and_its_handle_goes_to_one_who_waits() {
    let heap: &'static Heap<Fake> = Box::leak(alone());
    heap.set_option(b"release_delay", b"20ms").unwrap();
    heap.allocate(1);
    assert!(heap.take_janitor(2).is_none(), "there is none");
    assert!(heap.claim_janitor());
    assert!(heap.take_janitor(2).is_none(), "its maker does not know it yet");
    let thread = std::thread::spawn(|| {
        heap.run_janitor(true);
        heap.leave_janitor()
    });
    heap.set_option(b"janitor", b"off").unwrap();
    heap.stop_janitor();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!thread.is_finished(), "it waits until it is known");
    heap.note_janitor(64);
    assert!(heap.take_janitor(64).is_none(), "nobody waits for himself");
    match heap.take_janitor(2) {
        Some(handle) => assert!(handle == 64 && !thread.join().unwrap()),
        None => assert!(thread.join().unwrap(), "it was first: nobody waits"),
    }
    assert!(heap.take_janitor(2).is_none());
}

#[test]
fn what_a_janitor_aside_comes_upon_ends_a_thread_of_the_program() {
    let mut os = Fake::default();
    os.panics = true;
    let heap: &'static Heap<Fake> = Box::leak(Box::new(Heap::new(os)));
    // Too large for a key, which would tell at the call.
    let [first, second, third] = [(); 3].map(|()| heap.allocate(1000));
    for block in [first, second, third, first] {
        heap.free(block);
    }
    for _ in 0..20 {
        heap.tick_by(true, Ticker::Aside);
    }
    assert!(heap.pending_fault.is_told());
    let program = std::thread::spawn(|| heap.allocate(3 << 20));
    assert!(program.join().is_err(), "stopped");
    assert!(heap.is_aborting() && !heap.pending_fault.is_told());
}

#[test]
fn what_relief_comes_upon_in_a_tick_aside_ends_a_thread_of_the_program_too() {
    let mut os = Fake::default();
    os.panics = true;
    os.quiet = true;
    os.pressed.store(true, Relaxed);
    let heap: &'static Heap<Fake> = Box::leak(Box::new(Heap::new(os)));
    // Too large for a key, which would tell at the call.
    let [first, second, third] = [(); 3].map(|()| heap.allocate(1000));
    for block in [first, second, third, first] {
        heap.free(block);
    }
    // The first tick was at the first slow path; relief, at every second one, looks before the cache has stood still.
    heap.tick_by(true, Ticker::Aside);
    assert!(heap.pending_fault.is_told() && !heap.is_aborting());
    let program = std::thread::spawn(|| heap.allocate(3 << 20));
    assert!(program.join().is_err(), "stopped");
}

#[test]
fn files_are_opened_where_no_thread_of_the_program_can_be_in_the_way() {
    use Ticker::{Aside, Janitor, Program};
    let heap = heap();
    let may = || [Program, Janitor, Aside].map(|ticker| heap.upkeep.thread.may_open_files(ticker));
    assert_eq!(may(), [true, false, true]);
    assert!(heap.meet_threads() && !heap.meet_threads());
    assert_eq!(may(), [false, false, true]);
}

#[test]
fn a_thread_that_takes_calls_away_waits_until_the_thread_is_between_its_calls() {
    let heap: &'static Heap<Fake> = Box::leak(alone());
    heap.wait_for_janitor();
    assert!(heap.claim_janitor(), "its thread begins with calls");
    let begin = std::time::Instant::now();
    let thread = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        heap.run_janitor(false);
    });
    heap.wait_for_janitor();
    assert!(begin.elapsed() >= std::time::Duration::from_millis(50));
    heap.stop_janitor();
    thread.join().unwrap();
}
