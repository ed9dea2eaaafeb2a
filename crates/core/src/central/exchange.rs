//! Blocks that change hands in transfer arrays: which array a thread uses, how long it may be, and how it is emptied.

use super::arrays::Array;
use super::transfer::Transfer;
use super::{Central, DRAIN_BATCH, places};
use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::base::ticks::{Tick, Ticks};
use crate::class::{SizeClass, TABLE_LEN};
use crate::os::Os;
use crate::pages::Pages;

/// The share of the budget that transfer arrays may take together.
pub(super) const TRANSFER_SHARE: usize = 4;
/// Refusals of room before a class tries to take unused room from another.
pub(super) const REFUSALS_BEFORE_STEALING: u32 = 16;

impl<O: Os> Central<O> {
    /// Blocks of another domain's array: of the one that had some the last time and the next, that which has more. If
    /// threads of one domain free what those of another take, this spares the lock of the spans.
    #[cold]
    #[inline(never)]
    pub(super) fn take_from_another(&self, number: usize, class: SizeClass, out: &mut [usize]) -> usize {
        let (own, domains) = (self.array_in(number, class), self.domains.count());
        let last = usize::from(own.donor.load(Ordering::Relaxed)) % domains;
        let candidates = [last, (last + 1) % domains];
        let has = |donor: usize| match self.array_in(donor, class) {
            array if core::ptr::eq(array, own) => 0,
            array => array.cached.load(Ordering::Relaxed),
        };
        let [donor, next] = if has(candidates[0]) >= has(candidates[1]) {
            candidates
        } else {
            [candidates[1], candidates[0]]
        };
        let count = if has(donor) == 0 { 0 } else { self.array_in(donor, class).take(out) };
        let donor = if count == 0 { next.max(donor) + 1 } else { donor };
        own.donor.store((donor % domains) as u8, Ordering::Relaxed);
        count
    }

    /// Whether the transfer array of a class holds a block.
    pub fn transfers(&self, class: SizeClass, block: usize) -> bool {
        self.arrays_of(class).any(|array| !array.is_empty() && array.transfer.lock().holds(block))
    }

    /// Returns what nobody took from the transfer arrays of a class since the last call to its spans, as free since tick
    /// `at`.
    pub fn trim(&self, pages: &Pages<O>, class: SizeClass, at: Tick) -> Result<(), Misuse> {
        self.arrays_of(class).map(|array| self.trim_array(pages, array, class, at)).fold(Ok(()), Result::and)
    }

    fn trim_array(
        &self,
        pages: &Pages<O>,
        place: &Array<O>,
        class: SizeClass,
        at: Tick,
    ) -> Result<(), Misuse> {
        if place.is_empty() {
            return Ok(());
        }
        let mut left = place.transfer.lock().low_water();
        let mut outcome = Ok(());
        while left > 0 {
            let mut batch = [0; DRAIN_BATCH];
            let mut transfer = place.transfer.lock();
            let count = batch.get_mut(..left.min(DRAIN_BATCH)).map_or(0, |out| transfer.take(out));
            let freed = transfer.shrink(count);
            place.note(&transfer);
            drop(transfer);
            self.give_room(freed * class.block_bytes());
            outcome = outcome.and(self.return_blocks(pages, class, batch.get(..count).unwrap_or(&[]), at));
            left = if count == 0 { 0 } else { left - count };
        }
        outcome
    }

    /// Releases the memory of transfer arrays that nobody has used for so many ticks: a call of this is one. If the
    /// system refuses, the memory stays until the array was used again.
    pub fn forget_array(&self, os: &O, class: SizeClass, ticks: Ticks) {
        self.arrays_of(class).for_each(|array| array.forget(os, ticks));
    }

    pub(super) fn keep(
        &self,
        os: &O,
        pages: &Pages<O>,
        class: SizeClass,
        blocks: &[usize],
    ) -> Result<usize, Misuse> {
        let number = self.domains.current(os);
        let place = self.array_in(number, class);
        if place.is_full() && !self.has_room(class.block_bytes()) {
            return self.steal(pages, number, class).map(|()| 0);
        }
        // As in `Array::take`.
        let Some(mut transfer) = place.transfer.lock_soon() else { return Ok(0) };
        if !transfer.has_memory() {
            drop(transfer);
            let memory = self.memory_of(os, number, class);
            transfer = place.transfer.lock();
            match memory {
                Some((array, bytes)) if !transfer.has_memory() => {
                    let array = core::ptr::with_exposed_provenance_mut(array);
                    transfer.provide(array, bytes / size_of::<usize>());
                }
                _ => (),
            }
        }
        let missing = (transfer.len() + blocks.len()).saturating_sub(transfer.capacity());
        let mut refused = false;
        if missing > 0 {
            refused = !self.grow(&mut transfer, class, missing);
        }
        let kept = transfer.put(blocks);
        place.note(&transfer);
        drop(transfer);
        if refused {
            self.steal(pages, number, class)?;
        }
        Ok(kept)
    }

    /// Memory for an array, address and bytes; none where the system refuses it. With no lock in hand: another thread may
    /// be here for the same.
    #[cold]
    fn memory_of(&self, os: &O, number: usize, class: SizeClass) -> Option<(usize, usize)> {
        let (offset, bytes) = places::place_of(class);
        let first = self.arrays.load(Ordering::Relaxed);
        let array = self.domains.memory::<O>(number, first) + offset;
        (array != offset && os.commit(array, bytes)).then_some((array, bytes))
    }

    /// False where the budget has no room.
    fn grow(&self, transfer: &mut Transfer, class: SizeClass, missing: usize) -> bool {
        let wanted = missing.min(transfer.may_grow());
        let bytes = wanted * class.block_bytes();
        if !self.take_room(bytes) {
            return false;
        }
        let granted = transfer.grow(wanted);
        self.give_room((wanted - granted) * class.block_bytes());
        true
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.transfer_taken.load(Ordering::Relaxed).saturating_add(bytes)
            <= self.budget.limit() / TRANSFER_SHARE
            && self.budget.has_room(bytes)
    }

    fn take_room(&self, bytes: usize) -> bool {
        if !self.has_room(bytes) {
            return false;
        }
        let before = self.transfer_taken.fetch_add(bytes, Ordering::Relaxed);
        let fits =
            before.saturating_add(bytes) <= self.budget.limit() / TRANSFER_SHARE && self.budget.take(bytes);
        if !fits {
            self.transfer_taken.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    fn give_room(&self, bytes: usize) {
        self.transfer_taken.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.give(bytes);
    }

    /// Now and then, takes half of another array away: room follows the classes that need it, and the domains.
    fn steal(&self, pages: &Pages<O>, number: usize, except: SizeClass) -> Result<(), Misuse> {
        let counter = &self.class(except).refusals;
        let refusals = counter.load(Ordering::Relaxed);
        counter.store(refusals.wrapping_add(1), Ordering::Relaxed);
        if !refusals.is_multiple_of(REFUSALS_BEFORE_STEALING) {
            return Ok(());
        }
        let own = core::ptr::from_ref(self.array_in(number, except));
        let turn = ((refusals / REFUSALS_BEFORE_STEALING) as usize + except.index()) % (TABLE_LEN - 2) + 1;
        let victims = SizeClass::all().skip(turn - 1).chain(SizeClass::all().take(turn - 1));
        for (victim, array) in
            victims.flat_map(|class| self.arrays_of(class).map(move |array| (class, array)))
        {
            let capacity = array.capacity.load(Ordering::Relaxed);
            if capacity > 0 && !core::ptr::eq(array, own) {
                return self.drain_array(pages, array, victim, capacity.div_ceil(2) as usize);
            }
        }
        Ok(())
    }

    /// Returns up to `entries` of the capacity of each of a class's transfer arrays to the budget and the blocks in it to
    /// their spans.
    pub fn drain(&self, pages: &Pages<O>, class: SizeClass, entries: usize) -> Result<(), Misuse> {
        let drain = |array| self.drain_array(pages, array, class, entries);
        self.arrays_of(class).map(drain).fold(Ok(()), Result::and)
    }

    fn drain_array(
        &self,
        pages: &Pages<O>,
        place: &Array<O>,
        class: SizeClass,
        entries: usize,
    ) -> Result<(), Misuse> {
        // No more than there is now: others may give while we take.
        let mut left = entries.min(place.transfer.lock().capacity());
        let mut outcome = Ok(());
        while left > 0 {
            let mut batch = [0; DRAIN_BATCH];
            let mut transfer = place.transfer.lock();
            let unused = transfer.shrink(left);
            let room = batch.len().min(left - unused);
            let count = batch.get_mut(..room).map_or(0, |out| transfer.take(out));
            let freed = unused + transfer.shrink(count);
            place.note(&transfer);
            drop(transfer);
            self.give_room(freed * class.block_bytes());
            outcome = outcome.and(self.give_to_spans(pages, class, batch.get(..count).unwrap_or(&[])));
            if freed == 0 {
                break;
            }
            left -= freed;
        }
        outcome
    }
}
