//! The text of the process's last words, and where it goes (docs/design/last-words.md).
//!
//! A heap profile in gperftools' text, which every pprof reads; all else stands in it as comments.

use crate::base::text::{Buffer, Sink, put_decimal, put_str};
use crate::heap::Heap;
use crate::options::{OptionId, PATH_BYTES};
use crate::os::Os;
use crate::upkeep::{AHEAD, NEAR};
use core::ffi::CStr;

/// A path in which the process's number and name are written out, and more behind it.
const ROOM: usize = 2 * PATH_BYTES;
/// The part of the program's name that is written.
const NAME_BYTES: usize = 16;

/// Called by a slow path, which does not know this file.
pub fn write<O: Os>(heap: &Heap<O>, reasons: u32) -> Result<(), u32> {
    heap.write_last_words(reasons)
}

impl<O: Os> Heap<O> {
    /// Writes them; the system's error, or 0, where they cannot be. Takes no memory, and locks one at a time.
    pub(crate) fn write_last_words(&self, reasons: u32) -> Result<(), u32> {
        let mut pattern = [0; PATH_BYTES];
        let Some(length) = self.options.path(OptionId::last_words, &mut pattern) else { return Ok(()) };
        let (mut place, mut beside) = ([0u8; ROOM], [0u8; ROOM]);
        let fill = |room: &mut [u8; ROOM], is_part: bool| {
            // The last byte stays zero.
            let mut sink = Buffer::new(room.get_mut(..ROOM - 1)?);
            self.put_path(&mut sink, pattern.get(..length)?);
            if is_part {
                put_str(&mut sink, ".");
                put_decimal(&mut sink, self.os.process_number());
                put_str(&mut sink, ".part");
            }
            (sink.offered() < ROOM).then_some(())
        };
        fill(&mut place, false).and_then(|()| fill(&mut beside, true)).ok_or(0u32)?;
        let names = CStr::from_bytes_until_nul(&place).ok().zip(CStr::from_bytes_until_nul(&beside).ok());
        let (place, beside) = names.ok_or(0u32)?;
        self.os.write_whole(place, beside, &mut |sink| self.put_last_words(sink, reasons))
    }

    fn put_path(&self, sink: &mut dyn Sink, pattern: &[u8]) {
        let mut rest = pattern;
        loop {
            rest = match rest {
                [] => return,
                [b'%', b'p', tail @ ..] => {
                    put_decimal(sink, self.os.process_number());
                    tail
                }
                [b'%', b'e', tail @ ..] => {
                    // A program may call itself anything.
                    let mut of_a_file = |byte: &u8| sink.put(&[if *byte == b'/' { b'_' } else { *byte }]);
                    self.with_name(&mut |name| name.iter().for_each(&mut of_a_file));
                    tail
                }
                [b'%', tail @ ..] => {
                    sink.put(b"%");
                    tail.get(1..).unwrap_or(&[])
                }
                [byte, tail @ ..] => {
                    sink.put(&[*byte]);
                    tail
                }
            };
        }
    }

    fn put_last_words(&self, sink: &mut dyn Sink, reasons: u32) {
        let is_on = self.is_profiling();
        let within = |look: &mut dyn FnMut()| _ = self.inside(|_| look());
        self.profile.put_head(sink, is_on, within);
        let mut comment = Comment { sink, is_begun: false };
        self.put_reason(&mut comment, reasons);
        self.put_figures(&mut comment, &self.stats());
        self.put_heaps(&mut comment);
        self.put_surroundings(&mut comment);
        self.put_samples_taken(&mut comment, is_on);
        if is_on {
            self.profile.put_stacks(sink, within);
        }
        self.profile.put_mappings(&self.os, sink);
        put_str(sink, "# end of the last words\n");
    }

    /// The process's name, which is that of its first thread: the janitor has another.
    fn with_name(&self, take: &mut dyn FnMut(&[u8])) {
        let mut name = [0u8; NAME_BYTES];
        let length = match self.os.read_file(c"/proc/self/comm", &mut name) {
            Ok(length) => length,
            Err(_) => self.os.program_name(&mut name),
        };
        let name = name.get(..length).unwrap_or(&[]);
        take(name.strip_suffix(b"\n").unwrap_or(name));
    }

    fn put_reason(&self, sink: &mut dyn Sink, reasons: u32) {
        put_str(sink, "last words of ");
        self.with_name(&mut |name| sink.put(name));
        put_str(sink, ", process ");
        put_decimal(sink, self.os.process_number());
        put_str(sink, ", in bytes: ");
        put_str(
            sink,
            if reasons & NEAR != 0 {
                "the control group is 98% full"
            } else if reasons & AHEAD != 0 {
                "what the heap has taken would fill the control group"
            } else {
                "hard_limit refused memory"
            },
        );
        put_str(sink, "\n");
    }

    /// Writes what the process and its group hold, beside the heap.
    fn put_surroundings(&self, sink: &mut dyn Sink) {
        let mut put = |label: &str, bytes: Option<usize>| {
            if let Some(bytes) = bytes {
                put_str(sink, label);
                put_decimal(sink, bytes as u64);
                put_str(sink, "\n");
            }
        };
        let group = self.upkeep.group_now(&self.floors);
        put("process, own memory: ", self.os.own_memory());
        put("control group, in use: ", group.map(|group| group.in_use));
        put("control group, limit: ", group.map(|group| group.limit));
        put("memory_limit: ", self.pages.limits.soft());
        put("hard_limit: ", self.pages.limits.hard());
    }

    fn put_samples_taken(&self, sink: &mut dyn Sink, is_on: bool) {
        if !is_on {
            let why = if self.hooks.is_none() {
                "no call sites: this library takes no samples\n"
            } else {
                "no call sites: profile is off; profile=on keeps them from then on\n"
            };
            return put_str(sink, why);
        }
        let stats = self.profile_stats();
        for (label, number) in [
            ("call sites by samples, mean bytes between two: ", stats.interval),
            ("samples in use: ", stats.live_samples),
            ("samples lost, tables full: ", stats.dropped),
        ] {
            put_str(sink, label);
            put_decimal(sink, number);
            put_str(sink, "\n");
        }
    }
}

/// Text of which each line is a comment.
struct Comment<'a> {
    sink: &'a mut dyn Sink,
    is_begun: bool,
}

impl Sink for Comment<'_> {
    fn put(&mut self, bytes: &[u8]) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.is_begun {
                self.sink.put(b"# ");
            }
            self.sink.put(line);
            self.is_begun = !line.ends_with(b"\n");
        }
    }
}
