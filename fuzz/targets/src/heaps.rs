//! Any sequence of heaps of tenants that are made and end in each way, of their blocks, of refusals and children, against the
//! set of blocks in use and their contents.

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use vcmalloc_core::heap::{Blocks, Ending, HeapId, Made, Refusal};
use vcmalloc_core::os::fake::{Fake, Request};

use crate::support::{TestHeap, steps};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    /// The heap above it, and its limit in steps of 64 KiB; 0: none.
    Make(u8, u8),
    Take(u8, u16, u8),
    /// A block above the classes.
    TakeLarge(u8, u8),
    /// By malloc, while the heap serves this thread.
    Push(u8, u16),
    Free(u8),
    Resize(u8, u16),
    End(u8, u8),
    Reset(u8),
    Limit(u8, u8),
    Release(u8),
    /// So many calls that the heap gets caches.
    Busy(u8),
    Tick,
    Refuse(u8),
    Grant,
    Child,
    ChildOfThreads,
}

const REQUESTS: [Request; 4] = [Request::MapAt, Request::Reserve, Request::Commit, Request::Release];

/// Every byte: a block that shrinks ends elsewhere.
fn fill(address: usize, bytes: usize, mark: u8) {
    // SAFETY: the block is the target's.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(mark, bytes) };
}

fn holds(address: usize, bytes: usize, mark: u8) -> bool {
    // SAFETY: the block is the target's.
    let block =
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(address), bytes) };
    block.iter().all(|byte| *byte == mark)
}

struct Block {
    address: usize,
    heap: HeapId,
    bytes: usize,
    mark: u8,
}

pub fn run(input: &[u8]) {
    let mut system = Fake::default();
    system.has_sequences = true;
    let heap = TestHeap::on(system);
    let (mut heaps, mut above) = (vec![HeapId::OWN], BTreeMap::new());
    let mut blocks: Vec<Block> = Vec::new();
    let mut mark = 0u8;
    let limit_of = |steps: u8| Some(usize::from(steps) << 16).filter(|limit| *limit != 0);
    for step in steps::<Step>(input, 200) {
        mark = mark.wrapping_add(1);
        let chosen = |which: u8| heaps[which as usize % heaps.len()];
        match step {
            Step::Make(which, limit) if heaps.len() < 40 => {
                let parent = chosen(which);
                let made =
                    Made { name: b"fuzz", parent, limit: limit_of(limit), on_limit: None, argument: 0 };
                if let Ok(id) = heap.make_heap(made) {
                    assert!(heaps.iter().all(|known| *known != id), "a name is new");
                    heaps.push(id);
                    above.insert(id.0, parent);
                }
            }
            Step::Take(which, bytes, shift) if blocks.len() < 2000 => {
                let (id, align) = (chosen(which), 16 << (shift % 9));
                if let Ok(address) = heap.allocate_in(id, align, bytes as usize) {
                    assert_eq!(address % align, 0);
                    fill(address, bytes as usize, mark);
                    blocks.push(Block { address, heap: id, bytes: bytes as usize, mark });
                }
            }
            Step::TakeLarge(which, steps) => {
                let (id, bytes) = (chosen(which), (usize::from(steps) + 5) << 16);
                if let Ok(address) = heap.allocate_zeroed_in(id, 16, bytes) {
                    assert!(holds(address, bytes, 0), "it reads as zeros");
                    fill(address, bytes, mark);
                    blocks.push(Block { address, heap: id, bytes, mark });
                }
            }
            Step::Push(which, bytes) => {
                let id = chosen(which);
                assert_eq!(heap.push_heap(id), Some(HeapId::OWN));
                let address = Blocks::allocate(&*heap, bytes as usize);
                assert_eq!(heap.push_heap(HeapId::OWN), Some(id));
                if address != 0 && bytes != 0 {
                    fill(address, bytes as usize, mark);
                    blocks.push(Block { address, heap: id, bytes: bytes as usize, mark });
                } else if address != 0 {
                    heap.free(address);
                }
            }
            Step::Free(which) if !blocks.is_empty() => {
                let block = blocks.swap_remove(which as usize * 7 % blocks.len());
                assert!(holds(block.address, block.bytes, block.mark), "contents stay");
                Blocks::free(&*heap, block.address);
            }
            Step::Resize(which, bytes) if !blocks.is_empty() && bytes != 0 => {
                let at = which as usize * 7 % blocks.len();
                let block = &mut blocks[at];
                let moved = heap.reallocate(block.address, bytes as usize);
                if moved != 0 {
                    assert!(holds(moved, block.bytes.min(bytes as usize), block.mark), "contents stay");
                    fill(moved, bytes as usize, mark);
                    *block = Block { address: moved, bytes: bytes as usize, mark, ..*block };
                }
            }
            Step::End(which, how) if heaps.len() > 1 => {
                let at = 1 + which as usize % (heaps.len() - 1);
                let id = heaps[at];
                let has_children = heaps.iter().any(|heap| above.get(&heap.0) == Some(&id));
                let how = [Ending::FreeAll, Ending::HandOver][how as usize % 2];
                let ended = heap.end_heap(id, how);
                assert_eq!(ended == Err(Refusal::HasChildren), has_children);
                if ended.is_ok() {
                    heaps.remove(at);
                    let parent = above[&id.0];
                    match how {
                        Ending::FreeAll => blocks.retain(|block| block.heap != id),
                        _ => {
                            let own = blocks.iter_mut().filter(|block| block.heap == id);
                            own.for_each(|block| block.heap = parent);
                        }
                    }
                }
            }
            Step::Reset(which) if heaps.len() > 1 => {
                let id = heaps[1 + which as usize % (heaps.len() - 1)];
                assert_eq!(heap.reset_heap(id), Ok(()));
                blocks.retain(|block| block.heap != id);
            }
            Step::Limit(which, limit) => _ = heap.set_heap_limit(chosen(which), limit_of(limit)),
            Step::Release(which) => _ = heap.release_heap(chosen(which)),
            Step::Busy(which) => {
                for round in 0..1100usize {
                    if let Ok(address) = heap.allocate_in(chosen(which), 16, round % 100 + 1) {
                        Blocks::free(&*heap, address);
                    }
                }
            }
            Step::Tick => heap.tick(true),
            Step::Refuse(which) => {
                heap.os().refuse_after(REQUESTS[which as usize % 4], u64::from(which) / 4);
            }
            Step::Grant => REQUESTS.into_iter().for_each(|request| heap.os().grant(request)),
            // SAFETY, here and below: no other thread is left.
            Step::Child => unsafe { heap.repair_for_test() },
            Step::ChildOfThreads => {
                std::thread::scope(|scope| {
                    scope.spawn(|| heap.hold_for_test());
                });
                unsafe { heap.repair_for_test() };
            }
            _ => {}
        }
    }
    heap.verify();
    for block in &blocks {
        assert!(holds(block.address, block.bytes, block.mark), "contents stay");
        assert_eq!(heap.owner_heap(block.address).unwrap_or(HeapId::OWN), block.heap);
    }
    for id in &heaps[1..] {
        let live = blocks.iter().filter(|block| block.heap == *id).count();
        assert_eq!(heap.heap_stats(*id).map(|stats| stats.live_blocks), Some(live as u64));
    }
    blocks.into_iter().for_each(|block| Blocks::free(&*heap, block.address));
    heap.verify();
}
