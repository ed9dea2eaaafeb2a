//! The front: free blocks kept by virtual CPU.
//!
//! Owns one slab for each virtual CPU that was ever used, and a few under locks for threads without restartable
//! sequences. Promises that cached blocks never exceed the room taken from the budget, and that a slab can be emptied
//! from outside while its CPU runs. `heap` calls it; sits on `central`.

mod adapt;
mod drain;
mod locked;
mod sampling;
#[cfg(target_arch = "x86_64")]
mod sequence;
#[cfg(not(target_arch = "x86_64"))]
#[path = "no_sequence.rs"]
mod sequence;
mod slab;
mod tray;
#[cfg(target_arch = "x86_64")]
mod whole;

pub use sampling::Sampling;
pub use sequence::Front;
pub use slab::most_cached;

use crate::base::fault::{Fault, Misuse};
use crate::base::round_up;
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::central::Central;
use crate::class::{MOST_BATCH, SizeClass, TABLE_LEN};
use crate::os::{IndexKind, Mutex, Os};
use crate::pages::Pages;
use adapt::{Miss, moved_at_once};
use locked::Locked;
use sequence::Current;
use slab::{SLAB_BYTES, SLAB_HEAD_BYTES, Slab};
use tray::Tray;

/// The part of the budget that slabs may take together; the rest is for transfer arrays.
const SLAB_SHARE: (usize, usize) = (3, 4);
/// Slabs under locks where threads without sequences live beside others.
const EXTRA_LOCKED: usize = 4;
const MOST_LOCKED: usize = 32;

/// The layers below, as a slow path needs them.
pub struct Below<'a, O: Os> {
    pub os: &'a O,
    pub pages: &'a Pages<O>,
    pub central: &'a Central<O>,
}

// Three references: derived, these would ask for an `O` that can be copied.
impl<O: Os> Clone for Below<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Os> Copy for Below<'_, O> {}

/// Which kind of cache threads use.
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

/// The front of a heap. Any thread may call.
pub struct Cache<O: Os> {
    pub front: Front,
    kind: AtomicU32,
    /// One mapping: an empty slab's words, the table of slabs in use, the table of slabs that exist, a table of nothing but
    /// the empty slab, the locks.
    base: AtomicUsize,
    /// Slabs of virtual CPUs come first, then those under locks.
    cpus: AtomicUsize,
    slots: AtomicUsize,
    /// Room that one slab may take.
    share: AtomicUsize,
    /// Held while a slab is made, frozen or emptied.
    freezer: Mutex<(), O>,
    pub sampling: Sampling,
    /// What slow paths use: as `front`, and on also where every call is to take the slow path.
    pub behind: Front,
}

/// What the slabs hold together.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CacheStats {
    pub slabs: u64,
    pub granted: u64,
    pub underflows: u64,
    pub overflows: u64,
}

const WORD: usize = size_of::<usize>();
const EMPTY_BYTES: usize = round_up(TABLE_LEN * WORD, 64);
/// Tables with a word for each slot.
const TABLES: usize = 3;

impl<O: Os> Cache<O> {
    pub const fn new() -> Self {
        Cache {
            front: Front::new(),
            kind: AtomicU32::new(FrontKind::Locked as u32),
            base: AtomicUsize::new(0),
            cpus: AtomicUsize::new(0),
            slots: AtomicUsize::new(0),
            share: AtomicUsize::new(0),
            freezer: Mutex::new(()),
            sampling: Sampling::new(),
            behind: Front::new(),
        }
    }

    /// Prepares the tables and turns the sequences on where the system has them and `locked` does not forbid it; with
    /// `slowly` not those of the fast path.
    pub fn start(&self, os: &O, locked: bool, slowly: bool) -> bool {
        let area = if locked { None } else { os.sequence_area() };
        let cpus = if area.is_some() { os.possible_cpus() } else { 0 };
        let under_locks = if cpus > 0 { EXTRA_LOCKED } else { (os.usable_cpus() * 2).min(MOST_LOCKED) };
        let slots = cpus + under_locks;
        let bytes = Self::table_bytes(slots);
        let Some(base) = os.reserve(bytes) else { return false };
        if !os.commit(base, bytes) {
            os.unmap(base, bytes);
            return false;
        }
        self.base.store(base, Ordering::Relaxed);
        self.cpus.store(cpus, Ordering::Relaxed);
        self.slots.store(slots, Ordering::Relaxed);
        for slot in 0..slots {
            self.in_use(slot).store(base, Ordering::Relaxed);
            self.closed(slot).store(base, Ordering::Relaxed);
        }
        if let Some(area) = area {
            let kind = match area.kind {
                IndexKind::ConcurrencyId => FrontKind::ConcurrencyId,
                IndexKind::CpuId => FrontKind::CpuId,
            };
            self.kind.store(kind as u32, Ordering::Relaxed);
            self.behind.start(area.area, area.index, base + EMPTY_BYTES, cpus);
            if !slowly {
                self.front.start(area.area, area.index, base + EMPTY_BYTES, cpus);
            }
        }
        true
    }

    fn table_bytes(slots: usize) -> usize {
        round_up(EMPTY_BYTES + slots * (TABLES * WORD + size_of::<Mutex<(), O>>()), 1 << 16)
    }

    /// Turns the sequences off for all that begin from now on, for good: every virtual CPU finds an empty slab without room,
    /// also one whose slab is being emptied now and put back.
    pub fn stop(&self) {
        if self.base.load(Ordering::Relaxed) != 0 {
            let closed = self.closed(0).as_ptr().expose_provenance();
            self.front.stop(closed);
            self.behind.stop(closed);
        }
    }

    pub fn kind(&self) -> FrontKind {
        match self.kind.load(Ordering::Relaxed) {
            0 => FrontKind::ConcurrencyId,
            1 => FrontKind::CpuId,
            _ => FrontKind::Locked,
        }
    }

    fn word_at(&self, offset: usize) -> &AtomicUsize {
        let address = self.base.load(Ordering::Relaxed) + offset;
        // SAFETY: the offset lies inside the tables' mapping, which lives as long as the heap.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// What the sequences see: the slab, or the empty one while it is frozen or not made yet.
    fn in_use(&self, slot: usize) -> &AtomicUsize {
        self.word_at(EMPTY_BYTES + slot * WORD)
    }

    /// The slab of a slot, 0 while it is not made yet.
    fn made(&self, slot: usize) -> &AtomicUsize {
        self.word_at(EMPTY_BYTES + (self.slots.load(Ordering::Relaxed) + slot) * WORD)
    }

    /// What the sequences see once they were switched off for good.
    fn closed(&self, slot: usize) -> &AtomicUsize {
        self.word_at(EMPTY_BYTES + (2 * self.slots.load(Ordering::Relaxed) + slot) * WORD)
    }

    fn lock_of(&self, slot: usize) -> &Mutex<(), O> {
        let tables = EMPTY_BYTES + TABLES * self.slots.load(Ordering::Relaxed) * WORD;
        let address = self.base.load(Ordering::Relaxed) + tables + slot * size_of::<Mutex<(), O>>();
        // SAFETY: as in `word_at`; a zeroed mutex is a free one.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// The slot that this thread should use now.
    fn slot(&self) -> usize {
        if let Some(cpu) = self.behind.current() {
            return cpu;
        }
        let cpus = self.cpus.load(Ordering::Relaxed);
        let under_locks = self.slots.load(Ordering::Relaxed).saturating_sub(cpus).max(1);
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): thread control blocks lie at regular distances.
        let hash = (O::thread_id() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        cpus + hash % under_locks
    }

    /// Calls `act` with this thread's cache; without one if its slab is frozen or cannot be made.
    fn with_tray<R>(&self, os: &O, act: impl FnOnce(Option<&dyn Tray>) -> R) -> R {
        if self.slots.load(Ordering::Acquire) == 0 {
            return act(None);
        }
        let slot = self.slot();
        if self.made(slot).load(Ordering::Acquire) == 0 {
            self.make(os, slot);
        }
        let slab = self.in_use(slot).load(Ordering::Acquire);
        if slab == self.base.load(Ordering::Relaxed) {
            act(None)
        } else if slot < self.cpus.load(Ordering::Relaxed) {
            act(Some(&Current { front: &self.behind, slab: Slab(slab) }))
        } else {
            act(Some(&Locked { slab: Slab(slab), lock: self.lock_of(slot) }))
        }
    }

    fn make(&self, os: &O, slot: usize) {
        let _held = self.freezer.lock();
        if self.made(slot).load(Ordering::Relaxed) != 0 {
            return;
        }
        let Some(slab) = os.reserve(SLAB_BYTES) else { return };
        if !os.commit(slab, SLAB_HEAD_BYTES) {
            return os.unmap(slab, SLAB_BYTES);
        }
        // Release pairs with the Acquire in `with_tray`: a slab is seen mapped.
        self.made(slot).store(slab, Ordering::Release);
        self.in_use(slot).store(slab, Ordering::Release);
    }

    /// Times that the fast path found nothing on this virtual CPU; 0 where it has no cache.
    pub fn underflows_here(&self) -> u64 {
        if self.slots.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let slab = self.made(self.slot()).load(Ordering::Acquire);
        if slab == 0 { 0 } else { Slab(slab).info().underflows.load(Ordering::Relaxed) }
    }

    /// A free block for a fast path that found none; 0 where there is no memory.
    pub fn refill(&self, below: Below<'_, O>, class: SizeClass) -> Result<usize, Misuse> {
        self.with_tray(below.os, |tray| match tray {
            Some(tray) => self.refill_tray(below, tray, class),
            None => {
                let mut one = [0];
                below.central.take(below.os, below.pages, class, &mut one);
                let [block] = one;
                Ok(block)
            }
        })
    }

    fn refill_tray(&self, below: Below<'_, O>, tray: &dyn Tray, class: SizeClass) -> Result<usize, Misuse> {
        let block = tray.pop(class);
        if block != 0 {
            return Ok(block);
        }
        count_one(&tray.slab().info().underflows);
        self.grow(below, tray, class, Miss::Underflow)?;
        let room = tray.slab().read(class).capacity(class);
        let wanted = moved_at_once(class, room);
        let mut batch = [0; MOST_BATCH];
        let Some(out) = batch.get_mut(..wanted) else { return Ok(0) };
        let count = below.central.take(below.os, below.pages, class, out);
        let Some((first, rest)) = out.get_mut(..count).and_then(|taken| taken.split_first_mut()) else {
            return Ok(0);
        };
        self.count_refilled(rest.len() * class.block_bytes());
        // The array is a stack: the lowest address goes in last and comes out next.
        rest.reverse();
        let kept = tray.push_batch(class, rest);
        if let Some(over @ [_, ..]) = rest.get(kept..) {
            below.central.give(below.os, below.pages, class, over)?;
        }
        Ok(*first)
    }

    /// The same for a block that is to read as zeros; tells whether it is known to. One at a time: in a cache it would not
    /// be known any more.
    pub fn refill_zeroed(&self, below: Below<'_, O>, class: SizeClass) -> (usize, bool) {
        let cached = self.with_tray(below.os, |tray| {
            tray.map_or(0, |tray| {
                let block = tray.pop(class);
                if block == 0 {
                    count_one(&tray.slab().info().underflows);
                }
                block
            })
        });
        if cached != 0 { (cached, false) } else { below.central.take_one(below.os, below.pages, class) }
    }

    /// Takes a block for which the fast path found no place.
    pub fn spill(&self, below: Below<'_, O>, class: SizeClass, block: usize) -> Result<(), Misuse> {
        self.with_tray(below.os, |tray| match tray {
            Some(tray) => self.spill_tray(below, tray, class, block),
            None => below.central.give(below.os, below.pages, class, &[block]),
        })
    }

    fn spill_tray(
        &self,
        below: Below<'_, O>,
        tray: &dyn Tray,
        class: SizeClass,
        block: usize,
    ) -> Result<(), Misuse> {
        freed_just_now(tray.slab(), class, block)?;
        if tray.push(class, block) {
            return Ok(());
        }
        count_one(&tray.slab().info().overflows);
        if self.grow(below, tray, class, Miss::Overflow)? && tray.push(class, block) {
            return Ok(());
        }
        let mut batch = [0; MOST_BATCH];
        let wanted = moved_at_once(class, tray.slab().read(class).capacity(class)).min(MOST_BATCH - 1);
        let count = batch.get_mut(..wanted).map_or(0, |out| tray.pop_batch(class, out));
        // The block just freed is warm and stays, if there is place now.
        let count = if tray.push(class, block) {
            count
        } else {
            if let Some(place) = batch.get_mut(count) {
                *place = block;
            }
            count + 1
        };
        below.central.give(below.os, below.pages, class, batch.get(..count).unwrap_or(&[]))
    }

    /// Calls `take` with the number of each slot that has a slab.
    fn each_made(&self, mut take: impl FnMut(usize, Slab)) {
        for slot in 0..self.slots.load(Ordering::Acquire) {
            let slab = self.made(slot).load(Ordering::Acquire);
            if slab != 0 {
                take(slot, Slab(slab));
            }
        }
    }

    /// Gives the big arrays of a slab memory, when the first class needs more than its small one.
    fn has_big_arrays(&self, os: &O, slab: Slab) -> bool {
        let has_big = &slab.info().has_big;
        if has_big.load(Ordering::Acquire) == 0 {
            let _held = self.freezer.lock();
            if os.commit(slab.0 + SLAB_HEAD_BYTES, SLAB_BYTES - SLAB_HEAD_BYTES) {
                has_big.store(1, Ordering::Release);
            }
        }
        has_big.load(Ordering::Acquire) != 0
    }

    /// This thread's cache, if it is one under a lock.
    #[inline]
    fn locked(&self) -> Option<Locked<'_, O>> {
        if self.slots.load(Ordering::Acquire) == 0 || self.behind.current().is_some() {
            return None;
        }
        let slot = self.slot();
        let slab = self.in_use(slot).load(Ordering::Acquire);
        if slot < self.cpus.load(Ordering::Relaxed) || slab == self.base.load(Ordering::Relaxed) {
            return None;
        }
        Some(Locked { slab: Slab(slab), lock: self.lock_of(slot) })
    }

    /// What the fast path does, for a heap whose fast path is off.
    pub fn pop_behind(&self, class: SizeClass) -> usize {
        match self.behind.pop(class) {
            0 => self.pop_locked(class),
            block => block,
        }
    }

    /// As `pop_behind`.
    pub fn push_behind(&self, class: SizeClass, block: usize) -> bool {
        self.behind.push(class, block) || self.push_locked(class, block)
    }

    /// What `Front::pop` is for a thread without sequences; 0 for all others.
    pub fn pop_locked(&self, class: SizeClass) -> usize {
        self.locked().map_or(0, |tray| tray.pop(class))
    }

    /// What `Front::push` is for a thread without sequences; false for all others, and for a block freed just now.
    pub fn push_locked(&self, class: SizeClass, block: usize) -> bool {
        class.is_small()
            && self.locked().is_some_and(|tray| {
                freed_just_now(tray.slab, class, block).is_ok() && tray.push(class, block)
            })
    }

    /// Sets what one slab may take, from the bound and the number of slabs that share it.
    pub fn set_share(&self, limit: usize, usable_cpus: usize) {
        let under_locks = self.slots.load(Ordering::Relaxed) - self.cpus.load(Ordering::Relaxed);
        let sharers = if self.behind.is_on() { usable_cpus } else { under_locks };
        self.share.store(limit / SLAB_SHARE.1 * SLAB_SHARE.0 / sharers.max(1), Ordering::Relaxed);
    }

    pub fn stats(&self) -> CacheStats {
        let mut stats = CacheStats::default();
        self.each_made(|_, slab| {
            stats.slabs += 1;
            stats.granted += slab.info().granted.load(Ordering::Relaxed) as u64;
            stats.underflows += slab.info().underflows.load(Ordering::Relaxed);
            stats.overflows += slab.info().overflows.load(Ordering::Relaxed);
        });
        stats
    }

    /// Slow paths taken since the start.
    pub fn work(&self) -> u64 {
        let stats = self.stats();
        stats.underflows + stats.overflows
    }

    /// Blocks of a class in all slabs, as far as can be seen while they change.
    pub fn cached_blocks(&self, class: SizeClass) -> u64 {
        let mut blocks = 0;
        self.each_made(|_, slab| blocks += slab.read(class).len(class) as u64);
        blocks
    }

    /// Address and bytes of the slabs and tables.
    pub fn each_mapping(&self, mut take: impl FnMut(usize, usize)) {
        let base = self.base.load(Ordering::Relaxed);
        if base != 0 {
            let slots = self.slots.load(Ordering::Relaxed);
            take(base, Self::table_bytes(slots));
        }
        self.each_made(|_, slab| take(slab.0, SLAB_BYTES));
    }

    /// Takes the lock across `fork`, so that no slab is frozen in the child. The locks of slabs are not taken: a signal
    /// handler may have interrupted its own thread there, and a slab is whole at any instant.
    pub fn hold(&self) {
        self.freezer.hold();
    }

    /// # Safety
    /// After `hold` by this thread, in the parent.
    pub unsafe fn release(&self) {
        // SAFETY: by the caller's promise.
        unsafe { self.freezer.release() };
    }

    /// # Safety
    /// After `hold`, in the forked child.
    pub unsafe fn reset(&self) {
        // SAFETY: by the caller's promise.
        unsafe {
            self.free_locked_slabs();
            self.freezer.reset();
        }
    }

    /// Takes over the locks of threads that are not in this process, and puts right what those were changing.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair(&self, below: Below<'_, O>) {
        // SAFETY: by the caller's promise; released by the thread that seized it.
        unsafe {
            self.free_locked_slabs();
            if self.freezer.seize() {
                self.thaw(below);
                self.freezer.release();
            }
        }
    }

    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    unsafe fn free_locked_slabs(&self) {
        for slot in self.cpus.load(Ordering::Relaxed)..self.slots.load(Ordering::Relaxed) {
            // SAFETY: by the caller's promise; released by the thread that seized it.
            unsafe {
                if self.lock_of(slot).seize() {
                    self.lock_of(slot).release();
                }
            }
        }
    }
}

/// Threads that share a virtual CPU take turns, so a count that is lost to a preemption is the price of a cheap one.
fn count_one(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Looks whether `block` is one of the two that were put last: the one double free that can be seen at once for the price
/// of two comparisons. Whoever frees a block owns it, so it cannot rightly be here, however the slab changes meanwhile.
fn freed_just_now(slab: Slab, class: SizeClass, block: usize) -> Result<(), Misuse> {
    let word = slab.read(class);
    for (frees_between, place) in (0..word.len(class).min(2)).enumerate() {
        let offset = word.top() - place * WORD;
        // SAFETY: the offset lies in an array of the slab; each entry is read whole.
        if unsafe { slab.entry(offset).read_volatile() } == block {
            return Err(Misuse {
                block: Some((block, class.block_bytes())),
                frees_between: Some(frees_between as u32),
                ..Misuse::at(Fault::DoubleFree, block)
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
