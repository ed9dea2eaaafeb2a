//! The state that a run needs to be resumed, and to leave the units as they were: a file that is written whole and
//! synced before each step that it tells of.

use super::schedule::{Schedule, is_time};
use crate::drop_in::File;
use crate::whole_file;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use vcm_front::say::{FAILURE, Failure};
use vcm_inspect::process::Process;
use vcm_measure::spoken::{Better, Reading};
use vcm_measure::stamp::Stamp;

/// Raised when an older vcm could not go on with it.
const FORMAT: u32 = 1;

#[derive(Clone, Serialize, Deserialize)]
pub struct State {
    pub format: u32,
    /// The process that works on it, and when that was started, in ticks since the boot.
    pub owner: (i32, u64),
    pub boot: String,
    pub wanted: Wanted,
    pub schedule: Schedule,
    /// Ceph's complaints before.
    pub health_before: Vec<String>,
    pub units: Vec<Before>,
    pub finished: Vec<Vec<Kept>>,
}

/// The arguments that were typed.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Wanted {
    pub arms: Vec<String>,
    pub sweep: Vec<String>,
    pub library: Option<PathBuf>,
    pub health: Option<String>,
    pub more: Vec<String>,
    pub less: Vec<String>,
    pub limit_seconds: f64,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Before {
    pub unit: String,
    pub files: Vec<File>,
    /// Its drop-in, or its process, may be another than it was.
    pub is_changed: bool,
}

/// Of one unit in one period.
#[derive(Clone, Serialize, Deserialize)]
pub struct Kept {
    pub arm: usize,
    pub readings: Vec<Number>,
    pub stamp: Stamp,
    pub notes: Vec<String>,
    /// Seconds since the change, and RSS and PSS then.
    pub course: Vec<(f64, f64, f64)>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Number {
    pub name: String,
    unit: String,
    is_more: bool,
    pub value: f64,
}

const UNITS: [&str; 9] = ["s", "B", "us", "ms/s", "MB/s", "ops/s", "a second", "", "ms"];

impl Number {
    pub fn of(reading: &Reading) -> Number {
        Number {
            name: reading.name.clone(),
            unit: reading.unit.to_owned(),
            is_more: reading.better == Better::More,
            value: reading.value,
        }
    }

    pub fn reading(&self) -> Reading {
        let unit = UNITS.iter().find(|unit| **unit == self.unit).copied().unwrap_or("");
        let better = if self.is_more { Better::More } else { Better::Less };
        Reading::new(self.name.clone(), unit, better, self.value)
    }
}

impl State {
    pub fn new(wanted: Wanted, schedule: Schedule, units: Vec<Before>, health_before: Vec<String>) -> State {
        let mut state = State {
            format: FORMAT,
            owner: (0, 0),
            boot: String::new(),
            wanted,
            schedule,
            health_before,
            units,
            finished: Vec::new(),
        };
        state.adopt();
        state
    }

    /// From now on this process works on it.
    pub fn adopt(&mut self) {
        let id = std::process::id() as i32;
        self.owner = (id, Process::new(id).start_ticks().unwrap_or(0));
        self.boot = boot();
    }

    pub fn is_worked_on(&self) -> bool {
        let (id, ticks) = self.owner;
        let is_own = id == std::process::id() as i32;
        !is_own
            && self.boot == boot()
            && Process::new(id).is_alive()
            && Process::new(id).start_ticks() == Some(ticks)
    }

    pub fn is_changed(&self) -> bool {
        self.units.iter().any(|unit| unit.is_changed)
    }

    pub fn names(&self) -> String {
        self.units.iter().map(|before| before.unit.as_str()).collect::<Vec<_>>().join(", ")
    }

    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(|error| Failure::new(FAILURE, error.to_string()))?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)
                .map_err(|error| Failure::new(FAILURE, format!("{}: {error}", folder.display())))?;
        }
        whole_file::write(path, (text + "\n").as_bytes())?;
        // The name too must be on the disk before a unit is changed.
        let folder = path.parent().and_then(|folder| fs::File::open(folder).ok());
        folder
            .map_or(Ok(()), |folder| folder.sync_all())
            .map_err(|error| Failure::new(FAILURE, format!("{}: {error}", path.display())))
    }

    /// None where there is no file.
    pub fn load(path: &Path) -> Result<Option<State>, Failure> {
        let shown = path.display();
        let damaged = |why: String| {
            Failure::new(
                FAILURE,
                format!(
                    "{shown} is not the state of a run of this vcm ({why}). To undo such a run, run 'vcm disable \
                     UNIT' and restart each of its units, then remove the file"
                ),
            )
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::new(FAILURE, format!("{shown}: {error}"))),
        };
        let state: State = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if state.format != FORMAT {
            return Err(damaged(format!("format {}", state.format)));
        }
        let can_be = state.schedule.units == state.units.len()
            && state.schedule.can_be()
            && is_time(state.wanted.limit_seconds);
        if can_be { Ok(Some(state)) } else { Err(damaged("no such schedule".into())) }
    }

    pub fn remove(path: &Path) -> Result<(), Failure> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::new(FAILURE, format!("{}: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(change: impl FnOnce(&mut State)) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let schedule = Schedule { units: 1, arms: 2, cycles: 3, period_seconds: 10.0, washout_seconds: 2.0 };
        let unit = Before { unit: "a".into(), files: Vec::new(), is_changed: false };
        let mut state = State::new(Wanted::default(), schedule, vec![unit], Vec::new());
        change(&mut state);
        state.save(&path).unwrap();
        (folder, path)
    }

    fn is_read(change: impl FnOnce(&mut State)) -> bool {
        let (_folder, path) = saved(change);
        State::load(&path).is_ok_and(|state| state.is_some())
    }

    /// Waiting for them would be a panic.
    #[test]
    fn a_state_whose_times_cannot_be_is_refused() {
        assert!(is_read(|_| ()));
        assert!(!is_read(|state| state.schedule.period_seconds = -1.0));
        assert!(!is_read(|state| state.schedule.period_seconds = 1e300));
        assert!(!is_read(|state| state.schedule.washout_seconds = 10.0));
        assert!(!is_read(|state| state.wanted.limit_seconds = -2.0));
        assert!(!is_read(|state| state.schedule.cycles = usize::MAX));
    }
}
