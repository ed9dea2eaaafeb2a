//! Figures that a program may ask for every second: sums of counters, with no look at each page.
//!
//! Where `Stats` asks the system which pages are in memory, `Committed` counts what the heap has taken and
//! not given back. The two differ by pages of blocks that nobody has touched yet.

use crate::class::{SizeClass, UNIT_BYTES};
use crate::heap::Heap;
use crate::os::Os;
use crate::pages::{Mapping, bits};
use crate::upkeep::Done;

/// The heap's memory as its back counts it, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Committed {
    /// Mapped, whether or not there is memory behind it.
    pub mapped: u64,
    /// Of that, in spans: blocks in use, cached or free.
    pub in_spans: u64,
    /// Of that, free and holding memory.
    pub free: u64,
    /// Pages inside spans that were given back.
    pub given_back_in_spans: u64,
}

impl Committed {
    /// What can be in memory.
    pub fn bytes(&self) -> u64 {
        (self.in_spans + self.free).saturating_sub(self.given_back_in_spans)
    }

    /// What is mapped and has no memory: never touched, or given back.
    pub fn uncommitted(&self) -> u64 {
        self.mapped.saturating_sub(self.bytes())
    }
}

/// Where the blocks are, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tiers {
    pub live: u64,
    pub vcpu_caches: u64,
    pub transfer: u64,
    /// Free blocks in spans and the spans' tails, with or without memory.
    pub free_in_spans: u64,
}

/// A part of the heap's range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    pub address: usize,
    pub bytes: usize,
    pub state: RangeState,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RangeState {
    /// A span, with the bytes of it that blocks outside their span have.
    InUse {
        bytes: usize,
    },
    Free,
    GivenBack,
}

// What takes a lock is noted as inside the heap: a signal handler that comes meanwhile and allocates must not wait for
// it. In a handler that interrupted the heap itself these figures are zeros.
impl<O: Os> Heap<O> {
    pub fn committed(&self) -> Committed {
        let pages = self.inside(|| self.pages.stats()).unwrap_or_default();
        Committed {
            mapped: pages.mapped,
            in_spans: pages.used,
            free: pages.dirty_free,
            given_back_in_spans: pages.released,
        }
    }

    /// What upkeep did since the start.
    pub fn maintenance(&self) -> Done {
        self.upkeep.done()
    }

    /// How many caches there are: one for each virtual CPU that was used.
    pub fn cache_count(&self) -> u64 {
        self.cache.stats().slabs
    }

    /// The hard limit in effect, in bytes.
    pub fn hard_limit(&self) -> Option<u64> {
        self.pages.limits.hard().map(|bytes| bytes as u64)
    }

    pub fn tiers(&self) -> Tiers {
        self.inside(|| self.tiers_inside()).unwrap_or_default()
    }

    #[inline(never)]
    fn tiers_inside(&self) -> Tiers {
        let pages = self.pages.stats();
        let large = pages.large.bytes;
        let mut tiers = Tiers { live: large, ..Tiers::default() };
        let mut span_bytes = large;
        for class in SizeClass::all() {
            let (of, bytes) = (self.class_stats_inside(class), class.block_bytes() as u64);
            tiers.live += of.live_blocks * bytes;
            tiers.vcpu_caches += of.cached_blocks * bytes;
            tiers.transfer += of.transfer_blocks * bytes;
            tiers.free_in_spans += of.free_blocks * bytes;
            let tail = class.shape().span_bytes() as u64 - class.shape().blocks as u64 * bytes;
            tiers.free_in_spans += of.spans * tail;
            span_bytes += of.spans * class.shape().span_bytes() as u64;
        }
        // What large spans hold beyond their blocks' pages.
        tiers.live += pages.used.saturating_sub(span_bytes);
        tiers
    }

    /// Bytes of the heap's own tables and slabs that are in memory.
    pub fn metadata_bytes(&self) -> u64 {
        let mut bytes = size_of::<Self>() as u64;
        self.pages.each_mapping(|mapping, start, length| {
            if mapping == Mapping::Metadata {
                bytes += self.resident(start, length);
            }
        });
        self.cache.each_mapping(|start, length| bytes += self.resident(start, length));
        let (start, length) = self.central.arrays();
        if start != 0 {
            bytes += self.resident(start, length);
        }
        bytes
    }

    /// Whether the address lies in a block of this heap.
    pub fn owns(&self, address: usize) -> bool {
        self.pages.class_of(address) != SizeClass::NONE
            || self.is_guarded(address)
            || self.emergency.bytes_of(address).is_some()
    }

    /// Calls `take` for every span and every free part, with no lock held: `take` may use the heap.
    pub fn each_range(&self, mut take: impl FnMut(Range)) {
        let spans = self.inside(|| self.pages.span_count()).unwrap_or(0);
        for (_, span) in self.pages.open_spans(spans) {
            let bytes = span.units.get() as usize * UNIT_BYTES;
            let in_use = match span.class().is_small() {
                true => span.blocks().saturating_sub(span.free.get()) as usize * span.class().block_bytes(),
                false => bytes,
            };
            let state = RangeState::InUse { bytes: in_use };
            take(Range { address: self.pages.address_of(span.start.get()), bytes, state });
        }
        let mut number = 0;
        while let Some(Some((free, dirty))) = self.inside(|| self.pages.free_units_of(number)) {
            for (units, state) in [(free & dirty, RangeState::Free), (free & !dirty, RangeState::GivenBack)] {
                bits::each_run(units, |start, length| {
                    let address = self.pages.address_of(number * bits::BLOCK_UNITS + start);
                    take(Range { address, bytes: length as usize * UNIT_BYTES, state });
                });
            }
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::Fake;

    #[test]
    fn tiers_and_committed_bytes_are_two_ways_to_the_same_sum() {
        let heap = Box::new(Heap::new(Fake::default()));
        let blocks: Vec<usize> =
            (0..3000).map(|index| heap.allocate([24, 100, 5000, 300 << 10][index % 4])).collect();
        blocks.iter().step_by(3).for_each(|block| heap.free(*block));
        heap.release(0);
        let (tiers, committed) = (heap.tiers(), heap.committed());
        let in_tiers = tiers.live + tiers.vcpu_caches + tiers.transfer + tiers.free_in_spans;
        assert_eq!(in_tiers, committed.in_spans);
        assert!(committed.given_back_in_spans > 0 && committed.bytes() < committed.in_spans);
        assert_eq!(committed.bytes() + committed.uncommitted(), committed.mapped);
        blocks.iter().skip(1).step_by(3).for_each(|block| heap.free(*block));
    }

    #[test]
    fn ranges_cover_the_heap_without_overlap() {
        let heap = Box::new(Heap::new(Fake::default()));
        let blocks: Vec<usize> = (0..200).map(|index| heap.allocate(1 << (index % 20))).collect();
        blocks.iter().step_by(2).for_each(|block| heap.free(*block));
        heap.release_free(1 << 20);
        let mut ranges = Vec::new();
        heap.each_range(|range| ranges.push(range));
        ranges.sort_by_key(|range| range.address);
        for pair in ranges.windows(2) {
            assert_eq!(pair[0].address + pair[0].bytes, pair[1].address);
        }
        assert_eq!(ranges.iter().map(|range| range.bytes as u64).sum::<u64>(), heap.committed().mapped);
        assert!(heap.owns(blocks[1]) && !heap.owns(&raw const ranges as usize));
    }

    #[test]
    fn a_bounded_release_gives_what_was_asked_for_and_whole_blocks_first() {
        let heap = Box::new(Heap::new(Fake::default()));
        let blocks: Vec<usize> = (0..8).map(|_| heap.allocate(2 << 20)).collect();
        blocks.iter().for_each(|block| heap.free(*block));
        assert_eq!(heap.committed().free, 16 << 20);
        assert_eq!(heap.release_free(3 << 20), 4 << 20);
        assert_eq!(heap.release_free(usize::MAX), 12 << 20);
        assert_eq!(heap.release_free(usize::MAX), 0);
        assert_eq!(heap.committed().bytes(), heap.committed().in_spans);
    }
}
