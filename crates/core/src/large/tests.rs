use super::*;
use crate::os::Linux;
use crate::os::fake::{Fake, Request};
use std::cell::Cell;

const MIB: usize = 1 << 20;

fn parts() -> (Fake, Pages<Fake>, Large) {
    let (os, pages) = (Fake::default(), Pages::new());
    assert!(pages.start(&os));
    (os, pages, Large::new())
}

fn bytes(address: usize, length: usize) -> &'static mut [u8] {
    // SAFETY: the tests pass blocks of theirs, with their lengths, and use one slice of a block at a time.
    unsafe { core::slice::from_raw_parts_mut(address as *mut u8, length) }
}

#[test]
fn a_large_block_counts_until_it_is_freed() {
    let (os, pages, large) = parts();
    let fresh = large.allocate(&os, &pages, 3 * MIB + 1, 16).unwrap();
    assert_eq!(pages.stats().large.requested, 3 * MIB as u64 + 1);
    assert!(large.usable(&pages, fresh.address).unwrap() > 3 * MIB);
    assert_eq!(large.free(&pages, fresh.address), Ok(()));
    assert_eq!(pages.stats().large, crate::pages::LargeStats::default());
}

#[test]
fn only_the_start_of_a_large_block_can_be_freed() {
    let (os, pages, large) = parts();
    let block = large.allocate(&os, &pages, 3 * MIB, 16).unwrap().address;
    assert!(large.free(&pages, block + UNIT_BYTES).is_err());
    assert_eq!(large.free(&pages, block), Ok(()));
    assert_eq!(large.free(&pages, block).unwrap_err().fault, Fault::FreeMemory);
}

#[test]
fn reused_memory_is_cleared_by_the_system_or_by_hand() {
    let (os, pages, large) = parts();
    for refuse in [false, true] {
        let block = large.allocate(&os, &pages, 2 * MIB + 5, 16).unwrap();
        bytes(block.address, 2 * MIB + 5).fill(0xAA);
        large.free(&pages, block.address).unwrap();
        let again = large.allocate(&os, &pages, 2 * MIB + 5, 16).unwrap();
        assert!(!again.zeroed);
        if refuse {
            os.refuse_after(Request::Release, 0);
        }
        large.clear(&os, &pages, again, 2 * MIB + 5);
        assert!(bytes(again.address, 2 * MIB + 5).iter().all(|byte| *byte == 0));
        large.free(&pages, again.address).unwrap();
    }
}

/// Page faults of this thread so far.
fn faults() -> i64 {
    // SAFETY: the call fills the structure that it is given.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_minflt
    }
}

/// A block of so many bytes as `calloc` gives it, of which `write` writes what its owner does.
fn zeroed(parts: &(Fake, Pages<Fake>, Large), length: usize, write: impl Fn(&mut [u8])) -> usize {
    let (os, pages, large) = parts;
    let fresh = large.allocate(os, pages, length, 16).unwrap();
    large.clear(os, pages, fresh, length);
    let resident = os.resident_bytes(fresh.address, length.next_multiple_of(4096)).unwrap();
    write(bytes(fresh.address, length));
    large.free(pages, fresh.address).unwrap();
    resident
}

fn fill(block: &mut [u8]) {
    assert!(block.iter().all(|byte| *byte == 0));
    block.fill(7);
}

#[test]
fn a_block_of_zeros_on_used_memory_costs_no_page_fault_and_no_call_that_gives_memory_back() {
    for length in [270_000, MIB + 5, 4 * MIB, 16 * MIB, 32 * MIB] {
        let parts = parts();
        zeroed(&parts, length, fill);
        let before = (parts.0.asked(Request::Release), faults());
        for _ in 0..3 {
            assert!(zeroed(&parts, length, fill) >= length, "the memory stayed");
        }
        let after = (parts.0.asked(Request::Release), faults());
        assert_eq!(after.0, before.0, "{length} bytes");
        assert!(after.1 - before.1 < 30, "{} faults for {length} bytes", after.1 - before.1);
    }
}

#[test]
fn a_block_of_zeros_on_fresh_or_sparse_memory_takes_no_page_of_it() {
    for length in [270_000, MIB, 3 * MIB + 5, 16 * MIB] {
        let parts = parts();
        // An owner who writes one page in the middle.
        for round in 0..4 {
            let resident = zeroed(&parts, length, |block| {
                assert_eq!(core::mem::replace(&mut block[length / 2], 1), 0);
            });
            assert!(resident <= 8192, "{resident} of {length} bytes in memory in round {round}");
        }
    }
}

#[test]
fn of_a_block_of_zeros_whose_memory_went_in_part_only_what_is_there_is_written() {
    let parts = parts();
    let (os, ..) = &parts;
    let block = Cell::new(0);
    let whole = |bytes: &mut [u8]| {
        fill(bytes);
        block.set(bytes.as_ptr().addr());
    };
    zeroed(&parts, 4 * MIB, whole);
    assert!(os.release(block.get() + MIB, 256 << 10));
    let before = os.asked(Request::Release);
    let resident = zeroed(&parts, 4 * MIB, |_| ());
    assert_eq!(resident, 4 * MIB - (256 << 10), "neither brought in nor given back");
    assert_eq!(os.asked(Request::Release), before + 1, "the gap may be in swap");
}

#[test]
fn a_block_of_zeros_beyond_32_mib_gives_back_what_it_had() {
    let parts = parts();
    zeroed(&parts, 33 * MIB, fill);
    assert!(zeroed(&parts, 33 * MIB, |_| ()) < MIB);
}

#[test]
fn zeros_are_zeros_also_where_the_system_does_not_say_what_is_in_memory() {
    let parts = parts();
    parts.0.refuse_after(Request::Residency, 0);
    for refuse in [false, true] {
        if refuse {
            parts.0.refuse_after(Request::Release, 0);
        }
        (0..3).for_each(|_| _ = zeroed(&parts, 5 * MIB, fill));
    }
}

#[test]
fn contents_are_carried_by_pages_or_by_bytes() {
    let (os, pages, large) = parts();
    for refuse in [false, true] {
        let from = large.allocate(&os, &pages, 20 * MIB, 16).unwrap().address;
        bytes(from, 20 * MIB).iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
        let to = large.allocate(&os, &pages, 40 * MIB, 16).unwrap().address;
        if refuse {
            os.refuse_after(Request::MovePages, 0);
        }
        assert!(large.carry(&os, from, to, 20 * MIB - 7));
        assert!(bytes(to, 20 * MIB - 7).iter().enumerate().all(|(index, byte)| *byte == index as u8));
        large.free(&pages, from).unwrap();
        large.free(&pages, to).unwrap();
    }
}

#[test]
fn what_lies_in_several_mappings_is_carried_part_by_part() {
    let (os, pages, large) = parts();
    for longest in [MIB, 3 * MIB, 7 * MIB + 4096, 19 * MIB] {
        os.longest_mapping.store(longest, Ordering::Relaxed);
        let from = large.allocate(&os, &pages, 20 * MIB, 16).unwrap().address;
        bytes(from, 20 * MIB).iter_mut().enumerate().for_each(|(index, byte)| *byte = (index >> 7) as u8);
        let to = large.allocate(&os, &pages, 40 * MIB, 16).unwrap().address;
        let before = os.asked(Request::MovePages);
        assert!(large.carry(&os, from, to, 20 * MIB - 7));
        assert_eq!(os.asked(Request::MovePages) > before, longest >= MOVED_PART, "{longest}");
        let is_right = |(index, byte): (usize, &u8)| *byte == (index >> 7) as u8;
        assert!(bytes(to, 20 * MIB - 7).iter().enumerate().all(is_right), "{longest}");
        large.free(&pages, from).unwrap();
        large.free(&pages, to).unwrap();
    }
}

#[test]
fn the_pages_of_real_mappings_move_and_those_of_several_are_told() {
    let os = Linux::new();
    let pages = Pages::new();
    assert!(pages.start(&os));
    let large = Large::new();
    let [from, to] =
        [20 * MIB, 40 * MIB].map(|bytes| large.allocate(&os, &pages, bytes, 16).unwrap().address);
    bytes(from, 20 * MIB).fill(7);
    // Another kind of page in the middle: three mappings.
    assert!(os.set_dumped(from + 9 * MIB, 4096, false));
    assert_eq!(os.move_pages(from, to, 20 * MIB), Moved::Several);
    assert!(bytes(from, 20 * MIB).iter().all(|byte| *byte == 7));
    assert_eq!(os.move_pages(from, to, 9 * MIB), Moved::All);
    assert!(
        bytes(from, 9 * MIB).iter().all(|byte| *byte == 0)
            && bytes(to, 9 * MIB).iter().all(|byte| *byte == 7)
    );
    assert_eq!(os.move_pages(from + 1, to, 4096), Moved::Nothing);
    assert!(large.carry(&os, to, from, 20 * MIB), "back, in two mappings");
    assert!(bytes(from, 9 * MIB).iter().all(|byte| *byte == 7));
}

#[test]
fn where_the_system_leaves_a_hole_the_old_block_is_as_it_was() {
    let (os, pages, large) = parts();
    os.longest_mapping.store(7 * MIB, Ordering::Relaxed);
    os.moves_leave_holes.store(true, Ordering::Relaxed);
    let from = large.allocate(&os, &pages, 20 * MIB, 16).unwrap().address;
    bytes(from, 20 * MIB).iter_mut().enumerate().for_each(|(index, byte)| *byte = (index >> 7) as u8);
    let to = large.allocate(&os, &pages, 40 * MIB, 16).unwrap().address;
    os.refuse_after(Request::MovePages, 2);
    assert!(!large.carry(&os, from, to, 20 * MIB));
    assert!(bytes(from, 20 * MIB).iter().enumerate().all(|(index, byte)| *byte == (index >> 7) as u8));
    os.grant(Request::MovePages);
    let other = large.allocate(&os, &pages, 40 * MIB, 16).unwrap().address;
    assert!(large.carry(&os, from, other, 20 * MIB) && bytes(other, 1000)[999] == 7);
}

#[test]
fn a_block_grows_in_place_until_something_is_in_the_way() {
    let (os, pages, large) = parts();
    let block = large.allocate(&os, &pages, MIB, 16).unwrap().address;
    assert_eq!(large.resize_in_place(&os, &pages, block, MIB + 3 * UNIT_BYTES), Ok(true));
    let wall = large.allocate(&os, &pages, MIB / 2, 16).unwrap().address;
    assert_eq!(wall, block + MIB + 3 * UNIT_BYTES);
    assert_eq!(large.resize_in_place(&os, &pages, block, 2 * MIB), Ok(false));
    assert_eq!(large.resize_in_place(&os, &pages, block, 300 << 10), Ok(true));
    assert_eq!(large.usable(&pages, block), Ok(19 * UNIT_BYTES));
}

#[test]
fn absurd_sizes_and_refusals_are_answers() {
    let (os, pages, large) = parts();
    assert_eq!(large.allocate(&os, &pages, usize::MAX, 16), None);
    assert_eq!(large.allocate(&os, &pages, 1 << 46, 16), None);
    os.refuse_after(Request::MapAt, 0);
    assert_eq!(large.allocate(&os, &pages, MIB, 16), None);
    assert_eq!(pages.stats().large, crate::pages::LargeStats::default());
}

#[test]
fn what_was_written_to_free_memory_is_not_seen_through_calloc() {
    let (os, pages, large) = parts();
    let fresh = large.allocate(&os, &pages, 1 << 20, 16).unwrap();
    assert!(fresh.zeroed);
    bytes(fresh.address, 1 << 20)[5000] = 1;
    large.clear(&os, &pages, fresh, 1 << 20);
    assert_eq!(bytes(fresh.address, 1 << 20)[5000], 0);
}

#[test]
fn the_blocks_freed_last_are_remembered() {
    let (os, pages, large) = parts();
    let blocks: Vec<usize> =
        (0..65).map(|_| large.allocate(&os, &pages, 1 << 20, 16).unwrap().address).collect();
    assert!(!large.was_freed(blocks[0]));
    blocks.iter().for_each(|block| large.free(&pages, *block).unwrap());
    assert!(!large.was_freed(blocks[0]) && blocks[1..].iter().all(|block| large.was_freed(*block)));
}

#[test]
fn that_two_threads_free_the_same_large_block_is_told_once() {
    let os = Linux::new();
    let (pages, large) = (Pages::new(), Large::new());
    assert!(pages.start(&os));
    for _ in 0..200 {
        let block = large.allocate(&os, &pages, 1 << 20, 16).unwrap().address;
        let start = std::sync::Barrier::new(2);
        let free = || {
            start.wait();
            large.free(&pages, block).is_ok()
        };
        let (mine, theirs) = std::thread::scope(|scope| {
            let other = scope.spawn(free);
            (free(), other.join().unwrap())
        });
        // The next holder of the lock finds a block that was delayed after the other thread had closed it.
        pages.stats();
        let told = [mine, theirs, large.audit(&pages).is_ok()].iter().filter(|well| !**well).count();
        assert_eq!(told, 1, "{mine} {theirs}");
    }
}

#[test]
fn threads_that_resize_and_free_the_same_block_leave_whole_runs_and_true_counts() {
    let os = Linux::new();
    let (pages, large) = (Pages::new(), Large::new());
    assert!(pages.start(&os));
    for round in 0..20 {
        let block = large.allocate(&os, &pages, 800 << 10, 16).unwrap().address;
        let start = std::sync::Barrier::new(3);
        let resize = |sizes: [usize; 2]| {
            start.wait();
            for bytes in sizes.into_iter().cycle().take(5000) {
                _ = large.resize_in_place(&os, &pages, block, bytes);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| resize([600 << 10, 1500 << 10]));
            scope.spawn(|| resize([400 << 10, 300 << 10]));
            start.wait();
            if round % 2 == 1 {
                _ = large.free(&pages, block);
                _ = large.allocate(&os, &pages, 900 << 10, 16);
            }
        });
        pages.verify();
    }
}

#[test]
fn a_block_that_waits_to_be_closed_is_a_freed_one() {
    let os = Linux::new();
    let (pages, large) = (Pages::new(), Large::new());
    assert!(pages.start(&os));
    let block = large.allocate(&os, &pages, 700_000, 16).unwrap().address;
    pages.each_lock(&mut |lock| lock.hold());
    large.free(&pages, block).unwrap();
    let fault = |outcome: Result<(), Misuse>| outcome.unwrap_err().fault;
    assert_eq!(fault(large.free(&pages, block)), Fault::DoubleFree);
    assert_eq!(fault(large.usable(&pages, block).map(drop)), Fault::DoubleFree);
    assert_eq!(fault(large.resize_in_place(&os, &pages, block, 300_000).map(drop)), Fault::DoubleFree);
    // SAFETY: held above by this thread.
    pages.each_lock(&mut |lock| unsafe { lock.release() });
    assert_eq!(pages.stats().large.blocks, 0);
}
