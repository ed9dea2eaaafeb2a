use super::*;
use crate::base::ticks::{Tick, Ticks};
use crate::class::SizeClass;
use crate::os::fake::{Fake, Request};
use crate::pages::{OfHeap, Place};
use proptest::prelude::*;

const HEAP: OfHeap = OfHeap { number: 3, is_lean: true };

fn pages() -> (Fake, Pages<Fake>) {
    let (os, pages) = (Fake::default(), Pages::new());
    assert!(pages.start(&os));
    pages.leave_out_heaps();
    (os, pages)
}

/// The mappings of this process that core files do not have.
fn undumped() -> Vec<(usize, usize)> {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut found, mut range) = (Vec::new(), (0, 0));
    for line in text.lines() {
        let first = line.split(' ').next().unwrap_or("");
        if let Some((start, end)) = first.split_once('-')
            && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
        {
            range = (start, end);
        } else if first == "VmFlags:" && line.split(' ').any(|flag| flag == "dd") {
            found.push(range);
        }
    }
    found
}

fn bounds(pages: &Pages<Fake>, id: SpanId) -> (usize, usize) {
    let start = pages.address_of(pages.span(id).start.get());
    (start, start + pages.span(id).bytes())
}

/// Of each span whether core files have none of it, or all.
fn prove_left_out(pages: &Pages<Fake>, spans: &[(SpanId, bool)]) {
    let undumped = undumped();
    for &(id, is_out) in spans {
        let (start, end) = bounds(pages, id);
        let overlaps = undumped.iter().map(|(from, to)| end.min(*to).saturating_sub(start.max(*from)));
        assert_eq!(overlaps.sum::<usize>(), if is_out { end - start } else { 0 }, "{id:?} {is_out}");
    }
    pages.verify();
}

fn open(os: &Fake, pages: &Pages<Fake>, units: u32, of: OfHeap) -> SpanId {
    pages.open_large_of(os, Place::of(units), 0, of).unwrap().0
}

#[test]
fn spans_of_heaps_are_left_out_and_what_others_get_there_later_is_in() {
    let (os, pages) = pages();
    let class = SizeClass::for_small(100);
    let small = pages.open_span_of(&os, class, HEAP).unwrap();
    let own = pages.open_span(&os, class).unwrap();
    let large = open(&os, &pages, 60, HEAP);
    prove_left_out(&pages, &[(small, true), (own, false), (large, true)]);
    let (start, _) = bounds(&pages, large);
    pages.close_span(large, Tick(0));
    let asked = os.asked(Request::SetDumped);
    let again = open(&os, &pages, 30, HEAP);
    assert_eq!((bounds(&pages, again).0, os.asked(Request::SetDumped)), (start, asked), "left out as it was");
    let next = open(&os, &pages, 30, OfHeap::OWN);
    assert_eq!(bounds(&pages, next).0, bounds(&pages, again).1);
    prove_left_out(&pages, &[(small, true), (own, false), (again, true), (next, false)]);
}

#[test]
fn without_the_option_nothing_is_asked() {
    let (os, pages) = (Fake::default(), Pages::new());
    assert!(pages.start(&os));
    let id = open(&os, &pages, 200, HEAP);
    assert_eq!((os.asked(Request::SetDumped), pages.has_left_out()), (0, false));
    prove_left_out(&pages, &[(id, false)]);
}

#[test]
fn a_block_of_a_heap_that_grows_is_left_out_as_a_whole() {
    let (os, pages) = pages();
    let id = open(&os, &pages, 20, HEAP);
    assert!(pages.resize_large(&os, id, bounds(&pages, id).0, 100, 0));
    prove_left_out(&pages, &[(id, true)]);
    assert!(pages.resize_large(&os, id, bounds(&pages, id).0, 10, 0));
    let own = open(&os, &pages, 90, OfHeap::OWN);
    prove_left_out(&pages, &[(id, true), (own, false)]);
}

#[test]
fn a_span_that_comes_to_the_process_itself_is_let_in() {
    let (os, pages) = pages();
    let [one, other] = [150, 3].map(|units| open(&os, &pages, units, HEAP));
    pages.let_into_dumps(&os, one);
    pages.hand_over(one, 0);
    prove_left_out(&pages, &[(one, false), (other, true)]);
}

#[test]
fn what_the_system_refuses_stays_in_and_is_tried_again_where_it_must_come_in() {
    let (os, pages) = pages();
    os.refuse_after(Request::SetDumped, 0);
    let stays = open(&os, &pages, 10, HEAP);
    os.grant(Request::SetDumped);
    let [kept, out] = [10; 2].map(|units| open(&os, &pages, units, HEAP));
    prove_left_out(&pages, &[(stays, false), (kept, true), (out, true)]);
    pages.close_span(out, Tick(0));
    os.refuse_after(Request::SetDumped, 0);
    let refused = open(&os, &pages, 10, OfHeap::OWN);
    os.grant(Request::SetDumped);
    let next = open(&os, &pages, 10, OfHeap::OWN);
    let heap = open(&os, &pages, 10, HEAP);
    prove_left_out(&pages, &[(kept, true), (refused, false), (next, false), (heap, true)]);
    // Without memory for the bits, too.
    let (os, pages) = self::pages();
    os.refuse_after(Request::Reserve, 0);
    let id = open(&os, &pages, 10, HEAP);
    prove_left_out(&pages, &[(id, false)]);
    os.grant(Request::Reserve);
    let id = open(&os, &pages, 10, HEAP);
    prove_left_out(&pages, &[(id, true)]);
}

#[test]
fn a_huge_page_that_was_left_out_as_a_whole_comes_in_around_the_spans_of_heaps() {
    let (os, pages) = pages();
    let gone = [HUGE_PAGE_UNITS; 3].map(|units| open(&os, &pages, units, HEAP));
    gone.iter().for_each(|id| pages.close_span(*id, Tick(0)));
    pages.release(&os, 0, Ticks(0));
    let spans: Vec<_> = (0..60u32)
        .map(|turn| (open(&os, &pages, 6, if turn % 2 == 0 { HEAP } else { OfHeap::OWN }), turn % 2 == 0))
        .collect();
    prove_left_out(&pages, &spans);
    spans.iter().for_each(|(id, _)| pages.close_span(*id, Tick(0)));
    pages.release(&os, 0, Ticks(0));
    assert_eq!(pages.lock().edges_left_out, 0);
}

#[test]
fn the_mappings_that_it_costs_are_bounded() {
    let (os, pages) = pages();
    let turns = (0..20_000u32).map(|turn| (turn, if turn % 2 == 0 { HEAP } else { OfHeap::OWN }));
    let spans: Vec<_> = turns.map(|(turn, of)| (open(&os, &pages, 1, of), turn)).collect();
    assert_eq!(os.asked(Request::SetDumped), u64::from(MOST_EDGES / 2));
    assert_eq!(pages.lock().edges_left_out, MOST_EDGES);
    pages.verify();
    // A span beside others that are left out costs none.
    spans.iter().skip(1).step_by(2).take(10).for_each(|(id, _)| pages.close_span(*id, Tick(0)));
    let beside = open(&os, &pages, 1, HEAP);
    assert_eq!(pages.lock().edges_left_out, MOST_EDGES - 2);
    prove_left_out(&pages, &[(spans[0].0, true), (beside, true), (spans[19_998].0, false)]);
}

#[test]
fn a_child_counts_the_ends_anew() {
    let (os, pages) = pages();
    let spans = [5, 6, 7].map(|units| (open(&os, &pages, units, HEAP), open(&os, &pages, 1, OfHeap::OWN)));
    let before = pages.lock().edges_left_out;
    // As another thread of the parent leaves it.
    let mut state = pages.lock();
    state.edges_left_out = 77;
    core::mem::forget(state);
    // SAFETY: no other thread uses the pages.
    unsafe { pages.repair(true) };
    assert_eq!(pages.lock().edges_left_out, before);
    prove_left_out(&pages, &spans.map(|(id, _)| (id, true)));
}

#[test]
fn threads_that_open_and_close_spans_of_heaps_and_of_the_process_leave_out_those_of_heaps() {
    let (os, pages) = pages();
    let left: Vec<_> = std::thread::scope(|scope| {
        let threads = [HEAP, OfHeap::OWN, HEAP, OfHeap::OWN].map(|of| {
            let (os, pages) = (&os, &pages);
            scope.spawn(move || {
                let mut held: Vec<SpanId> = Vec::new();
                for turn in 0..3000u32 {
                    if held.len() > 30 {
                        pages.close_span(held.swap_remove(turn as usize * 7 % 30), Tick(0));
                    }
                    held.push(open(os, pages, turn * 13 % 40 + 1, of));
                    if turn % 500 == 0 {
                        pages.release(os, 0, Ticks(0));
                    }
                }
                held.into_iter().map(|id| (id, of != OfHeap::OWN)).collect::<Vec<_>>()
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    prove_left_out(&pages, &left);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_core_files_have_all_but_the_spans_of_heaps(
        steps in prop::collection::vec((0u8..12, 1u32..300, 0usize..64), 1..120)
    ) {
        let (os, pages) = pages();
        let mut spans: Vec<(SpanId, bool)> = Vec::new();
        for (what, units, which) in steps {
            let at = if spans.is_empty() { None } else { Some(which % spans.len()) };
            match (what, at) {
                (0..=2, _) => spans.push((open(&os, &pages, units, HEAP), true)),
                (3..=5, _) => spans.push((open(&os, &pages, units, OfHeap::OWN), false)),
                (6..=8, Some(at)) => pages.close_span(spans.swap_remove(at).0, Tick(0)),
                (9, Some(at)) => _ = pages.resize_large(&os, spans[at].0, bounds(&pages, spans[at].0).0, units, 0),
                (10, _) => _ = pages.release(&os, units as usize * UNIT_BYTES, Ticks(0)),
                (11, Some(at)) if spans[at].1 => {
                    pages.let_into_dumps(&os, spans[at].0);
                    pages.hand_over(spans[at].0, 0);
                    spans[at].1 = false;
                }
                _ => {}
            }
        }
        prove_left_out(&pages, &spans);
    }
}
