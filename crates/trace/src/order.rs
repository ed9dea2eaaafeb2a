//! The events of an epoch in one order: about that of time, and each object begins before anybody ends it.

use crate::event::{Object, StreamId};
use crate::reader::{Epoch, Section, Timed};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Calls `take` for each event. Times within 32 events are estimates, so an event that ends another stream's object waits until
/// that has begun. Returns how many events could not wait because the streams wait for each other: a trace that is right has none.
pub fn in_order(epoch: &Epoch, mut take: impl FnMut(StreamId, &Timed)) -> u64 {
    let mut cursors: Vec<Cursor<'_>> = epoch.sections.iter().map(Cursor::new).collect();
    let of_stream: HashMap<StreamId, usize> =
        epoch.sections.iter().enumerate().map(|(index, section)| (section.stream, index)).collect();
    let mut heap: BinaryHeap<_> = cursors
        .iter()
        .enumerate()
        .filter_map(|(index, cursor)| Some(Reverse((cursor.time()?, index))))
        .collect();
    let mut waiting = Waiting::new();
    let mut forced = 0;
    loop {
        let Some(Reverse((_, index))) = heap.pop() else {
            // Nobody can go on but those who wait for each other: the earliest goes first.
            let Some(index) = earliest(&mut waiting, &cursors) else { return forced };
            forced += 1;
            step(&mut cursors, index, &mut heap, &mut waiting, &mut take);
            continue;
        };
        match cursors[index].missing(&of_stream, &cursors) {
            // If so many could not wait, the trace is not right, and nobody waits any more: to look for the earliest
            // of many again and again would take hours.
            Some((owner, ordinal)) if forced < MOST_FORCED => {
                waiting.entry(owner).or_default().push(Reverse((ordinal, index)));
            }
            _ => step(&mut cursors, index, &mut heap, &mut waiting, &mut take),
        }
    }
}

/// Of an epoch.
const MOST_FORCED: u64 = 1000;

type Heap = BinaryHeap<Reverse<(u64, usize)>>;
/// By whom they wait for, the least ordinal first.
type Waiting = HashMap<usize, Heap>;

/// Takes the next event of a cursor, and wakes who waited for the object that it begins.
fn step(
    cursors: &mut [Cursor<'_>],
    index: usize,
    heap: &mut Heap,
    waiting: &mut Waiting,
    take: &mut impl FnMut(StreamId, &Timed),
) {
    let Some(timed) = cursors[index].section.events.get(cursors[index].at) else { return };
    take(cursors[index].section.stream, timed);
    cursors[index].at += 1;
    if timed.event.begins().is_some() {
        cursors[index].next += 1;
        let next = cursors[index].next;
        if let Some(list) = waiting.get_mut(&index) {
            while list.peek().is_some_and(|Reverse((ordinal, _))| *ordinal < next) {
                let Some(Reverse((_, index))) = list.pop() else { break };
                heap.extend(cursors[index].time().map(|time| Reverse((time, index))));
            }
        }
    }
    heap.extend(cursors[index].time().map(|time| Reverse((time, index))));
}

/// Takes the one whose event is the earliest out of those that wait.
fn earliest(waiting: &mut Waiting, cursors: &[Cursor<'_>]) -> Option<usize> {
    let all = waiting.iter().flat_map(|(owner, list)| {
        list.iter().map(|Reverse((_, index))| (cursors[*index].time(), *owner, *index))
    });
    let (_, owner, found) = all.min()?;
    waiting.get_mut(&owner)?.retain(|Reverse((_, index))| *index != found);
    Some(found)
}

struct Cursor<'a> {
    section: &'a Section,
    at: usize,
    /// The ordinal of the next object that begins here.
    next: u64,
}

impl<'a> Cursor<'a> {
    fn new(section: &'a Section) -> Self {
        Cursor { section, at: 0, next: section.first_ordinal }
    }

    fn time(&self) -> Option<u64> {
        self.section.events.get(self.at).map(|timed| timed.nanoseconds)
    }

    /// The stream and object that have to come before the next event, if they have not. An object that a stream began
    /// in an earlier epoch, or never begins in this one, is not waited for.
    fn missing(&self, of_stream: &HashMap<StreamId, usize>, cursors: &[Cursor<'_>]) -> Option<(usize, u64)> {
        let Object { stream, ordinal } = self.section.events.get(self.at)?.event.ends()?;
        let owner = *of_stream.get(&stream)?;
        let cursor = &cursors[owner];
        let comes =
            cursor.next <= ordinal && !std::ptr::eq(cursor.section, self.section) && cursor.time().is_some();
        comes.then_some((owner, ordinal))
    }
}
