//! Stops the tracee where it hurts: a hardware breakpoint on one instruction, a detour, and on.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use vcmalloc_tests::{Ground, compile, library, machine};

use crate::registers::{self, stands_at};
use crate::sequences::{Library, Point};

/// A round is a visit to one instruction, which makes so many stops there.
const ROUNDS: usize = 6000;
const STOPS: usize = 6;
const LIMIT: Duration = Duration::from_secs(180);

pub enum Stopped {
    NoBreakpoints(Errno),
    Failed(String),
}

impl From<Errno> for Stopped {
    fn from(error: Errno) -> Stopped {
        Stopped::Failed(format!("ptrace: {error}"))
    }
}

#[derive(Default)]
pub struct Reached {
    points: Vec<Point>,
    hits: Vec<usize>,
    pub stops: usize,
    pub restarts: usize,
    sequences: usize,
}

impl Reached {
    /// For each sequence the number of its instructions that were stopped at, and their number.
    pub fn sequences(&self) -> Vec<(usize, usize)> {
        let of = |sequence| {
            self.points.iter().zip(&self.hits).filter(move |(point, _)| point.sequence == Some(sequence))
        };
        (0..self.sequences)
            .map(|one| (of(one).filter(|(_, hits)| **hits > 0).count(), of(one).count()))
            .collect()
    }
}

/// An option of the library, by its variable, for the tracee.
pub type Setting = Option<(&'static str, &'static str)>;

/// Runs the tracee with as many rounds as there are visits, and leaves it no instruction in peace.
pub fn torture(library: &Library, setting: Setting) -> Result<Reached, Stopped> {
    let points = library.points();
    // An emulator throws its translations away at each change of a breakpoint, so rounds cost it more than its slowness.
    let slowness = machine::slowness() as usize;
    let (rounds, least) = (ROUNDS / (slowness * slowness).max(1), if slowness == 1 { 4 } else { 1 });
    let visits = (rounds / points.len().max(1)).max(least);
    let mut complaints = tempfile::tempfile().map_err(|error| Stopped::Failed(error.to_string()))?;
    let child = start(library, setting, points.len() * visits, &complaints).map_err(Stopped::Failed)?;
    let ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| watch(child, &ended));
        let result = Tracer::attach(child, library, points).and_then(|tracer| tracer.run(visits));
        ended.store(true, Ordering::Relaxed);
        result
    });
    result.map_err(|stopped| {
        let Stopped::Failed(error) = stopped else { return stopped };
        // When a helper gives up, the stopped thread disappears under the tracer's hands.
        let _ = kill(child, Signal::SIGKILL);
        let end = waitpid(child, None).map_or(String::new(), |status| format!("; the tracee: {status:?}"));
        let mut said = String::new();
        let _ = complaints.rewind().and_then(|()| complaints.read_to_string(&mut said));
        Stopped::Failed(format!("{error}{end}\n{said}"))
    })
}

/// How often a breakpoint on an instruction stops a program that calls each hot function so many times
/// between two signals and the end; gives up at `most`.
pub fn stops_at(library: &Library, address: u64, most: usize) -> Result<usize, Stopped> {
    let child = spawn(library, None, "entries.c", |_| Ok(())).map_err(Stopped::Failed)?;
    let mut tracer = Tracer { child, library, base: 0, cpus: Vec::new(), reached: Reached::default() };
    expect_stop(waitpid(child, None)?, Signal::SIGTRAP, "after exec")?;
    ptrace::setoptions(child, ptrace::Options::PTRACE_O_EXITKILL)?;
    ptrace::cont(child, None)?;
    expect_stop(waitpid(child, None)?, Signal::SIGUSR1, "before the calls")?;
    tracer.base = base_of(child, library).map_err(Stopped::Failed)?;
    tracer.set_breakpoint(Some(tracer.base + address))?;
    for stops in 0..most {
        ptrace::cont(child, None)?;
        match waitpid(child, None)? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => tracer.pass(tracer.base + address)?,
            WaitStatus::Exited(_, 0) => return Ok(stops),
            other => return Err(Stopped::Failed(format!("{other:?} after {stops} stops"))),
        }
    }
    ptrace::kill(child)?;
    waitpid(child, None)?;
    Ok(most)
}

fn start(library: &Library, setting: Setting, rounds: usize, complaints: &File) -> Result<Pid, String> {
    spawn(library, setting, "tracee.c", |command| {
        command.arg(rounds.to_string());
        command.stderr(complaints.try_clone().map_err(|error| error.to_string())?);
        Ok(())
    })
}

fn spawn(
    library: &Library,
    setting: Setting,
    source: &str,
    change: impl FnOnce(&mut Command) -> Result<(), String>,
) -> Result<Pid, String> {
    let source = library::repository().join("tests/preemption").join(source);
    let mut command =
        machine::command(&compile::program(&source, Ground::Preload, &["-lstdc++".to_string()])?);
    command.stdin(Stdio::null());
    change(&mut command)?;
    Ground::Preload.prepare(&mut command)?;
    command.env("LD_PRELOAD", &library.path).envs(setting);
    if library.path != library::our_shared()? {
        command.env("CONFORMANCE_ON", "any");
    }
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(std::io::Error::from)) };
    let child = command.spawn().map_err(|error| format!("the tracee did not start: {error}"))?;
    Ok(Pid::from_raw(child.id() as i32))
}

/// A tracee that hangs must not hang the suite: the tracer waits without a limit.
fn watch(child: Pid, ended: &AtomicBool) {
    let start = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        if start.elapsed() > machine::patience(LIMIT) {
            let _ = kill(child, Signal::SIGKILL);
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

struct Tracer<'library> {
    child: Pid,
    library: &'library Library,
    base: u64,
    cpus: Vec<usize>,
    reached: Reached,
}

impl<'library> Tracer<'library> {
    fn attach(child: Pid, library: &'library Library, points: Vec<Point>) -> Result<Self, Stopped> {
        expect_stop(waitpid(child, None)?, Signal::SIGTRAP, "after exec")?;
        ptrace::setoptions(child, ptrace::Options::PTRACE_O_EXITKILL)?;
        let allowed = sched_getaffinity(child)?;
        let cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
        let hits = vec![0; points.len()];
        let sequences = library.sequences.len();
        let reached = Reached { points, hits, stops: 0, restarts: 0, sequences };
        // The round that warms up.
        ptrace::cont(child, None)?;
        expect_stop(waitpid(child, None)?, Signal::SIGUSR1, "before warming up")?;
        let base = base_of(child, library).map_err(Stopped::Failed)?;
        ptrace::cont(child, None)?;
        expect_stop(waitpid(child, None)?, Signal::SIGUSR1, "at the first round")?;
        Ok(Tracer { child, library, base, cpus, reached })
    }

    fn run(mut self, visits: usize) -> Result<Reached, Stopped> {
        for visit in 0..visits {
            for index in 0..self.reached.points.len() {
                if !self.round(index, visit)? {
                    return Ok(self.reached);
                }
            }
        }
        Err(Stopped::Failed("the tracee did not end after its last round".into()))
    }

    /// One round with a breakpoint on the instruction; false when the tracee has ended well.
    fn round(&mut self, index: usize, visit: usize) -> Result<bool, Stopped> {
        self.set_breakpoint(Some(self.base + self.reached.points[index].address))?;
        for stop in 0.. {
            ptrace::cont(self.child, None)?;
            match waitpid(self.child, None)? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => self.detour(index, visit + stop)?,
                WaitStatus::Stopped(_, Signal::SIGUSR1) => return Ok(true),
                WaitStatus::Exited(_, 0) => return Ok(false),
                other => return Err(self.unexpected(other, index)),
            }
            if stop + 1 == STOPS {
                self.set_breakpoint(None)?;
            }
        }
        unreachable!("the loop ends with the round")
    }

    /// The thread stands before the instruction: lets others in, moves it, and sees that the kernel
    /// restarts it.
    fn detour(&mut self, index: usize, variant: usize) -> Result<(), Stopped> {
        let point = self.reached.points[index];
        let (stands_at, meant) = (stands_at(self.child)?, self.base + point.address);
        if stands_at != meant {
            return Err(Stopped::Failed(format!("stopped at {stands_at:#x}, not at {meant:#x}")));
        }
        self.reached.hits[index] += 1;
        self.reached.stops += 1;
        if !variant.is_multiple_of(3) {
            // Long enough for the helper on this CPU to take and give back blocks in the same cache.
            std::thread::sleep(Duration::from_micros(150));
        }
        if variant.is_multiple_of(2) && self.cpus.len() > 1 {
            let mut one = CpuSet::new();
            one.set(self.cpus[(self.reached.stops + variant / 2) % self.cpus.len()])?;
            sched_setaffinity(self.child, &one)?;
        }
        match point.sequence {
            Some(sequence) => self.expect_restart(sequence, point, index),
            None => self.pass(self.base + point.address),
        }
    }

    /// Lets the thread go on behind the breakpoint that it stands at.
    fn pass(&mut self, address: u64) -> Result<(), Stopped> {
        if registers::GOES_ON_AFTER_A_STOP {
            return Ok(());
        }
        self.set_breakpoint(None)?;
        ptrace::step(self.child, None)?;
        expect_stop(waitpid(self.child, None)?, Signal::SIGTRAP, "one step behind a breakpoint")?;
        self.set_breakpoint(Some(address))
    }

    /// One step on, a thread that announced its sequence must have left it for the abort handler: if it goes
    /// on inside, the kernel did not know. A thread that has not announced it yet may go on, but must not come to
    /// the commit.
    fn expect_restart(&mut self, sequence: usize, point: Point, index: usize) -> Result<(), Stopped> {
        let sequence = self.library.sequences[sequence].clone();
        let announced = self.announced()? == self.base + sequence.descriptor;
        self.set_breakpoint(None)?;
        loop {
            ptrace::step(self.child, None)?;
            match waitpid(self.child, None)? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                other => return Err(self.unexpected(other, index)),
            }
            let now = stands_at(self.child)? - self.base;
            let end = sequence.start + sequence.length;
            let inside = now > point.address && now <= end;
            if inside && (announced || now == end) {
                let what = if announced { "announced" } else { "not announced" };
                let text = format!(
                    "preempted at {:#x}, the sequence, {what}, went on to {now:#x} instead of restarting",
                    point.address
                );
                return Err(Stopped::Failed(text));
            }
            if !inside {
                break;
            }
        }
        self.reached.restarts += 1;
        self.set_breakpoint(Some(self.base + point.address))
    }

    /// The descriptor's address in the thread's area (`struct rseq`, linux/rseq.h). The kernel tells where that lies,
    /// whoever registered it.
    fn announced(&self) -> Result<u64, Stopped> {
        const GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
        const CONFIGURATION_BYTES: usize = 24;
        const RSEQ_CS: u64 = 8;
        let mut configuration = [0u64; CONFIGURATION_BYTES / size_of::<u64>()];
        // SAFETY: the kernel writes at most so many bytes.
        let written = unsafe {
            libc::ptrace(
                GET_RSEQ_CONFIGURATION,
                self.child.as_raw(),
                CONFIGURATION_BYTES,
                configuration.as_mut_ptr(),
            )
        };
        let [area, ..] = configuration;
        if written <= 0 || area == 0 {
            return Err(Stopped::Failed("the thread is not registered for restartable sequences".into()));
        }
        Ok(ptrace::read(self.child, (area + RSEQ_CS) as ptrace::AddressType)? as u64)
    }

    fn set_breakpoint(&self, address: Option<u64>) -> Result<(), Stopped> {
        registers::set_breakpoint(self.child, address).map_err(Stopped::NoBreakpoints)
    }

    fn unexpected(&self, status: WaitStatus, index: usize) -> Stopped {
        let point = self.reached.points[index];
        let function = self.library.function_at(point.address).map_or("?", |function| &function.name);
        Stopped::Failed(format!(
            "{status:?} with preemptions at {:#x} in {function}, {point:x?}",
            point.address
        ))
    }
}

fn expect_stop(status: WaitStatus, signal: Signal, place: &str) -> Result<(), Stopped> {
    match status {
        WaitStatus::Stopped(_, stopped) if stopped == signal => Ok(()),
        other => Err(Stopped::Failed(format!("{place}: expected a stop by {signal}, not {other:?}"))),
    }
}

/// The place in the tracee of the library's address 0.
fn base_of(child: Pid, library: &Library) -> Result<u64, String> {
    let maps = fs::read_to_string(format!("/proc/{child}/maps")).map_err(|error| error.to_string())?;
    let path = library.path.canonicalize().map_err(|error| error.to_string())?;
    let line = maps.lines().find(|line| line.ends_with(path.to_string_lossy().as_ref()));
    let start = line.and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok());
    start.ok_or_else(|| format!("{} is not mapped in the tracee", path.display()))
}
