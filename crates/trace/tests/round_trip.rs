//! A trace that is written is read again: any events, from the beginning and from the middle, whole and cut off.

use proptest::prelude::*;
use std::collections::HashMap;
use std::io::Cursor;
use vcm_trace::{Error, Event, Header, Object, Reader, StreamId, Writer, in_order, summarize};

type Line = (StreamId, u64, Event);

fn any_event() -> impl Strategy<Value = Event> {
    let object = || (0..6u32, 0..50_000u64).prop_map(|(stream, ordinal)| Object { stream, ordinal });
    let bytes = || prop_oneof![0..3000u64, any::<u64>().prop_map(|bytes| bytes >> 6)];
    prop_oneof![
        4 => bytes().prop_map(|bytes| Event::Malloc { bytes }),
        1 => bytes().prop_map(|bytes| Event::Calloc { bytes }),
        1 => (bytes(), 0..64u8).prop_map(|(bytes, log2_alignment)| Event::Aligned { bytes, log2_alignment }),
        4 => object().prop_map(|object| Event::Free { object }),
        2 => (object(), bytes()).prop_map(|(from, bytes)| Event::Realloc { from, bytes }),
        1 => Just(Event::FreeUnknown),
        1 => bytes().prop_map(|bytes| Event::ReallocUnknown { bytes: bytes >> 3 }),
        1 => (0..1u64 << 40).prop_map(|events| Event::Gap { events }),
        1 => "[a-z\u{e4}]{0,20}".prop_map(|name| Event::Name { name }),
        1 => Just(Event::ThreadEnd),
        1 => any::<[u64; 3]>().prop_map(|[resident, minor_faults, major_faults]| {
            Event::Memory { resident, minor_faults, major_faults }
        }),
    ]
}

fn any_lines() -> impl Strategy<Value = Vec<Line>> {
    prop::collection::vec((0..5u32, 0..1u64 << 44, any_event()), 0..400)
}

fn written(lines: &[Line], flush_every: usize) -> Vec<u8> {
    let header = Header { command: vec!["daemon".into(), "-f".into()], ..Header::default() };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for (index, (stream, time, event)) in lines.iter().enumerate() {
        writer.event(*stream, *time, event).unwrap();
        if index % flush_every == flush_every - 1 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap().0
}

fn by_stream<'a>(lines: impl IntoIterator<Item = &'a (StreamId, Event)>) -> HashMap<StreamId, Vec<Event>> {
    let mut streams: HashMap<StreamId, Vec<Event>> = HashMap::new();
    for (stream, event) in lines {
        streams.entry(*stream).or_default().push(event.clone());
    }
    streams
}

/// The events in the file's order, and the error that ended them.
fn read(bytes: &[u8]) -> (Vec<(StreamId, Event)>, Option<Error>) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut events = Vec::new();
    loop {
        match reader.next_epoch() {
            Ok(Some(epoch)) => {
                for section in epoch.sections {
                    assert!(section.events.is_sorted_by_key(|timed| timed.nanoseconds));
                    events.extend(section.events.into_iter().map(|timed| (section.stream, timed.event)));
                }
            }
            Ok(None) => return (events, None),
            Err(error) => return (events, Some(error)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_stream_comes_back_in_its_order(lines in any_lines(), flush_every in 1..500usize) {
        let (events, error) = read(&written(&lines, flush_every));
        prop_assert!(error.is_none());
        let given: Vec<_> = lines.into_iter().map(|(stream, _, event)| (stream, event)).collect();
        prop_assert_eq!(by_stream(&events), by_stream(&given));
    }

    #[test]
    fn a_trace_that_is_cut_off_is_read_to_there_and_says_so(lines in any_lines(), part in 0.0..1.0f64) {
        let whole = written(&lines, 50);
        let (all, _) = read(&whole);
        let length = (whole.len() as f64 * part) as usize;
        let (events, error) = read(&whole[..length]);
        prop_assert!(all.starts_with(&events));
        // A reader that goes forward needs nothing behind the index.
        prop_assert!(error.as_ref().is_some_and(|error| error.is_cut_off() || matches!(error, Error::Foreign))
            || events == all);
    }

    #[test]
    fn a_byte_that_was_changed_is_never_taken_for_an_event(lines in any_lines(), at in any::<prop::sample::Index>(), change in 1..=255u8) {
        let whole = written(&lines, 50);
        let (all, _) = read(&whole);
        let mut damaged = whole.clone();
        let at = at.index(whole.len());
        damaged[at] ^= change;
        let (events, error) = read(&damaged);
        prop_assert!(all.starts_with(&events));
        // Minor versions differ in nothing yet; the end is for those who seek.
        prop_assert!(error.is_some() || matches!(at, 10 | 11) || at >= whole.len() - 16);
    }

    #[test]
    fn bytes_of_any_kind_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).1.is_some());
    }

    #[test]
    fn a_reader_that_seeks_misses_nothing_after_the_time(lines in any_lines(), to in 0..1u64 << 44) {
        let mut lines = lines;
        lines.sort_by_key(|line| line.1);
        let bytes = written(&lines, 40);
        let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
        let mut events = Vec::new();
        if reader.seek(to).unwrap() {
            while let Some(epoch) = reader.next_epoch().unwrap() {
                for section in epoch.sections {
                    events.extend(section.events.into_iter().map(|timed| (section.stream, timed.event)));
                }
            }
        }
        let (events, late) = (by_stream(&events), by_stream(&lines.iter().filter(|line| line.1 >= to)
            .map(|line| (line.0, line.2.clone())).collect::<Vec<_>>()));
        for (stream, late) in late {
            prop_assert!(events[&stream].ends_with(&late));
        }
    }

    #[test]
    fn in_order_every_object_begins_before_it_ends(steps in prop::collection::vec((1..5u32, any::<prop::sample::Index>(), 0..5000u64), 1..800)) {
        // A program that allocates and frees in the order of its clock, frees by any thread.
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let (mut live, mut now) = (Vec::new(), 0);
        for (stream, choice, later) in steps {
            now += later;
            if choice.index(5) < 3 || live.is_empty() {
                live.push(Object { stream, ordinal: writer.next_ordinal(stream) });
                writer.event(stream, now, &Event::Malloc { bytes: 1 }).unwrap();
            } else {
                let object = live.swap_remove(choice.index(live.len()));
                writer.event(stream, now, &Event::Free { object }).unwrap();
            }
        }
        let bytes = writer.finish().unwrap().0;
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut begun: HashMap<StreamId, u64> = HashMap::new();
        while let Some(epoch) = reader.next_epoch().unwrap() {
            let forced = in_order(&epoch, |stream, timed| {
                if let Some(object) = timed.event.ends() {
                    assert!(begun.get(&object.stream).is_some_and(|begun| object.ordinal < *begun));
                }
                *begun.entry(stream).or_insert(0) += u64::from(timed.event.begins().is_some());
            });
            prop_assert_eq!(forced, 0);
        }
        let summary = summarize(&mut Reader::new(&bytes[..]).unwrap()).unwrap();
        prop_assert_eq!(summary.live_blocks_at_end, live.len() as u64);
        prop_assert_eq!(summary.unknown + summary.reordered, 0);
    }
}

#[test]
fn threads_that_wait_for_each_other_are_counted_and_do_not_hang() {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for (stream, other) in [(1, 2), (2, 1)] {
        writer.event(stream, 0, &Event::Free { object: Object { stream: other, ordinal: 0 } }).unwrap();
        writer.event(stream, 9, &Event::Malloc { bytes: 1 }).unwrap();
    }
    let bytes = writer.finish().unwrap().0;
    let epoch = Reader::new(&bytes[..]).unwrap().next_epoch().unwrap().unwrap();
    let mut seen = 0;
    assert_eq!(in_order(&epoch, |_, _| seen += 1), 1);
    assert_eq!(seen, 4);
}

#[test]
fn a_later_version_and_another_kind_of_file_are_told_apart() {
    let mut bytes = written(&[], 1);
    let foreign = Reader::new(&b"ART1\x01\0\0\0 more"[..]).err().unwrap().to_string();
    assert!(foreign.contains("VCMTRACE"), "{foreign}");
    bytes[8] = 2;
    let future = Reader::new(&bytes[..]).err().unwrap().to_string();
    assert!(future.contains("version 2") && future.contains("newer vcm"), "{future}");
    bytes[8] = 1;
    bytes[10] = 9;
    assert!(Reader::new(&bytes[..]).is_ok(), "a later minor version is read");
}

#[test]
fn what_a_stream_did_before_and_behind_a_pause_has_its_times() {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let times = [0, 64_000, 20_000_000_000, 20_000_064_000, 40_000_000_000];
    for nanoseconds in times {
        writer.event(1, nanoseconds, &Event::Malloc { bytes: 1 }).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    let epoch = Reader::new(&bytes[..]).unwrap().next_epoch().unwrap().unwrap();
    let read: Vec<u64> = epoch.sections[0].events.iter().map(|timed| timed.nanoseconds).collect();
    // Within 10 ms events are spread evenly.
    let is_near = |(one, other): (&u64, &u64)| one.abs_diff(*other) <= 64_000;
    assert!(read.len() == times.len() && read.iter().zip(&times).all(is_near), "{read:?}");
}
