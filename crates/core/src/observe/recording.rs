//! Recording for a tool outside the process: each block that begins and ends, into rings of this process's own memory
//! (docs/design/record.md).
//!
//! Owns the rings; promises that no lock is taken, that nobody waits for long, and that it is over soon after the tool is gone:
//! each event looks whether its time lies behind the one that the tool has put off last. Signal handlers may come in
//! the middle. `heap` says when; sits on `os`.

pub mod layout;

use crate::base::ceilings::RECORDING_RINGS;
use crate::base::place::Places;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::os::{Os, Purpose};
use core::mem::{offset_of, size_of};
use layout::{Header, Kind, LOW, Ring, Slot};

/// All rings together; a ring is never shorter than `LEAST_SLOTS`.
const BYTES: usize = 64 << 20;
const MOST_SLOTS: usize = 1 << 16;
const LEAST_SLOTS: usize = 1 << 12;
/// A thread waits so long for room at most, and then goes on unrecorded: this is somebody's daemon.
const LONGEST_WAIT_NANOSECONDS: u64 = 100_000_000;
const PAUSE_NANOSECONDS: u64 = 200_000;

/// A tool's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// `layout::COUNTER`, or the clock of the system.
    pub clock: u32,
    /// One in so many addresses.
    pub sample: u32,
    /// In stamps: for how long the tool need not be heard of.
    pub patience: u64,
    /// Offset of a thread's number in its block of the C library; 0: not known, and the system is asked.
    pub number_at: usize,
}

/// The rings, and whether they are filled. Zeroed: none. Any thread may put an event, one at a time starts and ends.
pub struct Recording {
    on: AtomicBool,
    /// The fast paths are to be on again when it ends.
    pub closed: AtomicBool,
    clock: AtomicU32,
    sample: AtomicU32,
    number_at: AtomicUsize,
    /// Once mapped they stay, as many and as long: a thread may be in the middle of an event for any time.
    at: AtomicUsize,
    bytes: AtomicUsize,
    rings: AtomicU32,
    slots: AtomicU32,
    /// The number of this recording, or of the last one.
    number: AtomicU32,
}

impl Recording {
    pub const fn new() -> Self {
        Recording {
            on: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            clock: AtomicU32::new(0),
            sample: AtomicU32::new(0),
            number_at: AtomicUsize::new(0),
            at: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            rings: AtomicU32::new(0),
            slots: AtomicU32::new(0),
            number: AtomicU32::new(0),
        }
    }

    pub(crate) const fn places(list: Places, at: usize) -> Places {
        list.mapping("recording", at + offset_of!(Self, at), at + offset_of!(Self, bytes))
            .one("recording.on", 1, at + offset_of!(Self, on))
            .one("recording.rings", 4, at + offset_of!(Self, rings))
            .one("recording.slots", 4, at + offset_of!(Self, slots))
            .one("recording.number", 4, at + offset_of!(Self, number))
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Makes all ready; from `open` on events are put. False where there is no memory.
    pub fn prepare<O: Os>(&self, os: &O, wanted: &Wanted) -> bool {
        let Some(header) = self.header().or_else(|| self.map(os)) else { return false };
        // A number that lies elsewhere than the tool thinks is asked for.
        let lies_there = wanted.number_at != 0
            && os.thread_number() != 0
            && u64::from(os.thread_number_at(wanted.number_at)) == os.thread_number();
        self.number_at.store(if lies_there { wanted.number_at } else { 0 }, Ordering::Relaxed);
        self.clock.store(wanted.clock, Ordering::Relaxed);
        self.sample.store(wanted.sample, Ordering::Relaxed);
        for index in 0..self.rings.load(Ordering::Relaxed) as usize {
            let ring = self.ring(header, index);
            ring.tail.store(ring.head.load(Ordering::Acquire), Ordering::Release);
            ring.lost.store(0, Ordering::Relaxed);
        }
        header.waits.store(0, Ordering::Relaxed);
        header.waited_nanoseconds.store(0, Ordering::Relaxed);
        header.until.store(self.now(os).saturating_add(wanted.patience), Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub fn open(&self) {
        self.on.store(true, Ordering::Release);
    }

    /// No more events; the slots' memory goes back.
    pub fn close<O: Os>(&self, os: &O) {
        self.on.store(false, Ordering::Release);
        if let Some(header) = self.header() {
            let first = layout::slots_at(self.rings.load(Ordering::Relaxed));
            os.release((&raw const *header).addr() + first, self.bytes.load(Ordering::Relaxed) - first);
        }
    }

    /// Whether the tool has not been heard of for too long, or this is a child of the process that it knows.
    pub fn is_over<O: Os>(&self, os: &O) -> bool {
        self.header().is_none_or(|header| self.now(os) > header.until.load(Ordering::Relaxed))
    }

    #[inline]
    pub fn is_sampled(&self, address: usize) -> bool {
        layout::is_sampled(address as u64, self.sample.load(Ordering::Relaxed))
    }

    /// Writes an event into a ring: an allocation after it was done, a free before. False where recording is over.
    pub fn put<O: Os>(&self, os: &O, ring: usize, kind: Kind, address: usize, size: u64) -> bool {
        let Some(header) = self.header() else { return false };
        let until = header.until.load(Ordering::Relaxed);
        if until == 0 {
            // A child: for it the rings are zeros.
            return false;
        }
        let ring = ring % (self.rings.load(Ordering::Relaxed) as usize).max(1);
        let Some(place) = self.take(os, header, self.ring(header, ring)) else {
            return self.now(os) <= until;
        };
        // Behind the taking of the place: the tool reads the time before it looks which places are taken.
        let stamp = self.now(os);
        let slot = self.slot(header, ring, place);
        slot.stamp.store(stamp, Ordering::Relaxed);
        slot.what.store((kind as u64) << 56 | address as u64 & LOW, Ordering::Relaxed);
        slot.size.store(size, Ordering::Relaxed);
        slot.thread.store(self.thread(os), Ordering::Relaxed);
        // A reader that sees the mark sees the rest.
        slot.mark.store(layout::mark(place), Ordering::Release);
        stamp <= until
    }

    /// The next place of a ring; none where there was no room for long.
    #[inline]
    fn take<O: Os>(&self, os: &O, header: &Header, ring: &Ring) -> Option<u64> {
        let slots = u64::from(self.slots.load(Ordering::Relaxed));
        loop {
            let head = ring.head.load(Ordering::Relaxed);
            if head.wrapping_sub(ring.tail.load(Ordering::Acquire)) >= slots {
                self.wait(os, header, ring)?;
            } else if ring
                .head
                .compare_exchange_weak(head, head.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Some(head);
            }
        }
    }

    #[cold]
    fn wait<O: Os>(&self, os: &O, header: &Header, ring: &Ring) -> Option<()> {
        let slots = u64::from(self.slots.load(Ordering::Relaxed));
        let is_full =
            || ring.head.load(Ordering::Relaxed).wrapping_sub(ring.tail.load(Ordering::Acquire)) >= slots;
        // While events are being lost nobody waits again: the tool does not get on.
        let hopeless = ring.lost.load(Ordering::Relaxed) > 0 && header.rounds.load(Ordering::Relaxed) == 0;
        let began = os.now();
        let mut waited = 0;
        while is_full() && !hopeless && waited < LONGEST_WAIT_NANOSECONDS && self.is_on() {
            os.sleep(PAUSE_NANOSECONDS);
            // A clock that may not be asked stands still.
            waited = os.now().saturating_sub(began).max(waited + PAUSE_NANOSECONDS);
        }
        header.waits.fetch_add(1, Ordering::Relaxed);
        header.waited_nanoseconds.fetch_add(waited, Ordering::Relaxed);
        if is_full() {
            ring.lost.fetch_add(1, Ordering::Relaxed);
            // The tool counts them, and writes the number anew in each.
            header.rounds.store(0, Ordering::Relaxed);
            return None;
        }
        Some(())
    }

    #[inline]
    fn thread<O: Os>(&self, os: &O) -> u32 {
        match self.number_at.load(Ordering::Relaxed) {
            0 => os.thread_number() as u32,
            at => os.thread_number_at(at),
        }
    }

    #[inline]
    fn now<O: Os>(&self, os: &O) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.clock.load(Ordering::Relaxed) == layout::COUNTER {
            let mut cpu = 0;
            // It waits for what stands before it: the place was taken, and the block is there.
            // SAFETY: the tool has looked for it.
            return unsafe { core::arch::x86_64::__rdtscp(&mut cpu) };
        }
        os.now()
    }

    #[cold]
    fn map<O: Os>(&self, os: &O) -> Option<&Header> {
        let rings = os.possible_cpus().clamp(1, RECORDING_RINGS);
        let slots = 1 << (BYTES / rings / size_of::<Slot>()).clamp(LEAST_SLOTS, MOST_SLOTS).ilog2();
        let page = os.page_bytes().max(1);
        let bytes = layout::bytes(rings as u32, slots).next_multiple_of(page);
        let at = os.map(bytes)?;
        os.name_pages(at, bytes, Purpose::Tables);
        os.forbid_huge_pages(at, bytes);
        // If that is refused, a child records into a copy of its own, for as long as nobody is heard of.
        os.wipe_in_children(at, bytes);
        self.rings.store(rings as u32, Ordering::Relaxed);
        self.slots.store(slots, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.at.store(at, Ordering::Release);
        self.header()
    }

    #[inline]
    fn header(&self) -> Option<&Header> {
        match self.at.load(Ordering::Acquire) {
            0 => None,
            // SAFETY: a mapping that is never ended, of at least a header; all in it that changes is an atomic.
            at => Some(unsafe { &*core::ptr::with_exposed_provenance(at) }),
        }
    }

    #[inline]
    fn ring<'a>(&self, header: &'a Header, index: usize) -> &'a Ring {
        // SAFETY: the caller's index is below the number of rings, which lie on the page behind the header.
        unsafe { &*(&raw const *header).byte_add(layout::PAGE).cast::<Ring>().add(index) }
    }

    #[inline]
    fn slot<'a>(&self, header: &'a Header, ring: usize, place: u64) -> &'a Slot {
        let slots = self.slots.load(Ordering::Relaxed) as usize;
        let index = ring * slots + (place as usize & (slots - 1));
        let first = layout::slots_at(self.rings.load(Ordering::Relaxed));
        // SAFETY: as many slots as rings times `slots` lie there, and neither number ever changes.
        unsafe { &*(&raw const *header).byte_add(first).cast::<Slot>().add(index) }
    }

    #[cfg(test)]
    fn sum(&self, of: impl Fn(&Ring) -> u64) -> u64 {
        let rings = 0..self.rings.load(Ordering::Relaxed) as usize;
        self.header().map_or(0, |header| rings.map(|index| of(self.ring(header, index))).sum())
    }

    #[cfg(test)]
    pub fn events(&self) -> u64 {
        self.sum(|ring| ring.head.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub fn lost(&self) -> u64 {
        self.sum(|ring| ring.lost.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub fn room(&self) -> u64 {
        u64::from(self.rings.load(Ordering::Relaxed)) * u64::from(self.slots.load(Ordering::Relaxed))
    }
}
