//! The processes of this host on vcmalloc, looked at once for each scrape.
//!
//! Whether a process is on vcmalloc is found out once for its pid, its start and its program, and again in its
//! first rounds: a library is not there yet while a program starts. After that only those of ours are read. Counting
//! pages is what costs, so a round does it for so long, and the others wait for the next one with what they had.

use super::process::{Growing, Look, Row, names};
use super::supervisor::Board;
use glob::Pattern;
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vcm_inspect::condition::Condition;
use vcm_inspect::daemon;
use vcm_inspect::process::{self, Process};
use vcm_inspect::root::Root;
use vcm_inspect::window::ours;

/// Rounds, and time, in which a process may still become one of ours.
const FIRST_ROUNDS: u32 = 3;
const FIRST_TIME: Duration = Duration::from_secs(10);
/// How long a round counts pages. Prometheus waits 10 seconds.
const COUNTING: Duration = Duration::from_secs(3);

/// Of what has no figures, so many are named.
const MOST_LINES: usize = 100;

/// Rounds in which a process is passed over after its looks have failed so often: a new process may fail once or twice.
fn pause_after(failed: u32) -> u32 {
    if failed < 3 { 0 } else { 1 << (failed - 3).min(6) }
}

/// No look takes so long: the kernel, or a file system of the process, does not answer.
const MOST_OF_LOOK: Duration = Duration::from_secs(60);

/// Why a process has no figures, in the words of a label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// Whether it is on vcmalloc is not known either.
    Forbidden,
    /// Its library's description has another layout.
    Layout,
    /// It waits for a round with time to count its pages.
    Waiting,
    Failed,
    /// A look at it has ended the agent once.
    LeftAlone,
}

impl Reason {
    pub const ALL: [(Reason, &'static str); 5] = [
        (Reason::Forbidden, "forbidden"),
        (Reason::Layout, "layout"),
        (Reason::Waiting, "waiting"),
        (Reason::Failed, "failed"),
        (Reason::LeftAlone, "left_alone"),
    ];
}

/// The findings of a round.
#[derive(Debug, Default)]
pub struct Round {
    pub looks: Vec<Look>,
    pub unread: BTreeMap<Reason, u64>,
    /// The processes that are ours and have no figures, in words.
    pub lines: Vec<String>,
    /// Looks that failed since the agent was started.
    pub failed: u64,
    pub restarts: u64,
    pub took: Duration,
    pub began: Option<Instant>,
}

enum Known {
    Ours(Box<Row>),
    Other {
        rounds: u32,
        since: Instant,
    },
    /// Ours, and looks at it failed so often: it is passed over for so many rounds.
    Failing {
        times: u32,
        pause: u32,
        why: String,
    },
}

struct Entry {
    start: u64,
    program: PathBuf,
    known: Known,
}

pub struct Host {
    patterns: Vec<Pattern>,
    entries: HashMap<i32, Entry>,
    /// The board that says which process is looked at.
    board: &'static Board,
    failed: u64,
}

impl Host {
    pub fn new(patterns: Vec<Pattern>, board: &'static Board) -> Self {
        Host { patterns, entries: HashMap::new(), board, failed: 0 }
    }

    pub fn round(&mut self) -> Round {
        let began = Instant::now();
        let mut round = Round { began: Some(began), ..Round::default() };
        let mut before = std::mem::take(&mut self.entries);
        let own = std::process::id() as i32;
        for id in process::all(&Root::real()).into_iter().filter(|id| *id != own) {
            let process = Process::new(id);
            let Some(start) = process.start_ticks() else { continue };
            if self.board.is_feared(id, start) {
                let line = format!("{id} is skipped: reading it has ended this agent");
                round.unread(Reason::LeftAlone, line);
                continue;
            }
            let _look = self.board.begin(id, start, MOST_OF_LOOK);
            let program = match process.program() {
                Ok(program) => program,
                Err(error) => {
                    round.cannot(error.kind());
                    continue;
                }
            };
            let entry = before.remove(&id).filter(|entry| entry.start == start);
            if let Some(known) = self.again(process, entry, &program, &mut round) {
                self.entries.insert(id, Entry { start, program, known });
            }
        }
        (round.failed, round.restarts) = (self.failed, self.board.restarts());
        round.took = began.elapsed();
        round
    }

    fn again(
        &mut self,
        process: Process,
        entry: Option<Entry>,
        program: &Path,
        round: &mut Round,
    ) -> Option<Known> {
        let Some(entry) = entry else { return self.first(process, None, Growing::default(), 0, round) };
        match entry.known {
            // Its memory tells whether it is still what it was. The name of its file does not: that may be replaced.
            Known::Ours(mut row) => match row.look(round.has_time()) {
                Ok(look) => {
                    round.looks.push(look);
                    Some(Known::Ours(row))
                }
                // It has ended, or became another program.
                Err(_) => {
                    let growing = row.growing_of(&process);
                    self.first(process, None, growing, 0, round)
                }
            },
            Known::Other { rounds, since } if entry.program == program => {
                let is_settled = rounds >= FIRST_ROUNDS && since.elapsed() >= FIRST_TIME;
                if is_settled {
                    return Some(Known::Other { rounds, since });
                }
                self.first(process, Some((rounds + 1, since)), Growing::default(), 0, round)
            }
            Known::Failing { times, pause, why } if pause > 0 && entry.program == program => {
                round.unread(Reason::Failed, format!("{} {why}", process.id));
                Some(Known::Failing { times, pause: pause - 1, why })
            }
            Known::Failing { times, .. } => self.first(process, None, Growing::default(), times, round),
            Known::Other { .. } => self.first(process, None, Growing::default(), 0, round),
        }
    }

    fn first(
        &mut self,
        process: Process,
        other: Option<(u32, Instant)>,
        growing: Growing,
        failed: u32,
        round: &mut Round,
    ) -> Option<Known> {
        let (rounds, since) = other.unwrap_or_else(|| (0, Instant::now()));
        if !self.wants(&process) {
            return Some(Known::Other { rounds, since });
        }
        let ours = match ours(&process) {
            Ok(Some(ours)) => ours,
            Ok(None) => return Some(Known::Other { rounds, since }),
            Err(error) => {
                round.cannot(error.kind());
                return None;
            }
        };
        let id = process.id;
        if !round.has_time() {
            round.unread(Reason::Waiting, format!("{id} waits for time to count its pages"));
            return None;
        }
        match Row::open(ours, growing) {
            Ok((row, look)) => {
                round.looks.push(look);
                Some(Known::Ours(Box::new(row)))
            }
            Err(why) => {
                let reason =
                    if why.starts_with("has statistics of layout") { Reason::Layout } else { Reason::Failed };
                if Process::new(id).condition() != Condition::Running {
                    return None;
                }
                self.failed += 1;
                round.unread(reason, format!("{id} {why}"));
                Some(Known::Failing { times: failed + 1, pause: pause_after(failed), why })
            }
        }
    }

    /// Whether one of the patterns fits its command or what operators call it.
    pub fn wants(&self, process: &Process) -> bool {
        wants(&self.patterns, process)
    }
}

pub fn wants(patterns: &[Pattern], process: &Process) -> bool {
    if patterns.is_empty() {
        return true;
    }
    let (role, words, command) = names(process);
    let label = daemon::label(role, &words).printed();
    patterns.iter().any(|pattern| pattern.matches(&command) || pattern.matches(&label))
}

impl Round {
    fn has_time(&self) -> bool {
        self.began.is_none_or(|began| began.elapsed() < COUNTING)
    }

    fn cannot(&mut self, kind: ErrorKind) {
        // A process without a program is a kernel thread, or has ended.
        if kind == ErrorKind::PermissionDenied {
            *self.unread.entry(Reason::Forbidden).or_default() += 1;
        }
    }

    fn unread(&mut self, reason: Reason, line: String) {
        *self.unread.entry(reason).or_default() += 1;
        if self.lines.len() < MOST_LINES {
            self.lines.push(line);
        }
    }
}
