//! Spans of blocks of one size, each pool with spans of its own. A block goes to the lowest free place of the lowest span
//! with room: an allocator that packs by classes and knows nothing of the future can hardly do better.

use crate::PAGE;
use crate::pages::Pages;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use vcmalloc_core::class::SizeClass;

/// The key of the blocks that share spans: the class, and whatever else a rule tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolId {
    pub class: u8,
    pub kind: u64,
}

/// The place of a block.
#[derive(Clone, Copy)]
pub enum Place {
    /// A block of a pool, at an address.
    Pooled { pool: u32, at: u64 },
    /// Pages of its own.
    Alone { pages: u64 },
}

/// Pools of one rule, in one range of addresses.
#[derive(Default)]
pub struct Pools {
    of_id: FxHashMap<PoolId, u32>,
    pools: Vec<Pool>,
    pages: Pages,
    alone: u64,
    grown: u64,
    /// Spans with no block in them, by their bytes: any pool may take them.
    empty: FxHashMap<u64, BTreeSet<u64>>,
}

struct Pool {
    class: SizeClass,
    spans: FxHashMap<u64, Span>,
    with_room: BTreeSet<u64>,
}

struct Span {
    taken: Vec<u64>,
    blocks: u32,
    used: u32,
}

impl Pools {
    /// Pages with a live block.
    pub fn live_pages(&self) -> u64 {
        self.pages.live() + self.alone
    }

    /// Puts a block of `bytes` into the pool that `kind` names, or on pages of its own where no class is so large.
    pub fn put(&mut self, bytes: u64, alignment: u64, kind: u64) -> Place {
        let Some(class) = SizeClass::for_aligned(bytes as usize, alignment as usize) else {
            let pages = bytes.div_ceil(PAGE).max(1);
            self.alone += pages;
            return Place::Alone { pages };
        };
        let pool = self.pool(PoolId { class: class.byte(), kind });
        let at = match self.pools[pool as usize].with_room.first() {
            Some(span) => *span,
            None => self.add_span(pool),
        };
        let owner = &mut self.pools[pool as usize];
        let span = owner.spans.get_mut(&at).expect("spans with room are spans");
        let block = span.take();
        if span.used == span.blocks {
            owner.with_room.remove(&at);
        }
        let at = at + u64::from(block) * class.block_bytes() as u64;
        self.pages.add(at, bytes);
        Place::Pooled { pool, at }
    }

    /// Takes a block out that was put with so many bytes.
    pub fn take_out(&mut self, place: Place, bytes: u64) {
        let (pool, at) = match place {
            Place::Pooled { pool, at } => (pool, at),
            Place::Alone { pages } => return self.alone -= pages,
        };
        self.pages.remove(at, bytes);
        let owner = &mut self.pools[pool as usize];
        let (span_bytes, block_bytes) =
            (owner.class.shape().span_bytes() as u64, owner.class.block_bytes() as u64);
        // Spans of a length lie at multiples of that length from each other, each length in its own stripe.
        let start = start_of(at, span_bytes);
        let span = owner.spans.get_mut(&start).expect("a block lies in a span");
        span.give(((at - start) / block_bytes) as u32);
        if span.used == 0 {
            owner.spans.remove(&start);
            owner.with_room.remove(&start);
            self.empty.entry(span_bytes).or_default().insert(start);
        } else {
            owner.with_room.insert(start);
        }
    }

    fn pool(&mut self, id: PoolId) -> u32 {
        *self.of_id.entry(id).or_insert_with(|| {
            let class = SizeClass::from_byte(id.class);
            self.pools.push(Pool { class, spans: FxHashMap::default(), with_room: BTreeSet::new() });
            self.pools.len() as u32 - 1
        })
    }

    fn add_span(&mut self, pool: u32) -> u64 {
        let owner = &mut self.pools[pool as usize];
        let bytes = owner.class.shape().span_bytes() as u64;
        let at = self.empty.get_mut(&bytes).and_then(BTreeSet::pop_first).unwrap_or_else(|| {
            let at = self.grown.next_multiple_of(bytes);
            self.grown = at + bytes;
            at
        });
        let blocks = (bytes / owner.class.block_bytes() as u64) as u32;
        owner.spans.insert(at, Span { taken: vec![0; blocks.div_ceil(64) as usize], blocks, used: 0 });
        owner.with_room.insert(at);
        at
    }
}

fn start_of(at: u64, span_bytes: u64) -> u64 {
    at - at % span_bytes
}

impl Span {
    /// The lowest free block.
    fn take(&mut self) -> u32 {
        let (word, bits) = self
            .taken
            .iter_mut()
            .enumerate()
            .find(|(_, bits)| **bits != u64::MAX)
            .expect("the span has room");
        let bit = bits.trailing_ones();
        *bits |= 1 << bit;
        self.used += 1;
        word as u32 * 64 + bit
    }

    fn give(&mut self, block: u32) {
        self.taken[(block / 64) as usize] &= !(1 << (block % 64));
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_place_is_taken_first_and_empty_spans_serve_any_pool() {
        let mut pools = Pools::default();
        let places: Vec<Place> = (0..5000).map(|_| pools.put(64, 1, 0)).collect();
        assert_eq!(pools.live_pages(), 5000u64.div_ceil(64));
        for place in &places[1..] {
            pools.take_out(*place, 64);
        }
        assert_eq!(pools.live_pages(), 1, "one block holds its page");
        let Place::Pooled { at, .. } = pools.put(64, 1, 0) else { panic!("small") };
        assert_eq!(at, 64);
        let grown = pools.grown;
        (0..200).for_each(|_| _ = pools.put(64, 1, 7));
        assert_eq!(pools.grown, grown, "the spans that became empty are used again");
    }

    #[test]
    fn what_no_class_holds_has_pages_of_its_own() {
        let mut pools = Pools::default();
        let place = pools.put(10 << 20, 1, 0);
        assert_eq!(pools.live_pages(), (10 << 20) / PAGE);
        pools.take_out(place, 10 << 20);
        assert_eq!(pools.live_pages(), 0);
    }
}
