//! The middle: blocks that flow between virtual CPUs, and the spans of each class.
//!
//! Owns, for each class, a transfer array (whole batches change hands in it) and the lists of spans with free
//! blocks; and the budget that bounds all cached bytes. Promises that a block is handed out by one caller
//! only and that a double or interior free is found at the latest when the block comes back to its span.
//! `cache`, `upkeep`, `engine` and `heap` call it; sits on `pages`.

mod arrays;
mod budget;
mod exchange;
mod flow;
mod lists;
mod middle;
mod places;
mod transfer;
#[cfg(any(test, feature = "fake-os"))]
mod verify;
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
pub use budget::Budget;
pub use lists::{SpanLists, Subreleasing, locate, release_pages};
pub use middle::Middle;

use crate::base::PAGE_BYTES;
use crate::base::fault::{Fault, Misuse};
use crate::base::place::Places;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::ticks::{Tick, Ticks};
use crate::class::{SizeClass, TABLE_LEN};
use crate::os::{Guard, MOST_DOMAINS, Mutex, Os, Purpose};
use crate::pages::{Pages, SpanId, is_idle};
use arrays::{Array, Domains};
use core::mem::offset_of;
use transfer::Transfer;

/// Blocks that leave an array in one go when it is emptied.
const DRAIN_BATCH: usize = 64;

/// The middle and the floors below it: blocks of classes come from here, and go back here.
pub struct Store<O: Os> {
    pub os: O,
    pub pages: Pages<O>,
    pub central: Central<O>,
}

impl<O: Os> Store<O> {
    pub const fn new(os: O) -> Self {
        Store { os, pages: Pages::new(), central: Central::new() }
    }
}

/// The middle of a heap. Any thread may call.
pub struct Central<O: Os> {
    pub budget: Budget,
    /// The part of the budget that transfer arrays hold.
    transfer_taken: AtomicUsize,
    /// Memory of the first domain's transfer arrays; 0 before it is there.
    arrays: AtomicUsize,
    domains: Domains,
    classes: [Class<O>; TABLE_LEN],
    /// The state of the generator that shuffles blocks; 0 before its first use.
    order: AtomicU64,
}

#[repr(align(128))]
struct Class<O: Os> {
    /// That of the domain that was used first.
    array: Array<O>,
    /// Times that the budget had no room for this class. Counted here, where only those write who use the
    /// class anyway.
    refusals: AtomicU32,
    /// Freed blocks go to the spans, past the transfer array.
    condenses: AtomicBool,
    spans: Mutex<SpanLists, O>,
}

/// Blocks that go back under one holding of a lock.
fn portions(blocks: &[usize]) -> impl Iterator<Item = &[usize]> {
    blocks.chunks(DRAIN_BATCH)
}

/// Blocks and spans that one class holds in this layer.
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
            domains: Domains::new(),
            classes: [const {
                Class {
                    array: Array::new(),
                    refusals: AtomicU32::new(0),
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

    /// Calls `take` with address and bytes of each mapping of transfer arrays.
    pub fn each_mapping(&self, take: &mut dyn FnMut(usize, usize)) {
        take(self.arrays.load(Ordering::Relaxed), places::ALL_BYTES);
        self.domains.each_row(|row| take(row, Domains::row_bytes::<O>() + places::ALL_BYTES));
    }

    fn class(&self, class: SizeClass) -> &Class<O> {
        debug_assert!(class.is_small());
        // SAFETY: a SizeClass is below TABLE_LEN (see SizeClass::shape).
        unsafe { self.classes.get_unchecked(class.index()) }
    }

    /// The transfer array of a class that a thread uses where it runs now.
    fn array(&self, os: &O, class: SizeClass) -> &Array<O> {
        self.array_in(self.domains.current(os), class)
    }

    /// That of the domain of this number; the first one's where it has none.
    fn array_in(&self, number: usize, class: SizeClass) -> &Array<O> {
        self.domains.array(number, class).unwrap_or(&self.class(class).array)
    }

    /// Those of a class in all domains.
    fn arrays_of(&self, class: SizeClass) -> impl Iterator<Item = &Array<O>> {
        let further = (1..MOST_DOMAINS).filter_map(move |number| self.domains.array(number, class));
        core::iter::once(&self.class(class).array).chain(further)
    }

    /// Adds a span to a class, whose lock is left meanwhile; none where there is no memory.
    #[inline]
    fn open_span<'a>(
        &'a self,
        os: &O,
        pages: &Pages<O>,
        class: SizeClass,
        mut held: Guard<'a, SpanLists, O>,
    ) -> Option<Guard<'a, SpanLists, O>> {
        held.leave();
        drop(held);
        let opened = pages.open_span(os, class);
        let mut held = self.class(class).spans.lock();
        held.arrive(pages, class, opened);
        opened.map(|_| held)
    }

    /// Makes a span of a tenant's heap one of the process's own. The caller holds what it belongs to, and took it out of that
    /// heap's lists.
    pub fn adopt(&self, pages: &Pages<O>, id: SpanId) {
        let class = pages.span(id).class();
        let mut held = self.class(class).spans.lock();
        // From here on its blocks are freed the usual way, and come here.
        pages.hand_over(id, 0);
        held.adopt(pages, id);
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
        // A thread that wants the lock meanwhile has it between two portions, however many there are.
        let put = |part: &[usize]| self.class(class).spans.lock().put(pages, class, part, at);
        portions(blocks).map(put).fold(Ok(()), Result::and)
    }

    /// The misuse in freeing an address of a small class where no block starts that its span gave out.
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
    pub fn subrelease(&self, os: &O, pages: &Pages<O>, id: SpanId, ticks: Ticks) -> usize {
        let span = pages.span(id);
        let class = span.class();
        // Most spans are no candidates or in use: those cost a look, not a lock.
        if !class.is_small() || !is_idle(span.touched_at.get(), pages.clock.load(), ticks) {
            return 0;
        }
        let lists = &self.class(class).spans;
        let mut held = lists.lock();
        if span.class() != class || span.heap.get() != 0 {
            return 0;
        }
        let Some(subreleasing) = held.begin_subrelease(pages, id, ticks) else { return 0 };
        drop(held);
        let gone = lists::release_pages(os, pages, id, subreleasing.idle);
        lists.lock().end_subrelease(pages, id, subreleasing, gone);
        gone.count_ones() as usize * PAGE_BYTES
    }

    /// Bytes of free blocks in spans, whether or not they hold memory.
    pub fn free_in_spans(&self) -> usize {
        SizeClass::all().map(|class| self.class(class).spans.lock().free_blocks * class.block_bytes()).sum()
    }

    pub fn stats(&self, class: SizeClass) -> ClassStats {
        let place = self.class(class);
        let transfer_blocks = self.arrays_of(class).map(|array| array.transfer.lock().len() as u64).sum();
        let spans = place.spans.lock();
        ClassStats { transfer_blocks, free_blocks: spans.free_blocks as u64, spans: spans.spans as u64 }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_lock(&self, take: &mut dyn FnMut(&dyn AnyLock)) {
        SizeClass::all().flat_map(|class| self.arrays_of(class)).for_each(|array| take(&array.transfer));
        self.classes.iter().for_each(|class| take(&class.spans));
    }

    /// Takes over the locks of transfer arrays from threads that are not in this process.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair_transfers(&self, outermost: bool) {
        for array in SizeClass::all().flat_map(|class| self.arrays_of(class)) {
            // SAFETY: by the caller's promise.
            unsafe { array.repair(outermost) };
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
                // The lock may be free while a thread that stayed behind has a span away.
                let is_left = || outermost && (*place.spans.as_ptr()).has_any_away();
                if place.spans.seize(outermost)
                    || is_left() && place.spans.try_lock().map(core::mem::forget).is_some()
                {
                    any_span_lock = true;
                    if class.is_small() {
                        place.spans.seized().rebuild(pages, class, outermost);
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

/// The places of its numbers, for readers outside the process (docs/design/window.md).
impl<O: Os> Central<O> {
    /// Adds the places of a middle that lies so far in the heap.
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let each = (size_of::<Class<O>>(), TABLE_LEN);
        let first = at + offset_of!(Self, classes);
        let (array, spans) = (first + offset_of!(Class<O>, array), first + offset_of!(Class<O>, spans));
        let (cached, transfer) = (offset_of!(Array<O>, cached), offset_of!(Array<O>, transfer));
        let rows = at + offset_of!(Self, domains) + offset_of!(Domains, rows);
        let of_spans = spans + Mutex::<SpanLists, O>::VALUE;
        let budget = at + offset_of!(Self, budget);
        list.many("class.transfer", 4, array + cached, each)
            .many("class.transfer_lock", 4, array + transfer + Mutex::<Transfer, O>::STATE, each)
            .many("class.free", 8, of_spans + offset_of!(SpanLists, free_blocks), each)
            .many("class.spans", 8, of_spans + offset_of!(SpanLists, spans), each)
            .many("class.spans_lock", 4, spans + Mutex::<SpanLists, O>::STATE, each)
            .one("transfer.arrays", 8, at + offset_of!(Self, arrays))
            .constant("transfer.arrays_bytes", places::ALL_BYTES)
            .many("transfer.rows", 8, rows, (size_of::<usize>(), MOST_DOMAINS))
            .constant("transfer.row_bytes", Domains::row_bytes::<O>())
            .constant("transfer.row_stride", size_of::<Array<O>>())
            .constant("transfer.row_cached", cached)
            .one("budget.limit", 8, budget + offset_of!(Budget, limit))
            .one("budget.taken", 8, budget + offset_of!(Budget, taken))
            .one("budget.most_taken", 8, budget + offset_of!(Budget, most_taken))
    }
}

#[cfg(test)]
mod tests;
