//! An event into the ring of this CPU.
//!
//! If the C library registered the thread for restartable sequences, the slot is filled and its place taken in one
//! (`sequence`). Else, in a ring that all others share, a place is taken by compare-and-swap, so that a signal handler takes the
//! next one; then the time is read; then the slot is filled, and its mark says so. An allocation is recorded behind the
//! call, a free before it: a later owner of the address has a later time.

use crate::layout::{self, COUNTER, Header, Kind, LOW, Ring, Slot};
use crate::sequence::{self, Outcome};
use crate::start;
use core::ffi::{c_ulong, c_void};
use core::mem::size_of;
use core::sync::atomic::{AtomicU32, Ordering::*};

#[repr(C)]
struct Thread {
    /// The kernel's number of the thread, 0 before its first event.
    id: AtomicU32,
}

unsafe extern "C" {
    fn vcm_interposer_thread() -> *const Thread;
}

/// A thread waits so long for room before it goes on unrecorded: a stopped tool must not stop the program for good.
const LONGEST_WAIT_NANOSECONDS: u64 = 5_000_000_000;
const PAUSE_NANOSECONDS: i64 = 200_000;

pub fn ring(header: &Header, index: u32) -> &Ring {
    // SAFETY: the tool made as many rings as the header says, on the page behind it.
    unsafe { &*(&raw const *header).byte_add(layout::PAGE).cast::<Ring>().add(index as usize) }
}

#[inline(always)]
fn slot(header: &Header, ring: u32, place: u64) -> &Slot {
    let index = ring as usize * header.slots as usize + (place as usize & (header.slots as usize - 1));
    // SAFETY: the tool made so many slots for each ring, behind the rings.
    unsafe {
        &*(&raw const *header)
            .byte_add(layout::slots_at(header.rings) + index * size_of::<Slot>())
            .cast::<Slot>()
    }
}

#[inline(always)]
pub fn is_sampled(header: &Header, block: *mut c_void) -> bool {
    layout::is_sampled(block as u64, header.sample)
}

#[inline(always)]
pub fn put(header: &'static Header, kind: Kind, address: u64, size: u64) {
    // SAFETY: a thread's own variable, of plain static storage; it lives as long as the thread.
    let thread = unsafe { &*vcm_interposer_thread() };
    let mut id = thread.id.load(Relaxed);
    if id == 0 {
        id = first(header, thread);
    }
    put_of(header, id, kind, address, size);
}

#[inline(always)]
fn put_of(header: &'static Header, id: u32, kind: Kind, address: u64, size: u64) {
    let what = (kind as u64) << 56 | (address & LOW);
    loop {
        match sequence::put(header, what, size, id) {
            Outcome::Done => return,
            Outcome::Full(index) if wait(header, ring(header, index)).is_some() => {}
            Outcome::Full(_) => return,
            Outcome::NoSequence => return put_shared(header, what, size, id),
        }
    }
}

/// Into the ring of those without sequences.
#[cold]
fn put_shared(header: &'static Header, what: u64, size: u64, id: u32) {
    let index = header.rings - 1;
    let Some(place) = take(header, ring(header, index)) else { return };
    let slot = slot(header, index, place);
    slot.stamp.store(now(header), Relaxed);
    slot.what.store(what, Relaxed);
    slot.size.store(size, Relaxed);
    slot.thread.store(id, Relaxed);
    // Pairs with the tool's Acquire: a reader that sees the mark sees the rest.
    slot.mark.store(layout::mark(place), Release);
}

/// The program begins: of no thread, before all of theirs.
pub fn image(header: &'static Header) {
    put_of(header, 0, Kind::Image, 0, 0);
}

/// A thread's first event.
#[cold]
fn first(header: &'static Header, thread: &Thread) -> u32 {
    // SAFETY: it has no condition.
    let id = unsafe { libc::gettid() } as u32;
    thread.id.store(id, Relaxed);
    let key = start::KEY.load(Acquire);
    if key != u32::MAX {
        // One of the first 32 keys lies in the thread itself: nothing is allocated.
        // SAFETY: the key was made when the library started and stays.
        unsafe { libc::pthread_setspecific(key, thread as *const Thread as *const c_void) };
    }
    put_of(header, id, Kind::Start, 0, 0);
    id
}

/// Called by the C library when a thread ends that had an event. Frees of later destructors are of the same thread.
pub unsafe extern "C" fn thread_ends(_: *mut c_void) {
    let Some(header) = start::shared() else { return };
    let mut name = [0u8; layout::NAME_BYTES];
    // SAFETY: the kernel writes at most 16 bytes, the last of them zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let [mut low, mut high] = [0u64; 2];
    for (index, byte) in name.into_iter().enumerate() {
        match index {
            // The highest byte of the first word is the kind's, so the first has seven.
            0..7 => low |= (byte as u64) << (8 * index),
            7..15 => high |= (byte as u64) << (8 * (index - 7)),
            _ => {}
        }
    }
    put(header, Kind::End, low, high);
}

/// The next place of a ring; none where there was no room for very long.
#[inline(always)]
fn take(header: &Header, ring: &Ring) -> Option<u64> {
    loop {
        let head = ring.head.load(Relaxed);
        // Pairs with the tool's Release, behind its reading of the slot.
        if head.wrapping_sub(ring.tail.load(Acquire)) >= header.slots as u64 {
            wait(header, ring)?;
            continue;
        }
        if ring.head.compare_exchange_weak(head, head + 1, AcqRel, Relaxed).is_ok() {
            return Some(head);
        }
    }
}

#[cold]
fn wait(header: &Header, ring: &Ring) -> Option<()> {
    let (errno, began) = (errno(), monotonic());
    let is_full = || ring.head.load(Relaxed).wrapping_sub(ring.tail.load(Acquire)) >= header.slots as u64;
    // While events are being lost nobody waits again: the tool does not get on.
    let hopeless = ring.lost.load(Relaxed) > 0 && header.rounds.load(Relaxed) == 0;
    let mut waited = 0;
    while is_full() && !hopeless && waited < LONGEST_WAIT_NANOSECONDS && header.recording.load(Relaxed) != 0 {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE_NANOSECONDS };
        // By the system call: it is no place to be cancelled at.
        // SAFETY: `pause` lives across the call.
        unsafe { libc::syscall(libc::SYS_nanosleep, &pause, 0usize) };
        waited = monotonic().saturating_sub(began);
    }
    header.waits.fetch_add(1, Relaxed);
    header.waited_nanoseconds.fetch_add(waited, Relaxed);
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
    if is_full() {
        ring.lost.fetch_add(1, Relaxed);
        // The tool counts rounds from here on, and sets it anew with each.
        header.rounds.store(0, Relaxed);
        return None;
    }
    Some(())
}

fn errno() -> i32 {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}

fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives across the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[inline(always)]
fn now(header: &Header) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if header.clock == COUNTER {
        let mut cpu = 0;
        // It waits for what stands before it: the place was taken, and the allocator has returned.
        // SAFETY: the tool has looked for it.
        return unsafe { core::arch::x86_64::__rdtscp(&mut cpu) };
    }
    let _ = COUNTER;
    monotonic()
}

/// For operators.c.
#[unsafe(no_mangle)]
extern "C" fn vcm_interposer_begun(block: *mut c_void, bytes: c_ulong, alignment: c_ulong) {
    let kind = if alignment == 0 { Kind::Malloc } else { Kind::Aligned };
    crate::malloc::begun(kind, block, bytes as usize, alignment as usize);
}

#[unsafe(no_mangle)]
extern "C" fn vcm_interposer_ended(block: *mut c_void) {
    crate::malloc::ended(Kind::Free, block, 0);
}
