//! systemd, asked and told through systemctl.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// For what does not wait for a unit.
const BRIEF: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub struct Manager {
    /// For what waits for a unit.
    pub limit: Duration,
}

/// systemd's account of a unit.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub load: String,
    pub active: String,
    pub result: String,
    pub main: i32,
    pub group: String,
    pub restarts: u64,
    pub refuses: bool,
}

impl Manager {
    pub fn show(&self, unit: &str) -> Result<Shown, String> {
        const WANTED: &str =
            "LoadState,ActiveState,Result,MainPID,ControlGroup,NRestarts,RefuseManualStart,RefuseManualStop";
        let text = systemctl(&["show", "--property", WANTED, unit], BRIEF)?;
        let mut shown = Shown::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match name {
                "LoadState" => shown.load = value.to_owned(),
                "ActiveState" => shown.active = value.to_owned(),
                "Result" => shown.result = value.to_owned(),
                "MainPID" => shown.main = value.parse().unwrap_or(0),
                "ControlGroup" => shown.group = value.to_owned(),
                "NRestarts" => shown.restarts = value.parse().unwrap_or(0),
                "RefuseManualStart" | "RefuseManualStop" => shown.refuses |= value == "yes",
                _ => {}
            }
        }
        Ok(shown)
    }

    /// Reads the unit files anew.
    pub fn reload(&self) -> Result<(), String> {
        systemctl(&["daemon-reload"], self.limit).map(drop)
    }

    pub fn restart(&self, unit: &str) -> Result<(), String> {
        self.forgive(unit);
        systemctl(&["restart", unit], self.limit).map(drop)
    }

    pub fn stop(&self, unit: &str) -> Result<(), String> {
        systemctl(&["stop", unit], self.limit).map(drop)
    }

    pub fn start(&self, unit: &str) -> Result<(), String> {
        self.forgive(unit);
        systemctl(&["start", unit], self.limit).map(drop)
    }

    /// Starts are counted, and Ceph's units may have three in half an hour.
    fn forgive(&self, unit: &str) {
        let _ = systemctl(&["reset-failed", unit], BRIEF);
    }
}

fn systemctl(words: &[&str], limit: Duration) -> Result<String, String> {
    let mut command = Command::new("systemctl");
    command.args(words).env("SYSTEMD_PAGER", "").env("LC_ALL", "C");
    let said = format!("'systemctl {}'", words.join(" "));
    let ended = run(&mut command, limit).map_err(|why| format!("{said} {why}"))?;
    match ended.is_well {
        true => Ok(ended.output),
        false => Err(format!("{said} failed: {}", last_line(&ended.errors, &ended.output))),
    }
}

/// How a command ended.
pub struct Ended {
    pub is_well: bool,
    pub output: String,
    pub errors: String,
}

/// A line for the shell.
pub fn shell(line: &str, variables: &[(&str, &str)], limit: Duration) -> Result<Ended, String> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).envs(variables.iter().copied());
    run(&mut command, limit).map_err(|why| format!("'{line}' {why}"))
}

/// Runs it in a process group of its own, so that Ctrl-C is ours alone; ends the group when its time is over.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended, String> {
    // Nobody reads while it is waited for, so what it says goes to files.
    let file = || tempfile::tempfile().map_err(|error| format!("cannot be started: {error}"));
    let (mut output, mut errors) = (file()?, file()?);
    let clone =
        |file: &std::fs::File| file.try_clone().map_err(|error| format!("cannot be started: {error}"));
    command.stdin(Stdio::null()).stdout(clone(&output)?).stderr(clone(&errors)?);
    let mut child =
        command.process_group(0).spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let status = wait(&mut child, limit)?;
    let text = |file: &mut std::fs::File| {
        use std::io::Seek;
        let mut bytes = Vec::new();
        let _ = file.rewind().and_then(|()| file.take(1 << 20).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Ended { is_well: status.success(), output: text(&mut output), errors: text(&mut errors) })
}

fn wait(child: &mut Child, limit: Duration) -> Result<std::process::ExitStatus, String> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        if begin.elapsed() > limit {
            let _ = nix::sys::signal::killpg(
                nix::unistd::Pid::from_raw(child.id() as i32),
                nix::sys::signal::Signal::SIGKILL,
            );
            let _ = child.wait();
            return Err(format!("did not end within {}", humantime::format_duration(limit)));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

pub fn last_line(errors: &str, output: &str) -> String {
    let said = if errors.trim().is_empty() { output } else { errors };
    let line = said.trim().lines().next_back().unwrap_or("no output").trim();
    line.replace(char::is_control, "?")
}
