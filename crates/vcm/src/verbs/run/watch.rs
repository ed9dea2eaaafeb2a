//! Watching whether a started program really runs on vcmalloc.
//!
//! Owns the schedule and the verdict: the proof that the library writes when it starts, and the files that
//! the process has mapped once it has settled, because a program may drop the preload when it starts another
//! in its place.

use crate::findings::Finding;
use crate::proof::{Line, Proof};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vcm_foreign::Shown;
use vcm_front::library::Library;
use vcm_front::say;
use vcm_inspect::process::{Process, descendants};

/// A program that has not loaded the library by then has not been told to.
const SETTLED: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const BETWEEN_LOOKS_AT_THE_TREE: Duration = Duration::from_secs(5);

enum Phase {
    /// No proof yet.
    Waiting { pause: Duration },
    /// Proved; it may yet become another program.
    Proved,
    /// Said what there is to say about the program; with `-v` its children are still looked at.
    Judged,
}

pub struct Watch<'a> {
    process: Process,
    /// The command as it was typed.
    name: String,
    library: &'a Library,
    /// The program itself, where vcmalloc is linked into it.
    carrier: Option<PathBuf>,
    proof: &'a Proof,
    findings: &'a [Finding],
    verbose: bool,
    started: Instant,
    phase: Phase,
    took_effect: bool,
    reported: HashSet<i32>,
}

impl<'a> Watch<'a> {
    pub fn new(
        process: i32,
        name: String,
        library: &'a Library,
        carrier: Option<PathBuf>,
        proof: &'a Proof,
        findings: &'a [Finding],
        verbose: bool,
    ) -> Self {
        Watch {
            process: Process::new(process),
            name,
            library,
            carrier,
            proof,
            findings,
            verbose,
            started: Instant::now(),
            phase: Phase::Waiting { pause: FIRST_PAUSE },
            took_effect: false,
            reported: HashSet::new(),
        }
    }

    /// True when the program runs on vcmalloc, or ran on it to its end.
    pub fn took_effect(&self) -> bool {
        self.took_effect
    }

    /// How long to wait before the next look; none when there is nothing left to look for.
    pub fn pause(&self) -> Option<Duration> {
        match self.phase {
            Phase::Waiting { pause } => Some(pause),
            Phase::Proved => Some(SETTLED.saturating_sub(self.started.elapsed()).max(FIRST_PAUSE)),
            Phase::Judged => self.verbose.then_some(BETWEEN_LOOKS_AT_THE_TREE),
        }
    }

    /// Looks at the running program.
    pub fn look(&mut self) {
        let settled = self.started.elapsed() >= SETTLED;
        match self.phase {
            Phase::Waiting { pause } => match self.proof.last_of(self.process.id) {
                Some(line) => self.judge_proof(&line),
                None if settled => {
                    self.say_why_not();
                    self.phase = Phase::Judged;
                }
                None => self.phase = Phase::Waiting { pause: (pause * 2).min(LONGEST_PAUSE) },
            },
            Phase::Proved if settled => {
                self.judge_settled();
                self.look_at_the_tree();
            }
            Phase::Proved => {}
            Phase::Judged => self.look_at_the_tree(),
        }
    }

    /// The program has ended: anything not said yet must be said now.
    pub fn ended(&mut self) {
        if let Phase::Waiting { .. } = self.phase {
            match self.proof.last_of(self.process.id) {
                Some(line) => self.judge_proof(&line),
                None => self.say_why_not(),
            }
        }
        self.judge_again();
    }

    fn judge_proof(&mut self, line: &Line) {
        self.phase = Phase::Judged;
        let prevented = self.prevented();
        if self.has_other_malloc(line) {
            return self.warn_of_malloc(line);
        }
        if let Some(finding) = prevented.filter(|finding| finding.outweighs_proof) {
            return self.warn(&finding.text());
        }
        self.phase = Phase::Proved;
        self.took_effect = true;
        if self.verbose {
            let (name, id) = (&self.name, self.process.id);
            let (version, front) = (&line.version, &line.front);
            let file = self.carrier.as_ref().unwrap_or(&self.library.path).shown();
            say::line(&format!(
                "vcm: {name} (pid {id}) runs on vcmalloc {version}, front {front}, from {file}"
            ));
        }
    }

    /// The program that it became by exec since has proved something of its own.
    fn judge_again(&mut self) {
        let last = self.proof.last_of(self.process.id).filter(|line| self.has_other_malloc(line));
        if let Some(line) = last.filter(|_| self.took_effect) {
            self.took_effect = false;
            self.warn_of_malloc(&line);
        }
    }

    /// A static program has no lookup by which the library could tell whose malloc is called.
    fn has_other_malloc(&self, line: &Line) -> bool {
        line.malloc != "ours" && self.carrier.is_none()
    }

    fn warn_of_malloc(&self, line: &Line) {
        let seen = format!("its malloc comes from {}, which precedes the preload.", line.malloc);
        self.warn(&self.prevented().map_or(seen, Finding::text));
    }

    fn prevented(&self) -> Option<&'a Finding> {
        self.findings.iter().find(|finding| finding.prevents())
    }

    /// The library must still be there after every exec, and its malloc the first.
    fn judge_settled(&mut self) {
        self.phase = Phase::Judged;
        self.judge_again();
        if !self.took_effect {
            return;
        }
        let Ok(files) = self.process.mapped_files() else { return };
        if files.is_empty() || self.is_served_by(&files) {
            return;
        }
        self.took_effect = false;
        let program = self.process.program().unwrap_or_default();
        let because = self.prevented().map_or(
            format!(
                "it started on it, then became {} without the preload. A program in between cleared LD_PRELOAD, \
                 or this one cannot be preloaded; start it directly with 'vcm run' to find out.",
                program.shown()
            ),
            Finding::text,
        );
        self.warn(&because);
    }

    fn say_why_not(&mut self) {
        if let Some(finding) = self.prevented() {
            return self.warn(&finding.text());
        }
        let mapped = self.process.mapped_files().is_ok_and(|files| self.is_served_by(&files));
        self.warn(if mapped {
            "the library is loaded but did not report. It may be older than this vcm; use the library of the \
             same build."
        } else {
            "the library did not report, for an unknown reason. Does a wrapper clear the \
             environment (env -i), did the loader refuse (its message is above), or does a security policy \
             forbid preloads?"
        });
    }

    fn is_served_by(&self, files: &[PathBuf]) -> bool {
        let carried = self.carrier.as_ref().is_some_and(|program| maps(files, program));
        carried || maps(files, &self.library.real_path)
    }

    fn warn(&self, because: &str) {
        say::line(&format!(
            "vcm: warning: {} (pid {}) does not run on vcmalloc: {because}",
            self.name, self.process.id
        ));
    }

    /// Names, once each, the processes below the program that have lost the preload.
    fn look_at_the_tree(&mut self) {
        if !self.verbose {
            return;
        }
        for id in descendants(self.process.id) {
            let process = Process::new(id);
            let Ok(files) = process.mapped_files() else { continue };
            if files.is_empty() || maps(&files, &self.library.real_path) || !self.reported.insert(id) {
                continue;
            }
            let program = process.program().unwrap_or_default();
            say::line(&format!("vcm: its child process {id} ({}) runs without vcmalloc", program.shown()));
        }
    }
}

/// An upgrade replaces the file while programs still run on the old one.
fn maps(files: &[PathBuf], library: &Path) -> bool {
    let replaced = format!("{} (deleted)", library.shown());
    files.iter().any(|file| file == library || file.as_os_str() == replaced.as_str())
}
