//! The hardened policy: a heap that checks every block at every step.
//!
//! Owns what is known about each block beside the heap itself: its state, its frame, the quarantine. Promises
//! that a free of anything but a live block, by the wrong function or with the wrong size, is stopped at
//! once; that a write behind or before a block is found when the block is freed, one to a freed block before
//! its memory is handed out again; and that freed memory holds nothing. `exports` calls it where a library is
//! built with it, by `Blocks`; sits on `Heap`. "Hardened" in docs/design tells more.

mod allocate;
mod blocks;
mod budget;
mod copies;
mod each;
mod ends;
mod fast;
mod fences;
mod frame;
mod guarded;
mod inspect;
mod layout;
mod make;
mod partitions;
mod places;
mod quarantine;
mod regrow;
mod resize;
mod states;
mod stuck;
mod take;
mod tenants;
mod visits;
mod waiting;
mod zeros;
mod zombies;

use crate::base::round_up;
use crate::base::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::class::SizeClass;
use crate::heap::{Heap, HeapId, Hooks, LARGEST_REQUEST};
use crate::observe::{Probes, Probing};
use crate::os::Os;
use budget::Budget;
use ends::Ends;
use fences::Fences;
use frame::{FRONT, Frame, TAIL_LEAST};
use guarded::Runs;
use partitions::Partitions;
use quarantine::Quarantine;
use states::State;
use stuck::Stuck;
use visits::Visits;

/// From here on a block has pages of its own between pages that nobody may touch.
const GUARDED_FROM: usize = 32 << 10;
/// No block of a class that waits in a long quarantine is larger: one below `GUARDED_FROM`, with its frame.
const MOST_SMALL: usize = 48 << 10;
/// No request is larger.
const MOST_BYTES: usize =
    if LARGEST_REQUEST < frame::MOST_BYTES { LARGEST_REQUEST } else { frame::MOST_BYTES };
/// A small block is aligned to this at most.
const MOST_SMALL_ALIGN: usize = 4096;

/// A heap whose blocks are checked. A new one is ready to use, as a `Heap` is.
pub struct Hardened<O: Os> {
    heap: Heap<O>,
    secret: AtomicU64,
    quarantine: Quarantine,
    runs: Runs,
    /// The same for blocks of tenants' heaps.
    of_tenants: Quarantine,
    runs_of_tenants: Runs,
    visits: Visits,
    ends: Ends,
    partitions: Partitions,
    stuck: Stuck,
    budget: Budget,
    fences: Fences,
    /// Blocks with guard pages now.
    fenced: AtomicUsize,
    /// Says whether some object of the process has an operator new of its own, which asks malloc; and that it said so.
    own_new: fn() -> bool,
    has_own_new: AtomicBool,
    /// A secret by which blocks with guards are placed, and how many were.
    placement: AtomicU64,
    placed: AtomicU64,
    /// Memory is short, and what waited of large blocks was let go.
    short: AtomicBool,
}

/// The heap that a block is made of.
#[derive(Clone, Copy)]
struct Of<'a> {
    id: HeapId,
    /// Of the last try: a refusal is one then. Blocks that the heap's maker frees when it is told of the limit are not to wait.
    after_limit: Option<&'a dyn Fn()>,
}

/// A block that is live, and what its frame says.
#[derive(Clone, Copy)]
struct Live {
    user: usize,
    class: SizeClass,
    frame: Frame,
}

impl Live {
    fn state(&self) -> State {
        if self.frame.behind { State::LiveBehind } else { State::Live }
    }

    /// How long a small block may become where it lies, with the least tail.
    fn most_in_place(&self) -> usize {
        let around = if self.frame.behind { FRONT } else { self.frame.front() };
        self.class.block_bytes().saturating_sub(around + TAIL_LEAST)
    }
}

impl<O: Os> Hardened<O> {
    /// The address of the heap in the policy at `policy`.
    pub const fn heap_of(policy: *const Self) -> *const Heap<O> {
        policy.wrapping_byte_add(core::mem::offset_of!(Self, heap)).cast()
    }

    pub const fn new(os: O) -> Self {
        Self::over(Heap::new(os))
    }

    /// A policy that a profile can be taken of.
    pub const fn with_hooks(os: O, hooks: Hooks) -> Self {
        Self::over(Heap::with_hooks(os, hooks))
    }

    const fn over(mut heap: Heap<O>) -> Self {
        heap.engine.floors.store.pages.keep_marks();
        Hardened {
            heap,
            secret: AtomicU64::new(0),
            quarantine: Quarantine::new(),
            runs: Runs::new(),
            of_tenants: Quarantine::new(),
            runs_of_tenants: Runs::new(),
            visits: Visits::new(),
            ends: Ends::new(),
            partitions: Partitions::new(),
            stuck: Stuck::new(),
            budget: Budget::new(),
            fences: Fences::new(),
            fenced: AtomicUsize::new(0),
            own_new: || false,
            has_own_new: AtomicBool::new(false),
            placement: AtomicU64::new(0),
            placed: AtomicU64::new(0),
            short: AtomicBool::new(false),
        }
    }

    /// The same heap, in a process of which `own_new` says whether an operator new in it asks malloc for its blocks.
    pub const fn with_own_new(mut self, own_new: fn() -> bool) -> Self {
        self.own_new = own_new;
        self
    }

    /// The same heap, with probes for tracers.
    pub const fn with_probes(mut self, probes: Probes) -> Self {
        self.heap.probing = Probing::of(probes);
        self
    }

    #[inline(always)]
    fn secret(&self) -> u64 {
        match self.secret.load(Ordering::Relaxed) {
            0 => drawn(&self.secret, || self.heap.os.random()),
            secret => secret,
        }
    }

    /// The same where a block was made before; else perhaps 0.
    #[inline(always)]
    fn known_secret(&self) -> u64 {
        self.secret.load(Ordering::Relaxed)
    }

    /// The start of a live block's second guard.
    fn guard_of(&self, live: &Live) -> usize {
        round_up(live.user + live.frame.bytes, self.heap.os.page_bytes())
    }

    /// Bytes of the block's memory behind those that were asked for.
    fn room(&self, live: &Live) -> usize {
        let after = live.frame.bytes;
        if live.class.is_small() {
            (live.most_in_place() + TAIL_LEAST).saturating_sub(after)
        } else {
            self.guard_of(live).wrapping_sub(live.user + after)
        }
    }

    /// The last answer of `is_short`.
    fn was_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }
}

/// A secret of this process, which is drawn when it is first asked for.
#[cold]
#[inline(never)]
fn drawn(secret: &AtomicU64, random: impl Fn() -> u64) -> u64 {
    let known = secret.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let drawn = random() | 1;
    match secret.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => drawn,
        Err(other) => other,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
