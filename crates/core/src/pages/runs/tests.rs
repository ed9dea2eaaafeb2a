use super::*;
use proptest::prelude::*;
use std::cell::{Cell, UnsafeCell};

pub struct Table {
    huge: Vec<UnsafeCell<HugePage>>,
    groups: Vec<UnsafeCell<Group>>,
    /// How often a huge page or a group was asked for.
    pub looks: Cell<usize>,
}

// SAFETY: one thread; the vector never grows.
unsafe impl HugeTable for Table {
    fn huge_page(&self, number: u32) -> *mut HugePage {
        self.looks.set(self.looks.get() + 1);
        self.huge[number as usize].get()
    }

    fn group(&self, number: u32) -> *mut Group {
        self.looks.set(self.looks.get() + 1);
        self.groups[number as usize].get()
    }
}

pub fn unused_table(huge: usize) -> Table {
    fn zeroed<T>(count: usize) -> Vec<UnsafeCell<T>> {
        // SAFETY: huge pages and groups are plain numbers.
        (0..count).map(|_| UnsafeCell::new(unsafe { core::mem::zeroed() })).collect()
    }
    let groups = zeroed(huge.div_ceil(GROUP as usize));
    Table { huge: zeroed(huge), groups, looks: Cell::new(0) }
}

fn table(huge: usize) -> (Table, Runs) {
    let table = unused_table(huge);
    let mut runs = Runs::new();
    (0..huge).for_each(|_| runs.add_huge_page(&table));
    (table, runs)
}

#[test]
fn the_fuller_block_serves_first() {
    let (huge, mut runs) = table(3);
    let first = runs.take(&huge, 100, 1).unwrap();
    let second = runs.take(&huge, 60, 1).unwrap();
    assert_ne!(first.start / HUGE_PAGE_UNITS, second.start / HUGE_PAGE_UNITS);
    let third = runs.take(&huge, 20, 1).unwrap();
    assert_eq!(
        third.start / HUGE_PAGE_UNITS,
        first.start / HUGE_PAGE_UNITS,
        "28 units are left there, 68 in the other"
    );
}

#[test]
fn memory_is_zeroed_until_it_was_used_once() {
    let (huge, mut runs) = table(1);
    let run = runs.take(&huge, 4, 1).unwrap();
    assert!(run.zeroed);
    runs.put(&huge, run.start, 4, Tick(1));
    assert_eq!(runs.dirty_free, 4);
    assert!(!runs.take(&huge, 4, 1).unwrap().zeroed);
    assert_eq!(runs.dirty_free, 0);
}

#[test]
fn what_was_given_back_is_zeroed_again() {
    let (huge, mut runs) = table(1);
    let run = runs.take(&huge, 8, 1).unwrap();
    runs.put(&huge, run.start, 8, Tick(1));
    let (withheld, dirty) = runs.withhold_free(&huge, 0, u128::MAX);
    assert_eq!((dirty.count_ones(), withheld, runs.used), (8, u128::MAX, 128));
    runs.return_withheld(&huge, 0, withheld, true);
    assert_eq!((runs.used, runs.dirty_free), (0, 0));
    assert!(runs.take(&huge, 8, 1).unwrap().zeroed);
}

#[test]
fn a_refused_release_leaves_the_units_free_and_dirty() {
    let (huge, mut runs) = table(1);
    let run = runs.take(&huge, 8, 1).unwrap();
    runs.put(&huge, run.start, 8, Tick(1));
    let (withheld, dirty) = runs.withhold_free(&huge, 0, u128::MAX);
    runs.return_withheld(&huge, 0, dirty, false);
    runs.return_withheld(&huge, 0, withheld & !dirty, true);
    assert_eq!((runs.used, runs.dirty_free), (0, 8));
}

#[test]
fn a_run_grows_in_place_only_over_free_units() {
    let (huge, mut runs) = table(3);
    let run = runs.take(&huge, 200, 1).unwrap();
    assert_eq!(runs.extend(&huge, run.start, 200, 50), Some(true));
    let wall = runs.take(&huge, 6, 1).unwrap();
    assert_eq!(wall.start, 250, "the rest of the second block");
    assert_eq!(runs.extend(&huge, run.start, 250, 1), None);
    assert_eq!(runs.extend(&huge, wall.start, 6, 129), None, "beyond the last block");
}

proptest! {
    #[test]
    fn runs_never_overlap_and_everything_comes_back(
        steps in prop::collection::vec((any::<bool>(), 1u32..300, 0u32..9), 1..120)
    ) {
        const BLOCKS: usize = 12;
        let (huge, mut runs) = table(BLOCKS);
        let mut owner = vec![false; BLOCKS * 128];
        let mut held: Vec<(u32, u32)> = Vec::new();
        for (take, units, shift) in steps {
            if take {
                let align = 1 << shift;
                if let Some(run) = runs.take(&huge, units, align) {
                    prop_assert_eq!(run.start % align, 0);
                    for unit in run.start..run.start + units {
                        prop_assert!(!std::mem::replace(&mut owner[unit as usize], true));
                    }
                    held.push((run.start, units));
                }
            } else if !held.is_empty() {
                let (start, units) = held.swap_remove(units as usize % held.len());
                (start..start + units).for_each(|unit| owner[unit as usize] = false);
                runs.put(&huge, start, units, Tick(0));
            }
            prop_assert_eq!(runs.used, owner.iter().filter(|used| **used).count() as u64);
        }
        for (start, units) in held {
            runs.put(&huge, start, units, Tick(0));
        }
        prop_assert_eq!(runs.used, 0);
        prop_assert!(runs.take(&huge, BLOCKS as u32 * 128, 1).is_some(), "the whole range is one run again");
    }
}

#[test]
fn sums_beyond_the_range_are_no_small_runs() {
    let (huge, mut runs) = table(2);
    assert_eq!(runs.take(&huge, u32::MAX - 127, 256), None);
    assert_eq!(runs.take(&huge, u32::MAX, 1), None);
}

#[test]
fn a_run_with_room_grows_in_place_and_leaves_room_to_the_one_before_it() {
    let (huge, mut runs) = table(1);
    let first = runs.take_with_room(&huge, 4, 16).unwrap();
    let second = runs.take_with_room(&huge, 4, 16).unwrap();
    for run in [first, second] {
        assert!(runs.extend(&huge, run.start, 4, 12).is_some());
    }
    assert_eq!(runs.take_with_room(&huge, 128, 200), None, "longer than a block");
    runs.verify(&huge);
}

#[test]
fn a_run_gets_half_of_the_room_where_there_is_not_all_of_it() {
    let (huge, mut runs) = table(1);
    let [first, second] = [64, 64].map(|room| runs.take_with_room(&huge, 4, room).unwrap().start);
    assert_eq!((first, second), (64, 0), "in the middle, and what is left before it");
    let third = runs.take_with_room(&huge, 4, 64).expect("32 units are left behind each");
    assert!(runs.extend(&huge, third.start, 4, 28).is_some());
    runs.verify(&huge);
}

#[test]
fn a_range_is_well_used_while_it_is_short_or_half_of_it_is_in_use() {
    let (_, runs) = table(3);
    assert!(runs.is_well_used(), "three blocks may be empty");
    let (huge, mut runs) = table(4);
    assert!(!runs.is_well_used());
    runs.take(&huge, 255, 1).unwrap();
    assert!(!runs.is_well_used());
    runs.take(&huge, 1, 1).unwrap();
    assert!(runs.is_well_used(), "256 of 512");
}

#[test]
fn a_run_is_there_up_to_its_length() {
    let (huge, mut runs) = table(1);
    runs.take(&huge, 100, 1).unwrap();
    assert_eq!([28, 29].map(|units| runs.has_run(&huge, units)), [true, false]);
    assert_eq!((runs.is_unused(&huge, 0), runs.dirty_of(&huge, 0)), (false, 0));
    runs.put(&huge, 0, 100, Tick(1));
    assert_eq!((runs.is_unused(&huge, 0), runs.dirty_of(&huge, 0)), (true, bits::mask(0, 100)));
    assert!(runs.has_run(&huge, 128));
}

#[test]
fn a_run_longer_than_a_block_lies_where_most_of_its_memory_is_already() {
    let (huge, mut runs) = table(12);
    let all = runs.take(&huge, 12 * HUGE_PAGE_UNITS, 1).unwrap();
    runs.put(&huge, all.start, 12 * HUGE_PAGE_UNITS, Tick(1));
    for number in 0..6 {
        let (withheld, _) = runs.withhold_free(&huge, number, u128::MAX);
        runs.return_withheld(&huge, number, withheld, true);
    }
    let run = runs.take(&huge, 3 * HUGE_PAGE_UNITS + 7, 1).unwrap();
    assert_eq!((run.start / HUGE_PAGE_UNITS, run.zeroed), (6, false), "the first place with all of it");
    let next = runs.take(&huge, 3 * HUGE_PAGE_UNITS, 1).unwrap();
    assert_eq!(next.start / HUGE_PAGE_UNITS, 0, "all that is left is new: the first place");
}
