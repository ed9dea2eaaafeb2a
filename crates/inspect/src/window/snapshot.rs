//! The state of a heap at a moment: the library's own statistics, made from its counters outside.

use super::counters::Counters;
use super::heaps::Heaps;
use super::layout::{Layout, OptionPlaces};
use super::memory::Memory;
use super::pages::{Pages, Resident, is_near};
use super::residence::{Residence, lie};
use crate::process::Process;
use std::io;
use std::time::Duration;
use vcm_foreign::Text;
use vcmalloc_core::heap::{FrontReason, Stats};
use vcmalloc_core::options::Origin;

/// More than any process can have.
const MOST_BYTES: u64 = 1 << 52;

/// A size class that has spans.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub block_bytes: u64,
    pub spans: u64,
    pub live_blocks: u64,
    pub cached_blocks: u64,
    pub transfer_blocks: u64,
    pub free_blocks: u64,
    /// Freed, and kept back for a while: by the hardened library.
    pub quarantined_blocks: u64,
    /// Bytes of its spans, and how many of them are in memory.
    pub span_bytes: u64,
    pub resident: u64,
}

/// An option's value in effect.
#[derive(Clone, Debug)]
pub struct Setting {
    pub name: String,
    pub value: u64,
    /// Of an option that is a path, where one is set.
    pub path: Option<Text>,
    pub origin: Origin,
}

/// The thread that gives memory back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Giver {
    Janitor,
    /// The process's own calls: where something `waits`, each of its requests for memory may look.
    Itself {
        waits: bool,
    },
}

pub struct Snapshot {
    pub build: Text,
    /// False before the first allocation.
    pub is_started: bool,
    pub front: &'static str,
    /// The registrar of threads for the sequences, or why they are not used.
    pub front_reason: &'static str,
    pub stats: Stats,
    pub swapped: u64,
    /// In the order of their sizes.
    pub classes: Vec<Class>,
    pub settings: Vec<Setting>,
    pub process: Option<Resident>,
    pub giver: Giver,
    /// The parts that moved while it was read; none: the counters are of one moment.
    pub torn: Option<String>,
    /// Bytes of the spans in which tenants' heaps have small blocks: all of them counted as live.
    pub of_tenants: u64,
    pub heaps: Heaps,
    /// How old the figures of pages are: what is resident, dirty or not in memory.
    pub pages_age: Duration,
    /// The pages do not fit the counters or RSS within 2 %: they are of another moment.
    pub pages_apart: bool,
    /// Figures' names in the window that this library does not have: figures made of them are 0.
    pub missing: Vec<String>,
}

impl Snapshot {
    /// Counts all pages.
    pub fn take(process: &Process, memory: &Memory, layout: &Layout) -> io::Result<Snapshot> {
        Self::take_with(process, memory, layout, &mut None)
    }

    /// Counts the pages only where none are kept, or where that was long ago for what it costs.
    pub fn take_with(
        process: &Process,
        memory: &Memory,
        layout: &Layout,
        kept: &mut Option<Pages>,
    ) -> io::Result<Snapshot> {
        let counters = Counters::read(memory, layout)?;
        let pages = match kept.take() {
            Some(pages) if !pages.are_due(process, memory) => pages,
            former => Pages::count(process, memory, &counters, former.as_ref())?,
        };
        let (whole, moved) = pages.process_now(memory);
        let mut snapshot = Snapshot {
            build: layout.build.clone(),
            is_started: counters.is_started(),
            front: front(&counters),
            front_reason: front_reason(&counters),
            stats: Stats::default(),
            swapped: pages.heap.swapped,
            classes: Vec::new(),
            settings: settings(&counters),
            process: whole,
            giver: match counters.of_some_libraries("janitor.running").of(0) {
                0 => Giver::Itself { waits: counters.of_some_libraries("upkeep.waits").of(0) != 0 },
                _ => Giver::Janitor,
            },
            torn: counters.torn.clone(),
            of_tenants: 0,
            heaps: Heaps::default(),
            pages_age: pages.age(),
            pages_apart: false,
            missing: Vec::new(),
        };
        if snapshot.is_started {
            snapshot.heaps = Heaps::read(memory, &counters)?;
            let kept = snapshot.add_counters(&counters);
            snapshot.add_blocks(&counters, &pages.heap);
            snapshot.add_residence(&pages.heap, kept);
            if !snapshot.can_be() {
                return Err(lie());
            }
            snapshot.pages_apart = moved || !snapshot.closes();
        }
        snapshot.missing = counters.missing();
        *kept = Some(pages);
        Ok(snapshot)
    }

    /// Whether the terms from live bytes to what is resident give what is resident, and that is within RSS.
    fn closes(&self) -> bool {
        let stats = &self.stats;
        let added = [
            stats.live_requested,
            stats.waste(),
            stats.quarantined,
            stats.vcpu_caches,
            stats.transfer,
            stats.free_in_spans,
            stats.span_tails,
            stats.dirty_free,
            stats.metadata,
        ];
        let sum = added.iter().fold(0, |sum: u64, term| sum.saturating_add(*term));
        let sum = sum.saturating_sub(stats.not_in_memory);
        let rss = self.process.map_or(stats.resident, |all| all.rss);
        is_near(sum, stats.resident, rss) && (stats.resident <= rss || is_near(stats.resident, rss, rss))
    }

    /// Whether all figures are of one moment.
    pub fn is_whole(&self) -> bool {
        self.torn.is_none() && !self.pages_apart
    }

    /// Adds what needs no look at pages, and returns the bytes of kept blocks.
    fn add_counters(&mut self, counters: &Counters) -> u64 {
        let limit = |name| Some(counters.one(name)).filter(|bytes| *bytes != u64::MAX).unwrap_or(0);
        let guarded = counters.one("guards.open");
        let of = |count: &str, bytes: &str| counters.one(count).saturating_mul(counters.constant(bytes));
        let (blocks, lost) = (of("pages.blocks", "block.bytes"), of("pages.units_lost", "unit.bytes"));
        // Both are of one moment only where nothing moved.
        let large_without = |name, quarantined| {
            counters.one(name).saturating_sub(counters.of_some_libraries(quarantined).of(0))
        };
        let of_spans = large_without("large.bytes", "large.quarantined_bytes");
        let kept = Kept::of(counters, of_spans, counters.one("large.requested"));
        let large = of_spans - kept.bytes;
        let large_requested =
            large_without("large.requested", "large.quarantined_requested").saturating_sub(kept.requested);
        // Of their spans the library alone knows what is free.
        let of_tenants = counters.of_some_libraries("tenants.bytes").of(0);
        self.of_tenants = of_tenants;
        self.stats = Stats {
            large_blocks: large_without("large.blocks", "large.quarantined_blocks")
                .saturating_sub(kept.blocks),
            large,
            live: large.saturating_add(guarded).saturating_add(of_tenants),
            live_requested: large_requested
                .saturating_add(counters.one("guards.requested"))
                .saturating_add(of_tenants),
            quarantined: counters.one("large.bytes").saturating_sub(of_spans),
            mapped: blocks.saturating_sub(lost),
            spans: counters.one("pages.spans_open"),
            cache_limit: counters.one("budget.limit"),
            cache_room: counters.one("budget.taken"),
            cache_room_most: counters.one("budget.most_taken"),
            slabs: counters.slabs.len() as u64,
            underflows: counters.of_slabs("slab.underflows"),
            overflows: counters.of_slabs("slab.overflows"),
            fences_refused: counters.one("upkeep.fences_refused"),
            released: counters.one("pages.released"),
            huge: of("pages.huge_blocks", "block.bytes"),
            huge_stall: counters.one("upkeep.huge_stall"),
            ticks: counters.one("upkeep.ticks"),
            given_back: counters.one("upkeep.given_back"),
            memory_limit: limit("limits.soft"),
            hard_limit: limit("limits.hard"),
            guarded,
            guarded_samples: counters.one("guards.samples"),
            ..Stats::default()
        };
        kept.bytes
    }

    fn add_blocks(&mut self, counters: &Counters, residence: &Residence) {
        let [of_spans, of_free, bytes, requests] =
            ["class.spans", "class.free", "class.requested_bytes", "class.requests"]
                .map(|name| counters.column(name));
        let of_quarantine = counters.of_some_libraries("class.quarantined");
        let cached = counters.cached();
        for (number, shape) in counters.layout.classes.iter().enumerate() {
            let spans = of_spans.of(number);
            let cached_blocks = cached.of(number);
            if shape.block_bytes == 0 || (spans == 0 && cached_blocks == 0) {
                continue;
            }
            let transfer_blocks = counters.transferred(number);
            let free_blocks = of_free.of(number);
            let quarantined_blocks = of_quarantine.of(number);
            let elsewhere = [cached_blocks, transfer_blocks, free_blocks, quarantined_blocks];
            let elsewhere = elsewhere.into_iter().fold(0, u64::saturating_add);
            let class = Class {
                block_bytes: shape.block_bytes,
                spans,
                live_blocks: spans.wrapping_mul(shape.blocks).saturating_sub(elsewhere),
                cached_blocks,
                transfer_blocks,
                free_blocks,
                quarantined_blocks,
                span_bytes: spans.wrapping_mul(shape.span_bytes),
                resident: residence.by_class.get(number).copied().unwrap_or(0),
            };
            let tail = shape.span_bytes.saturating_sub(shape.blocks.saturating_mul(shape.block_bytes));
            let add = |sum: &mut u64, count: u64, bytes: u64| {
                *sum = sum.saturating_add(count.saturating_mul(bytes));
            };
            add(&mut self.stats.live, class.live_blocks, class.block_bytes);
            add(&mut self.stats.quarantined, class.quarantined_blocks, class.block_bytes);
            add(&mut self.stats.vcpu_caches, class.cached_blocks, class.block_bytes);
            add(&mut self.stats.transfer, class.transfer_blocks, class.block_bytes);
            add(&mut self.stats.free_in_spans, class.free_blocks, class.block_bytes);
            add(&mut self.stats.span_tails, spans, tail);
            add(&mut self.stats.live_requested, 1, requested(&class, bytes.of(number), requests.of(number)));
            self.classes.push(class);
        }
    }

    /// As `Heap::stats` does it: guarded blocks are live blocks of a page, and kept ones are free.
    fn add_residence(&mut self, residence: &Residence, kept: u64) {
        let of_classes = self.classes.iter().fold(0, |sum: u64, class| {
            sum.saturating_add(class.quarantined_blocks.saturating_mul(class.block_bytes))
        });
        let large_quarantined = self.stats.quarantined.saturating_sub(of_classes);
        let stats = &mut self.stats;
        let sum = |terms: &[u64]| terms.iter().fold(0, |sum: u64, term| sum.saturating_add(*term));
        let spans = self.classes.iter().fold(0, |sum: u64, class| sum.saturating_add(class.span_bytes));
        let all = sum(&residence.by_class);
        let outside = residence.by_class.first().copied().unwrap_or(0);
        let in_spans = sum(&[residence.guarded.min(stats.guarded), all - outside]);
        stats.not_in_memory =
            sum(&[spans, self.of_tenants, stats.large, kept, large_quarantined, stats.guarded])
                .saturating_sub(in_spans);
        stats.dirty_free = sum(&[residence.guarded, all, kept]).saturating_sub(in_spans);
        stats.metadata = residence.metadata;
        stats.resident = sum(&[residence.guarded, all, residence.metadata]);
    }

    /// Whether a process can have what it says: sums that are made of such figures stay numbers.
    fn can_be(&self) -> bool {
        let stats = &self.stats;
        let sums = [
            stats.live,
            stats.live_requested,
            stats.large,
            stats.quarantined,
            stats.vcpu_caches,
            stats.transfer,
            stats.free_in_spans,
            stats.span_tails,
            stats.not_in_memory,
            stats.dirty_free,
            stats.metadata,
            stats.resident,
            stats.mapped,
            stats.released,
            stats.huge,
            stats.guarded,
        ];
        sums.iter().all(|bytes| *bytes <= MOST_BYTES)
    }

    /// The option called so.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}

/// Large blocks that were freed a moment ago and are not closed yet (docs/decisions/0118): to the program they are free.
#[derive(Default)]
struct Kept {
    blocks: u64,
    bytes: u64,
    /// The part of what was asked for all open ones that is theirs by their bytes.
    requested: u64,
}

impl Kept {
    fn of(counters: &Counters, open: u64, requested: u64) -> Kept {
        let places = counters.of_some_libraries("large.kept");
        // They are taken without a lock: bytes and open blocks may be of two moments.
        let bytes = counters.of_some_libraries("large.kept_bytes").of(0).min(open);
        if bytes == 0 {
            return Kept::default();
        }
        let requested = u128::from(requested) * u128::from(bytes) / u128::from(open);
        Kept { blocks: places.count_of_set(), bytes, requested: u64::try_from(requested).unwrap_or(u64::MAX) }
    }
}

/// Bytes asked for by the live blocks of a class, estimated from the requests that reached the slow path.
fn requested(class: &Class, bytes: u64, requests: u64) -> u64 {
    match u128::from(requests) {
        0 => class.live_blocks.saturating_mul(class.block_bytes),
        count => {
            let all = u128::from(class.live_blocks) * u128::from(bytes) / count;
            u64::try_from(all).unwrap_or(u64::MAX)
        }
    }
}

fn front(counters: &Counters) -> &'static str {
    match counters.one("cache.kind") {
        0 => "vcpu-mm_cid",
        1 => "vcpu-cpu_id",
        _ => "locked",
    }
}

fn front_reason(counters: &Counters) -> &'static str {
    let reason = usize::try_from(counters.one("cache.reason")).ok();
    reason.and_then(|reason| FrontReason::ALL.get(reason)).map_or("for an unknown reason", |it| it.words())
}

/// In the order of their names.
pub fn settings(counters: &Counters) -> Vec<Setting> {
    let setting = |option: &OptionPlaces| {
        let value = counters.at(&option.value);
        let origin = option.origin.as_ref().map(|place| counters.at(place));
        Setting {
            name: option.name.clone(),
            value,
            path: if value == 0 { None } else { counters.text(&format!("path.{}", option.name), value) },
            origin: origin_of(origin.unwrap_or_else(|| counters.lacks(&format!("origin.{}", option.name)))),
        }
    };
    counters.layout.options.iter().map(setting).collect()
}

fn origin_of(number: u64) -> Origin {
    use Origin::*;
    let known = [Default, File, FileSection, Alias, Environment, Api];
    known.into_iter().find(|origin| *origin as u64 == number).unwrap_or(Default)
}
