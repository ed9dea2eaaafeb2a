//! The rings of a process that is recorded while it runs, in its own memory (docs/design/record.md): read from here, and
//! told how far they were read.

use super::layout::{Place, Within};
use super::memory::{Memory, number};
use super::orders::{self, Answer, Order, Refusal, Why};
use super::seen::{Seen, why_refused};
use crate::elf;
use crate::process::Process;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vcm_foreign::file;

const OLDER: &str = "runs a vcmalloc that cannot be recorded at run time: it is older than 'vcm record --pid'; \
 restart it on \
    this one, or start it under 'vcm record -- COMMAND'";

/// Rounds are some hundredths of a second apart; on a machine that is very busy, much more.
const UNHEARD: Duration = Duration::from_secs(1);

/// The recording that is asked of the process.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// How the tool's and the process's events are stamped.
    pub clock: u32,
    pub sample: u32,
    /// In stamps: it ends by itself when nobody was heard of for so long.
    pub patience: u64,
    /// The place in the rings' header of the stamp until which it goes on.
    pub until_at: u64,
}

/// Addresses in the process, and its memory to be written.
pub struct Rings {
    memory: Memory,
    process: Process,
    on: u64,
    number: u64,
    shape: [u64; 3],
}

/// The result of the order to begin.
#[derive(Debug, PartialEq, Eq)]
pub enum Begun {
    /// With this number.
    Yes(u32),
    /// It lies there, for this reason; the recording that begins has this number.
    Waits(Why, u32),
}

impl Rings {
    /// The error is the rest of a line that begins with the process's number.
    pub fn of(seen: &Seen) -> Result<Rings, String> {
        let at = |name: &str| {
            let place = seen.layout.place(name, Within::Heap).ok_or_else(|| OLDER.to_owned())?;
            Ok::<_, String>(address(seen, place))
        };
        let memory = Memory::to_write(&seen.process).map_err(|error| why_refused(&seen.process, &error))?;
        Ok(Rings {
            memory,
            process: seen.process.clone(),
            on: at("recording.on")?,
            number: at("recording.number")?,
            shape: [at("metadata_at.recording")?, at("recording.rings")?, at("recording.slots")?],
        })
    }

    pub fn begin(&self, seen: &Seen, wanted: &Wanted) -> Result<Begun, String> {
        let refused = |error: io::Error| why_refused(&seen.process, &error);
        let before = self.word(self.number, 4).map_err(refused)? as u32;
        let number_at = thread_number_at(&seen.process, &self.memory).unwrap_or(0);
        let numbers = [u64::from(wanted.clock), wanted.sample.into(), wanted.patience, number_at];
        match orders::give(seen, &Order::Record(numbers))? {
            Answer::Done(number) => Ok(Begun::Yes(number as u32)),
            Answer::Waits(why) => Ok(Begun::Waits(why, before.wrapping_add(1))),
            Answer::Full(earlier) => Err(format!("is not recorded: {}", earlier.line())),
            Answer::Refused(Refusal::RecordedAlready) if self.is_left_alone(wanted.until_at) => {
                // The tool that began it was killed, so it is ended here.
                self.end(seen, before)?;
                match orders::give(seen, &Order::Record(numbers))? {
                    Answer::Done(number) => Ok(Begun::Yes(number as u32)),
                    Answer::Refused(refusal) => Err(refusal.line().into()),
                    Answer::Waits(why) => Ok(Begun::Waits(why, before.wrapping_add(1))),
                    Answer::Full(earlier) => Err(format!("is not recorded: {}", earlier.line())),
                }
            }
            Answer::Refused(refusal) => Err(refusal.line().into()),
        }
    }

    /// Whether nobody reads the rings any more: a reader moves the time until which it goes on, at each of his rounds.
    fn is_left_alone(&self, until_at: u64) -> bool {
        let until = || {
            let at = self.word(self.shape[0], 8).ok()?;
            self.word(at.wrapping_add(until_at), 8).ok()
        };
        let before = until();
        let begin = Instant::now();
        while begin.elapsed() < UNHEARD {
            sleep(UNHEARD / 10);
            if until() != before {
                return false;
            }
        }
        before.is_some()
    }

    /// Whether the recording of this number goes on.
    pub fn is_on(&self, number: u32) -> io::Result<bool> {
        Ok(self.word(self.on, 1)? != 0 && self.word(self.number, 4)? == u64::from(number))
    }

    /// The address of the rings, their number, and the length of each.
    pub fn shape(&self) -> io::Result<(u64, u32, u32)> {
        let [at, rings, slots] = self.shape;
        Ok((self.word(at, 8)?, self.word(rings, 4)? as u32, self.word(slots, 4)? as u32))
    }

    fn word(&self, at: u64, width: usize) -> io::Result<u64> {
        Ok(number(&self.memory.bytes(at, width as u64)?, 0, width))
    }

    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read(at, into)
    }

    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write(at, bytes)
    }

    /// Ends it. The error says why that is not done yet.
    pub fn end(&self, seen: &Seen, number: u32) -> Result<(), String> {
        match orders::give(seen, &Order::EndRecording(number))? {
            Answer::Waits(why) => Err(why.line()),
            Answer::Full(earlier) => Err(earlier.line()),
            _ => Ok(()),
        }
    }

    /// Takes an order back that nobody has obeyed yet.
    pub fn take_back(&self, seen: &Seen) {
        // If it was obeyed meanwhile, the recording ends by itself.
        let _ = orders::withdraw(seen, orders::Lying::records);
    }

    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn address(seen: &Seen, place: &Place) -> u64 {
    seen.layout.heap.wrapping_add(place.offset)
}

/// The place in glibc's own block of a thread where it keeps its number: as it tells debuggers (libthread_db).
fn thread_number_at(process: &Process, memory: &Memory) -> Option<u64> {
    let maps = file::text_of_kernel(&process.file("maps")).ok()?;
    let first = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (range, offset) = (words.next()?, words.nth(1)?);
        let file = words.nth(2)?;
        let is_libc = file.ends_with("/libc.so.6") && offset.bytes().all(|digit| digit == b'0');
        let start = u64::from_str_radix(range.split('-').next()?, 16).ok()?;
        is_libc.then(|| (start, file.to_owned()))
    });
    let (start, file) = first?;
    let path = process.as_kernel_names_it(Path::new(&file));
    let at = elf::offset_of(&path, &["_thread_db_pthread_tid"], elf::Among::All).ok()??;
    let description = memory.bytes(start.wrapping_add(at), 12).ok()?;
    let [bits, count, offset] = [0, 4, 8].map(|at| number(&description, at, 4));
    (bits == 32 && count == 1).then_some(offset)
}
