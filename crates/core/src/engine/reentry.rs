//! Whether this thread is inside a slow path: so that a signal handler that interrupted one of its own thread can tell, and
//! does not wait for the locks that its thread holds.
//!
//! Each thread has a word for that (`Os::inside`), which says in which heap. Nobody else reads or writes it: threads in
//! slow paths cost each other nothing, however many there are. A child process begins with a copy of the words; that
//! of its one thread is right, also where a handler forked inside a slow path, and a new thread's is 0. `slow_path` goes
//! through here; a handler is served by `emergency`.

use super::Engine;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::os::Os;
use core::marker::PhantomData;
use core::sync::atomic::compiler_fence;

/// This thread is in a slow path until the value is dropped.
pub struct Entry {
    word: &'static AtomicUsize,
    /// The heap that a handler interrupted which uses this one; 0: none. A handler that interrupts that again takes this thread
    /// to be outside the first: a program has one heap of each library.
    before: usize,
    /// The word is this thread's.
    stays: PhantomData<*const ()>,
}

/// This thread is in a slow path of a heap that does not abort: it may take locks. A function that takes locks asks for it.
#[derive(Clone, Copy)]
pub struct Inside<'a>(PhantomData<&'a Entry>);

impl Entry {
    pub(super) fn inside(&self) -> Inside<'_> {
        Inside(PhantomData)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // A handler that comes now finds the thread inside, or its locks free.
        compiler_fence(Ordering::Release);
        self.word.store(self.before, Ordering::Relaxed);
    }
}

impl<O: Os> Engine<O> {
    /// Notes that this thread goes into a slow path; none where it is in one already, which only a signal handler can see.
    ///
    /// Relaxed order is enough: a handler sees what its thread wrote, in the order that `compiler_fence` keeps.
    #[inline]
    pub(super) fn enter(&self) -> Option<Entry> {
        let word = O::inside();
        let before = word.load(Ordering::Relaxed);
        if before == self.address() {
            return None;
        }
        word.store(self.address(), Ordering::Relaxed);
        // The caller takes locks from here on: a handler that finds one held by its thread finds the thread noted.
        compiler_fence(Ordering::Acquire);
        Some(Entry { word, before, stays: PhantomData })
    }

    /// Whether this thread is in a slow path that a signal handler interrupted.
    #[inline]
    pub fn is_inside(&self) -> bool {
        O::inside().load(Ordering::Relaxed) == self.address()
    }

    /// A child that ran on this thread's word was ended in a slow path.
    pub(crate) fn leave_for_child(&self) {
        O::inside().store(0, Ordering::Relaxed);
    }

    #[inline]
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

#[cfg(test)]
mod tests {
    use crate::heap::Heap;
    use crate::os::fake::Fake;
    use std::sync::Barrier;

    #[test]
    fn a_thread_enters_a_slow_path_once_at_a_time() {
        let heap = Box::new(Heap::new(Fake::default()));
        let entry = heap.enter_for_test();
        assert!(entry.is_some() && heap.is_inside() && heap.enter_for_test().is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(heap.enter_for_test().is_some(), "another thread may"));
        });
        drop(entry);
        assert!(!heap.is_inside() && heap.enter_for_test().is_some());
    }

    #[test]
    fn a_thread_is_inside_one_heap_and_not_inside_another() {
        let heaps = [Fake::default(), Fake::default()].map(|os| Box::new(Heap::new(os)));
        let outer = heaps[0].enter_for_test();
        let inner = heaps[1].enter_for_test();
        assert!(outer.is_some() && inner.is_some());
        drop(inner);
        assert!(heaps[0].is_inside() && !heaps[1].is_inside());
        drop(outer);
        assert!(!heaps[0].is_inside());
    }

    #[test]
    fn any_number_of_threads_is_inside_at_once_and_none_waits_for_another() {
        const THREADS: usize = 4000;
        let heap = Box::new(Heap::new(Fake::default()));
        let all = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                let inside = || {
                    let entry = heap.enter_for_test();
                    all.wait();
                    assert!(entry.is_some() && heap.is_inside());
                };
                std::thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn_scoped(scope, inside)
                    .expect("a thread");
            }
        });
    }
}
