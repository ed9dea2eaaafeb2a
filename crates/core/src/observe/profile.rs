//! The live profile: every sampled block that is in use, and for each stack what it allocated and what of
//! that was freed.
//!
//! Records and stacks never move while the profile runs. Records are found by address, stacks by their
//! frames, both by chains of numbers that start in a table of heads; number 0 ends a chain.
//!
//! ```text
//! window      the places of the tables, for readers outside the process
//! reading     samples, stacks and figures for readers in this process
//! tally       a sample, a stack, and what is counted of them
//! ```

mod reading;
mod tally;
mod text;
mod window;

use crate::base::ceilings::PROFILE_SAMPLES;
use crate::base::ceilings::PROFILE_STACKS;
use crate::base::locks::{Rank, Ranked};
use crate::base::stack::Stack;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
use crate::os::{Guard, Mutex, Os};
use crate::pages::Table;
pub use reading::{LiveSample, ProfileStats};
use tally::Record;
pub use tally::{OfStack, Size, Tally};

/// Of the second half, each of these parts is for an interval twice as long.
const STEPS_PER_TABLE: u64 = 16;
/// Tables as small as this are still worth having.
const LEAST_RECORDS: usize = 1 << 10;

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

#[derive(Clone, Copy)]
struct State {
    reserved: bool,
    /// Records and stacks that were ever in use; number 0 is nobody's.
    records: u32,
    stacks: u32,
    unused: u32,
    births: u64,
    live: u64,
    /// Of those, samples of tenants' heaps.
    of_heaps: u64,
    dropped: u64,
    /// How often the interval was doubled.
    raised: u32,
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
    of_heaps: 0,
    dropped: 0,
    raised: 0,
    allocated: Tally::NONE,
    freed: Tally::NONE,
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
        let mut records = PROFILE_SAMPLES;
        while records >= LEAST_RECORDS {
            let stacks = records * PROFILE_STACKS / PROFILE_SAMPLES;
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

    /// Ends the profile; its figures can be read until the next start.
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
        self.add_of_heap(os, 0, address, size, stack)
    }

    /// The same of a block of a tenant's heap.
    pub fn add_of_heap(&self, os: &O, heap: u64, address: usize, size: Size, stack: &Stack) -> bool {
        let (nanoseconds, thread) = (os.now(), os.thread_number());
        let mut state = self.state.lock();
        if !self.is_on() {
            return false;
        }
        let numbers = self.stack_number(os, &mut state, stack).zip(self.unused_record(os, &mut state));
        let Some((of_stack, number)) = numbers else {
            state.dropped += 1;
            return false;
        };
        let interval = self.interval();
        state.births += 1;
        state.live += 1;
        state.of_heaps += u64::from(heap != 0);
        self.raise_interval(&mut state);
        let head = self.record_head(address);
        let sample = Record::new(address, size, interval, nanoseconds);
        let record = Record {
            birth: state.births,
            heap,
            thread,
            stack: of_stack,
            next: head.load(Ordering::Relaxed),
            ..sample
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

    /// Doubles the interval where the samples of a growing heap would soon find no room.
    fn raise_interval(&self, state: &mut Held<'_, O>) {
        let capacity = self.records.capacity() as u64;
        let crowded = capacity / 2 + u64::from(state.raised + 1) * (capacity / STEPS_PER_TABLE);
        if state.live >= crowded {
            state.raised += 1;
            self.interval.store(self.interval().saturating_mul(2), Ordering::Relaxed);
        }
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
            peak_number: state.peaks,
            next: head.load(Ordering::Relaxed),
            ..OfStack::new(stack, hash)
        };
        head.store(fresh, Ordering::Relaxed);
        Some(fresh)
    }

    /// Whether there may be a sample at `address`. The caller owns the block, so nobody adds or removes this very address
    /// meanwhile.
    #[inline]
    pub fn may_hold(&self, address: usize) -> bool {
        self.is_on() && self.record_head(address).load(Ordering::Acquire) != 0
    }

    /// The number of the sample at `address`, 0 for none.
    fn find(&self, held: &Held<'_, O>, address: usize) -> u32 {
        let mut number = self.record_head(address).load(Ordering::Relaxed);
        while number != 0 && self.record(held, number).address != address {
            number = self.record(held, number).next;
        }
        number
    }

    /// Takes the sample at `address` out, if there is one: its block is about to be freed.
    pub fn remove(&self, address: usize) {
        if !self.may_hold(address) {
            return;
        }
        let mut state = self.state.lock();
        if !self.is_on() {
            return;
        }
        let number = self.find(&state, address);
        if number != 0 {
            self.take_out(&mut state, number);
        }
    }

    /// Takes all samples of a tenant's heap out: its blocks are about to be freed.
    pub fn remove_heap(&self, heap: u64) {
        self.each_of_heap(heap, |state, number| self.take_out(state, number));
    }

    /// Makes all samples of a tenant's heap those of another one; 0: the process's own.
    pub fn hand_over(&self, heap: u64, to: u64) {
        self.each_of_heap(heap, |state, number| {
            self.record(state, number).heap = to;
            state.of_heaps -= u64::from(to == 0);
        });
    }

    fn each_of_heap(&self, heap: u64, act: impl Fn(&mut Held<'_, O>, u32)) {
        if !self.is_on() {
            return;
        }
        let mut state = self.state.lock();
        if !self.is_on() || state.of_heaps == 0 {
            return;
        }
        for number in 1..state.records {
            let record = self.record(&state, number);
            if record.birth != 0 && record.heap == heap {
                act(&mut state, number);
            }
        }
    }

    fn take_out(&self, state: &mut Held<'_, O>, number: u32) {
        let record = *self.record(state, number);
        let head = self.record_head(record.address);
        let (mut before, mut at) = (0, head.load(Ordering::Relaxed));
        while at != number {
            before = at;
            at = self.record(state, at).next;
        }
        match before {
            0 => head.store(record.next, Ordering::Relaxed),
            _ => self.record(state, before).next = record.next,
        }
        let peaks = state.peaks;
        let of_stack = self.of_stack(state, record.stack);
        of_stack.keep_peak(peaks);
        of_stack.freed.add(&record);
        state.freed.add(&record);
        state.live -= 1;
        state.of_heaps -= u64::from(record.heap != 0);
        *self.record(state, number) = Record { birth: 0, address: 0, next: state.unused, ..record };
        state.unused = number;
    }

    #[cfg(test)]
    pub fn peaks(&self) -> u64 {
        self.state.lock().peaks
    }

    /// Mean bytes between samples, of this profile or the last.
    pub fn interval(&self) -> u64 {
        self.interval.load(Ordering::Relaxed)
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
