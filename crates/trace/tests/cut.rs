//! A part of a trace is a trace: it starts with the heap that was there, and its times start at 0.

use vcm_trace::{Event, Header, Object, Part, Reader, Summary, Writer, cut, summarize};

/// Two threads; at every microsecond one of them allocates, and frees what the other allocated ten microseconds before.
fn trace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for step in 0..1000u64 {
        let (stream, now) = (1 + (step % 2) as u32, step * 1000);
        if step == 0 {
            writer.event(1, 0, &Event::Name { name: "worker".into() }).unwrap();
        }
        writer.event(stream, now, &Event::Malloc { bytes: 100 }).unwrap();
        if let Some(old) = step.checked_sub(11) {
            let object = Object { stream: 1 + (old % 2) as u32, ordinal: old / 2 };
            writer.event(stream, now + 500, &Event::Free { object }).unwrap();
        }
        if step % 100 == 0 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap().0
}

fn part(part: Part) -> (Vec<u8>, Summary) {
    let trace = trace();
    let writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let (out, _) = cut(&mut Reader::new(&trace[..]).unwrap(), part, writer).unwrap();
    let summary = summarize(&mut Reader::new(&out[..]).unwrap()).unwrap();
    (out, summary)
}

#[test]
fn a_part_starts_with_the_heap_that_was_there() {
    let (_, summary) = part(Part { from: 500_000, to: Some(600_000), without_live: false });
    assert_eq!((summary.unknown, summary.reordered), (0, 0));
    // 100 mallocs of the part and the 11 or so that lived.
    assert!((110..=113).contains(&summary.allocations), "{summary:?}");
    assert!((10..=12).contains(&summary.live_blocks_at_end), "{summary:?}");
    assert!((90_000..=100_000).contains(&summary.nanoseconds), "{summary:?}");
}

#[test]
fn without_what_lived_its_frees_are_unknown() {
    let (_, summary) = part(Part { from: 500_000, to: None, without_live: true });
    assert!((10..=12).contains(&summary.unknown), "{summary:?}");
    assert!((498..=501).contains(&summary.allocations), "{summary:?}");
}

#[test]
fn the_whole_is_a_part_and_names_stay() {
    let whole = summarize(&mut Reader::new(&trace()[..]).unwrap()).unwrap();
    let (_, summary) = part(Part::default());
    assert_eq!(
        (summary.events, summary.allocations, summary.frees, summary.peak_live_bytes),
        (whole.events, whole.allocations, whole.frees, whole.peak_live_bytes)
    );
    let (out, _) = part(Part { from: 500_000, to: None, without_live: false });
    let epoch = Reader::new(&out[..]).unwrap().next_epoch().unwrap().unwrap();
    assert_eq!(epoch.sections[0].events[0].event, Event::Name { name: "worker".into() });
}

#[test]
fn a_part_that_ends_before_it_begins_is_refused() {
    assert!(Part { from: 5, to: Some(5), without_live: false }.check().is_err());
}
