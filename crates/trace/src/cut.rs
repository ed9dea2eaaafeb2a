//! A part of a trace as a trace of its own.

use crate::event::{Event, Object, StreamId};
use crate::reader::Reader;
use crate::writer::{Writer, Written};
use crate::{Error, Result, in_order};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};

/// The part to cut out, in nanoseconds since the trace began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    pub from: u64,
    /// Without one, to the end.
    pub to: Option<u64>,
    /// Leave out what lived when the part begins; its frees become frees of unknown objects.
    pub without_live: bool,
}

/// Writes a part of a trace. A block that lives when it begins is allocated at its first instant, by the thread that had allocated
/// it, as a malloc of its size; so a replay starts with the heap that was there. Holds a few bytes for each block that lives.
pub fn cut<R: Read, W: Write>(reader: &mut Reader<R>, part: Part, writer: Writer<W>) -> Result<(W, Written)> {
    let mut cut = Cut { part, begun: HashMap::new(), known: BTreeMap::new(), inside: false, writer };
    let mut failed = None;
    while let Some(epoch) = reader.next_epoch()? {
        if part.to.is_some_and(|to| epoch.first >= to) {
            break;
        }
        in_order(&epoch, |stream, timed| {
            if failed.is_none() {
                failed = cut.add(stream, timed.nanoseconds, &timed.event).err();
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    cut.begin()?;
    cut.writer.finish()
}

struct Cut<W: Write> {
    part: Part,
    /// How many objects each stream of the whole trace has begun.
    begun: HashMap<StreamId, u64>,
    /// The objects that live: before the part begins with their bytes, then with what they are in the part.
    known: BTreeMap<Object, u64>,
    inside: bool,
    writer: Writer<W>,
}

impl<W: Write> Cut<W> {
    fn add(&mut self, stream: StreamId, nanoseconds: u64, event: &Event) -> Result<()> {
        let next = self.begun.entry(stream).or_insert(0);
        let object = Object { stream, ordinal: *next };
        *next += u64::from(event.begins().is_some());
        if nanoseconds < self.part.from && !self.inside {
            return self.add_before(stream, object, event);
        }
        self.begin()?;
        if self.part.to.is_some_and(|to| nanoseconds >= to) {
            return Ok(());
        }
        let ended = event.ends().map(|object| (object, self.known.remove(&object)));
        let renamed =
            |(object, ordinal): (Object, Option<u64>)| ordinal.map(|ordinal| Object { ordinal, ..object });
        let event = match (event, ended.map(renamed)) {
            (Event::Free { .. }, Some(None)) => Event::FreeUnknown,
            (Event::Free { .. }, Some(Some(object))) => Event::Free { object },
            (Event::Realloc { bytes, .. }, Some(None)) => Event::ReallocUnknown { bytes: *bytes },
            (Event::Realloc { bytes, .. }, Some(Some(from))) => Event::Realloc { from, bytes: *bytes },
            _ => event.clone(),
        };
        if event.begins().is_some() {
            self.known.insert(object, self.writer.next_ordinal(stream));
        }
        self.writer.event(stream, nanoseconds.saturating_sub(self.part.from), &event)
    }

    fn add_before(&mut self, stream: StreamId, object: Object, event: &Event) -> Result<()> {
        if let Some(ended) = event.ends() {
            self.known.remove(&ended);
        }
        if let Some(bytes) = event.begins() {
            self.known.insert(object, bytes);
        }
        match event {
            Event::Name { .. } => self.writer.event(stream, 0, event),
            _ => Ok(()),
        }
    }

    fn begin(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.inside, true) {
            return Ok(());
        }
        let live = std::mem::take(&mut self.known);
        if self.part.without_live {
            return Ok(());
        }
        for (object, bytes) in live {
            let ordinal = self.writer.next_ordinal(object.stream);
            self.writer.event(object.stream, 0, &Event::Malloc { bytes })?;
            self.known.insert(object, ordinal);
        }
        Ok(())
    }
}

impl Part {
    /// Refuses a part without extent.
    pub fn check(self) -> Result<Self> {
        match self.to {
            Some(to) if to <= self.from => {
                Err(Error::Record { record: 0, what: "the part ends before it begins".into() })
            }
            _ => Ok(self),
        }
    }
}
