//! Threads that make and end tenants' heaps, allocate in them, free each other's blocks, and ask about them, all at once.
//!
//! Blocks of heaps that are handed over or drain go from thread to thread. Heaps that end with their blocks have blocks that
//! nobody touches: they may be gone when the call returns. They have more than 64 bytes: malloc writes into smaller ones itself.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use vcmalloc_core::heap::{Blocks, Ending, HeapId, Made};

use crate::support::TestHeap;
use crate::threads::shared;

/// Heaps of each kind at a time.
const PLACES: usize = 3;
/// Blocks that wait for another thread.
const MOST_GIVEN: usize = 400;

struct Block {
    address: usize,
    bytes: usize,
    mark: u8,
}

impl Block {
    fn new(address: usize, bytes: usize, mark: u8) -> Block {
        // SAFETY: the block is this thread's.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(mark, bytes) };
        Block { address, bytes, mark }
    }

    fn check(&self) {
        for at in [self.address, self.address + self.bytes - 1] {
            // SAFETY: the block is this thread's.
            let byte = unsafe { std::ptr::with_exposed_provenance::<u8>(at).read() };
            assert_eq!(byte, self.mark, "two threads own one block");
        }
    }
}

/// The state that the threads share.
struct Common<'a> {
    heap: &'a TestHeap,
    /// Above all others.
    root: HeapId,
    /// Heaps whose blocks outlive them; 0: none.
    lasting: [AtomicU64; PLACES],
    /// Heaps whose blocks go with them.
    doomed: [AtomicU64; PLACES],
    given: Mutex<Vec<Block>>,
}

impl Common<'_> {
    fn make(&self, place: &AtomicU64, parent: HeapId, limit: usize) {
        let made = Made { name: b"race", parent, limit: Some(limit), on_limit: None, argument: 0 };
        let Ok(id) = self.heap.make_heap(made) else { return };
        if place.compare_exchange(0, id.0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            assert_eq!(self.heap.end_heap(id, Ending::FreeAll), Ok(()));
        }
    }

    fn end(&self, place: &AtomicU64, how: Ending) {
        let id = place.swap(0, Ordering::AcqRel);
        if id != 0 {
            let ended = self.heap.end_heap(HeapId(id), how);
            assert_eq!(ended, Ok(()), "one thread ends it");
        }
    }

    fn give(&self, block: Block) {
        let mut given = shared(&self.given);
        let one_too_many = if given.len() >= MOST_GIVEN { given.pop() } else { None };
        given.push(block);
        drop(given);
        if let Some(block) = one_too_many {
            block.check();
            Blocks::free(&**self.heap, block.address);
        }
    }

    fn step(&self, random: u64, mark: u8) {
        let pick = |shift: u32, most: usize| (random >> shift) as usize % most;
        let (lasting, doomed) = (&self.lasting[pick(8, PLACES)], &self.doomed[pick(8, PLACES)]);
        let [long, short] = [lasting, doomed].map(|place| HeapId(place.load(Ordering::Acquire)));
        let any = [long, short, self.root][pick(16, 3)];
        let bytes = if pick(20, 40) == 0 { 300_000 + pick(24, 1 << 19) } else { 1 + pick(24, 3000) };
        match pick(40, 32) {
            0 | 1 => self.make(lasting, self.root, 8 << 20),
            2 | 3 => self.make(doomed, self.root, 4 << 20),
            4 => self.end(lasting, if pick(30, 2) == 0 { Ending::HandOver } else { Ending::Drain }),
            5 => self.end(doomed, Ending::FreeAll),
            6 => {
                // Others may be in a call; none ends it, or resets it too.
                let id = HeapId(doomed.swap(0, Ordering::AcqRel));
                if id == HeapId::NONE {
                    return;
                }
                assert_eq!(self.heap.reset_heap(id), Ok(()));
                if doomed.compare_exchange(0, id.0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    assert_eq!(self.heap.end_heap(id, Ending::FreeAll), Ok(()));
                }
            }
            7 => {
                _ = self
                    .heap
                    .set_heap_limit(any, Some((pick(24, 64) + 16) << 16).filter(|_| any != self.root))
            }
            8 => _ = self.heap.set_heap_delay(any, Some(random >> 30)),
            9 | 10 => {
                if let Some(stats) = self.heap.heap_stats(any) {
                    assert!(stats.live <= stats.bytes.max(stats.peak), "{stats:?}");
                }
                self.heap.heap_resident(any);
                self.heap.heap_name(any);
                self.heap.each_heap(|_| ());
            }
            11 => _ = self.heap.release_heap(any),
            12 => self.heap.each_block_of(any, |address, bytes| assert!(address != 0 && bytes != 0)),
            13 => (0..1100).for_each(|step| {
                if let Ok(address) = self.heap.allocate_in(long, 16, step % 100 + 1) {
                    Blocks::free(&**self.heap, address);
                }
            }),
            14 => (0..1100).for_each(|step| _ = self.heap.allocate_in(short, 16, step % 100 + 65)),
            15 => {
                let before = self.heap.push_heap(long);
                for step in 0..20 {
                    let address = Blocks::allocate(&**self.heap, bytes % 500 + step + 1);
                    if address != 0 {
                        self.give(Block::new(address, bytes % 500 + step + 1, mark));
                    }
                }
                self.heap.push_heap(before.unwrap_or(HeapId::OWN));
            }
            16..=21 => {
                if let Ok(address) = self.heap.allocate_in(long, 16 << pick(36, 4), bytes) {
                    self.give(Block::new(address, bytes, mark));
                }
            }
            22 => _ = self.heap.allocate_in(short, 16, bytes + 64),
            23..=25 => {
                let Some(block) = shared(&self.given).pop() else { return };
                block.check();
                let moved = self.heap.reallocate(block.address, bytes);
                self.give(if moved == 0 { block } else { Block::new(moved, bytes, mark) });
            }
            _ => {
                let mut given = shared(&self.given);
                let count = given.len();
                let Some(at) = pick(24, 1 << 20).checked_rem(count) else { return };
                let block = given.swap_remove(at);
                drop(given);
                block.check();
                Blocks::free(&**self.heap, block.address);
            }
        }
    }
}

/// Lets so many threads do `steps` steps each, chosen by what `random` makes of numbers; nothing is left.
pub fn work_on(heap: &TestHeap, steps: u64, threads: u64, random: impl Fn(u64) -> u64 + Sync) {
    let made =
        Made { name: b"root", parent: HeapId::OWN, limit: Some(64 << 20), on_limit: None, argument: 0 };
    let root = heap.make_heap(made).expect("a heap");
    let none = || [const { AtomicU64::new(0) }; PLACES];
    let common = Common { heap, root, lasting: none(), doomed: none(), given: Mutex::new(Vec::new()) };
    std::thread::scope(|scope| {
        let (common, random) = (&common, &random);
        let works: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    (0..steps).for_each(|step| common.step(random(thread << 32 | step), thread as u8 + 1));
                })
            })
            .collect();
        works.into_iter().for_each(|work| work.join().expect("no fault was found"));
    });
    common.lasting.iter().for_each(|place| common.end(place, Ending::Drain));
    common.doomed.iter().for_each(|place| common.end(place, Ending::FreeAll));
    for block in shared(&common.given).drain(..) {
        block.check();
        Blocks::free(&**heap, block.address);
    }
    assert_eq!(heap.end_heap(root, Ending::FreeAll), Ok(()), "those below it have drained");
}
