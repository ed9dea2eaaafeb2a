//! Running a program that cannot hang the suite: its own process group, files for its output, and a time
//! limit.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a program ended.
pub struct Finished {
    pub status: ExitStatus,
    pub output: Vec<u8>,
    pub complaints: String,
}

impl Finished {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// `Ok` when the program exited with 0, else what it said and how it ended.
    pub fn succeeded(&self) -> Result<(), String> {
        if self.status.success() {
            return Ok(());
        }
        let end = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("killed by signal {signal} ({})", signal_name(signal)),
            (None, None) => "ended strangely".to_string(),
        };
        Err(format!("{end}\n{}{}", tail(&self.complaints), tail(&self.text())))
    }
}

/// Runs `command` to its end, or kills its process group after `limit` and says where it hung.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished, String> {
    let shown = format!("{command:?}");
    run_quietly(command, limit).map_err(|error| format!("{error}\n  in {shown}"))
}

fn run_quietly(command: &mut Command, limit: Duration) -> Result<Finished, String> {
    let mut started = Started::new(command)?;
    let Some(status) = wait(&mut started.child, limit) else {
        let stacks = stacks_of(started.child.id());
        let (_, complaints) = started.end()?;
        let said = tail(&complaints);
        return Err(format!("still running after {} s, killed\n{said}{stacks}", limit.as_secs()));
    };
    let (output, complaints) = started.end()?;
    Ok(Finished { status, output, complaints })
}

/// A program with files for its output. Not pipes: a grandchild that outlives the program would keep a pipe
/// open, and us waiting.
pub struct Started {
    pub child: Child,
    output: File,
    complaints: File,
}

impl Started {
    pub fn new(command: &mut Command) -> Result<Started, String> {
        let temporary = || tempfile::tempfile().map_err(|error| format!("no temporary file: {error}"));
        let (output, complaints) = (temporary()?, temporary()?);
        let clone =
            |file: &File| file.try_clone().map_err(|error| format!("cannot duplicate a file: {error}"));
        command.stdin(Stdio::null()).stdout(clone(&output)?).stderr(clone(&complaints)?);
        let child = apart(command).spawn().map_err(|error| format!("did not start: {error}"))?;
        Ok(Started { child, output, complaints })
    }

    /// Ends what is left of it and of what it has started, and gives what they said: output, complaints.
    pub fn end(mut self) -> Result<(Vec<u8>, String), String> {
        end_group(&self.child);
        let _ = self.child.wait();
        let mut bytes = Vec::new();
        let read = self.output.rewind().and_then(|()| self.output.read_to_end(&mut bytes));
        read.map_err(|error| error.to_string())?;
        Ok((bytes, contents(&mut self.complaints)))
    }
}

/// A process group of its own, so that all of it can be ended. It would survive an interrupted suite and go
/// on loading the machine; so the program ends with the thread that starts it.
pub fn apart(command: &mut Command) -> &mut Command {
    command.process_group(0);
    // SAFETY: between fork and exec only a system call is made.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    }
}

/// The status of `child` if it ends within `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if start.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Kills what the program left behind.
pub fn end_group(child: &Child) {
    // SAFETY: the group was made for this child and holds only its descendants.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
}

/// Every thread's stack, if gdb is there: a hang without them cannot be explained afterwards.
fn stacks_of(pid: u32) -> String {
    let script = ["-p", &pid.to_string(), "-batch", "-nx", "-ex", "thread apply all bt 12"];
    let output = Command::new("timeout").args(["20", "gdb"]).args(script).stdin(Stdio::null()).output();
    output.map(|output| tail(&String::from_utf8_lossy(&output.stdout))).unwrap_or_default()
}

fn contents(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last lines of `text`, where programs say what went wrong.
pub fn tail(text: &str) -> String {
    const LINES: usize = 60;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].iter().map(|line| format!("{line}\n")).collect()
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => "abort",
        libc::SIGSEGV => "segmentation fault",
        libc::SIGBUS => "bus error",
        libc::SIGILL => "illegal instruction",
        libc::SIGALRM => "its own alarm: it hung",
        libc::SIGTRAP => "trap",
        libc::SIGKILL => "kill",
        _ => "see man 7 signal",
    }
}
