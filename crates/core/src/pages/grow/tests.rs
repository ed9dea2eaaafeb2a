use super::*;
use crate::base::memory::{fill, holds};
use crate::base::ticks::{Tick, Ticks};
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::fake::{Fake, Request};
use crate::pages::{Mapping, SpanId};
use proptest::prelude::*;

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

fn pages_with(prepare: impl FnOnce(&Fake)) -> (Fake, Pages<Fake>) {
    let (os, pages) = (Fake::default(), Pages::new());
    prepare(&os);
    assert!(pages.start(&os));
    (os, pages)
}

fn with_room(room: usize) -> (Fake, Pages<Fake>) {
    pages_with(|os| os.address_room.store(room, Ordering::Relaxed))
}

fn address(pages: &Pages<Fake>, id: SpanId) -> usize {
    pages.address_of(pages.span(id).start.get())
}

/// Somebody maps blocks behind the heap; returns where they begin.
fn others_map(os: &Fake, pages: &Pages<Fake>, bytes: usize) -> usize {
    let address = pages.address_of(0) + pages.mapped_bytes();
    assert_eq!(os.map_zeros_at(address, bytes), Ok(()));
    address
}

proptest! {
    #[test]
    fn the_place_behind_what_is_in_the_way_is_found_and_is_near(taken in 1u32..100_000, beyond in 0u32..100_000) {
        let last = taken + beyond;
        let found = nearest_free(last, |distance| distance >= taken);
        if let Some(distance) = found {
            prop_assert!(distance >= taken && distance <= last);
            prop_assert!(distance - taken <= 1 + distance / FREE_PART_PASSED);
        }
        prop_assert!(found.is_some());
    }

    #[test]
    fn of_many_things_in_the_way_none_is_taken_for_free(
        others in proptest::collection::vec((0u32..5000, 1u32..700), 0..12), last in 1u32..5000,
    ) {
        let is_free = |distance: u32| {
            distance != 0 && others.iter().all(|(start, length)| !(*start..start + length).contains(&distance))
        };
        if let Some(distance) = nearest_free(last, is_free) {
            prop_assert!(is_free(distance) && distance <= last);
        }
    }
}

#[test]
fn the_heap_goes_on_behind_what_others_map_however_long_that_is() {
    let (os, pages) = with_room(4096 * GIB);
    let class = SizeClass::for_small(300);
    let before = address(&pages, pages.open_span(&os, class).unwrap());
    for gib in [1, 32, 300, 1000] {
        let others = others_map(&os, &pages, gib * GIB);
        let ids: Vec<_> = (0..50).map(|_| pages.open_large(&os, Place::of(100), 0).unwrap().0).collect();
        ids.iter().for_each(|id| fill(address(&pages, *id), 100 * UNIT_BYTES, 7));
        assert!(address(&pages, ids[49]) >= others + gib * GIB);
        // A pointer that is freed there by mistake is known for what it is.
        for wild in [others, others + gib * GIB / 2, others + gib * GIB - 16] {
            assert_eq!((pages.class_of(wild), pages.class_of_allocated(wild)), (SizeClass::NONE, None));
        }
        assert!((0..300).all(|_| pages.open_span(&os, class).is_some()) && pages.class_of(before) == class);
        assert!(
            pages.open_large(&os, Place { align: 128, ..Place::of(3000) }, 0).is_some(),
            "not in front of the gap"
        );
        let (start, bytes) = pages.huge.entries.range();
        let resident = os.resident_bytes(start, bytes).unwrap();
        assert!(resident < MIB, "{resident} bytes say that {gib} GiB are not ours");
        pages.verify();
        pages.close_span(ids[49], Tick(0));
        assert!(pages.release(&os, 0, Ticks(0)) >= 100 * UNIT_BYTES);
        let mut listed = 0;
        pages.each_mapping(|kind, _, bytes| listed += if kind == Mapping::Blocks { bytes } else { 0 });
        assert_eq!(listed as u64, pages.stats().mapped, "gaps are no mappings of ours");
        pages.verify();
    }
}

#[test]
fn a_gap_is_passed_over_by_a_repair() {
    let (os, pages) = with_room(64 * GIB);
    let (first, _) = pages.open_large(&os, Place::of(100), 0).unwrap();
    others_map(&os, &pages, 10 * GIB);
    let (second, _) = pages.open_large(&os, Place::of(1000), 0).unwrap();
    pages.rebuild(&mut pages.state.lock());
    pages.verify();
    pages.close_span(first, Tick(0));
    pages.close_span(second, Tick(0));
    assert!(pages.open_large(&os, Place::of(1000), 0).is_some());
    pages.verify();
}

#[test]
fn where_a_table_cannot_grow_the_heap_refuses_and_goes_on_when_it_can() {
    type PlaceOf = fn(&Pages<Fake>) -> (usize, usize);
    let places: [PlaceOf; 7] = [
        |pages| pages.classes.range(),
        |pages| pages.owners.range(),
        |pages| pages.allocated.range(),
        |pages| pages.marks.range(),
        |pages| pages.spans.range(),
        |pages| pages.candidates.range(),
        |pages| pages.huge.entries.range(),
    ];
    for (number, place) in places.into_iter().enumerate() {
        let (os, mut pages) = (Fake::default(), Pages::new());
        pages.keep_marks();
        os.address_budget.store(32 * GIB, Ordering::Relaxed);
        assert!(pages.start(&os));
        let (start, bytes) = place(&pages);
        assert_eq!(os.map_at(start + bytes, 64 << 10), Ok(()));
        let opened = (0..1 << 14).map_while(|_| pages.open_large(&os, Place::of(128), 0)).count();
        assert!((1..1 << 14).contains(&opened), "table {number}: {opened}");
        pages.verify();
        os.unmap(start + bytes, 64 << 10);
        assert!(pages.open_large(&os, Place::of(128), 0).is_some(), "table {number}");
        pages.verify();
        pages.each_reservation(|start, bytes| os.unmap(start, bytes));
    }
}

#[test]
fn a_gap_whose_tables_are_refused_leaves_nothing_behind() {
    for granted in 0..40 {
        let (os, pages) = with_room(64 * GIB);
        pages.open_large(&os, Place::of(128), 0).unwrap();
        others_map(&os, &pages, 8 * GIB);
        os.refuse_after(Request::MapAt, granted);
        let opened = pages.open_large(&os, Place::of(128), 0).is_some();
        pages.verify();
        os.grant(Request::MapAt);
        let (id, _) = pages.open_large(&os, Place::of(1280), 0).unwrap();
        fill(address(&pages, id), 1280 * UNIT_BYTES, 1);
        assert!(pages.open_span(&os, SizeClass::for_small(16)).is_some(), "{granted} granted, {opened}");
        pages.verify();
    }
}

#[test]
fn the_first_units_wait_until_the_others_are_used() {
    for random in [0, 1, 31, 32 + 17] {
        let (os, pages) = pages_with(|os| os.random_of_range.store(random, Ordering::Relaxed));
        let waiting = (random % WAITING_MOST) as usize;
        let class = SizeClass::for_small(16);
        let first = address(&pages, pages.open_span(&os, class).unwrap());
        assert_eq!(first, pages.address_of(0) + waiting * UNIT_BYTES);
        pages.verify();
        let spans = (1..HUGE_PAGE_UNITS).filter(|_| pages.open_span(&os, class).is_some()).count();
        assert_eq!(
            (spans, pages.mapped_bytes()),
            (HUGE_PAGE_UNITS as usize - 1, HUGE_PAGE_BYTES),
            "they are not lost"
        );
        pages.verify();
        let (_os, pages) = pages_with(|os| os.random_of_range.store(random, Ordering::Relaxed));
        let (id, _) = pages.open_large(&os, Place::of(HUGE_PAGE_UNITS), 0).unwrap();
        assert_eq!(address(&pages, id), pages.address_of(0), "a request that needs them has them");
        pages.verify();
    }
}

#[test]
fn an_alignment_is_met_wherever_the_range_begins() {
    for blocks in [0, 1, 5, 63] {
        let (os, pages) = pages_with(|os| os.random_of_range.store(blocks << 8, Ordering::Relaxed));
        pages.open_span(&os, SizeClass::for_small(16)).unwrap();
        for align in [128, 256, 1024, 1 << 16] {
            let (id, _) = pages.open_large(&os, Place { align, ..Place::of(200) }, 0).unwrap();
            assert!(address(&pages, id).is_multiple_of(align as usize * UNIT_BYTES), "{align} units");
        }
        pages.verify();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(u32),
    Small,
    Close(usize),
    Others { prefault: usize, blocks: usize },
    OthersGo,
    Release,
    Refuse(u64),
    Grant,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..700).prop_map(Step::Open),
        3 => Just(Step::Small),
        4 => any::<usize>().prop_map(Step::Close),
        3 => (0usize..40, 1usize..300).prop_map(|(prefault, blocks)| Step::Others { prefault, blocks }),
        1 => Just(Step::OthersGo),
        1 => Just(Step::Release),
        1 => (0u64..12).prop_map(Step::Refuse),
        2 => Just(Step::Grant),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_others_map_and_the_system_refuses_blocks_are_whole(
        steps in proptest::collection::vec(step(), 1..60), random: u64,
    ) {
        let (os, pages) = pages_with(|os| {
            os.address_room.store(64 * GIB, Ordering::Relaxed);
            os.random_of_range.store(random, Ordering::Relaxed);
        });
        let (mut open, mut others) = (Vec::<(SpanId, u32, u8)>::new(), Vec::<(usize, usize)>::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Open(units) => {
                    if let Some((id, _)) = pages.open_large(&os, Place::of(units), 0) {
                        fill(address(&pages, id), units as usize * UNIT_BYTES, number as u8);
                        open.push((id, units, number as u8));
                    }
                }
                Step::Small => _ = pages.open_span(&os, SizeClass::for_small(300)),
                Step::Close(which) => {
                    if !open.is_empty() {
                        let (id, units, mark) = open.swap_remove(which % open.len());
                        prop_assert!(holds(address(&pages, id), units as usize * UNIT_BYTES, mark));
                        pages.close_span(id, Tick(0));
                    }
                }
                Step::Others { prefault, blocks } => {
                    let start = pages.address_of(0) + pages.mapped_bytes() + prefault * HUGE_PAGE_BYTES;
                    if os.map_zeros_at(start, blocks * HUGE_PAGE_BYTES).is_ok() {
                        others.push((start, blocks * HUGE_PAGE_BYTES));
                    }
                }
                Step::OthersGo => others.pop().into_iter().for_each(|(start, bytes)| os.unmap(start, bytes)),
                Step::Release => _ = pages.release(&os, 0, Ticks(0)),
                Step::Refuse(after) => os.refuse_after(Request::MapAt, after),
                Step::Grant => os.grant(Request::MapAt),
            }
            pages.verify();
        }
        for (id, units, mark) in open {
            prop_assert!(holds(address(&pages, id), units as usize * UNIT_BYTES, mark));
        }
        os.grant(Request::MapAt);
        prop_assert!(pages.open_large(&os, Place::of(700), 0).is_some(), "there is always more");
        pages.each_reservation(|start, bytes| os.unmap(start, bytes));
        others.into_iter().for_each(|(start, bytes)| os.unmap(start, bytes));
    }
}
