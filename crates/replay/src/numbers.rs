//! The slot of an object. Found by stream and ordinal without hashing: tables of 64 ordinals, each gone when all its
//! objects are; so the memory is that of the blocks that live.

use std::collections::VecDeque;

const PAGE: u64 = 64;
/// A slot's number has 28 bits in a word.
pub const MOST_SLOTS: usize = 1 << 28;

#[derive(Default)]
struct Table {
    /// The page of the first entry; those before it are gone.
    first: u64,
    pages: VecDeque<Option<Box<Page>>>,
}

struct Page {
    /// A slot's number and 1; 0 for none.
    slots: [u32; PAGE as usize],
    used: u32,
}

#[derive(Default)]
pub struct Numbers {
    tables: Vec<Table>,
    free: Vec<u32>,
    /// Free from the next epoch on: within one a slot holds one object.
    freed: Vec<u32>,
    next: u32,
}

impl Numbers {
    /// A new epoch begins: slots that the last one freed can be used.
    pub fn begin(&mut self) {
        self.free.append(&mut self.freed);
    }

    /// The most slots that were used.
    pub fn most(&self) -> usize {
        self.next as usize
    }

    fn entry(&mut self, stream: usize, ordinal: u64) -> Option<&mut Page> {
        if stream >= self.tables.len() {
            self.tables.resize_with(stream + 1, Table::default);
        }
        let table = self.tables.get_mut(stream)?;
        let page = ordinal / PAGE;
        if table.pages.is_empty() {
            table.first = page;
        }
        // A stream's objects have numbers one behind the other: no trace leaps, and a leap would take our memory.
        let at = usize::try_from(page.checked_sub(table.first)?).ok()?;
        if at > table.pages.len() {
            return None;
        }
        if at == table.pages.len() {
            table.pages.push_back(None);
        }
        Some(
            table
                .pages
                .get_mut(at)?
                .get_or_insert_with(|| Box::new(Page { slots: [0; PAGE as usize], used: 0 })),
        )
    }

    /// The slot of an object that begins. None: too many live.
    #[inline]
    pub fn begins(&mut self, stream: usize, ordinal: u64) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if (self.next as usize) < MOST_SLOTS => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        let page = self.entry(stream, ordinal)?;
        let entry = &mut page.slots[(ordinal % PAGE) as usize];
        page.used += u32::from(*entry == 0);
        *entry = slot + 1;
        Some(slot)
    }

    /// The slot of an object that ends, if it has one.
    #[inline]
    pub fn ends(&mut self, stream: usize, ordinal: u64) -> Option<u32> {
        let table = self.tables.get_mut(stream)?;
        let at = (ordinal / PAGE).checked_sub(table.first)? as usize;
        let place = table.pages.get_mut(at)?;
        let page = place.as_mut()?;
        let entry = &mut page.slots[(ordinal % PAGE) as usize];
        let slot = entry.checked_sub(1)?;
        *entry = 0;
        page.used -= 1;
        if page.used == 0 {
            *place = None;
            while matches!(table.pages.front(), Some(None)) {
                table.pages.pop_front();
                table.first += 1;
            }
        }
        self.freed.push(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_in_the_next_epoch_and_not_before() {
        let mut numbers = Numbers::default();
        assert_eq!((numbers.begins(1, 0), numbers.begins(1, 1)), (Some(0), Some(1)));
        assert_eq!((numbers.ends(1, 0), numbers.ends(1, 0)), (Some(0), None));
        assert_eq!(numbers.begins(2, 7), Some(2));
        numbers.begin();
        assert_eq!((numbers.begins(1, 2), numbers.most()), (Some(0), 3));
    }

    #[test]
    fn an_ordinal_that_leaps_is_none_and_takes_no_memory() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.begins(1, 1 << 33), Some(0), "a trace may be cut out of a longer one");
        assert_eq!(numbers.begins(1, (1 << 33) + 1), Some(1));
        assert_eq!((numbers.begins(1, 1 << 40), numbers.begins(1, 0)), (None, None));
        assert_eq!(numbers.tables[1].pages.len(), 1);
    }

    #[test]
    fn tables_go_with_their_objects() {
        let mut numbers = Numbers::default();
        for ordinal in 0..100_000 {
            numbers.begins(1, ordinal);
            numbers.ends(1, ordinal);
            numbers.begin();
        }
        assert!(numbers.most() == 1 && numbers.tables[1].pages.len() <= 1);
    }
}
