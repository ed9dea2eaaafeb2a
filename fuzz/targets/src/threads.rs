//! Calls by several threads on one heap, which hand blocks to each other.

use std::sync::{Mutex, MutexGuard, TryLockError};

use arbitrary::Arbitrary;

use crate::support::{Size, TestHeap, steps};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Allocate(Size),
    Resize(u8, Size),
    Free(u8),
    /// Puts a block where another thread finds it.
    Give(u8),
    /// Takes what somebody gave.
    Take,
    Limit(u8),
    Release,
    Tick,
}

/// A block and the number that its first and last bytes carry.
struct Marked(usize, usize, u8);

impl Marked {
    fn new(address: usize, bytes: usize, mark: u8) -> Option<Self> {
        let block = Marked(address, bytes, mark);
        (address != 0 && bytes != 0).then(|| block.edges().for_each(|edge| unsafe { edge.write(mark) }))?;
        Some(block)
    }

    fn edges(&self) -> impl Iterator<Item = *mut u8> {
        [self.0, self.0 + self.1 - 1].into_iter().map(std::ptr::with_exposed_provenance_mut)
    }

    fn check(&self) {
        assert!(self.edges().all(|edge| unsafe { edge.read() } == self.2), "two threads own one block");
    }
}

const MOST_BYTES: usize = 4 << 20;

/// The list that threads share. Never waits inside std: the Thread Sanitizer sees only what is compiled here.
pub(crate) fn shared<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match list.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            Err(TryLockError::Poisoned(_)) => panic!("another thread found a fault"),
        }
    }
}

fn work(heap: &TestHeap, steps: &[Step], given: &Mutex<Vec<Marked>>, own_mark: u8) {
    let mut mine: Vec<Marked> = Vec::new();
    for step in steps {
        let pick = |which: u8, count: usize| (which as usize).checked_rem(count);
        match *step {
            Step::Allocate(size) if (1..=MOST_BYTES).contains(&size.bytes()) && mine.len() < 300 => {
                mine.extend(Marked::new(heap.allocate(size.bytes()), size.bytes(), own_mark));
            }
            Step::Resize(which, size) if (1..=MOST_BYTES).contains(&size.bytes()) => {
                let Some(place) = pick(which, mine.len()) else { continue };
                mine[place].check();
                let moved = heap.reallocate(mine[place].0, size.bytes());
                assert_ne!(moved, 0);
                mine[place] = Marked::new(moved, size.bytes(), own_mark).expect("a block");
            }
            Step::Free(which) => {
                if let Some(place) = pick(which, mine.len()) {
                    let block = mine.swap_remove(place);
                    block.check();
                    heap.free(block.0);
                }
            }
            Step::Give(which) => {
                if let Some(place) = pick(which, mine.len()) {
                    shared(given).push(mine.swap_remove(place));
                }
            }
            Step::Take => mine.extend(shared(given).pop()),
            Step::Limit(shift) => {
                let limit = 1u64 << (shift % 26);
                heap.set_option(b"cache_limit", limit.to_string().as_bytes()).expect("a limit of bytes");
            }
            Step::Release => _ = heap.release(0),
            Step::Tick => heap.tick(true),
            _ => {}
        }
    }
    mine.iter().for_each(|block| {
        block.check();
        heap.free(block.0);
    });
}

pub fn run(input: &[u8]) {
    let heap = TestHeap::new();
    work_on(&heap, input, 3);
    expect_empty(&heap);
}

/// Lets so many threads do what the input says on a heap, and frees all they leave.
pub fn work_on(heap: &TestHeap, input: &[u8], threads: usize) {
    let all = steps::<Step>(input, 400 * threads);
    let threads = threads.min(all.len()).max(1);
    let given = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let chunks = all.chunks(all.len().div_ceil(threads).max(1)).enumerate();
        let given = &given;
        let workers: Vec<_> = chunks
            .map(|(number, steps)| scope.spawn(move || work(heap, steps, given, number as u8 + 1)))
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("no fault was found"));
    });
    for block in shared(&given).drain(..) {
        block.check();
        heap.free(block.0);
    }
}

/// Nothing is live, and the layers agree.
pub fn expect_empty(heap: &TestHeap) {
    heap.verify();
    heap.release(0);
    heap.verify();
    assert_eq!(heap.stats().live, 0, "everything was freed");
}
