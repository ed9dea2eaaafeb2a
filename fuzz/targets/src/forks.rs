//! Any sequence of calls with children in between: processes that come about while other threads hold locks,
//! which are then no threads of theirs.

use arbitrary::Arbitrary;

use crate::support::{Oracle, Step as Call, TestHeap, steps};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Call(Call),
    /// A child while nobody held a lock.
    Child,
    /// A child while another thread held every lock.
    ChildOfThreads,
    /// A child of a signal handler inside a slow path, while another thread held every lock; the handler allocates in it.
    ChildOfAHandler,
}

fn die_with_all_locks(heap: &TestHeap) {
    std::thread::scope(|scope| {
        scope.spawn(|| heap.hold_for_test());
    });
}

pub fn run(input: &[u8]) {
    let (heap, mut oracle) = (TestHeap::new(), Oracle::default());
    for step in steps::<Step>(input, 200) {
        match step {
            Step::Call(call) => oracle.step(&heap, call),
            // SAFETY, here and below: no other thread is left.
            Step::Child => unsafe { heap.repair_for_test() },
            Step::ChildOfThreads => unsafe {
                die_with_all_locks(&heap);
                heap.repair_for_test();
            },
            Step::ChildOfAHandler => heap.inside_for_test(|| {
                die_with_all_locks(&heap);
                // SAFETY: no other thread is left.
                unsafe { heap.repair_for_test() };
                let block = heap.allocate(100);
                assert_ne!(block, 0, "the handler is served");
                heap.free(block);
            }),
        }
    }
    oracle.end(&heap);
}
