//! `vcm trace dump`: the events of a trace as lines.

use super::{files, nanoseconds, wrong};
use crate::cli::trace::Dump;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use vcm_front::say::{self, Outcome};
use vcm_trace::{Event, Object, StreamId, Timed, in_order};

pub fn dump(arguments: &Dump) -> Outcome {
    let mut reader = files::open(&arguments.file)?;
    let from = nanoseconds(arguments.from);
    let mut lines = Lines {
        out: BufWriter::new(io::stdout().lock()),
        from,
        thread: arguments.thread,
        left: arguments.limit.unwrap_or(u64::MAX),
        next: HashMap::new(),
        written: Ok(()),
    };
    let refused = |error| wrong(Path::new(&arguments.file), &error);
    if reader.seek(from).map_err(refused)? {
        while lines.left > 0 && lines.written.is_ok() {
            let Some(epoch) = reader.next_epoch().map_err(|error| {
                // The lines before the damage are shown first.
                let _ = lines.out.flush();
                refused(error)
            })?
            else {
                break;
            };
            for section in &epoch.sections {
                lines.next.insert(section.stream, section.first_ordinal);
            }
            in_order(&epoch, |stream, timed| lines.put(stream, timed));
        }
    }
    let Lines { mut out, written, .. } = lines;
    say::written(written.and_then(|()| out.flush()))
}

struct Lines<W> {
    out: W,
    from: u64,
    thread: Option<StreamId>,
    left: u64,
    /// The ordinal of the next object of each stream.
    next: HashMap<StreamId, u64>,
    written: io::Result<()>,
}

impl<W: Write> Lines<W> {
    fn put(&mut self, stream: StreamId, timed: &Timed) {
        let next = self.next.entry(stream).or_insert(0);
        let ordinal = *next;
        *next += u64::from(timed.event.begins().is_some());
        let shown = timed.nanoseconds >= self.from && self.thread.is_none_or(|thread| thread == stream);
        if !shown || self.left == 0 || self.written.is_err() {
            return;
        }
        self.left -= 1;
        let words = in_words(&timed.event, Object { stream, ordinal });
        let seconds = timed.nanoseconds as f64 / 1e9;
        self.written = writeln!(self.out, "{seconds:14.9}  {stream:>5}  {words}");
    }
}

fn in_words(event: &Event, begun: Object) -> String {
    let name = |object: &Object| format!("{}.{}", object.stream, object.ordinal);
    match event {
        Event::Malloc { bytes } => format!("malloc {bytes} -> {}", name(&begun)),
        Event::Calloc { bytes } => format!("calloc {bytes} -> {}", name(&begun)),
        Event::Aligned { bytes, log2_alignment } => {
            format!("aligned {bytes} at {} -> {}", 1u128 << log2_alignment, name(&begun))
        }
        Event::Realloc { from, bytes } => format!("realloc {} {bytes} -> {}", name(from), name(&begun)),
        Event::Free { object } => format!("free {}", name(object)),
        Event::FreeUnknown => "free of an unknown block".into(),
        Event::ReallocUnknown { bytes } => format!("realloc of an unknown block {bytes} -> {}", name(&begun)),
        Event::Gap { events } => format!("{events} events were lost"),
        // Names are another program's text.
        Event::Name { name } => format!("name {}", name.replace(char::is_control, "?")),
        Event::ThreadEnd => "end".into(),
        Event::Memory { resident, minor_faults, major_faults } => {
            format!("resident {resident} minor faults {minor_faults} major faults {major_faults}")
        }
        Event::Unknown => "an event of a later version".into(),
    }
}
