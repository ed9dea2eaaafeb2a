//! Live blocks come together again after a peak, also where caches serve all that swings; and where they cannot, nobody
//! goes on trying.

use super::janitor::{MIB, fill, free, heap};
use crate::class::SizeClass;
use crate::heap::Heap;
use crate::os::fake::Fake;

/// A tenth of a peak of 700 bytes each, scattered over all of its spans.
fn after_a_peak(heap: &Heap<Fake>) -> Vec<usize> {
    let blocks = fill(heap, 100 * MIB / 700, 700);
    let (live, go): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(index, _)| index % 10 == 3);
    free(heap, go.into_iter().map(|(_, block)| *block));
    live.into_iter().map(|(_, block)| *block).collect()
}

/// Frees and allocates as many blocks, in turns of a batch, with a tick in the middle of each.
fn swing(heap: &Heap<Fake>, live: &mut [usize], batch: usize, turns: usize) {
    for turn in 0..turns {
        let at = |number: usize| (turn * batch + number) * 7919 % live.len();
        let places: std::collections::BTreeSet<usize> = (0..batch).map(at).collect();
        free(heap, places.iter().map(|place| live[*place]));
        places.iter().zip(fill(heap, places.len(), 700)).for_each(|(place, block)| live[*place] = block);
        heap.tick(true);
    }
}

#[test]
fn work_in_batches_condenses_what_a_peak_scattered() {
    for batch in [1000, 5000] {
        let heap = heap();
        let mut live = after_a_peak(&heap);
        swing(&heap, &mut live, batch, 60);
        let (held, bytes) = (heap.stats().resident as usize, live.len() * 700);
        assert!(held < bytes * 3 / 2 + 8 * MIB, "{held} for {bytes} in batches of {batch}");
        free(&heap, live);
        heap.verify();
    }
}

#[test]
fn a_class_that_stays_sparse_is_left_alone_after_some_ticks() {
    let heap = heap();
    let live = after_a_peak(&heap);
    let class = SizeClass::for_small(700);
    let condenses = |ticks: usize| {
        (0..ticks).filter(|_| {
            heap.tick(true);
            heap.central.condenses(class)
        })
    };
    assert!(condenses(10).count() >= 8);
    condenses(100).count();
    assert!(condenses(256).count() <= 2, "nothing comes and goes");
    free(&heap, live);
    condenses(2).count();
    assert!(!heap.central.condenses(class), "no more is free than may be");
}
