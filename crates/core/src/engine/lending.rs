//! Children that share this memory: of `vfork`, and of `clone` with CLONE_VM and no thread area of their own.
//!
//! Such a child is its parent's thread once more: the same area, the same number in locks and among those in slow
//! paths. While the parent waits for it that is as if a function were called, but for the sequences: the kernel keeps no
//! registration for a child. So the parent takes its own back before, and the child goes to the locked caches.
//! `docs/design/restartable-sequences.md` tells the whole.

use super::Engine;
use crate::base::sync::Ordering;
use crate::os::{Os, Registered};

/// The state of a thread before it lent its memory. Two words, since the stack around a `vfork` is the child's.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Lent {
    registered: Registered,
    /// Of the process that lent the memory to this one.
    lender: u32,
    state: u32,
}

/// Bits of `state`: it was in a slow path, it aborted, it had calls that it alone does not ask, its registration could not be
/// taken back.
const INSIDE: u32 = 1;
const ABORTING: u32 = 2;
const REFUSED: u32 = 4;
const COPIED: u32 = 1 << 31;

impl Lent {
    /// Whether a child must not share the memory, but gets a copy. It is the highest bit.
    pub fn is_copied(&self) -> bool {
        self.state & COPIED != 0
    }
}

impl<O: Os> Engine<O> {
    /// For a thread that is about to make a child that shares its memory and its area, and to wait for the child's end or
    /// exec; `take_back` ends it. A thread that does not wait (`waits`) stays as it is then, and both stay under locks.
    /// `is_parent`: the child will see this process as its parent. `is_renumbered`: it may have this process's number in a namespace.
    pub fn lend(&self, is_parent: bool, waits: bool, is_renumbered: bool) -> Lent {
        self.os.unseen(|| {
            let area = self.cache.behind.area_in_use();
            let registered = area.map_or(Registered::Never, |area| self.os.suspend_sequences(area));
            let inside = if self.is_inside() { INSIDE } else { 0 };
            let aborting = if self.is_aborting_itself() { ABORTING } else { 0 };
            let refused = if self.os.has_own_refusals() { REFUSED } else { 0 };
            let copied = if registered == Registered::Kept { COPIED } else { 0 };
            let lender = self.os.lend(is_parent && copied == 0, waits && copied == 0, is_renumbered);
            Lent { registered, lender, state: inside | aborting | refused | copied }
        })
    }

    /// The child has a program of its own by now, or has ended, in whatever way and place; or there is none.
    pub fn take_back(&self, lent: Lent) {
        self.os.unseen(|| {
            if lent.state & REFUSED == 0 {
                // A filter of the child's refused these.
                self.os.forget_own_refusals();
            }
            self.os.set_lender(lent.lender);
            if lent.state & ABORTING == 0 && self.is_aborting_itself() {
                // The child did, in this heap, and has said why.
                self.os.abort();
            }
            if lent.state & INSIDE == 0 && self.is_inside() {
                // It was ended there.
                self.leave_for_child();
            }
            if let Some(area) = self.cache.behind.area_in_use() {
                self.os.resume_sequences(area, lent.registered);
            }
        });
    }

    /// Whether this process is such a child: what it does for its process it does not do for the heap's.
    pub fn is_guest(&self) -> bool {
        self.process.is_anothers(&self.os)
    }

    fn is_aborting_itself(&self) -> bool {
        self.aborting_thread.load(Ordering::Relaxed) == O::thread_id()
    }
}

#[cfg(test)]
mod tests {
    use crate::heap::Heap;
    use crate::os::fake::Fake;

    #[test]
    fn a_child_that_was_ended_in_a_slow_path_leaves_its_parent_outside() {
        let heap = Box::new(Heap::new(Fake::default()));
        let lent = heap.lend(true, true, false);
        core::mem::forget(heap.enter_for_test());
        assert!(heap.is_inside());
        heap.take_back(lent);
        assert!(!heap.is_inside());
    }

    #[test]
    fn a_handler_in_a_slow_path_that_makes_a_child_leaves_its_thread_inside() {
        let heap = Box::new(Heap::new(Fake::default()));
        let entry = heap.enter_for_test();
        let lent = heap.lend(true, true, false);
        heap.take_back(lent);
        assert!(heap.is_inside());
        drop(entry);
    }

    #[test]
    fn a_parent_ends_whose_child_misused_the_heap() {
        let mut os = Fake::default();
        (os.panics, os.quiet) = (true, true);
        let heap = Box::new(Heap::new(os));
        let lent = heap.lend(true, true, false);
        let block = heap.allocate(300_000);
        heap.free(block);
        let child = std::panic::AssertUnwindSafe(|| heap.free(block));
        assert!(std::panic::catch_unwind(child).is_err());
        let parent = std::panic::AssertUnwindSafe(|| heap.take_back(lent));
        assert!(std::panic::catch_unwind(parent).is_err(), "it is the same heap");
        // A handler of SIGABRT starts a program.
        let lent = heap.lend(true, true, false);
        heap.take_back(lent);
    }
}
