//! The course of a run: periods one after the other, and the way back whatever happens.
//!
//! Promises that units which were changed are put back before this returns, or that the failure says which were not.

use super::arms::Fitted;
use super::change::{Machine, Running};
use super::health::Health;
use super::look::{self, HEAP, Memory, Moment};
use super::manager::{self, last_line};
use super::schedule::span;
use super::state::{Kept, Number, State};
use super::units::Service;
use std::path::Path;
use std::time::{Duration, Instant};
use vcm_front::say::Failure;
use vcm_inspect::systemd::{self, NoUnit};
use vcm_measure::progress::Progress;
use vcm_measure::spoken::{Better, Reading};
use vcm_measure::statistics::{maximum, median};
use vcm_measure::stop::Stop;

/// The memory is looked at so often in a window, but not more often than the least nor more rarely than the most.
const LOOKS: f64 = 200.0;
const LEAST_BETWEEN: f64 = 0.2;
const MOST_BETWEEN: f64 = 30.0;
const HEALTH_EVERY: Duration = Duration::from_secs(2);

/// Why a run is over before its last period.
pub enum Cut {
    Stopped,
    Because(String),
}

impl From<String> for Cut {
    fn from(reason: String) -> Self {
        Cut::Because(reason)
    }
}

impl From<anyhow::Error> for Cut {
    fn from(error: anyhow::Error) -> Self {
        if vcm_measure::stop::is_stopped(&error) { Cut::Stopped } else { Cut::Because(format!("{error:#}")) }
    }
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Cut::Because(failure.message)
    }
}

pub struct Run<'a> {
    pub machine: Machine<'a>,
    pub services: &'a [Service],
    /// By unit, then by arm.
    pub fitted: &'a [Vec<Fitted>],
    pub health: Health<'a>,
    pub stop: &'a Stop,
    pub progress: &'a Progress,
    pub path: &'a Path,
}

/// A unit in a period.
struct Turn<'a> {
    unit: usize,
    arm: usize,
    service: &'a Service,
    fitted: &'a Fitted,
    running: Running,
    since: Instant,
    looks: Vec<(f64, Memory)>,
    /// The numbers that the user's lines said, each by its place.
    said: Vec<Vec<f64>>,
}

impl Run<'_> {
    /// All periods that are left.
    pub fn periods(&self, state: &mut State) -> Result<(), Cut> {
        let periods = state.schedule.periods();
        self.progress.begin(periods);
        (0..state.finished.len()).for_each(|_| self.progress.cell_done());
        for period in state.finished.len()..periods {
            self.progress.cell(&format!("period {} of {periods}", period + 1));
            let kept = self.period(state, period)?;
            state.finished.push(kept);
            state.save(self.path)?;
            self.progress.cell_done();
        }
        Ok(())
    }

    fn period(&self, state: &mut State, period: usize) -> Result<Vec<Kept>, Cut> {
        let schedule = state.schedule.clone();
        let mut turns: Vec<Turn> = Vec::new();
        for unit in schedule.order(period) {
            let arm = schedule.arm(unit, period);
            let at = || self.services.get(unit).zip(self.fitted.get(unit)?.get(arm));
            let (service, fitted) =
                at().ok_or_else(|| Cut::Because("the plan has more units than there are".to_owned()))?;
            self.well(service)?;
            self.progress.step(&format!("{} is restarted on {}", service.name(), fitted.arm.name));
            if let Some(before) = state.units.get_mut(unit) {
                before.is_changed = true;
            }
            state.save(self.path)?;
            let running = self.machine.put(service, fitted)?;
            turns.push(Turn {
                unit,
                arm,
                service,
                fitted,
                running,
                since: Instant::now(),
                looks: Vec::new(),
                said: Vec::new(),
            });
            self.well(service)?;
        }
        self.pass(&mut turns, schedule.washout_seconds, "washout", None)?;
        let begin: Vec<Moment> = turns.iter().map(|turn| self.moment(turn)).collect();
        // The figures of the washout do not count.
        turns.iter_mut().for_each(|turn| (turn.looks, turn.said) = (Vec::new(), Vec::new()));
        let between = (schedule.measured_seconds() / LOOKS).clamp(LEAST_BETWEEN, MOST_BETWEEN);
        self.pass(&mut turns, schedule.measured_seconds(), "measured", Some((between, state)))?;
        let end: Vec<Moment> = turns.iter().map(|turn| self.moment(turn)).collect();
        let mut kept: Vec<(usize, Kept)> = Vec::new();
        for ((turn, begin), end) in turns.iter().zip(&begin).zip(&end) {
            let verdict = self.machine.proved(turn.service, &turn.fitted.arm, &turn.running)?;
            let mut readings = said(turn, state);
            readings.extend(begin.until(end));
            readings.extend(remembered(&turn.looks));
            let course = turn.looks.iter().map(|(at, memory)| (*at, memory.rss, memory.pss)).collect();
            let readings = readings.iter().map(Number::of).collect();
            kept.push((
                turn.unit,
                Kept { arm: turn.arm, readings, stamp: verdict.stamp, notes: verdict.notes, course },
            ));
        }
        kept.sort_by_key(|(unit, _)| *unit);
        Ok(kept.into_iter().map(|(_, kept)| kept).collect())
    }

    fn moment(&self, turn: &Turn) -> Moment {
        Moment::of(self.machine.root, &turn.running.shown, turn.service.role)
    }

    /// Waits so long, with looks at what must not have changed, and at the memory where that is measured.
    fn pass(
        &self,
        turns: &mut [Turn],
        seconds: f64,
        what: &str,
        measured: Option<(f64, &State)>,
    ) -> Result<(), Cut> {
        let begin = Instant::now();
        let between = measured.map_or(1.0, |(between, _)| between);
        loop {
            for turn in turns.iter_mut() {
                self.machine
                    .is_the_same(turn.service, &turn.running)
                    .map_err(|why| format!("{why}, on {}", turn.fitted.arm.name))?;
                if let Some((_, state)) = measured {
                    let memory = look::memory(&look::processes(self.machine.root, &turn.running.shown));
                    turn.looks.push((turn.since.elapsed().as_secs_f64(), memory));
                    ask(turn, state)?;
                }
            }
            let left = seconds - begin.elapsed().as_secs_f64();
            self.progress.passing(&format!("{what}, {} left", span(left.max(0.0).ceil())));
            self.progress.still(what);
            if left <= 0.0 {
                return Ok(());
            }
            self.stop.sleep(Duration::from_secs_f64(left.min(between)))?;
        }
    }

    /// Waits until another unit may be restarted.
    fn well(&self, service: &Service) -> Result<(), Cut> {
        let begin = Instant::now();
        while let Some(complaint) = self.health.complaint(service) {
            if begin.elapsed() > self.machine.manager.limit {
                let limit = humantime::format_duration(self.machine.manager.limit);
                return Err(Cut::Because(format!(
                    "no health within {limit}, for {}: {complaint}",
                    service.name()
                )));
            }
            self.progress.passing(&format!("waiting for health: {complaint}"));
            self.progress.still(&format!("waiting for health: {complaint}"));
            self.stop.sleep(HEALTH_EVERY.min(self.machine.manager.limit))?;
        }
        Ok(self.stop.check()?)
    }

    /// Leaves every unit that was changed as it was. Returns those that could not be: unit and reason.
    pub fn put_back(&self, state: &mut State) -> Vec<(String, String)> {
        let mut left = Vec::new();
        let changed: Vec<usize> = (0..self.services.len())
            .filter(|unit| state.units.get(*unit).is_some_and(|before| before.is_changed))
            .collect();
        // All files first: should this be cut off, the next restart of each leads back.
        let mut written = Vec::new();
        for unit in changed {
            let (Some(service), Some(before)) = (self.services.get(unit), state.units.get(unit)) else {
                continue;
            };
            match self.machine.write(service, &before.files) {
                Ok(()) => written.push((unit, service)),
                Err(why) => left.push((service.name().to_owned(), why)),
            }
        }
        for (unit, service) in written {
            if let Err(NoUnit::Unknown { .. }) = systemd::find(self.machine.root, &service.unit.name) {
                self.progress.say(&format!(
                    "vcm: {} is not installed any more; its files are as before",
                    service.name()
                ));
                if let Some(before) = state.units.get_mut(unit) {
                    before.is_changed = false;
                }
                let _ = state.save(self.path);
                continue;
            }
            match self.wait_for_health(service).and_then(|()| self.machine.restart(service)) {
                Ok(_) => {
                    let back = format!("vcm: {} is as it was before, and restarted", service.name());
                    self.progress.say(&back);
                    if let Some(before) = state.units.get_mut(unit) {
                        before.is_changed = false;
                    }
                    let _ = state.save(self.path);
                }
                Err(why) => left.push((service.name().to_owned(), why)),
            }
        }
        left
    }

    /// On the way back nobody can be asked to wait longer than the limit, and the unit may be what ails.
    fn wait_for_health(&self, service: &Service) -> Result<(), String> {
        let begin = Instant::now();
        let mut is_told = false;
        let is_down =
            |shown: Result<manager::Shown, String>| shown.is_ok_and(|shown| shown.active != "active");
        while let Some(complaint) = self.health.complaint(service) {
            if is_down(self.machine.manager.show(service.name())) {
                return Ok(());
            }
            if begin.elapsed() > self.machine.manager.limit {
                return Err(format!("its files are as they were, but it was not restarted: {complaint}"));
            }
            let waiting =
                format!("{} is restarted as it was before when health allows: {complaint}", service.name());
            // The user who asked for the end is waiting for the prompt.
            if !std::mem::replace(&mut is_told, true) {
                self.progress.say(&format!("vcm: {waiting}"));
            }
            self.progress.passing(&waiting);
            self.progress.still(&waiting);
            std::thread::sleep(HEALTH_EVERY.min(self.machine.manager.limit));
        }
        Ok(())
    }
}

/// The user's lines, each of which prints a number.
fn ask(turn: &mut Turn, state: &State) -> Result<(), Cut> {
    let lines: Vec<&String> = state.wanted.more.iter().chain(&state.wanted.less).collect();
    turn.said.resize(lines.len(), Vec::new());
    let main = turn.running.shown.main.to_string();
    let variables =
        [("UNIT", turn.service.name()), ("INSTANCE", turn.service.instance()), ("MAINPID", &main)];
    for (place, text) in lines.into_iter().enumerate() {
        let (name, line) = named(text);
        let limit = Duration::from_secs_f64(state.wanted.limit_seconds);
        let ended = manager::shell(line, &variables, limit)?;
        let number = ended
            .output
            .split_ascii_whitespace()
            .next_back()
            .and_then(|word| word.replace(',', "").parse::<f64>().ok());
        match number.filter(|number| ended.is_well && number.is_finite()) {
            Some(number) => turn.said.get_mut(place).into_iter().for_each(|said| said.push(number)),
            None => {
                let said = last_line(&ended.errors, &ended.output);
                return Err(Cut::Because(format!(
                    "--metric '{name}' printed no number for {}: {said}",
                    turn.service.name()
                )));
            }
        }
    }
    Ok(())
}

/// `NAME: LINE`, or a line that is its own name.
pub fn named(text: &str) -> (&str, &str) {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || " _-./%".contains(letter))
    };
    match text.split_once(": ") {
        Some((name, line)) if is_name(name) && !line.trim().is_empty() => (name.trim(), line.trim()),
        _ => (text, text),
    }
}

fn said(turn: &Turn, state: &State) -> Vec<Reading> {
    let more = state.wanted.more.iter().map(|text| (text, Better::More));
    let lines = more.chain(state.wanted.less.iter().map(|text| (text, Better::Less)));
    lines
        .zip(&turn.said)
        .filter_map(|((text, better), said)| Some(Reading::new(named(text).0, "", better, median(said)?)))
        .collect()
}

fn remembered(looks: &[(f64, Memory)]) -> Vec<Reading> {
    let less = |name: &str, value| Reading::new(name, "B", Better::Less, value);
    let of = |part: fn(&Memory) -> f64| looks.iter().map(|(_, memory)| part(memory)).collect::<Vec<_>>();
    let (rss, pss) = (of(|memory| memory.rss), of(|memory| memory.pss));
    let mut readings = Vec::new();
    readings.extend(median(&rss).map(|value| less("RSS", value)));
    readings.extend(median(&pss).map(|value| less("PSS", value)));
    readings.extend(maximum(&rss).map(|value| less("greatest RSS", value)));
    let heaps: Vec<[f64; 3]> = looks.iter().filter_map(|(_, memory)| memory.heap).collect();
    for (at, name) in HEAP.iter().enumerate() {
        let values: Vec<f64> = heaps.iter().filter_map(|heap| heap.get(at).copied()).collect();
        readings.extend(median(&values).map(|value| less(name, value)));
    }
    readings
}
