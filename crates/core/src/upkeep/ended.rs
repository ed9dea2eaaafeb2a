//! Ended heaps of tenants: their spans are closed and their memory goes at once, by the janitor's thread where there is one, so that
//! the call which ends a heap does not wait for it.

use super::{Floors, Upkeep};
use crate::base::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::base::ticks::{AtomicTick, Tick, Ticks};
use crate::options::{OptionId, Origin};
use crate::os::Os;

/// Spans that are closed before their memory goes, some milliseconds.
const PORTION: usize = 2048;
/// Memory of smaller heaps waits as all free memory does: the next heap may want it.
const LEAST: usize = 8 << 20;
/// If more heaps wait for the janitor, calls that end one close some of their spans too.
const MOST_LEFT: u32 = 8;
/// How long others are waited for who close the last spans, in nanoseconds, and how often.
const WAIT: u64 = 20_000;
const WAITS: u32 = 2500;

/// Ends of heaps that follow each other so soon may be those of queries, each of which wants the memory of the one before.
const SOON: Ticks = Ticks(8);

/// The memory that ended heaps left to be given back.
pub(super) struct Ended {
    /// Bytes that are to go at once.
    bytes: AtomicUsize,
    /// The last end of a large heap, and whether it followed another one soon.
    at: AtomicTick,
    often: AtomicBool,
    /// One of them was to give its memory back at once.
    asked: AtomicBool,
}

impl Ended {
    pub const fn new() -> Self {
        Ended {
            bytes: AtomicUsize::new(0),
            at: AtomicTick::new(Tick(0)),
            often: AtomicBool::new(false),
            asked: AtomicBool::new(false),
        }
    }

    fn note(&self, bytes: usize, now: Tick) {
        self.often.store(now.since(self.at.load()) <= SOON, Ordering::Relaxed);
        self.at.store(now);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl<O: Os> Upkeep<O> {
    /// After a heap has ended, which made so many bytes free at once; `asked`: its memory is to go, however little. Called with
    /// no lock held.
    pub fn settle_ended(&self, floors: &Floors<O>, freed: usize, asked: bool) {
        if asked && freed != 0 {
            self.ended.asked.store(true, Ordering::Relaxed);
            self.ended.bytes.fetch_add(freed, Ordering::Relaxed);
        } else if freed >= LEAST {
            self.ended.note(freed, floors.pages.clock.load());
        }
        if !self.has_ended(floors) {
        } else if self.thread.is_running() {
            self.thread.call();
            if floors.tenants.left() > MOST_LEFT {
                self.close_ended(floors);
            }
        } else {
            while self.close_ended(floors) {}
        }
    }

    /// Whether there is something for `close_ended`, or others are at it.
    #[inline]
    pub fn has_ended(&self, floors: &Floors<O>) -> bool {
        floors.tenants.left() != 0 || self.ended.bytes.load(Ordering::Relaxed) != 0
    }

    /// Closes all spans of heaps that have ended, and waits for others who are at it.
    pub(super) fn close_all_ended(&self, floors: &Floors<O>) {
        for _ in 0..WAITS {
            while self.close_ended(floors) {}
            if !self.has_ended(floors) {
                return;
            }
            floors.os.sleep(WAIT);
        }
    }

    /// Closes some spans of heaps that have ended and gives as much memory back; whether there may be more.
    pub fn close_ended(&self, floors: &Floors<O>) -> bool {
        let closed = floors.tenants.close_left(&floors.store, PORTION);
        let freed = self.ended.bytes.swap(0, Ordering::Relaxed).saturating_add(closed.unwrap_or(0));
        // Memory that the program was seen to want again waits, as all free memory does.
        let is_asked = self.ended.asked.swap(false, Ordering::Relaxed);
        let is_wanted = !is_asked && self.decay.factor() > 1 && self.ended.often.load(Ordering::Relaxed);
        if freed != 0 && !is_wanted {
            let free = floors.pages.dirty_free_bytes();
            // A program that said how much may stay gets that.
            let retained = match floors.options.origin(OptionId::retain) {
                Origin::Default => 0,
                _ => self.holding_now(floors).retained,
            };
            let kept = free.saturating_sub(freed).max(retained);
            if free > kept {
                let gone = floors.pages.release(&floors.os, kept, Ticks(0));
                self.count_released(gone);
                self.shedding.note_shed(gone);
            }
        }
        closed.is_some()
    }
}
