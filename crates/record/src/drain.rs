//! Events out of the rings, in the order of their times.
//!
//! A round reads the time first and the heads behind it: a place taken later has a later time. When all places below the
//! heads were read, nothing from before that time can come any more, and what was read up to it is handed on, sorted.

use crate::clock::Clock;
use crate::layout::{self, Kind, LOW};
use crate::memory::Memory;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// A place that was taken and not filled for so long will not be: its thread left by longjmp or was cancelled.
const GIVEN_UP: Duration = Duration::from_secs(2);
/// A place may be taken a little before other CPUs see that: nanoseconds that a store takes, generously.
const SLACK_NANOSECONDS: u64 = 1_000_000;

/// An event as it was in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw {
    pub stamp: u64,
    pub kind: Kind,
    pub address: u64,
    pub size: u64,
    pub thread: u32,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    pub events: usize,
    /// Lost since the round before.
    pub lost: u64,
}

pub struct Drain {
    clock: Clock,
    /// The events that were read and are not handed on yet.
    read: Vec<Raw>,
    /// Of each ring: since when its next place is taken and empty.
    stuck: Vec<Option<(u64, Instant)>>,
    lost_before: u64,
    /// Places that were given up.
    abandoned: u64,
}

impl Drain {
    pub fn new(memory: &Memory) -> Drain {
        let rings = memory.header().rings as usize;
        Drain {
            clock: Clock::new(memory.header().clock),
            read: Vec::new(),
            stuck: vec![None; rings],
            lost_before: 0,
            abandoned: 0,
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Hands on what is certain by now. At the end, when the process is gone, all: then empty places stay empty.
    pub fn round(&mut self, memory: &Memory, at_end: bool, mut take: impl FnMut(&Clock, &Raw)) -> Round {
        memory.tick();
        let now = self.clock.read();
        let rate = self.clock.nanoseconds(now).saturating_sub(self.clock.nanoseconds(now - 1_000_000)).max(1);
        let slack = (u128::from(SLACK_NANOSECONDS) * 1_000_000 / u128::from(rate)) as u64;
        memory.fetch();
        let mut whole = true;
        for ring in 0..memory.header().rings {
            whole &= self.empty(memory, ring, at_end);
        }
        if !at_end {
            memory.tell();
        }
        let mut round = Round { lost: self.lost(memory), ..Round::default() };
        if !whole {
            return round;
        }
        let until = if at_end { u64::MAX } else { now.saturating_sub(slack) };
        // Each ring is nearly sorted, and the sort makes use of that.
        self.read.sort_by_key(|raw| raw.stamp);
        let certain = self.read.partition_point(|raw| raw.stamp <= until);
        for raw in self.read.drain(..certain) {
            take(&self.clock, &raw);
        }
        round.events = certain;
        round
    }

    fn lost(&mut self, memory: &Memory) -> u64 {
        let dropped: u64 = (0..memory.header().rings).map(|ring| memory.ring(ring).lost.load(Relaxed)).sum();
        let all = dropped + self.abandoned;
        all - std::mem::replace(&mut self.lost_before, all)
    }

    /// Reads a ring up to its head; false where a place before it is still empty.
    fn empty(&mut self, memory: &Memory, index: u32, at_end: bool) -> bool {
        let ring = memory.ring(index);
        let head = ring.head.load(Acquire);
        let mut place = ring.tail.load(Relaxed);
        while place < head {
            let slot = memory.slot(index, place);
            // Pairs with the Release by which the slot was finished.
            if slot.mark.load(Acquire) == layout::mark(place) {
                let (what, size) = (slot.what.load(Relaxed), slot.size.load(Relaxed));
                let (stamp, thread) = (slot.stamp.load(Relaxed), slot.thread.load(Relaxed));
                match Kind::of(what) {
                    Some(kind) => self.read.push(Raw { stamp, kind, address: what & LOW, size, thread }),
                    None => self.abandoned += 1,
                }
            } else if at_end || place < ring.orphaned.load(Acquire) || self.is_given_up(index, place) {
                self.abandoned += 1;
            } else {
                break;
            }
            place += 1;
        }
        // Pairs with the Acquire of who looks for room: it fills slots that were read.
        ring.tail.store(place, Release);
        place == head
    }

    fn is_given_up(&mut self, ring: u32, place: u64) -> bool {
        let Some(stuck) = self.stuck.get_mut(ring as usize) else { return false };
        match stuck {
            Some((at, since)) if *at == place => since.elapsed() >= GIVEN_UP,
            _ => {
                *stuck = Some((place, Instant::now()));
                false
            }
        }
    }
}
