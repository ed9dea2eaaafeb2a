//! Figures of heaps.

use super::{HeapId, NAME_BYTES, Rooms, Tenants};
use crate::base::sync::Ordering;
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::Os;
use crate::pages::Pages;

/// A picture of one heap, in bytes unless named otherwise.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct TenantStats {
    /// Held by blocks in use, and how many.
    pub live: u64,
    pub live_blocks: u64,
    /// Free in its spans and in its caches.
    pub cached: u64,
    /// Of its spans and those of the heaps below it, now and at most: the limit is about these.
    pub bytes: u64,
    pub peak: u64,
    /// 0: none.
    pub limit: u64,
    /// Requests that the limit refused.
    pub refused: u64,
    /// Nanoseconds since it was made.
    pub age: u64,
    /// Heaps below it.
    pub children: u64,
    /// It gives no more blocks, and how many were freed since.
    pub is_draining: bool,
    pub late: u64,
    /// The end of spans, where no block fits.
    pub tails: u64,
}

/// A block that a policy keeps back.
#[derive(Clone, Copy)]
pub struct Waits {
    heap: HeapId,
    bytes: u64,
    /// The same of a small one.
    small: u64,
}

impl<O: Os> Tenants<O> {
    pub fn stats(&self, os: &O, id: HeapId) -> Option<TenantStats> {
        let tenant = self.find(id)?;
        let rooms = tenant.rooms.lock();
        // Under the lock: the entry is not another heap's before it is left.
        self.find(id)?;
        let of = |number: &crate::base::sync::AtomicUsize| number.load(Ordering::Relaxed);
        let mut stats = TenantStats {
            bytes: of(&tenant.bytes) as u64,
            peak: of(&tenant.peak) as u64,
            limit: match of(&tenant.limit) {
                usize::MAX => 0,
                limit => limit as u64,
            },
            refused: tenant.refused.load(Ordering::Relaxed),
            age: os.now().saturating_sub(tenant.made_at.load(Ordering::Relaxed)),
            children: u64::from(tenant.children.load(Ordering::Relaxed)),
            is_draining: !tenant.is_live(),
            late: tenant.late.load(Ordering::Relaxed),
            ..TenantStats::default()
        };
        let (mut cached, mut cached_blocks) = self.cached_of(tenant);
        cached += waiting(&tenant.waiting_bytes);
        cached_blocks += waiting(&tenant.waiting_blocks);
        stats.live = (rooms.live_bytes + rooms.large_bytes).saturating_sub(cached);
        stats.live_blocks = (rooms.live_blocks + rooms.large_blocks).saturating_sub(cached_blocks);
        if let Some(left) = tenant.left_of_zombie() {
            stats.live_blocks = left;
        }
        (stats.cached, stats.tails) = self.free_of(&rooms);
        stats.cached += cached;
        Some(stats)
    }

    /// Whether a policy keeps blocks of a heap back.
    pub fn has_waiting(&self, id: HeapId) -> bool {
        self.find(id).is_some_and(|tenant| waiting(&tenant.waiting_blocks) != 0)
    }

    /// Counts a block that a policy keeps back, or no longer.
    pub fn note_waiting(&self, pages: &Pages<O>, address: usize, comes: bool) {
        if let Some(waiting) = self.as_waiting(pages, address) {
            self.count_waiting(waiting, comes);
        }
    }

    /// A block as `count_waiting` counts it: to be asked for before the block goes.
    pub fn as_waiting(&self, pages: &Pages<O>, address: usize) -> Option<Waits> {
        let (span, heap) = self.span_and_heap_of(pages, address)?;
        let span = pages.span(span);
        let (bytes, small) = match span.class() {
            class if class.is_small() => (class.block_bytes() as u64, class.block_bytes() as u64),
            _ => (u64::from(span.units.get()) * UNIT_BYTES as u64, 0),
        };
        Some(Waits { heap, bytes, small })
    }

    pub fn count_waiting(&self, Waits { heap, bytes, small }: Waits, comes: bool) {
        let Some(tenant) = self.find(heap) else { return };
        let counts =
            [(&tenant.waiting_blocks, 1), (&tenant.waiting_bytes, bytes), (&tenant.waiting_small, small)];
        for (count, by) in counts {
            count.fetch_add(if comes { by } else { by.wrapping_neg() }, Ordering::Release);
        }
    }

    /// The small blocks of all heaps: bytes in use, cached, free in spans, and at the end of spans.
    pub fn small(&self) -> [u64; 4] {
        let mut sums = [0; 4];
        for (_, tenant) in self.all().filter(|(_, tenant)| !tenant.is_unused()) {
            let rooms = tenant.rooms.lock();
            let [live, cached, free, tails] = &mut sums;
            let (in_cache, _) = self.cached_of(tenant);
            // Blocks went with their heap, although their spans are open yet.
            let of_blocks = if tenant.is_over() { &mut *free } else { live };
            let waiting = waiting(&tenant.waiting_small);
            *of_blocks += rooms.live_bytes.saturating_sub(in_cache + waiting);
            *cached += in_cache;
            let (in_spans, behind) = self.free_of(&rooms);
            (*free, *tails) = (*free + in_spans, *tails + behind);
        }
        sums
    }

    /// Bytes free in the spans of rooms, and behind the last block of each.
    fn free_of(&self, rooms: &Rooms) -> (u64, u64) {
        let (mut free, mut tails) = (0, 0);
        for class in SizeClass::all() {
            let Some(spans) = self.spans_seen(rooms, class) else { continue };
            let (shape, bytes) = (class.shape(), class.block_bytes());
            free += (spans.free_blocks * bytes) as u64;
            tails += (spans.spans * (shape.span_bytes() - shape.blocks as usize * bytes)) as u64;
        }
        (free, tails)
    }

    /// Bytes of a heap's spans that are in memory.
    pub fn resident(&self, os: &O, pages: &Pages<O>, id: HeapId) -> u64 {
        let mut bytes = 0;
        if self.find(id).is_none() {
            return 0;
        }
        pages.each_span(|_, span| {
            if span.heap.get() == id.number() {
                let length = span.bytes();
                let start = pages.address_of(span.start.get());
                bytes += os.resident_bytes(start, length).unwrap_or(length) as u64;
            }
        });
        bytes
    }

    /// Spans of a class that a heap has.
    pub fn spans_of(&self, pages: &Pages<O>, id: HeapId, class: SizeClass) -> u64 {
        let mut count = 0;
        pages.each_span(|_, span| {
            count += u64::from(span.heap.get() == id.number() && span.class() == class);
        });
        if self.find(id).is_some() { count } else { 0 }
    }

    /// Calls `take` with address and bytes of each block of a heap that is in use, with no lock held. Blocks that come or go
    /// meanwhile may be among them or not.
    pub fn each_block(&self, pages: &Pages<O>, id: HeapId, mut take: impl FnMut(usize, usize)) {
        if self.find(id).is_none() {
            return;
        }
        pages.each_span(|_, span| {
            if span.heap.get() != id.number() {
                return;
            }
            let (class, start) = (span.class(), pages.address_of(span.start.get()));
            if class.is_small() {
                let in_use = (0..span.blocks() as usize).filter(|index| !span.is_free(*index));
                in_use.for_each(|index| take(start + index * class.block_bytes(), class.block_bytes()));
            } else {
                take(start, span.usable());
            }
        });
    }

    /// Calls `take` with the name of each heap.
    pub fn each(&self, mut take: impl FnMut(HeapId)) {
        for (number, tenant) in self.all() {
            if !tenant.is_over() {
                take(self.id_of(number));
            }
        }
    }

    /// The name that a heap was given, ended by zeros.
    pub fn name(&self, id: HeapId) -> [u8; NAME_BYTES] {
        let mut name = [0; NAME_BYTES];
        if let Some(tenant) = self.find(id) {
            name.iter_mut().zip(&tenant.name).for_each(|(byte, place)| *byte = place.load(Ordering::Relaxed));
            if tenant.life().state_still_in(id.generation()).is_none_or(super::is_over) {
                return [0; NAME_BYTES];
            }
        }
        name
    }
}

/// A count of what waits. A block that was handed over while it came counts for the one heap as it comes and for the other as it goes.
fn waiting(count: &crate::base::sync::AtomicU64) -> u64 {
    let count = count.load(Ordering::Acquire);
    if (count as i64) < 0 { 0 } else { count }
}
