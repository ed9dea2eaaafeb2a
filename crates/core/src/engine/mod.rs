//! The engine: blocks from the caches and the pages, and the frame in which all slow work is done.
//!
//! Owns one of each floor below, each of which derefs to what lies under it, the sources of blocks that are in no span, and what is known of the process: its
//! children, its signal handlers, its end. `heap` calls it, after it has asked policy and observers. Promises that a slow
//! path is entered once a thread, that a child finds its heap whole, and that a misuse ends the process where no lock is
//! held. The engine knows neither keys nor observers: `Above` is all that it asks of the floors above.

mod abort;
mod deferred;
mod emergency;
mod fork;
mod give;
mod lending;
mod pending_fault;
mod reentry;
mod slow_path;
mod take;

pub(crate) use give::Owner;
pub use lending::Lent;
pub use reentry::Inside;
pub use take::LARGEST_REQUEST;

use crate::base::fault::Misuse;
use crate::base::locks::{Rank, Starting};
use crate::base::stack::{Stack, Trace};
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::cache::{FrontKind, FrontReason};
use crate::class::TABLE_LEN;
use crate::options::OptionId;
use crate::os::{Mutex, Os};
use crate::sources::Sources;
use crate::upkeep::{Floors, Upkeep};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;
use deferred::Deferred;
use fork::Process;
use pending_fault::PendingFault;

pub(crate) const NEW: u32 = 0;
pub(crate) const READY: u32 = 1;
pub(crate) const FAILED: u32 = 2;
/// The program misused the heap: it is not touched any more, and the process runs its crash handler.
pub(crate) const ABORTING: u32 = 3;

/// The requests of the engine to the floors above it.
pub trait Above {
    /// Puts right what is under their lock of this rank, in a child process; the locks of later ranks are right already.
    ///
    /// # Safety
    /// All threads that were in slow paths, but this one, stayed in the parent process. `outermost`: this one is in none
    /// that a signal handler interrupted.
    unsafe fn repair(&self, rank: Rank, outermost: bool);
    /// Forgets what the parent process was about to do.
    fn begin_process(&self);
    /// Takes back a block that a signal handler had to leave.
    fn take_back_deferred(&self, inside: Inside<'_>, address: usize) -> Result<(), Misuse>;
    /// Lets an option take effect that a signal handler set.
    fn apply(&self, id: OptionId);
}

/// The functions that the engine's maker gives it for samples and reports.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Called before a guarded block is handed out; none: no sample is guarded.
    pub before_guards: Option<fn()>,
    /// Fills a buffer with the return addresses of this thread's calls and returns how many; 0 where it cannot.
    pub unwind: fn(&mut [usize]) -> usize,
}

/// Any thread may call any method. An engine must not move after its first use.
pub struct Engine<O: Os> {
    pub(crate) floors: Floors<O>,
    pub(crate) state: AtomicU32,
    pub(crate) starting: Mutex<Starting, O>,
    /// Bytes asked for and number of requests, of one in `REQUESTS_PER_SAMPLE` that reached the slow path: a sample for the
    /// waste inside blocks.
    pub(crate) requested: [Requested; TABLE_LEN],
    /// Options that were set where they could not take effect, a bit each.
    pub(crate) late_options: AtomicU32,
    pub(crate) upkeep: Upkeep<O>,
    pub(crate) pending_fault: PendingFault,
    pub(crate) sources: Sources<O>,
    deferred: Deferred,
    pub(crate) process: Process,
    /// The thread that aborts for its misuse; 0 while there is none.
    aborting_thread: AtomicUsize,
    /// Its process: another one may share this memory.
    aborting_process: AtomicU64,
    /// None: nothing is ever sampled.
    pub(crate) hooks: Option<Hooks>,
}

pub(crate) struct Requested {
    pub bytes: AtomicU64,
    pub count: AtomicU64,
}

impl<O: Os> Deref for Engine<O> {
    type Target = Floors<O>;

    #[inline(always)]
    fn deref(&self) -> &Floors<O> {
        &self.floors
    }
}

impl<O: Os> Engine<O> {
    pub(crate) const fn new(os: O, hooks: Option<Hooks>) -> Self {
        Engine {
            floors: Floors::new(os),
            state: AtomicU32::new(NEW),
            starting: Mutex::new(Starting),
            requested: [const { Requested { bytes: AtomicU64::new(0), count: AtomicU64::new(0) } };
                TABLE_LEN],
            late_options: AtomicU32::new(0),
            upkeep: Upkeep::new(),
            pending_fault: PendingFault::new(),
            sources: Sources::new(),
            deferred: Deferred::new(),
            process: Process::new(),
            aborting_thread: AtomicUsize::new(0),
            aborting_process: AtomicU64::new(0),
            hooks,
        }
    }

    pub fn os(&self) -> &O {
        &self.os
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state.load(Ordering::Relaxed) == READY
    }

    /// The kind of cache that threads use.
    pub fn front_kind(&self) -> FrontKind {
        self.cache.kind()
    }

    /// The library that registers threads for the sequences, or the reason why they are not used.
    pub fn front_reason(&self) -> FrontReason {
        self.cache.reason()
    }

    /// Threads cannot be registered by ourselves, because somebody else does it.
    pub fn leave_registration_to_others(&self) {
        self.cache.leave_to_others();
    }

    /// The stack of this call, as far as it can be known.
    pub(crate) fn here(&self) -> Stack {
        let by_unwinding = |frames: &mut [usize]| self.hooks.map_or(0, |hooks| (hooks.unwind)(frames));
        Stack::taken_by(|frames| match by_unwinding(frames) {
            0 => self.os.stack(frames),
            depth => depth,
        })
    }

    /// The notes on this call.
    pub(crate) fn trace(&self, stack: Stack) -> Trace {
        Trace { thread: self.os.thread_number(), nanoseconds: self.os.now(), stack }
    }

    /// Starts one floor after the other; false where the system gives no memory for their tables.
    pub(crate) fn start_floors(&self, before_caches: impl FnOnce()) -> bool {
        if !self.pages.start(&self.os) {
            return false;
        }
        before_caches();
        if !self.cache.start(&self.os, self.options.get(OptionId::front) == 1) {
            self.pages.stop(&self.os);
            return false;
        }
        self.central.start(&self.os);
        true
    }
}
