//! The live profile: every sampled block that is in use, and for each stack what it allocated and what of
//! that was freed.
//!
//! Records and stacks never move while the profile runs. Records are found by address, stacks by their
//! frames, both by chains of numbers that start in a table of heads; number 0 ends a chain.

use super::stack::Stack;
use crate::base::chance::sampled_chance;
use crate::base::locks::{Rank, Ranked};
use crate::base::place::Places;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
use crate::os::{Guard, Mutex, Os};
use crate::pages::Table;
use core::mem::offset_of;

/// At the default interval of 512 KiB so many live samples stand for 128 GiB.
const MOST_RECORDS: usize = 1 << 18;
const MOST_STACKS: usize = 1 << 15;
/// Tables as small as this are still worth having.
const LEAST_RECORDS: usize = 1 << 10;
/// Records that a reader copies in one go.
const COPIED: usize = 8;
/// Blocks are counted in these parts of one.
const PARTS: f64 = 1024.0;

/// One sampled block in use.
#[derive(Clone, Copy)]
struct Record {
    address: usize,
    bytes: usize,
    weight: u64,
    parts: u64,
    nanoseconds: u64,
    /// The number of the sample since the start, from 1; 0 in a record that is not in use.
    birth: u64,
    stack: u32,
    next: u32,
}

/// How long a sampled block is.
#[derive(Clone, Copy)]
pub struct Size {
    /// As requested.
    pub bytes: usize,
    /// What it counted for where it was drawn: its chance to be a sample follows from that.
    pub counted: usize,
}

/// Blocks and bytes, scaled: what the samples stand for.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    parts: u64,
    pub bytes: u64,
}

impl Tally {
    pub fn objects(&self) -> u64 {
        (self.parts as f64 / PARTS + 0.5) as u64
    }

    fn add(&mut self, record: &Record) {
        self.parts += record.parts;
        self.bytes += record.weight;
    }

    fn without(&self, other: Tally) -> Tally {
        Tally { parts: self.parts - other.parts, bytes: self.bytes - other.bytes }
    }
}

/// All samples of one stack.
#[derive(Clone, Copy)]
pub struct OfStack {
    pub stack: Stack,
    hash: u64,
    pub allocated: Tally,
    freed: Tally,
    /// What was in use at the peak with the number `peak_number`; at a later one, what is in use now: nothing changed since.
    peak: Tally,
    peak_number: u64,
    next: u32,
}

impl OfStack {
    /// Before the tallies change: keeps what they were at the last peak.
    fn keep_peak(&mut self, number: u64) {
        if self.peak_number != number {
            (self.peak, self.peak_number) = (self.in_use(), number);
        }
    }

    /// What was in use at the peak, of which the profile tells the number.
    #[cfg(test)]
    pub fn at_peak(&self, number: u64) -> Tally {
        if self.peak_number == number { self.peak } else { self.in_use() }
    }

    pub fn in_use(&self) -> Tally {
        self.allocated.without(self.freed)
    }
}

/// A sample as a reader sees it.
pub struct LiveSample<'a> {
    pub address: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// Bytes of the heap that this sample stands for.
    pub weight: u64,
    /// When it was allocated, on the system's clock that never goes back.
    pub nanoseconds: u64,
    /// Return addresses, innermost first.
    pub stack: &'a [usize],
}

/// The profile in figures; bytes and objects are scaled.
#[derive(Clone, Copy, Default, Debug)]
pub struct ProfileStats {
    /// Mean bytes between samples.
    pub interval: u64,
    pub live_samples: u64,
    /// Samples that found a table full.
    pub dropped: u64,
    pub allocated_objects: u64,
    pub allocated_bytes: u64,
    pub live_objects: u64,
    pub live_bytes: u64,
}

/// The live profile of a heap. Any thread may call.
pub struct Profile<O: Os> {
    on: AtomicBool,
    interval: AtomicU64,
    records: Table<Record>,
    record_heads: Table<AtomicU32>,
    stacks: Table<OfStack>,
    stack_heads: Table<AtomicU32>,
    state: Mutex<State, O>,
}

/// Where its tables lie (docs/design/window.md).
impl<O: Os> Profile<O> {
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let list = Table::<Record>::places(list, "records", at + offset_of!(Self, records));
        let list = Table::<AtomicU32>::places(list, "record_heads", at + offset_of!(Self, record_heads));
        let list = Table::<OfStack>::places(list, "stacks", at + offset_of!(Self, stacks));
        let list = Table::<AtomicU32>::places(list, "stack_heads", at + offset_of!(Self, stack_heads))
            .one("profile.on", 1, at + offset_of!(Self, on))
            .one("profile.interval", 8, at + offset_of!(Self, interval));
        Self::places_of_entries(Self::places_of_state(list, at + offset_of!(Self, state)))
    }

    const fn places_of_state(list: Places, lock: usize) -> Places {
        let state = lock + Mutex::<State, O>::VALUE;
        list.one("profile.lock", 4, lock + Mutex::<State, O>::STATE)
            .one("profile.records", 4, state + offset_of!(State, records))
            .one("profile.stacks", 4, state + offset_of!(State, stacks))
            .one("profile.births", 8, state + offset_of!(State, births))
            .one("profile.live", 8, state + offset_of!(State, live))
            .one("profile.dropped", 8, state + offset_of!(State, dropped))
            .one("profile.peaks", 8, state + offset_of!(State, peaks))
    }

    /// How an entry of either table is laid out.
    const fn places_of_entries(list: Places) -> Places {
        let (allocated, freed) = (offset_of!(OfStack, allocated), offset_of!(OfStack, freed));
        list.constant("record.entry_bytes", size_of::<Record>())
            .constant("record.address", offset_of!(Record, address))
            .constant("record.bytes", offset_of!(Record, bytes))
            .constant("record.weight", offset_of!(Record, weight))
            .constant("record.parts", offset_of!(Record, parts))
            .constant("record.birth", offset_of!(Record, birth))
            .constant("record.stack", offset_of!(Record, stack))
            .constant("stack.entry_bytes", size_of::<OfStack>())
            .constant("stack.frames", offset_of!(OfStack, stack) + Stack::FRAMES)
            .constant("stack.depth", offset_of!(OfStack, stack) + Stack::DEPTH)
            .constant("stack.allocated_parts", allocated + offset_of!(Tally, parts))
            .constant("stack.allocated_bytes", allocated + offset_of!(Tally, bytes))
            .constant("stack.freed_parts", freed + offset_of!(Tally, parts))
            .constant("stack.freed_bytes", freed + offset_of!(Tally, bytes))
            .constant("stack.peak_parts", offset_of!(OfStack, peak) + offset_of!(Tally, parts))
            .constant("stack.peak_bytes", offset_of!(OfStack, peak) + offset_of!(Tally, bytes))
            .constant("stack.peak_number", offset_of!(OfStack, peak_number))
            .constant("stack.parts_of_one", PARTS as usize)
    }
}

#[derive(Clone, Copy)]
struct State {
    reserved: bool,
    /// Records and stacks that were ever in use; number 0 is nobody's.
    records: u32,
    stacks: u32,
    unused: u32,
    births: u64,
    live: u64,
    dropped: u64,
    allocated: Tally,
    freed: Tally,
    /// Bytes in use at the last peak, and how many there were.
    peak_bytes: u64,
    peaks: u64,
}

impl State {
    /// A peak counts where it is so much, a part of the last one, above it: each makes every stack keep what it had.
    const PEAK_STEP: u64 = 64;

    fn note_peak(&mut self) {
        let in_use = self.allocated.bytes - self.freed.bytes;
        if in_use > self.peak_bytes + self.peak_bytes / Self::PEAK_STEP {
            self.peak_bytes = in_use;
            self.peaks += 1;
        }
    }
}

impl Ranked for State {
    const RANK: Rank = Rank::Profile;
}

const EMPTY: State = State {
    reserved: false,
    records: 1,
    stacks: 1,
    unused: 0,
    births: 0,
    live: 0,
    dropped: 0,
    allocated: Tally { parts: 0, bytes: 0 },
    freed: Tally { parts: 0, bytes: 0 },
    peak_bytes: 0,
    peaks: 0,
};

type Held<'a, O> = Guard<'a, State, O>;

impl<O: Os> Profile<O> {
    pub const fn new() -> Self {
        Profile {
            on: AtomicBool::new(false),
            interval: AtomicU64::new(0),
            records: Table::new(),
            record_heads: Table::new(),
            stacks: Table::new(),
            stack_heads: Table::new(),
            state: Mutex::new(EMPTY),
        }
    }

    /// Empties the tables and begins; false where the system gives no addresses for them.
    pub fn start(&self, os: &O, interval: u64) -> bool {
        let mut state = self.state.lock();
        self.on.store(false, Ordering::Relaxed);
        if !state.reserved && !self.reserve(os) {
            return false;
        }
        *state = State { reserved: true, ..EMPTY };
        for heads in [&self.record_heads, &self.stack_heads] {
            (0..heads.capacity()).for_each(|index| self.head(heads, index).store(0, Ordering::Relaxed));
        }
        self.interval.store(interval.max(1), Ordering::Relaxed);
        self.on.store(true, Ordering::Release);
        true
    }

    fn reserve(&self, os: &O) -> bool {
        let mut records = MOST_RECORDS;
        while records >= LEAST_RECORDS {
            let stacks = records * MOST_STACKS / MOST_RECORDS;
            let heads = records / 4;
            let started = self.records.start(os, records)
                && self.stacks.start(os, stacks)
                && self.record_heads.start(os, heads)
                && self.stack_heads.start(os, stacks)
                && self.record_heads.ensure(os, heads)
                && self.stack_heads.ensure(os, stacks);
            if started {
                return true;
            }
            self.records.stop(os);
            self.stacks.stop(os);
            self.record_heads.stop(os);
            self.stack_heads.stop(os);
            records /= 4;
        }
        false
    }

    /// Ends the profile; what it knows can be read until the next start.
    pub fn stop(&self) {
        self.on.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn head<'a>(&self, heads: &'a Table<AtomicU32>, index: usize) -> &'a AtomicU32 {
        // SAFETY: `reserve` gave all heads memory, and callers keep the index below the capacity.
        unsafe { &*heads.at(index) }
    }

    fn record_head(&self, address: usize) -> &AtomicU32 {
        // Fibonacci hashing, as in `Cache::slot`.
        let hash = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
        self.head(&self.record_heads, hash % self.record_heads.capacity().max(1))
    }

    // The exclusive right comes from the lock, which the compiler cannot see.
    #[allow(clippy::mut_from_ref)]
    fn record(&self, _held: &Held<'_, O>, number: u32) -> &mut Record {
        // SAFETY: numbers in chains, and those below `State::records`, have memory; one reference at a time.
        unsafe { &mut *self.records.at(number as usize) }
    }

    #[allow(clippy::mut_from_ref)]
    fn of_stack(&self, _held: &Held<'_, O>, number: u32) -> &mut OfStack {
        // SAFETY: numbers of stacks that records name have memory; one reference at a time.
        unsafe { &mut *self.stacks.at(number as usize) }
    }

    /// Writes a sample down; false where the tables are full.
    pub fn add(&self, os: &O, address: usize, size: Size, stack: &Stack) -> bool {
        let nanoseconds = os.now();
        let mut state = self.state.lock();
        if !self.is_on() {
            return false;
        }
        let numbers = self.stack_number(os, &mut state, stack).zip(self.unused_record(os, &mut state));
        let Some((of_stack, number)) = numbers else {
            state.dropped += 1;
            return false;
        };
        state.births += 1;
        state.live += 1;
        let Size { bytes, counted } = size;
        let chance = sampled_chance(counted as u64, self.interval.load(Ordering::Relaxed));
        let head = self.record_head(address);
        let record = Record {
            address,
            bytes,
            weight: (bytes as f64 / chance + 0.5) as u64,
            parts: (PARTS / chance + 0.5) as u64,
            nanoseconds,
            birth: state.births,
            stack: of_stack,
            next: head.load(Ordering::Relaxed),
        };
        *self.record(&state, number) = record;
        let peaks = state.peaks;
        let of_stack = self.of_stack(&state, of_stack);
        of_stack.keep_peak(peaks);
        of_stack.allocated.add(&record);
        state.allocated.add(&record);
        state.note_peak();
        head.store(number, Ordering::Release);
        true
    }

    fn unused_record(&self, os: &O, state: &mut Held<'_, O>) -> Option<u32> {
        let unused = state.unused;
        if unused != 0 {
            state.unused = self.record(state, unused).next;
            return Some(unused);
        }
        let fresh = state.records;
        if fresh as usize >= self.records.capacity() || !self.records.ensure(os, fresh as usize + 1) {
            return None;
        }
        state.records += 1;
        Some(fresh)
    }

    fn stack_number(&self, os: &O, state: &mut Held<'_, O>, stack: &Stack) -> Option<u32> {
        let hash = stack.hash();
        let head = self.head(&self.stack_heads, hash as usize % self.stack_heads.capacity().max(1));
        let mut number = head.load(Ordering::Relaxed);
        while number != 0 {
            let known = self.of_stack(state, number);
            if known.hash == hash && known.stack.frames() == stack.frames() {
                return Some(number);
            }
            number = known.next;
        }
        let fresh = state.stacks;
        if fresh as usize >= self.stacks.capacity() || !self.stacks.ensure(os, fresh as usize + 1) {
            return None;
        }
        state.stacks += 1;
        *self.of_stack(state, fresh) = OfStack {
            stack: *stack,
            hash,
            allocated: Tally::default(),
            freed: Tally::default(),
            peak: Tally::default(),
            peak_number: state.peaks,
            next: head.load(Ordering::Relaxed),
        };
        head.store(fresh, Ordering::Relaxed);
        Some(fresh)
    }

    /// Takes the sample at `address` out, if there is one: its block is about to be freed.
    pub fn remove(&self, address: usize) {
        // The caller owns the block, so nobody adds or removes this very address meanwhile.
        if !self.is_on() || self.record_head(address).load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.state.lock();
        if !self.is_on() {
            return;
        }
        let head = self.record_head(address);
        let mut before = 0;
        let mut number = head.load(Ordering::Relaxed);
        while number != 0 && self.record(&state, number).address != address {
            before = number;
            number = self.record(&state, number).next;
        }
        if number == 0 {
            return;
        }
        let record = *self.record(&state, number);
        match before {
            0 => head.store(record.next, Ordering::Relaxed),
            _ => self.record(&state, before).next = record.next,
        }
        let peaks = state.peaks;
        let of_stack = self.of_stack(&state, record.stack);
        of_stack.keep_peak(peaks);
        of_stack.freed.add(&record);
        state.freed.add(&record);
        state.live -= 1;
        *self.record(&state, number) = Record { birth: 0, address: 0, next: state.unused, ..record };
        state.unused = number;
    }

    /// Calls `take` for every sample that is live from the beginning to the end of this call, with no lock
    /// held. Each look at the tables under the lock is made by `within`, which can refuse: then that was all.
    pub fn each_live(&self, within: impl Fn(&mut dyn FnMut()), mut take: impl FnMut(&LiveSample)) {
        let (mut births, mut count) = (0, 0);
        within(&mut || {
            let state = self.state.lock();
            (births, count) = (state.births, state.records);
        });
        let mut next = 1;
        while next < count {
            let mut copies = [const { None }; COPIED];
            let before = next;
            within(&mut || self.copy_live(&mut next, count, births, &mut copies));
            if next == before {
                return;
            }
            for (record, stack) in copies.iter().flatten() {
                take(&LiveSample {
                    address: record.address,
                    bytes: record.bytes,
                    weight: record.weight,
                    nanoseconds: record.nanoseconds,
                    stack: stack.frames(),
                });
            }
        }
    }

    /// Copies the next live records up to number `count`, none younger than `births`.
    fn copy_live(&self, next: &mut u32, count: u32, births: u64, copies: &mut [Option<(Record, Stack)>]) {
        let mut places = copies.iter_mut();
        let state = self.state.lock();
        while *next < count.min(state.records) {
            let record = *self.record(&state, *next);
            if record.birth != 0 && record.birth <= births {
                let Some(place) = places.next() else { return };
                *place = Some((record, self.of_stack(&state, record.stack).stack));
            }
            *next += 1;
        }
        // The rest, if any, went away with a new start.
        if *next >= state.records {
            *next = count;
        }
    }

    /// Calls `take` for every stack that was ever sampled, with no lock held. `within` is what `each_live` asks for.
    pub fn each_stack(&self, within: impl Fn(&mut dyn FnMut()), mut take: impl FnMut(&OfStack)) {
        for number in 1.. {
            let mut copy = None;
            within(&mut || {
                let state = self.state.lock();
                if number < state.stacks {
                    copy = Some(*self.of_stack(&state, number));
                }
            });
            let Some(of_stack) = copy else { return };
            take(&of_stack);
        }
    }

    #[cfg(test)]
    pub fn peaks(&self) -> u64 {
        self.state.lock().peaks
    }

    /// Mean bytes between samples, of this profile or the last.
    pub fn interval(&self) -> u64 {
        self.interval.load(Ordering::Relaxed)
    }

    pub fn stats(&self) -> ProfileStats {
        let state = self.state.lock();
        let live = state.allocated.without(state.freed);
        ProfileStats {
            interval: self.interval(),
            live_samples: state.live,
            dropped: state.dropped,
            allocated_objects: state.allocated.objects(),
            allocated_bytes: state.allocated.bytes,
            live_objects: live.objects(),
            live_bytes: live.bytes,
        }
    }

    /// Address and bytes of the tables.
    pub fn each_mapping(&self, mut take: impl FnMut(usize, usize)) {
        let ranges =
            [self.records.range(), self.record_heads.range(), self.stacks.range(), self.stack_heads.range()];
        ranges.into_iter().filter(|(_, bytes)| *bytes > 0).for_each(|(start, bytes)| take(start, bytes));
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_reservation(&self, mut take: impl FnMut(usize, usize)) {
        let tables = [
            self.records.reservation(),
            self.record_heads.reservation(),
            self.stacks.reservation(),
            self.stack_heads.reservation(),
        ];
        tables.into_iter().for_each(|(start, bytes)| take(start, bytes));
    }

    /// Takes the lock over from a thread that is not in this process, and ends the profile that it was
    /// changing.
    ///
    /// # Safety
    /// All threads that could hold the lock, but this one, stayed in the parent process.
    pub unsafe fn repair(&self, outermost: bool) {
        // SAFETY: by the caller's promise; released by the thread that seized it.
        unsafe {
            if self.state.seize(outermost) {
                self.on.store(false, Ordering::Relaxed);
                *self.state.seized() = State { reserved: self.state.seized().reserved, ..EMPTY };
                self.state.release();
            }
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_lock(&self, take: &mut dyn FnMut(&dyn AnyLock)) {
        take(&self.state);
    }
}
