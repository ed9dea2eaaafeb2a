//! A sampled block: when a request is to be one, and where it is placed; and blocks of a policy, which are samples where they lie.

use crate::base::Fresh;
use crate::base::fault::{Access, Fault};
use crate::base::stack::Stack;
use crate::base::sync::Ordering;
use crate::cache::Counted;
use crate::class::{MIN_ALIGN, SizeClass};
use crate::engine::NEW;
use crate::heap::Heap;
use crate::heap::sampling::FORGOTTEN;
use crate::observe::Size;
use crate::options::OptionId;
use crate::os::Os;
use crate::sources::Guards;
use crate::tenants::HeapId;

/// No guarded samples where the hard limit leaves less than this.
const LIMIT_MARGIN: usize = 1 << 20;

impl<O: Os> Heap<O> {
    /// Counts a request that came to the slow path; true where it is to be a sample.
    #[inline]
    pub(crate) fn sample_is_due(&self, bytes: usize, align: usize) -> bool {
        self.cache.sample_is_due(self.counted_bytes(bytes, align)) || self.is_first(bytes, align)
    }

    /// Counts a request that came to the slow path.
    #[inline]
    pub(crate) fn count_request(&self, bytes: usize, align: usize) -> Counted {
        let counted = self.cache.count_request(self.counted_bytes(bytes, align));
        if counted != Counted::Sample && self.is_first(bytes, align) { Counted::Sample } else { counted }
    }

    /// Whether a request is to be one of the first large blocks that are guarded, where no weights count.
    #[inline]
    fn is_first(&self, bytes: usize, align: usize) -> bool {
        self.sources.guards.may_be_first(bytes)
            && self.guards_are_wanted()
            && align <= MIN_ALIGN
            && !self.is_watched()
    }

    #[cold]
    #[inline(never)]
    fn guards_are_wanted(&self) -> bool {
        self.begin();
        self.has_guards() && self.options.get(OptionId::guarded_rate) != 0
    }

    /// Starts the heap if it is new, so that its options are known.
    fn begin(&self) {
        if self.state.load(Ordering::Relaxed) == NEW && self.hooks.is_some() {
            self.in_slow_path(|_| self.is_started());
        }
    }

    /// The bytes that a request counts for where samples are drawn: those asked for if each is looked at; else its
    /// block, as in a refill, which knows no requests.
    fn counted_bytes(&self, bytes: usize, align: usize) -> usize {
        match self.cache.sampling.counts_each() {
            true => bytes,
            false => SizeClass::for_aligned(bytes, align).map_or(bytes, SizeClass::block_bytes),
        }
    }

    /// A sampled block; 0 where this is to be an ordinary one after all.
    #[cold]
    #[inline(never)]
    pub(crate) fn allocate_sample(&self, bytes: usize, align: usize) -> usize {
        let most = Guards::most_bytes(&self.os);
        let rate = self.options.get(OptionId::guarded_rate);
        let is_one =
            bytes <= most && align <= most && rate != 0 && self.sources.guards.is_due(&self.os, rate);
        let guarded = is_one || self.is_first(bytes, align);
        if !guarded && !self.is_watched() {
            return 0;
        }
        self.in_slow_path(|inside| {
            // A tracer looks for itself who called.
            let stack = if guarded || self.is_profiling() { self.here() } else { Stack::EMPTY };
            let block = if guarded { self.allocate_guarded(bytes, align, stack) } else { None };
            let own_run = || {
                let class = SizeClass::for_aligned(bytes, align);
                let run = class.map_or(bytes, SizeClass::block_bytes);
                self.allocate_large(inside, run, align).map(|fresh| self.as_ordinary(fresh, class).address)
            };
            let block = if self.is_watched() { block.or_else(own_run) } else { block };
            if let Some(address) = block {
                let counted = self.counted_bytes(bytes, align);
                self.write_down(address, Size { bytes, counted }, &stack);
                self.announce(address, bytes);
            }
            block.unwrap_or(0)
        })
        .unwrap_or(0)
    }

    /// The run of a sample, which has the bytes of its class for the program: one that trims what has bytes to spare would trim
    /// samples alone, and the profile would lose them.
    pub(super) fn as_ordinary(&self, fresh: Fresh, class: Option<SizeClass>) -> Fresh {
        if let Some(class) = class
            && let Some(id) = self.pages.span_of(fresh.address)
        {
            self.pages.span(id).tell(class);
        }
        fresh
    }

    fn allocate_guarded(&self, bytes: usize, align: usize, stack: Stack) -> Option<usize> {
        // Guarded pages are not in the footprint that the limit is about: near it there are none.
        let room = |hard: usize| self.pages.footprint().saturating_add(LIMIT_MARGIN.max(8 * bytes)) <= hard;
        let fits = self.pages.limits.hard().is_none_or(room);
        if !fits || !self.sources.guards.prepare(&self.os) {
            return None;
        }
        // Each time: a child that was the first, in its parent's memory, has its own handlers.
        if let Some(before_guards) = self.hooks.and_then(|hooks| hooks.before_guards) {
            before_guards();
        }
        self.sources.guards.allocate(&self.os, bytes, align, self.trace(stack))
    }

    /// A block of no bytes, which nobody can read or write; 0 where there are to be no guards, or no more such blocks.
    pub(crate) fn allocate_empty(&self, align: usize) -> usize {
        self.begin();
        let wanted = self.options.get(OptionId::guarded_rate) != 0 && !self.is_aborting();
        let before = self.hooks.and_then(|hooks| hooks.before_guards).filter(|_| wanted);
        let Some(before_guards) = before else { return 0 };
        before_guards();
        self.sources.empties.make(&self.os, align).unwrap_or(0)
    }

    /// Tells whether an address belongs to guarded samples. Async-signal-safe.
    pub fn is_guarded(&self, address: usize) -> bool {
        self.sources.guards.owns(address)
    }

    /// Ends the process for an access to a guarded address that the machine refused, with the stack that
    /// `here` finds; returns where the address is not the reason. Async-signal-safe.
    pub fn abort_for_access(&self, address: usize, access: Access, here: impl FnOnce() -> Stack) {
        if !self.sources.guards.owns(address) {
            return;
        }
        if let Some(mut misuse) = self.sources.guards.misuse_of(address, access) {
            if access == Access::Execute {
                misuse.fault = Fault::Jump;
            }
            self.abort_at(misuse, here);
        }
    }

    /// Adds a sample to the profile, whose interval may be another one then.
    fn write_down(&self, address: usize, size: Size, stack: &Stack) {
        self.profile.add(&self.os, address, size, stack);
        if self.profile.is_on() && self.profile.interval() != self.cache.sampling.mean() {
            self.settle_sampling();
        }
    }

    /// A large block was allocated by a path that asks for samples afterwards.
    pub(crate) fn note_large(&self, address: usize, bytes: usize) {
        if self.sample_is_due(bytes, MIN_ALIGN) && self.is_watched() {
            if self.is_profiling() {
                let size = Size { bytes, counted: self.counted_bytes(bytes, MIN_ALIGN) };
                self.write_down(address, size, &self.here());
            }
            self.announce(address, bytes);
        }
    }

    /// A large block was resized where it is: for watchers a free and an allocation.
    pub(crate) fn note_resized(&self, address: usize, bytes: usize) {
        if self.is_watched() {
            self.note_freed(address);
            self.note_large(address, bytes);
        }
    }

    /// Counts a block that a policy has made, whose free will be noted by `note_taken_back`. If it is a sample it stays
    /// the block that it is, and is written down.
    #[inline]
    pub(crate) fn note_made(&self, address: usize, bytes: usize) -> usize {
        if !self.cache.front.is_direct() && address != 0 {
            self.note_made_seen(address, bytes);
        }
        address
    }

    #[cold]
    #[inline(never)]
    fn note_made_seen(&self, address: usize, bytes: usize) {
        if self.is_watched() && self.cache.sample_is_due(bytes) {
            self.note_sample(address, bytes);
        }
        self.look_around();
    }

    #[cold]
    #[inline(never)]
    fn note_sample(&self, address: usize, bytes: usize) {
        // A handler that interrupted a slow path has emergency memory, of which nothing is written down.
        self.in_slow_path(|_| match self.owner_heap(address) {
            Some(id) => self.write_down_of_tenant(id, address, bytes),
            None => {
                if self.is_profiling() {
                    self.write_down(address, Size { bytes, counted: bytes }, &self.here());
                }
                self.announce(address, bytes);
            }
        });
    }

    pub(super) fn write_down_of_tenant(&self, id: HeapId, address: usize, bytes: usize) {
        let stack = if self.is_profiling() { self.here() } else { Stack::EMPTY };
        self.profile.add_of_heap(&self.os, id.0, address, Size { bytes, counted: bytes }, &stack);
        if self.profile.is_on() && self.profile.interval() != self.cache.sampling.mean() {
            self.settle_sampling();
        }
        // Another thread may have handed the block over before the record was there.
        let owner = self.tenants.heap_of(&self.pages, address).unwrap_or(HeapId::OWN);
        if owner != id {
            self.profile.hand_over(id.0, name_of(owner));
        }
        self.announce(address, bytes);
    }

    /// Whether `note_taken_back` may have anything to note.
    #[inline]
    pub(crate) fn sees_frees(&self) -> bool {
        self.profile.is_on() || self.probing.has_announced()
    }

    /// A block of a policy was freed, in no slow path: it may have been a sample.
    #[inline]
    pub(crate) fn note_taken_back(&self, address: usize) {
        if self.profile.may_hold(address) && self.inside(|_| self.profile.remove(address)).is_none() {
            // The lock may be this thread's own, which a handler interrupted.
            self.defer(address | FORGOTTEN);
        }
        self.probing.freed(address);
    }
}

/// As records have it.
pub(super) fn name_of(id: HeapId) -> u64 {
    if id == HeapId::OWN { 0 } else { id.0 }
}
