//! Figures that a program may ask for every second: sums of counters, with no look at each page.
//!
//! `Stats` asks the system which pages are in memory; `Committed` counts what the heap has taken and not given back.
//! The two differ by pages of blocks that nobody has touched yet.

use super::classes::ClassStats;
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
    /// The bytes that can be in memory.
    pub fn bytes(&self) -> u64 {
        (self.in_spans + self.free).saturating_sub(self.given_back_in_spans)
    }

    /// The bytes that are mapped and have no memory: never touched, or given back.
    pub fn uncommitted(&self) -> u64 {
        self.mapped.saturating_sub(self.bytes())
    }
}

/// The bytes of blocks in each tier, with or without memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tiers {
    /// In use; without guarded blocks, which lie elsewhere.
    pub live: u64,
    pub vcpu_caches: u64,
    pub transfer: u64,
    pub free_in_spans: u64,
    /// The rest of spans behind their last block.
    pub span_tails: u64,
    /// Freed, and with the policy, which keeps blocks back.
    pub quarantined: u64,
}

impl Tiers {
    fn add(&mut self, class: SizeClass, of: ClassStats) {
        let (shape, bytes) = (class.shape(), class.block_bytes() as u64);
        self.live += of.live_blocks * bytes;
        self.vcpu_caches += of.cached_blocks * bytes;
        self.transfer += of.transfer_blocks * bytes;
        self.free_in_spans += of.free_blocks * bytes;
        self.quarantined += of.quarantined_blocks * bytes;
        self.span_tails += of.spans * (shape.span_bytes() as u64 - shape.blocks as u64 * bytes);
    }
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

// A function that takes a lock is noted as inside the heap: a signal handler that comes meanwhile and allocates must
// not wait for it. In a handler that interrupted the heap itself these figures are zeros.
impl<O: Os> Heap<O> {
    pub fn committed(&self) -> Committed {
        let pages = self.inside(|_| self.pages.stats()).unwrap_or_default();
        Committed {
            mapped: pages.mapped,
            in_spans: pages.used,
            free: pages.dirty_free,
            given_back_in_spans: pages.released,
        }
    }

    /// The work of upkeep since the start.
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
        self.inside(|_| self.sum_of_classes(|_, _| ())).unwrap_or_default()
    }

    /// Goes over the classes, and calls `also` with what each of them holds.
    #[inline(never)]
    pub(super) fn sum_of_classes(&self, mut also: impl FnMut(SizeClass, ClassStats)) -> Tiers {
        let (large, quarantined) = (self.pages.stats().large.bytes, self.quarantined.large().bytes);
        let mut tiers = Tiers { live: large.saturating_sub(quarantined), quarantined, ..Tiers::default() };
        for class in SizeClass::all() {
            let of = self.class_stats_inside(class);
            tiers.add(class, of);
            also(class, of);
        }
        let [live, cached, free, tails] = self.tenants.small();
        tiers.live += live;
        tiers.vcpu_caches += cached;
        tiers.free_in_spans += free;
        tiers.span_tails += tails;
        tiers
    }

    /// Bytes of the heap's own tables and slabs that are in memory.
    pub fn metadata_bytes(&self) -> u64 {
        let mut bytes = size_of::<Self>() as u64;
        self.each_metadata(|start, length| bytes += self.resident(start, length));
        bytes
    }

    /// Calls `take` with the start and the length of each mapping that holds what the heap knows, not blocks.
    pub(super) fn each_metadata(&self, mut take: impl FnMut(usize, usize)) {
        self.pages.each_mapping(|mapping, start, bytes| {
            if mapping == Mapping::Metadata {
                take(start, bytes);
            }
        });
        self.cache.each_mapping(&mut take);
        self.profile.each_mapping(&mut take);
        let mut take_made = |start, bytes| {
            if start != 0 {
                take(start, bytes);
            }
        };
        self.central.each_mapping(&mut take_made);
        self.tenants.each_mapping(&mut take_made);
        self.tenants.each_cache(|cache| cache.each_mapping(&mut take_made));
        let [_, slots] = self.sources.guards.mappings();
        let others = [slots, self.probing.mapping(), self.sources.empties.notes()];
        others.into_iter().for_each(|(start, bytes)| take_made(start, bytes));
    }

    /// Bytes of the pages that guarded blocks have, in memory or not.
    pub fn guarded_live(&self) -> u64 {
        self.inside(|_| self.sources.guards.stats().bytes).unwrap_or_default()
    }

    /// Bytes of guarded blocks' pages that are in memory.
    pub fn guarded_bytes(&self) -> u64 {
        match self.sources.guards.mappings() {
            [(_, 0), _] => 0,
            [(arena, bytes), _] => self.resident(arena, bytes),
        }
    }

    /// Whether the address lies in a block of this heap.
    pub fn owns(&self, address: usize) -> bool {
        self.pages.class_of(address) != SizeClass::NONE
            || self.is_guarded(address)
            || self.sources.empties.owns(address)
            || self.sources.emergency.bytes_of(address).is_some()
    }

    /// Calls `take` for every span and every free part, with no lock held: `take` may use the heap.
    pub fn each_range(&self, mut take: impl FnMut(Range)) {
        let spans = self.inside(|_| self.pages.span_count()).unwrap_or(0);
        for (_, span) in self.pages.open_spans(spans) {
            let bytes = span.bytes();
            let in_use = match span.class().is_small() {
                true => span.blocks().saturating_sub(span.free.get()) as usize * span.class().block_bytes(),
                false => bytes,
            };
            let state = RangeState::InUse { bytes: in_use };
            take(Range { address: self.pages.address_of(span.start.get()), bytes, state });
        }
        let mut number = 0;
        while let Some(Some((free, dirty))) = self.inside(|_| self.pages.free_units_of(number)) {
            for (units, state) in [(free & dirty, RangeState::Free), (free & !dirty, RangeState::GivenBack)] {
                bits::each_run(units, |start, length| {
                    let address = self.pages.address_of(number * bits::HUGE_PAGE_UNITS + start);
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
    use crate::base::sync::Ordering;
    use crate::heap::Hooks;
    use crate::os::fake::Fake;

    #[test]
    fn tiers_and_committed_bytes_are_two_ways_to_the_same_sum() {
        let heap = Box::new(Heap::new(Fake::default()));
        let blocks: Vec<usize> =
            (0..6000).map(|index| heap.allocate([24, 100, 5000, 300 << 10][index % 4])).collect();
        blocks.iter().step_by(3).for_each(|block| heap.free(*block));
        let tiers = heap.tiers();
        // A term that is 0 could be left out unseen.
        for term in terms(tiers) {
            assert_ne!(term, 0, "{tiers:?}");
        }
        assert_eq!(terms(tiers).iter().sum::<u64>(), heap.committed().in_spans);
        heap.release(0);
        let (tiers, committed) = (heap.tiers(), heap.committed());
        assert_eq!(terms(tiers).iter().sum::<u64>(), committed.in_spans);
        assert!(committed.given_back_in_spans > 0 && committed.bytes() < committed.in_spans);
        assert_eq!(committed.bytes() + committed.uncommitted(), committed.mapped);
        blocks.iter().skip(1).step_by(3).for_each(|block| heap.free(*block));
    }

    fn terms(Tiers { live, vcpu_caches, transfer, free_in_spans, span_tails, .. }: Tiers) -> [u64; 5] {
        [live, vcpu_caches, transfer, free_in_spans, span_tails]
    }

    #[test]
    fn whatever_the_heap_has_mapped_is_in_its_figures() {
        let mut os = Fake::default();
        os.variables = &[("VCM_SAMPLE_INTERVAL", "4096"), ("VCM_GUARDED_RATE", "1000000000")];
        let heap = Box::new(Heap::with_hooks(os, Hooks { before_guards: Some(|| ()), unwind: |_| 0 }));
        assert!(heap.start_profile(4096));
        for round in 0..2000 {
            heap.os().clock.fetch_add(1 << 40, Ordering::Relaxed);
            let block = heap.allocate(round * 37 % 9000);
            if round % 3 > 0 {
                heap.free(block);
            }
        }
        let (mapped, stats) = (heap.os().mapped.lock().unwrap().clone(), heap.stats());
        let resident: u64 = mapped.into_iter().map(|(start, bytes)| heap.resident(start, bytes)).sum();
        assert_eq!(stats.resident, resident + size_of::<Heap<Fake>>() as u64);
        assert_eq!((stats.metadata, stats.live - stats.guarded), (heap.metadata_bytes(), heap.tiers().live));
        let (committed, guarded) = (heap.committed(), heap.guarded_bytes());
        assert!(guarded > 0 && heap.profile_stats().live_samples > 0);
        // The bytes committed and not in memory are pages of blocks that nobody has written.
        assert!(committed.bytes() + guarded + stats.metadata >= stats.resident);
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
        // Memory that nobody wrote would go as it becomes free.
        blocks.iter().for_each(|block| crate::base::memory::fill(*block, 2 << 20, 1));
        blocks.iter().for_each(|block| heap.free(*block));
        assert_eq!(heap.committed().free, 16 << 20);
        assert_eq!(heap.release_free(3 << 20), 4 << 20);
        assert_eq!(heap.release_free(usize::MAX), 12 << 20);
        assert_eq!(heap.release_free(usize::MAX), 0);
        assert_eq!(heap.committed().bytes(), heap.committed().in_spans);
    }
}
