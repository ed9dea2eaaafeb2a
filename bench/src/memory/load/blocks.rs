//! Tables of blocks. A block says its requested size in its first 8 bytes, so whoever frees it can count it.

use crate::load::c_heap::{self, Block};
use crate::memory::pages::PAGE_BYTES;
use crate::memory::shared;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

/// The size that fits the note at the start of a block.
pub const LEAST_BYTES: usize = 16;

/// Allocates a block, notes its size, writes to each of its pages, and counts it.
pub(super) fn create(bytes: usize, live: &AtomicI64) -> Block {
    debug_assert!(bytes >= LEAST_BYTES);
    let block = c_heap::allocate(bytes);
    // SAFETY: live, at least 16 bytes, and malloc aligns to 16.
    unsafe { block.cast::<u64>().write(bytes as u64) };
    touch_from(block, bytes, size_of::<u64>());
    live.fetch_add(bytes as i64, Ordering::Relaxed);
    block
}

/// Frees a block of [`create`], or null, and uncounts it.
pub(super) fn destroy(block: Block, live: &AtomicI64) {
    if block.is_null() {
        return;
    }
    live.fetch_sub(noted_bytes(block) as i64, Ordering::Relaxed);
    // SAFETY: the caller took the block out of its table, so nobody else has it.
    unsafe { c_heap::release(block) };
}

pub(super) fn noted_bytes(block: Block) -> usize {
    // SAFETY: blocks in tables come from `create`, which wrote the note.
    unsafe { block.cast::<u64>().read() as usize }
}

/// Writes every page of a block from `start` on, also the last one, if it reaches into it by a byte only.
fn touch_from(block: Block, bytes: usize, start: usize) {
    let last = bytes.checked_sub(1).filter(|&last| last >= start);
    for offset in (start..bytes).step_by(PAGE_BYTES).chain(last) {
        // SAFETY: below `bytes`, and the block is live.
        unsafe { c_heap::touch(block, offset) };
    }
}

/// Slots that hold null or a block, shared by all threads. Slots that are not in use are null.
#[derive(Clone, Copy)]
pub struct Table(&'static [AtomicPtr<u8>]);

impl Table {
    pub fn new(slots: usize) -> Self {
        // SAFETY: null is a valid pointer, also an atomic one.
        Self(unsafe { shared::zeroed_array(slots) })
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The part of one of `parts` threads.
    pub fn part(&self, part: usize, parts: usize) -> Self {
        let length = self.len() / parts;
        Self(&self.0[part * length..][..length])
    }

    pub fn put(&self, slot: usize, block: Block) {
        self.0[slot].store(block, Ordering::Release);
    }

    /// Leaves null.
    pub fn take(&self, slot: usize) -> Block {
        // Most slots that are looked at in a sparse table are empty: a read is cheaper than an exchange.
        if self.0[slot].load(Ordering::Relaxed).is_null() {
            return std::ptr::null_mut();
        }
        self.0[slot].swap(std::ptr::null_mut(), Ordering::Acquire)
    }

    pub fn holds(&self, slot: usize) -> bool {
        !self.0[slot].load(Ordering::Relaxed).is_null()
    }

    /// True if the slot was empty and has the block now.
    pub fn offer(&self, slot: usize, block: Block) -> bool {
        let empty = std::ptr::null_mut();
        self.0[slot].compare_exchange(empty, block, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Address and requested size of all blocks, while no thread changes the table.
    pub fn live(self) -> impl Iterator<Item = (usize, usize)> + Clone {
        let blocks = self.0.iter().map(|slot| slot.load(Ordering::Acquire));
        blocks.filter(|block| !block.is_null()).map(|block| (block as usize, noted_bytes(block)))
    }
}

/// A part of a table that one thread at a time fills from its start, without gaps.
pub struct Bag<'a> {
    table: Table,
    count: usize,
    bytes: usize,
    live: &'a AtomicI64,
}

impl<'a> Bag<'a> {
    /// The slots of `table` are empty.
    pub fn new(table: Table, live: &'a AtomicI64) -> Self {
        Self { table, count: 0, bytes: 0, live }
    }

    pub fn capacity(&self) -> usize {
        self.table.len()
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// False, and no block is made, if the bag is full.
    pub fn add(&mut self, bytes: usize) -> bool {
        if self.count == self.table.len() {
            return false;
        }
        self.table.put(self.count, create(bytes, self.live));
        self.count += 1;
        self.bytes += bytes;
        true
    }

    /// Frees one block; the last one takes its place. `slot` is below `count`.
    pub fn remove(&mut self, slot: usize) {
        let block = self.table.take(slot);
        self.count -= 1;
        if slot < self.count {
            self.table.put(slot, self.table.take(self.count));
        }
        self.bytes -= noted_bytes(block);
        destroy(block, self.live);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bag_has_no_gaps_and_counts_its_bytes() {
        let (live, table) = (AtomicI64::new(0), Table::new(3));
        let mut bag = Bag::new(table, &live);
        assert!(bag.add(16) && bag.add(5000) && bag.add(70_000) && !bag.add(16));
        bag.remove(0);
        assert_eq!((bag.count(), bag.bytes(), live.load(Ordering::Relaxed)), (2, 75_000, 75_000));
        assert_eq!(table.live().map(|block| block.1).collect::<Vec<_>>(), [70_000, 5000]);
        bag.remove(1);
        bag.remove(0);
        assert_eq!((table.live().count(), live.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_slot_takes_one_offer() {
        let (live, table) = (AtomicI64::new(0), Table::new(1));
        let (one, other) = (create(16, &live), create(16, &live));
        assert!(table.offer(0, one) && !table.offer(0, other));
        assert_eq!((table.take(0), table.take(0)), (one, std::ptr::null_mut()));
        destroy(one, &live);
        destroy(other, &live);
    }

    #[test]
    fn parts_of_a_table_do_not_overlap() {
        let (live, table) = (AtomicI64::new(0), Table::new(10));
        table.part(1, 3).put(0, create(16, &live));
        assert!(table.take(2).is_null());
        destroy(table.take(3), &live);
    }
}
