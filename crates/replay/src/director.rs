//! One replay: starts the replayer on an arm, hands it slice after slice, and looks at its memory between them, when all
//! its threads rest and the heap is exactly what it was at that time of the trace.
//!
//! Promises what a trial does: nothing is left, a run that was not on its arm is an error, `stop` ends it.

use crate::cuts::{self, Slice};
use crate::futex;
use crate::memory::{FINISH, Memory, Tenant};
use crate::replayer::{VERB, now};
use crate::script::Writer;
use crate::survey::Survey;
use serde::Serialize;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use vcm_inspect::process::Process;
use vcm_measure::arm::Arm;
use vcm_measure::child::unnamed_file;
use vcm_measure::stamp::Stamp;
use vcm_measure::tree::Tree;
use vcm_measure::trial::Failed;
use vcm_measure::witness::Witness;
use vcm_trace::{Error, RawEpoch};

/// A run is looked at about so often.
const LOOKS: u64 = 256;
const LEAST_EVENTS: u64 = 1 << 16;
const LEAST_TIME: u64 = 20_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// All threads that are not done wait for a block: so long, and they never end.
const STANDSTILL: Duration = Duration::from_secs(1);
const TO_BE_READY: Duration = Duration::from_secs(60);
/// Memory is read so many seconds after the end of the trace, and at the end of the rest.
const LOOKS_AT_REST: [u64; 5] = [1, 5, 10, 30, 60];

#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The heap does nothing.
    pub is_null: bool,
    /// Of large blocks, the share that is touched.
    pub touched: f64,
    /// How many times as fast as recorded; none: as fast as possible.
    pub speed: Option<f64>,
    /// How long a slice may take, beyond its time.
    pub limit: Duration,
    /// How long all threads rest when the trace has ended.
    pub rest: Duration,
    /// Tenants have heaps, and end with them.
    pub has_heaps: bool,
}

/// The end of a tenant.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct End {
    /// Of the tenant, in the order of their ends.
    pub number: usize,
    /// Of processor time, in the frees one by one or in the call that ends the heap.
    pub nanoseconds: u64,
    /// Anonymous memory of the process just before and just after.
    pub before: u64,
    pub after: u64,
    /// Of its heap: bytes of blocks, of spans, and of these in memory.
    pub heap: Option<[u64; 3]>,
}

/// At one time of the trace.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub time: u64,
    pub live_bytes: u64,
    /// Not backed by a file or by memory that is shared.
    pub memory: u64,
}

#[derive(Debug)]
pub struct Run {
    pub moments: Vec<Moment>,
    /// Memory, by the time since the trace ended.
    pub rest: Vec<(Duration, u64)>,
    pub ends: Vec<End>,
    pub cpu_nanoseconds: u64,
    pub system_nanoseconds: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Ends that waited for each other: the trace contradicts itself.
    pub given_up: u64,
    pub late_nanoseconds: u64,
    pub wall: Duration,
    pub stamp: Stamp,
    pub notes: Vec<String>,
}

type Prepared = Result<(Vec<u64>, Vec<Slice>), Error>;

/// `next` gives the trace's epochs from the first on.
pub fn run(
    next: impl FnMut() -> vcm_trace::Result<Option<RawEpoch>> + Send,
    survey: &Survey,
    arm: &Arm,
    how: How,
    stop: &dyn Fn() -> bool,
) -> Result<Run, Failed> {
    let mut tree = Tree::default();
    let done = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(1);
        scope.spawn(move || prepare(next, survey, how, &sender));
        Director::start(survey, arm, how, stop, &mut tree).and_then(|director| director.direct(receiver))
    });
    let left = tree.end();
    match left.is_empty() {
        true => done,
        false => Err(Failed::Because(format!("processes {left:?} do not end"))),
    }
}

/// Takes epochs apart ahead of the replay, until nobody wants them.
fn prepare(
    mut next: impl FnMut() -> vcm_trace::Result<Option<RawEpoch>>,
    survey: &Survey,
    how: How,
    sender: &SyncSender<Prepared>,
) {
    let mut writer = Writer::new(how.speed.is_some(), &survey.tenants);
    loop {
        let prepared = match next() {
            Ok(Some(raw)) => writer.write(&raw).map(|mut script| {
                let times = times(survey, how, script.events, script.times);
                let slices = cuts::slices(&mut script, &times);
                (script.words, slices)
            }),
            // It was surveyed: the part that is there is replayed.
            Ok(None) | Err(Error::CutOff { .. }) => return,
            Err(error) => Err(error),
        };
        if sender.send(prepared).is_err() {
            return;
        }
    }
}

/// The times at which an epoch is cut: for looks, and where the recording was looked at.
fn times(survey: &Survey, how: How, events: u64, (first, last): (u64, u64)) -> Vec<u64> {
    let target = (survey.events / LOOKS).max(LEAST_EVENTS);
    let span = last.saturating_sub(first);
    let mut parts = events.div_ceil(target).max(1);
    if how.speed.is_some() {
        let whole = survey.nanoseconds.1.saturating_sub(survey.nanoseconds.0);
        parts = parts.max(span / (whole / LOOKS).max(LEAST_TIME) + 1);
    }
    let even =
        (1..parts).map(|part| first + (u128::from(span) * u128::from(part) / u128::from(parts)) as u64);
    let recorded = survey.resident.iter().map(|(time, _)| *time).filter(|time| (first..last).contains(time));
    let mut times: Vec<u64> = even.chain(recorded).collect();
    times.sort_unstable();
    times.dedup();
    times
}

struct Director<'a> {
    memory: Memory,
    tree: &'a mut Tree,
    id: i32,
    arm: &'a Arm,
    witness: Witness,
    how: How,
    stop: &'a dyn Fn() -> bool,
    errors: std::fs::File,
    moments: Vec<Moment>,
    rest: Vec<(Duration, u64)>,
    began: Instant,
    first_time: u64,
    threads: u32,
}

impl<'a> Director<'a> {
    fn start(
        survey: &Survey,
        arm: &'a Arm,
        how: How,
        stop: &'a dyn Fn() -> bool,
        tree: &'a mut Tree,
    ) -> Result<Self, Failed> {
        let memory = Memory::new(survey.streams, survey.slots, survey.tenants.found.len(), survey.words)?;
        let head = memory.head();
        head.is_null.store(how.is_null.into(), Relaxed);
        head.heaps.store(how.has_heaps.into(), Relaxed);
        head.touched.store((how.touched * 65536.0) as u32, Relaxed);
        head.pace.store(how.speed.map_or(0, |speed| (speed * 1000.0).max(1.0) as u64), Relaxed);
        let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let errors = unnamed_file()?;
        let mut command = arm.command(own.as_os_str());
        let descriptor = memory.descriptor();
        command.arg(VERB).arg(descriptor.to_string());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors.try_clone().map_err(anyhow::Error::from)?);
        // SAFETY: one system call without memory of ours, which is all that may happen between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::fcntl(descriptor, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            })
        };
        let id =
            tree.start(&mut command).map_err(|error| format!("the replayer cannot be started: {error}"))?;
        let (witness, began) = (Witness::default(), Instant::now());
        let first_time = survey.nanoseconds.0;
        let mut director = Director {
            memory,
            tree,
            id,
            arm,
            witness,
            how,
            stop,
            errors,
            moments: Vec::new(),
            rest: Vec::new(),
            began,
            first_time,
            threads: 0,
        };
        director.wait_ready()?;
        Ok(director)
    }

    fn wait_ready(&mut self) -> Result<(), Failed> {
        while self.memory.head().is_ready.load(Acquire) == 0 {
            futex::wait(&self.memory.head().is_ready, 0, LOOK_EVERY);
            self.lives()?;
            if self.began.elapsed() > TO_BE_READY {
                return Err(Failed::Because("the replayer does not begin".to_owned()));
            }
        }
        if self.memory.head().heaps.load(Relaxed) == 2 {
            return Err(Failed::Because(
                "it has no heaps for tenants: vcm_heap_new is missing or refused one".to_owned(),
            ));
        }
        self.witness.look(self.arm, &[self.id]);
        self.began = Instant::now();
        self.memory.head().began.store(now().saturating_sub(self.due(self.first_time)), Release);
        Ok(())
    }

    /// Nanoseconds of the clock for a time of the trace.
    fn due(&self, time: u64) -> u64 {
        self.how.speed.map_or(0, |speed| (time as f64 / speed) as u64)
    }

    fn lives(&mut self) -> Result<(), Failed> {
        if (self.stop)() {
            return Err(Failed::Stopped);
        }
        match self.tree.ended(self.id) {
            None => Ok(()),
            Some((status, _)) => {
                Err(Failed::Because(format!("the replayer {}{}", how_ended(status), self.last_words())))
            }
        }
    }

    fn last_words(&self) -> String {
        let mut bytes = vec![0; self.errors.metadata().map_or(0, |file| file.len().min(1 << 16)) as usize];
        let _ = self.errors.read_exact_at(&mut bytes, 0);
        let text = String::from_utf8_lossy(&bytes);
        text.trim().lines().last().map_or(String::new(), |line| format!("; it said last: {line}"))
    }

    fn direct(mut self, prepared: Receiver<Prepared>) -> Result<Run, Failed> {
        for prepared in prepared {
            let (words, slices) =
                prepared.map_err(|error| format!("the trace changed while it was read: {error}"))?;
            let room = self.memory.all_words();
            if words.len() > room.len() {
                return Err(Failed::Because("the trace changed while it was read".to_owned()));
            }
            room.iter().zip(&words).for_each(|(place, word)| place.store(*word, Relaxed));
            for slice in &slices {
                self.slice(slice)?;
            }
        }
        self.rest()?;
        self.finish()
    }

    fn slice(&mut self, slice: &Slice) -> Result<(), Failed> {
        self.hand_over(slice)?;
        self.await_done()?;
        if self.how.speed.is_some() {
            self.await_time(slice.time)?;
        }
        let head = self.memory.head();
        let refused = head.refused.load(Relaxed);
        if refused > 0 {
            let bytes = head.refused_bytes.load(Relaxed);
            return Err(Failed::Because(format!(
                "it refused {refused} allocations, the last of {bytes} bytes: is memory or address space limited?"
            )));
        }
        let live_bytes = head.live_bytes.load(Relaxed).max(0) as u64;
        let memory = self.anonymous()?;
        self.moments.push(Moment { time: slice.time, live_bytes, memory });
        Ok(())
    }

    fn anonymous(&self) -> Result<u64, Failed> {
        let lines = Process::new(self.id).rollup();
        let lines = lines.map_err(|error| format!("its memory cannot be read: {error}"))?;
        Ok(lines.bytes("Anonymous").unwrap_or(0))
    }

    /// No thread of the replayer calls anything meanwhile.
    fn rest(&mut self) -> Result<(), Failed> {
        let (begin, whole) = (Instant::now(), self.how.rest);
        let looks = LOOKS_AT_REST.map(Duration::from_secs).into_iter().filter(|look| *look < whole);
        for look in looks.chain((!whole.is_zero()).then_some(whole)) {
            while let Some(left) = look.checked_sub(begin.elapsed()) {
                self.tree.wait(self.id, left.min(LOOK_EVERY * 5));
                self.lives()?;
            }
            self.rest.push((look, self.anonymous()?));
        }
        Ok(())
    }

    fn hand_over(&mut self, slice: &Slice) -> Result<(), Failed> {
        let head = self.memory.head();
        head.remaining.store(slice.ranges.len() as u32, Relaxed);
        let most = slice.ranges.iter().map(|range| range.0 as u32 + 1).max().unwrap_or(0);
        for (stream, first, behind, ends) in &slice.ranges {
            let stream = self.memory.stream(*stream);
            stream.first.store(*first as u64, Relaxed);
            stream.behind.store(*behind as u64, Relaxed);
            stream.ends.store((*ends).into(), Relaxed);
            stream.turn.fetch_add(1, Release);
        }
        let before = self.threads;
        if most > before {
            self.threads = most;
            head.wanted.store(most, Release);
            futex::wake_all(&head.wanted);
        }
        for (stream, ..) in slice.ranges.iter().filter(|range| (range.0 as u32) < before) {
            futex::wake_all(&self.memory.stream(*stream).turn);
        }
        Ok(())
    }

    fn await_done(&mut self) -> Result<(), Failed> {
        let (begin, mut since) = (Instant::now(), Instant::now());
        loop {
            let head = self.memory.head();
            let remaining = head.remaining.load(Acquire);
            if remaining == 0 {
                head.give_up.store(0, Relaxed);
                return Ok(());
            }
            let refused = head.no_thread.load(Relaxed);
            if refused != 0 {
                let reason = std::io::Error::from_raw_os_error(refused as i32);
                return Err(Failed::Because(format!("{} threads cannot be started: {reason}", self.threads)));
            }
            if head.waiting.load(Relaxed) < remaining {
                since = Instant::now();
            } else if since.elapsed() > STANDSTILL {
                head.give_up.store(1, Relaxed);
            }
            if begin.elapsed() > self.how.limit {
                return Err(Failed::Because(format!(
                    "{remaining} of its threads do not come to an end within {:?}",
                    self.how.limit
                )));
            }
            futex::wait(&head.remaining, remaining, LOOK_EVERY);
            if begin.elapsed() >= LOOK_EVERY {
                self.lives()?;
            }
        }
    }

    /// Until the trace's time has come.
    fn await_time(&mut self, time: u64) -> Result<(), Failed> {
        let due = self.memory.head().began.load(Relaxed) + self.due(time);
        loop {
            let left = Duration::from_nanos(due.saturating_sub(now()));
            if left.is_zero() {
                return Ok(());
            }
            self.tree.wait(self.id, left.min(LOOK_EVERY * 5));
            self.lives()?;
        }
    }

    fn finish(mut self) -> Result<Run, Failed> {
        self.witness.look(self.arm, &[self.id]);
        let verdict = self.witness.judge(self.arm, self.id).map_err(|unproved| unproved.reason)?;
        let wall = self.began.elapsed();
        self.memory.head().wanted.store(FINISH, Release);
        futex::wake_all(&self.memory.head().wanted);
        let begin = Instant::now();
        let status = loop {
            self.tree.wait(self.id, LOOK_EVERY);
            if let Some((status, _)) = self.tree.ended(self.id) {
                break status;
            }
            if (self.stop)() {
                return Err(Failed::Stopped);
            }
            if begin.elapsed() > self.how.limit {
                return Err(Failed::Because("the replayer does not end".to_owned()));
            }
        };
        if !status.success() {
            return Err(Failed::Because(format!("the replayer {}{}", how_ended(status), self.last_words())));
        }
        let head = self.memory.head();
        let ends = self
            .memory
            .tenants()
            .iter()
            .enumerate()
            .filter(|(_, tenant)| tenant.has_ended.load(Relaxed) == 1);
        let end = |(number, tenant): (usize, &Tenant)| End {
            number,
            nanoseconds: tenant.nanoseconds.load(Relaxed),
            before: tenant.before.load(Relaxed),
            after: tenant.after.load(Relaxed),
            heap: self.how.has_heaps.then(|| [0, 1, 2].map(|at: usize| tenant.heap_bytes[at].load(Relaxed))),
        };
        Ok(Run {
            ends: ends.map(end).collect(),
            cpu_nanoseconds: head.cpu_nanoseconds.load(Relaxed),
            system_nanoseconds: head.system_nanoseconds.load(Relaxed),
            minor_faults: head.minor_faults.load(Relaxed),
            major_faults: head.major_faults.load(Relaxed),
            given_up: head.given_up.load(Relaxed),
            late_nanoseconds: head.late_nanoseconds.load(Relaxed),
            moments: self.moments,
            rest: self.rest,
            wall,
            stamp: verdict.stamp,
            notes: verdict.notes,
        })
    }
}

fn how_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (_, Some(libc::SIGKILL)) => "was killed by signal 9: did memory run out?".to_owned(),
        (_, Some(signal)) => format!("was killed by signal {signal}"),
        (Some(code), _) => format!("ended with code {code}"),
        _ => "ended".to_owned(),
    }
}
