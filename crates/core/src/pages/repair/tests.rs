use crate::base::ticks::{Tick, Ticks};
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::fake::{Fake, Request};
use crate::pages::{Pages, Place, SpanId};
use std::cell::Cell;
use std::sync::atomic::Ordering;

fn pages() -> (Fake, Pages<Fake>) {
    let (os, pages) = (Fake::default(), Pages::new());
    assert!(pages.start(&os));
    (os, pages)
}

fn first_unit(pages: &Pages<Fake>, id: SpanId) -> u32 {
    pages.span(id).start.get()
}

/// Holds the state as a thread that is gone does, and repairs.
fn repaired(pages: &Pages<Fake>) {
    std::thread::scope(|scope| scope.spawn(|| pages.state.hold()).join()).unwrap();
    // SAFETY: the thread that held the locks is gone.
    unsafe { pages.repair(true) };
    pages.verify();
}

#[test]
fn what_is_open_stays_open_and_what_is_free_can_be_had() {
    let (os, pages) = pages();
    let small = pages.open_span(&os, SizeClass::for_small(300)).unwrap();
    let (large, _) = pages.open_large(&os, Place::of(300), 4_800_000).unwrap();
    let (gone, _) = pages.open_large(&os, Place::of(200), 0).unwrap();
    pages.close_span(gone, Tick(0));
    let before = pages.stats();
    repaired(&pages);
    assert_eq!(pages.stats(), before);
    pages.close_span(small, Tick(0));
    pages.close_span(large, Tick(0));
    assert_eq!(pages.stats().used, 0);
}

#[test]
fn a_span_that_was_opening_or_closing_becomes_free() {
    let (os, pages) = pages();
    let class = SizeClass::for_small(300);
    for half in 0..3 {
        let id = pages.open_span(&os, class).unwrap();
        let start = first_unit(&pages, id);
        match half {
            // Opening: the map is not written yet.
            0 => pages.set_owner(start, class.shape().span_units, SizeClass::NONE, SpanId::NONE, false),
            // Closing: the map is cleared in part.
            1 => pages.set_owner(start, 1, SizeClass::NONE, SpanId::NONE, false),
            // Opening: the classes are written, the owners are not.
            _ => pages.set_owner(start, class.shape().span_units, class, SpanId::NONE, false),
        }
        repaired(&pages);
        assert_eq!((pages.stats().used, pages.stats().spans_open), (0, 0), "half {half}");
        assert_eq!(pages.class_of(pages.address_of(start)), SizeClass::NONE);
    }
}

#[test]
fn a_run_that_was_taken_for_nothing_and_units_that_were_withheld_are_free_again() {
    let (os, pages) = pages();
    let (id, _) = pages.open_large(&os, Place::of(100), 0).unwrap();
    pages.close_span(id, Tick(0));
    pages.state.lock().runs.take(&pages.huge, 40, 1).unwrap();
    repaired(&pages);
    assert_eq!(pages.stats().used, 0);
    std::thread::scope(|scope| {
        let gone = scope.spawn(|| {
            pages.releasing.hold();
            pages.state.lock().runs.withhold_free(&pages.huge, 0, u128::MAX)
        });
        assert_ne!(gone.join().unwrap().1, 0);
    });
    assert_ne!(pages.stats().used, 0);
    // SAFETY: the thread that held the locks is gone.
    unsafe { pages.repair(true) };
    pages.verify();
    assert_eq!(pages.stats().used, 0);
}

#[test]
fn a_large_span_that_was_growing_is_large_all_over() {
    let (os, pages) = pages();
    let (id, _) = pages.open_large(&os, Place::of(20), 0).unwrap();
    let start = first_unit(&pages, id);
    // The map does not know the last units yet.
    pages.write_classes(start + 10, 10, SizeClass::NONE);
    repaired(&pages);
    assert_eq!(pages.class_of(pages.address_of(start) + 19 * UNIT_BYTES), SizeClass::LARGE);
}

#[test]
fn a_block_that_is_not_ours_stays_so() {
    use crate::os::Os;
    let (os, pages) = pages();
    assert_eq!(os.map_at(pages.address_of(0), crate::pages::HUGE_PAGE_BYTES), Ok(()));
    let id = pages.open_span(&os, SizeClass::for_small(64)).unwrap();
    let before = pages.stats();
    repaired(&pages);
    assert_eq!(pages.stats(), before);
    pages.close_span(id, Tick(0));
}

#[test]
fn what_was_mapped_just_now_is_known_to_be_ours() {
    let (os, pages) = pages();
    let id = pages.open_span(&os, SizeClass::for_small(64)).unwrap();
    let granules = pages.grown_granules.load(Ordering::Relaxed);
    // The thread that is gone added a block and has not told of it.
    pages.state.lock().runs.add_huge_page(&pages.huge);
    assert!(pages.huge.ensure(&os, 2) && pages.classes.ensure(&os, 256) && pages.owners.ensure(&os, 256));
    repaired(&pages);
    assert_eq!(pages.grown_granules.load(Ordering::Relaxed), 2 * granules);
    pages.close_span(id, Tick(0));
}

#[test]
fn a_gap_that_was_counted_in_part_is_counted_anew() {
    use crate::os::Os;
    let (os, pages) = pages();
    assert_eq!(os.map_at(pages.address_of(0), crate::pages::HUGE_PAGE_BYTES), Ok(()));
    let id = pages.open_span(&os, SizeClass::for_small(64)).unwrap();
    let before = pages.stats();
    pages.state.lock().runs.lost = 0;
    repaired(&pages);
    assert_eq!(pages.stats(), before);
    pages.close_span(id, Tick(0));
}

#[test]
fn huge_pages_are_counted_anew() {
    let (os, pages) = pages();
    let (id, _) = pages.open_large(&os, Place::of(1), 0).unwrap();
    // SAFETY: no other thread uses the pages.
    unsafe { (*pages.huge.at(0)).huge = crate::pages::runs::Huge::Yes };
    pages.huge_backed.store(7, Ordering::Relaxed);
    repaired(&pages);
    assert_eq!(pages.huge_backed.load(Ordering::Relaxed), 1);
    pages.close_span(id, Tick(0));
}

thread_local! {
    static FORKING: Cell<*const Pages<Fake>> = const { Cell::new(std::ptr::null()) };
}

/// A handler that interrupts the request to give units back forks; `state` is held by a thread that stays behind.
fn fork_as_units_are_given_back(request: Request) {
    let pages = FORKING.take();
    if request != Request::Release || pages.is_null() {
        return FORKING.set(pages);
    }
    // SAFETY: the test below keeps the pages.
    let pages = unsafe { &*pages };
    std::thread::scope(|scope| scope.spawn(|| pages.state.hold()).join()).unwrap();
    // SAFETY: the thread that held the lock is gone.
    unsafe { pages.repair(false) };
    assert_ne!(pages.stats().used, 0, "nobody else may have what is given back");
}

#[test]
fn units_that_interrupted_work_withholds_stay_withheld_until_it_ends() {
    let (mut os, pages) = pages();
    os.meanwhile = Some(fork_as_units_are_given_back);
    let (id, _) = pages.open_large(&os, Place::of(100), 0).unwrap();
    pages.close_span(id, Tick(0));
    FORKING.set(&raw const pages);
    assert_ne!(pages.release(&os, 0, Ticks(0)), 0);
    assert!(FORKING.get().is_null());
    pages.verify();
    assert_eq!((pages.stats().used, pages.stats().dirty_free), (0, 0));
}
