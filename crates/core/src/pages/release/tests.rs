use super::*;
use crate::base::memory::fill;
use crate::base::sync::{AtomicBool, AtomicU32};
use crate::os::fake::{Fake, Request};
use crate::pages::{Place, SpanId};
use core::cell::Cell;

#[test]
fn what_shares_a_page_with_somebody_stays() {
    assert_eq!(whole(0b1111_1110, 0b0001_0010, 1), 0b0001_0010);
    assert_eq!(whole(0b1111_1110, 0b0001_0010, 4), 0b1111_0000, "unit 0 is somebody's");
    assert_eq!(whole(u128::MAX, 0b0001, 4), 0b1111, "clean units go with it");
}

const HALF: u32 = HUGE_PAGE_UNITS / 2;
const HALF_BYTES: usize = HUGE_PAGE_BYTES / 2;

/// A heap whose first huge page is dense and has two blocks, with what happens during a request for this one.
struct Dense {
    os: Fake,
    pages: Pages<Fake>,
    halves: [SpanId; 2],
}

/// A heap, and the act that is done to it in the middle of a request.
type During = (*const Dense, Request, fn(&Dense));

thread_local! {
    static DURING: Cell<Option<During>> = const { Cell::new(None) };
}

fn meanwhile(request: Request) {
    match DURING.take() {
        // SAFETY: the test below keeps it.
        Some((dense, at, act)) if at == request => act(unsafe { &*dense }),
        others => DURING.set(others),
    }
}

impl Dense {
    fn new() -> Self {
        let (mut os, pages) = (Fake::default(), Pages::new());
        os.meanwhile = Some(meanwhile);
        assert!(pages.start(&os));
        os.refuse_after(Request::TakeHuge, 0);
        let halves = [HALF; 2].map(|units| pages.open_large(&os, Place::of(units), 0).unwrap().0);
        let starts = halves.map(|id| pages.address_of(pages.span(id).start.get()));
        assert_eq!(starts[0] / HUGE_PAGE_BYTES, starts[1] / HUGE_PAGE_BYTES);
        starts.iter().for_each(|start| fill(*start, HALF_BYTES, 9));
        // Smaller heaps get no huge pages; these are not dense.
        for _ in 0..LEAST_FOR_HUGE {
            pages.open_large(&os, Place::of(HUGE_PAGE_UNITS), 0).unwrap();
        }
        Dense { os, pages, halves }
    }

    /// Has the huge page put onto one of the kernel's; meanwhile `act` is done.
    fn collapse(&self, act: fn(&Dense)) {
        DURING.set(Some((self, Request::Collapse, act)));
        assert_eq!(self.pages.collapse_dense(&self.os, 1, Ticks(0)), 1);
        assert!(DURING.get().is_none());
        self.pages.verify();
    }

    fn close(&self, half: usize) {
        self.pages.close_span(self.halves[half], Tick(0));
    }

    fn release(&self) -> usize {
        self.pages.release(&self.os, 0, Ticks(0))
    }

    fn backing(&self) -> (Huge, usize) {
        let number = self.pages.span(self.halves[0]).start.get() / HUGE_PAGE_UNITS;
        let _held = self.pages.lock();
        // SAFETY: huge pages belong to the holder of the state.
        let huge = unsafe { (*self.pages.huge.at(number as usize)).huge };
        (huge, self.pages.huge_backed.load(Ordering::Relaxed))
    }
}

#[test]
fn what_was_freed_and_released_before_the_kernel_filled_it_is_released_again() {
    let dense = Dense::new();
    dense.collapse(|dense| {
        dense.close(0);
        assert_eq!(dense.release(), HALF_BYTES);
    });
    assert_eq!(dense.pages.stats().dirty_free as usize, HALF_BYTES);
    assert_eq!(dense.backing(), (Huge::Yes, 1));
    assert_eq!(dense.release(), HALF_BYTES);
    assert_eq!((dense.backing(), dense.os.asked(Request::SplitHuge)), ((Huge::Broken, 0), 1));
}

#[test]
fn a_huge_page_that_was_emptied_before_the_kernel_filled_it_is_released_again() {
    let dense = Dense::new();
    dense.collapse(|dense| {
        (0..2).for_each(|half| dense.close(half));
        assert_eq!(dense.release(), HUGE_PAGE_BYTES);
    });
    assert_eq!(dense.pages.stats().dirty_free as usize, HUGE_PAGE_BYTES);
    assert_eq!(dense.release(), HUGE_PAGE_BYTES);
    assert_eq!(dense.backing(), (Huge::No, 0));
}

#[test]
fn an_emptied_huge_page_that_the_kernel_refused_may_become_one_later() {
    let dense = Dense::new();
    dense.os.refuse_after(Request::Collapse, 0);
    dense.collapse(|dense| {
        (0..2).for_each(|half| dense.close(half));
        dense.release();
    });
    assert_eq!((dense.backing(), dense.pages.stats().dirty_free), ((Huge::No, 0), 0));
}

/// As a thread does that emptied it, released it, and took it again as one of the kernel's.
fn take_whole(dense: &Dense) {
    let number = dense.pages.span(dense.halves[0]).start.get() / HUGE_PAGE_UNITS;
    dense.pages.lock().runs.note_whole(&dense.pages.huge, number);
    dense.pages.huge_backed.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_huge_page_that_became_one_meanwhile_is_counted_once_whatever_the_kernel_says() {
    for refused in [false, true] {
        let dense = Dense::new();
        if refused {
            dense.os.refuse_after(Request::Collapse, 0);
        }
        dense.collapse(take_whole);
        assert_eq!(dense.backing(), (Huge::Yes, 1), "refused: {refused}");
    }
}

#[test]
fn units_that_are_left_out_of_core_files_meanwhile_are_no_part_of_a_huge_page() {
    let dense = Dense::new();
    dense.pages.leave_out_heaps();
    dense.collapse(|dense| {
        let Dense { os, pages, halves } = dense;
        pages.span(halves[1]).heap.set(1);
        pages.leave_out(os, halves[1], pages.span(halves[1]).start.get(), HALF);
    });
    assert!(dense.pages.has_left_out());
    assert_eq!(dense.backing(), (Huge::Broken, 0));
}

/// 1: the kernel fills the huge page. 2: half of it is on its way back to the system.
static AT: AtomicU32 = AtomicU32::new(0);
static IS_NOTED: AtomicBool = AtomicBool::new(false);

fn wait_until(reached: u32) {
    while AT.load(Ordering::Acquire) < reached {
        std::thread::yield_now();
    }
}

#[test]
fn what_the_kernel_fills_while_it_is_on_its_way_back_is_released_again() {
    let dense = Dense::new();
    let dense = &dense;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            dense.collapse(|_| {
                AT.store(1, Ordering::Release);
                wait_until(2);
            });
            IS_NOTED.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            wait_until(1);
            DURING.set(Some((dense, Request::Release, |_| {
                AT.store(2, Ordering::Release);
                // The other thread has to wait for this one.
                std::thread::sleep(core::time::Duration::from_millis(50));
                assert!(!IS_NOTED.load(Ordering::Acquire));
            })));
            dense.close(0);
            assert_eq!(dense.release(), HALF_BYTES);
        });
    });
    assert_eq!(dense.pages.stats().dirty_free as usize, HALF_BYTES);
    assert_eq!(dense.release(), HALF_BYTES);
}
