//! A sampled block, a stack, and what is counted of them.

use crate::base::chance::sampled_chance;
use crate::base::stack::Stack;

/// Blocks are counted in these parts of one.
pub(super) const PARTS: f64 = 1024.0;

/// One sampled block in use.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) address: usize,
    pub(super) bytes: usize,
    pub(super) weight: u64,
    pub(super) parts: u64,
    pub(super) nanoseconds: u64,
    /// The number of the sample since the start, from 1; 0 in a record that is not in use.
    pub(super) birth: u64,
    /// The name of the tenant's heap that it is of; 0: the process's own.
    pub(super) heap: u64,
    /// The system's number of the thread that took it.
    pub(super) thread: u64,
    pub(super) stack: u32,
    pub(super) next: u32,
}

impl Record {
    /// A sample, drawn at this interval, that is in no chain yet.
    pub(super) fn new(address: usize, size: Size, interval: u64, nanoseconds: u64) -> Self {
        let chance = sampled_chance(size.counted as u64, interval);
        let (weight, parts) = ((size.bytes as f64 / chance + 0.5) as u64, (PARTS / chance + 0.5) as u64);
        Record {
            address,
            bytes: size.bytes,
            weight,
            parts,
            nanoseconds,
            birth: 0,
            heap: 0,
            thread: 0,
            stack: 0,
            next: 0,
        }
    }
}

/// How long a sampled block is.
#[derive(Clone, Copy)]
pub struct Size {
    /// As requested.
    pub bytes: usize,
    /// The bytes that it counted for where it was drawn: its chance to be a sample follows from that.
    pub counted: usize,
}

/// The blocks and bytes that the samples stand for, scaled.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    pub(super) parts: u64,
    pub bytes: u64,
}

impl Tally {
    pub(super) const NONE: Tally = Tally { parts: 0, bytes: 0 };

    pub fn objects(&self) -> u64 {
        (self.parts as f64 / PARTS + 0.5) as u64
    }

    pub(super) fn add(&mut self, record: &Record) {
        self.parts += record.parts;
        self.bytes += record.weight;
    }

    pub(super) fn without(&self, other: Tally) -> Tally {
        Tally { parts: self.parts - other.parts, bytes: self.bytes - other.bytes }
    }
}

/// All samples of one stack.
#[derive(Clone, Copy)]
pub struct OfStack {
    pub stack: Stack,
    pub(super) hash: u64,
    pub allocated: Tally,
    pub(super) freed: Tally,
    /// The use at the peak with the number `peak_number`; at a later one, the use now: nothing changed since.
    pub(super) peak: Tally,
    pub(super) peak_number: u64,
    pub(super) next: u32,
}

impl OfStack {
    pub(super) fn new(stack: &Stack, hash: u64) -> Self {
        let [allocated, freed, peak] = [Tally::NONE; 3];
        OfStack { stack: *stack, hash, allocated, freed, peak, peak_number: 0, next: 0 }
    }

    /// Before the tallies change: keeps what they were at the last peak.
    pub(super) fn keep_peak(&mut self, number: u64) {
        if self.peak_number != number {
            (self.peak, self.peak_number) = (self.in_use(), number);
        }
    }

    /// The use at the peak, of which the profile tells the number.
    #[cfg(test)]
    pub fn at_peak(&self, number: u64) -> Tally {
        if self.peak_number == number { self.peak } else { self.in_use() }
    }

    pub fn in_use(&self) -> Tally {
        self.allocated.without(self.freed)
    }
}
