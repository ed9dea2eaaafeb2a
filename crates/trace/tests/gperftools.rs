//! Raw traces of gperftools become traces of ours: threads in their order, tokens resolved across buffers.

use vcm_trace::gperftools::import;
use vcm_trace::{Event, Header, Object, Reader, Summary, Writer, summarize};

fn number(bytes: &mut Vec<u8>, value: u64) {
    let more = (0..8).find(|more| value < 1 << (7 * (more + 1))).unwrap_or(8);
    if more == 8 {
        bytes.push(0);
        return bytes.extend(value.to_le_bytes());
    }
    let word = value << (more + 1) | 1 << more;
    bytes.extend(&word.to_le_bytes()[..more + 1]);
}

fn numbers(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| number(&mut bytes, *value));
    bytes
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn buffer(thread: u64, ticks: u64, events: &[u64]) -> Vec<u8> {
    let events = numbers(events);
    let mut bytes = numbers(&[thread << 3 | 3, ticks << 10 | 5, events.len() as u64]);
    bytes.extend(events);
    bytes
}

fn tokens(base: u64, ticks: u64) -> [u64; 2] {
    [base << 3 | 2, ticks << 10]
}

fn events(bytes: &[u8]) -> (Vec<(u32, Event)>, u64, Summary) {
    let (out, imported) = import(bytes, 1e9, Writer::new(Vec::new(), &Header::default()).unwrap()).unwrap();
    let epoch = Reader::new(&out[..]).unwrap().next_epoch().unwrap().unwrap();
    let all = epoch
        .sections
        .into_iter()
        .flat_map(|section| section.events.into_iter().map(move |timed| (section.stream, timed.event)));
    (all.collect(), imported.unknown, summarize(&mut Reader::new(&out[..]).unwrap()).unwrap())
}

#[test]
fn sizes_alignments_and_reallocs_are_read() {
    let mut file = vec![];
    let [base, at] = tokens(1024, 10);
    file.extend(buffer(
        7,
        10,
        &[
            base,
            at,
            zigzag(4) << 3, // malloc of 25 to 32 bytes
            zigzag(-2) << 8 | 0x1F,
            64, // 16 bytes at 64
            zigzag(98) << 8 | 0x17,
            zigzag(1024),       // realloc of the first to 800
            zigzag(1) << 3 | 1, // free of the second
            zigzag(1) << 3 | 4, // sized free of the third
        ],
    ));
    file.extend(numbers(&[7 << 8 | 7, 20 << 10, 0x0F]));
    let own = |ordinal| Object { stream: 1, ordinal };
    let (events, unknown, summary) = events(&file);
    let seen: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
    assert_eq!(
        seen,
        [
            Event::Malloc { bytes: 32 },
            Event::Aligned { bytes: 16, log2_alignment: 6 },
            Event::Realloc { from: own(0), bytes: 800 },
            Event::Free { object: own(1) },
            Event::Free { object: own(2) },
            Event::ThreadEnd,
        ]
    );
    assert_eq!((unknown, summary.live_blocks_at_end, summary.nanoseconds), (0, 0, 10 << 10));
}

#[test]
fn a_free_that_stands_before_the_buffer_that_allocated_waits_for_it() {
    let [base, at] = tokens(0, 5);
    let mut file = buffer(2, 9, &[zigzag(1) << 3 | 1, zigzag(-1) << 3 | 1]);
    file.extend(buffer(1, 5, &[base, at, zigzag(1) << 3, zigzag(0) << 3]));
    let (_, unknown, summary) = events(&file);
    assert_eq!((unknown, summary.reordered, summary.live_blocks_at_end), (0, 0, 0));
    assert_eq!((summary.allocations, summary.frees, summary.of_other_threads), (2, 2, 2));
}

#[test]
fn a_free_of_what_nobody_allocated_is_kept_and_counted() {
    let [base, at] = tokens(0, 5);
    let mut file = buffer(2, 9, &[zigzag(77) << 3 | 1, zigzag(-77) << 3 | 1]);
    file.extend(buffer(1, 5, &[base, at, zigzag(1) << 3]));
    let (_, unknown, summary) = events(&file);
    assert_eq!((unknown, summary.frees, summary.live_blocks_at_end), (1, 2, 0));
}

#[test]
fn what_is_no_such_trace_is_refused_with_the_place() {
    let refusal = |bytes: &[u8]| {
        let writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        import(bytes, 1e9, writer).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let good = buffer(1, 5, &[2, 0, 8]);
    assert_eq!(refusal(&good), "");
    assert!(refusal(&good[..good.len() - 1]).contains("cut off"));
    assert!(refusal(&numbers(&[0])).contains("outside of a buffer"));
    assert!(refusal(&buffer(1, 5, &[5])).contains("no such event"));
    assert!(refusal(&numbers(&[1 << 3 | 3, 0, 1 << 40])).contains("that long"));
}
