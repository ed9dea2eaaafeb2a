//! The option `double_free_check`: a second free of a block is stopped at the call, whichever thread makes
//! it.
//!
//! The bit that says where a block starts is then set by malloc and cleared by free, not by the spans: a
//! block in any cache is not allocated, so its second free finds the bit cleared. The bit has to change in one
//! step, which the fast path cannot afford (docs/decisions/0014): it is off, and every call comes here by way
//! of the slow paths.

use crate::class::SizeClass;
use crate::heap::Heap;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// A cached block by a way that needs no lock of the heap; 0 where there is none.
    #[inline]
    pub(crate) fn pop_short(&self, class: SizeClass) -> usize {
        if self.pages.is_allocated_by_call() {
            self.handed_out(self.cache.pop_behind(class))
        } else if self.cache.sampling.counts_each() || self.recording.is_on() {
            self.without_key(class, self.cache.pop_behind(class))
        } else {
            self.without_key(class, self.cache.pop_locked(class))
        }
    }

    /// Puts a small block into the cache by a way that needs no lock of the heap; false where there is none.
    #[inline]
    pub(crate) fn free_short(&self, address: usize) -> bool {
        let push = |class| self.push_with_key(class, address, || self.cache.push_behind(class, address));
        let is_put = |class: SizeClass| class.is_small() && push(class);
        !self.is_aborting() && self.pages.class_of_allocated(address).is_some_and(is_put)
    }

    /// Takes a small block back; false where the program does not have one that starts at `address`: the
    /// ordinary way says what that means.
    pub(crate) fn free_checked(&self, address: usize) -> bool {
        if self.is_aborting() {
            return false;
        }
        let Some(class) = self.pages.class_of_allocated(address) else { return false };
        if !class.is_small() || !self.pages.take_back(address) {
            return false;
        }
        if self.cache.push_behind(class, address) {
            return true;
        }
        match self.in_slow_path(|| self.cache.spill(self.below_cache(), class, address)) {
            Some(outcome) => self.obeyed(outcome),
            None => {
                // Freed once more when the slow path that a signal handler interrupted has ended.
                self.pages.hand_out(address);
                self.free_in_emergency(address);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Origin;
    use crate::os::Linux;
    use crate::os::fake::Fake;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn checked<O: Os>(os: O) -> Box<Heap<O>> {
        let heap = Box::new(Heap::new(os));
        heap.options.set(b"double_free_check", b"on", Origin::Environment).unwrap();
        heap
    }

    fn patient() -> Fake {
        let mut os = Fake::default();
        (os.panics, os.quiet) = (true, true);
        os
    }

    fn aborts(heap: &Heap<Fake>, address: usize) -> bool {
        catch_unwind(AssertUnwindSafe(|| heap.free(address))).is_err()
    }

    fn second_free_is_stopped_after(others: usize) -> bool {
        let heap = checked(patient());
        let block = heap.allocate(64);
        let between: Vec<_> = (0..others).map(|_| heap.allocate(64)).collect();
        heap.free(block);
        between.into_iter().for_each(|other| heap.free(other));
        aborts(&heap, block)
    }

    #[test]
    fn a_second_free_is_stopped_at_the_call_however_many_frees_lie_between() {
        assert!([0, 1, 2, 10, 5000].into_iter().all(second_free_is_stopped_after));
    }

    #[test]
    fn a_block_that_only_a_cache_had_cannot_be_freed() {
        let heap = checked(patient());
        let (first, second) = (heap.allocate(64), heap.allocate(64));
        assert_eq!(second - first, 64, "the cache gives neighbours in order");
        assert!(aborts(&heap, second + 64));
    }

    #[test]
    fn a_second_free_is_stopped_also_where_a_handler_made_the_first() {
        let heap = checked(patient());
        heap.set_option(b"cache_limit", b"0").unwrap();
        let block = heap.allocate(64);
        let entry = heap.enter_slow_path();
        heap.free(block);
        assert!(heap.pages.class_of_allocated(block).is_some(), "no place for it: left for later");
        drop(entry);
        heap.audit();
        assert!(heap.pages.class_of_allocated(block).is_none(), "freed");
        assert!(aborts(&heap, block));
    }

    #[test]
    fn of_threads_that_free_the_same_block_one_succeeds() {
        let heap = checked(Linux::new());
        let blocks: Vec<_> = (0..20_000).map(|_| heap.allocate(32)).collect();
        let taken = || blocks.iter().filter(|block| heap.pages.take_back(**block)).count();
        let (mine, theirs) = std::thread::scope(|scope| {
            let other = scope.spawn(taken);
            (taken(), other.join().unwrap())
        });
        assert_eq!(mine + theirs, blocks.len());
    }

    #[test]
    fn the_fast_path_is_off_and_blocks_still_come_from_the_cache_of_the_virtual_cpu() {
        let heap = checked(Linux::new());
        let block = heap.allocate(64);
        heap.free(block);
        assert_eq!(heap.allocate_fast(64), 0);
        assert!((0..100).any(|_| {
            let again = heap.allocate(64);
            heap.free(again);
            again == block
        }));
    }
}
