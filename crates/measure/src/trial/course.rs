//! The course of one trial: its processes, what is looked at while they run, and how they end.

use super::{End, Failed, Job, Trial};
use crate::arm::Arm;
use crate::child::{Used, unnamed_file};
use crate::spoken::{Better, Reading};
use crate::statistics::median;
use crate::tree::{self, Memory, Tree};
use crate::witness::Witness;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs::File;
use std::io::{PipeWriter, Seek, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use vcm_inspect::process::Process;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// While the malloc of some program is not known: its processes may be short.
const LOOK_SOON: Duration = Duration::from_millis(8);
/// A process that ends with the command may take so long for it.
const GRACE: Duration = Duration::from_secs(1);
/// Of an output; results are at its end, but nobody prints more.
const MOST_OUTPUT: u64 = 256 << 20;

pub struct Course<'a> {
    arm: &'a Arm,
    stop: &'a dyn Fn() -> bool,
    limit: Duration,
    is_service: bool,
    is_quiet: bool,
    main: i32,
    /// Kept open until the server is asked to end.
    input: Option<PipeWriter>,
    started: Instant,
    /// Of what is waited for now.
    since: Instant,
    pause: Duration,
    output: File,
    errors: File,
    load: Option<Load>,
    witness: Witness,
    /// By seconds since the start.
    samples: Vec<(f64, Memory)>,
    under_load: Vec<Memory>,
    idle: Option<Memory>,
}

struct Load {
    id: i32,
    output: File,
    errors: File,
}

pub struct Ended {
    pub status: ExitStatus,
    pub used: Used,
    pub wall: Duration,
    pub output: String,
    errors: String,
}

impl<'a> Course<'a> {
    pub fn start(
        job: &Job,
        arm: &'a Arm,
        tree: &mut Tree,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self, Failed> {
        let (output, errors) = (unnamed_file()?, unnamed_file()?);
        let Some((program, arguments)) = job.command.split_first() else {
            return Err(Failed::Because("no command given".to_owned()));
        };
        let mut command = arm.command(program);
        command.args(arguments).envs(job.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &job.folder {
            command.current_dir(folder);
        }
        if let Some((user, group)) = job.user {
            command.uid(user).gid(group);
        }
        let input = given(job, &mut command).map_err(anyhow::Error::from)?;
        command
            .stdout(if job.discards_output { Stdio::null() } else { shared(&output)? })
            .stderr(shared(&errors)?);
        let started = Instant::now();
        let main = tree
            .start(&mut command)
            .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        Ok(Course {
            arm,
            stop,
            limit: job.limit,
            is_service: job.service.is_some(),
            is_quiet: job.is_quiet,
            main,
            input,
            started,
            since: started,
            pause: Duration::from_millis(1),
            output,
            errors,
            load: None,
            witness: Witness::default(),
            samples: Vec::new(),
            under_load: Vec::new(),
            idle: None,
        })
    }

    /// Waits a little, looks at everything, and comes back with the end of the command if it has ended.
    pub fn step(&mut self, tree: &mut Tree) -> Result<Option<Ended>, Failed> {
        if (self.stop)() {
            return Err(Failed::Stopped);
        }
        tree.wait(self.load.as_ref().map_or(self.main, |load| load.id), self.pause);
        let wall = self.started.elapsed();
        let most = if self.witness.is_settled() { LOOK_EVERY } else { LOOK_SOON };
        self.pause = (self.pause * 2).min(most);
        if let Some((status, used)) = tree.ended(self.main) {
            return Ok(Some(self.ended(status, used, wall)));
        }
        if self.since.elapsed() > self.limit {
            let what = match &self.load {
                Some(_) => "the load program did not end",
                None if self.is_service => "it was not ready",
                None => "it did not end",
            };
            return Err(Failed::Because(format!("{what} within {:?}", self.limit)));
        }
        self.look(tree);
        Ok(None)
    }

    fn look(&mut self, tree: &mut Tree) {
        let processes = tree.living(self.load.as_ref().map(|load| load.id));
        self.witness.look(self.arm, &processes);
        if self.is_quiet {
            return;
        }
        let memory = tree::memory(&processes);
        self.samples.push((self.started.elapsed().as_secs_f64(), memory));
        if self.load.is_some() {
            self.under_load.push(memory);
        }
    }

    fn ended(&self, status: ExitStatus, used: Used, wall: Duration) -> Ended {
        Ended { status, used, wall, output: text(&self.output), errors: text(&self.errors) }
    }

    /// stdout, then stderr.
    pub fn everything_said(&self) -> String {
        text(&self.output) + &text(&self.errors)
    }

    /// An error if the command ended and others of its processes go on.
    pub fn nothing_is_left(&self, tree: &mut Tree) -> Result<(), Failed> {
        let begin = Instant::now();
        loop {
            let left = tree.living(None);
            let Some(first) = left.first() else { return Ok(()) };
            if begin.elapsed() > GRACE {
                let name = Process::new(*first).name().unwrap_or_default();
                return Err(Failed::Because(format!(
                    "it ended and left {name} running (pid {first}): it forks away. Use its option to stay in the foreground"
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn load_starts(&mut self, shell: &mut Command, tree: &mut Tree) -> Result<(), Failed> {
        let (output, errors) = (unnamed_file()?, unnamed_file()?);
        shell.stdin(Stdio::null()).stdout(shared(&output)?).stderr(shared(&errors)?);
        let id = tree.start(shell).map_err(|error| format!("the load program cannot be started: {error}"))?;
        self.load = Some(Load { id, output, errors });
        self.since = Instant::now();
        Ok(())
    }

    pub fn load_ended(&mut self, tree: &mut Tree) -> Option<Ended> {
        let load = self.load.as_ref()?;
        let (status, used) = tree.ended(load.id)?;
        let (wall, errors) = (self.since.elapsed(), text(&load.errors));
        let output = text(&load.output) + &errors;
        // A load shorter than the time between looks.
        self.look(tree);
        self.load = None;
        Some(Ended { status, used, wall, output, errors })
    }

    /// The load program's output so far.
    pub fn load_said(&self) -> Option<String> {
        self.load.as_ref().map(|load| text(&load.output))
    }

    /// Looks once more after the server had nothing to do.
    pub fn is_idle(&mut self, time: Duration, tree: &mut Tree) -> Result<(), Failed> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            // The limit is for what is waited for.
            self.since = Instant::now();
            self.pause = LOOK_EVERY.min(time.saturating_sub(begin.elapsed()));
            if let Some(ended) = self.step(tree)? {
                return Err(Failed::Because(format!("the server ended after the load: {}", ended.how())));
            }
        }
        self.idle = Some(tree::memory(&tree.living(self.load.as_ref().map(|load| load.id))));
        Ok(())
    }

    /// Asks the server to end, and tells what it used.
    pub fn end(&mut self, by: End, patience: Duration, tree: &mut Tree) -> Result<Used, Failed> {
        match by {
            End::By(signal) if tree.ended(self.main).is_none() => {
                let _ = kill(Pid::from_raw(self.main), signal);
            }
            End::By(_) | End::Input => drop(self.input.take()),
        }
        let begin = Instant::now();
        while begin.elapsed() < patience && tree.ended(self.main).is_none() {
            tree.wait(self.main, LOOK_EVERY);
        }
        tree.end();
        match tree.ended(self.main) {
            Some((_, used)) => Ok(used),
            None => Err(Failed::Because("the server does not end".to_owned())),
        }
    }

    /// The readings: what the kernel accounted and what was looked at.
    pub fn account(&self, wall: Duration, used: &Used) -> Vec<Reading> {
        let less = |name: &str, unit, value| Reading::new(name, unit, Better::Less, value);
        let of = |samples: &[Memory], part: fn(&Memory) -> f64| samples.iter().map(part).collect::<Vec<_>>();
        let peak_pss = self.samples.iter().map(|(_, memory)| memory.pss_bytes).fold(0.0, f64::max);
        let mut readings = vec![
            less("wall time", "s", wall.as_secs_f64()),
            less("CPU time", "s", used.cpu_seconds),
            less("user CPU time", "s", used.user_seconds),
            less("peak RSS", "B", self.peak_rss(used)),
            less("peak PSS", "B", peak_pss),
        ];
        // The second half: the first fills the caches.
        let steady = self.under_load.get(self.under_load.len() / 2..).unwrap_or_default();
        let steady_of = |part| median(&of(steady, part)).unwrap_or(0.0);
        if let Some(idle) = self.idle {
            readings.push(less("steady RSS", "B", steady_of(|memory| memory.rss_bytes)));
            readings.push(less("steady PSS", "B", steady_of(|memory| memory.pss_bytes)));
            readings.push(less("idle RSS", "B", idle.rss_bytes));
            readings.push(less("idle PSS", "B", idle.pss_bytes));
        }
        readings.extend([
            less("minor faults", "", used.minor_faults as f64),
            less("major faults", "", used.major_faults as f64),
            less("voluntary switches", "", used.voluntary_switches as f64),
            less("involuntary switches", "", used.involuntary_switches as f64),
        ]);
        readings
    }

    /// Of the largest process. The kernel's figure at the end begins with what this program had when it forked; below that
    /// counts what the last look saw.
    fn peak_rss(&self, used: &Used) -> f64 {
        let own = Process::new(std::process::id() as i32).status_bytes("VmHWM").unwrap_or(0);
        let (said, seen) = (used.peak_rss_kib << 10, self.witness.peak_bytes());
        if said > own || seen == 0 { said as f64 } else { seen as f64 }
    }

    pub fn finished(self, readings: Vec<Reading>, said: String) -> Result<Trial, Failed> {
        let verdict =
            self.witness.judge(self.arm, self.main).map_err(|unproved| match unproved.is_unseen {
                true => Failed::Unseen(unproved.reason),
                false => Failed::Because(unproved.reason),
            })?;
        let (course, idle) = (self.samples, self.idle);
        Ok(Trial { readings, stamp: verdict.stamp, notes: verdict.notes, course, idle, said })
    }
}

impl Ended {
    pub fn succeeded(&self, who: &str) -> Result<(), Failed> {
        match self.status.success() {
            true => Ok(()),
            false => Err(Failed::Because(format!("{who} {}{}", self.how(), self.last_words()))),
        }
    }

    pub fn how(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "ended".to_owned(),
        }
    }

    /// The end of what it said.
    pub fn last_words(&self) -> String {
        let said = if self.errors.trim().is_empty() { &self.output } else { &self.errors };
        said.trim().lines().last().map_or(String::new(), |line| format!("; it said last: {}", line.trim()))
    }
}

/// Sets the command's standard input; the end that is to be closed if its end is what ends the command.
fn given(job: &Job, command: &mut Command) -> std::io::Result<Option<PipeWriter>> {
    if job.service.as_ref().is_some_and(|service| service.end == End::Input) {
        let (reader, writer) = std::io::pipe()?;
        command.stdin(reader);
        return Ok(Some(writer));
    }
    if job.input.is_empty() {
        command.stdin(Stdio::null());
        return Ok(None);
    }
    let mut file = unnamed_file().map_err(std::io::Error::other)?;
    file.write_all(&job.input)?;
    file.rewind()?;
    command.stdin(file);
    Ok(None)
}

fn shared(file: &File) -> anyhow::Result<Stdio> {
    Ok(file.try_clone()?.into())
}

/// The text that was written so far. The writer's place in the file, which is shared, stays where it is.
fn text(file: &File) -> String {
    let length = file.metadata().map_or(0, |file| file.len());
    let from = length.saturating_sub(MOST_OUTPUT);
    let mut bytes = vec![0; (length - from) as usize];
    match file.read_exact_at(&mut bytes, from) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}
