//! The middle: what flows between virtual CPUs, and the spans of each class.
//!
//! Owns, for each class, a transfer array (whole batches change hands in it) and the lists of spans with free
//! blocks; and the budget that bounds all cached bytes. Promises that a block is handed out by one caller
//! only and that a double or interior free is found at the latest when the block comes back to its span.
//! `cache` and `heap` call it; sits on `pages`.

mod budget;
mod lists;
mod places;
mod transfer;
#[cfg(any(test, feature = "fake-os"))]
mod verify;
mod window;

pub use budget::Budget;
pub use lists::locate;

use crate::base::chance::next_random;
use crate::base::fault::{Fault, Misuse};
use crate::base::round_up;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::ticks::{Tick, Ticks};
use crate::class::{SizeClass, TABLE_LEN};
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
use crate::os::{Mutex, Os, Purpose};
use crate::pages::{Pages, SpanId, is_idle};
use lists::SpanLists;
use transfer::Transfer;

/// The share of the budget that transfer arrays may take together.
const TRANSFER_SHARE: usize = 4;
/// Refusals of room before a class tries to take unused room from another.
const REFUSALS_BEFORE_STEALING: u32 = 16;
/// Blocks that leave an array in one go when it is emptied.
const DRAIN_BATCH: usize = 64;
/// The memory of an empty transfer array went back to the system.
const FORGOTTEN: u32 = u32::MAX;

/// The middle of a heap. Any thread may call.
pub struct Central<O: Os> {
    pub budget: Budget,
    /// The part of the budget that transfer arrays hold.
    transfer_taken: AtomicUsize,
    /// Memory of the transfer arrays; 0 before it is there.
    arrays: AtomicUsize,
    classes: [Class<O>; TABLE_LEN],
    /// The state of the generator that shuffles blocks; 0 before its first use.
    order: AtomicU64,
}

#[repr(align(128))]
struct Class<O: Os> {
    transfer: Mutex<Transfer, O>,
    /// A copy of the transfer array's length, read without the lock to avoid it.
    cached: AtomicU32,
    /// A copy of the transfer array's capacity.
    capacity: AtomicU32,
    /// Times that the budget had no room for this class. Counted here, where only those write who use the
    /// class anyway.
    refusals: AtomicU32,
    /// For how many ticks the transfer array was empty, or FORGOTTEN.
    empty_for: AtomicU32,
    /// Freed blocks go to the spans, past the transfer array.
    condenses: AtomicBool,
    spans: Mutex<SpanLists, O>,
}

impl<O: Os> Class<O> {
    /// Copies what is read without the lock; the caller holds it.
    fn note(&self, transfer: &Transfer) {
        self.cached.store(transfer.len() as u32, Ordering::Relaxed);
        self.capacity.store(transfer.capacity() as u32, Ordering::Relaxed);
        self.empty_for.store(0, Ordering::Relaxed);
    }

    /// Whether the array has no place, as far as the copies tell.
    fn is_full(&self) -> bool {
        self.cached.load(Ordering::Relaxed) >= self.capacity.load(Ordering::Relaxed)
    }
}

/// Blocks that go back under one holding of a lock.
fn portions(blocks: &[usize]) -> impl Iterator<Item = &[usize]> {
    blocks.chunks(DRAIN_BATCH)
}

/// What one class holds in this layer.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct ClassStats {
    pub transfer_blocks: u64,
    pub free_blocks: u64,
    pub spans: u64,
}

impl<O: Os> Central<O> {
    pub const fn new() -> Self {
        Central {
            budget: Budget::new(),
            transfer_taken: AtomicUsize::new(0),
            arrays: AtomicUsize::new(0),
            classes: [const {
                Class {
                    transfer: Mutex::new(Transfer::new()),
                    cached: AtomicU32::new(0),
                    capacity: AtomicU32::new(0),
                    refusals: AtomicU32::new(0),
                    empty_for: AtomicU32::new(FORGOTTEN),
                    condenses: AtomicBool::new(false),
                    spans: Mutex::new(SpanLists::new()),
                }
            }; TABLE_LEN],
            order: AtomicU64::new(0),
        }
    }

    /// Reserves the transfer arrays; each gets memory when it is first used. Without them the heap works,
    /// only slower.
    pub fn start(&self, os: &O) {
        if let Some(base) = os.reserve(places::ALL_BYTES) {
            os.name_pages(base, places::ALL_BYTES, Purpose::Tables);
            self.arrays.store(base, Ordering::Relaxed);
        }
    }

    /// Address and bytes of the transfer arrays.
    pub fn arrays(&self) -> (usize, usize) {
        (self.arrays.load(Ordering::Relaxed), places::ALL_BYTES)
    }

    fn class(&self, class: SizeClass) -> &Class<O> {
        debug_assert!(class.is_small());
        // SAFETY: a SizeClass is below TABLE_LEN (see SizeClass::shape).
        unsafe { self.classes.get_unchecked(class.index()) }
    }

    /// Fills `out` with free blocks; fewer than asked for only where there is no memory. In no order, where a policy checks
    /// every block: one of them does not tell where the next one is.
    pub fn take(&self, os: &O, pages: &Pages<O>, class: SizeClass, out: &mut [usize]) -> usize {
        let count = self.take_in_order(os, pages, class, out);
        if pages.keeps_marks() {
            self.shuffle(os, out.get_mut(..count).unwrap_or_default());
        }
        count
    }

    #[inline(never)]
    fn shuffle(&self, os: &O, blocks: &mut [usize]) {
        if self.order.load(Ordering::Relaxed) == 0 {
            self.order.store(os.random() | 1, Ordering::Relaxed);
        }
        // Two threads never have the same state.
        let mut state = self.order.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).rotate_left(32);
        for last in (1..blocks.len()).rev() {
            let other = ((u128::from(next_random(&mut state)) * (last as u128 + 1)) >> 64) as usize;
            // Both are in it; a place is not exchanged with itself.
            if let Ok([one, another]) = blocks.get_disjoint_mut([last, other]) {
                core::mem::swap(one, another);
            }
        }
    }

    fn take_in_order(&self, os: &O, pages: &Pages<O>, class: SizeClass, out: &mut [usize]) -> usize {
        let place = self.class(class);
        let mut count = 0;
        if place.cached.load(Ordering::Relaxed) != 0 {
            let mut transfer = place.transfer.lock();
            count = transfer.take(out);
            place.note(&transfer);
        }
        match out.get_mut(count..) {
            Some(rest) if !rest.is_empty() => {
                let taken = place.spans.lock().take(os, pages, class, rest);
                // Before a page of a new block is there: a huge page comes in whole.
                pages.grow_ahead(os);
                if let Some((address, bytes)) = taken.reached
                    && !pages.is_newest_huge(address)
                {
                    os.populate(address, bytes);
                }
                count + taken.blocks
            }
            _ => count,
        }
    }

    /// One free block, 0 where there is no memory, and whether it is known to read as zeros.
    pub fn take_one(&self, os: &O, pages: &Pages<O>, class: SizeClass) -> (usize, bool) {
        let place = self.class(class);
        if place.cached.load(Ordering::Relaxed) != 0 {
            let (mut transfer, mut one) = (place.transfer.lock(), [0]);
            let count = transfer.take(&mut one);
            place.note(&transfer);
            if let (1, [block]) = (count, one) {
                return (block, false);
            }
        }
        place.spans.lock().take_one(os, pages, class)
    }

    /// Takes free blocks of one class, into the transfer array as far as there is room.
    pub fn give(&self, os: &O, pages: &Pages<O>, class: SizeClass, blocks: &[usize]) -> Result<(), Misuse> {
        let kept = if self.condenses(class) { 0 } else { self.keep(os, pages, class, blocks)? };
        match blocks.get(kept..) {
            Some(rest) if !rest.is_empty() => self.give_to_spans(pages, class, rest),
            _ => Ok(()),
        }
    }

    /// Whether caches of a class are to stay short, for its blocks to come from the fullest spans.
    #[inline]
    pub fn condenses(&self, class: SizeClass) -> bool {
        self.class(class).condenses.load(Ordering::Relaxed)
    }

    /// Has what is freed of a class go to the spans from now on, or not any more.
    pub fn condense(&self, class: SizeClass, on: bool) {
        self.class(class).condenses.store(on, Ordering::Relaxed);
    }

    /// Takes free blocks of one class straight into their spans.
    pub fn give_to_spans(&self, pages: &Pages<O>, class: SizeClass, blocks: &[usize]) -> Result<(), Misuse> {
        self.return_blocks(pages, class, blocks, pages.clock.load())
    }

    /// Takes blocks straight into their spans that are known to be free since tick `at`.
    pub fn return_blocks(
        &self,
        pages: &Pages<O>,
        class: SizeClass,
        blocks: &[usize],
        at: Tick,
    ) -> Result<(), Misuse> {
        // Whoever wants the lock meanwhile has it between two of them, however many there are.
        let put = |part: &[usize]| self.class(class).spans.lock().put(pages, class, part, at);
        portions(blocks).map(put).fold(Ok(()), Result::and)
    }

    /// Whether the transfer array of a class holds a block.
    pub fn transfers(&self, class: SizeClass, block: usize) -> bool {
        let place = self.class(class);
        place.cached.load(Ordering::Relaxed) != 0 && place.transfer.lock().holds(block)
    }

    /// Returns what nobody took from a transfer array since the last call to its spans, as free since tick
    /// `at`.
    pub fn trim(&self, pages: &Pages<O>, class: SizeClass, at: Tick) -> Result<(), Misuse> {
        let place = self.class(class);
        if place.cached.load(Ordering::Relaxed) == 0 {
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

    /// Releases the memory of a transfer array that nobody has used for so many ticks: a call of this is one. What is
    /// refused stays until the array was used again.
    pub fn forget_array(&self, os: &O, class: SizeClass, ticks: Ticks) {
        let place = self.class(class);
        let empty_for = place.empty_for.load(Ordering::Relaxed);
        if empty_for == FORGOTTEN || place.cached.load(Ordering::Relaxed) != 0 {
            return;
        }
        if empty_for < ticks.0 {
            return place.empty_for.store(empty_for + 1, Ordering::Relaxed);
        }
        let mut transfer = place.transfer.lock();
        if let Some((address, used)) = transfer.forget() {
            os.release(address, round_up(used, os.page_bytes()));
        }
        if transfer.len() == 0 {
            place.empty_for.store(FORGOTTEN, Ordering::Relaxed);
        }
    }

    /// What is wrong with freeing an address of a small class where no block starts that its span gave out.
    #[cold]
    pub fn not_allocated(&self, pages: &Pages<O>, class: SizeClass, address: usize) -> Misuse {
        match locate(pages, class, address) {
            Ok(_) => {
                let block = Some((address, class.block_bytes()));
                Misuse { block, ..Misuse::at(Fault::FreeBlock, address) }
            }
            Err(misuse) => misuse,
        }
    }

    /// Gives idle pages of a span back, if it is a span of blocks that nobody touched for `ticks`. Returns
    /// the bytes.
    pub fn tidy_span(&self, os: &O, pages: &Pages<O>, id: SpanId, ticks: Ticks) -> usize {
        let span = pages.span(id);
        let class = span.class();
        // Most spans are tidy or in use: those cost a look, not a lock.
        if !class.is_small() || !is_idle(span.touched_at.get(), pages.clock.load(), ticks) {
            return 0;
        }
        let mut spans = self.class(class).spans.lock();
        if span.class() == class { spans.tidy(os, pages, id, ticks) } else { 0 }
    }

    fn keep(&self, os: &O, pages: &Pages<O>, class: SizeClass, blocks: &[usize]) -> Result<usize, Misuse> {
        let place = self.class(class);
        if place.is_full() && !self.has_room(class.block_bytes()) {
            return self.steal(pages, class).map(|()| 0);
        }
        let mut transfer = place.transfer.lock();
        let missing = (transfer.len() + blocks.len()).saturating_sub(transfer.capacity());
        let mut refused = false;
        if missing > 0 {
            refused = !self.grow(os, &mut transfer, class, missing);
        }
        let kept = transfer.put(blocks);
        place.note(&transfer);
        drop(transfer);
        if refused {
            self.steal(pages, class)?;
        }
        Ok(kept)
    }

    /// False where the budget has no room.
    fn grow(&self, os: &O, transfer: &mut Transfer, class: SizeClass, missing: usize) -> bool {
        if !transfer.has_memory() {
            let (offset, bytes) = places::place_of(class);
            let arrays = self.arrays.load(Ordering::Relaxed);
            let array = arrays + offset;
            if arrays == 0 || !os.commit(array, bytes) {
                return true;
            }
            transfer.provide(core::ptr::with_exposed_provenance_mut(array), bytes / size_of::<usize>());
        }
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

    /// Now and then, takes half of another class's array away: room follows the classes that need it.
    fn steal(&self, pages: &Pages<O>, except: SizeClass) -> Result<(), Misuse> {
        let counter = &self.class(except).refusals;
        let refusals = counter.load(Ordering::Relaxed);
        counter.store(refusals.wrapping_add(1), Ordering::Relaxed);
        if !refusals.is_multiple_of(REFUSALS_BEFORE_STEALING) {
            return Ok(());
        }
        let turn = ((refusals / REFUSALS_BEFORE_STEALING) as usize + except.index()) % (TABLE_LEN - 2) + 1;
        let victims = SizeClass::all().skip(turn - 1).chain(SizeClass::all().take(turn - 1));
        for victim in victims.filter(|victim| *victim != except) {
            let capacity = self.class(victim).capacity.load(Ordering::Relaxed);
            if capacity > 0 {
                return self.drain(pages, victim, capacity.div_ceil(2) as usize);
            }
        }
        Ok(())
    }

    /// Returns up to `entries` of a transfer array's capacity to the budget and the blocks in it to their
    /// spans.
    pub fn drain(&self, pages: &Pages<O>, class: SizeClass, entries: usize) -> Result<(), Misuse> {
        let place = self.class(class);
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

    /// Bytes of free blocks in spans, whether or not they hold memory.
    pub fn free_in_spans(&self) -> usize {
        SizeClass::all().map(|class| self.class(class).spans.lock().free_blocks * class.block_bytes()).sum()
    }

    pub fn stats(&self, class: SizeClass) -> ClassStats {
        let place = self.class(class);
        let transfer_blocks = place.transfer.lock().len() as u64;
        let spans = place.spans.lock();
        ClassStats { transfer_blocks, free_blocks: spans.free_blocks as u64, spans: spans.spans as u64 }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_lock(&self, take: &mut dyn FnMut(&dyn AnyLock)) {
        self.classes.iter().for_each(|class| take(&class.transfer));
        self.classes.iter().for_each(|class| take(&class.spans));
    }

    /// Takes over the locks of transfer arrays from threads that are not in this process.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair_transfers(&self, outermost: bool) {
        for place in &self.classes {
            // SAFETY: by the caller's promise; released by the thread that seized it.
            unsafe {
                if place.transfer.seize(outermost) {
                    // Blocks count once they are there, and count no more before they are taken: nothing to
                    // put right.
                    place.note(place.transfer.seized());
                    place.transfer.release();
                }
            }
        }
    }

    /// Takes over the locks of spans, and puts right what their holders were changing. The pages are right already.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair_spans(&self, pages: &Pages<O>, outermost: bool) {
        let mut any_span_lock = false;
        for (index, place) in self.classes.iter().enumerate() {
            let class = SizeClass::from_byte(index as u8);
            // SAFETY: by the caller's promise; each is released by the thread that seized it.
            unsafe {
                if place.spans.seize(outermost) {
                    any_span_lock = true;
                    if class.is_small() {
                        place.spans.seized().rebuild(pages, class);
                    }
                    place.spans.release();
                }
            }
        }
        if any_span_lock {
            // It is counted under the locks of the classes.
            pages.recount_released();
        }
    }
}

#[cfg(test)]
mod tests;
