//! A trace, as the calls of one thread: in the order in which they are done, each with the seat it
//! is done on.
//!
//! A trace of a daemon is in its own order of time, and each of its threads is a seat. A trace of a pattern
//! was recorded on the few CPUs that there are, and is to stand for as many as it has threads: in each window
//! of time all threads' calls are spread evenly over it, and a new thread takes a seat that is free. Either
//! way an object begins before it ends. A window is short, and a thread may wait in it: of a pattern no more
//! objects live at a time than when it was recorded, as what bounds its queues is not in the trace.

use anyhow::{Context, Result};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::path::Path;
use vcm_trace::{Event, Object, PROCESS, Reader, StreamId};

pub const FREE: u8 = 0;
pub const MALLOC: u8 = 1;
pub const CALLOC: u8 = 2;
pub const ALIGNED: u8 = 3;
pub const REALLOC: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub slot: u32,
    pub seat: u16,
    pub what: u8,
    pub log2_alignment: u8,
    pub bytes: u64,
}

/// Of a pattern's record: at its end few threads still work, and the main one cleans up.
pub const TAKEN_SHARE: f64 = 0.9;
/// Steps between two marks of time.
pub const STRETCH: usize = 64;

#[derive(Default)]
pub struct Tape {
    pub steps: Vec<Step>,
    /// The time of every `STRETCH`th step.
    pub times: Vec<u64>,
    pub slots: usize,
    pub seats: usize,
    objects: FxHashMap<Object, u32>,
    free: Vec<u32>,
}

impl Tape {
    /// `.art`, packed or not, or what `vcm record` writes; that one as a pattern's.
    pub fn read(path: &Path) -> Result<Tape> {
        let open = || File::open(path).with_context(|| format!("cannot open {}", path.display()));
        let name = path.to_string_lossy();
        if name.ends_with(".art.zst") {
            return Tape::of_art(zstd::Decoder::new(open()?)?);
        } else if name.ends_with(".art") {
            return Tape::of_art(std::io::BufReader::new(open()?));
        }
        let streams = Streams::read(Reader::new(std::io::BufReader::new(open()?))?)?;
        let mut tape = streams.merged();
        tape.steps.truncate((tape.steps.len() as f64 * TAKEN_SHARE) as usize);
        Ok(tape)
    }

    fn of_art(input: impl std::io::Read) -> Result<Tape> {
        let (mut tape, mut next) = (Tape::default(), FxHashMap::<StreamId, u64>::default());
        vcm_trace::art::read(input, |stream, time, event| {
            let seat = stream.saturating_sub(1) as u16;
            tape.add(stream, next.entry(stream).or_default(), seat, time, &event);
            Ok(())
        })?;
        Ok(tape)
    }

    fn add(&mut self, stream: StreamId, next: &mut u64, seat: u16, time: u64, event: &Event) {
        let (what, bytes, log2_alignment) = match *event {
            Event::Free { object } => {
                let Some(slot) = self.objects.remove(&object) else { return };
                self.free.push(slot);
                return self.push(Step { slot, seat, what: FREE, log2_alignment: 0, bytes: 0 }, time);
            }
            Event::Malloc { bytes } | Event::ReallocUnknown { bytes } => (MALLOC, bytes, 0),
            Event::Calloc { bytes } => (CALLOC, bytes, 0),
            Event::Aligned { bytes, log2_alignment } => (ALIGNED, bytes, log2_alignment),
            Event::Realloc { bytes, .. } => (REALLOC, bytes, 0),
            _ => return,
        };
        let old = match event {
            Event::Realloc { from, .. } => self.objects.remove(from),
            _ => None,
        };
        let what = if what == REALLOC && old.is_none() { MALLOC } else { what };
        let slot = old.or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.slots += 1;
            self.slots as u32 - 1
        });
        self.objects.insert(Object { stream, ordinal: *next }, slot);
        *next += 1;
        self.push(Step { slot, seat, what, log2_alignment, bytes }, time);
    }

    fn push(&mut self, step: Step, time: u64) {
        if self.steps.len().is_multiple_of(STRETCH) {
            self.times.push(time);
        }
        self.seats = self.seats.max(step.seat as usize + 1);
        self.steps.push(step);
    }

    /// The same calls on so many seats at once, each with its own blocks: for a pattern of one thread.
    pub fn copied(&self, seats: usize, most: usize) -> Tape {
        let kept = (most / seats).min(self.steps.len()).max(1);
        let mut tape = Tape { slots: self.slots * seats, ..Tape::default() };
        for (index, step) in self.steps[..kept].iter().enumerate() {
            for seat in 0..seats {
                let slot = step.slot * seats as u32 + seat as u32;
                tape.push(Step { slot, seat: seat as u16, ..*step }, self.times[index / STRETCH]);
            }
        }
        tape
    }
}

/// The calls of each thread, and its life.
#[derive(Default)]
struct Streams {
    all: Vec<Stream>,
    /// Objects that lived at a time, at most, when this was recorded.
    most_live: usize,
}

struct Stream {
    id: StreamId,
    events: Vec<Event>,
    windows: Vec<Window>,
    ends: bool,
}

/// A part of the time, as a thread lives in it.
#[derive(Clone, Copy)]
struct Window {
    first_event: usize,
    events: usize,
    from: u64,
    to: u64,
}

/// Calls in a window, for each object that lives at most, and for each thread.
const CALLS_BY_LIVE: usize = 4;
const CALLS_BY_THREAD: usize = 64;

impl Streams {
    fn read(mut reader: Reader<impl std::io::Read>) -> Result<Streams> {
        let (mut streams, mut places) = (Streams::default(), FxHashMap::default());
        let mut times: Vec<Vec<u64>> = Vec::new();
        let mut changes: Vec<(u64, i8)> = Vec::new();
        while let Some(epoch) = reader.next_epoch()? {
            for section in epoch.sections.into_iter().filter(|section| section.stream != PROCESS) {
                let place = *places.entry(section.stream).or_insert_with(|| {
                    let (id, events, windows) = (section.stream, Vec::new(), Vec::new());
                    streams.all.push(Stream { id, events, windows, ends: false });
                    times.push(Vec::new());
                    streams.all.len() - 1
                });
                let stream = &mut streams.all[place];
                for timed in section.events {
                    stream.ends |= timed.event == Event::ThreadEnd;
                    let (begins, ends) = (timed.event.begins().is_some(), timed.event.ends().is_some());
                    if begins || ends {
                        changes.push((timed.nanoseconds, i8::from(begins) - i8::from(ends)));
                        times[place].push(timed.nanoseconds);
                        stream.events.push(timed.event);
                    }
                }
            }
        }
        // The sections of an epoch end at different times.
        changes.sort_unstable();
        let mut live = 0_isize;
        for (_, change) in &changes {
            live += isize::from(*change);
            streams.most_live = streams.most_live.max(live.max(0) as usize);
        }
        let calls = (CALLS_BY_LIVE * streams.most_live).max(CALLS_BY_THREAD * streams.all.len()).max(1);
        let borders: Vec<u64> = changes.iter().step_by(calls).map(|(time, _)| *time).skip(1).collect();
        for (stream, times) in streams.all.iter_mut().zip(&times) {
            stream.windows = windows(times, &borders);
        }
        streams.all.retain(|stream| !stream.events.is_empty());
        Ok(streams)
    }

    fn merged(self) -> Tape {
        let mut tape = Tape::default();
        let by_id: FxHashMap<StreamId, usize> =
            self.all.iter().enumerate().map(|(place, stream)| (stream.id, place)).collect();
        let mut at = vec![0; self.all.len()];
        let mut next = vec![0u64; self.all.len()];
        let mut seats: Vec<Option<u16>> = vec![None; self.all.len()];
        let (mut free_seats, mut most_seats) = (BinaryHeap::<Reverse<u16>>::new(), 0);
        let mut ready: BinaryHeap<_> =
            (0..self.all.len()).map(|place| Reverse((self.all[place].time(0), place))).collect();
        let mut waiting: FxHashMap<usize, Vec<(u64, usize)>> = FxHashMap::default();
        // Threads that would make one object too many; they go on when another waits for their objects, or no other can go on.
        let mut held: VecDeque<(u64, usize)> = VecDeque::new();
        while let Some((is_held, (time, place))) = ready
            .pop()
            .map(|Reverse(next)| (false, next))
            .or_else(|| held.pop_front().map(|next| (true, next)))
        {
            let stream = &self.all[place];
            let event = &stream.events[at[place]];
            let missing = event.ends().and_then(|object| {
                let owner = *by_id.get(&object.stream)?;
                (next[owner] <= object.ordinal && at[owner] < self.all[owner].events.len())
                    .then_some((owner, object.ordinal))
            });
            if let Some((owner, ordinal)) = missing.filter(|(owner, _)| *owner != place) {
                waiting.entry(owner).or_default().push((ordinal, place));
                if let Some(index) = held.iter().position(|(_, place)| *place == owner) {
                    ready.extend(held.remove(index).map(Reverse));
                }
                continue;
            }
            let is_one_more = event.begins().is_some() && event.ends().is_none();
            let is_wanted = is_held || waiting.get(&place).is_some_and(|list| !list.is_empty());
            if is_one_more && !is_wanted && tape.objects.len() >= self.most_live {
                held.push_back((time, place));
                continue;
            }
            let seat = *seats[place].get_or_insert_with(|| match free_seats.pop() {
                Some(Reverse(seat)) => seat,
                None => {
                    most_seats += 1;
                    most_seats - 1
                }
            });
            let begun = next[place];
            tape.add(stream.id, &mut next[place], seat, time, event);
            if tape.objects.len() < self.most_live
                && let Some((since, first)) = held.pop_front()
            {
                ready.push(Reverse((time.max(since), first)));
            }
            at[place] += 1;
            let is_over = at[place] == stream.events.len();
            if is_over && stream.ends {
                free_seats.push(Reverse(seat));
            }
            if (next[place] > begun || is_over)
                && let Some(list) = waiting.get_mut(&place)
            {
                list.retain(|&(ordinal, waits)| {
                    let stays = ordinal >= next[place] && !is_over;
                    if !stays {
                        ready.push(Reverse((time.max(self.all[waits].time(at[waits])), waits)));
                    }
                    stays
                });
            }
            if !is_over {
                ready.push(Reverse((stream.time(at[place]).max(time), place)));
            }
        }
        tape
    }
}

/// The windows between borders in which something was done at these times.
fn windows(times: &[u64], borders: &[u64]) -> Vec<Window> {
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return Vec::new() };
    let mut windows = Vec::new();
    let (mut from, mut first_event) = (first, 0);
    for &border in borders.iter().chain([&(last + 1)]) {
        let behind = times.partition_point(|time| *time < border);
        if behind > first_event {
            windows.push(Window {
                first_event,
                events: behind - first_event,
                from,
                to: border.min(last + 1),
            });
        }
        (from, first_event) = (from.max(border), behind);
    }
    windows
}

impl Stream {
    /// When its event with this number is done.
    fn time(&self, index: usize) -> u64 {
        let window = self.windows.partition_point(|window| window.first_event <= index).saturating_sub(1);
        let Some(window) = self.windows.get(window) else { return 0 };
        let span = u128::from(window.to.saturating_sub(window.from));
        window.from + (span * (index - window.first_event) as u128 / window.events.max(1) as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: StreamId, events: Vec<Event>, from: u64) -> Stream {
        let windows = vec![Window { first_event: 0, events: events.len(), from, to: 1000 }];
        Stream { id, events, windows, ends: true }
    }

    fn lives(tape: &Tape) -> usize {
        let mut live = 0_usize;
        let each = tape.steps.iter().map(|step| {
            live = if step.what == FREE { live - 1 } else { live + 1 };
            live
        });
        each.max().unwrap_or(0)
    }

    #[test]
    fn a_thread_that_allocates_waits_where_more_would_live_than_when_it_was_recorded() {
        let made: Vec<Event> = (0..100).map(|_| Event::Malloc { bytes: 64 }).collect();
        let ended = (0..100).map(|ordinal| Event::Free { object: Object { stream: 1, ordinal } });
        let all = || vec![stream(1, made.clone(), 0), stream(2, ended.clone().collect(), 900)];
        let bounded = Streams { all: all(), most_live: 10 }.merged();
        assert_eq!((lives(&bounded), bounded.steps.len(), bounded.seats), (10, 200, 2));
        assert!(lives(&Streams { all: all(), most_live: 100 }.merged()) > 80);
    }

    #[test]
    fn threads_of_which_none_ends_an_object_go_on_above_the_bound() {
        let made: Vec<Event> = (0..100).map(|_| Event::Malloc { bytes: 64 }).collect();
        let tape =
            Streams { all: vec![stream(1, made.clone(), 0), stream(2, made, 0)], most_live: 10 }.merged();
        assert_eq!((lives(&tape), tape.steps.len()), (200, 200));
    }

    #[test]
    fn calls_are_spread_over_each_window_and_over_no_more_than_the_life_of_their_thread() {
        let (mut windows, events) = (windows(&[10, 11, 12, 13, 250, 260], &[100, 200]), vec![]);
        assert_eq!(
            windows.iter().map(|one| (one.first_event, one.events)).collect::<Vec<_>>(),
            [(0, 4), (4, 2)]
        );
        let at = |windows: &Vec<Window>, index| {
            Stream { id: 1, events: vec![], windows: windows.clone(), ends: true }.time(index)
        };
        assert_eq!([0, 1, 2, 3].map(|index| at(&windows, index)), [10, 32, 55, 77]);
        assert_eq!([4, 5].map(|index| at(&windows, index)), [200, 230]);
        windows.clear();
        assert_eq!((at(&windows, 0), super::windows(&events, &[100]).len()), (0, 0));
    }
}
