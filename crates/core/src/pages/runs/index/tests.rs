use super::super::tests::{Table, unused_table};
use super::super::{HUGE_PAGE_UNITS, Tick};
use super::*;
use proptest::prelude::*;

/// A heap of rows of huge pages, each of ours or a gap.
fn heap(rows: &[(bool, u32)]) -> (Table, Runs) {
    let table = unused_table(rows.iter().map(|(_, huge)| *huge as usize).sum());
    let mut runs = Runs::new();
    for (is_ours, count) in rows {
        match is_ours {
            true => (0..*count).for_each(|_| runs.add_huge_page(&table)),
            false => runs.add_gap(&table, *count),
        }
    }
    (table, runs)
}

fn is_free(huge: &Table, runs: &Runs, number: u32) -> bool {
    runs.is_unused(huge, number)
}

fn row_by_hand(huge: &Table, runs: &Runs, from: u32, count: u32) -> Option<u32> {
    (from..runs.huge)
        .find(|first| (*first..first + count).all(|at| at < runs.huge && is_free(huge, runs, at)))
}

proptest! {
    #[test]
    fn rows_of_free_blocks_are_those_that_a_scan_finds(
        rows in prop::collection::vec((any::<bool>(), 1u32..400), 1..8),
        changes in prop::collection::vec((0u32..2000, 1u32..150), 0..40),
        looks in prop::collection::vec((0u32..2100, 1u32..300), 1..20),
    ) {
        let (huge, mut runs) = heap(&rows);
        runs.verify(&huge);
        for (first, count) in changes {
            // In use where it was free, free where it was in use.
            for number in first..(first + count).min(runs.huge) {
                let (start, ours) = (number * HUGE_PAGE_UNITS, runs.is_ours(&huge, number));
                if ours && is_free(&huge, &runs, number) {
                    runs.take_at_for_test(&huge, start + 3, 1);
                } else if ours {
                    runs.put(&huge, start + 3, 1, Tick(1));
                }
            }
        }
        runs.verify(&huge);
        for (from, count) in looks {
            prop_assert_eq!(runs.free_row(&huge, from, count), row_by_hand(&huge, &runs, from, count));
        }
        let at_end = (0..runs.huge).rev().take_while(|number| is_free(&huge, &runs, *number)).count();
        prop_assert_eq!(runs.free_at_end(&huge), at_end as u32);
        runs.unlist_all(&huge);
        runs.relist(&huge);
        runs.verify(&huge);
    }
}

#[test]
fn a_long_run_is_found_with_as_few_looks_in_a_large_heap_as_in_a_small_one() {
    let looks = |count: u32| {
        let (huge, mut runs) = heap(&[(true, count)]);
        // Every second huge page is in use, and the last four are free.
        (0..count - 4)
            .step_by(2)
            .for_each(|number| runs.take_at_for_test(&huge, number * HUGE_PAGE_UNITS, 1));
        let before = huge.looks.get();
        let run = runs.take(&huge, 3 * HUGE_PAGE_UNITS, 1).expect("four are free in a row");
        assert_eq!(run.start / HUGE_PAGE_UNITS, count - 5, "with the one before them");
        runs.put(&huge, run.start, 3 * HUGE_PAGE_UNITS, Tick(1));
        huge.looks.get() - before
    };
    let [small, large] = [500, 200_000].map(looks);
    assert!(large < small + 300, "{small} looks at 500 blocks, {large} at 200,000");
}

#[test]
fn an_aligned_run_is_found_where_only_its_own_blocks_are_free() {
    let (huge, mut runs) = heap(&[(true, 100)]);
    (0..100).filter(|number| ![64, 65].contains(number)).for_each(|number| {
        runs.take_at_for_test(&huge, number * HUGE_PAGE_UNITS, 1);
    });
    let run = runs.take(&huge, 2 * HUGE_PAGE_UNITS, 64 * HUGE_PAGE_UNITS);
    assert_eq!(run.map(|run| run.start / HUGE_PAGE_UNITS), Some(64));
    assert_eq!(runs.take(&huge, 2 * HUGE_PAGE_UNITS, 1), None);
}
