//! Any sequence of calls.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Make(usize, usize),
    Take(usize, usize, u32),
    Free(usize),
    Resize(usize, usize),
    End(usize, u8),
    Reset(usize),
    Tidy(usize),
    Limit(usize, usize),
    Own(usize),
    Busy(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any = any::<usize>;
    let bytes = || prop_oneof![1usize..600, 1usize..40_000, 200_000usize..900_000];
    let step = prop_oneof![
        2 => (any(), 0usize..64).prop_map(|(parent, units)| Step::Make(parent, units)),
        10 => (any(), bytes(), 4u32..16).prop_map(|(heap, bytes, shift)| Step::Take(heap, bytes, shift)),
        6 => any().prop_map(Step::Free),
        3 => (any(), bytes()).prop_map(|(block, bytes)| Step::Resize(block, bytes)),
        1 => (any(), 0u8..3).prop_map(|(heap, how)| Step::End(heap, how)),
        1 => any().prop_map(Step::Reset),
        1 => any().prop_map(Step::Tidy),
        1 => (any(), 0usize..64).prop_map(|(heap, units)| Step::Limit(heap, units)),
        2 => bytes().prop_map(Step::Own),
        1 => any().prop_map(Step::Busy),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn heaps_hold_what_they_should_in_any_sequence(steps in steps()) {
        let heap = real();
        let (mut heaps, mut parents) = (vec![HeapId::OWN], BTreeMap::new());
        // Address, heap, bytes, mark.
        let mut blocks: Vec<(usize, HeapId, usize, u8)> = Vec::new();
        let mut mark = 0u8;
        for step in steps {
            mark = mark.wrapping_add(1);
            match step {
                Step::Make(parent, units) => {
                    let parent = heaps[parent % heaps.len()];
                    let limit = Some(units * UNIT_BYTES * 4).filter(|limit| *limit != 0);
                    if let Ok(id) = heap.make_heap(Made { parent, limit, ..PLAIN }) {
                        heaps.push(id);
                        parents.insert(id.0, parent);
                    }
                }
                Step::Take(which, bytes, shift) => {
                    let id = heaps[which % heaps.len()];
                    if let Ok(block) = heap.allocate_in(id, 1 << shift, bytes) {
                        prop_assert_eq!(block % (1 << shift), 0);
                        fill(block, bytes, mark);
                        blocks.push((block, id, bytes, mark));
                    }
                }
                Step::Own(bytes) => {
                    let block = heap.allocate(bytes);
                    fill(block, bytes, mark);
                    blocks.push((block, HeapId::OWN, bytes, mark));
                }
                Step::Free(which) if !blocks.is_empty() => {
                    let (block, _, bytes, mark) = blocks.swap_remove(which % blocks.len());
                    prop_assert!(holds(block, bytes, mark));
                    Blocks::free(&*heap, block);
                }
                Step::Resize(which, bytes) if !blocks.is_empty() => {
                    let which = which % blocks.len();
                    let (block, id, length, old) = blocks[which];
                    let moved = heap.reallocate(block, bytes);
                    if moved != 0 {
                        prop_assert!(holds(moved, length.min(bytes), old));
                        fill(moved, bytes, mark);
                        blocks[which] = (moved, id, bytes, mark);
                    }
                }
                Step::End(which, how) if heaps.len() > 1 => {
                    let at = 1 + which % (heaps.len() - 1);
                    let id = heaps[at];
                    let has_children = heaps.iter().any(|heap| parents.get(&heap.0) == Some(&id));
                    let how = [Ending::FreeAll, Ending::HandOver][how as usize % 2];
                    let ended = heap.end_heap(id, how);
                    prop_assert_eq!(ended.is_err(), has_children);
                    if ended.is_ok() {
                        heaps.remove(at);
                        let parent = parents[&id.0];
                        match how {
                            Ending::FreeAll => blocks.retain(|block| block.1 != id),
                            _ => blocks.iter_mut().filter(|block| block.1 == id).for_each(|block| block.1 = parent),
                        }
                    }
                }
                Step::Reset(which) if heaps.len() > 1 => {
                    let id = heaps[1 + which % (heaps.len() - 1)];
                    prop_assert_eq!(heap.reset_heap(id), Ok(()));
                    blocks.retain(|block| block.1 != id);
                }
                Step::Busy(which) if heaps.len() > 1 => {
                    for step in 0..1500 {
                        let id = heaps[1 + which % (heaps.len() - 1)];
                        heap.allocate_in(id, 16, step % 90 + 1).into_iter().for_each(|block| heap.free(block));
                    }
                }
                Step::Tidy(which) => {
                    heap.release_heap(heaps[which % heaps.len()]);
                }
                Step::Limit(which, units) => {
                    let limit = Some(units * UNIT_BYTES * 4).filter(|limit| *limit != 0);
                    let _ = heap.set_heap_limit(heaps[which % heaps.len()], limit);
                }
                _ => {}
            }
        }
        heap.verify();
        for (block, id, bytes, mark) in &blocks {
            prop_assert!(holds(*block, *bytes, *mark));
            prop_assert_eq!(heap.owner_heap(*block).unwrap_or(HeapId::OWN), *id);
        }
        for id in &heaps[1..] {
            let live = blocks.iter().filter(|block| block.1 == *id).count();
            prop_assert_eq!(heap.heap_stats(*id).unwrap().live_blocks, live as u64);
        }
        blocks.into_iter().for_each(|(block, ..)| heap.free(block));
        heap.verify();
    }
}
