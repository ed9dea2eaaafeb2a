//! `vcm record`: run a command with the interposer before its allocator, and write a trace of what it asks for.
//!
//! ```text
//! session    the rounds: what was recorded, into the file
//! output     the file, until it is kept
//! before     what keeps a command from being recorded
//! running    a process that runs already
//! ```

mod before;
mod output;
mod running;
mod session;

use crate::child::{self, Child, Event, Program};
use crate::cli::record::Record;
use crate::{html, trace_file};
use output::Output;
use session::Session;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant, SystemTime};
use vcm_foreign::Shown;
use vcm_front::library;
use vcm_front::say::{Failure, NOT_EXECUTABLE, NOT_FOUND, OWN_FAILURE, Outcome, line};
use vcm_inspect::command::{self, Missing};
use vcm_inspect::root::Root;
use vcm_record::{Memory, VARIABLE};
use vcm_trace::{Header, summarize};

const BETWEEN_ROUNDS: Duration = Duration::from_millis(10);

pub fn record(arguments: &Record) -> Outcome {
    if arguments.pid.is_some() { record_running(arguments) } else { record_command(arguments) }
}

fn record_running(arguments: &Record) -> Outcome {
    let process = running::find(arguments)?;
    let path = arguments.output.clone().unwrap_or_else(|| running::output(&process));
    let command = process.command_line().unwrap_or_default();
    let command = command.iter().map(|word| word.shown().printed()).collect();
    let header = Header { command, ..header(arguments) };
    let create = || {
        let made = Output::create(path.clone());
        let (output, file) =
            made.map_err(|error| Failure::new(OWN_FAILURE, format!("{}: {error}", path.shown())))?;
        if let Some(page) = &arguments.html {
            can_be_reported(page, &output).map_err(|failure| Failure::new(OWN_FAILURE, failure.message))?;
        }
        Ok((output, file))
    };
    let recorded = running::record(arguments, process, header, create)?;
    let kept = close(recorded.session, recorded.output);
    let good = kept && arguments.html.as_ref().is_none_or(|page| report(page, &path));
    Ok(if good { recorded.code } else { OWN_FAILURE })
}

fn record_command(arguments: &Record) -> Outcome {
    let [name, rest @ ..] = arguments.command.as_slice() else {
        return Err(Failure::new(OWN_FAILURE, "no command given"));
    };
    let library = library::interposer(arguments.library.as_deref())?;
    let search_path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let shown = name.shown().printed();
    let path = command::resolve(name, &search_path).map_err(|why| match why {
        Missing::NotFound => Failure::new(NOT_FOUND, format!("{shown}: no such command")),
        Missing::NotExecutable(error) => {
            Failure::new(NOT_EXECUTABLE, format!("{shown}: cannot be executed: {error}"))
        }
    })?;
    let target = command::follow(&Root::real(), path, rest, &search_path);
    if arguments.program.is_none()
        && let Some(why) = before::hindrance(&target)
    {
        return Err(Failure::new(OWN_FAILURE, format!("{shown} is not started: {why}")));
    }
    let failed = |what: &str, error: std::io::Error| Failure::new(OWN_FAILURE, format!("{what}: {error}"));
    let memory = Memory::new(arguments.sample, arguments.program.as_deref())
        .map_err(|error| failed("memory for the events", error))?;
    let output = output(arguments);
    let (output, file) =
        Output::create(output.clone()).map_err(|error| failed(&output.shown().to_string(), error))?;
    if let Some(path) = &arguments.html {
        can_be_reported(path, &output).map_err(|failure| Failure::new(OWN_FAILURE, failure.message))?;
    }
    let mut command = Command::new(&target.path);
    command.arg0(name).args(rest).env("LD_PRELOAD", preload(&library, &arguments.preload));
    command.env(VARIABLE, memory.variable().map_err(|error| failed("memory for the events", error))?);
    if arguments.program.is_none() {
        let claim = memory.claim();
        // SAFETY: between fork and exec it asks for the process's number and stores that.
        unsafe {
            command.pre_exec(move || {
                claim();
                Ok(())
            })
        };
    }
    memory.record(arguments.after.is_zero());
    let child = Child::start(command).map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
        Failure::new(code, format!("{}: cannot be executed: {error}", target.path.shown()))
    })?;
    let program = Program::about_to_start(&target.path);
    supervise(child, program, Session::new(memory, header(arguments), file), arguments, output)
}

fn output(arguments: &Record) -> PathBuf {
    arguments.output.clone().unwrap_or_else(|| {
        let name =
            arguments.program.as_ref().map(OsString::from).or_else(|| arguments.command.first().cloned());
        let mut name = Path::new(&name.unwrap_or_default()).file_name().unwrap_or_default().to_owned();
        name.push(".vct");
        name.into()
    })
}

fn header(arguments: &Record) -> Header {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Header {
        command: arguments.command.iter().map(|word| word.shown().printed()).collect(),
        machine: Some(format!("{} {}", env::consts::ARCH, kernel.trim())),
        recorded_at: Some(humantime::format_rfc3339_seconds(SystemTime::now()).to_string()),
        writer: Some(format!("vcm {}", env!("VCMALLOC_VERSION"))),
        sampled_one_in: Some(arguments.sample),
        ..Header::default()
    }
}

/// The interposer first: it is found before every allocator.
fn preload(library: &Path, allocators: &[OsString]) -> OsString {
    let mut list = library.as_os_str().to_owned();
    for entry in allocators.iter().cloned().chain(env::var_os("LD_PRELOAD")) {
        if !entry.is_empty() {
            list.push(":");
            list.push(entry);
        }
    }
    list
}

/// Follows the command to its end; the recording may end before it.
fn supervise(
    mut child: Child,
    mut program: Option<Program>,
    session: Session,
    arguments: &Record,
    output: Output,
) -> Outcome {
    let from = Instant::now() + arguments.after;
    let until = arguments.length.map(|length| from + length);
    let mut session = Some((session, output));
    let mut good = true;
    loop {
        let pause = session.is_some().then_some(BETWEEN_ROUNDS);
        let event = child
            .wait(pause)
            .map_err(|error| Failure::new(OWN_FAILURE, format!("waiting for the command: {error}")))?;
        let now = Instant::now();
        if let Some((open, _)) = &mut session {
            // It may have executed another program.
            program = open.memory.process().and_then(|id| Program::of(id as i32)).or(program);
            // A process that was recorded longer than that has not begun earlier.
            if !arguments.after.is_zero() && now >= from && until.is_none_or(|until| now < until) {
                open.memory.record(true);
            }
            let goes_on = open.round(false) && until.is_none_or(|until| now < until);
            if !goes_on || matches!(event, Event::Ended(_)) {
                let kept = session.take().is_none_or(|(session, output)| close(session, output));
                good =
                    kept && arguments.html.as_ref().is_none_or(|path| report(path, &self::output(arguments)));
            }
        }
        if let Event::Ended(status) = event {
            program.iter().for_each(|program| program.tell_what_runs_on("in the trace"));
            return Ok(ended(status, good));
        }
    }
}

fn ended(status: ExitStatus, good: bool) -> u8 {
    if good { child::end_like(status) } else { OWN_FAILURE }
}

/// Ends the recording; false where there is nothing, or not all.
fn close(session: Session, output: Output) -> bool {
    let began = session.memory.process().is_some();
    let ended = session.end();
    let shown = output.shown();
    let found = began && ended.seen != vcm_record::Seen::default();
    let kept = if found { output.keep() } else { Ok(()) };
    if let Some(error) = &ended.failure {
        line(&format!(
            "vcm: {shown}: {error}; recording has stopped; the file has the events before that ('vcm trace info' \
             shows it)"
        ));
        ended.report(&shown);
        return false;
    }
    if let Err(error) = kept {
        line(&format!("vcm: {shown}: {error}; the recording is lost"));
        return false;
    }
    if !found {
        line(&format!("vcm: nothing was recorded: {}", if began { QUIET } else { NOT_LOADED }));
        return false;
    }
    ended.report(&shown);
    !ended.left
}

fn can_be_reported(path: &Path, output: &Output) -> Result<(), Failure> {
    let trace = Path::new(&output.shown()).to_owned();
    if !output.is_file() {
        return Err(Failure::new(
            OWN_FAILURE,
            format!("{}: it cannot be read again for --html", trace.shown()),
        ));
    }
    html::look(Some(path), Some(&trace))
}

/// Reads what was recorded, and writes its page; false where it cannot.
fn report(path: &Path, trace: &Path) -> bool {
    let written = || {
        let mut reader = trace_file::open(trace)?;
        let summary = summarize(&mut reader).map_err(|error| trace_file::wrong(trace, &error))?;
        html::write(Some(path), || html::traced::page(trace, reader.header(), &summary))
    };
    written().map_err(|failure| line(&format!("vcm: {}", failure.message))).is_ok()
}

const NOT_LOADED: &str = "the interposer was not loaded by the process. A wrapper may clear the environment, or \
 start the program as another process ('--program NAME' records the first of that name), or the process may not \
 read vcm's /proc files";
const QUIET: &str = "the process allocated nothing during the recording, or its malloc is built in";
