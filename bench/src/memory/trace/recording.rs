//! A recorded daemon as steps to replay, in one order of time.
//!
//! Every object has a number of its own, which makes the order that a replay has to keep plain: an object ends after it
//! began, and nothing else.

use super::step::{Operation, Step};
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use vcm_trace::{Event, Object, Reader, StreamId, art, in_order};

#[derive(Debug, Default)]
pub struct Recording {
    /// By the number of the thread.
    pub steps: Vec<(usize, Step)>,
    pub objects: usize,
    /// Ends of objects whose beginning was not recorded: left out.
    pub unknown: usize,
    threads: HashMap<StreamId, usize>,
    /// Number and bytes.
    live: HashMap<Object, (u32, u32)>,
    begun: HashMap<StreamId, u64>,
}

/// Reads a trace of `vcm trace`, or an older one (`.art`), that may be packed with zstd if its name says so.
pub fn read_file(path: &Path) -> Result<Recording> {
    let file = File::open(path).with_context(|| {
        format!(
            "cannot read the trace {}; give the path of a trace, or of an .art or .art.zst file",
            path.display()
        )
    })?;
    let read_it = || match path.extension().is_some_and(|extension| extension == "zst") {
        true => read(BufReader::with_capacity(1 << 20, zstd::Decoder::new(file)?)),
        false => read(BufReader::with_capacity(1 << 20, file)),
    };
    read_it().with_context(|| format!("{} is not a trace that can be replayed", path.display()))
}

fn read(mut input: impl BufRead) -> Result<Recording> {
    let mut recording = Recording::default();
    if input.fill_buf()?.starts_with(b"ART1") {
        let mut refused = None;
        art::read(input, |stream, nanoseconds, event| {
            let added = recording.add(stream, nanoseconds, &event);
            refused = refused.take().or(added.err());
            Ok(())
        })?;
        return refused.map_or(Ok(recording), Err);
    }
    let mut reader = Reader::new(input)?;
    while let Some(epoch) = reader.next_epoch()? {
        let mut added = Ok(());
        in_order(&epoch, |stream, timed| {
            if added.is_ok() {
                added = recording.add(stream, timed.nanoseconds, &timed.event);
            }
        });
        added?;
    }
    Ok(recording)
}

impl Recording {
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Its length.
    pub fn seconds(&self) -> f64 {
        self.steps.iter().map(|(_, step)| step.microseconds).max().map_or(0.0, |last| f64::from(last) / 1e6)
    }

    fn add(&mut self, stream: StreamId, nanoseconds: u64, event: &Event) -> Result<()> {
        let threads = self.threads.len();
        if stream == vcm_trace::PROCESS {
            return Ok(());
        }
        let thread = *self.threads.entry(stream).or_insert(threads);
        let mut step = |operation, (object, bytes), log2_alignment| {
            let microseconds = (nanoseconds / 1000) as u32;
            self.steps.push((thread, Step::new(microseconds, object, bytes, operation, log2_alignment)));
        };
        match (event, event.ends().map(|object| self.live.remove(&object))) {
            (Event::Free { .. }, Some(Some(ended))) => step(Operation::Free, ended, 0),
            (Event::Realloc { .. }, Some(Some(ended))) => step(Operation::ReallocFrom, ended, 0),
            (Event::FreeUnknown | Event::ReallocUnknown { .. }, _) | (_, Some(None)) => self.unknown += 1,
            _ => {}
        }
        let Some(bytes) = event.begins() else { return Ok(()) };
        let (Ok(bytes), Ok(number)) = (u32::try_from(bytes), u32::try_from(self.objects)) else {
            bail!("{bytes} bytes for object {}: too many", self.objects);
        };
        let ordinal = self.begun.entry(stream).or_default();
        self.live.insert(Object { stream, ordinal: *ordinal }, (number, bytes));
        *ordinal += 1;
        self.objects += 1;
        let (operation, log2_alignment) = match event {
            Event::Calloc { .. } => (Operation::Calloc, 0),
            Event::Aligned { log2_alignment, .. } if *log2_alignment < 32 => {
                (Operation::Aligned, *log2_alignment)
            }
            Event::Aligned { log2_alignment, .. } => bail!("an alignment of 2^{log2_alignment}"),
            // Without a block to move it allocates.
            Event::Realloc { .. } | Event::ReallocUnknown { .. } => (Operation::ReallocTo, 0),
            _ => (Operation::Malloc, 0),
        };
        step(operation, (number, bytes), log2_alignment);
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use vcm_trace::{Header, Writer};

    pub fn recording(events: &[(StreamId, Event)]) -> Recording {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        for (index, (stream, event)) in events.iter().enumerate() {
            writer.event(*stream, 64_000 * index as u64, event).unwrap();
        }
        read(&writer.finish().unwrap().0[..]).unwrap()
    }

    fn steps(recording: &Recording) -> Vec<(usize, Operation, u32, u32)> {
        let shown = |(thread, step): &(usize, Step)| (*thread, step.operation(), step.object, step.bytes);
        recording.steps.iter().map(shown).collect()
    }

    /// The first object of a thread.
    const fn first(stream: StreamId) -> Object {
        Object { stream, ordinal: 0 }
    }

    #[test]
    fn a_realloc_ends_one_object_and_begins_another_and_ends_have_the_bytes_of_their_objects() {
        use Operation::*;
        let malloc = (1, Event::Malloc { bytes: 100 });
        let moved = (1, Event::Realloc { from: first(1), bytes: 150 });
        let free = (2, Event::Free { object: Object { stream: 1, ordinal: 1 } });
        let recording = recording(&[malloc, moved, free]);
        let expected =
            [(0, Malloc, 0, 100), (0, ReallocFrom, 0, 100), (0, ReallocTo, 1, 150), (1, Free, 1, 150)];
        assert_eq!(steps(&recording), expected);
        assert_eq!((recording.threads(), recording.objects, recording.unknown), (2, 2, 0));
    }

    #[test]
    fn the_end_of_an_object_that_was_never_seen_is_left_out_and_counted() {
        let unknown = [
            (1, Event::FreeUnknown),
            (1, Event::ReallocUnknown { bytes: 8 }),
            (1, Event::Free { object: first(9) }),
        ];
        let recording = recording(&unknown);
        assert_eq!(steps(&recording), [(0, Operation::ReallocTo, 0, 8)]);
        assert_eq!(recording.unknown, 3);
    }

    #[test]
    fn an_older_trace_is_read_by_its_own_times_also_packed() {
        // 16 MHz: a dt is a microsecond. Slot 0 is used again, and is then another object.
        let mut bytes = b"ART1\x01\0\0\0".to_vec();
        [3u64, 1, 16e6f64.to_bits(), 1].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend([b'a'; 16]);
        for (size, operation, dt) in [(100u32, 1u8, 5u32), (100, 2, 7), (200, 3, 1)] {
            bytes.extend([0; 4]);
            bytes.extend(size.to_le_bytes());
            bytes.extend([0, 0, operation, 0]);
            bytes.extend(dt.to_le_bytes());
        }
        let folder = tempfile::tempdir().unwrap();
        let packed = folder.path().join("small.art.zst");
        std::fs::write(&packed, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
        let recording = read_file(&packed).unwrap();
        let times: Vec<u32> = recording.steps.iter().map(|(_, step)| step.microseconds).collect();
        assert_eq!(times, [5, 12, 13]);
        use Operation::{Calloc, Free, Malloc};
        assert_eq!(steps(&recording), [(0, Malloc, 0, 100), (0, Free, 0, 100), (0, Calloc, 1, 200)]);
        let refused = format!("{:#}", read(&bytes[..bytes.len() - 1]).unwrap_err());
        assert!(refused.contains("the records"), "{refused}");
        let missing = read_file(&folder.path().join("none.art")).unwrap_err().to_string();
        assert!(missing.contains("none.art") && missing.contains("give the path"), "{missing}");
    }
}
