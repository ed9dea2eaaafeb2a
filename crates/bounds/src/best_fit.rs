//! Chunks beside each other, as glibc cuts them: a word in front of each, sizes in steps of 16, best fit, neighbours that
//! are free become one, the rest from the top; large ones mapped alone, from a threshold that grows when one of them is
//! freed. One arena and no caches of freed blocks: glibc at its most frugal (malloc.c: chunk layout, `_int_malloc`,
//! `DEFAULT_MMAP_THRESHOLD`, `DEFAULT_MMAP_THRESHOLD_MAX`).

use crate::PAGE;
use crate::pages::Pages;
use std::collections::{BTreeMap, BTreeSet};

const HEAD: u64 = 8;
const STEP: u64 = 16;
const LEAST: u64 = 32;
const FIRST_THRESHOLD: u64 = 128 << 10;
const LAST_THRESHOLD: u64 = 32 << 20;

/// The place of a chunk.
#[derive(Clone, Copy)]
pub enum Chunk {
    InHeap { at: u64, bytes: u64 },
    Mapped { pages: u64 },
}

pub struct BestFit {
    free_at: BTreeMap<u64, u64>,
    free_by_bytes: BTreeSet<(u64, u64)>,
    top: u64,
    threshold: u64,
    mapped: u64,
    pages: Pages,
}

impl BestFit {
    pub fn new() -> Self {
        BestFit {
            free_at: BTreeMap::new(),
            free_by_bytes: BTreeSet::new(),
            // Behind a head, so that what is handed out lies at multiples of 16.
            top: HEAD,
            threshold: FIRST_THRESHOLD,
            mapped: 0,
            pages: Pages::default(),
        }
    }

    /// Pages with a live chunk.
    pub fn live_pages(&self) -> u64 {
        self.pages.live() + self.mapped
    }

    pub fn put(&mut self, bytes: u64, alignment: u64) -> Chunk {
        let needed = (bytes + HEAD).next_multiple_of(STEP).max(LEAST);
        // An aligned block takes room for its alignment, and gives the rest back at once.
        let room = if alignment > STEP { needed + alignment + LEAST } else { needed };
        if room >= self.threshold {
            let pages = (bytes + 2 * HEAD).div_ceil(PAGE);
            self.mapped += pages;
            return Chunk::Mapped { pages };
        }
        let found = self.free_by_bytes.range((room, 0)..).next().copied();
        let (length, start) = found.unwrap_or((room, self.top));
        match found {
            Some(_) => self.forget(start, length),
            None => self.top += room,
        }
        // The user's part begins behind the head.
        let mut at = start;
        if alignment > STEP && !(start + HEAD).is_multiple_of(alignment) {
            at = (start + LEAST + HEAD).next_multiple_of(alignment) - HEAD;
            self.free(start, at - start);
        }
        let rest = start + length - (at + needed);
        let bytes = if rest >= LEAST { needed } else { needed + rest };
        if rest >= LEAST {
            self.free(at + needed, rest);
        }
        self.pages.add(at, bytes);
        Chunk::InHeap { at, bytes }
    }

    pub fn take_out(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::InHeap { at, bytes } => {
                self.pages.remove(at, bytes);
                self.free(at, bytes);
            }
            Chunk::Mapped { pages } => {
                self.mapped -= pages;
                let bytes = pages * PAGE;
                if bytes > self.threshold && bytes <= LAST_THRESHOLD {
                    self.threshold = bytes;
                }
            }
        }
    }

    fn forget(&mut self, at: u64, bytes: u64) {
        self.free_at.remove(&at);
        self.free_by_bytes.remove(&(bytes, at));
    }

    fn free(&mut self, mut at: u64, mut bytes: u64) {
        if let Some((before, length)) = self.free_at.range(..at).next_back().map(|(at, bytes)| (*at, *bytes))
            && before + length == at
        {
            self.forget(before, length);
            (at, bytes) = (before, bytes + length);
        }
        if let Some(length) = self.free_at.get(&(at + bytes)).copied() {
            self.forget(at + bytes, length);
            bytes += length;
        }
        if at + bytes == self.top {
            self.top = at;
            return;
        }
        self.free_at.insert(at, bytes);
        self.free_by_bytes.insert((bytes, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_that_are_free_become_one_and_the_top_shrinks() {
        let mut heap = BestFit::new();
        let chunks: Vec<Chunk> = (0..10).map(|_| heap.put(100, 1)).collect();
        assert_eq!(heap.top, HEAD + 10 * 112);
        heap.take_out(chunks[2]);
        heap.take_out(chunks[4]);
        heap.take_out(chunks[3]);
        assert_eq!(heap.free_at.len(), 1);
        let Chunk::InHeap { at, .. } = heap.put(300, 1) else { panic!("below the threshold") };
        assert_eq!(at, HEAD + 2 * 112, "three became one that is large enough");
        for chunk in [9, 8, 7, 6, 5] {
            heap.take_out(chunks[chunk]);
        }
        assert_eq!(heap.top, HEAD + 5 * 112);
    }

    #[test]
    fn the_threshold_of_mapped_chunks_grows_when_one_is_freed() {
        let mut heap = BestFit::new();
        let chunk = heap.put(1 << 20, 1);
        assert!(matches!(chunk, Chunk::Mapped { pages: 257 }));
        heap.take_out(chunk);
        assert!(matches!(heap.put(1 << 20, 1), Chunk::InHeap { .. }));
    }

    proptest! {
        #[test]
        fn chunks_never_overlap_and_nothing_is_lost(
            acts in proptest::collection::vec((0u64..3000, 0u32..9, any::<proptest::sample::Index>(), any::<bool>()), 1..300)
        ) {
            let mut heap = BestFit::new();
            let mut live: Vec<(u64, u64, Chunk)> = Vec::new();
            for (bytes, log2, index, frees) in acts {
                if frees && !live.is_empty() {
                    let (.., chunk) = live.swap_remove(index.index(live.len()));
                    heap.take_out(chunk);
                    continue;
                }
                let alignment = 1u64 << log2;
                let chunk = heap.put(bytes, alignment);
                let Chunk::InHeap { at, bytes: length } = chunk else { panic!("below the threshold") };
                prop_assert!(length >= bytes + HEAD && at + length <= heap.top);
                prop_assert!(alignment <= STEP || (at + HEAD).is_multiple_of(alignment));
                prop_assert!(live.iter().all(|(start, end, _)| at + length <= *start || *end <= at));
                live.push((at, at + length, chunk));
            }
            let used: u64 = live.iter().map(|(start, end, _)| end - start).sum();
            prop_assert_eq!(used + heap.free_at.values().sum::<u64>() + HEAD, heap.top);
            for (.., chunk) in live {
                heap.take_out(chunk);
            }
            prop_assert_eq!((heap.top, heap.live_pages()), (HEAD, 0));
        }
    }
}
