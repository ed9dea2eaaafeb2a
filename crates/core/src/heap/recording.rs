//! The recording of the program's calls and their blocks, for a tool outside (docs/design/record.md): when it begins and ends,
//! and the events of a call: one behind an allocation, one before a free, and two for a realloc.
//!
//! While it lasts the fast paths are off: each call comes by, and is served from the cache of its virtual CPU all the same
//! (`pop_short`, `free_short`).

use crate::base::sync::Ordering;
use crate::heap::Heap;
use crate::observe::Wanted;
use crate::observe::layout::{Kind, LOW};
use crate::os::Os;

/// Why it does not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotRecorded {
    /// Another tool is at it.
    Already,
    NoMemory,
    /// By a policy that does more than hand blocks out.
    Policy,
}

impl<O: Os> Heap<O> {
    /// One thread at a time comes here and to `end_recording`. Called inside. Its number.
    pub(crate) fn begin_recording(&self, wanted: &Wanted) -> Result<u32, NotRecorded> {
        if self.pages.keeps_marks() {
            return Err(NotRecorded::Policy);
        }
        if self.recording.is_on() {
            if !self.recording.is_over(&self.os) {
                return Err(NotRecorded::Already);
            }
            self.end_recording();
        }
        if !self.is_started() || !self.recording.prepare(&self.os, wanted) {
            return Err(NotRecorded::NoMemory);
        }
        self.recording.closed.store(self.cache.close_front(&self.os), Ordering::Relaxed);
        self.recording.open();
        Ok(self.recording.number())
    }

    pub(crate) fn end_recording(&self) {
        self.recording.close(&self.os);
        if self.recording.closed.swap(false, Ordering::Relaxed) && !self.is_aborting() {
            self.cache.open_front();
            self.settle_sampling();
        }
    }
}

/// The events.
impl<O: Os> Heap<O> {
    /// A block was allocated, if it was.
    #[inline(always)]
    pub(crate) fn begun(&self, kind: Kind, block: usize, bytes: usize, align: usize) -> usize {
        if self.recording.is_on() {
            self.record_begin(kind, block, bytes, align);
        }
        block
    }

    /// A block is about to be freed.
    #[inline(always)]
    pub(crate) fn ends(&self, address: usize) {
        if self.recording.is_on() && address != 0 && self.recording.is_sampled(address) {
            self.record(Kind::Free, address, 0);
        }
    }

    /// A block is resized, and may move.
    #[inline(always)]
    pub(crate) fn resized(
        &self,
        address: usize,
        align: usize,
        bytes: usize,
        resize: impl Fn() -> usize,
    ) -> usize {
        if self.recording.is_on() { self.record_resize(address, align, bytes, &resize) } else { resize() }
    }

    #[cold]
    #[inline(never)]
    fn record_begin(&self, kind: Kind, block: usize, bytes: usize, align: usize) {
        if block != 0 && self.recording.is_sampled(block) {
            let log2 = u64::from(align.checked_ilog2().unwrap_or(0));
            self.record(kind, block, log2 << 56 | bytes as u64 & LOW);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_resize(&self, address: usize, align: usize, bytes: usize, resize: &dyn Fn() -> usize) -> usize {
        let size = bytes as u64 & LOW;
        let is_told = address != 0 && self.recording.is_sampled(address);
        if is_told {
            self.record(Kind::ReallocFrom, address, size);
        }
        let block = resize();
        if is_told {
            let kind = match block {
                0 => Kind::ReallocFailed,
                _ if self.recording.is_sampled(block) => Kind::ReallocTo,
                _ => Kind::ReallocAway,
            };
            self.record(kind, block, size);
        } else {
            let kind = if align > crate::class::MIN_ALIGN { Kind::Aligned } else { Kind::Malloc };
            self.record_begin(kind, block, bytes, align);
        }
        block
    }

    /// A block got another size where it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_in_place(&self, address: usize, bytes: usize) {
        if self.recording.is_sampled(address) {
            self.record(Kind::ReallocFrom, address, bytes as u64 & LOW);
            self.record(Kind::ReallocTo, address, bytes as u64 & LOW);
        }
    }

    #[cold]
    #[inline(never)]
    fn record(&self, kind: Kind, address: usize, size: u64) {
        if !self.recording.put(&self.os, self.cache.place(), kind, address, size) {
            self.see_to_recording();
        }
    }

    /// Nobody is heard of any more: it ends. A signal handler leaves that to the next event.
    #[cold]
    #[inline(never)]
    fn see_to_recording(&self) {
        self.inside(|_| {
            self.mailbox.alone(|| {
                if self.recording.is_on() && self.recording.is_over(&self.os) {
                    self.end_recording();
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Blocks;
    use crate::os::Linux;
    use crate::os::fake::Fake;

    const SECOND: u64 = 1_000_000_000;

    fn wanted(patience: u64) -> Wanted {
        Wanted { clock: 0, sample: 1, patience, number_at: 0 }
    }

    fn churn<O: Os>(heap: &Heap<O>) {
        let blocks: Vec<usize> = (0..100).map(|bytes| take(heap, 16 + bytes)).collect();
        blocks.into_iter().for_each(|block| give(heap, block));
    }

    /// As `exports` does it.
    fn take(blocks: &impl Blocks, bytes: usize) -> usize {
        blocks.allocate(bytes)
    }

    fn give(blocks: &impl Blocks, block: usize) {
        blocks.free(block);
    }

    #[test]
    fn the_fast_paths_are_off_while_it_lasts_and_on_again_behind_it() {
        let heap = Box::new(Heap::new(Linux::new()));
        churn(&heap);
        let was_on = heap.cache.front.is_on();
        heap.begin_recording(&wanted(60 * SECOND)).unwrap();
        assert_eq!(heap.begin_recording(&wanted(60 * SECOND)), Err(NotRecorded::Already));
        assert!(!heap.cache.front.is_on());
        let before = heap.recording.events();
        churn(&heap);
        assert_eq!(heap.recording.events() - before, 200);
        heap.end_recording();
        assert_eq!((heap.cache.front.is_on(), heap.recording.is_on()), (was_on, false));
        churn(&heap);
        assert_eq!(heap.recording.events() - before, 200);
        assert_eq!(heap.begin_recording(&wanted(60 * SECOND)), Ok(2));
    }

    #[test]
    fn it_ends_with_the_first_event_behind_its_time() {
        let heap = Box::new(Heap::new(Fake::default()));
        churn(&heap);
        heap.begin_recording(&wanted(SECOND)).unwrap();
        heap.os().clock.fetch_add(SECOND / 2, Ordering::Relaxed);
        churn(&heap);
        assert!(heap.recording.is_on());
        heap.os().clock.fetch_add(SECOND, Ordering::Relaxed);
        churn(&heap);
        assert!(!heap.recording.is_on(), "the tool was not heard of");
        // Another may begin also before an event has ended the one before.
        heap.begin_recording(&wanted(SECOND)).unwrap();
        heap.os().clock.fetch_add(2 * SECOND, Ordering::Relaxed);
        assert_eq!(heap.begin_recording(&wanted(SECOND)), Ok(3));
    }

    #[test]
    fn a_handler_inside_a_slow_path_leaves_the_end_to_a_later_event() {
        let heap = Box::new(Heap::new(Fake::default()));
        churn(&heap);
        heap.begin_recording(&wanted(SECOND)).unwrap();
        heap.os().clock.fetch_add(2 * SECOND, Ordering::Relaxed);
        let entry = heap.enter_for_test();
        give(&*heap, take(&*heap, 100));
        assert!(heap.recording.is_on());
        drop(entry);
        give(&*heap, take(&*heap, 100));
        assert!(!heap.recording.is_on());
    }

    #[test]
    fn who_finds_no_room_for_long_goes_on_and_is_counted() {
        let heap = Box::new(Heap::new(Fake::default()));
        churn(&heap);
        heap.begin_recording(&wanted(u64::MAX)).unwrap();
        for _ in 0..heap.recording.room() {
            give(&*heap, take(&*heap, 100));
        }
        assert!(heap.recording.lost() > 0, "nobody reads");
        give(&*heap, take(&*heap, 100));
        heap.end_recording();
        churn(&heap);
    }

    #[test]
    fn without_memory_for_the_rings_nothing_is_recorded() {
        let heap = Box::new(Heap::new(Fake::default()));
        churn(&heap);
        heap.os().refuse_after(crate::os::fake::Request::Map, 0);
        assert_eq!(heap.begin_recording(&wanted(SECOND)), Err(NotRecorded::NoMemory));
        churn(&heap);
    }
}
