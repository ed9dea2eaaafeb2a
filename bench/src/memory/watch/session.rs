//! A session: all cases on all allocators, interleaved, every sample a row of the CSV file as soon as its run
//! is over.

use super::run::{Outcome, Run, Sample};
use super::subject::Subject;
use crate::harness::surroundings::progress_bar;
use crate::memory::board::Phase;
use anyhow::{Result, bail};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vcm_measure::allocators::Ready;
use vcm_measure::group::Group;
use vcm_measure::turns::{Turn, interleaved};

/// Set by a signal handler: the session ends with its children and cgroups removed.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// One process to look at.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// For the load program.
    pub arguments: Vec<String>,
    /// How long the process is watched after its last malloc call.
    pub idle: Duration,
    /// When it counts as timed out, the idle time not counted.
    pub limit: Duration,
    /// The limit of a cgroup of its own.
    pub cgroup_bytes: Option<u64>,
}

/// The parts that all verbs share.
pub struct Session {
    pub allocators: Vec<Ready>,
    pub load_program: PathBuf,
    pub passes: usize,
    pub interval: Duration,
}

/// One row of the raw data: a sample, or a run of which there is none.
#[derive(Serialize)]
struct Row<'a> {
    pass: usize,
    case: &'a str,
    allocator: &'a str,
    outcome: &'a str,
    seconds: Option<f64>,
    since_stop: Option<f64>,
    phase: &'a str,
    live_bytes: Option<u64>,
    heap_rss: Option<u64>,
    heap_lazy_free: Option<u64>,
    heap_huge: Option<u64>,
    total_rss: Option<u64>,
    faults: Option<u64>,
    cpu_seconds: Option<f64>,
    page_bytes_at_stop: u64,
    usable_bytes_at_stop: u64,
    live_blocks_at_stop: u64,
    cgroup_peak: u64,
    cgroup_full: u64,
}

impl Session {
    pub fn run(&self, cases: &[Case], raw: std::fs::File) -> Result<Vec<Run>> {
        let mut writer = csv::Writer::from_writer(raw);
        let turns = interleaved(self.passes, cases, |_| self.allocators.iter().collect());
        let progress = progress_bar(turns.len());
        let mut runs = Vec::new();
        for Turn { pass, case, allocator: ready } in turns {
            progress.set_message(format!("{} on {}", case.name, ready.name()));
            let run = self.run_one(pass, case, ready)?;
            if !run.is_finished() {
                let text = run.outcome.text();
                progress.println(format!("{} on {}: {text}", case.name, run.allocator));
            }
            write_rows(&mut writer, &run)?;
            runs.push(run);
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(runs)
    }

    fn run_one(&self, pass: usize, case: &Case, ready: &Ready) -> Result<Run> {
        let name = ready.name();
        let cgroup = case.cgroup_bytes.map(Group::with_limit).transpose()?;
        let mut subject = Subject::start(ready, &self.load_program, &case.arguments, cgroup.as_ref())?;
        let (mut outcome, samples) = self.watch(&mut subject, case)?;
        if let Some(wrong) = subject.wrong_allocator(ready) {
            outcome = Outcome::Failed(wrong);
        }
        let kills = cgroup.as_ref().map_or(0, Group::kills);
        if kills > 0 {
            outcome = Outcome::OutOfMemoryKilled(kills);
        }
        let board = subject.board;
        Ok(Run {
            pass,
            case: case.name.clone(),
            allocator: name,
            outcome,
            samples,
            page_bytes: board.page_bytes.load(Ordering::Relaxed),
            usable_bytes: board.usable_bytes.load(Ordering::Relaxed),
            live_blocks: board.live_blocks.load(Ordering::Relaxed),
            cgroup_peak: cgroup.as_ref().map_or(0, Group::peak_bytes),
            cgroup_full: cgroup.as_ref().map_or(0, Group::times_full),
        })
    }

    fn watch(&self, subject: &mut Subject, case: &Case) -> Result<(Outcome, Vec<Sample>)> {
        let start = Instant::now();
        let mut samples = Vec::new();
        loop {
            if INTERRUPTED.load(Ordering::Relaxed) {
                bail!("interrupted; what was measured so far is in the raw file");
            }
            if let Some(outcome) = subject.ended()? {
                return Ok((outcome, samples));
            }
            let sample = subject.sample();
            // A process that is just being ended has no memory any more; the next turn sees its end.
            if sample.phase > Phase::Starting && sample.memory.total > 0 {
                samples.push(sample);
            }
            match sample.since_stop {
                Some(since) if since >= case.idle.as_secs_f64() => return Ok((Outcome::Finished, samples)),
                None if start.elapsed() > case.limit => return Ok((Outcome::TimedOut, samples)),
                _ => subject.wait(self.interval),
            }
        }
    }
}

/// In place of a phase, where a process ended before the first look at it.
const NOT_SEEN: &str = "not seen";

/// A count of rows must find every run, so a run without samples has a row of its own.
fn write_rows(writer: &mut csv::Writer<std::fs::File>, run: &Run) -> Result<()> {
    let outcome = run.outcome.text();
    if run.samples.is_empty() {
        writer.serialize(Row::of(run, &outcome, None))?;
    }
    for sample in &run.samples {
        writer.serialize(Row::of(run, &outcome, Some(sample)))?;
    }
    Ok(writer.flush()?)
}

impl<'a> Row<'a> {
    fn of(run: &'a Run, outcome: &'a str, sample: Option<&Sample>) -> Self {
        let memory = sample.map(|sample| sample.memory);
        let used = sample.map(|sample| sample.used);
        Self {
            pass: run.pass,
            case: &run.case,
            allocator: run.allocator,
            outcome,
            seconds: sample.map(|sample| sample.seconds),
            since_stop: sample.and_then(|sample| sample.since_stop),
            phase: sample.map_or(NOT_SEEN, |sample| sample.phase.name()),
            live_bytes: sample.map(|sample| sample.live),
            heap_rss: memory.map(|memory| memory.heap),
            heap_lazy_free: memory.map(|memory| memory.heap_lazy),
            heap_huge: memory.map(|memory| memory.heap_huge),
            total_rss: memory.map(|memory| memory.total),
            faults: used.map(|used| used.faults),
            cpu_seconds: used.map(|used| used.cpu_seconds),
            page_bytes_at_stop: run.page_bytes,
            usable_bytes_at_stop: run.usable_bytes,
            live_blocks_at_stop: run.live_blocks,
            cgroup_peak: run.cgroup_peak,
            cgroup_full: run.cgroup_full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run_of;
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn a_run_that_died_before_it_was_seen_has_a_row_that_says_so() {
        let mut raw = tempfile::tempfile().unwrap();
        let mut writer = csv::Writer::from_writer(raw.try_clone().unwrap());
        let dead = Run { outcome: Outcome::OutOfMemoryKilled(1), ..run_of(&[]) };
        write_rows(&mut writer, &dead).unwrap();
        write_rows(&mut writer, &run_of(&[(None, 1, 2), (Some(0.0), 1, 2)])).unwrap();
        let mut text = String::new();
        raw.rewind().unwrap();
        raw.read_to_string(&mut text).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 1 + 1 + 2, "{text}");
        let begin = "0,case,glibc,killed: out of memory (oom_kill 1),,,not seen,,,,,,,,0,0,0,0,0";
        assert_eq!(rows[1], begin);
        let columns = |row: &str| row.split(',').count();
        assert!(rows.iter().all(|row| columns(row) == columns(rows[0])), "{text}");
    }
}
