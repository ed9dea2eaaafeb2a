//! Heaps of tenants for those who watch: samples of a profile and for tracers, and events of a recording.
//!
//! A sampled block of such a heap is a large one of it, so that its free comes by. The blocks that go with a heap are not freed
//! one by one: those who watch are told of them when the heap ends.

use crate::base::Fresh;
use crate::cache::Counted;
use crate::class::{MIN_ALIGN, SizeClass};
use crate::heap::Heap;
use crate::heap::sample::name_of;
use crate::os::Os;
use crate::tenants::{Ending, HeapId};

impl<O: Os> Heap<O> {
    /// A block of a heap that is a sample, where one is due; none where this is to be an ordinary one.
    #[inline]
    pub(super) fn sample_of_tenant(&self, id: HeapId, align: usize, bytes: usize) -> Option<Fresh> {
        if self.cache.sampling.counts_each() { self.sample_if_due(id, align, bytes) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn sample_if_due(&self, id: HeapId, align: usize, bytes: usize) -> Option<Fresh> {
        let bytes = bytes.max(1);
        if !self.is_watched() || self.count_request(bytes, align) != Counted::Sample {
            return None;
        }
        self.in_slow_path(|_| {
            let class = SizeClass::for_aligned(bytes, align);
            let run = class.map_or(bytes, SizeClass::block_bytes);
            // A heap without room for a large block may have some for a small one.
            let fresh = self.tenants.take_large(&self.store, id, run, align).ok()?;
            let fresh = self.as_ordinary(fresh, class);
            self.write_down_of_tenant(id, fresh.address, bytes);
            Some(fresh)
        })
        .flatten()
    }

    /// A heap is about to end so, or to lose all its blocks, and gives none any more. Called inside, with no lock held.
    #[inline]
    pub(super) fn note_end_of_heap(&self, id: HeapId, how: Ending) {
        if how == Ending::FreeAll && (self.recording.is_on() || self.probing.has_announced()) {
            self.tenants.each_block(&self.pages, id, |address, _| {
                self.ends(address);
                self.probing.freed(address);
            });
        }
        match how {
            Ending::FreeAll => self.profile.remove_heap(id.0),
            Ending::HandOver => self.profile.hand_over(id.0, name_of(self.tenants.above(id))),
            Ending::Drain | Ending::Zombie => {}
        }
    }

    /// A large block of a heap got another size where it is: for watchers a free and an allocation.
    pub(super) fn note_resized_of_tenant(&self, id: HeapId, address: usize, bytes: usize) {
        if !self.is_watched() || self.pages.class_of_allocated(address).is_some() {
            return;
        }
        self.note_freed(address);
        if self.count_request(bytes, MIN_ALIGN) == Counted::Sample {
            self.in_slow_path(|_| self.write_down_of_tenant(id, address, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::heap::{Blocks, Ending, Heap, HeapId, Hooks, Made, Refusal};
    use crate::observe::Wanted;
    use crate::os::fake::Fake;
    use crate::os::{Linux, Os};

    const PLAIN: Made<'static> =
        Made { name: b"tenant", parent: HeapId::OWN, limit: None, on_limit: None, argument: 0 };

    fn profiled() -> Box<Heap<Fake>> {
        let heap = Box::new(Heap::with_hooks(Fake::default(), Hooks { before_guards: None, unwind: |_| 0 }));
        assert!(heap.start_profile(4096));
        heap
    }

    fn samples<O: Os>(heap: &Heap<O>) -> u64 {
        heap.profile_stats().live_samples
    }

    #[test]
    fn blocks_of_a_heap_are_samples_too_by_its_functions_and_in_a_scope() {
        let heap = profiled();
        for scoped in [false, true] {
            let id = heap.make_heap(PLAIN).unwrap();
            let before = if scoped { heap.push_heap(id) } else { None };
            let take = |bytes| match scoped {
                true => Blocks::allocate(&*heap, bytes),
                false => heap.allocate_in(id, 16, bytes).unwrap(),
            };
            let blocks: Vec<usize> = (0..2000).map(|step| take(step % 500 + 1)).collect();
            let bytes: u64 = (0..2000u64).map(|step| step % 500 + 1).sum();
            let stats = heap.profile_stats();
            let seen = stats.live_bytes as f64 / bytes as f64;
            assert!(samples(&heap) > 60 && (0.6..1.6).contains(&seen), "{stats:?} for {bytes}");
            assert!(blocks.iter().all(|block| heap.owner_heap(*block) == Some(id)));
            blocks.into_iter().for_each(|block| Blocks::free(&*heap, block));
            assert_eq!(samples(&heap), 0);
            heap.push_heap(before.unwrap_or(HeapId::OWN));
            heap.verify();
        }
    }

    #[test]
    fn samples_go_with_their_heap_or_to_the_one_above_it() {
        let heap = profiled();
        let parent = heap.make_heap(PLAIN).unwrap();
        for how in [Ending::FreeAll, Ending::HandOver] {
            let id = heap.make_heap(Made { parent, ..PLAIN }).unwrap();
            (0..1000).for_each(|_| _ = heap.allocate_in(id, 16, 400).unwrap());
            let before = samples(&heap);
            assert!(before > 30);
            heap.end_heap(id, how).unwrap();
            assert_eq!(samples(&heap), if how == Ending::FreeAll { 0 } else { before });
        }
        heap.reset_heap(parent).unwrap();
        assert_eq!(samples(&heap), 0, "they were the parent's");
        heap.verify();
    }

    #[test]
    fn samples_stay_where_a_heap_does_not_end_and_go_where_one_that_drains_is_ended() {
        let heap = profiled();
        let outer = heap.make_heap(PLAIN).unwrap();
        let inner = heap.make_heap(Made { parent: outer, ..PLAIN }).unwrap();
        (0..1000).for_each(|_| _ = heap.allocate_in(outer, 16, 400).unwrap());
        let before = samples(&heap);
        for how in [Ending::FreeAll, Ending::HandOver] {
            assert_eq!(heap.end_heap(outer, how), Err(Refusal::HasChildren));
            assert_eq!(samples(&heap), before);
        }
        heap.end_heap(inner, Ending::FreeAll).unwrap();
        heap.end_heap(outer, Ending::Drain).unwrap();
        assert_eq!(samples(&heap), before, "its blocks live");
        heap.end_heap(outer, Ending::FreeAll).unwrap();
        assert_eq!(samples(&heap), 0);
        heap.verify();
    }

    #[test]
    fn a_sample_that_gets_another_size_where_it_is_counts_with_that() {
        let heap = profiled();
        let id = heap.make_heap(PLAIN).unwrap();
        let block = heap.allocate_in(id, 16, 1 << 20).unwrap();
        assert_eq!(heap.profile_stats().live_bytes, 1 << 20);
        let grown = Blocks::reallocate(&*heap, block, 8 << 20);
        assert_eq!(heap.owner_heap(grown), Some(id));
        let seen = heap.profile_stats().live_bytes;
        assert_eq!(seen, 8 << 20, "moved: {}", grown != block);
        assert!(heap.resize_in_place(grown, 16, 3 << 20));
        assert_eq!(heap.profile_stats().live_bytes, 3 << 20);
        Blocks::free(&*heap, grown);
        assert_eq!(samples(&heap), 0);
    }

    #[test]
    fn a_heap_without_room_for_samples_gives_blocks_all_the_same() {
        let heap = profiled();
        let id = heap.make_heap(Made { limit: Some(1 << 16), ..PLAIN }).unwrap();
        let given = (0..600).filter(|_| heap.allocate_in(id, 16, 100).is_ok()).count();
        assert!(given > 500, "{given}");
        heap.verify();
    }

    #[test]
    fn a_recording_has_the_blocks_of_a_heap_and_their_end() {
        let heap = Box::new(Heap::new(Linux::new()));
        let id = heap.make_heap(PLAIN).unwrap();
        let churn = |count: usize| {
            for step in 0..count {
                let block = heap.take_block_of(id, 16, step % 300 + 1).unwrap();
                Blocks::free(&*heap, block);
            }
        };
        churn(6000);
        heap.begin_recording(&Wanted { clock: 0, sample: 1, patience: u64::MAX, number_at: 0 }).unwrap();
        let events = || heap.recording.events();
        churn(100);
        assert_eq!(events(), 200);
        let before = heap.push_heap(id).unwrap();
        (0..100).for_each(|step| Blocks::free(&*heap, Blocks::allocate(&*heap, step + 1)));
        heap.push_heap(before);
        assert_eq!(events(), 400);
        (0..50).for_each(|_| _ = heap.take_block_of(id, 16, 50).unwrap());
        heap.end_heap(id, Ending::FreeAll).unwrap();
        assert_eq!(events(), 500, "blocks that went with their heap are freed");
        heap.end_recording();
    }
}
