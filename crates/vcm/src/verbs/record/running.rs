//! A process that runs already, on vcmalloc: its library writes the events down while we ask for them.

use super::output::Output;
use super::session::Session;
use crate::cli::record::Record;
use crate::signals::Held;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vcm_front::say::{self, Failure, OWN_FAILURE, line};
use vcm_inspect::process::Process;
use vcm_inspect::window::recording::{Begun, Rings, Wanted};
use vcm_inspect::window::{self, Seen};
use vcm_record::{Memory, Place, Remote, UNTIL_AT, best_clock, patience};
use vcm_trace::Header;

const BETWEEN_ROUNDS: Duration = Duration::from_millis(10);

/// A recording that was begun: when this is dropped it ends.
struct Begin {
    seen: Seen,
    rings: Option<Rings>,
    number: u32,
}

struct OfProcess(Rings);

impl Remote for OfProcess {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read(at, into)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(at, bytes)
    }
}

/// Why the rounds ended.
enum End {
    Time,
    Signal(i32),
    Gone,
    /// By itself, or by a child of ours that knew its number.
    Over,
    Failed,
}

pub struct Recorded {
    pub session: Session,
    pub output: Output,
    /// The code that the tool ends with, where all else is well.
    pub code: u8,
}

pub fn name_of(process: &Process) -> String {
    let name = process.name().unwrap_or_default().printed();
    if name.is_empty() { process.id.to_string() } else { name.replace(['/', '\\'], "_") }
}

pub fn find(arguments: &Record) -> Result<Process, Failure> {
    let target = arguments.pid.as_deref().unwrap_or_default();
    window::find(target).map_err(|line| Failure::new(OWN_FAILURE, say::for_verb(&line, "record --pid")))
}

/// Records until the time is over. The caller makes the file when the process is known to be recorded.
pub fn record(
    arguments: &Record,
    process: Process,
    header: Header,
    create: impl FnOnce() -> Result<(Output, std::fs::File), Failure>,
) -> Result<Recorded, Failure> {
    let id = process.id;
    let failure =
        |why: String| Failure::new(OWN_FAILURE, format!("{id} {}", say::for_verb(&why, "record --pid")));
    let seen = Seen::open(process).map_err(failure)?;
    let rings = Rings::of(&seen).map_err(failure)?;
    let (output, file) = create()?;
    let held = Held::hold(&[]).map_err(|error| failure(format!("is not recorded: {error}")))?;
    let interrupted =
        |number: i32| Failure::new(128 + number as u8, format!("{id} was not recorded: signal {number}"));
    if let Some(came) = held.comes_within(arguments.after).filter(|_| !arguments.after.is_zero()) {
        return Err(interrupted(came.number));
    }
    let clock = best_clock();
    let patience = patience(clock);
    let wanted = Wanted { clock, sample: arguments.sample, patience, until_at: UNTIL_AT };
    let begun = rings.begin(&seen, &wanted).map_err(failure)?;
    let mut begin = Begin { seen, rings: Some(rings), number: 0 };
    begin.number = match begun {
        Begun::Yes(number) => number,
        Begun::Waits(why, number) => {
            line(&format!("vcm: {id}: {}; the recording starts then", why.line()));
            begin.wait(number, &held).map_err(|number| {
                number.map_or_else(
                    || failure("has ended, or became another program, before it was recorded".into()),
                    interrupted,
                )
            })?;
            number
        }
    };
    let memory = begin
        .memory(arguments.sample, patience)
        .map_err(|error| failure(format!("cannot be recorded: {error}")))?;
    say_begin(&begin.seen, arguments.length);
    let mut session = Session::new(memory, header, file);
    let end = rounds(&begin, &mut session, arguments.length, &held);
    // The events that are still in the rings are read before these go.
    session.finish();
    drop(begin);
    let code = told(id, &end);
    Ok(Recorded { session, output, code })
}

fn told(id: i32, end: &End) -> u8 {
    match end {
        End::Gone => line(&format!(
            "vcm: {id} has ended, or became another program; the trace lacks about its last {} ms",
            BETWEEN_ROUNDS.as_millis()
        )),
        End::Over => line(&format!("vcm: {id} has ended the recording: no reader for five seconds")),
        End::Time | End::Failed | End::Signal(libc::SIGINT) => {}
        End::Signal(number) => return 128 + *number as u8,
    }
    0
}

fn say_begin(seen: &Seen, length: Option<Duration>) {
    let time = length.map_or_else(
        || "until it ends".to_owned(),
        |length| format!("for {}", humantime::format_duration(length)),
    );
    let name = say::typed([seen.name.printed()]);
    line(&format!(
        "vcm: {} {name} is recorded {time}; Ctrl-C ends the recording early and keeps it",
        seen.process.id
    ));
}

fn rounds(begin: &Begin, session: &mut Session, length: Option<Duration>, held: &Held) -> End {
    let until = length.map(|length| Instant::now() + length);
    loop {
        if let Some(came) = held.comes_within(BETWEEN_ROUNDS) {
            return End::Signal(came.number);
        }
        let is_on = begin.is_on();
        if !session.round(false) {
            return End::Failed;
        }
        match is_on {
            _ if session.memory.is_gone() => return End::Gone,
            Some(false) => return End::Over,
            _ if until.is_some_and(|until| Instant::now() >= until) => return End::Time,
            _ => {}
        }
    }
}

impl Begin {
    /// None where the process is gone.
    fn is_on(&self) -> Option<bool> {
        let rings = self.rings.as_ref();
        rings.and_then(|rings| rings.is_on(self.number).ok())
    }

    /// The error is the signal that came meanwhile; none: the process is gone.
    fn wait(&mut self, number: u32, held: &Held) -> Result<(), Option<i32>> {
        self.number = number;
        loop {
            match self.is_on() {
                Some(true) => return Ok(()),
                Some(false) => {}
                None => return Err(None),
            }
            if let Some(came) = held.comes_within(BETWEEN_ROUNDS) {
                if let Some(rings) = &self.rings {
                    rings.take_back(&self.seen);
                }
                return Err(Some(came.number));
            }
        }
    }

    fn memory(&self, sample: u32, patience: u64) -> io::Result<Memory> {
        let rings = Rings::of(&self.seen).map_err(io::Error::other)?;
        let (at, count, slots) = rings.shape()?;
        let place = Place { at, rings: count, slots };
        Memory::remote(self.seen.process.id as u32, sample, &place, patience, Box::new(OfProcess(rings)))
    }
}

impl Drop for Begin {
    fn drop(&mut self) {
        if let Some(rings) = self.rings.take().filter(|_| self.number != 0) {
            // If nobody obeys just now, or the process is gone, the recording ends with the next event, or has ended.
            let _ = rings.end(&self.seen, self.number);
        }
    }
}

pub fn output(process: &Process) -> PathBuf {
    format!("{}.vct", name_of(process)).into()
}
