//! One run as a row of the raw data, and what became of it.

use super::table::{self, Figure};
use serde::{Deserialize, Serialize};
use vcm_measure::trial::{Failed, Trial};

/// The rows of the scripts before 2026-11-28 can be read too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub round: usize,
    pub program: String,
    pub allocator: String,
    /// `finished`, or why it does not count.
    #[serde(default)]
    pub outcome: String,
    #[serde(alias = "cpu", alias = "seconds")]
    pub user: Option<f64>,
    #[serde(default)]
    pub system: Option<f64>,
    #[serde(default, alias = "kib")]
    pub peak_kib: Option<f64>,
    #[serde(default)]
    pub faults: Option<f64>,
    #[serde(default)]
    pub held_kib: Option<f64>,
    #[serde(default)]
    pub live_kib: Option<f64>,
    #[serde(default)]
    pub pair_ns: Option<f64>,
    /// Of the tracer.
    #[serde(default)]
    pub stops: Option<u64>,
    /// The file that the process had its malloc from, or the crate that the program says it has.
    #[serde(default)]
    pub malloc: String,
}

const FINISHED: &str = "finished";

impl Row {
    /// The row of a run. Of a run that failed, or whose allocator was not proved, it has no figure.
    pub fn of(
        round: usize,
        program: &str,
        allocator: &str,
        done: Result<Trial, Failed>,
        stops: Option<u64>,
    ) -> Row {
        let row =
            Row { round, program: program.to_owned(), allocator: allocator.to_owned(), ..Row::default() };
        match done.map_err(|failed| failed.to_string()).and_then(|trial| row.counted(&trial)) {
            Ok(counted) => Row { stops, ..counted },
            Err(outcome) => Row { outcome, ..row },
        }
    }

    fn counted(&self, trial: &Trial) -> Result<Row, String> {
        let figure =
            table::all().find(|known| known.name == self.program).map_or(Figure::Cpu, |known| known.figure);
        let mut row = self.clone();
        row.outcome = FINISHED.to_owned();
        row.malloc = trial.stamp.file.display().to_string();
        let user = trial.value("user CPU time");
        (row.user, row.system) = (Some(user), Some(trial.value("CPU time") - user));
        row.peak_kib = Some(trial.value("peak RSS") / 1024.0);
        row.faults = Some(trial.value("minor faults"));
        match figure {
            Figure::Cpu => {}
            Figure::Pair => row.pair_ns = Some(pair_of(&trial.said).ok_or("it printed no time of a pair")?),
            Figure::Held => {
                let idle = trial.idle.ok_or("it did not idle")?;
                row.held_kib = Some(idle.anonymous_bytes / 1024.0);
                row.live_kib = live_of(&trial.said);
            }
            Figure::Crate => row.malloc = crate_of(&trial.said, &self.allocator)?,
        }
        Ok(row)
    }

    pub fn is_finished(&self) -> bool {
        self.user.is_some() && (self.outcome.is_empty() || self.outcome == FINISHED)
    }
}

fn pair_of(said: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Value>(said.lines().next()?).ok()?["pair_ns_minimum"].as_f64()
}

/// Behind `ready` or `loaded`, where a program tells what lives in it.
fn live_of(said: &str) -> Option<f64> {
    said.lines()
        .find_map(|line| line.strip_prefix("ready ").or(line.strip_prefix("loaded "))?.trim().parse().ok())
}

/// A program of bench/rust begins its line with its global allocator.
fn crate_of(said: &str, allocator: &str) -> Result<String, String> {
    match said.split_whitespace().next() {
        Some(own) if own == allocator => Ok(format!("the crate's: {own}")),
        Some(own) => Err(format!("it runs on {own}, not on {allocator}")),
        None => Err("it did not print its allocator".to_owned()),
    }
}

/// The number that a program of bench/rust computed, the same on every allocator.
pub fn computed(said: &str) -> Option<&str> {
    said.split_whitespace().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_allocator_was_not_proved_has_no_figure_and_does_not_count() {
        let unproved =
            Failed::Because("perl (pid 7) does not run on jemalloc but on glibc malloc".to_owned());
        let row = Row::of(0, "perl, a hash", "jemalloc", Err(unproved), None);
        assert!(!row.is_finished() && row.user.is_none() && row.outcome.contains("does not run on jemalloc"));
        assert!(crate_of("system 00ff 2048", "jemalloc").unwrap_err().contains("it runs on system"));
        assert!(crate_of("", "jemalloc").is_err());
    }

    #[test]
    fn a_program_tells_what_lives_in_it_how_long_a_pair_takes_and_what_it_computed() {
        assert_eq!(live_of("ready 65536\n"), Some(65536.0));
        assert_eq!(live_of("started\nloaded 17\n"), Some(17.0));
        assert_eq!(live_of("ready\nloaded \n"), None);
        assert_eq!(pair_of("{\"pair_ns_minimum\": 8.5}\n"), Some(8.5));
        assert_eq!(computed("jemalloc 00ff 2048\n"), Some("00ff"));
    }

    #[test]
    fn rows_of_the_former_scripts_count() {
        for text in [
            "round,program,allocator,user,system,peak_kib,faults\n0,lua,glibc,0.2,0.1,5000,7\n",
            "# a machine\nround,program,allocator,cpu,held_kib,live_kib\n0,generations,glibc,0.3,75000,\n",
            "round,program,allocator,seconds,kib,computed\n0,trees,system,0.3,8000,00ff\n",
        ] {
            let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
            let rows: Vec<Row> = reader.deserialize().collect::<Result<_, _>>().unwrap();
            assert!(rows.len() == 1 && rows[0].is_finished(), "{rows:?}");
        }
    }
}
