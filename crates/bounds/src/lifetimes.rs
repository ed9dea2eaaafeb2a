//! How long each object of a trace lives: in allocations, the clock by which placement ages.

use rustc_hash::FxHashMap;
use std::io::Read;
use vcm_trace::{Epoch, Error, Event, Object, Reader, Result, StreamId, in_order};

/// Of an object that lives to the end of the trace.
pub const FOR_EVER: u8 = u8::MAX;

/// For each object of each stream how long it lives: the power of two that its age at the end reaches.
#[derive(Default)]
pub struct Lifetimes {
    of_stream: FxHashMap<StreamId, Vec<u8>>,
}

impl Lifetimes {
    pub fn read<R: Read>(reader: &mut Reader<R>) -> Result<Self> {
        let mut lifetimes = Lifetimes::default();
        let mut born: FxHashMap<Object, u64> = FxHashMap::default();
        let mut now = 0;
        while let Some(epoch) = next(reader)? {
            in_order(&epoch, |stream, timed| lifetimes.add(&mut born, &mut now, stream, &timed.event));
        }
        Ok(lifetimes)
    }

    fn add(&mut self, born: &mut FxHashMap<Object, u64>, now: &mut u64, stream: StreamId, event: &Event) {
        if let Some(object) = event.ends()
            && let Some(birth) = born.remove(&object)
            && let Some(place) =
                self.of_stream.get_mut(&object.stream).and_then(|of| of.get_mut(object.ordinal as usize))
        {
            *place = (*now - birth + 1).ilog2() as u8;
        }
        if event.begins().is_some() {
            let of = self.of_stream.entry(stream).or_default();
            born.insert(Object { stream, ordinal: of.len() as u64 }, *now);
            of.push(FOR_EVER);
            *now += 1;
        }
    }

    pub fn of(&self, object: Object) -> u8 {
        self.of_stream
            .get(&object.stream)
            .and_then(|of| of.get(object.ordinal as usize))
            .copied()
            .unwrap_or(FOR_EVER)
    }
}

/// The next epoch; none where the trace ends or was cut off.
fn next<R: Read>(reader: &mut Reader<R>) -> Result<Option<Epoch>> {
    match reader.next_epoch() {
        Err(Error::CutOff { .. }) => Ok(None),
        epoch => epoch,
    }
}
