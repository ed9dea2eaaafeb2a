//! Any sequence of calls with children in between: forks by the handlers, and processes that come about while
//! another thread holds locks, which is then no thread of theirs.

use arbitrary::Arbitrary;

use crate::support::{Oracle, Step as Call, TestHeap, steps};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Call(Call),
    /// The handlers, as in the parent.
    Fork,
    /// The handlers, as in the child.
    Child,
    /// A child while another thread held every lock.
    Orphan,
    /// The same in a signal handler inside a slow path.
    OrphanOfAHandler,
}

fn die_with_all_locks(heap: &TestHeap) {
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(heap.before_fork()));
    });
}

pub fn run(input: &[u8]) {
    let (heap, mut oracle) = (TestHeap::new(), Oracle::default());
    for step in steps::<Step>(input, 200) {
        match step {
            Step::Call(call) => oracle.step(&heap, call),
            // SAFETY, here and below: this thread called `before_fork`, or no other thread is left.
            Step::Fork => unsafe {
                assert!(heap.before_fork());
                assert!(!heap.before_fork(), "a handler that forks in between takes nothing");
                heap.after_fork_in_parent();
            },
            Step::Child => unsafe {
                assert!(heap.before_fork());
                heap.after_fork_in_child();
            },
            Step::Orphan => unsafe {
                die_with_all_locks(&heap);
                heap.repair_for_test();
            },
            Step::OrphanOfAHandler => unsafe {
                assert!(heap.before_fork());
                assert!(!heap.before_fork());
                heap.after_unlocked_fork_in_child();
                let block = heap.allocate(100);
                assert_ne!(block, 0, "the handler is served");
                heap.free(block);
                heap.after_fork_in_parent();
            },
        }
    }
    oracle.end(&heap);
}
