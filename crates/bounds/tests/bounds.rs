//! The bounds of a trace.

use vcm_bounds::{Bounds, PAGE, RULES, Rule, bounds};
use vcm_trace::{Event, Header, Object, Reader, Writer};

fn traced(fill: impl FnOnce(&mut dyn FnMut(u32, Event))) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let mut now = 0;
    fill(&mut |stream, event| {
        now += 1000;
        writer.event(stream, now, &event).unwrap();
    });
    writer.finish().unwrap().0
}

fn of(trace: &[u8]) -> Bounds {
    bounds(|| Reader::new(trace), |_| ()).unwrap()
}

fn end(found: &Bounds, rule: Rule) -> u64 {
    RULES.iter().zip(&found.pages).find(|(at, _)| **at == rule).unwrap().1.end
}

fn free(ordinal: u64) -> Event {
    Event::Free { object: Object { stream: 1, ordinal } }
}

#[test]
fn known_lifetimes_keep_apart_what_stays_and_what_goes() {
    // One block in 64 of 100 bytes stays: without knowledge each holds a page or two.
    let trace = traced(|event| {
        (0..6400).for_each(|_| event(1, Event::Malloc { bytes: 100 }));
        (0..6400).filter(|ordinal| ordinal % 64 != 0).for_each(|ordinal| event(1, free(ordinal)));
    });
    let found = of(&trace);
    assert_eq!((found.live.peak, found.live.end), (640_000, 100 * 100));
    assert!(end(&found, Rule::Classes) >= 100 * PAGE, "{found:?}");
    assert!(end(&found, Rule::BestFit) >= 100 * PAGE);
    assert!(end(&found, Rule::KnownLifetimes) <= 4 * PAGE);
}

#[test]
fn a_pool_for_each_size_costs_pages_where_sizes_are_many() {
    let trace = traced(|event| {
        (0..200u64).for_each(|step| event(1, Event::Malloc { bytes: 1 + step * 16 % 1024 }));
    });
    let found = of(&trace);
    assert!(end(&found, Rule::PoolPerSize) >= end(&found, Rule::Classes));
}

#[test]
fn a_realloc_makes_room_before_it_takes_some() {
    let trace = traced(|event| {
        event(1, Event::Malloc { bytes: 1 << 20 });
        event(1, Event::Realloc { from: Object { stream: 1, ordinal: 0 }, bytes: 2 << 20 });
    });
    let found = of(&trace);
    assert_eq!((found.live.peak, found.live.end), (2 << 20, 2 << 20));
    assert_eq!(end(&found, Rule::Classes), 2 << 20);
}

#[test]
fn what_was_cut_off_is_told_with_what_is_there() {
    let trace = traced(|event| {
        (0..100_000).for_each(|step| event(1, Event::Malloc { bytes: step % 512 }));
    });
    let found = of(&trace[..trace.len() * 3 / 4]);
    assert!(found.cut_off.is_some() || found.events == 100_000, "{:?}", found.cut_off);
    assert!(bounds(|| Reader::new(&b"not a trace"[..]), |_| ()).is_err());
}

#[test]
fn the_course_is_kept_in_about_a_thousand_moments() {
    let trace = traced(|event| {
        for step in 0..20_000 {
            event(1, Event::Malloc { bytes: 64 });
            event(1, free(step));
        }
    });
    let found = of(&trace);
    assert!((1000..=2001).contains(&found.course.len()), "{}", found.course.len());
    assert_eq!((found.events, found.live.end), (40_000, 0));
    assert!(found.course.is_sorted_by(|one, other| one.seconds <= other.seconds));
}
