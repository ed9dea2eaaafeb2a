//! The verbs of `vcm-memory`: one measurement each.

pub mod age;
pub mod alone;
pub mod churn;
pub mod container;
pub mod cost;
pub mod idle;
pub mod scattered;
pub mod survivors;
pub mod wakeups;

use super::report::{Column, Origin, Output, heap_by_live, panels, tables};
use super::run::Run;
use super::session::{Case, Session};
use crate::harness::surroundings::{library_named, program_beside};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use vcm_measure::allocators::{self, Places};

/// The allocators of `default`: those whose memory people ask about, and a setting that changes what comes back.
const DEFAULT: [&str; 7] =
    ["vcmalloc", "glibc", "jemalloc", "jemalloc-background", "tcmalloc", "mimalloc", "mimalloc3-new"];

/// The arguments of every verb.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Our library, instead of libvcmalloc.so beside this program
    #[arg(long, global = true, value_parser = library_named)]
    pub library: Option<PathBuf>,
    /// Names of allocators; `default` is a group
    #[arg(long, global = true, value_delimiter = ',', default_value = "default")]
    pub allocators: Vec<String>,
    /// Runs of each case on each allocator
    #[arg(long, global = true, default_value_t = 1)]
    pub repeat: usize,
    /// Milliseconds between two looks at the process
    #[arg(long, global = true, default_value_t = 100)]
    pub sample: u64,
    /// Folder of runs/ [default: results/ of the repository around the working directory, else the working
    /// directory]
    #[arg(long, global = true)]
    pub output: Option<PathBuf>,
}

impl Common {
    pub fn places(&self) -> Result<Places> {
        Places::beside_this_program(self.library.clone())
    }

    /// Files for what a verb measures.
    fn files(&self, verb: &str) -> Result<Output> {
        Output::new(self.output.as_deref(), &self.places()?.ours, verb)
    }

    fn session(&self) -> Result<Session> {
        ensure!(self.repeat > 0, "--repeat 0 measures nothing; give 1 or more");
        ensure!(self.sample >= 5, "--sample {} is too often; give 5 milliseconds or more", self.sample);
        let chosen = allocators::chosen(&self.allocators, |allocator| DEFAULT.contains(&allocator.name));
        let allocators = allocators::ready(&chosen.map_err(anyhow::Error::msg)?, &self.places()?);
        ensure!(!allocators.is_empty(), "none of the chosen allocators is there");
        Ok(Session {
            allocators,
            load_program: program_beside("vcm-memory-load")?,
            passes: self.repeat,
            interval: Duration::from_millis(self.sample),
        })
    }

    /// Measures the cases and writes raw data, page and picture.
    fn measure(
        &self,
        verb: &str,
        about: &str,
        cases: &[Case],
        columns: &[Column],
        origin: Origin,
    ) -> Result<()> {
        let session = self.session()?;
        let output = self.files(verb)?;
        let runs = session.run(cases, output.raw_file()?)?;
        let about = format!("{about}\n\n{}", passes_text(self.repeat));
        output.write(&about, &tables(&runs, columns), &panels(&runs, origin))
    }
}

fn passes_text(passes: usize) -> String {
    match passes {
        1 => "One run each; see --repeat for the noise.".to_owned(),
        passes => format!("Medians of {passes} interleaved runs, with least and greatest."),
    }
}

/// The patterns that a verb is to measure: all, unless some were named.
fn chosen<Pattern: ValueEnum>(only: &[Pattern]) -> &[Pattern] {
    if only.is_empty() { Pattern::value_variants() } else { only }
}

/// A pattern's name on the command line, and what it is.
fn named(pattern: impl ValueEnum) -> (String, String) {
    let value = pattern.to_possible_value();
    let name = value.as_ref().map_or("", |value| value.get_name()).to_owned();
    (name, value.and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default())
}

/// Heap at some seconds after the stop.
fn idle_columns(seconds: &'static [f64]) -> impl Iterator<Item = Column> {
    seconds.iter().map(|&at| {
        let title = if at == 0.0 { "at the stop".to_owned() } else { format!("after {at} s") };
        Column::mib(title, move |run| Some(run.at_idle(at)?.memory.heap))
    })
}

fn live_column() -> Column {
    Column::mib("live MiB", Run::live_at_stop)
}

fn pages_column() -> Column {
    Column::mib("live pages", |run| Some(run.page_bytes).filter(|&bytes| bytes > 0))
}

fn usable_column() -> Column {
    Column::mib("usable", |run| Some(run.usable_bytes).filter(|&bytes| bytes > 0))
}

/// Seconds of the load, from its first sample.
fn cpu_column() -> Column {
    Column::new("CPU s", |seconds| format!("{seconds:.2}"), |run| Some(run.used_by_load()?.cpu_seconds))
}

fn faults_column() -> Column {
    Column::new("faults", |count| format!("{count:.0}"), |run| Some(run.used_by_load()?.faults as f64))
}

fn end_ratio_column(title: &str) -> Column {
    Column::ratio(title, |run| heap_by_live(run.last().filter(|_| run.is_finished())?))
}

fn arguments(parts: &[&dyn ToString]) -> Vec<String> {
    parts.iter().map(|part| part.to_string()).collect()
}
