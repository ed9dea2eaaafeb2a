use super::*;
use crate::base::memory::{fill, holds};
use crate::base::sync::{AtomicUsize, Ordering};
use crate::base::ticks::Ticks;
use crate::class::SizeClass;
use crate::os::fake::{Fake, Request};

fn pages() -> (Fake, Pages<Fake>) {
    let (os, pages) = (Fake::default(), Pages::new());
    assert!(pages.start(&os));
    (os, pages)
}

fn address(pages: &Pages<Fake>, id: SpanId) -> usize {
    pages.address_of(pages.span(id).start.get())
}

#[test]
fn an_address_is_known_by_its_class_and_nothing_else_is() {
    let (os, pages) = pages();
    let class = SizeClass::for_small(300);
    assert_eq!(pages.class_of(0), SizeClass::NONE);
    let id = pages.open_span(&os, class).unwrap();
    let start = address(&pages, id);
    assert_eq!(pages.class_of(start + 301), class);
    assert_eq!(pages.span_of(start + 301), Some(id));
    assert_eq!(pages.class_of(start - 1), SizeClass::NONE);
    assert_eq!(pages.class_of(&os as *const Fake as usize), SizeClass::NONE);
    assert_eq!(pages.class_of(usize::MAX), SizeClass::NONE);
    pages.close_span(id, Tick(0));
    assert_eq!((pages.class_of(start), pages.span_of(start)), (SizeClass::NONE, None));
}

#[test]
fn a_large_span_grows_and_shrinks_in_place() {
    let (os, pages) = pages();
    let (id, zeroed) = pages.open_large(&os, Place::of(20), 0).unwrap();
    assert!(zeroed);
    let start = address(&pages, id);
    assert!(pages.resize_large(&os, id, start, 30, 7));
    assert_eq!(pages.class_of(address(&pages, id) + 29 * UNIT_BYTES), SizeClass::LARGE);
    assert!(pages.resize_large(&os, id, start, 5, 8));
    assert_eq!(pages.class_of(address(&pages, id) + 5 * UNIT_BYTES), SizeClass::NONE);
    let bytes = 5 * UNIT_BYTES as u64;
    assert_eq!(pages.stats().used, bytes);
    assert_eq!(pages.stats().large, LargeStats { blocks: 1, bytes, requested: 8 });
}

#[test]
fn a_large_span_with_room_grows_to_that_in_place_whatever_was_opened_after_it() {
    let (os, pages) = pages();
    let ids = [0; 4].map(|_| pages.open_large(&os, Place { room: 16, ..Place::of(4) }, 0).unwrap().0);
    for id in ids {
        assert!(pages.resize_large(&os, id, address(&pages, id), 16, 0));
    }
    assert_eq!(pages.stats().used, 64 * UNIT_BYTES as u64);
}

#[test]
fn large_alignment_is_met() {
    let (os, pages) = pages();
    for align in [1u32, 2, 64, 128, 1024] {
        let (id, _) = pages.open_large(&os, Place { align, ..Place::of(3) }, 0).unwrap();
        assert_eq!(address(&pages, id) % (align as usize * UNIT_BYTES), 0, "{align} units");
    }
}

#[test]
fn no_start_without_tables_but_a_smaller_one_where_the_system_is_tight() {
    let os = Fake::default();
    os.refuse_after(Request::MapAt, 3);
    assert!(!Pages::<Fake>::new().start(&os));
    os.grant(Request::MapAt);
    os.refuse_after(Request::FreeRange, 0);
    assert!(!Pages::<Fake>::new().start(&os));
}

#[test]
fn a_refused_mapping_is_an_answer_and_the_next_try_succeeds() {
    for granted in [0, 1, 2, 7] {
        let (os, pages) = pages();
        os.refuse_after(Request::MapAt, granted);
        let opened = pages.open_large(&os, Place::of(4000), 0).is_some();
        assert_eq!(opened, pages.stats().used != 0, "{granted} granted");
        assert_eq!(opened, granted == 7);
        os.grant(Request::MapAt);
        assert!(pages.open_large(&os, Place::of(4000), 0).is_some());
        pages.verify();
    }
}

#[test]
fn what_is_free_can_be_cut_into_the_smallest_spans_when_the_system_gives_nothing_more() {
    let (os, pages) = pages();
    let (large, _) = pages.open_large(&os, Place::of(64 * HUGE_PAGE_UNITS), 0).unwrap();
    pages.close_span(large, Tick(0));
    os.refuse_after(Request::MapAt, 0);
    os.refuse_after(Request::Commit, 0);
    let spans = (0..).map_while(|_| pages.open_span(&os, SizeClass::for_small(16)));
    assert_eq!(spans.count(), 64 * HUGE_PAGE_UNITS as usize);
}

#[test]
fn a_place_that_is_taken_is_skipped() {
    let (os, pages) = pages();
    let base = pages.address_of(0);
    assert_eq!(os.map_at(base, HUGE_PAGE_BYTES), Ok(()));
    let id = pages.open_span(&os, SizeClass::for_small(64)).unwrap();
    assert_eq!(address(&pages, id), base + HUGE_PAGE_BYTES);
    assert_eq!(pages.class_of(base), SizeClass::NONE);
    assert_eq!(pages.stats().mapped, HUGE_PAGE_BYTES as u64);
}

#[test]
fn the_range_is_an_end_that_is_reported() {
    let os = Fake::default();
    os.address_budget.store(64 << 20, core::sync::atomic::Ordering::Relaxed);
    let pages = Pages::new();
    assert!(pages.start(&os));
    let mut opened = 0;
    while pages.open_large(&os, Place::of(HUGE_PAGE_UNITS), 0).is_some() {
        opened += 1;
    }
    assert_eq!(opened, 32);
    assert!(pages.open_span(&os, SizeClass::for_small(1)).is_none());
}

#[test]
fn one_block_can_have_the_whole_range_and_so_can_the_smallest_spans() {
    let os = Fake::default();
    os.address_budget.store(64 << 20, Ordering::Relaxed);
    let pages = Pages::new();
    assert!(pages.start(&os));
    let units = (pages.range_bytes() / UNIT_BYTES) as u32;
    assert!(pages.open_large(&os, Place::of(units + 1), 0).is_none());
    let (all, _) = pages.open_large(&os, Place::of(units), 0).unwrap();
    pages.close_span(all, Tick(0));
    let spans = (0..).map_while(|_| pages.open_span(&os, SizeClass::for_small(16)));
    assert_eq!(spans.count(), units as usize);
}

#[test]
fn a_block_that_grows_into_what_is_left_out_of_core_files_lets_it_in_again() {
    let (os, pages) = pages();
    let [id, gone] = [HUGE_PAGE_UNITS; 2].map(|units| pages.open_large(&os, Place::of(units), 0).unwrap().0);
    pages.close_span(gone, Tick(0));
    pages.release(&os, 0, Ticks(0));
    let left_out = os.asked(Request::SetDumped);
    assert!(pages.resize_large(&os, id, address(&pages, id), HUGE_PAGE_UNITS + 2, 0));
    assert_eq!((left_out, os.asked(Request::SetDumped)), (1, 2));
}

#[test]
fn huge_pages_side_by_side_go_in_one_call_and_one_by_one_where_that_is_refused() {
    let (os, pages) = pages();
    let ids: Vec<_> =
        (0..20).map(|_| pages.open_large(&os, Place::of(HUGE_PAGE_UNITS), 0).unwrap().0).collect();
    let starts: Vec<usize> = ids.iter().map(|id| address(&pages, *id)).collect();
    starts.iter().for_each(|start| fill(*start, HUGE_PAGE_BYTES, 9));
    // SAFETY: memory of the pages, which nobody uses else.
    let locked = unsafe { libc::mlock(std::ptr::with_exposed_provenance(starts[2]), 4096) } == 0;
    ids.iter().for_each(|id| pages.close_span(*id, Tick(0)));
    let before = os.asked(Request::Release);
    let gone = pages.release(&os, 0, Ticks(0));
    let asked = os.asked(Request::Release) - before;
    let kept = usize::from(locked) * HUGE_PAGE_BYTES;
    assert_eq!((gone, pages.stats().dirty_free as usize), (20 * HUGE_PAGE_BYTES - kept, kept));
    assert!(asked <= 8 + u64::from(locked) * 10, "{asked} calls");
    let is_zero = |start: &usize| holds(*start, HUGE_PAGE_BYTES, 0);
    assert_eq!(starts.iter().filter(|start| !is_zero(start)).count(), usize::from(locked));
    pages.verify();
}

#[test]
fn free_memory_is_given_back_and_reads_as_zeros_afterwards() {
    let (os, pages) = pages();
    let ids: Vec<_> = (0..3).map(|_| pages.open_large(&os, Place::of(100), 0).unwrap().0).collect();
    let start = address(&pages, ids[1]);
    fill(start, 1, 9);
    pages.close_span(ids[1], Tick(0));
    assert_eq!(pages.stats().dirty_free, 100 * UNIT_BYTES as u64);
    os.refuse_after(Request::Release, 0);
    assert_eq!(pages.release(&os, 0, Ticks(0)), 0, "a refusal leaves it dirty");
    assert_eq!(pages.stats().dirty_free, 100 * UNIT_BYTES as u64);
    os.grant(Request::Release);
    assert_eq!(pages.release(&os, 100 * UNIT_BYTES, Ticks(0)), 0, "so much may be kept");
    assert_eq!(pages.release(&os, 0, Ticks(0)), 100 * UNIT_BYTES);
    assert!(pages.stats().dirty_free == 0 && holds(start, 1, 0));
    assert!(pages.open_large(&os, Place::of(100), 0).unwrap().1, "known to be zero");
}

#[test]
fn a_block_is_known_by_its_start_while_it_is_given_out() {
    let (os, pages) = pages();
    let class = SizeClass::for_small(300);
    let start = address(&pages, pages.open_span(&os, class).unwrap());
    let block = start + 3 * class.block_bytes();
    assert_eq!(pages.class_of_allocated(block), None);
    pages.note_allocated(block, true);
    assert_eq!(pages.class_of_allocated(block), Some(class));
    for wrong in [block + 1, block + 15, block + 16, block - 16, start, usize::MAX, 0] {
        assert_eq!(pages.class_of_allocated(wrong), None, "{} from the block", wrong.wrapping_sub(block));
    }
    pages.note_allocated(block, false);
    assert_eq!(pages.class_of_allocated(block), None);
}

#[test]
fn a_large_span_that_another_thread_has_closed_meanwhile_is_not_closed_again() {
    let (os, pages) = pages();
    let closed_twice = |what: &str, id, start| {
        let before = pages.stats();
        assert!(!pages.close_large(id, start, Tick(0), false), "{what}");
        assert!(!pages.resize_large(&os, id, start, 20, 1), "{what}");
        assert_eq!(pages.stats(), before, "{what}");
        pages.verify();
    };
    let neighbours: Vec<_> = (0..3).map(|_| pages.open_large(&os, Place::of(30), 0).unwrap().0).collect();
    let (id, start) = (neighbours[1], address(&pages, neighbours[1]));
    assert!(pages.close_large(id, start, Tick(0), false));
    closed_twice("free units", id, start);
    assert_eq!(pages.stats().used, 60 * UNIT_BYTES as u64);
    // A span of blocks has the descriptor and the place now.
    let small = pages.open_span(&os, SizeClass::for_small(300)).unwrap();
    assert_eq!((small, address(&pages, small)), (id, start));
    closed_twice("blocks of a class", id, start);
    pages.close_span(small, Tick(0));
    // Another descriptor has the place; that one has gone elsewhere.
    let (elsewhere, _) = pages.open_large(&os, Place::of(200), 0).unwrap();
    let (there, _) = pages.open_large(&os, Place::of(30), 0).unwrap();
    assert_eq!((elsewhere, address(&pages, there)), (id, start));
    closed_twice("another large block", id, start);
    assert!(pages.close_large(there, start, Tick(0), false));
}

#[test]
fn the_hard_limit_is_the_last_byte_that_can_be_had() {
    let (os, pages) = pages();
    pages.limits.set(None, Some(30 * UNIT_BYTES));
    assert_eq!((pages.limits.soft(), pages.limits.hard()), (None, Some(30 * UNIT_BYTES)));
    let (id, _) = pages.open_large(&os, Place::of(20), 0).unwrap();
    let start = address(&pages, id);
    assert!(pages.open_large(&os, Place::of(11), 0).is_none());
    assert!(!pages.resize_large(&os, id, start, 31, 0));
    assert!(pages.resize_large(&os, id, start, 30, 0));
    assert_eq!(pages.footprint(), 30 * UNIT_BYTES);
    assert!(pages.open_span(&os, SizeClass::for_small(16)).is_none());
    assert!(pages.resize_large(&os, id, start, 20, 0));
    assert!(pages.open_large(&os, Place::of(10), 0).is_some(), "what was given up counts no more");
    assert!(!pages.limits.is_passed(), "there is no soft limit");
}

#[test]
fn that_the_soft_limit_is_passed_is_told_until_it_is_forgotten_and_nothing_is_given_back_for_it() {
    let (os, pages) = pages();
    pages.limits.set(Some(30 * UNIT_BYTES), None);
    let (id, _) = pages.open_large(&os, Place::of(20), 0).unwrap();
    pages.close_span(id, Tick(0));
    assert_eq!(pages.footprint(), 20 * UNIT_BYTES, "free, and in memory");
    pages.open_large(&os, Place::of(10), 0).unwrap();
    assert_eq!((pages.footprint(), pages.limits.is_passed()), (20 * UNIT_BYTES, false), "within it");
    pages.open_large(&os, Place::of(21), 0).unwrap();
    assert!(pages.limits.is_passed());
    assert_eq!(os.asked(Request::Release), 0, "whoever relieves the heap does so by steps");
    pages.limits.forget_passed();
    assert!(!pages.limits.is_passed());
}

#[test]
fn a_block_that_grows_in_place_is_under_the_limits_as_a_new_one_is_and_may_always_shrink() {
    let (os, pages) = pages();
    let [id, gone] = [20, 10].map(|units| pages.open_large(&os, Place::of(units), 0).unwrap().0);
    let start = address(&pages, id);
    pages.close_span(gone, Tick(0));
    pages.limits.set(Some(40 * UNIT_BYTES), Some(32 * UNIT_BYTES));
    assert!(pages.resize_large(&os, id, start, 25, 0));
    assert_eq!(pages.dirty_free_bytes(), 0, "what was free went first");
    pages.limits.set(Some(32 * UNIT_BYTES), None);
    assert!(!pages.limits.is_passed());
    assert!(pages.resize_large(&os, id, start, 33, 0) && pages.limits.is_passed());
    pages.limits.forget_passed();
    pages.limits.set(None, Some(10 * UNIT_BYTES));
    assert!(pages.resize_large(&os, id, start, 30, 0), "however far it stays above the limit");
    pages.limits.set(Some(40 * UNIT_BYTES), None);
    assert!(pages.open_large(&os, Place::of(11), 0).is_some() && pages.limits.is_passed());
}

#[test]
fn a_limit_that_comes_while_a_thread_waits_for_the_lock_holds_for_that_thread() {
    let (os, pages) = pages();
    let (id, _) = pages.open_large(&os, Place::of(20), 0).unwrap();
    let start = address(&pages, id);
    let waits_under_limit = |take: &(dyn Fn() -> bool + Sync)| {
        pages.limits.set(None, None);
        let held = pages.state.lock();
        std::thread::scope(|scope| {
            let waits = scope.spawn(take);
            // It finds no limit; should it come too late for that, it is refused all the same.
            std::thread::sleep(std::time::Duration::from_millis(30));
            pages.limits.set(None, Some(22 * UNIT_BYTES));
            drop(held);
            waits.join().unwrap()
        })
    };
    assert!(!waits_under_limit(&|| pages.open_large(&os, Place::of(3), 0).is_some()));
    assert!(!waits_under_limit(&|| pages.resize_large(&os, id, start, 23, 0)));
    assert!(waits_under_limit(&|| pages.resize_large(&os, id, start, 22, 0)));
}

#[test]
fn what_nobody_needed_and_what_was_wanted_again_is_counted() {
    let (os, pages) = pages();
    let unit = UNIT_BYTES;
    let ids = [40, 60].map(|units| pages.open_large(&os, Place::of(units), 0).unwrap().0);
    ids.into_iter().for_each(|id| pages.close_span(id, Tick(0)));
    assert_eq!((pages.low_water(), pages.dirty_free_bytes()), (0, 100 * unit), "the least since the start");
    pages.open_large(&os, Place::of(30), 0).unwrap();
    assert_eq!([pages.low_water(), pages.low_water()], [70 * unit, 70 * unit]);
    let now = pages.clock.load();
    assert_eq!(pages.came_back(now), 0);
    assert_eq!(pages.release(&os, 0, Ticks(0)), 70 * unit);
    pages.open_large(&os, Place::of(50), 0).unwrap();
    assert_eq!(pages.came_back(now.after(Ticks(1))), 50 * unit as u64);
    pages.open_large(&os, Place::of(10), 0).unwrap();
    assert_eq!(pages.came_back(now.after(Ticks(1))), 50 * unit as u64, "too long ago to count");
    pages.count_returned(4096, now);
    pages.count_returned(8192, now.after(Ticks(1)));
    assert_eq!(pages.came_back(now), 50 * unit as u64 + 8192);
}

#[test]
fn a_large_block_that_is_freed_while_somebody_holds_the_lock_is_closed_by_who_takes_it_next() {
    let (os, pages) = pages();
    let blocks: Vec<_> = (0..20).map(|_| pages.open_large(&os, Place::of(30), 0).unwrap().0).collect();
    let starts: Vec<_> = blocks.iter().map(|id| address(&pages, *id)).collect();
    let held = pages.state.lock();
    // This thread would wait for itself.
    assert!((0..16).all(|at| pages.close_large(blocks[at], starts[at], Tick(0), false)));
    assert!(!pages.close_large(blocks[3], starts[3], Tick(0), false), "freed twice");
    assert_eq!([15, 16].map(|at| pages.is_delayed(blocks[at], starts[at])), [true, false]);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pages.close_large(blocks[16], starts[16], Tick(0), false));
        assert_eq!(pages.class_of(starts[16]), SizeClass::LARGE);
        drop(held);
        assert!(waits.join().unwrap());
    });
    assert_eq!(pages.stats().large.blocks, 3);
    assert!(!pages.close_large(blocks[3], starts[3], Tick(0), false), "freed twice");
    assert_eq!(pages.take_freed_twice(), None);
    pages.verify();
}

#[test]
fn a_large_block_that_two_threads_freed_at_one_moment_is_closed_once_and_known() {
    let (os, pages) = pages();
    let id = pages.open_large(&os, Place::of(30), 0).unwrap().0;
    let (start, delayed_free) = (address(&pages, id), pages.delayed_free(id, address(&pages, id)));
    assert!(pages.close_large(id, start, Tick(0), false));
    // The other thread looked before that, and saw the lock taken.
    assert_eq!(pages.delayed.delay(delayed_free), delayed::Delay::Left);
    assert!(pages.is_delayed(id, start));
    pages.stats();
    assert_eq!(pages.take_freed_twice(), Some(start));
    pages.verify();
}

#[test]
fn large_blocks_that_threads_open_and_close_beside_each_other_are_each_theirs_alone() {
    let (os, pages) = pages();
    let work = |mark: u8| {
        for round in 0..300 {
            let (id, _) = pages.open_large(&os, Place::of(20 + round % 7), 0).unwrap();
            let (start, bytes) = (address(&pages, id), 20 * UNIT_BYTES);
            fill(start, bytes, mark);
            assert!(holds(start, bytes, mark), "round {round}");
            assert!(pages.close_large(id, start, Tick(0), false), "round {round}");
        }
    };
    std::thread::scope(|scope| {
        for mark in 1..=4 {
            scope.spawn(move || work(mark));
        }
    });
    let after = pages.stats();
    assert_eq!((after.large.blocks, after.used), (0, 0));
    assert_eq!(pages.take_freed_twice(), None);
    pages.verify();
}

#[test]
fn of_two_threads_that_free_a_large_block_one_is_told_or_the_pages_know() {
    let (os, pages) = pages();
    for round in 0..500 {
        let id = pages.open_large(&os, Place::of(20), 0).unwrap().0;
        let start = address(&pages, id);
        let begin = std::sync::Barrier::new(3);
        let done = std::thread::scope(|scope| {
            let free = || {
                begin.wait();
                pages.close_large(id, start, Tick(0), false)
            };
            let frees = [scope.spawn(free), scope.spawn(free)];
            begin.wait();
            // Somebody else has the lock now and then.
            pages.stats();
            frees.map(|thread| thread.join().unwrap())
        });
        // The next holder of the lock.
        let large_blocks = pages.stats().large.blocks;
        assert!(done != [true, true] || pages.take_freed_twice() == Some(start), "round {round}: {done:?}");
        assert_eq!(large_blocks, 0, "round {round}");
    }
    pages.verify();
}

#[test]
fn a_long_block_that_comes_and_goes_takes_no_memory_for_owners_of_its_units() {
    let (os, pages) = pages();
    let (id, _) = pages.open_large(&os, Place::of(512 * HUGE_PAGE_UNITS), 0).unwrap();
    pages.close_span(id, Tick(0));
    let (address, bytes) = pages.owners.range();
    assert!(bytes >= 256 << 10, "a word for each unit");
    assert!(os.resident_bytes(address, bytes).unwrap() <= 2 * os.page_bytes(), "only its first unit has one");
}

#[test]
fn a_large_block_that_was_freed_while_the_lock_is_taken_serves_who_cannot_have_the_lock() {
    let (os, pages) = pages();
    let (long, _) = pages.open_large(&os, Place::of(100), 1_600_000).unwrap();
    let (short, _) = pages.open_large(&os, Place::of(20), 300_000).unwrap();
    let [long_start, short_start] = [long, short].map(|id| address(&pages, id));
    let before = pages.stats();
    pages.state.hold();
    let meanwhile = || {
        assert!(
            pages.close_large(long, long_start, Tick(9), false)
                && pages.close_large(short, short_start, Tick(9), false)
        );
        assert_eq!(pages.open_large(&os, Place::of(90), 1_400_000), Some((long, false)));
        assert!(!pages.is_delayed(long, long_start) && pages.is_delayed(short, short_start));
        // Not one that is too short, and not twice.
        assert_eq!(pages.take_delayed_for_test(Place::of(21)), None);
        assert_eq!(pages.take_delayed_for_test(Place::of(90)), None);
        assert_eq!(pages.take_delayed_for_test(Place { align: 2, ..Place::of(20) }), None);
    };
    std::thread::scope(|scope| scope.spawn(meanwhile).join()).unwrap();
    // SAFETY: held above.
    unsafe { pages.state.release() };
    assert_eq!(pages.stats().large.blocks, before.large.blocks - 1, "the short one is closed");
    assert_eq!(pages.span_of(long_start), Some(long));
    pages.close_span(long, Tick(0));
    assert_eq!(pages.stats().used, 0);
    pages.verify();
}

#[test]
fn a_thread_that_grows_the_heap_keeps_the_hard_limit_which_others_came_to_meanwhile() {
    static PAGES: AtomicUsize = AtomicUsize::new(0);
    /// Another thread has a block of what there is while the first one maps memory, without the lock.
    fn other(request: Request) {
        let pages = if request == Request::MapAt { PAGES.swap(0, Ordering::Relaxed) } else { 0 };
        if pages != 0 {
            // SAFETY: the test keeps the pages.
            let pages = unsafe { &*core::ptr::with_exposed_provenance::<Pages<Fake>>(pages) };
            assert!(pages.open_large(&Fake::default(), Place::of(60), 0).is_some());
        }
    }
    let (mut os, pages) = pages();
    pages.open_large(&os, Place::of(1), 0).unwrap();
    os.meanwhile = Some(other);
    pages.limits.set(None, Some(300 * UNIT_BYTES));
    PAGES.store(core::ptr::from_ref(&pages).expose_provenance(), Ordering::Relaxed);
    assert!(pages.open_large(&os, Place::of(250), 0).is_none());
    assert_eq!((PAGES.load(Ordering::Relaxed), pages.footprint()), (0, 61 * UNIT_BYTES));
    assert!(pages.limits.take_refused(), "the process is told");
    assert!(pages.open_large(&os, Place::of(239), 0).is_some(), "what is left can be had");
    pages.verify();
}
