//! The heap: one of each layer, and the paths through them.
//!
//! Owns everything; nothing else of vcmalloc is global. Promises what malloc promises. `exports` and tests call it;
//! sits on `cache`, `large` and `options`. "The life of a malloc and a free" in docs/design tells the story.

mod checked;
mod emergency;
mod figures;
mod fork;
mod hardened;
mod janitor;
mod orphan;
mod patience;
mod resize;
mod sampling;
mod settings;
mod stats;
#[cfg(any(test, feature = "fake-os"))]
mod verify;

pub use figures::{Committed, Maintenance, Range, RangeState, Tiers};
pub use hardened::Hardened;
pub use sampling::Hooks;
pub use settings::Setup;
pub use stats::Stats;

use crate::base::fault::{Fault, Maker, Misuse};
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::base::text::{Buffer, put_decimal, put_str};
use crate::cache::{Below, Cache, Front, FrontKind};
use crate::central::{Central, locate};
use crate::class::{LARGEST_BYTES, MIN_ALIGN, SizeClass, TABLE_LEN, TABLED_BYTES, UNIT_BYTES};
use crate::large::{Fresh, Large};
use crate::options::Options;
use crate::os::{Mutex, Os};
use crate::pages::Pages;
use crate::watch::{Guards, Profile, Stack};
#[cfg(target_arch = "x86_64")]
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU64};
use emergency::{Emergency, SlowPaths};
use janitor::Janitor;
use orphan::Process;

/// No object is larger: differences of pointers must fit `isize`.
pub const LARGEST_REQUEST: usize = isize::MAX as usize;

/// Of so many requests that reach the slow path one counts as a sample of what is asked for.
const REQUESTS_PER_SAMPLE: u64 = 4;

/// From here on a block of `calloc` often stays untouched in part: a miss looks for memory that need not be written.
const OFTEN_UNTOUCHED_FROM: usize = 16 << 10;

const NEW: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 2;
/// The program misused the heap: it is not touched any more, and the process runs its crash handler.
const STOPPED: u32 = 3;

/// A heap. Zeroed it is ready to use: the first allocation starts it. Any thread may call any method; a heap must not
/// move after its first use.
pub struct Heap<O: Os> {
    cache: Cache<O>,
    pages: Pages<O>,
    state: AtomicU32,
    os: O,
    central: Central<O>,
    large: Large,
    pub options: Options,
    starting: Mutex<(), O>,
    /// Bytes asked for and number of requests, of the requests that reached the slow path: a sample for the waste
    /// inside blocks.
    requested: [Requested; TABLE_LEN],
    /// The bound is first set for one CPU; who needs more makes us ask the system how many there are.
    bound_is_final: AtomicU32,
    fences_refused: AtomicU64,
    janitor: Janitor<O>,
    pressure_callback: AtomicPtr<()>,
    emergency: Emergency,
    slow_paths: SlowPaths,
    profile: Profile<O>,
    process: Process,
    /// The thread that was stopped for misuse.
    stopped_thread: AtomicUsize,
    guards: Guards<O>,
    /// None: nothing is ever sampled.
    hooks: Option<Hooks>,
}

struct Requested {
    bytes: AtomicU64,
    count: AtomicU64,
}

/// Where the words lie that the fast paths read, for those that are written whole (`cache::whole`).
#[cfg(target_arch = "x86_64")]
impl<O: Os> Heap<O> {
    const FRONT: usize = offset_of!(Self, cache) + offset_of!(Cache<O>, front);
    const PAGES: usize = offset_of!(Self, pages);
    pub const CPUS: usize = Self::FRONT + Front::CPUS;
    pub const AREA: usize = Self::FRONT + Front::AREA;
    pub const INDEX: usize = Self::FRONT + Front::INDEX;
    pub const SLABS: usize = Self::FRONT + Front::SLABS;
    pub const DIRECT: usize = Self::FRONT + Front::DIRECT;
    pub const START: usize = Self::PAGES + Pages::<O>::START;
    pub const GROWN_GRANULES: usize = Self::PAGES + Pages::<O>::GROWN_GRANULES;
    pub const CLASS_OF_UNIT: usize = Self::PAGES + Pages::<O>::CLASS_OF_UNIT;
    pub const GIVEN: usize = Self::PAGES + Pages::<O>::GIVEN;
}

impl<O: Os> Heap<O> {
    /// No block has guard pages.
    pub const HAS_GUARD_PAGES: bool = false;

    pub const fn new(os: O) -> Self {
        Heap::build(os, None)
    }

    /// A heap that takes samples.
    pub const fn with_hooks(os: O, hooks: Hooks) -> Self {
        Heap::build(os, Some(hooks))
    }

    const fn build(os: O, hooks: Option<Hooks>) -> Self {
        Heap {
            cache: Cache::new(),
            pages: Pages::new(),
            state: AtomicU32::new(NEW),
            os,
            central: Central::new(),
            large: Large::new(),
            options: Options::new(),
            starting: Mutex::new(()),
            requested: [const { Requested { bytes: AtomicU64::new(0), count: AtomicU64::new(0) } };
                TABLE_LEN],
            bound_is_final: AtomicU32::new(0),
            fences_refused: AtomicU64::new(0),
            janitor: Janitor::new(),
            pressure_callback: AtomicPtr::new(core::ptr::null_mut()),
            emergency: Emergency::new(),
            slow_paths: SlowPaths::new(),
            profile: Profile::new(),
            process: Process::new(),
            stopped_thread: AtomicUsize::new(0),
            guards: Guards::new(),
            hooks,
        }
    }

    pub fn os(&self) -> &O {
        &self.os
    }

    fn below(&self) -> Below<'_, O> {
        Below { os: &self.os, pages: &self.pages, central: &self.central }
    }

    /// A block of at least `bytes`, aligned to 16; 0 where there is no memory or `bytes` is too much.
    #[inline(always)]
    pub fn allocate(&self, bytes: usize) -> usize {
        match self.allocate_fast(bytes) {
            0 => self.allocate_slow(bytes),
            block => block,
        }
    }

    /// What `allocate` does where the cache has a block; 0 otherwise.
    #[inline(always)]
    pub fn allocate_fast(&self, bytes: usize) -> usize {
        self.cache.front.pop_for(bytes)
    }

    #[cold]
    #[inline(never)]
    pub fn allocate_slow(&self, bytes: usize) -> usize {
        if self.cache.sample_is_due(bytes) {
            let block = self.allocate_sample(bytes, MIN_ALIGN);
            if block != 0 {
                return block;
            }
        }
        if bytes <= LARGEST_BYTES && !self.is_stopped() {
            // The short way of threads without sequences.
            let block = self.pop_short(SizeClass::for_small(bytes));
            if block != 0 {
                return block;
            }
        }
        self.in_slow_path(|| {
            if bytes <= LARGEST_BYTES {
                self.allocate_class(SizeClass::for_small(bytes), bytes)
            } else {
                self.allocate_large(bytes, MIN_ALIGN).map_or(0, |fresh| fresh.address)
            }
        })
        .unwrap_or_else(|| self.allocate_in_emergency(bytes, MIN_ALIGN))
    }

    /// Does the work of a slow path, and what is due after it; none where this thread is in one already, or the
    /// process was stopped.
    #[inline]
    fn in_slow_path<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let outcome = self.inside(|| {
            let outcome = work();
            self.after_slow_path();
            outcome
        });
        self.call_back_if_due();
        outcome
    }

    /// Does what may take locks: a signal handler that interrupts it and allocates is served without them. None where
    /// this thread is inside already, or the process was stopped.
    #[inline]
    fn inside<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        if self.is_stopped() {
            return None;
        }
        let entry = self.slow_paths.enter::<O>();
        self.know_process(entry.is_some());
        let entry = entry?;
        let outcome = work();
        // From here on this thread is outside: what follows may allocate and free as anybody may.
        drop(entry);
        self.free_deferred();
        Some(outcome)
    }

    fn is_stopped(&self) -> bool {
        self.state.load(Ordering::Relaxed) == STOPPED
    }

    /// A block of a class for a request of `bytes`.
    fn allocate_class(&self, class: SizeClass, bytes: usize) -> usize {
        let refill = || (self.obeyed(self.cache.refill(self.below(), class)), false);
        self.take_of_class(class, bytes, refill).0
    }

    /// A block of a class for a request of `bytes`, as `attempt` finds one, and what it says of the block.
    fn take_of_class(
        &self,
        class: SizeClass,
        bytes: usize,
        attempt: impl Fn() -> (usize, bool),
    ) -> (usize, bool) {
        if !self.is_started() {
            return (0, false);
        }
        self.settle_bound_if_needed();
        self.learn_limits();
        // Some of the requests tell as much as all, and do not make CPUs wait for each other's counts.
        let sampled = self.cache.underflows_here().is_multiple_of(REQUESTS_PER_SAMPLE);
        if let Some(sample) = self.requested.get(class.index()).filter(|_| sampled) {
            // Not one step each: what two CPUs count at once is one sample less, a locked instruction costs every miss.
            sample.bytes.store(sample.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
            sample.count.store(sample.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let (block, zeroed) = match attempt() {
            // With the caches' blocks back in their spans there may be a span after all.
            (0, _) => {
                self.relieve();
                attempt()
            }
            taken => taken,
        };
        (self.handed_out(block), zeroed)
    }

    fn allocate_large(&self, bytes: usize, align: usize) -> Option<Fresh> {
        if bytes > LARGEST_REQUEST || !self.is_started() {
            return None;
        }
        self.learn_limits();
        let attempt = || self.large.allocate(&self.os, &self.pages, bytes, align);
        attempt().or_else(|| {
            self.relieve();
            attempt()
        })
    }

    /// Brings everything that is cached back to its spans.
    #[inline(never)]
    pub fn reclaim(&self) {
        if !self.obeyed(self.cache.drain(self.below())) {
            self.fences_refused.fetch_add(1, Ordering::Relaxed);
        }
        for class in SizeClass::all() {
            self.obeyed(self.central.drain(&self.pages, class, usize::MAX));
        }
    }

    /// A block of at least `bytes` at a multiple of `align`, a power of two.
    pub fn allocate_aligned(&self, align: usize, bytes: usize) -> usize {
        if align <= MIN_ALIGN {
            return self.allocate(bytes);
        }
        match SizeClass::for_aligned(bytes, align) {
            Some(class) => {
                let block = self.cache.front.pop(class);
                if block != 0 { block } else { self.allocate_aligned_slow(Some(class), align, bytes) }
            }
            None => self.allocate_aligned_slow(None, align, bytes),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_aligned_slow(&self, class: Option<SizeClass>, align: usize, bytes: usize) -> usize {
        if self.cache.sample_is_due(bytes) {
            let block = self.allocate_sample(bytes, align);
            if block != 0 {
                return block;
            }
        }
        self.in_slow_path(|| match class {
            Some(class) => self.allocate_class(class, bytes),
            None => self.allocate_large(bytes, align).map_or(0, |fresh| fresh.address),
        })
        .unwrap_or_else(|| self.allocate_in_emergency(bytes, align))
    }

    /// What `allocate_zeroed` does where the cache has a block; 0 otherwise.
    #[inline(always)]
    pub fn allocate_zeroed_fast(&self, count: usize, bytes: usize) -> usize {
        let Some(total) = count.checked_mul(bytes) else { return 0 };
        let block = self.allocate_fast(total);
        if block != 0 {
            // SAFETY: the block is ours and at least `total` bytes long.
            unsafe { core::ptr::with_exposed_provenance_mut::<u8>(block).write_bytes(0, total) };
        }
        block
    }

    /// A zeroed block for `count` objects of `bytes` each; 0 also where the product is too much.
    #[inline]
    pub fn allocate_zeroed(&self, count: usize, bytes: usize) -> usize {
        let Some(total) = count.checked_mul(bytes) else { return 0 };
        if total > LARGEST_BYTES {
            return self.allocate_large_zeroed(total);
        }
        let block = match self.allocate_fast(total) {
            0 if total >= OFTEN_UNTOUCHED_FROM => return self.allocate_untouched(total),
            0 => self.allocate_slow(total),
            block => block,
        };
        if block != 0 {
            // SAFETY: the block is ours and at least `total` bytes long.
            unsafe { core::ptr::with_exposed_provenance_mut::<u8>(block).write_bytes(0, total) };
        }
        block
    }

    /// A zeroed block of a class, whose memory is not touched where it is known to read as zeros.
    #[cold]
    #[inline(never)]
    fn allocate_untouched(&self, bytes: usize) -> usize {
        let sample = if self.cache.sample_is_due(bytes) { self.allocate_sample(bytes, MIN_ALIGN) } else { 0 };
        if sample != 0 {
            self.large.clear(&self.os, Fresh { address: sample, zeroed: false }, bytes);
            return sample;
        }
        let class = SizeClass::for_small(bytes);
        let refill = || self.cache.refill_zeroed(self.below(), class);
        self.in_slow_path(|| {
            let (address, zeroed) = self.take_of_class(class, bytes, refill);
            if address != 0 {
                self.large.clear(&self.os, Fresh { address, zeroed }, bytes);
            }
            address
        })
        // Emergency memory is zero.
        .unwrap_or_else(|| self.allocate_in_emergency(bytes, MIN_ALIGN))
    }

    #[cold]
    #[inline(never)]
    fn allocate_large_zeroed(&self, bytes: usize) -> usize {
        let cleared = |fresh| {
            self.large.clear(&self.os, fresh, bytes);
            self.note_large(fresh.address, bytes);
            fresh.address
        };
        self.in_slow_path(|| self.allocate_large(bytes, MIN_ALIGN).map_or(0, cleared))
            // Emergency memory is zero.
            .unwrap_or_else(|| self.allocate_in_emergency(bytes, MIN_ALIGN))
    }

    /// Takes a block back. 0 is no block and does nothing.
    #[inline(always)]
    pub fn free(&self, address: usize) {
        if !self.free_fast(address) {
            self.free_slow(address);
        }
    }

    /// What `free` does where the cache has a place; false otherwise.
    #[inline(always)]
    pub fn free_fast(&self, address: usize) -> bool {
        match self.pages.class_of_given(address) {
            Some(class) => self.cache.front.push(class, address),
            None => false,
        }
    }

    /// The same for a block that the caller says was asked for with `bytes`; false also where that cannot be seen at once.
    #[inline(always)]
    pub fn free_sized_fast(&self, address: usize, bytes: usize) -> bool {
        match self.pages.class_of_given(address) {
            // A block that shrank in place may be larger than a new one of its size would be.
            Some(class) if bytes <= TABLED_BYTES && SizeClass::tabled(bytes) <= class => {
                self.cache.front.push(class, address)
            }
            _ => false,
        }
    }

    #[cold]
    #[inline(never)]
    pub fn free_slow(&self, address: usize) {
        if self.pages.is_given_by_call() && self.free_checked(address) {
            return;
        }
        let given = || self.pages.class_of_given(address).unwrap_or(SizeClass::NONE);
        let short_way = || self.cache.push_locked(given(), address);
        if address == 0 || (!self.is_stopped() && short_way()) {
            return;
        }
        let outcome = self.in_slow_path(|| self.free_class(self.pages.class_of(address), address));
        match outcome {
            Some(outcome) => self.obeyed(outcome),
            None => self.free_in_emergency(address),
        }
    }

    fn free_class(&self, class: SizeClass, address: usize) -> Result<(), Misuse> {
        if class.is_small() {
            match self.pages.class_of_given(address) {
                Some(given) if given == class => self.cache.spill(self.below(), class, address),
                _ => Err(self.central.not_given(&self.pages, class, address)),
            }
        } else if class == SizeClass::LARGE {
            self.profile.remove(address);
            self.large.free(&self.pages, address)
        } else if self.guards.owns(address) {
            self.free_guarded(address)
        } else if self.emergency.bytes_of(address).is_some() {
            self.emergency.free(address);
            Ok(())
        } else {
            Err(Misuse::at(self.foreign_fault(address), address))
        }
    }

    fn foreign_fault(&self, address: usize) -> Fault {
        if self.large.was_freed(address) {
            return Fault::DoubleFree;
        }
        let mut fault = Fault::ForeignPointer;
        self.pages.each_mapping(|mapping, start, bytes| {
            if mapping == crate::pages::Mapping::Blocks && address.wrapping_sub(start) < bytes {
                fault = Fault::FreeMemory;
            }
        });
        fault
    }

    /// Gives free memory back to the system until at most `keep` bytes of it are left; returns the bytes given.
    pub fn release(&self, keep: usize) -> usize {
        // Spans' idle pages have no keeper: only whole free units count against `keep`.
        self.in_slow_path(|| {
            if !self.is_started() {
                return 0;
            }
            self.reclaim();
            self.tidy_spans(0) + self.pages.give_back(&self.os, keep, 0)
        })
        .unwrap_or(0)
    }

    /// Brings every cached block back to its span, which finds blocks that were freed twice. For the end of a process.
    pub fn audit(&self) {
        self.in_slow_path(|| {
            if self.is_started() {
                self.reclaim();
            }
        });
    }

    /// Notes which operator new made a block: what the hardened policy does, here nothing.
    #[inline(always)]
    pub fn mark(&self, _: usize, _: Maker) {}

    /// Notes which operator delete a block comes from: as `mark`.
    #[inline(always)]
    pub fn hand_over(&self, _: usize, _: Maker) {}

    /// What an access that the system refused means, if it was to memory of ours.
    pub fn explain(&self, _: usize) -> Option<Misuse> {
        None
    }

    /// Which caches threads use.
    pub fn front_kind(&self) -> FrontKind {
        self.cache.kind()
    }

    /// Stops the process unless the block at `address` can have been asked for with this size and alignment.
    #[inline]
    pub fn check_size(&self, address: usize, bytes: usize, align: usize) {
        if address != 0 && !self.fits(address, bytes, align) {
            self.stop(Misuse { block: self.block_of(address), ..Misuse::at(Fault::WrongSize, address) });
        }
    }

    fn fits(&self, address: usize, bytes: usize, align: usize) -> bool {
        let class = self.pages.class_of(address);
        if class.is_small() {
            let meant = if align <= MIN_ALIGN {
                (bytes <= LARGEST_BYTES).then(|| SizeClass::for_small(bytes))
            } else {
                SizeClass::for_aligned(bytes, align)
            };
            // A block that shrank in place may be larger than a new one of its size would be.
            meant.is_some_and(|meant| meant <= class)
        } else if class == SizeClass::LARGE {
            self.large.usable(&self.pages, address).is_ok_and(|usable| bytes <= usable)
        } else if self.guards.owns(address) {
            // As many as its block would have in a class: what `nallocx` promises.
            let whole = |asked| Self::block_bytes_for(asked, align);
            self.guards.bytes_of(address).is_ok_and(|asked| bytes <= whole(asked))
        } else {
            // Not a block of ours: `free` says what it is.
            true
        }
    }

    /// Bytes that may be used at the start of the block at `address`, 0 for 0.
    pub fn usable_bytes(&self, address: usize) -> usize {
        if address == 0 {
            return 0;
        }
        let class = self.pages.class_of(address);
        if class.is_small() {
            return class.block_bytes();
        }
        if self.guards.owns(address) {
            return self.obeyed(self.guards.bytes_of(address));
        }
        let usable = match (class, self.emergency.bytes_of(address)) {
            (SizeClass::LARGE, _) => self.large.usable(&self.pages, address),
            (_, Some(bytes)) => Ok(bytes),
            (_, None) => Err(Misuse::at(self.foreign_fault(address), address)),
        };
        self.obeyed(usable)
    }

    /// Bytes that a block for `bytes` would have.
    pub fn block_bytes_for(bytes: usize, align: usize) -> usize {
        match SizeClass::for_aligned(bytes, align.max(MIN_ALIGN)) {
            Some(class) => class.block_bytes(),
            None => bytes.checked_next_multiple_of(UNIT_BYTES).unwrap_or(0),
        }
    }

    /// Start and bytes of the block that `address` lies in, as far as it can be known.
    fn block_of(&self, address: usize) -> Option<(usize, usize)> {
        let class = self.pages.class_of(address);
        if self.guards.owns(address) {
            return self.guards.bytes_of(address).ok().map(|bytes| (address, bytes));
        }
        if !class.is_small() {
            return None;
        }
        match locate(&self.pages, class, address) {
            Ok(_) => Some((address, class.block_bytes())),
            Err(misuse) => misuse.block,
        }
    }

    /// The value, or the end of the process where the program misused the heap.
    fn obeyed<T>(&self, outcome: Result<T, Misuse>) -> T {
        match outcome {
            Ok(value) => value,
            Err(misuse) => self.stop(misuse),
        }
    }

    /// Says what the program did and ends the process. No lock is held here: a handler of SIGABRT may allocate, and is
    /// served from emergency memory, since the heap's own structures cannot be trusted any more.
    #[cold]
    #[inline(never)]
    pub fn stop(&self, misuse: Misuse) -> ! {
        self.stop_with(misuse, || self.here())
    }

    /// `here` finds the stack of the misuse; it is asked for only where the block is a guarded one, and last, for the
    /// stack may be what is broken.
    fn stop_with(&self, misuse: Misuse, here: impl FnOnce() -> Stack) -> ! {
        let first =
            self.stopped_thread.compare_exchange(0, O::thread_id(), Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|first| first != O::thread_id()) {
            // One report and one crash handler at a time: what this thread found may be the same fault.
            self.park();
        }
        self.state.store(STOPPED, Ordering::Relaxed);
        self.cache.stop();
        let mut line = [0u8; 256];
        let mut buffer = Buffer::new(&mut line);
        misuse.put(&mut buffer);
        put_str(&mut buffer, ", thread ");
        put_decimal(&mut buffer, self.os.thread_number());
        put_str(&mut buffer, "\n");
        self.os.write(2, buffer.as_bytes());
        if self.guards.owns(misuse.address) {
            self.guards.report(&self.os, &misuse, &here());
        }
        self.os.abort()
    }
}

#[cfg(test)]
mod janitor_tests;
#[cfg(test)]
mod sampling_tests;
#[cfg(test)]
mod tests;
