//! One run of a command on an arm: to its end, or as a server under a load program.
//!
//! Promises that nothing it started is left when it returns, that a trial which did not run on its arm, failed, hung or
//! forked away is an error in words, and that `stop` ends it within a tenth of a second.

mod course;

use crate::arm::Arm;
use crate::spoken::{self, Pattern, Reading, Regex};
use crate::stamp::Stamp;
use crate::tree::{Memory, Tree};
use course::Course;
pub use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fmt;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The job that is run in every trial.
#[derive(Default)]
pub struct Job {
    pub command: Vec<OsString>,
    /// Its standard input; the null device if this is empty.
    pub input: Vec<u8>,
    /// Variables besides those of the arm.
    pub environment: Vec<(String, String)>,
    /// The working directory, instead of this process's.
    pub folder: Option<PathBuf>,
    /// User and group, instead of this process's.
    pub user: Option<(u32, u32)>,
    /// No memory is read while it runs: a reader holds up page faults.
    pub is_quiet: bool,
    /// Its standard output goes to the null device.
    pub discards_output: bool,
    /// Makes the command a server.
    pub service: Option<Service>,
    /// For everything that a trial waits for: the command, or readiness, or the load.
    pub limit: Duration,
    /// The patterns of the last output besides the forms that are understood.
    pub patterns: Vec<Pattern>,
}

pub struct Service {
    pub ready: Ready,
    /// A line for the shell.
    pub load: String,
    /// The load is over when it has printed this, not at its end: its connections stay open while the server idles.
    pub loaded: Option<Regex>,
    /// Between the end of the load and the last look at the memory.
    pub idle: Duration,
    pub end: End,
}

/// How a server is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    By(Signal),
    /// Its standard input ends.
    Input,
}

/// When a server can take its load.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Something listens at this port of the loopback device.
    Port(u16),
    /// It has printed this.
    Says(Regex),
}

pub struct Trial {
    pub readings: Vec<Reading>,
    pub stamp: Stamp,
    pub notes: Vec<String>,
    /// Seconds since the start, and the memory then.
    pub course: Vec<(f64, Memory)>,
    /// Of a server, when it had idled.
    pub idle: Option<Memory>,
    /// The output: of a server behind that of its load.
    pub said: String,
}

impl Trial {
    /// The value of a reading; 0 if there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.readings.iter().find(|reading| reading.name == name).map_or(0.0, |reading| reading.value)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Failed {
    Stopped,
    Because(String),
    /// It was over before its processes could be looked at.
    Unseen(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failed::Stopped => formatter.write_str("stopped by a signal"),
            Failed::Because(reason) | Failed::Unseen(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for Failed {}

impl From<String> for Failed {
    fn from(reason: String) -> Self {
        Failed::Because(reason)
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Failed::Because(format!("{error:#}"))
    }
}

/// How long a server may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a run is repeated that ended before it could be looked at: on a busy machine the first look may be late.
const TRIES: usize = 5;

pub fn run(job: &Job, arm: &Arm, stop: &dyn Fn() -> bool) -> Result<Trial, Failed> {
    let is_unseen = |done: &Result<Trial, Failed>| matches!(done, Err(Failed::Unseen(_)));
    let mut done = once(job, arm, stop);
    for _ in 1..TRIES {
        if !is_unseen(&done) {
            break;
        }
        done = once(job, arm, stop);
    }
    match done {
        Err(Failed::Unseen(reason)) => Err(Failed::Because(reason)),
        done => done,
    }
}

fn once(job: &Job, arm: &Arm, stop: &dyn Fn() -> bool) -> Result<Trial, Failed> {
    let mut tree = Tree::default();
    let done = match &job.service {
        None => command(job, arm, &mut tree, stop),
        Some(service) => server(job, service, arm, &mut tree, stop),
    };
    let left = tree.end();
    if !left.is_empty() && done.is_ok() {
        return Err(Failed::Because(format!("processes {left:?} do not end")));
    }
    done
}

fn command(job: &Job, arm: &Arm, tree: &mut Tree, stop: &dyn Fn() -> bool) -> Result<Trial, Failed> {
    let mut course = Course::start(job, arm, tree, stop)?;
    let ended = loop {
        if let Some(ended) = course.step(tree)? {
            break ended;
        }
    };
    course.nothing_is_left(tree)?;
    ended.succeeded("it")?;
    let output = course.everything_said();
    let mut readings = said(job, &output)?;
    readings.extend(course.account(ended.wall, &ended.used));
    course.finished(readings, output)
}

fn server(
    job: &Job,
    service: &Service,
    arm: &Arm,
    tree: &mut Tree,
    stop: &dyn Fn() -> bool,
) -> Result<Trial, Failed> {
    if let Ready::Port(port) = service.ready
        && listens(port)
    {
        return Err(Failed::Because(format!(
            "something listens at port {port} already, before the server was started"
        )));
    }
    let mut course = Course::start(job, arm, tree, stop)?;
    await_ready(&mut course, &service.ready, tree)?;
    let mut shell = crate::allocators::without_settings("/bin/sh".as_ref());
    shell.args(["-c", &service.load]);
    let (load, output) = under_load(&mut course, &mut shell, service.loaded.as_ref(), tree)?;
    course.is_idle(service.idle, tree)?;
    let used = course.end(service.end, PATIENCE, tree)?;
    let mut readings = said(job, &output)?;
    readings.extend(course.account(load, &used));
    let output = output + &course.everything_said();
    course.finished(readings, output)
}

fn await_ready(course: &mut Course, ready: &Ready, tree: &mut Tree) -> Result<(), Failed> {
    loop {
        if let Some(ended) = course.step(tree)? {
            course.nothing_is_left(tree)?;
            ended.succeeded("it")?;
            return Err(Failed::Because(format!("it ended before it was ready{}", ended.last_words())));
        }
        let is_ready = match ready {
            Ready::Port(port) => listens(*port),
            Ready::Says(regex) => regex.is_match(&course.everything_said()),
        };
        if is_ready {
            return Ok(());
        }
    }
}

/// Runs the load program until it ends or has printed `loaded`: how long it took, and what it printed.
fn under_load(
    course: &mut Course,
    shell: &mut Command,
    loaded: Option<&Regex>,
    tree: &mut Tree,
) -> Result<(Duration, String), Failed> {
    course.load_starts(shell, tree)?;
    let begin = Instant::now();
    loop {
        if let Some(ended) = course.step(tree)? {
            return Err(Failed::Because(format!("the server ended under load: {}", ended.how())));
        }
        if let Some(ended) = course.load_ended(tree) {
            ended.succeeded("the load program")?;
            return Ok((begin.elapsed(), ended.output));
        }
        if let Some(output) =
            course.load_said().filter(|said| loaded.is_some_and(|loaded| loaded.is_match(said)))
        {
            return Ok((begin.elapsed(), output));
        }
    }
}

/// The readings of the output. A pattern that finds nothing is an error: it is what was asked for.
fn said(job: &Job, output: &str) -> Result<Vec<Reading>, Failed> {
    let mut readings = spoken::understood(output);
    for pattern in &job.patterns {
        let nothing = || format!("its output has no number for '{}'", pattern.regex.as_str());
        readings.push(pattern.read(output).ok_or_else(nothing)?);
    }
    Ok(readings)
}

fn listens(port: u16) -> bool {
    TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_millis(200)).is_ok()
}
