//! The end of a span, at once or by the next thread that takes the lock.
//!
//! The lock is taken here: its holder has closed what was freed while others held it.

use super::delayed::Delay;
use super::kept::{BLOCK_PART as KEPT_BLOCK_PART, LONGER_PART as KEPT_LONGER_PART};
use super::{CLOSED, Pages, SpanId, State};
use crate::base::sync::Ordering;
use crate::base::ticks::Tick;
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::{Guard, Os};

impl<O: Os> Pages<O> {
    /// Takes the lock, and first closes what was freed while others had it and what is kept.
    #[inline]
    pub(super) fn lock(&self) -> Guard<'_, State, O> {
        let mut state = self.state.lock();
        self.settle(&mut state);
        self.close_kept(&mut state);
        state
    }

    /// Gives the units of a class's span back to the free runs, as free since tick `at`. Nobody else may know the span any
    /// more. It does not wait for the lock, as `close_large` does not: the caller holds that of the class.
    pub fn close_span(&self, id: SpanId, at: Tick) {
        let mut state = match self.state.try_lock() {
            Some(state) => state,
            None => {
                match self.delayed.delay(self.delayed_free(id, self.address_of(self.span(id).start.get()))) {
                    Delay::Left | Delay::Twice => return,
                    Delay::Full => self.state.lock(),
                }
            }
        };
        self.settle(&mut state);
        self.close_under_lock(&mut state, id, at);
    }

    /// Ends spans of a tenant's heap that nobody knows any more: under one holding of the lock.
    pub fn close_spans(&self, ids: &[SpanId], at: Tick) {
        let mut state = self.lock();
        ids.iter().for_each(|id| self.close_under_lock(&mut state, *id, at));
    }

    /// Ends the large block at an address; false where another thread has done so since the caller looked. The block is
    /// kept for the next request, if it `may_be_kept` and there is room; else its span is closed. That does not wait for
    /// the lock: if it is taken, its next holder closes the block.
    pub fn close_large(&self, id: SpanId, address: usize, at: Tick, may_be_kept: bool) -> bool {
        let block = self.delayed_free(id, address);
        if may_be_kept && !(self.delayed.has_any() && self.delayed.holds(block)) {
            match self.keep(id, block) {
                Delay::Left => return true,
                Delay::Twice => return false,
                Delay::Full => {}
            }
        }
        if let Some(mut state) = self.state.try_lock() {
            return self.close_locked(&mut state, id, address, at);
        }
        match self.delayed.delay(block) {
            Delay::Left => true,
            Delay::Twice => false,
            Delay::Full => self.close_locked(&mut self.state.lock(), id, address, at),
        }
    }

    fn close_locked(&self, state: &mut Guard<'_, State, O>, id: SpanId, address: usize, at: Tick) -> bool {
        self.settle(state);
        let is_open = self.is_large_at(state, id, address);
        if is_open {
            self.close_under_lock(state, id, at);
        }
        is_open
    }

    /// Whether the large block at an address was freed and waits to be closed.
    #[inline]
    pub fn is_delayed(&self, id: SpanId, address: usize) -> bool {
        let block = || self.delayed_free(id, address);
        self.delayed.has_any() && self.delayed.holds(block()) || self.kept.holds(block())
    }

    /// A large block as it is delayed: its span, and where the caller says that it starts, one unit on, so that this
    /// is never 0.
    pub(super) fn delayed_free(&self, id: SpanId, address: usize) -> u64 {
        (u64::from(self.unit_of(address)) + 1) << u32::BITS | u64::from(id.0)
    }

    /// Closes what was freed while others held the lock.
    #[inline]
    pub(super) fn settle(&self, state: &mut Guard<'_, State, O>) {
        if self.delayed.has_any() {
            self.close_delayed(state);
        }
    }

    #[cold]
    #[inline(never)]
    fn close_delayed(&self, state: &mut Guard<'_, State, O>) {
        let at = self.clock.load();
        self.delayed.take().for_each(|block| self.close_freed(state, block, at));
    }

    /// Closes what waited, delayed or kept.
    pub(super) fn close_freed(&self, state: &mut Guard<'_, State, O>, block: u64, at: Tick) {
        let (id, address) = (SpanId(block as u32), self.address_of((block >> u32::BITS) as u32 - 1));
        let span = self.span(id);
        if self.is_large_at(state, id, address) {
            self.close_under_lock(state, id, at);
        } else if span.class().is_small() && span.list.get() == CLOSED {
            self.close_under_lock(state, id, span.touched_at.get());
        } else {
            // Two threads freed it at the same moment; one of them may have been told.
            self.note_freed_twice(address);
        }
    }

    pub(super) fn note_freed_twice(&self, address: usize) {
        self.delayed.freed_twice.store(address, Ordering::Relaxed);
    }

    /// Closes a block that was taken from where it waited, and does not serve.
    #[cold]
    pub(super) fn close_taken(&self, block: u64) {
        let mut state = self.state.lock();
        self.close_freed(&mut state, block, self.clock.load());
    }

    /// A large block that was delayed although another thread had freed it at the same moment: the thread that
    /// delayed it was not told. Once.
    pub fn take_freed_twice(&self) -> Option<usize> {
        let address = self.delayed.freed_twice.load(Ordering::Relaxed);
        if address != 0 { Some(self.delayed.freed_twice.swap(0, Ordering::Relaxed)) } else { None }
    }

    /// Whether the span is that of the large block that starts at an address. Both may have another owner
    /// than when the caller looked.
    pub(super) fn is_large_at(&self, _held: &Guard<'_, State, O>, id: SpanId, address: usize) -> bool {
        self.class_of(address) == SizeClass::LARGE
            && self.span_of(address) == Some(id)
            && self.span(id).class() == SizeClass::LARGE
            && self.address_of(self.span(id).start.get()) == address
    }

    fn close_under_lock(&self, state: &mut Guard<'_, State, O>, id: SpanId, at: Tick) {
        let span = self.span(id);
        let (start, units) = (span.start.get(), span.units.get());
        self.released.fetch_sub(span.released_bytes(), Ordering::Relaxed);
        self.strike_from_map(state, id);
        state.closed(span);
        state.runs.put(&self.huge, start, units, at);
        self.limits.free.note(state.runs.dirty_free as usize * UNIT_BYTES);
        self.recycle_span(state, id);
    }

    /// Makes a descriptor unused.
    pub(super) fn recycle_span(&self, state: &mut Guard<'_, State, O>, id: SpanId) {
        self.set_candidate(id, false);
        self.span(id).set_class(SizeClass::NONE);
        self.span(id).heap.set(0);
        self.span(id).set_next(state.unused_spans);
        state.unused_spans = id;
    }
}

/// Kept blocks (`kept`).
impl<O: Os> Pages<O> {
    /// Keeps a large block that its owner frees; `Full` where it is to be closed.
    pub(super) fn keep(&self, id: SpanId, block: u64) -> Delay {
        let kept = &self.kept;
        let bytes = self.span(id).bytes();
        let most = kept.most.load(Ordering::Relaxed);
        // The hardened policy wants no run again that it has just given back.
        let is_too_much =
            bytes > most / KEPT_BLOCK_PART || kept.bytes.load(Ordering::Relaxed).saturating_add(bytes) > most;
        if is_too_much || self.keeps_marks() {
            return if kept.holds(block) { Delay::Twice } else { Delay::Full };
        }
        // Before the block is there, so that a thread that takes it finds it counted.
        kept.count(bytes);
        let outcome = kept.frees.delay(block);
        if outcome != Delay::Left {
            kept.discount(bytes);
        }
        outcome
    }

    /// A kept block for a request of so many units. It keeps its length and what was asked for it.
    #[inline]
    pub(super) fn take_kept(&self, units: u32) -> Option<SpanId> {
        if !self.kept.frees.has_any() {
            return None;
        }
        let id_of = |block: u64| SpanId(block as u32);
        let fits = |block: u64| {
            let span = self.span(id_of(block));
            (units..=units + units / KEPT_LONGER_PART).contains(&span.units.get())
                && self.delayed_free(id_of(block), self.address_of(span.start.get())) == block
        };
        let block = self.kept.frees.take_one(fits)?;
        let id = id_of(block);
        self.kept.discount(self.span(id).bytes());
        if self.kept.frees.holds(block) {
            // Two threads freed it at the same moment, and none was told. It is nobody's any more.
            self.note_freed_twice(self.address_of(self.span(id).start.get()));
            return None;
        }
        // It may have been had, resized and freed by others since the look.
        if !fits(block) {
            self.close_taken(block);
            return None;
        }
        Some(id)
    }

    /// Closes all kept blocks; false where there are none.
    #[inline]
    pub(super) fn close_kept(&self, state: &mut Guard<'_, State, O>) -> bool {
        self.kept.frees.has_any() && self.close_kept_ones(state)
    }

    #[cold]
    #[inline(never)]
    fn close_kept_ones(&self, state: &mut Guard<'_, State, O>) -> bool {
        let at = self.clock.load();
        let mut any = false;
        for block in self.kept.frees.take() {
            any = true;
            let id = SpanId(block as u32);
            self.kept.discount(self.span(id).bytes());
            self.close_freed(state, block, at);
        }
        any
    }
}
