//! The restartable sequences. The code for each machine lies in the file of its name.
//!
//! A sequence works on the slab of the virtual CPU that the thread runs on and ends in one store, the commit.
//! If the kernel interrupts it before that - preemption, migration, signal - it does not go on: it jumps to
//! the abort address, and we begin again. So between the first instruction and the commit no other thread can
//! have touched the slab, and an aborted sequence has changed nothing that counts (entries above `top` do
//! not).
//!
//! The kernel's ABI asks for this (Documentation, `rseq(2)`): the address of a descriptor {start, length,
//! abort} is stored in the thread's area before the sequence starts; the abort address follows the signature
//! that glibc registered. Nothing else of the area is written. A descriptor left behind does no harm: the
//! kernel looks at it only where the interrupted instruction lies inside its range.
//!
//! Every sequence first compares the thread's `cpu_id` with the number of slabs: negative in a thread that is
//! not registered, and never below zero slabs, as before the start. Both then look like an empty and full
//! cache.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use core::mem::offset_of;

use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::class::{LARGEST_BYTES, SizeClass, TABLED_BYTES};

/// The words that the sequences need. Zeroed means "no sequences": every operation fails.
pub struct Front {
    /// Slabs in the table; 0 while there are no sequences.
    cpus: AtomicU32,
    /// Offsets from the thread pointer: the thread's area, and the index of its virtual CPU.
    area: AtomicUsize,
    index: AtomicUsize,
    /// The table of slab addresses.
    slabs: AtomicUsize,
    /// Requests up to this find their class in the table; 0 sends every request to the slow path.
    direct: AtomicUsize,
    /// Where threads may have a tenant's heap of their own: the offset of each one's word for it from its thread pointer, and
    /// requests of threads whose word is 0 are served as if `direct` were not 0. 0: no thread has, or requests are counted.
    scope: AtomicUsize,
}

/// The labels of a sequence. Numbers, not names: one is inlined into many functions, and a name may stand once in an
/// object.
mod label {
    /// It is begun here, and again when it was aborted.
    pub const AGAIN: u32 = 660;
    /// The descriptor that tells the kernel of the next three.
    pub const DESCRIPTOR: u32 = 661;
    /// Its first instruction,
    pub const FIRST: u32 = 662;
    /// the end behind its commit,
    pub const END: u32 = 663;
    /// and where the kernel has an interrupted one go on.
    pub const ABORT: u32 = 664;
    /// Behind everything, whatever came of it.
    pub const DONE: u32 = 665;
    /// Of a batch: the next block, and what follows the last one.
    pub const NEXT: u32 = 666;
    pub const ENOUGH: u32 = 667;
    /// Out of the way: the result is "nothing", since there is no sequence.
    #[cfg(target_arch = "x86_64")]
    pub const NOTHING: u32 = 668;
}

/// Offsets of a front's words, for the sequences in `fast_path`.
#[cfg(target_arch = "x86_64")]
impl Front {
    pub const CPUS: usize = offset_of!(Front, cpus);
    pub const AREA: usize = offset_of!(Front, area);
    pub const INDEX: usize = offset_of!(Front, index);
    pub const SLABS: usize = offset_of!(Front, slabs);
    pub const DIRECT: usize = offset_of!(Front, direct);
    pub const SCOPE: usize = offset_of!(Front, scope);
}

impl Front {
    /// Offset of the word that sends every request to the slow path when it is zero: 8 bytes, by which this process can
    /// be rung from outside.
    pub const RING: Option<usize> = Some(core::mem::offset_of!(Front, direct));

    pub const fn new() -> Self {
        Front {
            cpus: AtomicU32::new(0),
            area: AtomicUsize::new(0),
            index: AtomicUsize::new(0),
            slabs: AtomicUsize::new(0),
            direct: AtomicUsize::new(0),
            scope: AtomicUsize::new(0),
        }
    }

    /// Turns the sequences on. Every entry of the table is the address of a slab or of an empty one.
    pub fn start(&self, area: isize, index: isize, slabs: usize, cpus: usize) {
        self.area.store(area as usize, Ordering::Relaxed);
        self.index.store(index as usize, Ordering::Relaxed);
        self.slabs.store(slabs, Ordering::Relaxed);
        // Release: a thread that sees the number of slabs sees the rest.
        self.cpus.store(cpus as u32, Ordering::Release);
        self.set_direct(true);
    }

    /// Turns them on as those of another front are.
    pub fn start_as(&self, other: &Front) {
        let [area, index, slabs] =
            [&other.area, &other.index, &other.slabs].map(|word| word.load(Ordering::Relaxed));
        self.start(area as isize, index as isize, slabs, other.cpus());
    }

    /// Turns them on as those of another front are, on other slabs.
    pub fn start_on(&self, other: &Front, slabs: usize) {
        let [area, index] = [&other.area, &other.index].map(|word| word.load(Ordering::Relaxed));
        self.start(area as isize, index as isize, slabs, other.cpus());
    }

    /// Turns the sequences off for all that begin from now on; `closed` is a table of empty slabs, for those
    /// that do not look whether they are on.
    pub fn stop(&self, closed: usize) {
        self.set_direct(false);
        self.set_scope(0);
        self.slabs.store(closed, Ordering::Relaxed);
        self.cpus.store(0, Ordering::Release);
    }

    /// Whether requests may be served without the slow path's looking at them.
    pub fn set_direct(&self, direct: bool) {
        self.direct.store(if direct { TABLED_BYTES } else { 0 }, Ordering::Relaxed);
    }

    /// Sets where threads have their words for heaps; 0: nowhere.
    pub fn set_scope(&self, offset: isize) {
        self.scope.store(offset as usize, Ordering::Relaxed);
    }

    /// Whether requests of all threads may be served so.
    pub fn is_direct_for_all(&self) -> bool {
        self.direct.load(Ordering::Relaxed) != 0
    }

    /// Whether threads have heaps of their own, and nobody counts requests.
    #[inline(always)]
    pub fn is_scoped(&self) -> bool {
        self.scope.load(Ordering::Relaxed) != 0
    }

    /// Whether this thread is one of those without a heap of their own, beside others that have one.
    #[cold]
    #[inline(never)]
    fn is_direct_here(&self) -> bool {
        match self.scope.load(Ordering::Relaxed) {
            0 => false,
            offset => Self::thread_word(offset) == 0,
        }
    }

    /// Whether requests of this thread may be served so.
    #[inline(always)]
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed) != 0 || self.is_direct_here()
    }

    /// Whether a request of so many bytes may be, by the table of small sizes.
    #[inline(always)]
    pub fn is_direct_for(&self, bytes: usize) -> bool {
        bytes <= self.direct.load(Ordering::Relaxed) || bytes <= TABLED_BYTES && self.is_direct_here()
    }

    /// A block for a request of `bytes`; 0 where the slow path wants to see it first.
    #[inline(always)]
    pub fn pop_for(&self, bytes: usize) -> usize {
        let direct = self.direct.load(Ordering::Relaxed);
        if bytes <= direct {
            return self.pop(SizeClass::tabled(bytes));
        }
        cold();
        let may_pop = bytes <= LARGEST_BYTES && (direct != 0 || self.is_direct_here());
        if may_pop { self.pop(SizeClass::for_small(bytes)) } else { 0 }
    }

    /// Virtual CPUs that may have a slab; 0 while there are no sequences.
    pub fn cpus(&self) -> usize {
        self.cpus.load(Ordering::Acquire) as usize
    }

    /// The slab that a sequence of the virtual CPU with this number would work on.
    #[cfg(test)]
    pub fn shown(&self, cpu: usize) -> usize {
        let entry = core::ptr::with_exposed_provenance::<usize>(self.slabs.load(Ordering::Relaxed));
        // SAFETY: for tests, of the heap's own CPUs.
        unsafe { entry.add(cpu).read_volatile() }
    }

    pub fn is_on(&self) -> bool {
        self.cpus.load(Ordering::Acquire) != 0
    }

    /// Offset of the thread's area from the thread pointer, while the sequences are on.
    pub fn area_in_use(&self) -> Option<isize> {
        self.is_on().then(|| self.area.load(Ordering::Relaxed) as isize)
    }
}

/// Tells the compiler which way is seldom taken. `core::hint::cold_path` does the same from Rust 1.95 on.
#[cold]
#[inline(always)]
fn cold() {}

/// The answer of `Front::exchange` if it did nothing: no address of a block.
pub const NOT_EXCHANGED: usize = 1;

/// The word that counts exchanges: its place in its shard, its value, and its next one.
#[derive(Clone, Copy)]
pub struct Turn {
    pub at: usize,
    pub now: usize,
    pub next: usize,
}
