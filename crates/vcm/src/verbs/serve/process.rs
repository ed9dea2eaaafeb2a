//! A process that is looked at for each scrape: who it is, and what only grows.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use vcm_inspect::daemon::{self, Role};
use vcm_inspect::pressure::Pressure;
use vcm_inspect::process::Process;
use vcm_inspect::window::{Class, Heaps, Ours, Resident, Seen, Snapshot, Watched};
use vcmalloc_core::heap::Stats;

/// The identity of a process, the same for as long as it lives.
#[derive(Debug)]
pub struct Identity {
    pub pid: i32,
    pub started: u64,
    pub command: String,
    pub library: &'static str,
    pub role: Role,
    /// `osd.3`.
    pub ceph_daemon: Option<String>,
    pub brick: Option<String>,
    pub build: String,
    pub front: &'static str,
}

impl Identity {
    /// For a reader.
    pub fn name(&self) -> &str {
        self.ceph_daemon.as_deref().unwrap_or(&self.command)
    }
}

/// The names of a process, as far as they can be told without its memory.
pub fn names(process: &Process) -> (Role, Vec<std::ffi::OsString>, String) {
    let words = process.command_line().unwrap_or_default();
    let command = process.name().unwrap_or_default().printed();
    (Role::of_process(process), words, command)
}

/// Its counters, as they are shown.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub given_back: u64,
    pub underflows: u64,
    pub overflows: u64,
    pub ticks: u64,
    pub huge_stall: u64,
    pub fences_refused: u64,
    pub guarded_samples: u64,
    pub kills: u64,
    pub torn_looks: u64,
}

impl Counts {
    fn each_with(&mut self, other: &Counts, mut change: impl FnMut(&mut u64, u64)) {
        let pairs = [
            (&mut self.given_back, other.given_back),
            (&mut self.underflows, other.underflows),
            (&mut self.overflows, other.overflows),
            (&mut self.ticks, other.ticks),
            (&mut self.huge_stall, other.huge_stall),
            (&mut self.fences_refused, other.fences_refused),
            (&mut self.guarded_samples, other.guarded_samples),
            (&mut self.kills, other.kills),
            (&mut self.torn_looks, other.torn_looks),
        ];
        pairs.into_iter().for_each(|(own, other)| change(own, other));
    }
}

/// Counters that never go back, though a process that becomes another program begins anew.
#[derive(Clone, Copy, Default, Debug)]
pub struct Growing {
    before: Counts,
    pub shown: Counts,
}

impl Growing {
    /// Keeps what was counted before.
    pub fn anew(self) -> Self {
        Growing { before: self.shown, shown: self.shown }
    }

    fn see(&mut self, now: Counts) {
        let mut sum = now;
        sum.each_with(&self.before, |own, before| *own = own.saturating_add(before));
        self.shown.each_with(&sum, |shown, now| *shown = now.max(*shown));
    }
}

/// One look, as it is shown.
#[derive(Clone, Debug)]
pub struct Look {
    pub identity: Arc<Identity>,
    pub stats: Stats,
    pub swapped: u64,
    pub whole: Option<Resident>,
    pub classes: Vec<Class>,
    pub heaps: Heaps,
    pub pressure: Pressure,
    pub counts: Counts,
    pub is_torn: bool,
    pub pages_age: f64,
    pub pages_apart: bool,
}

pub struct Row {
    identity: Arc<Identity>,
    watched: Watched,
    growing: Growing,
    torn_looks: u64,
    /// The start of its stack: another program has another one.
    stack: Option<u64>,
}

/// A field of /proc/PID/stat by its number after the name (proc_pid_stat(5)).
const START_OF_STACK: usize = 25;

impl Row {
    /// Its pages are counted.
    pub fn open(ours: Ours, growing: Growing) -> Result<(Row, Look), String> {
        let process = ours.process.clone();
        let (role, words, command) = names(&process);
        let (library, stack) = (library(&process), process.status_field(START_OF_STACK));
        let started = process.started().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mut watched = Watched::new(Seen::of(ours)?);
        let snapshot = watched.look()?;
        let identity = Identity {
            pid: watched.seen.process.id,
            started: started.map_or(0, |time| time.as_secs()),
            command,
            library,
            role,
            ceph_daemon: Some(daemon::label(role, &words).printed())
                .filter(|name| role.is_ceph() && !name.ends_with('?')),
            brick: daemon::argument(&words, &["--brick-name"])
                .map(|brick| brick.printed())
                .filter(|_| role == Role::Glusterfsd),
            build: snapshot.build.printed(),
            front: snapshot.front,
        };
        let mut row = Row { identity: Arc::new(identity), watched, growing, torn_looks: 0, stack };
        let look = row.note(snapshot);
        Ok((row, look))
    }

    /// The counts from which the process's counters go on, where it has to be opened again.
    pub fn growing_of(&self, process: &Process) -> Growing {
        let is_same = process.status_field(START_OF_STACK) == self.stack;
        if is_same { self.growing } else { self.growing.anew() }
    }

    /// `counts_pages`: where they are due.
    pub fn look(&mut self, counts_pages: bool) -> Result<Look, String> {
        let brief = if counts_pages { None } else { self.watched.look_briefly() };
        let snapshot = brief.unwrap_or_else(|| self.watched.look())?;
        Ok(self.note(snapshot))
    }

    fn note(&mut self, snapshot: Snapshot) -> Look {
        let pressure = self.watched.seen.process.memory_pressure();
        let is_torn = snapshot.torn.is_some();
        self.torn_looks += u64::from(is_torn);
        let stats = snapshot.stats;
        self.growing.see(Counts {
            given_back: stats.given_back,
            underflows: stats.underflows,
            overflows: stats.overflows,
            ticks: stats.ticks,
            huge_stall: stats.huge_stall,
            fences_refused: stats.fences_refused,
            guarded_samples: stats.guarded_samples,
            kills: pressure.kills.unwrap_or(0),
            torn_looks: self.torn_looks,
        });
        Look {
            identity: self.identity.clone(),
            stats,
            swapped: snapshot.swapped,
            whole: snapshot.process,
            classes: snapshot.classes,
            heaps: snapshot.heaps,
            pressure,
            counts: self.growing.shown,
            is_torn,
            pages_age: snapshot.pages_age.as_secs_f64(),
            pages_apart: snapshot.pages_apart,
        }
    }
}

/// How vcmalloc came into the process, by the names of the files that it has mapped.
fn library(process: &Process) -> &'static str {
    let files = process.mapped_files().unwrap_or_default();
    let names = || files.iter().filter_map(|file| Path::new(file).file_name()?.to_str());
    let has = |begins: &[&str]| names().any(|name| begins.iter().any(|begin| name.starts_with(begin)));
    match () {
        () if has(&["libvcmalloc-hardened.so", "libvcmalloc_hardened.so"]) => "hardened",
        () if has(&["libvcmalloc.so"]) => "default",
        () if has(&["libtcmalloc", "libjemalloc"]) => "stand-in",
        () => "linked",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_does_not_go_back_when_the_process_becomes_another_program() {
        let of = |ticks| Counts { ticks, ..Counts::default() };
        let mut growing = Growing::default();
        let seen = |growing: &mut Growing, ticks| {
            growing.see(of(ticks));
            growing.shown.ticks
        };
        assert_eq!([5, 3, 7].map(|ticks| seen(&mut growing, ticks)), [5, 5, 7]);
        let mut growing = growing.anew();
        assert_eq!([0, 2, 9].map(|ticks| seen(&mut growing, ticks)), [7, 9, 16]);
    }
}
