//! A profile of a process that runs: switched on, waited for, read, switched off.

use crate::cli::profile::Profile as Arguments;
use crate::signals::Held;
use std::time::{Duration, Instant};
use vcm_front::say::{self, FAILURE, Failure};
use vcm_inspect::window::{self, Seen};
use vcm_profile::{Measure, Profile, Switched};

const LENGTH: Duration = Duration::from_secs(30);
/// How often to see whether it is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why the waiting ended.
#[derive(PartialEq)]
enum End {
    Time,
    /// Ctrl-C: the profile so far is wanted.
    Interrupt,
    Signal(i32),
    Gone,
}

pub fn take(arguments: &Arguments, target: &str) -> Result<Profile, Failure> {
    let process =
        window::find(target).map_err(|line| Failure::new(FAILURE, say::for_verb(&line, "profile")))?;
    let id = process.id;
    let failure = |why: String| Failure::new(FAILURE, format!("{id} {}", say::for_verb(&why, "profile")));
    let seen = Seen::open(process).map_err(failure)?;
    if arguments.measure() == Measure::Peak && !seen.samples().map_err(failure)?.keeps_peak {
        return Err(failure("runs a build of vcmalloc that does not record live memory at the peak".into()));
    }
    if let Some(name) = &arguments.heap {
        seen.heaps_called(name).map_err(failure)?;
    }
    let held = Held::hold(&[]).map_err(|error| failure(format!("is not read: {error}")))?;
    let switched = Switched::on(&seen, arguments.interval).map_err(failure)?;
    let mut profile = watch(arguments, &seen, switched, &held).map_err(|why| match why {
        Stopped::Line(line) => failure(line),
        Stopped::Signal(number) => {
            Failure::new(128 + number as u8, format!("ended by signal {number}; {id} is as it was before"))
        }
    })?;
    // From here on nothing is switched on, and names may take their time: signals end us again.
    drop(held);
    profile.name(&seen.process);
    Ok(profile)
}

enum Stopped {
    Line(String),
    Signal(i32),
}

fn watch(arguments: &Arguments, seen: &Seen, switched: Switched, held: &Held) -> Result<Profile, Stopped> {
    let allocated = arguments.measure() == Measure::Allocated;
    let was_on = switched.was_on();
    let at_once = was_on && !allocated;
    let length = arguments.length.unwrap_or(if at_once { Duration::ZERO } else { LENGTH });
    let before = (was_on && allocated).then(|| vcm_profile::read(seen)).transpose().map_err(Stopped::Line)?;
    let begun = Instant::now();
    say_begin(seen, length);
    let end = wait(seen, length, held);
    let is_on = seen.is_profiling();
    // Before the tables are read: then they stand still.
    let off = switched.off();
    match end {
        End::Signal(number) => return Err(Stopped::Signal(number)),
        End::Gone => {
            return Err(Stopped::Line("ended, or became another program, before the time was over".into()));
        }
        End::Time | End::Interrupt => {}
    }
    if let Err(line) = off {
        say::line(&format!("vcm: note: {} {line}", seen.process.id));
    }
    if is_on != Some(true) {
        let line = if was_on {
            "no longer takes a profile: it was switched off"
        } else {
            "has not started a profile: it is idle, or the profile was switched off"
        };
        return Err(Stopped::Line(line.into()));
    }
    let read = match &arguments.heap {
        Some(name) => vcm_profile::read_heap(seen, name),
        None if arguments.measure() == Measure::Pinned => vcm_profile::read_pinned(seen),
        None => vcm_profile::read(seen),
    };
    let mut profile = read.map_err(Stopped::Line)?;
    if let Some(before) = before {
        profile.allocated_since(&before);
    }
    if !was_on || allocated {
        profile.duration = begun.elapsed();
    }
    Ok(profile)
}

fn say_begin(seen: &Seen, length: Duration) {
    if length >= Duration::from_secs(1) {
        let (id, name) = (seen.process.id, say::typed([seen.name.printed()]));
        let time = humantime::format_duration(length);
        say::line(&format!(
            "vcm: profiling {id} {name} for {time}; Ctrl-C ends it early and shows the result"
        ));
    }
}

fn wait(seen: &Seen, length: Duration, held: &Held) -> End {
    let until = Instant::now() + length;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match held.comes_within(left.min(LOOK_EVERY)) {
            Some(came) if came.number == libc::SIGINT => return End::Interrupt,
            Some(came) => return End::Signal(came.number),
            None if seen.is_profiling().is_none() => return End::Gone,
            None if left.is_zero() => return End::Time,
            None => {}
        }
    }
}
