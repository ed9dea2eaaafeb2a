//! The spans of one class that have free blocks, listed by how many: the fullest is used first, so that
//! emptier ones drain.
//!
//! The system is never asked with the lock of a class in hand. A span that a thread opens, or whose pages it gives back,
//! is *away* meanwhile: in no list, so that nobody takes its blocks; blocks freed there come to it as ever.

use crate::base::Fresh;
use crate::base::fault::{Fault, Misuse};
use crate::base::locks::{Rank, Ranked};
use crate::base::ticks::{Tick, Ticks};
use crate::base::{PAGE_BYTES, round_up};
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::Os;
use crate::pages::{CLOSED, OPENED, Pages, SUBRELEASING, Span, SpanId, bits, is_idle};

pub const LISTS: usize = 9;

/// A class that has so many spans grows, and its next blocks will be used.
const GROWN_SPANS: usize = 16;

/// The findings of `take`.
#[derive(Default)]
pub struct Taken {
    pub blocks: usize,
    /// Address and bytes of new memory that some of the blocks are the first to reach: worth bringing in at
    /// once, without the lock of the class.
    pub reached: Option<(usize, usize)>,
}

/// Lists of one class. Belongs to the lock of the class; the page heap's lock may be tried inside.
pub struct SpanLists {
    /// Spans by eighths of free blocks. The process's own heap leaves list 0 empty: its full spans are in no list.
    heads: [SpanId; LISTS],
    /// The tenant's heap whose spans these are; 0: the process's own.
    heap: u32,
    pub free_blocks: usize,
    pub spans: usize,
    /// Threads that have a span away, or are about to.
    away: u32,
    /// Those of the free blocks that nobody can have, because their spans are away.
    free_away: usize,
}

impl Ranked for SpanLists {
    const RANK: Rank = Rank::Spans;
}

impl SpanLists {
    pub const fn new() -> Self {
        SpanLists::of(0)
    }

    /// Those of a tenant's heap.
    pub const fn of(heap: u32) -> Self {
        SpanLists { heads: [SpanId::NONE; LISTS], heap, free_blocks: 0, spans: 0, away: 0, free_away: 0 }
    }

    /// Fills `out` with free blocks, fullest span first, in address order within a span, as far as there are such.
    pub fn take<O: Os>(&mut self, pages: &Pages<O>, class: SizeClass, out: &mut [usize]) -> Taken {
        let (mut count, mut reached) = (0, None);
        while count < out.len() {
            let Some(id) = self.fullest() else { break };
            let span = pages.span(id);
            let (start, block_bytes) = (pages.address_of(span.start.get()), class.block_bytes());
            let mut places = out.iter_mut().skip(count);
            let wanted = places.len();
            let (released, fresh) = (span.released_bytes(), span.fresh());
            pages.touch(id, span, pages.clock.load());
            let taken = span.take(wanted, |index| {
                if let Some(place) = places.next() {
                    *place = start + index * block_bytes;
                    pages.note_allocated(*place, true);
                }
            });
            // At once: a child counts what the span says.
            let left = span.released_bytes();
            if left != released {
                pages.count_released(released, left);
                pages.count_returned(released - left, span.released_at.get());
            }
            if span.fresh() != fresh && self.spans >= GROWN_SPANS && block_bytes <= PAGE_BYTES {
                reached = reached_units(start, span, fresh).or(reached);
            }
            count += taken;
            self.free_blocks -= taken;
            self.relist(pages, id);
        }
        Taken { blocks: count, reached }
    }

    /// One free block.
    pub fn take_one<O: Os>(&mut self, pages: &Pages<O>, class: SizeClass) -> Fresh {
        let Some(id) = self.fullest() else { return Fresh::NONE };
        let zeroed = pages.span(id).next_reads_zero();
        let mut one = [0];
        // The fullest span serves, so this is the block that was looked at.
        self.take(pages, class, &mut one);
        let [address] = one;
        Fresh { address, zeroed }
    }

    fn fullest(&self) -> Option<SpanId> {
        self.heads.iter().skip(1).copied().find(|head| *head != SpanId::NONE)
    }

    /// A thread leaves the lock to open a span, and comes back by `arrive`.
    pub fn leave(&mut self) {
        self.away += 1;
    }

    /// Takes the span that a thread has opened; none where there is no memory.
    pub fn arrive<O: Os>(&mut self, pages: &Pages<O>, class: SizeClass, opened: Option<SpanId>) {
        // A child that a signal handler made meanwhile counts none.
        self.away = self.away.saturating_sub(1);
        let Some(id) = opened else { return };
        debug_assert!(pages.span(id).class() == class && pages.span(id).list.get() == OPENED);
        self.adopt(pages, id);
    }

    /// Takes a span that another heap had, with blocks in use or without.
    pub fn adopt<O: Os>(&mut self, pages: &Pages<O>, id: SpanId) {
        self.spans += 1;
        self.free_blocks += pages.span(id).free.get() as usize;
        self.relist(pages, id);
    }

    /// Takes any span out, for its heap to end or to hand it to another: the caller has it then. Full ones are in a list of a
    /// tenant's heap only.
    pub fn take_span<O: Os>(&mut self, pages: &Pages<O>) -> Option<SpanId> {
        let id = self.heads.iter().copied().find(|head| *head != SpanId::NONE)?;
        let span = pages.span(id);
        self.unlink(pages, id, span.list.get() as usize);
        span.list.set(OPENED);
        self.spans -= 1;
        self.free_blocks -= span.free.get() as usize;
        Some(id)
    }

    /// Closes the span that was kept although it is empty; false where there is none.
    pub fn close_empty<O: Os>(&mut self, pages: &Pages<O>) -> bool {
        let mut id = self.heads.last().copied().unwrap_or(SpanId::NONE);
        while id != SpanId::NONE && !pages.span(id).is_empty() {
            id = pages.span(id).next();
        }
        if id != SpanId::NONE {
            self.close(pages, id);
        }
        id != SpanId::NONE
    }

    /// Calls `take` with each span in a list.
    pub fn each<O: Os>(&self, pages: &Pages<O>, mut take: impl FnMut(&Span)) {
        for head in self.heads {
            let mut id = head;
            while id != SpanId::NONE {
                let span = pages.span(id);
                take(span);
                id = span.next();
            }
        }
    }

    /// Whether a thread has a span away, or had in the parent of this process.
    pub fn has_any_away(&self) -> bool {
        self.away > 0
    }

    /// Takes blocks back that are free since tick `at`; a block that cannot be free is reported and left
    /// alone.
    pub fn put<O: Os>(
        &mut self,
        pages: &Pages<O>,
        class: SizeClass,
        blocks: &[usize],
        at: Tick,
    ) -> Result<(), Misuse> {
        let (mut outcome, mut rest) = (Ok(()), blocks);
        while let [address, others @ ..] = rest {
            rest = match locate(pages, class, *address) {
                Ok((id, _)) if pages.span(id).heap.get() == self.heap => {
                    let (count, found) = self.put_into(pages, class, id, rest, at);
                    outcome = outcome.and(found);
                    rest.get(count..).unwrap_or(&[])
                }
                found => {
                    let of_another = Misuse::at(Fault::FreeMemory, *address);
                    outcome = outcome.and(Err(found.err().unwrap_or(of_another)));
                    others
                }
            };
        }
        outcome
    }

    /// Takes back the first blocks that lie in one span: blocks freed one after the other often lay there side by side.
    /// How many these were.
    fn put_into<O: Os>(
        &mut self,
        pages: &Pages<O>,
        class: SizeClass,
        id: SpanId,
        blocks: &[usize],
        at: Tick,
    ) -> (usize, Result<(), Misuse>) {
        let (span, shape) = (pages.span(id), class.shape());
        let (start, bytes) = (pages.address_of(span.start.get()), shape.span_bytes());
        let (mut outcome, mut count, mut freed) = (Ok(()), 0, 0);
        for &address in blocks.iter().take_while(|address| address.wrapping_sub(start) < bytes) {
            count += 1;
            match put_one(span, class, start, address) {
                Ok(()) => {
                    pages.note_allocated(address, false);
                    freed += 1;
                }
                Err(misuse) => outcome = outcome.and(Err(misuse)),
            }
        }
        if freed > 0 {
            pages.touch(id, span, at);
            self.free_blocks += freed;
            if span.list.get() == SUBRELEASING {
                self.free_away += freed;
            } else {
                self.relist(pages, id);
            }
        }
        (count, outcome)
    }

    /// Puts a span into the list of its number of free blocks, or closes it where it is empty and not the
    /// last.
    fn relist<O: Os>(&mut self, pages: &Pages<O>, id: SpanId) {
        let span = pages.span(id);
        let list = list_of(span);
        let from = span.list.get() as usize;
        if span.is_empty() && self.free_blocks - self.free_away > span.blocks() as usize {
            self.close(pages, id);
        } else if list != from {
            self.unlink(pages, id, from);
            self.link(pages, id, list);
        }
    }

    fn close<O: Os>(&mut self, pages: &Pages<O>, id: SpanId) {
        let (list, blocks, at) = {
            let span = pages.span(id);
            (span.list.get() as usize, span.blocks() as usize, span.touched_at.get())
        };
        self.unlink(pages, id, list);
        pages.span(id).list.set(CLOSED);
        self.free_blocks -= blocks;
        self.spans -= 1;
        pages.close_span(id, at);
    }

    /// Takes a span that was not touched for `ticks` out of its list and tells its idle pages, for these to be given back:
    /// `end_subrelease` brings it back. None where there are none. An empty span goes as a whole, at once.
    pub fn begin_subrelease<O: Os>(
        &mut self,
        pages: &Pages<O>,
        id: SpanId,
        ticks: Ticks,
    ) -> Option<Subreleasing> {
        let span = pages.span(id);
        let list = span.list.get();
        if list >= CLOSED || !is_idle(span.touched_at.get(), pages.clock.load(), ticks) {
            return None;
        }
        if span.is_empty() {
            self.close(pages, id);
            return None;
        }
        let idle = if span.may_have_idle_pages() { span.idle_pages() } else { 0 };
        if idle == 0 {
            pages.note_subreleased(id, span);
            return None;
        }
        self.unlink(pages, id, list as usize);
        span.list.set(SUBRELEASING);
        self.away += 1;
        self.free_away += span.free.get() as usize;
        Some(Subreleasing { idle, free: span.free.get() })
    }

    /// Puts a span back into its list, of whose idle pages these are `gone`.
    pub fn end_subrelease<O: Os>(
        &mut self,
        pages: &Pages<O>,
        id: SpanId,
        subreleasing: Subreleasing,
        gone: u128,
    ) {
        let span = pages.span(id);
        // As in `arrive`.
        self.away = self.away.saturating_sub(1);
        self.free_away -= span.free.get() as usize;
        // Both at once: a child counts what the span says.
        span.add_released(gone);
        pages.count_released(0, gone.count_ones() as usize * PAGE_BYTES);
        // Else blocks came back meanwhile, and may have left further pages idle.
        if span.free.get() == subreleasing.free {
            pages.note_subreleased(id, span);
        }
        if gone != 0 {
            span.released_at.set(pages.clock.load());
        }
        span.list.set(OPENED);
        self.relist(pages, id);
    }

    /// Makes the lists anew from the bitmaps of all open spans of the class, which tell the truth. Without `all` a span
    /// that is away stays so, because this thread may have it and come back.
    pub fn rebuild<O: Os>(&mut self, pages: &Pages<O>, class: SizeClass, all: bool) {
        *self = SpanLists::of(self.heap);
        for id in (0..pages.span_count_unlocked()).map(SpanId) {
            let span = pages.span(id);
            if span.class() != class
                || span.heap.get() != self.heap
                || pages.span_of(pages.address_of(span.start.get())) != Some(id)
            {
                continue;
            }
            let (list, stays) = (span.list.get(), !all);
            if stays && (list == OPENED || list == CLOSED) {
                continue;
            }
            span.recount();
            self.spans += 1;
            self.free_blocks += span.free.get() as usize;
            if stays && list == SUBRELEASING {
                self.free_away += span.free.get() as usize;
                continue;
            }
            span.list.set(OPENED);
            pages.touch(id, span, pages.clock.load());
            let list = list_of(span);
            self.link(pages, id, list);
        }
    }

    fn link<O: Os>(&mut self, pages: &Pages<O>, id: SpanId, list: usize) {
        let span = pages.span(id);
        span.list.set(list as u8);
        span.set_previous(SpanId::NONE);
        span.set_next(SpanId::NONE);
        let lists_full = self.heap != 0;
        let Some(head) = self.heads.get_mut(list).filter(|_| list != 0 || lists_full) else { return };
        span.set_next(*head);
        if *head != SpanId::NONE {
            pages.span(*head).set_previous(id);
        }
        *head = id;
    }

    fn unlink<O: Os>(&mut self, pages: &Pages<O>, id: SpanId, list: usize) {
        // In no list: its links are those of before.
        if list >= LISTS || list == 0 && self.heap == 0 {
            return;
        }
        let (next, previous) = (pages.span(id).next(), pages.span(id).previous());
        if next != SpanId::NONE {
            pages.span(next).set_previous(previous);
        }
        if previous != SpanId::NONE {
            pages.span(previous).set_next(next);
        } else if let Some(head) = self.heads.get_mut(list) {
            *head = next;
        }
    }
}

#[cfg(any(test, feature = "fake-os"))]
impl SpanLists {
    /// Panics where lists, counters and bitmaps contradict each other.
    pub fn verify<O: Os>(&self, pages: &Pages<O>, class: SizeClass) {
        let (mut listed, mut listed_free) = (0, 0);
        for (list, head) in self.heads.iter().enumerate() {
            let (mut id, mut previous) = (*head, SpanId::NONE);
            while id != SpanId::NONE {
                let span = pages.span(id);
                assert_eq!(
                    (span.class(), span.list.get() as usize, span.previous()),
                    (class, list, previous)
                );
                assert_eq!(list, list_of(span), "a span is listed by how much of it is free");
                let free = (0..span.blocks() as usize).filter(|index| span.is_free(*index)).count();
                assert_eq!(free, span.free.get() as usize, "free blocks are counted");
                listed += 1;
                listed_free += free;
                assert!(listed <= self.spans, "a list bites its tail");
                (previous, id) = (id, span.next());
            }
        }
        assert_eq!(listed_free, self.free_blocks, "all free blocks are in listed spans");
        let mut full = 0;
        let is_unlisted = |span: &Span| self.heap == 0 && span.heap.get() == 0 && span.free.get() == 0;
        pages.each_span(|_, span| full += usize::from(span.class() == class && is_unlisted(span)));
        assert_eq!(listed + full, self.spans, "a span is listed unless it is full");
    }
}

/// A span whose idle pages are being given back.
pub struct Subreleasing {
    /// 4 KiB each, from the start of the span.
    pub idle: u128,
    /// Its free blocks when that began.
    free: u32,
}

/// Gives the idle pages of a span back, with no lock in hand; returns the pages that went.
pub fn release_pages<O: Os>(os: &O, pages: &Pages<O>, id: SpanId, idle: u128) -> u128 {
    let start = pages.address_of(pages.span(id).start.get());
    let (mut gone, page) = (0, os.page_bytes().max(PAGE_BYTES));
    if pages.is_huge(start) {
        os.split_huge(start);
    }
    bits::each_run(idle, |first, count| {
        // A system's page may be several of ours: only those that are idle as a whole can go.
        let from = round_up(start + first as usize * PAGE_BYTES, page);
        let to = (start + (first + count) as usize * PAGE_BYTES) & !(page - 1);
        if from < to && os.release(from, to - from) {
            gone |= bits::mask(((from - start) / PAGE_BYTES) as u32, ((to - from) / PAGE_BYTES) as u32);
        }
    });
    if gone != 0 {
        pages.note_broken(pages.span(id).start.get());
    }
    gone
}

/// The units of a span that blocks reach for the first time, where `fresh` blocks were new before.
fn reached_units(start: usize, span: &Span, fresh: u32) -> Option<(usize, usize)> {
    let reach =
        |fresh: u32| round_up((span.blocks() - fresh) as usize * span.class().block_bytes(), UNIT_BYTES);
    let (from, to) = (reach(fresh), reach(span.fresh()).min(span.bytes()));
    (from < to).then_some((start + from, to - from))
}

/// The list in which a span belongs, by how much of it is free.
fn list_of(span: &Span) -> usize {
    (span.free.get() * 8).div_ceil(span.blocks().max(1)) as usize
}

/// The span and index of the block that starts at `address`.
pub fn locate<O: Os>(pages: &Pages<O>, class: SizeClass, address: usize) -> Result<(SpanId, usize), Misuse> {
    let fault = |fault, block| Misuse { block, ..Misuse::at(fault, address) };
    let id = pages.span_of(address).ok_or(fault(Fault::FreeMemory, None))?;
    // The class's lock keeps an open span as it is.
    let (found, first) = (pages.span(id).class(), pages.span(id).start.get());
    let start = pages.address_of(first);
    let offset = address.wrapping_sub(start);
    if found != class || offset >= class.shape().span_units as usize * UNIT_BYTES {
        return Err(fault(Fault::FreeMemory, None));
    }
    block_at(class, start, address).map(|index| (id, index))
}

/// The index of the block that starts at `address` in the span of its class that begins at `start`.
fn block_at(class: SizeClass, start: usize, address: usize) -> Result<usize, Misuse> {
    let fault = |fault, block| Misuse { block, ..Misuse::at(fault, address) };
    let index = class.shape().block_at(address - start);
    let block = start + index * class.block_bytes();
    if index >= class.shape().blocks as usize {
        return Err(fault(Fault::FreeMemory, None));
    }
    if block != address {
        return Err(fault(Fault::InteriorPointer, Some((block, class.block_bytes()))));
    }
    Ok(index)
}

/// Makes the block at `address` free in its span, which begins at `start`.
fn put_one(span: &Span, class: SizeClass, start: usize, address: usize) -> Result<(), Misuse> {
    let index = block_at(class, start, address)?;
    let block = Some((address, class.block_bytes()));
    span.put(index).map_err(|fault| Misuse { block, ..Misuse::at(fault, address) })
}
