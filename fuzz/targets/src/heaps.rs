//! Any sequence of heaps of tenants that are made and end in each way, of their blocks, of refusals and children, against the
//! set of blocks in use and their contents.

use std::cell::Cell;
use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use vcmalloc_core::heap::{Blocks, Ending, HeapId, Made, NAME_BYTES, OnLimit, Refusal};
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
    /// It gives no more blocks and goes with the last one; or, where it waits for them already, ends.
    Drain(u8),
    /// To a heap that may be another than the block's own.
    Move(u8, u8, u16),
    /// By `realloc`, while a heap serves this thread.
    ResizeInScope(u8, u8, u16),
    /// In steps of 1 ms; the largest: as long as the process's own.
    Delay(u8, u8),
    /// Each block of a heap is called for.
    Iterate(u8),
    /// Two heaps serve this thread, one within the other.
    Nest(u8, u8, u16),
    /// Calls with the name of a heap that has ended.
    Late(u8, u16),
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
    // By pages: a fuzzer looks at each comparison of its program.
    let page = [mark; 4096];
    block.chunks(page.len()).all(|part| part == &page[..part.len()])
}

struct Block {
    address: usize,
    heap: HeapId,
    bytes: usize,
    mark: u8,
}

/// Whether a heap has more bytes than its limit and than it had before.
fn has_passed_its_limit(heap: &TestHeap, id: HeapId, before: u64) -> bool {
    heap.heap_stats(id).is_some_and(|stats| stats.limit != 0 && stats.bytes > stats.limit.max(before))
}

/// Counts how often it was called.
extern "C" fn count_call(_: u64, _: usize, argument: usize) {
    // SAFETY: the target's counter, which lives as long as its heaps.
    let calls = unsafe { &*std::ptr::with_exposed_provenance::<Cell<u32>>(argument) };
    calls.set(calls.get() + 1);
}

/// `vcm_heap_realloc`, as the exports do it.
fn move_to(heap: &TestHeap, id: HeapId, block: &Block, bytes: usize) -> Option<usize> {
    if heap.owner_heap(block.address).unwrap_or(HeapId::OWN) == id {
        return Some(heap.reallocate(block.address, bytes)).filter(|moved| *moved != 0);
    }
    let moved = heap.allocate_in(id, 16, bytes).ok()?;
    // SAFETY: both are the target's, and so long.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::with_exposed_provenance::<u8>(block.address),
            std::ptr::with_exposed_provenance_mut::<u8>(moved),
            block.bytes.min(bytes),
        );
    }
    Blocks::free(&**heap, block.address);
    Some(moved)
}

pub fn run(input: &[u8]) {
    let mut system = Fake::default();
    system.has_sequences = true;
    let heap = TestHeap::on(system);
    let (mut heaps, mut above) = (vec![HeapId::OWN], BTreeMap::new());
    let (mut draining, mut ended_names): (Vec<HeapId>, Vec<HeapId>) = (Vec::new(), Vec::new());
    let calls = Cell::new(0u32);
    let told = std::ptr::from_ref(&calls).expose_provenance();
    let mut blocks: Vec<Block> = Vec::new();
    let mut mark = 0u8;
    let limit_of = |steps: u8| Some(usize::from(steps) << 16).filter(|limit| *limit != 0);
    for step in steps::<Step>(input, 200) {
        mark = mark.wrapping_add(1);
        let chosen = |which: u8| heaps[which as usize % heaps.len()];
        let bytes_before: Vec<(HeapId, u64)> =
            heaps[1..].iter().map(|id| (*id, heap.heap_stats(*id).map_or(0, |stats| stats.bytes))).collect();
        calls.set(0);
        match step {
            Step::Make(which, limit) if heaps.len() < 40 => {
                let parent = chosen(which);
                let on_limit = limit.is_multiple_of(2).then_some(count_call as OnLimit);
                let made = Made { name: b"fuzz", parent, limit: limit_of(limit), on_limit, argument: told };
                if let Ok(id) = heap.make_heap(made) {
                    assert!(!draining.contains(&parent), "a heap that drains is above no new one");
                    assert!(heaps.iter().chain(&ended_names).all(|known| *known != id), "a name is new");
                    heaps.push(id);
                    above.insert(id.0, parent);
                }
            }
            Step::Take(which, bytes, shift) if blocks.len() < 2000 => {
                let (id, align) = (chosen(which), 16 << (shift % 9));
                let taken = heap.allocate_in(id, align, bytes as usize);
                assert!(calls.get() <= 1, "one refusal is told once");
                assert!(!draining.contains(&id) || taken == Err(Refusal::Gone), "it gives nothing");
                if let Ok(address) = taken {
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
                if draining.contains(&id) {
                    assert_eq!(heap.push_heap(id), None);
                    continue;
                }
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
                    draining.retain(|known| *known != id);
                    ended_names.push(id);
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
                let is_draining = draining.contains(&id);
                assert_eq!(heap.reset_heap(id), if is_draining { Err(Refusal::Gone) } else { Ok(()) });
                blocks.retain(|block| block.heap != id || is_draining);
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
            Step::Drain(which) if heaps.len() > 1 => {
                let id = heaps[1 + which as usize % (heaps.len() - 1)];
                let outcome = heap.end_heap(id, Ending::Drain);
                if heaps.iter().any(|heap| above.get(&heap.0) == Some(&id)) {
                    assert_eq!(outcome, Err(Refusal::HasChildren));
                } else if draining.contains(&id) {
                    assert_eq!(outcome, Err(Refusal::Gone));
                } else {
                    assert_eq!(outcome, Ok(()));
                    draining.push(id);
                }
            }
            Step::Move(which, to, bytes) if !blocks.is_empty() && bytes != 0 => {
                let at = which as usize * 7 % blocks.len();
                let (block, id) = (&mut blocks[at], chosen(to));
                if let Some(moved) = move_to(&heap, id, block, bytes as usize) {
                    assert!(holds(moved, block.bytes.min(bytes as usize), block.mark), "contents go along");
                    fill(moved, bytes as usize, mark);
                    *block = Block { address: moved, heap: id, bytes: bytes as usize, mark };
                }
            }
            Step::ResizeInScope(which, scope, bytes) if !blocks.is_empty() && bytes != 0 => {
                let at = which as usize * 7 % blocks.len();
                let (block, before) = (&mut blocks[at], heap.push_heap(chosen(scope)));
                let moved = heap.reallocate(block.address, bytes as usize);
                heap.push_heap(before.unwrap_or(HeapId::OWN));
                if moved != 0 {
                    assert!(holds(moved, block.bytes.min(bytes as usize), block.mark), "contents stay");
                    assert_eq!(heap.owner_heap(moved).unwrap_or(HeapId::OWN), block.heap);
                    fill(moved, bytes as usize, mark);
                    *block = Block { address: moved, bytes: bytes as usize, mark, ..*block };
                }
            }
            Step::Delay(which, time) => {
                let time = Some(u64::from(time) * 1_000_000).filter(|_| time != u8::MAX);
                _ = heap.set_heap_delay(chosen(which), time);
            }
            Step::Iterate(which) if heaps.len() > 1 => {
                let id = heaps[1 + which as usize % (heaps.len() - 1)];
                let mut seen = Vec::new();
                heap.each_block_of(id, |address, bytes| seen.push((address, bytes)));
                seen.sort_unstable();
                let own = blocks.iter().filter(|block| block.heap == id);
                let mut known: Vec<(usize, usize)> = own.map(|block| (block.address, block.bytes)).collect();
                known.sort_unstable();
                assert!(seen.iter().map(|seen| seen.0).eq(known.iter().map(|known| known.0)), "each once");
                assert!(seen.iter().zip(&known).all(|(seen, known)| seen.1 >= known.1));
            }
            Step::Nest(outer, inner, bytes) => {
                let (outer, inner) = (chosen(outer), chosen(inner));
                let before = heap.push_heap(outer);
                let within = heap.push_heap(inner);
                let outer = if before.is_some() { outer } else { HeapId::OWN };
                let inner = if within.is_some() { inner } else { outer };
                for (id, then) in [(inner, outer), (outer, HeapId::OWN)] {
                    let address = Blocks::allocate(&*heap, bytes as usize);
                    if address != 0 {
                        let is_its_own = heap.owner_heap(address).unwrap_or(HeapId::OWN) == id;
                        assert!(bytes == 0 || is_its_own, "the inner scope, then the outer one");
                        Blocks::free(&*heap, address);
                    }
                    assert_eq!(heap.push_heap(then), Some(id));
                }
            }
            Step::Late(which, bytes) if !ended_names.is_empty() => {
                let id = ended_names[which as usize % ended_names.len()];
                assert_eq!(heap.allocate_in(id, 16, bytes as usize), Err(Refusal::Gone));
                assert_eq!(heap.push_heap(id), None);
                assert_eq!(heap.reset_heap(id), Err(Refusal::Gone));
                assert_eq!(heap.set_heap_limit(id, Some(1)), Err(Refusal::Gone));
                assert_eq!(heap.set_heap_delay(id, Some(1)), Err(Refusal::Gone));
                assert_eq!(heap.release_heap(id), 0);
                assert_eq!(heap.heap_stats(id), None);
                assert_eq!(heap.heap_name(id), [0; NAME_BYTES]);
                let how = [Ending::FreeAll, Ending::HandOver, Ending::Drain][bytes as usize % 3];
                assert_eq!(heap.end_heap(id, how), Err(Refusal::Gone));
                let made = Made { name: b"late", parent: id, limit: None, on_limit: None, argument: 0 };
                assert!(heap.make_heap(made).is_err());
            }
            _ => {}
        }
        for (id, before) in bytes_before {
            assert!(!has_passed_its_limit(&heap, id, before), "a heap passes its limit by {step:?}");
        }
        let drained = |id: &HeapId| draining.contains(id) && blocks.iter().all(|block| block.heap != *id);
        ended_names.extend(heaps.iter().copied().filter(drained));
        heaps.retain(|id| !drained(id));
        draining.retain(|id| heaps.contains(id));
    }
    heap.verify();
    for id in &ended_names {
        assert_eq!(heap.heap_stats(*id), None, "no block of it is left");
    }
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
