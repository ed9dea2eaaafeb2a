//! The processes of this host on vcmalloc. The list of all processes is read once a second at most. Each is looked into
//! once for a start and a program, and again in its first rounds, as a library is not there yet while a process starts;
//! then only those that are ours are read.

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vcm_inspect::daemon::{self, Role};
use vcm_inspect::pressure::Pressure;
use vcm_inspect::process::{self, Process};
use vcm_inspect::root::Root;
use vcm_inspect::window::{Ours, Seen, Snapshot, Watched, ours};

/// Rounds in which a process may still become one of ours.
const FIRST_ROUNDS: u8 = 3;
/// A little less than a second, so that rounds a second apart ask each time.
const ASKED_EVERY: Duration = Duration::from_millis(900);
/// Moments that are kept of each process.
const HISTORY: usize = 1200;
/// The pressure is a dozen files of the control group, and its shortest average is over 10 s.
const PRESSURE_STAYS: Duration = Duration::from_secs(5);

pub struct Moment {
    pub at: Instant,
    pub rss: u64,
    pub live: u64,
}

/// A process as it was found in the last round.
pub struct Row {
    pub name: String,
    /// As the kernel has it.
    pub command: String,
    pub kind: &'static str,
    pub snapshot: Snapshot,
    pub threads: u64,
    pub pressure: Pressure,
    pub history: VecDeque<Moment>,
    pressure_taken: Option<Instant>,
    watched: Watched,
}

enum Known {
    Ours(Box<Row>),
    Other { rounds: u8 },
}

#[derive(Default)]
pub struct Host {
    known: HashMap<i32, (u64, PathBuf, Known)>,
    asked: Option<Instant>,
    /// Processes that one may not look into.
    pub hidden: usize,
    /// The processes that are ours and cannot be shown, in words.
    pub unread: Vec<String>,
}

impl Host {
    pub fn round(&mut self) {
        if self.asked.is_some_and(|asked| asked.elapsed() < ASKED_EVERY) {
            self.known.retain(|_, (_, _, known)| match known {
                Known::Ours(row) => row.look().is_some(),
                Known::Other { .. } => true,
            });
            return;
        }
        self.asked = Some(Instant::now());
        let mut before = std::mem::take(&mut self.known);
        (self.hidden, self.unread) = (0, Vec::new());
        for id in process::all(&Root::real()) {
            let process = Process::new(id);
            let Some(start) = process.start_ticks() else { continue };
            let program = match process.program() {
                Ok(program) => program,
                Err(error) => {
                    self.hidden += usize::from(error.kind() == ErrorKind::PermissionDenied);
                    continue;
                }
            };
            let known = before.remove(&id).filter(|(at, of, _)| (*at, of) == (start, &program));
            if let Some(now) = self.again(process, known.map(|(_, _, known)| known)) {
                self.known.insert(id, (start, program, now));
            }
        }
    }

    fn again(&mut self, process: Process, known: Option<Known>) -> Option<Known> {
        match known {
            Some(Known::Ours(mut row)) => row.look().is_some().then_some(Known::Ours(row)),
            Some(Known::Other { rounds: FIRST_ROUNDS.. }) => Some(Known::Other { rounds: FIRST_ROUNDS }),
            Some(Known::Other { rounds }) => self.first(process, rounds + 1),
            None => self.first(process, 0),
        }
    }

    fn first(&mut self, process: Process, rounds: u8) -> Option<Known> {
        let ours = match ours(&process) {
            Ok(Some(ours)) => ours,
            Ok(None) => return Some(Known::Other { rounds }),
            Err(error) => {
                self.hidden += usize::from(error.kind() == ErrorKind::PermissionDenied);
                return None;
            }
        };
        let id = process.id;
        match Row::open(ours) {
            Ok(row) => Some(Known::Ours(Box::new(row))),
            Err(why) => {
                self.unread.push(format!("{id} {why}"));
                None
            }
        }
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.known.values().filter_map(|(_, _, known)| match known {
            Known::Ours(row) => Some(&**row),
            Known::Other { .. } => None,
        })
    }
}

impl Row {
    fn open(ours: Ours) -> Result<Row, String> {
        let process = ours.process.clone();
        let words = process.command_line().unwrap_or_default();
        let label = daemon::label(Role::of_process(&process), &words);
        let kind = kind(&process);
        let mut watched = Watched::new(Seen::of(ours)?);
        let command = watched.seen.name.printed();
        let name = if label.is_empty() { command.clone() } else { label.printed() };
        let snapshot = watched.look()?;
        let mut row = Row {
            name,
            command,
            kind,
            snapshot,
            threads: 0,
            pressure: Pressure::default(),
            history: VecDeque::new(),
            pressure_taken: None,
            watched,
        };
        row.note();
        Ok(row)
    }

    /// None where it has ended.
    fn look(&mut self) -> Option<()> {
        self.snapshot = self.watched.look().ok()?;
        self.note();
        Some(())
    }

    fn note(&mut self) {
        let process = &self.watched.seen.process;
        self.threads = process.threads().unwrap_or(0);
        if self.pressure_taken.is_none_or(|taken| taken.elapsed() >= PRESSURE_STAYS) {
            self.pressure = process.memory_pressure();
            self.pressure_taken = Some(Instant::now());
        }
        let moment = Moment { at: Instant::now(), rss: self.rss(), live: self.requested() };
        self.history.push_back(moment);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    pub fn id(&self) -> i32 {
        self.watched.seen.process.id
    }

    pub fn rss(&self) -> u64 {
        self.snapshot.process.map_or(self.snapshot.stats.resident, |all| all.rss)
    }

    pub fn requested(&self) -> u64 {
        self.snapshot.stats.live_requested
    }

    pub fn cached(&self) -> u64 {
        self.snapshot.stats.vcpu_caches + self.snapshot.stats.transfer
    }

    /// Kept, though nobody uses it.
    pub fn free(&self) -> u64 {
        self.snapshot.stats.free_in_spans + self.snapshot.stats.dirty_free
    }

    /// The heap's memory beyond what was asked for, in per cent of that.
    pub fn overhead(&self) -> f64 {
        let beyond = self.snapshot.stats.resident.saturating_sub(self.requested());
        beyond as f64 * 100.0 / self.requested().max(1) as f64
    }

    /// The lowest of the bounds that hold.
    pub fn limit(&self) -> Option<u64> {
        let stats = &self.snapshot.stats;
        let own = [stats.memory_limit, stats.hard_limit].into_iter().filter(|bytes| *bytes > 0);
        own.chain(self.pressure.limit).min()
    }
}

/// How the library came into the process.
fn kind(process: &Process) -> &'static str {
    let files = process.mapped_files().unwrap_or_default();
    let has = |begin: &str| {
        files.iter().filter_map(|file| file.file_name()?.to_str()).any(|name| name.starts_with(begin))
    };
    match () {
        () if has("libvcmalloc-hardened") => "hardened",
        () if has("libvcmalloc") => "shared",
        () if has("libtcmalloc") || has("libjemalloc") => "stand-in",
        () => "static",
    }
}
