//! One run of one cell on one allocator.

use super::plan::{Cell, Kind, Program};
use super::surroundings;
use super::tracing;
use crate::load::Pattern;
use crate::report::Report;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vcm_measure::allocators::Ready;
use vcm_measure::child;

/// A cell that runs by work may take so many times the seconds that the work stands for; then what was done until
/// then counts.
const MOST_TIMES_AS_LONG: f64 = 8.0;

/// How a run went.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Finished(Box<Report>),
    TimedOut,
    /// In one line, why.
    Failed(String),
}

/// The settings of all runs.
#[derive(Clone, Debug)]
pub struct Runner {
    pub load_program: PathBuf,
    /// Seconds a threaded cell works, or what stands for them where it runs by work; fast-path cells work a
    /// quarter of it.
    pub seconds: f64,
    /// When a run counts as timed out.
    pub limit: Duration,
}

impl Runner {
    pub fn run(&self, cell: &Cell, ready: &Ready) -> Outcome {
        match self.try_run(cell, ready) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    }

    fn try_run(&self, cell: &Cell, ready: &Ready) -> Result<Outcome> {
        let Program::Load(pattern) = cell.program else {
            return self.run_true(cell, ready);
        };
        let mut command = ready.command(&self.load_program);
        command.args(self.arguments(cell, pattern));
        let ended = child::run(&mut command, self.limit)?;
        let Some(status) = ended.status else { return Ok(Outcome::TimedOut) };
        ensure!(status.success(), "{status}; {}", last_line(&ended.errors));
        let report: Report = serde_json::from_str(ended.output.trim()).with_context(|| {
            format!("the load program printed no report; its errors end with: {}", last_line(&ended.errors))
        })?;
        ensure!(
            ready.owns(&report.malloc_object),
            "the preload did not take: malloc came from {}; {}",
            report.malloc_object,
            last_line(&ended.errors)
        );
        Ok(Outcome::Finished(Box::new(report)))
    }

    fn run_true(&self, cell: &Cell, ready: &Ready) -> Result<Outcome> {
        let mut command = ready.command(Path::new("/bin/true"));
        let Some(seen) = tracing::seen_at_exit(&mut command, self.limit)? else {
            return Ok(Outcome::TimedOut);
        };
        // It asks for no block, so it cannot say whose malloc it would get; but what is preloaded is mapped.
        let malloc_object = match &ready.library {
            None => String::new(),
            Some(library) if seen.maps(library) => library.display().to_string(),
            Some(library) => bail!("the preload did not take: {} is not mapped", library.display()),
        };
        let peak_rss_kib = seen.resident_kib;
        let pattern = cell.program.into();
        let report = Report { pattern, threads: 1, malloc_object, peak_rss_kib, ..Report::default() };
        Ok(Outcome::Finished(Box::new(report)))
    }

    fn arguments(&self, cell: &Cell, pattern: Pattern) -> Vec<String> {
        let mut arguments = vec![pattern.name()];
        let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        if matches!(cell.kind(), Kind::Load | Kind::Calls) {
            option("threads", cell.threads.to_string());
        }
        if let Some(bytes) = cell.bytes {
            option("bytes", bytes.to_string());
        }
        match (cell.kind(), pattern) {
            (_, Pattern::Churn) | (Kind::Footprint, _) => {}
            (Kind::Load | Kind::Calls, _) => match pattern.operations_for_a_second() {
                Some(rate) => {
                    option("operations", ((rate as f64 * self.seconds) as u64).to_string());
                    option("seconds", (MOST_TIMES_AS_LONG * self.seconds).to_string());
                }
                None => option("seconds", self.seconds.to_string()),
            },
            (Kind::FastPath | Kind::Pairs, _) => {
                option("seconds", (self.seconds / 4.0).to_string());
                option("pin", "0".to_owned());
            }
        }
        arguments
    }
}

fn last_line(text: &str) -> &str {
    text.trim().lines().last().unwrap_or("nothing on stderr")
}

/// The load program beside this one.
pub fn load_program() -> Result<PathBuf> {
    surroundings::program_beside("vcm-load")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use vcm_measure::allocators::ALLOCATORS;

    fn true_on(library: &Path, limit: Duration) -> Outcome {
        let runner = Runner { load_program: PathBuf::new(), seconds: 1.0, limit };
        let ready = Ready { allocator: &ALLOCATORS[0], library: Some(library.to_owned()) };
        runner.run(&Cell { program: Program::True, threads: 1, bytes: None }, &ready)
    }

    fn library(folder: &Path, source: &str) -> PathBuf {
        let (file, library) = (folder.join("x.c"), folder.join("x.so"));
        std::fs::write(&file, source).unwrap();
        let done = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&file).status();
        assert!(done.unwrap().success());
        library
    }

    #[test]
    fn a_footprint_without_the_preload_is_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("broken.so");
        std::fs::write(&broken, "no library").unwrap();
        let minute = Duration::from_secs(60);
        let Outcome::Failed(reason) = true_on(&broken, minute) else { panic!("it finished") };
        assert!(reason.contains("the preload did not take"), "{reason}");
        let fine = library(folder.path(), "int nothing;");
        assert!(matches!(true_on(&fine, minute), Outcome::Finished(report) if report.peak_rss_kib > 0));
    }

    #[test]
    fn an_allocator_that_hangs_at_its_start_is_timed_out() {
        let folder = tempfile::tempdir().unwrap();
        let source =
            "int pause(void); __attribute__((constructor)) static void hang(void) { for (;;) pause(); }";
        let hangs = library(folder.path(), source);
        assert_eq!(true_on(&hangs, Duration::from_millis(300)), Outcome::TimedOut);
    }
}
