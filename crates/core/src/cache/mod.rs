//! The front: free blocks kept by virtual CPU.
//!
//! Owns one slab for each virtual CPU that was ever used, and a few under locks for threads without
//! restartable sequences. Promises that cached blocks never exceed the room taken from the budget, and that a
//! slab can be emptied from outside while its CPU runs. `upkeep`, `engine` and `heap` call it; sits on `central`.

mod adapt;
mod admission;
mod drain;
#[cfg(target_arch = "x86_64")]
mod fast_path;
mod figures;
mod fork;
mod locked;
mod misses;
mod sampling;
mod search;
mod sequence;
mod slab;
mod slab_cache;
mod start;
mod tables;

pub use drain::{Look, Stillness};
pub use figures::CacheStats;
pub use figures::array_bases;
pub use sampling::{Counted, Sampling};
pub use sequence::Front;
pub use sequence::{NOT_EXCHANGED, Turn};
pub use slab::{OWNED, most_cached};

use crate::base::locks::Freezer;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::central::Middle;
use crate::os::{Mutex, Os};

/// The part of the budget that slabs may take together; the rest is for transfer arrays.
const SLAB_SHARE: (usize, usize) = (3, 4);
/// Slabs under locks where threads without sequences live beside others.
const EXTRA_LOCKED: usize = 4;

/// The kind of cache that threads use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrontKind {
    /// By `mm_cid`.
    ConcurrencyId,
    /// By `cpu_id`.
    CpuId,
    Locked,
}

impl FrontKind {
    pub fn name(self) -> &'static str {
        match self {
            FrontKind::ConcurrencyId => "vcpu-mm_cid",
            FrontKind::CpuId => "vcpu-cpu_id",
            FrontKind::Locked => "locked",
        }
    }
}

/// The library that registers threads for the sequences, or the reason why they are not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum FrontReason {
    NotStarted,
    Libc,
    Own,
    Others,
    Asked,
    Kernel,
    Fence,
    Unaborted,
}

impl FrontReason {
    pub const ALL: [FrontReason; 8] = [
        FrontReason::NotStarted,
        FrontReason::Libc,
        FrontReason::Own,
        FrontReason::Others,
        FrontReason::Asked,
        FrontReason::Kernel,
        FrontReason::Fence,
        FrontReason::Unaborted,
    ];

    pub fn words(self) -> &'static str {
        match self {
            FrontReason::NotStarted => "not started",
            FrontReason::Libc => "registered by the C library",
            FrontReason::Own => "registered by vcmalloc",
            FrontReason::Others => "another library registers threads",
            FrontReason::Asked => "as front=locked asks",
            FrontReason::Kernel => "rseq is refused",
            FrontReason::Fence => "membarrier is refused",
            FrontReason::Unaborted => "this kernel does not abort sequences",
        }
    }
}

/// The front of a heap. Any thread may call.
pub struct Cache<O: Os> {
    pub front: Front,
    kind: AtomicU32,
    reason: AtomicU32,
    /// One mapping: an empty slab's words, the table of slabs in use, the table of slabs that exist, a table
    /// of nothing but the empty slab, the locks.
    base: AtomicUsize,
    /// Slabs of virtual CPUs come first, then those under locks.
    cpus: AtomicUsize,
    slots: AtomicUsize,
    /// Room that one slab may take.
    share: AtomicUsize,
    /// For so many CPUs that is set.
    sharers: AtomicUsize,
    /// Slabs of virtual CPUs that were ever used.
    seen: AtomicUsize,
    /// Cleared where more virtual CPUs are used than the share was set for.
    pub is_share_settled: AtomicBool,
    /// The tenant's heap that has the cache; 0: the process's own.
    owner: AtomicU64,
    /// No slab is used or made any more, until `reopen`.
    is_retired: AtomicBool,
    /// Held while a slab is made, frozen or emptied.
    freezer: Mutex<Freezer, O>,
    pub sampling: Sampling,
    /// The front that slow paths use: as `front`, and on also where every call is to take the slow path.
    pub behind: Front,
}

impl<O: Os> Cache<O> {
    pub const fn new() -> Self {
        Cache {
            front: Front::new(),
            kind: AtomicU32::new(FrontKind::Locked as u32),
            reason: AtomicU32::new(FrontReason::NotStarted as u32),
            base: AtomicUsize::new(0),
            cpus: AtomicUsize::new(0),
            slots: AtomicUsize::new(0),
            share: AtomicUsize::new(0),
            sharers: AtomicUsize::new(0),
            seen: AtomicUsize::new(0),
            is_share_settled: AtomicBool::new(false),
            owner: AtomicU64::new(0),
            is_retired: AtomicBool::new(false),
            freezer: Mutex::new(Freezer),
            sampling: Sampling::new(),
            behind: Front::new(),
        }
    }

    pub fn kind(&self) -> FrontKind {
        match self.kind.load(Ordering::Relaxed) {
            0 => FrontKind::ConcurrencyId,
            1 => FrontKind::CpuId,
            _ => FrontKind::Locked,
        }
    }

    pub fn reason(&self) -> FrontReason {
        let reason = self.reason.load(Ordering::Relaxed);
        FrontReason::ALL.get(reason as usize).copied().unwrap_or(FrontReason::NotStarted)
    }

    /// Threads cannot be registered by ourselves: they stay on the locked caches.
    pub fn leave_to_others(&self) {
        self.kind.store(FrontKind::Locked as u32, Ordering::Relaxed);
        self.reason.store(FrontReason::Others as u32, Ordering::Relaxed);
    }

    /// Sets what one slab may take, from the bound and the number of slabs that share it.
    pub fn set_share(&self, limit: usize, usable_cpus: usize) {
        let under_locks = self.slots.load(Ordering::Relaxed) - self.cpus.load(Ordering::Relaxed);
        let has_sequences = self.kind() != FrontKind::Locked;
        let sharers = if has_sequences { usable_cpus } else { under_locks };
        self.share.store(limit / SLAB_SHARE.1 * SLAB_SHARE.0 / sharers.max(1), Ordering::Relaxed);
        self.sharers.store(usable_cpus, Ordering::Relaxed);
    }

    /// Lets one slab take as much as one of another cache.
    pub fn share_as(&self, other: &Cache<O>) {
        self.share.store(other.share.load(Ordering::Relaxed), Ordering::Relaxed);
        self.sharers.store(other.sharers.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// How many virtual CPUs there may be.
    pub fn cpus_most(&self) -> usize {
        self.cpus.load(Ordering::Relaxed)
    }

    /// How many virtual CPUs were ever used.
    pub fn cpus_seen(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
