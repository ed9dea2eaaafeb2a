//! Upkeep: gives back memory that nobody uses, and keeps the heap within its limits.
//! docs/design/memory-comes-back.md tells the whole.
//!
//! Release in ten lines:
//! - `retain` says how much free memory may stay: a part of what lives, what large blocks swing by, what the last ticks needed.
//! - `decay` says how long memory waits: `release_delay`, up to 32 times as long while a program soon wants it again; not at
//!   all where more is free than half of what lives and 16 MiB.
//! - Three moments look. A *tick* (`tick`), four in a delay: memory older than the delay goes, and what is beyond `retain`.
//!   *Growth* (`shed`): a heap that grows although it holds plenty gives back in portions, so that no caller waits for all.
//!   A *free* without a janitor (`alone`): beyond 16 MiB memory goes in the free itself, since nothing may follow it.
//! - Each of them takes wholly free huge pages first, then free units, then idle pages of spans in use (subrelease).
//! - `condense` lets blocks that swing through caches go to the fullest spans, so that the others empty.
//! - `relief`: at a limit, under pressure and where an allocation fails everything goes at once.
//!
//! Owns the heap's ticks, what was learned from the program, how limits are kept, and the state of the janitor's thread.
//! Promises that idle memory goes back to the system and that limits hold. `engine` and `heap` call it, after slow paths and
//! from the janitor's thread, with no lock held; a misuse of the heap that it comes upon is returned, for `engine` to act on.
//! Sits on `tenants`, `cache`, `large`, `central`, `pages` and `options`.

mod alone;
mod bound;
mod callback;
mod collect;
mod condense;
mod decay;
mod ended;
mod limits;
mod relief;
mod retain;
mod shed;
mod thread;
mod tick;
mod words;

pub use callback::Callback;
pub use retain::Holding;
#[cfg(test)]
pub(crate) use shed::{BYTES_PER_PORTION, LEAST_GROWTH, SPANS_PER_PORTION};
pub use thread::{Thread, Ticker};
pub use tick::nanoseconds;
pub use words::{AHEAD, NEAR, REFUSED, Words};

use crate::base::locks::Relieving;
use crate::base::place::Places;
use crate::base::sync::{AtomicBool, AtomicU64, Ordering};
use crate::base::ticks::{Tick, Ticks};
use crate::cache::Cache;
use crate::central::Store;
use crate::large::Large;
use crate::options::Options;
use crate::os::{Mutex, Os};
use crate::pages::SpanId;
use crate::tenants::Tenants;
use alone::Alone;
use condense::Condensing;
use core::mem::offset_of;
use core::ops::Deref;
use decay::Decay;
use ended::Ended;
use limits::Group;
use relief::Relief;
use retain::Retain;
use shed::Shedding;
use tick::Schedule;

/// The floors of one heap below upkeep, which owns what is about to be kept up. Started: without their tables there is nothing.
pub struct Floors<O: Os> {
    pub store: Store<O>,
    pub cache: Cache<O>,
    pub large: Large,
    pub tenants: Tenants<O>,
    pub options: Options,
}

impl<O: Os> Floors<O> {
    pub const fn new(os: O) -> Self {
        Floors {
            store: Store::new(os),
            cache: Cache::new(),
            large: Large::new(),
            tenants: Tenants::new(),
            options: Options::new(),
        }
    }

    /// Gives idle pages of a span back, if nobody touched it for `ticks`. Returns the bytes.
    pub fn subrelease(&self, id: SpanId, ticks: Ticks) -> usize {
        match self.pages.span(id).heap.get() {
            0 => self.central.subrelease(&self.os, &self.pages, id, ticks),
            _ => self.tenants.subrelease(&self.store, id, ticks),
        }
    }
}

impl<O: Os> Deref for Floors<O> {
    type Target = Store<O>;

    #[inline(always)]
    fn deref(&self) -> &Store<O> {
        &self.store
    }
}

/// The state of upkeep. Any thread may call.
pub struct Upkeep<O: Os> {
    pub thread: Thread<O>,
    pub callback: Callback,
    pub words: Words,
    schedule: Schedule,
    alone: Alone,
    condensing: Condensing,
    decay: Decay,
    retain: Retain,
    pub(crate) shedding: Shedding,
    group: Group,
    relief: Relief,
    /// Held by the thread that relieves the heap. A thread that grew it meanwhile waits: with many more threads than
    /// CPUs a heap grows faster than one thread among them gives back, and many at it are in each other's way.
    pub relieving: Mutex<Relieving, O>,
    /// The bound of the caches stays at nothing.
    bound_is_closed: AtomicBool,
    fences_refused: AtomicU64,
    given_back: AtomicU64,
    ended: Ended,
    /// The process is about to end for a misuse: nobody relieves the heap any more.
    is_halted: AtomicBool,
}

/// Work done since the start.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Done {
    pub ticks: u64,
    /// Bytes that went to the system.
    pub given_back: u64,
    /// Nanoseconds that huge pages took.
    pub huge_stall: u64,
    /// How often the system refused to stop the sequences.
    pub fences_refused: u64,
}

impl<O: Os> Upkeep<O> {
    pub const fn new() -> Self {
        Upkeep {
            thread: Thread::new(),
            callback: Callback::new(),
            words: Words::new(),
            schedule: Schedule::new(),
            alone: Alone::new(),
            condensing: Condensing::new(),
            decay: Decay::new(),
            retain: Retain::new(),
            shedding: Shedding::new(),
            group: Group::new(),
            relief: Relief::new(),
            relieving: Mutex::new(Relieving),
            bound_is_closed: AtomicBool::new(false),
            fences_refused: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            ended: Ended::new(),
            is_halted: AtomicBool::new(false),
        }
    }

    pub fn done(&self) -> Done {
        Done {
            ticks: self.schedule.count(),
            given_back: self.given_back.load(Ordering::Relaxed),
            huge_stall: self.schedule.huge_stall(),
            fences_refused: self.fences_refused.load(Ordering::Relaxed),
        }
    }

    /// The process is about to end for a misuse.
    pub fn halt(&self) {
        self.is_halted.store(true, Ordering::Relaxed);
    }

    /// In a new process no other thread is at anything here, and there is no janitor's thread.
    pub fn forget_threads(&self, now: Tick) {
        self.thread.forget();
        self.schedule.forget_thread();
        self.shedding.forget_thread();
        self.callback.forget_thread();
        self.words.begin_anew();
        // It is another program's work, mostly: the lessons from the parent do not hold for it.
        self.decay.forget(now);
        self.alone.forget();
    }

    fn count_released(&self, bytes: usize) {
        self.given_back.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The places of its numbers, for readers outside the process (docs/design/window.md).
impl<O: Os> Upkeep<O> {
    /// Adds the places of an upkeep that lies so far in the heap.
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let schedule = at + offset_of!(Self, schedule);
        let list = Thread::<O>::places(list, at + offset_of!(Self, thread));
        list.one("upkeep.waits", 1, at + offset_of!(Self, alone) + Alone::WAITS)
            .one("upkeep.ticks", 8, schedule + offset_of!(Schedule, count))
            .one("upkeep.huge_stall", 8, schedule + offset_of!(Schedule, huge_stall))
            .one("upkeep.fences_refused", 8, at + offset_of!(Self, fences_refused))
            .one("upkeep.given_back", 8, at + offset_of!(Self, given_back))
    }
}
