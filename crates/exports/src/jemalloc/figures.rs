//! Figures of the heap and of arenas with jemalloc's meanings, from our own counters.
//!
//! `stats.*` are a picture taken at each write of `epoch`, as there; figures of arenas are those of the moment. None of
//! them asks the system for each page: *resident* is, as there, what can be in memory at most.

use super::arenas::{self, ALL};
use super::sizes::{self, BINS, LENGTHS};
use crate::{blocks, heap};
use core::sync::atomic::{AtomicU64, Ordering};
use vcmalloc_core::class::{LARGEST_BYTES, SizeClass};
use vcmalloc_core::heap::{Blocks, HeapId, RangeState, TenantStats};
use vcmalloc_core::options::OptionId;
use vcmalloc_core::os::Os;

pub const PAGE: u64 = 4096;

/// When the library was loaded, in the system's nanoseconds.
static BEGUN: AtomicU64 = AtomicU64::new(0);

pub fn begin() {
    BEGUN.store(heap().os().now(), Ordering::Relaxed);
}

/// Nanoseconds since then; none have passed where a library that is loaded before asks.
fn age() -> u64 {
    match BEGUN.load(Ordering::Relaxed) {
        0 => 0,
        begun => heap().os().now().saturating_sub(begun),
    }
}

/// The figures of `stats`, in the order of the picture.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Figure {
    Allocated,
    Active,
    Metadata,
    Resident,
    Mapped,
    Retained,
}
const FIGURES: usize = 6;

static PICTURE: [AtomicU64; FIGURES] = [const { AtomicU64::new(0) }; FIGURES];
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Takes the picture; false in a signal handler that interrupted the heap, whose locks its own thread may hold.
pub fn refresh() -> bool {
    if heap().is_inside() {
        return false;
    }
    let whole = of_process();
    for (place, figure) in PICTURE.iter().zip(whole) {
        place.store(figure, Ordering::Relaxed);
    }
    EPOCH.fetch_add(1, Ordering::Release);
    true
}

pub fn epoch() -> u64 {
    if EPOCH.load(Ordering::Acquire) == 0 {
        refresh();
    }
    EPOCH.load(Ordering::Acquire)
}

/// A figure of the last picture; none where none could be taken yet.
pub fn get(figure: Figure) -> Option<u64> {
    let has_one = epoch() != 0;
    PICTURE.get(figure as usize).map(|place| place.load(Ordering::Relaxed)).filter(|_| has_one)
}

fn of_process() -> [u64; FIGURES] {
    let (pages, tiers) = (heap().committed(), heap().tiers());
    let (guarded, metadata) = (heap().guarded_live(), heap().metadata_bytes());
    let active = pages.in_spans.saturating_sub(pages.given_back_in_spans);
    let allocated = tiers.live + guarded;
    // Pages that were given back inside of spans may lie under blocks that live.
    let active = (active + guarded).max(allocated).next_multiple_of(PAGE);
    let mapped = active + pages.free + metadata;
    [allocated, active, metadata, mapped, mapped, pages.uncommitted()]
}

/// The figures of one arena.
#[derive(Clone, Copy, Default)]
pub struct Arena {
    pub active: u64,
    pub dirty: u64,
    pub mapped: u64,
    pub retained: u64,
    pub base: u64,
    pub resident: u64,
    /// In caches of virtual CPUs; none where caches and spans are not told apart.
    pub cached: Option<u64>,
    pub uptime: u64,
}

impl Arena {
    fn plus(self, other: Arena) -> Arena {
        Arena {
            active: self.active + other.active,
            dirty: self.dirty + other.dirty,
            mapped: self.mapped + other.mapped,
            retained: self.retained + other.retained,
            base: self.base + other.base,
            resident: self.resident + other.resident,
            cached: self.cached.zip(other.cached).map(|(own, other)| own + other),
            uptime: self.uptime.max(other.uptime),
        }
    }
}

/// The figures of an arena, or of all; none where there is no such arena, or this is a handler that interrupted the heap.
pub fn arena(number: usize) -> Option<Arena> {
    if heap().is_inside() {
        return None;
    }
    match number {
        ALL => arenas::all().filter_map(|(_, id)| of(id)).reduce(Arena::plus),
        _ => of(arenas::heap_of(number)?),
    }
}

/// Bytes in use of an arena's small blocks, and of its large ones.
pub fn allocated(number: usize) -> Option<(u64, u64)> {
    if heap().is_inside() {
        return None;
    }
    let of = |id| if id == HeapId::OWN { Some(allocated_of_own()) } else { allocated_of(id) };
    match number {
        ALL => arenas::all().filter_map(|(_, id)| of(id)).reduce(|sum, of| (sum.0 + of.0, sum.1 + of.1)),
        _ => of(arenas::heap_of(number)?),
    }
}

/// Every block of the heap is looked at.
fn allocated_of(id: HeapId) -> Option<(u64, u64)> {
    let large = Tally::of(id).large_bytes;
    Some((heap().heap_stats(id)?.live.saturating_sub(large), large))
}

fn allocated_of_own() -> (u64, u64) {
    let of_class = |class| {
        let of = heap().class_stats(class);
        of.live_blocks * of.block_bytes
    };
    let small: u64 = SizeClass::all().map(of_class).sum();
    let elsewhere: u64 = others().map(|of| of.live).sum();
    (small, (heap().tiers().live + heap().guarded_live()).saturating_sub(small + elsewhere))
}

/// The figures of all arenas but the process's own heap.
fn others() -> impl Iterator<Item = TenantStats> {
    arenas::all().skip(1).map(|(_, id)| heap().heap_stats(id).unwrap_or_default())
}

fn of(id: HeapId) -> Option<Arena> {
    if id == HeapId::OWN { Some(of_own()) } else { of_tenant(id) }
}

fn of_tenant(id: HeapId) -> Option<Arena> {
    let stats = heap().heap_stats(id)?;
    Some(Arena {
        active: stats.bytes,
        mapped: stats.bytes,
        resident: heap().heap_resident(id),
        uptime: stats.age,
        ..Arena::default()
    })
}

/// The process's own heap, with heaps that are no arenas.
fn of_own() -> Arena {
    let (pages, tiers) = (heap().committed(), heap().tiers());
    let [_, active, base, ..] = of_process();
    let active = active.saturating_sub(others().map(|of| of.bytes).sum());
    Arena {
        active,
        dirty: pages.free,
        mapped: active + pages.free + base,
        retained: pages.uncommitted(),
        base,
        resident: active + pages.free + base,
        cached: Some(tiers.vcpu_caches + tiers.transfer),
        uptime: age(),
    }
}

/// Blocks in use by bin and by length.
pub struct Tally {
    pub bins: [u64; BINS],
    pub lengths: [u64; LENGTHS],
    pub large_bytes: u64,
}

impl Tally {
    fn new() -> Tally {
        Tally { bins: [0; BINS], lengths: [0; LENGTHS], large_bytes: 0 }
    }

    fn take(&mut self, bytes: usize) {
        if bytes > LARGEST_BYTES {
            self.take_large(bytes);
        } else if let Some(place) = self.bins.get_mut(SizeClass::for_small(bytes.max(1)).index() - 1) {
            *place += 1;
        }
    }

    fn take_large(&mut self, bytes: usize) {
        self.large_bytes += bytes as u64;
        if let Some(place) = self.lengths.get_mut(sizes::number_of_large(bytes)) {
            *place += 1;
        }
    }

    /// Of a heap of a tenant: every block is looked at.
    pub fn of(id: HeapId) -> Tally {
        let mut tally = Tally::new();
        blocks().each_block_of(id, |_, bytes| tally.take(bytes));
        tally
    }

    fn of_own() -> Tally {
        let mut tally = Tally::of_own_large();
        for (place, class) in tally.bins.iter_mut().zip(SizeClass::all()) {
            *place = heap().class_stats(class).live_blocks;
        }
        tally
    }

    /// Large blocks of the process's own heap.
    fn of_own_large() -> Tally {
        let mut tally = Tally::new();
        heap().each_range(|range| {
            let is_large = matches!(range.state, RangeState::InUse { .. })
                && heap().has_own_run(range.address)
                && heap().owner_heap(range.address).is_none();
            if is_large {
                tally.take_large(range.bytes);
            }
        });
        tally
    }
}

/// Blocks in use of an arena, or of all, by bin and by length.
pub fn tally(number: usize) -> Tally {
    let mut sum = Tally::new();
    let wanted = arenas::all().filter(|(arena, _)| number == ALL || *arena == number);
    for (_, id) in wanted {
        let of = if id == HeapId::OWN { Tally::of_own() } else { Tally::of(id) };
        let bins = sum.bins.iter_mut().zip(of.bins);
        let lengths = sum.lengths.iter_mut().zip(of.lengths);
        bins.chain(lengths).for_each(|(sum, of)| *sum += of);
    }
    sum
}

/// Blocks in use of a bin.
pub fn blocks_of_bin(arena: usize, bin: usize) -> Option<u64> {
    let own = || sizes::bin(bin).map(|class| heap().class_stats(class).live_blocks);
    let of_heap = |id| Tally::of(id).bins.get(bin).copied();
    sum_over(arena, own, of_heap)
}

/// Spans of a bin.
pub fn spans_of_bin(arena: usize, bin: usize) -> Option<u64> {
    let class = sizes::bin(bin)?;
    sum_over(arena, || Some(heap().class_stats(class).spans), |id| Some(heap().heap_spans(id, class)))
}

/// Large blocks in use that are counted under a length.
pub fn blocks_of_length(arena: usize, number: usize) -> Option<u64> {
    let own = || Tally::of_own_large().lengths.get(number).copied();
    let of_heap = |id| Tally::of(id).lengths.get(number).copied();
    sum_over(arena, own, of_heap)
}

fn sum_over(
    arena: usize,
    own: impl Fn() -> Option<u64>,
    of_heap: impl Fn(HeapId) -> Option<u64>,
) -> Option<u64> {
    if heap().is_inside() {
        return None;
    }
    let of = |id| if id == HeapId::OWN { own() } else { of_heap(id) };
    match arena {
        ALL => Some(arenas::all().filter_map(|(_, id)| of(id)).sum()),
        _ => of(arenas::heap_of(arena)?),
    }
}

/// Threads of the janitor.
pub fn janitors() -> u32 {
    // A child of fork has its parent's figures until its first look at the heap.
    _ = heap().committed();
    u32::from(heap().has_janitor())
}

/// How often the janitor, or a slow path in its place, looked; and nanoseconds between two times.
pub fn runs() -> (u64, u64) {
    let ticks = heap().maintenance().ticks;
    (ticks, age().checked_div(ticks).unwrap_or(0))
}

/// The pages that went to the system since the start.
pub fn purged() -> u64 {
    heap().maintenance().given_back / PAGE
}

/// Whether there may be a janitor: in a program that links us only by order.
pub fn has_background() -> bool {
    heap().options.get(OptionId::janitor) != 0 && (cfg!(not(tikv)) || heap().has_janitor())
}
