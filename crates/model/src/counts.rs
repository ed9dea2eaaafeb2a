//! Locks that one thread takes, and requests that it makes of the system, counted by lock and by kind of request.
//!
//! One thread uses the heap of a run, so that nothing here is shared, and a hold has no waiting in it.

use crate::ticks;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vcmalloc_core::base::locks::Rank;

/// Instances of locks; a power of two.
const LOCKS: usize = 4096;
const DEEPEST: usize = 16;
/// Whether a hold or a request that takes so long was interrupted, the kernel is asked.
const LONG_NANOSECONDS: f64 = 10_000.0;
/// A hold without a request of the system, longer than that, has so many page faults in it that each took at
/// most so long; else something else ran meanwhile that the kernel does not tell of, as another virtual
/// machine.
const FAULT_NANOSECONDS: f64 = 5_000.0;

/// A request of the system, and how it takes the lock of the process's address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Call {
    Map,
    Protect,
    Unmap,
    Move,
    Name,
    AdviseOff,
    AdviseRelease,
    Collapse,
    TakeHuge,
    Populate,
    Fence,
    Other,
}

/// How a request takes the kernel's `mmap_lock`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Alone,
    Beside,
    Never,
}

pub const CALLS: [(Call, &str, Side); 12] = [
    (Call::Map, "mmap", Side::Alone),
    (Call::Protect, "mprotect", Side::Alone),
    (Call::Unmap, "munmap", Side::Alone),
    (Call::Move, "mremap", Side::Alone),
    (Call::Name, "prctl: names", Side::Alone),
    (Call::AdviseOff, "madvise: dumps, no huge pages", Side::Alone),
    (Call::AdviseRelease, "madvise: release", Side::Beside),
    (Call::Collapse, "madvise: collapse", Side::Alone),
    // Twice alone, for a moment; most of it is the fault between.
    (Call::TakeHuge, "madvise: a huge page taken", Side::Beside),
    (Call::Populate, "madvise: populate", Side::Beside),
    (Call::Fence, "membarrier", Side::Never),
    (Call::Other, "other", Side::Never),
];

#[derive(Clone, Copy)]
pub struct Lock {
    pub address: usize,
    pub rank: Rank,
    pub taken: u64,
    /// Holds that were not interrupted, and their ticks.
    pub timed: u64,
    pub ticks: u64,
    /// Requests of the system in them, and the ticks of these.
    pub asked: u64,
    pub asked_ticks: u64,
    /// Holds by the janitor, and their ticks.
    pub aside: u64,
    pub aside_ticks: u64,
    /// The block that was most often asked for or given back meanwhile, by Boyer and Moore's vote.
    pub bytes: u64,
    votes: u64,
}

/// Requests: all, those that were not interrupted, and the ticks of these.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    pub count: u64,
    pub timed: u64,
    pub ticks: u64,
}

#[derive(Clone, Copy)]
struct Held {
    lock: usize,
    since: u64,
    paused: u64,
    asked: Asked,
}

/// The kernel's counts of this thread: switches against its will, and page faults.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    switches: i64,
    faults: i64,
}

pub struct Counts {
    locks: [Lock; LOCKS],
    held: [Held; DEEPEST],
    depth: usize,
    /// Ticks that counting itself took.
    paused: u64,
    asked: Asked,
    pub calls: [Asked; CALLS.len()],
    /// Of the call under way.
    pub bytes: u64,
    /// It is the janitor that works.
    pub is_aside: bool,
    /// An empty hold, and what a pair of notes costs who holds another lock.
    empty: u64,
    pair: u64,
    long: u64,
    fault: u64,
    seen: Seen,
}

const NO_LOCK: Lock = Lock {
    address: 0,
    rank: Rank::Exporting,
    taken: 0,
    timed: 0,
    ticks: 0,
    asked: 0,
    asked_ticks: 0,
    aside: 0,
    aside_ticks: 0,
    bytes: 0,
    votes: 0,
};
const NOTHING: Asked = Asked { count: 0, timed: 0, ticks: 0 };

struct Place(UnsafeCell<Counts>);

// SAFETY: one thread uses it, as the head of this file says.
unsafe impl Sync for Place {}

static COUNTS: Place = Place(UnsafeCell::new(Counts {
    locks: [NO_LOCK; LOCKS],
    held: [Held { lock: 0, since: 0, paused: 0, asked: NOTHING }; DEEPEST],
    depth: 0,
    paused: 0,
    asked: NOTHING,
    calls: [NOTHING; CALLS.len()],
    bytes: 0,
    is_aside: false,
    empty: 0,
    pair: 0,
    long: u64::MAX,
    fault: u64::MAX,
    seen: Seen { switches: 0, faults: 0 },
}));
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Whether holds are told to who steps through them, without times.
static IS_TOLD: AtomicBool = AtomicBool::new(false);
static TOLD: Told = Told(UnsafeCell::new((0, [(0, Rank::Exporting); DEEPEST])));

struct Told(UnsafeCell<(usize, [(usize, Rank); DEEPEST])>);

// SAFETY: as `Place`.
unsafe impl Sync for Told {}

/// The counts.
#[allow(clippy::mut_from_ref)]
pub fn counts() -> &'static mut Counts {
    // SAFETY: one thread, and no caller keeps it over a call of another.
    unsafe { &mut *COUNTS.0.get() }
}

/// Begins to count, from nothing.
pub fn begin() {
    calibrate();
    IS_ON.store(true, Relaxed);
}

/// Begins to tell which lock is held.
pub fn tell() {
    IS_TOLD.store(true, Relaxed);
}

/// The locks that are held, the outermost first.
pub fn told() -> &'static [(usize, Rank)] {
    // SAFETY: one thread; no hook runs while it is looked at.
    let (depth, held) = unsafe { &*TOLD.0.get() };
    &held[..(*depth).min(DEEPEST)]
}

/// The counts.
pub fn own() -> [(u64, u64); 2] {
    let (counts, told) = (COUNTS.0.get().addr() as u64, TOLD.0.get().addr() as u64);
    [(counts, counts + size_of::<Counts>() as u64), (told, told + size_of::<Told>() as u64)]
}

pub fn end() {
    IS_ON.store(false, Relaxed);
}

fn calibrate() {
    const TIMES: usize = 2001;
    let (counts, mut holds, mut pairs) = (counts(), Vec::new(), Vec::new());
    counts.seen = seen();
    for _ in 0..TIMES {
        let first = ticks::now();
        counts.taken(usize::MAX, Rank::Exporting);
        counts.left();
        pairs.push(ticks::now() - first);
        let lock = counts.lock(usize::MAX, Rank::Exporting);
        holds.push(std::mem::take(&mut counts.locks[lock].ticks));
    }
    let middle = |all: &mut Vec<u64>| *all.select_nth_unstable(TIMES / 2).1;
    let found = (middle(&mut holds), middle(&mut pairs), ticks::in_a_nanosecond());
    *counts = Counts { locks: [NO_LOCK; LOCKS], calls: [NOTHING; CALLS.len()], depth: 0, ..*counts };
    (counts.empty, counts.pair) = (found.0, found.1);
    (counts.long, counts.fault) = ((LONG_NANOSECONDS * found.2) as u64, (FAULT_NANOSECONDS * found.2) as u64);
}

fn seen() -> Seen {
    // SAFETY: the structure is the kernel's to fill.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        Seen { switches: usage.ru_nivcsw, faults: usage.ru_minflt }
    }
}

#[inline(always)]
pub fn taken(lock: usize, rank: Rank) {
    if IS_ON.load(Relaxed) {
        counts().taken(lock, rank);
    }
    if IS_TOLD.load(Relaxed) {
        // SAFETY: one thread.
        let (depth, held) = unsafe { &mut *TOLD.0.get() };
        held[*depth % DEEPEST] = (lock, rank);
        *depth += 1;
    }
}

#[inline(always)]
pub fn left() {
    if IS_ON.load(Relaxed) {
        counts().left();
    }
    if IS_TOLD.load(Relaxed) {
        // SAFETY: one thread.
        let (depth, _) = unsafe { &mut *TOLD.0.get() };
        *depth = depth.saturating_sub(1);
    }
}

/// Does what asks the system.
#[inline(always)]
pub fn asked<R>(call: Call, work: impl FnOnce() -> R) -> R {
    if !IS_ON.load(Relaxed) {
        return work();
    }
    let since = ticks::now();
    let result = work();
    counts().asked(call, ticks::now() - since);
    result
}

impl Counts {
    /// The locks that were taken.
    pub fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.locks.iter().filter(|lock| lock.taken + lock.aside > 0)
    }

    fn lock(&mut self, address: usize, rank: Rank) -> usize {
        let mut at = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 & (LOCKS - 1);
        while self.locks[at].address != address {
            if self.locks[at].address == 0 {
                self.locks[at] = Lock { address, rank, ..NO_LOCK };
                break;
            }
            at = (at + 1) & (LOCKS - 1);
        }
        at
    }

    #[inline(never)]
    fn taken(&mut self, address: usize, rank: Rank) {
        let lock = self.lock(address, rank);
        let held = &mut self.locks[lock];
        if !self.is_aside {
            held.taken += 1;
            if held.votes == 0 {
                held.bytes = self.bytes;
            }
            held.votes = if held.bytes == self.bytes { held.votes + 1 } else { held.votes - 1 };
        }
        let (paused, asked) = (self.paused, self.asked);
        let place = &mut self.held[self.depth.min(DEEPEST - 1)];
        self.depth += 1;
        *place = Held { lock, since: ticks::now(), paused, asked };
    }

    #[inline(never)]
    fn left(&mut self) {
        let now = ticks::now();
        self.depth = self.depth.saturating_sub(1);
        let held = self.held[self.depth.min(DEEPEST - 1)];
        let took = (now - held.since).saturating_sub(self.paused - held.paused + self.empty);
        let (asked, asked_ticks) = (self.asked.count - held.asked.count, self.asked.ticks - held.asked.ticks);
        let timed = self.asked.timed - held.asked.timed;
        // An interrupted request makes an interrupted hold.
        let is_whole = timed == asked && self.is_whole(took - asked_ticks.min(took), now);
        let lock = &mut self.locks[held.lock];
        if self.is_aside {
            lock.aside += 1;
            lock.aside_ticks += if is_whole { took } else { 0 };
        } else if is_whole {
            lock.timed += 1;
            lock.ticks += took;
            lock.asked += asked;
            lock.asked_ticks += asked_ticks;
        }
        self.paused += self.pair;
    }

    #[inline(never)]
    fn asked(&mut self, call: Call, took: u64) {
        let before = self.seen.switches;
        let now = ticks::now();
        self.seen = seen();
        self.paused += ticks::now() - now;
        let is_whole = before == self.seen.switches;
        let mut elsewhere = NOTHING;
        let of_call = if self.is_aside { &mut elsewhere } else { &mut self.calls[call as usize] };
        for all in [of_call, &mut self.asked] {
            all.count += 1;
            all.timed += u64::from(is_whole);
            all.ticks += if is_whole { took } else { 0 };
        }
    }

    /// Whether nothing else ran in so many ticks, which have just passed.
    fn is_whole(&mut self, took: u64, now: u64) -> bool {
        if took <= self.long {
            return true;
        }
        let before = std::mem::replace(&mut self.seen, seen());
        self.paused += ticks::now() - now;
        let faults = (self.seen.faults - before.faults) as u64;
        before.switches == self.seen.switches && took <= self.long + faults * self.fault
    }
}
