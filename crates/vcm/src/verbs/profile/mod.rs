//! `vcm profile`: which call sites allocate, hold or pin the memory of a process.
//!
//! ```text
//! process  command      a profile of a process that runs; of one that is started for it
//! traced                the started process, held at its end
//! ```

mod command;
mod process;
mod traced;

use crate::cli::profile::{Format, Profile as Arguments};
use crate::whole_file;
use std::io::Write;
use std::path::Path;
use vcm_foreign::{Shown, file};
use vcm_front::page;
use vcm_front::say::{self, FAILURE, Failure, NOT_UNDERSTOOD, OWN_FAILURE, Outcome};
use vcm_profile::{Chain, Measure, Profile, Shape};

/// No profile that was saved is longer.
const MOST_OF_PROFILE: u64 = 256 << 20;
/// Letters of a command line in a heading.
const MOST_OF_COMMAND: usize = 100;
/// Threads of a heap that are shown.
const MOST_THREADS: usize = 10;

pub fn profile(arguments: &Arguments) -> Outcome {
    if let Some([before, after]) = arguments.diff.as_deref() {
        return diff(arguments, before, after);
    }
    let files = [&arguments.output, &arguments.flamegraph];
    let is_command = !arguments.command.is_empty();
    let [output, flamegraph] = files;
    if output.is_some() && output == flamegraph {
        return Err(Failure::new(NOT_UNDERSTOOD, "-o and --flamegraph give the same file"));
    }
    let told = |failure| if is_command { of_command(failure) } else { failure };
    for path in files.into_iter().flatten().filter(|path| path.as_os_str() != "-") {
        whole_file::look(path).map_err(told)?;
    }
    if !is_command {
        let target = arguments.target.as_deref().unwrap_or_default();
        return show(arguments, &process::take(arguments, target)?).map(|()| 0);
    }
    let taken = command::take(arguments)?;
    if let Some(profile) = taken.profile {
        let shown =
            profile.map_err(|why| Failure::new(FAILURE, why)).and_then(|profile| show(arguments, &profile));
        shown.map_err(of_command)?;
    }
    Ok(taken.code)
}

/// Of a command, whose own codes are below.
fn of_command(failure: Failure) -> Failure {
    Failure::new(OWN_FAILURE, failure.message)
}

/// Writes what is to be written, then the table.
fn show(arguments: &Arguments, profile: &Profile) -> Result<(), Failure> {
    let measure = arguments.measure();
    if !profile.measures.contains(&measure) {
        let words = measure.words();
        return Err(Failure::new(FAILURE, format!("its library does not keep what was {words}")));
    }
    let title = title(profile, measure);
    let chains = vcm_profile::chains(profile, measure);
    for line in notes(profile, &chains) {
        say::line(&format!("vcm: note: {line}"));
    }
    if let Some(path) = &arguments.flamegraph {
        whole_file::write(path, vcm_profile::page(&chains, &title, &about(profile)).as_bytes())?;
    }
    if let Some(path) = &arguments.output {
        let bytes = match arguments.format {
            Format::Pprof => profile.to_pprof(measure),
            Format::Gperftools => profile.to_gperftools().into_bytes(),
        };
        if path.as_os_str() == "-" {
            // The rest of a line would be written when the process ends, without a look at whether there was room.
            let mut out = std::io::stdout().lock();
            return say::written(out.write_all(&bytes).and_then(|()| out.flush())).map(|_| ());
        }
        whole_file::write(path, &bytes)?;
    }
    say::line(&format!("vcm: {title}; {}", about(profile)));
    say::result(&(vcm_profile::table(&chains, shape(arguments)) + &threads(profile))).map(|_| ())
}

/// Lines with the threads that took what a tenant's heaps have in use.
fn threads(profile: &Profile) -> String {
    let mut text = String::new();
    for (number, bytes) in profile.threads.iter().take(MOST_THREADS) {
        text += &format!("{:>10} {:>38}  by thread {number}\n", vcm_profile::bytes(*bytes), "");
    }
    let more = profile.threads.len().saturating_sub(MOST_THREADS);
    if more > 0 {
        text += &format!("{:>10} {:>38}  by {more} more threads\n", "", "");
    }
    text
}

fn shape(arguments: &Arguments) -> Shape {
    Shape {
        width: page::terminal_width().unwrap_or(usize::MAX),
        rows: arguments.rows,
        stacks: arguments.stacks,
    }
}

fn title(profile: &Profile, measure: Measure) -> String {
    let command = profile.comments.first().map_or("a process", String::as_str).replace(char::is_control, " ");
    let mut shown: String = command.chars().take(MOST_OF_COMMAND).collect();
    if shown.len() < command.len() {
        shown.push('…');
    }
    format!("{shown}: {}", measure.words())
}

/// How long, and how exact.
fn about(profile: &Profile) -> String {
    let mean = format!("a sample in {}", vcm_profile::bytes(profile.interval as f64));
    if profile.duration.is_zero() {
        return format!("since its profile began, {mean}");
    }
    let seconds = profile.duration.as_secs_f64();
    let time = if seconds < 1.0 { format!("{:.0} ms", seconds * 1000.0) } else { format!("{seconds:.1} s") };
    format!("of memory allocated within {time}, {mean}")
}

/// The facts that a reader of the figures should know.
fn notes(profile: &Profile, chains: &[Chain]) -> Vec<String> {
    let mut notes = Vec::new();
    if chains.is_empty() {
        notes.push(
            "no samples: too little was allocated; profile longer (--for), or with more samples \
             (--interval 16K)"
                .into(),
        );
    }
    if chains.first().is_some_and(|chain| chain.calls.is_empty()) {
        notes.push(
            "no stacks are recorded; link a static program with -Wl,--eh-frame-hdr to have them".into(),
        );
    }
    if let Some(what) = &profile.torn {
        notes.push(format!("it changed during the reading; figures are off by: {what}"));
    }
    notes.extend(profile.about_room());
    notes
}

fn diff(arguments: &Arguments, before: &Path, after: &Path) -> Outcome {
    let (old, new) = (saved(before)?, saved(after)?);
    let measure = arguments.measure();
    for (profile, path) in [(&old, before), (&new, after)] {
        if !profile.measures.contains(&measure) {
            let words = measure.words();
            return Err(Failure::new(
                FAILURE,
                format!("{}: has no figures of what was {words}", path.shown()),
            ));
        }
    }
    let chains = vcm_profile::growth(&old, &new, measure);
    let title = format!("{}, more than in {}: {}", after.shown(), before.shown(), measure.words());
    if let Some(path) = &arguments.flamegraph {
        whole_file::write(path, vcm_profile::page(&chains, &title, "what shrank is not drawn").as_bytes())?;
    }
    say::line(&format!("vcm: {title}"));
    say::result(&vcm_profile::table(&chains, shape(arguments)))
}

fn saved(path: &Path) -> Result<Profile, Failure> {
    let failure = |error: std::io::Error| Failure::new(FAILURE, format!("{}: {error}", path.shown()));
    Profile::from_pprof(&file::read_up_to(path, MOST_OF_PROFILE).map_err(failure)?).map_err(failure)
}
