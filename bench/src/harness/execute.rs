//! One run of one cell on one allocator.

use super::allocators::Ready;
use super::child;
use super::plan::{Cell, Kind, Program};
use super::tracing;
use crate::load::Pattern;
use crate::report::Report;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a run went.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Finished(Box<Report>),
    TimedOut,
    /// In one line, why.
    Failed(String),
}

/// What runs need to know.
#[derive(Clone, Debug)]
pub struct Runner {
    pub load_program: PathBuf,
    /// Seconds a threaded cell works; fast-path cells work a quarter of it.
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
            let mut command = ready.command(Path::new("/bin/true"));
            let peak_rss_kib = tracing::resident_kib_at_exit(&mut command)?;
            let report =
                Report { pattern: cell.program.into(), threads: 1, peak_rss_kib, ..Report::default() };
            return Ok(Outcome::Finished(Box::new(report)));
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

    fn arguments(&self, cell: &Cell, pattern: Pattern) -> Vec<String> {
        let mut arguments = vec![pattern.name()];
        let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        if cell.kind() == Kind::Load {
            option("threads", cell.threads.to_string());
        }
        if let Some(bytes) = cell.bytes {
            option("bytes", bytes.to_string());
        }
        match (cell.kind(), pattern) {
            (_, Pattern::Churn) | (Kind::Footprint, _) => {}
            (Kind::Load, _) => option("seconds", self.seconds.to_string()),
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

/// The load program beside this one. Under `cargo run` it is brought up to date first: cargo builds only the
/// program that it was asked to run.
pub fn load_program() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let program = this.with_file_name("vcm-load");
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = std::process::Command::new(cargo);
        build.args(["build", "--quiet", "-p", "vcmalloc-bench", "--bin", "vcm-load"]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        ensure!(build.status()?.success(), "the load program does not build");
    }
    ensure!(
        program.exists(),
        "{} is not there; build it with `cargo build --release -p vcmalloc-bench`",
        program.display()
    );
    Ok(program)
}
