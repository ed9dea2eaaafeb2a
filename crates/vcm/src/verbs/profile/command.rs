//! A profile of a program that is started for it: from its start to its end, or for a time.

use super::traced::{Event, Traced};
use crate::child::Program;
use crate::cli::profile::Profile as Arguments;
use crate::signals::Held;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use vcm_front::say::{self, Failure, OWN_FAILURE};
use vcm_inspect::process::Process;
use vcm_inspect::window::Seen;
use vcm_inspect::window::orders::{self, Order};
use vcm_profile::{Measure, Profile};

const LONGEST_WAIT: Duration = Duration::from_secs(3600);

pub struct Taken {
    /// The command's own.
    pub code: u8,
    /// Or why there is none; nothing where no command was started.
    pub profile: Option<Result<Profile, String>>,
}

pub fn take(arguments: &Arguments) -> Result<Taken, Failure> {
    let failure =
        |what: &str, error: &dyn std::fmt::Display| Failure::new(OWN_FAILURE, format!("{what}: {error}"));
    let held = Held::hold(&[Signal::SIGCHLD]).map_err(|error| failure("signals", &error))?;
    let mut traced = Traced::start(run(arguments), held.before())
        .map_err(|error| failure("the command cannot be traced", &error))?;
    let begun = Instant::now();
    let mut watched = Watched { measure: arguments.measure(), begun, profile: None };
    let mut until = arguments.length.map(|length| begun + length);
    let mut program = None;
    let status = loop {
        match traced.next() {
            Some(Event::AtEnd) => {
                program = traced.program().and_then(Program::of);
                watched.read(&traced, false);
                traced.let_go();
            }
            Some(Event::Left) => watched.read(&traced, true),
            Some(Event::Ended(status)) => break status,
            None => {
                if until.is_some_and(|until| until <= Instant::now()) {
                    until = None;
                    traced.leave();
                }
                wait(&held, until, &traced);
            }
        }
    };
    let code = end_code(ExitStatus::from_raw(status));
    program.iter().for_each(|program| program.tell_what_runs_on("in the profile"));
    if traced.program().is_none() {
        // `vcm run` has said why.
        return Ok(Taken { code, profile: None });
    }
    let unseen = || Err("the command ended before its profile could be read".into());
    Ok(Taken { code, profile: Some(watched.profile.unwrap_or_else(unseen)) })
}

/// Until something happens to our children, or the time has come.
fn wait(held: &Held, until: Option<Instant>, traced: &Traced) {
    let left = until.map_or(LONGEST_WAIT, |until| until.saturating_duration_since(Instant::now()));
    match held.comes_within(left) {
        Some(came) if came.number == libc::SIGCHLD => {}
        // A terminal that goes away tells only who leads its session; a stopped program goes on to hear of it.
        Some(came) if came.number == libc::SIGHUP => {
            traced.signal(libc::SIGHUP);
            traced.signal(libc::SIGCONT);
        }
        // A signal of the terminal has reached the command as well, and its profile is taken at its end.
        Some(came) if came.by_kernel => {}
        Some(came) => traced.signal(came.number),
        None => {}
    }
}

/// The words that `vcm run` is given.
fn run(arguments: &Arguments) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["run", "--option", "profile=on"].map(OsString::from).to_vec();
    if let Some(interval) = arguments.interval {
        words.extend(["--option".into(), format!("sample_interval={interval}").into()]);
    }
    words.push("--".into());
    words.extend(arguments.command.iter().cloned());
    words
}

/// As a shell has it.
fn end_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => (128 + signal) as u8,
        (None, None) => OWN_FAILURE,
    }
}

struct Watched {
    measure: Measure,
    begun: Instant,
    profile: Option<Result<Profile, String>>,
}

impl Watched {
    /// Reads the profile, with its names, while the program is there; switches it off in one that goes on.
    fn read(&mut self, traced: &Traced, goes_on: bool) {
        let Some(id) = traced.program().filter(|_| self.profile.is_none()) else { return };
        let process = Process::new(id);
        let seen = match Seen::open(process) {
            Ok(seen) => seen,
            Err(why) => {
                self.profile = Some(Err(format!("{id} {why}")));
                return;
            }
        };
        if goes_on && let Err(refused) = orders::give(&seen, &Order::Set("profile=off")) {
            say::line(&format!("vcm: note: {id} {}: its profile stays on", refused));
        }
        let read = if self.measure == Measure::Pinned { vcm_profile::read_pinned } else { vcm_profile::read };
        let profile = read(&seen).map(|mut profile| {
            profile.duration = self.begun.elapsed();
            profile.name(&seen.process);
            profile
        });
        self.profile = Some(profile.map_err(|why| format!("{id} {why}")));
    }
}
