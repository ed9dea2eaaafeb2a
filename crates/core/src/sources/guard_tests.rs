use super::*;
use crate::base::fault::{Access, Fault};
use crate::base::memory::fill;
use crate::base::stack::Stack;
use crate::os::fake::{Fake, Request};
use core::sync::atomic::Ordering::Relaxed;

const PAGE: usize = 4096;
const SECOND: u64 = 1_000_000_000;

fn trace(thread: u64) -> Trace {
    Trace { thread, nanoseconds: 0, stack: Stack::EMPTY }
}

fn system(most_mappings: &'static str) -> Fake {
    let mut os = Fake::default();
    os.file = most_mappings;
    os
}

fn ready(os: &Fake) -> Guards<Fake> {
    let guards = Guards::new();
    assert!(guards.prepare(os));
    guards
}

#[test]
fn a_block_ends_at_its_guard_or_begins_at_it_and_is_aligned() {
    let os = system("65530\n");
    let guards = ready(&os);
    let (mut at_end, mut at_start) = (0, 0);
    for (number, (bytes, align)) in
        [(0, 16), (1, 16), (24, 16), (100, 64), (4096, 16), (4095, 16), (10, 4096), (16, 1024)]
            .into_iter()
            .enumerate()
    {
        for _ in 0..16 {
            let address = guards.allocate(&os, bytes, align, trace(number as u64)).unwrap();
            assert!(address.is_multiple_of(align) && guards.owns(address) && guards.owns(address + bytes));
            let page = address & !(PAGE - 1);
            assert!(address + bytes <= page + PAGE);
            at_start += usize::from(address == page);
            at_end += usize::from(page + PAGE - (address + bytes) < align && bytes > 0);
            assert_eq!(guards.bytes_of(address), Ok(bytes));
            fill(address, bytes, 0xFF);
            guards.take_back(&os, address, trace(0)).unwrap();
        }
    }
    assert!(at_end > 20 && at_start > 20, "both kinds: {at_end} and {at_start}");
    assert_eq!(guards.stats(), GuardStats { samples: 128, ..GuardStats::default() });
}

#[test]
fn a_slot_is_used_again_only_after_all_others() {
    let os = system("65530");
    let guards = ready(&os);
    let addresses: Vec<usize> = (0..256)
        .map(|_| {
            let address = guards.allocate(&os, 4096, 16, trace(0)).unwrap();
            guards.take_back(&os, address, trace(0)).unwrap();
            address
        })
        .collect();
    let mut sorted = addresses.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 256);
    assert_eq!(guards.allocate(&os, 4096, 16, trace(0)), Some(addresses[0]), "the one freed longest ago");
}

#[test]
fn slots_take_at_most_a_tenth_of_the_mappings() {
    for (file, slots) in [("65530", 256), ("1000", 49), ("19", 0), ("", 32), ("nonsense", 32)] {
        let os = system(file);
        let guards = Guards::<Fake>::new();
        guards.prepare(&os);
        let live = (0..400).filter(|_| guards.allocate(&os, 1, 16, trace(0)).is_some()).count();
        assert_eq!(live, slots, "vm.max_map_count {file:?}");
    }
}

#[test]
fn what_is_written_around_a_block_is_found_when_it_is_freed() {
    let os = system("65530");
    let guards = ready(&os);
    for (offset, fault) in [(20usize, Fault::Overflow), (27, Fault::Overflow)] {
        let address = guards.allocate(&os, 20, 16, trace(0)).unwrap();
        fill(address + offset, 1, 0);
        let misuse = guards.take_back(&os, address, trace(0)).unwrap_err();
        assert_eq!(
            (misuse.fault, misuse.address, misuse.block),
            (fault, address + offset, Some((address, 20)))
        );
    }
    let at_end = (0..64).map(|_| guards.allocate(&os, 32, 16, trace(0)).unwrap()).find(|at| at % PAGE != 0);
    let address = at_end.expect("one in two is at the end");
    fill(address - 8, 8, 0);
    let misuse = guards.take_back(&os, address, trace(0)).unwrap_err();
    assert_eq!((misuse.fault, misuse.address), (Fault::Underflow, address - 1), "the byte nearest to it");
}

#[test]
fn frees_of_anything_but_a_live_block_are_faults() {
    let os = system("65530");
    let guards = ready(&os);
    let address = guards.allocate(&os, 100, 16, trace(0)).unwrap();
    let fault = |address| guards.take_back(&os, address, trace(0)).unwrap_err().fault;
    assert_eq!(fault(address + 16), Fault::InteriorPointer);
    assert_eq!(fault((address & !(PAGE - 1)) - 16), Fault::FreeMemory, "the guard before it");
    assert_eq!(fault(address + 20 * PAGE), Fault::FreeMemory, "a slot that nobody used");
    guards.take_back(&os, address, trace(0)).unwrap();
    assert_eq!(fault(address), Fault::DoubleFree);
    assert_eq!(guards.bytes_of(address).unwrap_err().fault, Fault::DoubleFree);
}

#[test]
fn an_access_that_the_machine_refused_is_named() {
    let os = system("65530");
    let guards = ready(&os);
    let blocks: Vec<usize> = (0..3).map(|_| guards.allocate(&os, 4096, 16, trace(0)).unwrap()).collect();
    let fault = |address, how| guards.misuse_of(address, how).map(|misuse| (misuse.fault, misuse.block));
    let (write, read) = (Access::Write, Access::Read);
    assert_eq!(fault(blocks[0] + 4096, write), Some((Fault::PastEnd(write), Some((blocks[0], 4096)))));
    assert_eq!(fault(blocks[1] - 8, read), Some((Fault::BeforeStart(read), Some((blocks[1], 4096)))));
    assert_eq!(fault(blocks[1] + 5, read), None, "the page is open");
    guards.take_back(&os, blocks[1], trace(0)).unwrap();
    assert_eq!(fault(blocks[1] + 5, write), Some((Fault::AfterFree(write), Some((blocks[1], 4096)))));
    assert_eq!(
        fault(blocks[1] - 8, read),
        Some((Fault::PastEnd(read), Some((blocks[0], 4096)))),
        "the live one"
    );
    assert_eq!(fault(blocks[0] + 50 * PAGE, read), Some((Fault::NoBlock(read), None)));
}

#[test]
fn the_clock_bounds_the_rate_and_the_more_slots_are_held_the_longer_it_waits() {
    let os = system("65530");
    let guards = ready(&os);
    assert!(guards.is_due(&os, 10) && !guards.is_due(&os, 10) && !guards.is_due(&os, 0));
    os.clock.store(SECOND / 10, Relaxed);
    assert!(guards.is_due(&os, 10) && !guards.is_due(&os, 10));
    (0..128).for_each(|_| assert!(guards.allocate(&os, 1, 16, trace(0)).is_some()));
    os.clock.store(SECOND, Relaxed);
    assert!(guards.is_due(&os, 10));
    os.clock.store(SECOND + SECOND / 10, Relaxed);
    assert!(!guards.is_due(&os, 10), "half of the slots are held: the wait has doubled eight times");
    os.clock.store(SECOND + 256 * SECOND / 10, Relaxed);
    assert!(guards.is_due(&os, 10));
}

#[test]
fn a_system_that_refuses_gets_no_sample_and_loses_no_slot() {
    let os = system("65530");
    let guards = Guards::<Fake>::new();
    os.refuse_after(Request::Reserve, 1);
    assert!(!guards.prepare(&os), "there is no arena");
    os.grant(Request::Reserve);
    assert!(!guards.prepare(&os), "nobody asks twice");

    let guards = ready(&os);
    let first = guards.allocate(&os, 1, 16, trace(0)).unwrap();
    os.refuse_after(Request::Commit, 0);
    assert_eq!(guards.allocate(&os, 1, 16, trace(0)), None);
    os.grant(Request::Commit);
    // Neither closed nor given back: less is found, that is all.
    os.refuse_after(Request::ClosePages, 0);
    os.refuse_after(Request::Release, 0);
    fill(first, 1, 9);
    guards.take_back(&os, first, trace(0)).unwrap();
    assert_eq!(guards.take_back(&os, first, trace(0)).unwrap_err().fault, Fault::DoubleFree);
    let live = (0..400).filter(|_| guards.allocate(&os, 1, 16, trace(0)).is_some()).count();
    assert_eq!(live, 256, "every slot can be had");
}

#[test]
fn the_arena_is_made_once() {
    let os = system("65530");
    let guards = Guards::<Fake>::new();
    assert!(!guards.owns(0) && !guards.owns(usize::MAX));
    assert!(guards.prepare(&os));
    let asked = os.asked(Request::Reserve);
    assert!(guards.prepare(&os) && os.asked(Request::Reserve) == asked);
}
