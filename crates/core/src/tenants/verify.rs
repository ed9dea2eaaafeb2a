//! Heaps and their spans, compared: for tests.

use super::Tenants;
use crate::base::sync::Ordering;
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::{AnyLock, Os};
use crate::pages::Pages;

impl<O: Os> Tenants<O> {
    /// Panics where heaps, their lists and the spans contradict each other.
    pub fn verify(&self, pages: &Pages<O>) {
        let mut lists = 0;
        for (number, tenant) in self.all() {
            let rooms = tenant.rooms.lock();
            lists += rooms.lists.iter().filter(|number| **number != 0).count() as u32;
            let (mut blocks, mut bytes, mut large) = (0, 0, 0);
            pages.each_span(|_, span| {
                if span.heap.get() != number {
                } else if span.class().is_small() {
                    let live = u64::from(span.blocks() - span.free.get());
                    blocks += live;
                    bytes += live * span.class().block_bytes() as u64;
                } else {
                    large += span.units.get() as u64 * UNIT_BYTES as u64;
                }
            });
            assert_eq!((rooms.live_blocks, rooms.live_bytes), (blocks, bytes), "blocks of heap {number}");
            assert_eq!(rooms.large_bytes, large, "large blocks of heap {number}");
            for class in SizeClass::all() {
                match self.spans_seen(&rooms, class) {
                    Some(spans) => spans.verify(pages, class),
                    None => pages.each_span(|_, span| {
                        assert!((span.heap.get(), span.class()) != (number, class), "a span has its lists");
                    }),
                }
            }
        }
        assert_eq!(lists, self.lists_in_use(), "lists are some heap's, or unused");
        for (number, tenant) in self.all() {
            let mut bytes = 0;
            pages.each_span(|_, span| {
                let is_below = |above: u32| self.upwards(above).any(|(at, _)| at == number);
                if span.heap.get() != 0 && is_below(span.heap.get()) {
                    bytes += span.bytes();
                }
            });
            assert_eq!(tenant.bytes.load(Ordering::Relaxed), bytes, "bytes of heap {number}");
        }
    }

    pub fn each_lock(&self, take: &mut dyn FnMut(&dyn AnyLock)) {
        self.all().for_each(|(_, tenant)| take(&tenant.rooms));
        self.each_cache(|cache| cache.each_lock(take));
        take(&self.registry);
    }
}
