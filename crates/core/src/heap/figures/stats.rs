//! Figures of all that the heap holds: one traversal feeds text, JSON, `mallinfo2`, `malloc_info` and the C API.
//!
//! The *bridge* leads from what the program asked for to what the system counts as resident, term by term:
//!
//! ```text
//! live (requested) + waste inside blocks + quarantine + vCPU caches + transfer arrays + free in spans + span tails
//!   - not in memory (never touched, or given back) + dirty free pages + metadata = resident
//! ```

use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::engine::READY;
use crate::heap::Heap;
use crate::os::Os;
use crate::pages::Mapping;
use core::num::NonZeroU64;

/// Declares the figures once: the struct, and the way to go over them by name.
macro_rules! figures {
    ($( $(#[$meaning:meta])* $name:ident, )+) => {
        /// A picture of the heap in bytes, unless named otherwise. Taken while the program runs, so terms may
        /// differ by what changed meanwhile.
        #[derive(Clone, Copy, Default, Debug)]
        pub struct Stats { $( $(#[$meaning])* pub $name: u64, )+ }

        impl Stats {
            /// Calls `take` with key and value of each figure.
            pub fn each(&self, mut take: impl FnMut(&'static str, u64)) {
                $( take(stringify!($name), self.$name); )+
            }
        }
    };
}

figures! {
    /// Asked for by blocks in use. Small blocks: estimated from the requests that reached the slow path.
    live_requested,
    /// Held by blocks in use.
    live,
    /// Freed, and kept back for a while: by the hardened library.
    quarantined,
    vcpu_caches,
    transfer,
    free_in_spans,
    span_tails,
    not_in_memory,
    dirty_free,
    metadata,
    resident,
    large_blocks,
    large,
    mapped,
    spans,
    cache_limit,
    cache_room,
    cache_room_most,
    slabs,
    underflows,
    overflows,
    fences_refused,
    /// Pages inside spans that were given back.
    released,
    /// On huge pages, and nanoseconds spent making them.
    huge,
    huge_stall,
    ticks,
    /// Given back to the system since the start.
    given_back,
    /// Limits in effect, 0 where there is none.
    memory_limit,
    hard_limit,
    /// Pages of guarded blocks in use, and how many guarded blocks there were.
    guarded,
    guarded_samples,
}

/// The step of the bridge that only a policy has.
pub(super) const QUARANTINE: &str = "freed, in quarantine";

impl Stats {
    /// The figure with this key.
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let mut found = None;
        self.each(|name, value| {
            if name.as_bytes() == key {
                found = Some(value);
            }
        });
        found
    }

    /// Bytes lost inside blocks in use.
    pub fn waste(&self) -> u64 {
        self.live.saturating_sub(self.live_requested)
    }

    /// The bridge: each step's label, sign and bytes. The steps add up to `resident`.
    pub(super) fn bridge(&self) -> [(&'static str, &'static str, u64); 10] {
        [
            ("  ", "live, as requested", self.live_requested),
            ("+ ", "waste inside blocks", self.waste()),
            ("+ ", QUARANTINE, self.quarantined),
            ("+ ", "vCPU caches", self.vcpu_caches),
            ("+ ", "transfer arrays", self.transfer),
            ("+ ", "free in spans", self.free_in_spans),
            ("+ ", "span tails", self.span_tails),
            ("- ", "not in memory (untouched, or given back)", self.not_in_memory),
            ("+ ", "dirty free pages", self.dirty_free),
            ("+ ", "metadata", self.metadata),
        ]
    }
}

impl<O: Os> Heap<O> {
    /// Takes the picture. Asks the system which pages are in memory: about 10 ns a page. All zeros in a
    /// signal handler that interrupted the heap, whose locks its own thread may hold.
    pub fn stats(&self) -> Stats {
        self.inside(|_| self.stats_inside()).unwrap_or_default()
    }

    #[inline(never)]
    fn stats_inside(&self) -> Stats {
        let mut stats = Stats::default();
        if self.state.load(Ordering::Acquire) != READY {
            return stats;
        }
        // The caller is to see the bound that will hold, not the one before there was use for more.
        self.upkeep.settle_bound(&self.floors);
        let (cache, pages, budget) = (self.cache.stats(), self.pages.stats(), &self.central.budget);
        let quarantined = self.quarantined.large();
        stats.large_blocks = pages.large.blocks.saturating_sub(quarantined.blocks);
        stats.large = pages.large.bytes.saturating_sub(quarantined.bytes);
        self.add_blocks(&mut stats);
        self.add_residence(&mut stats);
        stats.mapped = pages.mapped;
        stats.spans = pages.spans_open;
        stats.cache_limit = budget.limit() as u64;
        stats.cache_room = budget.taken() as u64;
        stats.cache_room_most = budget.most_taken() as u64;
        stats.slabs = cache.slabs;
        stats.underflows = cache.underflows;
        stats.overflows = cache.overflows;
        stats.released = pages.released;
        stats.huge = pages.huge;
        let done = self.upkeep.done();
        stats.fences_refused = done.fences_refused;
        stats.huge_stall = done.huge_stall + self.pages.prefault_nanoseconds();
        stats.ticks = done.ticks;
        stats.given_back = done.given_back;
        stats.memory_limit = self.pages.limits.soft().unwrap_or(0) as u64;
        stats.hard_limit = self.pages.limits.hard().unwrap_or(0) as u64;
        stats
    }

    #[inline(never)]
    fn add_blocks(&self, stats: &mut Stats) {
        let guards = self.sources.guards.stats();
        let large = self.pages.stats().large.requested.saturating_sub(self.quarantined.large().requested);
        let mut requested = large + guards.requested;
        let tiers =
            self.sum_of_classes(|class, of| requested += self.requested_estimate(class, of.live_blocks));
        // Requests for tenants' heaps are not estimated.
        let [of_tenants, ..] = self.tenants.small();
        requested += of_tenants;
        stats.guarded = guards.bytes;
        stats.guarded_samples = guards.samples;
        stats.live = tiers.live + guards.bytes;
        stats.live_requested = requested;
        stats.quarantined = tiers.quarantined;
        stats.vcpu_caches = tiers.vcpu_caches;
        stats.transfer = tiers.transfer;
        stats.free_in_spans = tiers.free_in_spans;
        stats.span_tails = tiers.span_tails;
    }

    fn requested_estimate(&self, class: SizeClass, blocks: u64) -> u64 {
        let Some(sample) = self.requested.get(class.index()) else { return 0 };
        let (bytes, count) = (sample.bytes.load(Ordering::Relaxed), sample.count.load(Ordering::Relaxed));
        // Not by one division of 128 bits: the compiler's function for it asks on aarch64 for a part of Rust's
        // unwinder, which is not here, and the library could not be loaded.
        match NonZeroU64::new(count) {
            Some(count) => blocks * (bytes / count) + blocks.saturating_mul(bytes % count) / count,
            None => blocks * class.block_bytes() as u64,
        }
    }

    /// Guarded blocks are live blocks of a page. A page of theirs that could not be given back is dirty and free.
    #[inline(never)]
    fn add_residence(&self, stats: &mut Stats) {
        let guarded = self.guarded_bytes();
        let (mut blocks, mut span_bytes, mut in_spans) = (guarded, stats.guarded, guarded.min(stats.guarded));
        self.pages.each_mapping(|mapping, start, bytes| {
            if mapping == Mapping::Blocks {
                blocks += self.resident(start, bytes);
            }
        });
        self.pages.each_span(|_, span| {
            let bytes = span.bytes();
            span_bytes += bytes as u64;
            in_spans += self.resident(self.pages.address_of(span.start.get()), bytes);
        });
        stats.not_in_memory = span_bytes.saturating_sub(in_spans);
        stats.dirty_free = u64::saturating_sub(blocks, in_spans);
        stats.metadata = self.metadata_bytes();
        stats.resident = blocks + stats.metadata;
    }
}
