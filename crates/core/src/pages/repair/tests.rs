use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::fake::Fake;
use crate::pages::{Pages, SpanId};

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
    let (large, _) = pages.open_large(&os, 300, 1, 4_800_000).unwrap();
    let (gone, _) = pages.open_large(&os, 200, 1, 0).unwrap();
    pages.close_span(gone, 0);
    let before = pages.stats();
    repaired(&pages);
    assert_eq!(pages.stats(), before);
    pages.close_span(small, 0);
    pages.close_span(large, 0);
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
            0 => pages.set_owner(start, class.shape().span_units, SizeClass::NONE, SpanId::NONE),
            // Closing: the map is cleared in part.
            1 => pages.set_owner(start, 1, SizeClass::NONE, SpanId::NONE),
            // Opening: the classes are written, the owners are not.
            _ => pages.set_owner(start, class.shape().span_units, class, SpanId::NONE),
        }
        repaired(&pages);
        assert_eq!((pages.stats().used, pages.stats().spans_open), (0, 0), "half {half}");
        assert_eq!(pages.class_of(pages.address_of(start)), SizeClass::NONE);
    }
}

#[test]
fn a_run_that_was_taken_for_nothing_and_units_that_were_withheld_are_free_again() {
    let (os, pages) = pages();
    let (id, _) = pages.open_large(&os, 100, 1, 0).unwrap();
    pages.close_span(id, 0);
    pages.state.lock().runs.take(&pages.blocks, 40, 1).unwrap();
    repaired(&pages);
    assert_eq!(pages.stats().used, 0);
    std::thread::scope(|scope| {
        let gone = scope.spawn(|| {
            pages.giving_back.hold();
            pages.state.lock().runs.withhold_free(&pages.blocks, 0)
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
    let (id, _) = pages.open_large(&os, 20, 1, 0).unwrap();
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
    assert_eq!(os.map_at(pages.address_of(0), crate::pages::BLOCK_BYTES), Ok(()));
    let id = pages.open_span(&os, SizeClass::for_small(64)).unwrap();
    let before = pages.stats();
    repaired(&pages);
    assert_eq!(pages.stats(), before);
    pages.close_span(id, 0);
}
