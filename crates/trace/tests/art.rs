//! `.art` traces become traces of ours without loss.

use vcm_trace::art::import;
use vcm_trace::{Event, Header, Object, Reader, Writer};

/// (slot, bytes, thread, operation, dt in 16 ticks)
type Line = (u32, u32, u16, u8, u32);

/// On a clock of 16 MHz: one dt is a microsecond.
fn art(threads: u64, lines: &[Line]) -> Vec<u8> {
    let mut bytes = b"ART1\x01\0\0\0".to_vec();
    bytes.extend((lines.len() as u64).to_le_bytes());
    bytes.extend(2u64.to_le_bytes());
    bytes.extend(16e6f64.to_le_bytes());
    bytes.extend(threads.to_le_bytes());
    (0..threads).for_each(|thread| bytes.extend([b'a' + thread as u8; 16]));
    for &(slot, size, thread, operation, dt) in lines {
        bytes.extend(slot.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(thread.to_le_bytes());
        bytes.extend([operation, 0]);
        bytes.extend(dt.to_le_bytes());
    }
    bytes
}

fn imported(bytes: &[u8]) -> Result<(Vec<u8>, u64), String> {
    let writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let (out, imported) = import(bytes, writer).map_err(|error| error.to_string())?;
    Ok((out, imported.unknown))
}

fn events(bytes: &[u8]) -> Vec<(u32, Event)> {
    let (out, _) = imported(bytes).unwrap();
    let epoch = Reader::new(&out[..]).unwrap().next_epoch().unwrap().unwrap();
    let all = epoch
        .sections
        .into_iter()
        .flat_map(|section| section.events.into_iter().map(move |timed| (section.stream, timed.event)));
    all.filter(|(_, event)| !matches!(event, Event::Name { .. })).collect()
}

#[test]
fn a_slot_that_is_used_again_is_another_object() {
    let lines = [(1, 100, 0, 1, 5), (1, 100, 1, 2, 7), (1, 200, 0, 3, 1), (1, 200, 0, 2, 0)];
    let own = |ordinal| Object { stream: 1, ordinal };
    assert_eq!(
        events(&art(2, &lines)),
        [
            (1, Event::Malloc { bytes: 100 }),
            (1, Event::Calloc { bytes: 200 }),
            (1, Event::Free { object: own(1) }),
            (2, Event::Free { object: own(0) }),
        ]
    );
}

#[test]
fn the_two_halves_of_a_realloc_are_one_event_also_when_others_come_between() {
    let lines = [(0, 9, 0, 1, 1), (0, 9, 0, 5, 1), (0, 7, 1, 1, 1), (1, 99, 0, 6, 1), (1, 99, 0, 2, 1)];
    let own = |ordinal| Object { stream: 1, ordinal };
    assert_eq!(
        events(&art(2, &lines)),
        [
            (1, Event::Malloc { bytes: 9 }),
            (1, Event::Realloc { from: own(0), bytes: 99 }),
            (1, Event::Free { object: own(1) }),
            (2, Event::Malloc { bytes: 7 }),
        ]
    );
}

#[test]
fn a_realloc_without_its_second_half_frees() {
    let lines = [(0, 9, 0, 1, 1), (0, 9, 0, 5, 1)];
    assert_eq!(events(&art(1, &lines))[1].1, Event::Free { object: Object { stream: 1, ordinal: 0 } });
}

#[test]
fn the_free_of_an_object_that_was_never_seen_stays_and_is_counted() {
    let trace = art(1, &[(0, 9, 0, 2, 1), (0, 9, 0, 1, 1), (0, 9, 0, 2, 1)]);
    assert_eq!(imported(&trace).unwrap().1, 1);
    assert_eq!(events(&trace)[0].1, Event::FreeUnknown);
}

#[test]
fn bad_input_is_refused_with_the_reason() {
    let good = art(1, &[(0, 9, 0, 1, 1)]);
    let refusal = |bytes: &[u8]| imported(bytes).unwrap_err();
    assert!(refusal(&good[..20]).contains("the header"));
    assert!(refusal(&good[..50]).contains("names of threads"));
    assert!(refusal(&good[..good.len() - 1]).contains("the records"));
    assert!(refusal(&[b"BRT1", &good[4..]].concat()).contains("ART1"));
    assert!(refusal(&[b"ART1\x02", &good[5..]].concat()).contains("version 1"));
    assert!(refusal(&art(1, &[(0, 9, 0, 7, 1)])).contains("no operation 7"));
    assert!(refusal(&art(1, &[(0, 9, 1, 1, 1)])).contains("thread 1 of 1"));
    assert!(refusal(&art(1, &[(2, 9, 0, 1, 1)])).contains("slot 2 of 2"));
}
