//! The runs: what replaying costs, how much of large blocks is touched, and every arm in every round.

use crate::arms;
use crate::table::Table;
use crate::trace_file;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use vcm_measure::allocators;
use vcm_measure::arm::Arm;
use vcm_measure::progress::Progress;
use vcm_measure::spoken::{Better, Reading};
use vcm_measure::stop::Stop;
use vcm_measure::trial::{Failed, Trial};
use vcm_measure::turns;
use vcm_replay::director::{self, End, How, Moment, Run};
use vcm_replay::fit::{self, Course, Fidelity};
use vcm_replay::survey::Survey;

pub struct Rounds<'a> {
    pub file: &'a Path,
    pub survey: &'a Survey,
    pub how: How,
    pub library: Option<&'a Path>,
    pub stop: &'a Stop,
    pub progress: &'a Progress,
    /// Of the heap that does nothing, by round.
    pub null: BTreeMap<usize, Run>,
    /// Of the first round of each arm: time, live bytes, memory.
    pub courses: BTreeMap<String, Vec<(u64, u64, f64)>>,
    pub fidelity: Result<Fidelity, String>,
    /// Ends that waited for each other.
    pub given_up: u64,
    pub late_nanoseconds: u64,
    /// Names of the arms on which tenants have heaps.
    pub with_heaps: Vec<String>,
    /// By arm, the ends of tenants in each round.
    pub ends: BTreeMap<String, BTreeMap<usize, Vec<End>>>,
}

impl Rounds<'_> {
    fn run(&self, arm: &Arm, how: How) -> Result<Run, Failed> {
        let mut reader = trace_file::again(self.file).map_err(|error| Failed::Because(error.to_string()))?;
        director::run(move || reader.next_raw(), self.survey, arm, how, &|| self.stop.is_asked())
    }

    fn base(&self) -> Result<Run, Failed> {
        self.run(&arms::glibc(), How { is_null: true, rest: Duration::ZERO, ..self.how })
    }

    /// All arms in every round, with the heap that does nothing among them.
    pub fn take(&mut self, table: &mut Table, rounds: usize) {
        let places: Vec<usize> = (0..=table.runs.len()).collect();
        self.progress.begin(rounds * places.len());
        let mut found: BTreeMap<(usize, usize), Run> = BTreeMap::new();
        for turn in turns::interleaved(rounds, &[()], |()| places.iter().collect()) {
            if self.stop.is_asked() {
                break;
            }
            let round = turn.pass;
            let Some(place) = turn.allocator.checked_sub(1) else {
                self.progress.cell(&format!("round {} of {rounds}, replaying alone", round + 1));
                match self.base() {
                    Ok(run) => drop(self.null.insert(round, run)),
                    Err(Failed::Stopped) => break,
                    Err(Failed::Because(reason) | Failed::Unseen(reason)) => {
                        let all = table.runs.iter_mut().filter(|runs| runs.failed.is_none());
                        all.for_each(|runs| runs.failed = Some(format!("replaying alone failed: {reason}")));
                        break;
                    }
                }
                self.progress.cell_done();
                continue;
            };
            let Some(runs) = table.runs.get_mut(place) else { continue };
            if runs.failed.is_none() {
                self.progress.cell(&format!("round {} of {rounds}, {}", round + 1, runs.arm.name));
                let has_heaps = self.with_heaps.contains(&runs.arm.name);
                match self.run(&runs.arm, How { has_heaps, ..self.how }) {
                    Ok(run) => drop(found.insert((place, round), run)),
                    Err(Failed::Stopped) => break,
                    Err(Failed::Because(reason) | Failed::Unseen(reason)) => {
                        // The report has it.
                        runs.failed = Some(reason);
                    }
                }
            }
            self.progress.cell_done();
        }
        self.settle(table, found);
    }

    /// Takes off each run the run of its round without an allocator.
    fn settle(&mut self, table: &mut Table, found: BTreeMap<(usize, usize), Run>) {
        for ((place, round), run) in found {
            let (Some(runs), Some(null)) = (table.runs.get_mut(place), self.null.get(&round)) else {
                continue;
            };
            let course = course(&run.moments, &null.moments);
            self.given_up = self.given_up.max(run.given_up);
            self.late_nanoseconds = self.late_nanoseconds.max(run.late_nanoseconds);
            if !run.ends.is_empty() {
                self.ends.entry(runs.arm.name.clone()).or_default().insert(round, run.ends.clone());
            }
            let readings = readings(&run, null, &course, self.survey);
            self.courses.entry(runs.arm.name.clone()).or_insert(course);
            runs.trials.insert(
                round,
                Trial {
                    readings,
                    stamp: run.stamp,
                    notes: run.notes,
                    course: Vec::new(),
                    idle: None,
                    said: String::new(),
                },
            );
        }
    }

    /// Fits how much of large blocks is touched to what was recorded, and says how near a replay comes then.
    pub fn fit(&mut self) {
        self.fidelity = self.fitted();
    }

    fn fitted(&mut self) -> Result<Fidelity, String> {
        let recorded = &self.survey.resident;
        if recorded.len() < 2 {
            return Err("the trace has no samples of memory".to_owned());
        }
        if self.survey.header.sampled_one_in.is_some_and(|one_in| one_in > 1) {
            return Err("the trace samples the blocks, but its memory is that of all blocks".to_owned());
        }
        let name = self.survey.header.allocator.clone().ok_or("the trace does not name its allocator")?;
        let arm = recorded_on(&name, self.library)
            .ok_or(format!("{name}, on which it was recorded, was not found"))?;
        self.progress.step("fitting touched pages to the recording");
        let said = |failed| match failed {
            Failed::Stopped => "it was stopped".to_owned(),
            Failed::Because(reason) | Failed::Unseen(reason) => reason,
        };
        let null = self.base().map_err(said)?;
        let with = |touched| -> Result<Course, String> {
            let run = self.run(&arm, How { touched, rest: Duration::ZERO, ..self.how }).map_err(said)?;
            Ok(course(&run.moments, &null.moments).iter().map(|(time, _, memory)| (*time, *memory)).collect())
        };
        let touched = fit::share(recorded, &with(0.0)?, &with(1.0)?);
        let replayed = with(touched)?;
        self.how.touched = touched;
        fit::fidelity(recorded, &replayed).ok_or("the trace has no samples of memory".to_owned())
    }
}

/// The arm of the allocator that a header names.
fn recorded_on(name: &str, library: Option<&Path>) -> Option<Arm> {
    let name = name.to_lowercase();
    let known = allocators::ALLOCATORS.iter().filter(|known| known.is_peer && name.contains(known.name));
    arms::arm(known.max_by_key(|known| known.name.len())?.name, library).ok()
}

/// Time, live bytes and the memory that is the allocator's.
fn course(moments: &[Moment], null: &[Moment]) -> Vec<(u64, u64, f64)> {
    let net = |(one, base): (&Moment, &Moment)| {
        (one.time, one.live_bytes, one.memory.saturating_sub(base.memory) as f64)
    };
    moments.iter().zip(null).map(net).collect()
}

/// Of the ends of tenants, the sums.
fn of_ends(ends: &[End]) -> Vec<Reading> {
    if ends.is_empty() {
        return Vec::new();
    }
    let sum = |of: fn(&End) -> f64| ends.iter().map(of).sum::<f64>();
    let each = ends.len() as f64;
    vec![
        Reading::new(
            "CPU time of an end",
            "us",
            Better::Less,
            sum(|end| end.nanoseconds as f64) / 1e3 / each,
        ),
        Reading::new(
            "memory less just after an end",
            "B",
            Better::More,
            sum(|end| end.before as f64 - end.after as f64) / each,
        ),
    ]
}

/// The mean over the time of the trace.
pub fn mean(course: &[(u64, f64)]) -> f64 {
    let spans: Vec<(f64, f64)> = course
        .windows(2)
        .filter_map(|pair| Some((pair.get(1)?.0.saturating_sub(pair.first()?.0) as f64, pair.get(1)?.1)))
        .collect();
    let whole: f64 = spans.iter().map(|(span, _)| span).sum();
    match whole > 0.0 {
        true => spans.iter().map(|(span, value)| span * value).sum::<f64>() / whole,
        false => course.last().map_or(0.0, |(_, value)| *value),
    }
}

fn readings(run: &Run, null: &Run, course: &[(u64, u64, f64)], survey: &Survey) -> Vec<Reading> {
    let less = |name: &str, unit, value| Reading::new(name, unit, Better::Less, value);
    let net = |of: fn(&Run) -> u64| of(run).saturating_sub(of(null)) as f64;
    let memory: Vec<(u64, f64)> = course.iter().map(|(time, _, memory)| (*time, *memory)).collect();
    let peak = memory.iter().map(|(_, memory)| *memory).fold(0.0, f64::max);
    let alone = null.moments.last().map_or(0, |moment| moment.memory);
    let at_rest = |(after, memory): &(Duration, u64)| {
        let name = format!("memory after {} s at rest", after.as_secs_f64());
        less(&name, "B", memory.saturating_sub(alone) as f64)
    };
    let mut readings = vec![
        less(
            "time in the allocator",
            "ns an event",
            net(|run| run.cpu_nanoseconds) / survey.events.max(1) as f64,
        ),
        less("CPU time", "s", net(|run| run.cpu_nanoseconds) / 1e9),
        less("system CPU time", "s", net(|run| run.system_nanoseconds) / 1e9),
        less("peak memory", "B", peak),
        less("mean memory", "B", mean(&memory)),
        less("memory at the end", "B", memory.last().map_or(0.0, |(_, memory)| *memory)),
        less("minor faults", "", net(|run| run.minor_faults)),
        less("major faults", "", net(|run| run.major_faults)),
    ];
    readings.extend(run.rest.iter().map(at_rest));
    readings.extend(of_ends(&run.ends));
    readings
}
