//! What the heap holds: one traversal feeds text, JSON, `mallinfo2`, `malloc_info` and the C API.
//!
//! The *bridge* leads from what the program asked for to what the system counts as resident, term by term:
//!
//! ```text
//! live (requested) + waste inside blocks + vCPU caches + transfer arrays + free in spans + span tails
//!   - not in memory (never touched, or given back) + dirty free pages + metadata = resident
//! ```

use super::{Heap, READY};
use crate::base::sync::Ordering;
use crate::base::text::{self, Sink};
use crate::class::{SizeClass, UNIT_BYTES};
use crate::options::{self, OptionId};
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

/// One class in use.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClassStats {
    pub block_bytes: u64,
    pub spans: u64,
    pub live_blocks: u64,
    pub cached_blocks: u64,
    pub transfer_blocks: u64,
    pub free_blocks: u64,
}

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
    fn bridge(&self) -> [(&'static str, &'static str, u64); 9] {
        [
            ("  ", "live, as requested", self.live_requested),
            ("+ ", "waste inside blocks", self.waste()),
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
        self.inside(|| self.stats_inside()).unwrap_or_default()
    }

    #[inline(never)]
    fn stats_inside(&self) -> Stats {
        let mut stats = Stats::default();
        if self.state.load(Ordering::Acquire) != READY {
            return stats;
        }
        // Who asks is to see the bound that will hold, not the one before there was use for more.
        self.settle_bound();
        let (cache, pages, budget) = (self.cache.stats(), self.pages.stats(), &self.central.budget);
        stats.large_blocks = pages.large.blocks;
        stats.large = pages.large.bytes;
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
        stats.fences_refused = self.fences_refused.load(Ordering::Relaxed);
        stats.released = pages.released;
        stats.huge = pages.huge;
        stats.huge_stall = self.janitor.huge_stall.load(Ordering::Relaxed);
        stats.ticks = self.janitor.ticks.load(Ordering::Relaxed);
        stats.given_back = self.janitor.given_back.load(Ordering::Relaxed);
        stats.memory_limit = self.pages.limits.soft().unwrap_or(0) as u64;
        stats.hard_limit = self.pages.limits.hard().unwrap_or(0) as u64;
        stats
    }

    /// What one class holds; nothing in a signal handler that interrupted the heap.
    pub fn class_stats(&self, class: SizeClass) -> ClassStats {
        self.inside(|| self.class_stats_inside(class)).unwrap_or_default()
    }

    #[inline(never)]
    pub(super) fn class_stats_inside(&self, class: SizeClass) -> ClassStats {
        let middle = self.central.stats(class);
        let cached_blocks = self.cache.cached_blocks(class);
        let all = middle.spans * class.shape().blocks as u64;
        ClassStats {
            block_bytes: class.block_bytes() as u64,
            spans: middle.spans,
            live_blocks: all.saturating_sub(middle.free_blocks + middle.transfer_blocks + cached_blocks),
            cached_blocks,
            transfer_blocks: middle.transfer_blocks,
            free_blocks: middle.free_blocks,
        }
    }

    #[inline(never)]
    fn add_blocks(&self, stats: &mut Stats) {
        let guards = self.guards.stats();
        let mut requested = self.pages.stats().large.requested + guards.requested;
        let tiers =
            self.sum_of_classes(|class, of| requested += self.requested_estimate(class, of.live_blocks));
        stats.guarded = guards.bytes;
        stats.guarded_samples = guards.samples;
        stats.live = tiers.live + guards.bytes;
        stats.live_requested = requested;
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
            let bytes = span.units.get() as usize * UNIT_BYTES;
            span_bytes += bytes as u64;
            in_spans += self.resident(self.pages.address_of(span.start.get()), bytes);
        });
        stats.not_in_memory = span_bytes.saturating_sub(in_spans);
        stats.dirty_free = u64::saturating_sub(blocks, in_spans);
        stats.metadata = self.metadata_bytes();
        stats.resident = blocks + stats.metadata;
    }

    /// Resident bytes of a range, all of it where the system does not tell.
    #[inline(never)]
    pub(super) fn resident(&self, start: usize, bytes: usize) -> u64 {
        self.os.resident_bytes(start, bytes).unwrap_or(bytes) as u64
    }

    /// The statistics for a reader. Who calls names itself before.
    pub fn put_stats_text(&self, sink: &mut dyn Sink) {
        let stats = self.stats();
        let mut name = [0u8; 16];
        let length = self.os.program_name(&mut name);
        text::put_str(sink, "heap of ");
        sink.put(name.get(..length).unwrap_or(&[]));
        text::put_str(sink, ", process ");
        text::put_decimal(sink, self.os.process_number());
        text::put_str(sink, ", in bytes\n");
        for (sign, label, bytes) in stats.bridge() {
            put_row(sink, sign, label, bytes);
        }
        put_row(sink, "= ", "resident", stats.resident);
        text::put_str(sink, "front: ");
        text::put_str(sink, self.cache.kind().name());
        text::put_str(sink, ", caches and transfer arrays at most ");
        text::put_decimal(sink, stats.cache_limit);
        text::put_str(sink, " (");
        text::put_str(sink, self.options.origin(OptionId::cache_limit).name());
        text::put_str(sink, "), room in use ");
        text::put_decimal(sink, stats.cache_room);
        text::put_str(sink, ", most ");
        text::put_decimal(sink, stats.cache_room_most);
        text::put_str(sink, "\n");
        self.put_class_table(sink);
    }

    #[inline(never)]
    fn put_class_table(&self, sink: &mut dyn Sink) {
        text::put_str(sink, "     block     spans      live    cached  transfer      free   (blocks)\n");
        for class in SizeClass::all() {
            let of = self.class_stats(class);
            if of.spans == 0 {
                continue;
            }
            for number in [
                of.block_bytes,
                of.spans,
                of.live_blocks,
                of.cached_blocks,
                of.transfer_blocks,
                of.free_blocks,
            ] {
                put_right(sink, number, 10);
            }
            text::put_str(sink, "\n");
        }
    }

    /// The statistics for a program.
    pub fn put_stats_json(&self, sink: &mut dyn Sink) {
        let stats = self.stats();
        text::put_str(sink, "{\"version\":1,\"front\":\"");
        text::put_str(sink, self.cache.kind().name());
        text::put_str(sink, "\",\"waste\":");
        text::put_decimal(sink, stats.waste());
        stats.each(|key, value| {
            text::put_str(sink, ",\"");
            text::put_str(sink, key);
            text::put_str(sink, "\":");
            text::put_decimal(sink, value);
        });
        text::put_str(sink, ",\"classes\":[");
        let mut separator = "";
        for class in SizeClass::all() {
            let of = self.class_stats(class);
            if of.spans > 0 {
                text::put_str(sink, separator);
                put_class_json(sink, of);
                separator = ",";
            }
        }
        text::put_str(sink, "]}\n");
    }

    /// What a release gave, and what holds the rest: the classes whose spans keep most beside their live
    /// blocks.
    pub fn put_release_report(&self, sink: &mut dyn Sink, given: usize) {
        let stats = self.stats();
        text::put_str(sink, "vcmalloc: gave back ");
        text::put_decimal(sink, given as u64);
        text::put_str(sink, " bytes; in memory ");
        text::put_decimal(sink, stats.resident);
        text::put_str(sink, ", live ");
        text::put_decimal(sink, stats.live);
        text::put_str(sink, "\npinned: pages with live blocks beside free ones\n");
        text::put_str(sink, "     block     spans  in memory       live\n");
        for class in SizeClass::all() {
            let (of, resident) = (self.class_stats(class), self.resident_of(class));
            if of.spans > 0 {
                for (number, width) in [
                    (of.block_bytes, 10),
                    (of.spans, 10),
                    (resident, 11),
                    (of.live_blocks * of.block_bytes, 11),
                ] {
                    put_right(sink, number, width);
                }
                text::put_str(sink, "\n");
            }
        }
    }

    /// Bytes of a class's spans that are in memory.
    fn resident_of(&self, class: SizeClass) -> u64 {
        self.inside(|| self.resident_inside(class)).unwrap_or(0)
    }

    #[inline(never)]
    fn resident_inside(&self, class: SizeClass) -> u64 {
        let mut bytes = 0;
        self.pages.each_span(|_, span| {
            if span.class() == class {
                bytes += self.resident(
                    self.pages.address_of(span.start.get()),
                    span.units.get() as usize * UNIT_BYTES,
                );
            }
        });
        bytes
    }

    /// Each option with its value in effect and where it came from.
    pub fn put_options(&self, sink: &mut dyn Sink) {
        for id in OptionId::ALL {
            let spec = options::spec(id);
            text::put_str(sink, spec.name);
            text::put_str(sink, " = ");
            options::put_value(sink, spec.kind, self.options.get(id));
            text::put_str(sink, " (");
            text::put_str(sink, self.options.origin(id).name());
            text::put_str(sink, ")\n");
        }
        let setup = self.setup();
        text::put_str(sink, "in effect: front ");
        text::put_str(sink, setup.front.name());
        text::put_str(sink, ", cache_limit ");
        text::put_decimal(sink, setup.cache_limit as u64);
        text::put_str(sink, " bytes for ");
        text::put_decimal(sink, setup.usable_cpus as u64);
        text::put_str(sink, " CPUs\n");
    }
}

#[inline(never)]
fn put_class_json(sink: &mut dyn Sink, of: ClassStats) {
    let fields = [
        ("{\"block_bytes\":", of.block_bytes),
        (",\"spans\":", of.spans),
        (",\"live_blocks\":", of.live_blocks),
        (",\"cached_blocks\":", of.cached_blocks),
        (",\"transfer_blocks\":", of.transfer_blocks),
        (",\"free_blocks\":", of.free_blocks),
    ];
    for (name, value) in fields {
        text::put_str(sink, name);
        text::put_decimal(sink, value);
    }
    text::put_str(sink, "}");
}

#[inline(never)]
fn put_row(sink: &mut dyn Sink, sign: &str, label: &str, bytes: u64) {
    text::put_str(sink, sign);
    text::put_str(sink, label);
    (label.len()..42).for_each(|_| sink.put(b" "));
    put_right(sink, bytes, 16);
    text::put_str(sink, "\n");
}

#[inline(never)]
fn put_right(sink: &mut dyn Sink, number: u64, width: usize) {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    (digits..width).for_each(|_| sink.put(b" "));
    text::put_decimal(sink, number);
}
