//! Asks a running process for something: an option of its heap, or memory back (docs/design/orders.md).
//!
//! The order is written into the mailbox of its heap. The process itself obeys it, at the end of a slow path or in
//! its janitor. A janitor that sleeps is woken by letting its wait begin anew: its thread alone is stopped for an
//! instant, and no signal is sent. Only the tool that traces that thread writes, so two of us take turns.

use super::layout::Within;
use super::memory::{Memory, number};
use super::seen::{Seen, why_refused};
use crate::process::Process;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vcm_foreign::file;

/// The name that the janitor's thread gives itself.
const JANITOR: &str = "vcm-janitor";
const STEP: Duration = Duration::from_millis(5);
/// How long we wait for our turn, for a thread to stop, and for an order to be done.
const PATIENCE: Duration = Duration::from_secs(1);
/// The word of a rung bell (`os/bell.rs`).
const RUNG: u32 = 1;
/// The time within which a thread that has begun to obey is done.
const SETTLED: Duration = Duration::from_millis(20);
/// The kinds of orders, as the heap reads them (`heap/mailbox.rs`).
const SET: u32 = 1;
const RELEASE: u32 = 2;
const RELEASE_ALL: u32 = 3;
const RECORD: u32 = 4;
const END_RECORDING: u32 = 5;

pub enum Order<'a> {
    /// `name=value` of a live option.
    Set(&'a str),
    /// So many bytes that are free, or all that can go.
    Release(Option<u64>),
    /// Writes down what is allocated and freed: clock, one address in so many, stamps of patience, place of a thread's number.
    Record([u64; 4]),
    /// Ends the recording of this number.
    EndRecording(u32),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done; the bytes that were released, of an order to do that.
    Done(u64),
    /// It lies there, and this is why nobody has done it yet.
    Waits(Why),
    /// Another order lies there, and this one was not given.
    Full(Earlier),
    Refused(Refusal),
}

/// An order that lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// As the tool's arguments have it: `retain=0`, `release`.
    pub name: String,
    pub why: Why,
}

impl Earlier {
    pub fn line(&self) -> String {
        let Earlier { name, why } = self;
        format!("an earlier order ({name}) is pending: {}; try again {}", why.reason(), why.again())
    }
}

/// Why nobody looks into the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// By a signal, a debugger, or the freezer of its control group.
    Stopped,
    Busy,
    /// It has one thread, or the option `janitor` is off.
    NoJanitor,
}

impl Why {
    pub fn line(self) -> String {
        format!("{}; pending until {}", self.reason(), self.until())
    }

    fn reason(self) -> &'static str {
        match self {
            Why::Stopped => "the process is stopped",
            Why::Busy => "its janitor is busy",
            Why::NoJanitor => "the process is idle and has no janitor (one thread, or 'janitor' off)",
        }
    }

    fn until(self) -> &'static str {
        match self {
            Why::Stopped => "it continues",
            Why::Busy => "its next tick",
            Why::NoJanitor => "its next cache miss",
        }
    }

    fn again(self) -> &'static str {
        match self {
            Why::Stopped => "when it continues",
            Why::Busy => "in a moment",
            Why::NoJanitor => "after the process allocates",
        }
    }
}

/// Why the process did not do it.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    UnknownOrder,
    UnknownOption,
    BadValue,
    ReadOnce,
    RecordedAlready,
    NoMemory,
    Hardened,
}

impl Refusal {
    pub fn line(&self) -> &'static str {
        match self {
            Refusal::UnknownOrder => "its vcmalloc does not support this order",
            Refusal::UnknownOption => "its vcmalloc has no such option ('vcm stat' names its build)",
            Refusal::BadValue => "its vcmalloc refuses the value",
            Refusal::RecordedAlready => "is already recorded by another vcm",
            Refusal::NoMemory => {
                "has no memory for the events (up to 64 MiB): a limit, or a system call filter"
            }
            Refusal::Hardened => {
                "runs the hardened vcmalloc, which cannot be recorded at run time; start it under 'vcm record -- \
                 COMMAND'"
            }
            Refusal::ReadOnce => {
                "is read once, at start; set it before the program starts ('vcm run --option', 'vcm enable')"
            }
        }
    }
}

/// Gives an order. The error is the rest of a line that begins with the process's number.
pub fn give(seen: &Seen, order: &Order) -> Result<Answer, String> {
    let letter_box = LetterBox::of(seen)?;
    let refused = |error: io::Error| why_refused(&seen.process, &error);
    let memory = Memory::to_write(&seen.process).map_err(refused)?;
    // It is still the process that was looked at: of another one this memory is gone.
    seen.memory.bytes(letter_box.asked, 4).map_err(refused)?;
    let deadline = Instant::now() + PATIENCE;
    let held = loop {
        let held = Held::of(&seen.process, deadline)?;
        if letter_box.is_empty(&memory).map_err(refused)? {
            break held;
        }
        if Instant::now() >= deadline {
            let lying = letter_box.lying(&memory).map_err(refused)?;
            if !lying.gives_way_to(order) {
                return Ok(Answer::Full(Earlier { name: lying.name(), why: why_idle(&seen.process) }));
            }
            letter_box.withdraw(&memory).map_err(refused)?;
            sleep(SETTLED);
            if letter_box.is_empty(&memory).map_err(refused)? {
                break held;
            }
        }
        drop(held);
        sleep(STEP);
    };
    let asked = letter_box.put(&memory, order, held.has_janitor()).map_err(refused)?;
    drop(held);
    while Instant::now() < deadline + PATIENCE {
        if letter_box.number(&memory, letter_box.done).map_err(refused)? == asked {
            return letter_box.answer(&memory).map_err(refused);
        }
        sleep(STEP);
    }
    Ok(Answer::Waits(why_idle(&seen.process)))
}

/// Takes back an order of our own that the process has not come to; false where another lies there, or none. A thread
/// that has begun to obey is done a moment later: then the order was given all the same.
pub fn withdraw(seen: &Seen, is_ours: impl Fn(&Lying) -> bool) -> Result<bool, String> {
    let letter_box = LetterBox::of(seen)?;
    let refused = |error: io::Error| why_refused(&seen.process, &error);
    let memory = Memory::to_write(&seen.process).map_err(refused)?;
    seen.memory.bytes(letter_box.asked, 4).map_err(refused)?;
    let _held = Held::of(&seen.process, Instant::now() + PATIENCE)?;
    if letter_box.is_empty(&memory).map_err(refused)?
        || !is_ours(&letter_box.lying(&memory).map_err(refused)?)
    {
        return Ok(false);
    }
    letter_box.withdraw(&memory).map_err(refused)?;
    sleep(SETTLED);
    Ok(true)
}

/// An order as it lies there.
pub struct Lying {
    kind: u32,
    bytes: u64,
    text: Vec<u8>,
}

impl Lying {
    pub fn sets(&self, setting: &str) -> bool {
        self.kind == SET && self.text == setting.as_bytes()
    }

    pub fn records(&self) -> bool {
        self.kind == RECORD
    }

    /// The last of two settings of one option counts.
    fn gives_way_to(&self, order: &Order) -> bool {
        let option = |text: &[u8]| text.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
        match order {
            Order::Set(setting) => self.kind == SET && option(&self.text) == option(setting.as_bytes()),
            Order::Release(None) => [RELEASE, RELEASE_ALL].contains(&self.kind),
            Order::Release(Some(bytes)) => self.kind == RELEASE && self.bytes <= *bytes,
            Order::Record(_) | Order::EndRecording(_) => false,
        }
    }

    fn name(&self) -> String {
        match self.kind {
            SET => self
                .text
                .iter()
                .map(|byte| if byte.is_ascii_graphic() { *byte as char } else { '?' })
                .collect(),
            RELEASE => format!("release {}", self.bytes),
            RELEASE_ALL => "release".into(),
            RECORD => "record".into(),
            END_RECORDING => "end of a recording".into(),
            kind => format!("number {kind}"),
        }
    }
}

fn why_idle(process: &Process) -> Why {
    let state = process.state().unwrap_or_default();
    if state == "T" || state == "t" {
        return Why::Stopped;
    }
    if janitor_of(process).is_some() { Why::Busy } else { Why::NoJanitor }
}

/// Addresses in the process.
struct LetterBox {
    asked: u64,
    done: u64,
    kind: u64,
    result: u64,
    bytes: u64,
    length: u64,
    text: u64,
    most: usize,
    calls: u64,
    bell: u64,
    /// Zero there sends the next request for memory to the slow path; an older library has none.
    ring: Option<u64>,
}

impl LetterBox {
    fn of(seen: &Seen) -> Result<Self, String> {
        let place = |name: &str| {
            let place = seen.layout.place(name, Within::Heap);
            place.map(|place| (seen.layout.heap.wrapping_add(place.offset), place.count)).ok_or_else(|| {
                "runs a vcmalloc without orders: it is older than 'vcm set'; restart it on this one"
                    .to_owned()
            })
        };
        let at = |name: &str| place(name).map(|(at, _)| at);
        let (text, most) = place("orders.text")?;
        Ok(LetterBox {
            asked: at("orders.asked")?,
            done: at("orders.done")?,
            kind: at("orders.kind")?,
            result: at("orders.result")?,
            bytes: at("orders.bytes")?,
            length: at("orders.length")?,
            text,
            most,
            calls: at("janitor.calls")?,
            bell: at("janitor.bell")?,
            ring: at("cache.ring").ok(),
        })
    }

    fn number(&self, memory: &Memory, at: u64) -> io::Result<u32> {
        Ok(number(&memory.bytes(at, 4)?, 0, 4) as u32)
    }

    fn is_empty(&self, memory: &Memory) -> io::Result<bool> {
        Ok(self.number(memory, self.asked)? == self.number(memory, self.done)?)
    }

    /// Writes the order, last of all that there is one; the number that `done` will have.
    fn put(&self, memory: &Memory, order: &Order, wakes: bool) -> io::Result<u32> {
        let numbers = match order {
            Order::Record(numbers) => numbers.map(u64::to_le_bytes),
            _ => [[0; 8]; 4],
        };
        let (kind, bytes, text) = match order {
            Order::Set(text) => (SET, 0, text.as_bytes()),
            Order::Release(Some(bytes)) => (RELEASE, *bytes, &[][..]),
            Order::Release(None) => (RELEASE_ALL, 0, &[][..]),
            Order::Record(_) => (RECORD, 0, numbers.as_flattened()),
            Order::EndRecording(number) => (END_RECORDING, u64::from(*number), &[][..]),
        };
        if text.len() > self.most {
            return Err(io::Error::other("the value is too long"));
        }
        let asked = self.number(memory, self.asked)?.wrapping_add(1);
        memory.write(self.kind, &kind.to_le_bytes())?;
        memory.write(self.bytes, &bytes.to_le_bytes())?;
        memory.write(self.length, &(text.len() as u32).to_le_bytes())?;
        if !text.is_empty() {
            memory.write(self.text, text)?;
        }
        memory.write(self.asked, &asked.to_le_bytes())?;
        let calls = self.number(memory, self.calls)?.wrapping_add(1);
        memory.write(self.calls, &calls.to_le_bytes())?;
        if wakes {
            // Only while its thread is ours: it looks at the word again when it goes on.
            memory.write(self.bell, &RUNG.to_le_bytes())?;
        } else if let Some(ring) = self.ring {
            memory.write(ring, &0u64.to_le_bytes())?;
        }
        Ok(asked)
    }

    fn lying(&self, memory: &Memory) -> io::Result<Lying> {
        let length = (self.number(memory, self.length)? as usize).min(self.most);
        Ok(Lying {
            kind: self.number(memory, self.kind)?,
            bytes: number(&memory.bytes(self.bytes, 8)?, 0, 8),
            text: memory.bytes(self.text, length as u64)?,
        })
    }

    /// As if it were done. Of a thread that has begun, the same number comes once more.
    fn withdraw(&self, memory: &Memory) -> io::Result<()> {
        let asked = self.number(memory, self.asked)?;
        memory.write(self.done, &asked.to_le_bytes())
    }

    fn answer(&self, memory: &Memory) -> io::Result<Answer> {
        let bytes = number(&memory.bytes(self.bytes, 8)?, 0, 8);
        Ok(match self.number(memory, self.result)? {
            0 => Answer::Done(bytes),
            2 => Answer::Refused(Refusal::UnknownOption),
            3 => Answer::Refused(Refusal::BadValue),
            4 => Answer::Refused(Refusal::ReadOnce),
            5 => Answer::Refused(Refusal::RecordedAlready),
            6 => Answer::Refused(Refusal::NoMemory),
            7 => Answer::Refused(Refusal::Hardened),
            _ => Answer::Refused(Refusal::UnknownOrder),
        })
    }
}

fn janitor_of(process: &Process) -> Option<i32> {
    let threads = fs::read_dir(process.file("task")).ok()?;
    let numbers = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_janitor = |id: &i32| {
        let name = file::text_of_kernel(&process.file(&format!("task/{id}/comm"))).unwrap_or_default();
        name.trim_end() == JANITOR
    };
    numbers.into_iter().find(is_janitor)
}

/// The janitor's thread, stopped until this is dropped; nothing where there is none, or somebody else traces it.
struct Held(Option<Pid>);

impl Held {
    fn of(process: &Process, deadline: Instant) -> Result<Held, String> {
        loop {
            let Some(thread) = janitor_of(process) else { return Ok(Held(None)) };
            let thread = Pid::from_raw(thread);
            match ptrace::seize(thread, ptrace::Options::empty()) {
                Ok(()) => {
                    // From here on it is let go also where we fail.
                    let held = Held(Some(thread));
                    return match ptrace::interrupt(thread) {
                        Ok(()) if stops(thread, deadline) => Ok(held),
                        _ => Ok(Held(None)),
                    };
                }
                // It has just ended.
                Err(Errno::ESRCH) => return Ok(Held(None)),
                Err(_) if traced_by(process, thread).is_some() && Instant::now() < deadline => sleep(STEP),
                // A debugger: the letter is found without us, a little later.
                Err(_) => return Ok(Held(None)),
            }
        }
    }

    fn has_janitor(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            // If the thread is gone, there is nothing to let go.
            let _ = ptrace::detach(thread, None);
        }
    }
}

fn stops(thread: Pid, deadline: Instant) -> bool {
    let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
    while Instant::now() < deadline + STEP {
        match waitpid(thread, Some(flags)) {
            Ok(WaitStatus::StillAlive) => sleep(STEP / 10),
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => return false,
            Ok(_) => return true,
        }
    }
    false
}

/// The process that traces this thread.
fn traced_by(process: &Process, thread: Pid) -> Option<i32> {
    let status = file::text_of_kernel(&process.file(&format!("task/{thread}/status"))).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|id| *id != 0)
}
