//! Allocations above the largest class: runs of whole units.
//!
//! Owns no memory; promises that a large block starts at a unit and keeps its contents when resized. `engine`
//! and `heap` call it; sits on `pages`.

mod zeros;

use crate::base::Fresh;
use crate::base::fault::{Fault, Misuse};
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::class::{SizeClass, UNIT_BYTES, UNIT_SHIFT};
use crate::os::{Moved, Os};
use crate::pages::{Pages, Place, SpanId};

/// From here on page tables are moved instead of bytes.
const MOVE_PAGES_FROM: usize = 16 << 20;
/// Moved pages stay a mapping of their own for good, and a process may have 65,530: so many moves, then bytes
/// are copied.
const MOST_MOVES: u64 = 512;
/// Of a block in several mappings, parts of at least this are moved.
const MOVED_PART: usize = 2 << 20;
/// Freed blocks that are remembered.
const REMEMBERED: usize = 64;
/// From here on a freed block may be found sparse, in one free of so many, and is where less than this part of it is in memory.
const LOOKED_AT_FROM: usize = 1 << 20;
const FREES_PER_LOOK: usize = 8;
const SPARSE_PART: usize = 4;
/// A block that grew once is put where it can grow to so many times its size.
const ROOM_TO_GROW: u32 = 16;

/// Notes about large blocks; `pages` counts the memory that they hold.
pub struct Large {
    moves: AtomicU64,
    /// Addresses that were freed last: a second free of one of them is told from one of any address.
    freed: [AtomicUsize; REMEMBERED],
    frees: AtomicUsize,
}

/// Units for a request; none where the count does not fit.
fn units_for(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.checked_add(UNIT_BYTES - 1)? >> UNIT_SHIFT).ok()
}

impl Large {
    pub const fn new() -> Self {
        Large {
            moves: AtomicU64::new(0),
            freed: [const { AtomicUsize::new(0) }; REMEMBERED],
            frees: AtomicUsize::new(0),
        }
    }

    /// A block of at least `bytes` at a multiple of `align`, a power of two. None where there is no memory.
    pub fn allocate<O: Os>(&self, os: &O, pages: &Pages<O>, bytes: usize, align: usize) -> Option<Fresh> {
        let units = units_for(bytes.max(1))?;
        let align = u32::try_from((align >> UNIT_SHIFT).max(1)).ok()?;
        Some(self.begin(pages, pages.open_large(os, Place { align, ..Place::of(units) }, bytes)?))
    }

    /// A block that is likely to be resized again: it lies where it can grow without moving, if there is such
    /// a place.
    pub fn allocate_growing<O: Os>(&self, os: &O, pages: &Pages<O>, bytes: usize) -> Option<Fresh> {
        let units = units_for(bytes)?;
        let room = units.saturating_mul(ROOM_TO_GROW);
        Some(self.begin(pages, pages.open_large(os, Place { room, ..Place::of(units) }, bytes)?))
    }

    fn begin<O: Os>(&self, pages: &Pages<O>, (id, zeroed): (SpanId, bool)) -> Fresh {
        Fresh { address: pages.address_of(pages.span(id).start.get()), zeroed }
    }

    /// The span of the large block that starts at `address`.
    fn find<O: Os>(&self, pages: &Pages<O>, address: usize) -> Result<SpanId, Misuse> {
        let fault = |fault| Misuse::at(fault, address);
        let id = pages.span_of(address).ok_or(fault(Fault::FreeMemory))?;
        let (class, start) = (pages.span(id).class(), pages.span(id).start.get());
        if class != SizeClass::LARGE || pages.address_of(start) != address {
            return Err(fault(Fault::InteriorPointer));
        }
        if pages.is_delayed(id, address) {
            return Err(fault(Fault::DoubleFree));
        }
        Ok(id)
    }

    pub fn free<O: Os>(&self, pages: &Pages<O>, address: usize) -> Result<(), Misuse> {
        self.end(pages, address, true)
    }

    fn end<O: Os>(&self, pages: &Pages<O>, address: usize, may_be_kept: bool) -> Result<(), Misuse> {
        let id = self.find(pages, address)?;
        if !pages.close_large(id, address, pages.clock.load(), may_be_kept) {
            return Err(Misuse::at(Fault::DoubleFree, address));
        }
        // Not one step: if two threads take the same turn one address is forgotten, and a locked
        // instruction costs every free.
        let turn = self.frees.load(Ordering::Relaxed);
        self.frees.store((turn + 1) % REMEMBERED, Ordering::Relaxed);
        self.freed.iter().skip(turn).take(1).for_each(|place| place.store(address, Ordering::Relaxed));
        Ok(())
    }

    /// Frees a block. Of a long one that its owner hardly wrote the memory goes at once: that is cheap, and under a later block
    /// which is hardly written either it would stay for good, so such buffers would come to be in memory as a whole.
    pub fn free_looking<O: Os>(&self, os: &O, pages: &Pages<O>, address: usize) -> Result<(), Misuse> {
        let is_due = self.frees.load(Ordering::Relaxed).is_multiple_of(FREES_PER_LOOK);
        let is_watching = pages.is_watching_large();
        let run = match self.find(pages, address) {
            Ok(id) if is_due || is_watching => Some((pages.span(id).start.get(), pages.span(id).units.get())),
            _ => None,
        };
        if is_watching && let Some((start, units)) = run {
            pages.learn_filled(os, start, units);
        }
        let is_sparse = |(_, units): &(u32, u32)| {
            let bytes = *units as usize * UNIT_BYTES;
            bytes >= LOOKED_AT_FROM
                && os.resident_bytes(address, bytes).is_some_and(|there| there < bytes / SPARSE_PART)
        };
        let sparse = run.filter(|run| is_due && is_sparse(run));
        self.end(pages, address, sparse.is_none())?;
        if let Some((start, units)) = sparse {
            pages.release_run(os, start, units);
        }
        Ok(())
    }

    /// An error where a large block was freed twice by threads of which none was told. Once.
    pub fn audit<O: Os>(&self, pages: &Pages<O>) -> Result<(), Misuse> {
        pages.take_freed_twice().map_or(Ok(()), |address| Err(Misuse::at(Fault::DoubleFree, address)))
    }

    /// True for the start of a large block that was one of the last to be freed.
    pub fn was_freed(&self, address: usize) -> bool {
        self.freed.iter().any(|freed| freed.load(Ordering::Relaxed) == address)
    }

    /// Bytes that may be used at `address`.
    pub fn usable<O: Os>(&self, pages: &Pages<O>, address: usize) -> Result<usize, Misuse> {
        let id = self.find(pages, address)?;
        Ok(pages.span(id).usable())
    }

    /// Whether the block at `address` can have been asked for with so many bytes.
    pub fn fits<O: Os>(&self, pages: &Pages<O>, address: usize, bytes: usize) -> bool {
        self.find(pages, address).is_ok_and(|id| bytes <= pages.span(id).bytes())
    }

    /// Whether the block at `address` has as many units as one of so many bytes, and has them as a whole. False where none starts
    /// there.
    pub fn has_units_for<O: Os>(&self, pages: &Pages<O>, address: usize, bytes: usize) -> bool {
        self.find(pages, address).is_ok_and(|id| {
            let span = pages.span(id);
            units_for(bytes) == Some(span.units.get()) && span.tells_whole_run()
        })
    }

    /// Resizes without moving where the units behind are free, or gives units back. False where that cannot
    /// be.
    pub fn resize_in_place<O: Os>(
        &self,
        os: &O,
        pages: &Pages<O>,
        address: usize,
        bytes: usize,
    ) -> Result<bool, Misuse> {
        let id = self.find(pages, address)?;
        let units = units_for(pages.span(id).bytes_for(bytes));
        Ok(units.is_some_and(|units| pages.resize_large(os, id, address, units, bytes)))
    }

    /// Brings the first `bytes` of one large block to another that nobody has seen yet. False where that cannot be: then
    /// the old block is as it was, and the new one, part of which is not mapped any more, must stay nobody's for good.
    pub fn carry<O: Os>(&self, os: &O, from: usize, to: usize, bytes: usize) -> bool {
        let page = os.page_bytes();
        let whole = if bytes >= MOVE_PAGES_FROM { bytes & !(page - 1) } else { 0 };
        let (mut done, mut part) = (0, whole);
        while done < whole {
            let may_move = part >= MOVED_PART && self.moves.load(Ordering::Relaxed) < MOST_MOVES;
            let outcome = if may_move { os.move_pages(from + done, to + done, part) } else { Moved::Nothing };
            match outcome {
                Moved::All => _ = self.moves.fetch_add(1, Ordering::Relaxed),
                // The first half may be one mapping. The rest is asked for as a whole again.
                Moved::Several => {
                    part = (part / 2) & !(page - 1);
                    continue;
                }
                Moved::Nothing => copy(from + done, to + done, part),
                Moved::Hole => {
                    copy(to, from, done);
                    return false;
                }
            }
            (done, part) = (done + part, whole - done - part);
        }
        copy(from + whole, to + whole, bytes - whole);
        true
    }
}

/// Copies from one block to another.
fn copy(from: usize, to: usize, bytes: usize) {
    // SAFETY: both blocks are the caller's and so long, and do not overlap.
    unsafe {
        core::ptr::copy_nonoverlapping(
            core::ptr::with_exposed_provenance::<u8>(from),
            core::ptr::with_exposed_provenance_mut::<u8>(to),
            bytes,
        );
    }
}

#[cfg(test)]
mod tests;
