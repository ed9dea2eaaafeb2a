//! `vcm compare --systemd`: services that run already take turns under each arm. See docs/design/crossover.md.
//!
//! ```text
//! manager    systemctl                      schedule   who has which arm when
//! units      the services                   arms       what an arm is for each
//! health     may another be restarted       look       what a service uses; daemons, what storage daemons count
//! change     one service put on an arm      state      what must outlive this process
//! course     the periods, and the way back  report     what was found, and the plan
//! ```

mod arms;
mod change;
mod course;
mod daemons;
mod health;
mod look;
mod manager;
mod report;
mod schedule;
mod state;
mod units;

use crate::cli::compare::Compare;
use crate::html;
use arms::{Fitted, Side};
use change::Machine;
use course::{Cut, Run};
use health::Health;
use manager::Manager;
use schedule::Schedule;
use state::{Before, State, Wanted};
use std::path::Path;
use std::time::Duration;
use units::Service;
use vcm_front::say::{self, FAILURE, Failure, INTERRUPTED, NOT_UNDERSTOOD, Outcome};
use vcm_inspect::root::Root;
use vcm_inspect::systemd;
use vcm_measure::progress::Progress;
use vcm_measure::stop::Stop;

/// A unit could not be left as it was.
const NOT_PUT_BACK: u8 = 3;

pub fn crossover(arguments: &Compare) -> Outcome {
    let given = &arguments.services;
    let root = given.root.as_ref().map_or_else(Root::real, Root::at);
    let manager = Manager { limit: arguments.limit };
    let may_change = given.yes || given.resume || given.put_back;
    able(&root, may_change)?;
    let left = State::load(&given.state)?;
    if given.put_back {
        return put_back(&root, &manager, &given.state, left);
    }
    if let Some(left) = &left {
        let shown = given.state.display();
        if left.is_worked_on() {
            return Err(refused(format!(
                "a run over {} is in progress (process {}, {shown})",
                left.names(),
                left.owner.0
            )));
        }
        if !given.resume && given.yes {
            let done = format!("{} of {} periods had finished", left.finished.len(), left.schedule.periods());
            let lies = if left.is_changed() { "; its drop-ins may still lie there" } else { "" };
            return Err(refused(format!(
                "{shown}: a run over {} was interrupted, {done}{lies}. 'vcm compare --resume' continues it, 'vcm \
                 compare --put-back' restores its units and discards it",
                left.names()
            )));
        }
    }
    if given.resume {
        let state = left.ok_or_else(|| refused(format!("{}: no run to resume", given.state.display())))?;
        return resume(arguments, &root, &manager, state);
    }
    begin(arguments, &root, &manager)
}

/// Checks what must hold before anything else is looked at.
fn able(root: &Root, may_change: bool) -> Result<(), Failure> {
    if !systemd::is_running(root) {
        return Err(refused(
            "systemd does not run here (no /run/systemd/system), so there are no services to \
         compare"
                .to_owned(),
        ));
    }
    if may_change && root.is_real() && !nix::unistd::geteuid().is_root() {
        return Err(refused(
            "only root may write drop-ins and restart services: run it with sudo".to_owned(),
        ));
    }
    Ok(())
}

fn refused(reason: String) -> Failure {
    Failure::new(FAILURE, reason)
}

fn begin(arguments: &Compare, root: &Root, manager: &Manager) -> Outcome {
    let given = &arguments.services;
    let names = units::names(&given.systemd)?;
    let sides = arms::sides(arguments)?;
    let schedule = Schedule::of(names.len(), sides.len(), given)?;
    html::look(arguments.html.as_deref(), None)?;
    let services = services(root, manager, &names)?;
    let fitted = fitted(root, &services, &sides, arguments.library.as_deref())?;
    let is_ceph = services.iter().any(|service| service.role.is_ceph()) && given.health.is_none();
    let health_before = if is_ceph { health::checks().map_err(refused)? } else { Vec::new() };
    let health = Health { line: given.health.as_deref(), known: &health_before };
    let plan = report::plan(&services, &sides, &fitted, &schedule, &health);
    if !given.yes {
        return say::result(&format!(
            "{plan}\nNothing was changed. To run it: the same command with --yes, as root; use tmux or \
             systemd-run to survive a lost\nconnection. 'vcm compare --resume' continues an interrupted run.\n"
        ));
    }
    say::line(&plan);
    let wanted = Wanted {
        arms: arguments.allocators.clone(),
        sweep: arguments.sweep.clone(),
        library: arguments.library.clone(),
        health: given.health.clone(),
        more: arguments.metric.clone(),
        less: arguments.cost.clone(),
        limit_seconds: arguments.limit.as_secs_f64(),
    };
    let before = services.iter().map(|service| Before {
        unit: service.name().to_owned(),
        files: service.before.clone(),
        is_changed: false,
    });
    let state = State::new(wanted, schedule, before.collect(), health_before);
    state.save(&given.state)?;
    go(arguments, root, manager, &services, (&sides, &fitted), state)
}

fn resume(arguments: &Compare, root: &Root, manager: &Manager, mut state: State) -> Outcome {
    // The arguments of the first start hold.
    let then = Compare {
        allocators: state.wanted.arms.clone(),
        sweep: state.wanted.sweep.clone(),
        library: state.wanted.library.clone(),
        ..typed_again()
    };
    let manager = &Manager {
        limit: Duration::from_secs_f64(state.wanted.limit_seconds)
            .max(manager.limit.min(Duration::from_secs(1))),
    };
    html::look(arguments.html.as_deref(), None)?;
    let sides = arms::sides(&then)?;
    if sides.len() != state.schedule.arms {
        return Err(refused("the arms of that run differ from those found now".to_owned()));
    }
    let names: Vec<String> = state.units.iter().map(|before| before.unit.clone()).collect();
    let mut services = services(root, manager, &names)?;
    for (service, before) in services.iter_mut().zip(&state.units) {
        // The files that lie there now may be the run's own.
        service.before = before.files.clone();
    }
    let fitted = fitted(root, &services, &sides, state.wanted.library.as_deref())?;
    state.adopt();
    state.save(&arguments.services.state)?;
    go(arguments, root, manager, &services, (&sides, &fitted), state)
}

/// Nothing but defaults.
fn typed_again() -> Compare {
    use clap::{Args, FromArgMatches};
    let command = Compare::augment_args(clap::Command::new("compare"));
    let matches = command.get_matches_from(["compare", "--put-back"]);
    Compare::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn services(root: &Root, manager: &Manager, names: &[String]) -> Result<Vec<Service>, Failure> {
    let mut services: Vec<Service> = Vec::new();
    for name in names {
        let service = units::checked(root, manager, name)?;
        if let Some(twin) = services.iter().find(|other| other.unit.name == service.unit.name) {
            return Err(Failure::new(NOT_UNDERSTOOD, format!("{name} is another name of {}", twin.name())));
        }
        services.push(service);
    }
    Ok(services)
}

fn fitted(
    root: &Root,
    services: &[Service],
    sides: &[Side],
    library: Option<&Path>,
) -> Result<Vec<Vec<Fitted>>, Failure> {
    let of_unit = |service: &Service| sides.iter().map(|side| side.fitted(root, service, library)).collect();
    services.iter().map(of_unit).collect()
}

/// Runs what is left of it, leaves the units as they were, and reports.
fn go(
    arguments: &Compare,
    root: &Root,
    manager: &Manager,
    services: &[Service],
    (sides, fitted): (&[Side], &[Vec<Fitted>]),
    mut state: State,
) -> Outcome {
    let path = &arguments.services.state;
    let stop = Stop::on_signals().map_err(|error| refused(format!("{error:#}")))?;
    let progress = Progress::new();
    let line = state.wanted.health.clone();
    let known = state.health_before.clone();
    let health = Health { line: line.as_deref(), known: &known };
    let machine = Machine { root, manager };
    let run = Run { machine, services, fitted, health, stop: &stop, progress: &progress, path };
    let done = run.periods(&mut state);
    let left = run.put_back(&mut state);
    progress.end();
    let is_whole = done.is_ok();
    let table = report::table(sides, &state);
    let has_any = !state.finished.is_empty();
    let written = html::write(arguments.html.as_deref().filter(|_| has_any), || {
        report::page(&table, sides, &state, is_whole)
    });
    if has_any {
        let text = if arguments.json {
            report::as_json(&table, sides, &state, is_whole)
        } else {
            report::text(&table, sides, &state, arguments.all)
        };
        say::result(&text)?;
    }
    written?;
    if !left.is_empty() {
        return Err(not_put_back(&state, services, &left, path));
    }
    let resumable = if !is_whole && has_any {
        "; 'vcm compare --resume' continues, 'vcm compare --put-back' discards it"
    } else {
        ""
    };
    if resumable.is_empty() {
        State::remove(path)?;
    }
    let finished = format!(
        "the units are as they were before; {} of {} periods had finished{resumable}",
        state.finished.len(),
        state.schedule.periods()
    );
    match done {
        Ok(()) => Ok(0),
        Err(Cut::Stopped) => Err(Failure::new(INTERRUPTED, format!("stopped by a signal; {finished}"))),
        Err(Cut::Because(reason)) => Err(refused(format!("{reason}\nvcm: {finished}"))),
    }
}

fn not_put_back(state: &State, services: &[Service], left: &[(String, String)], path: &Path) -> Failure {
    let mut text = String::from("not every unit could be restored:");
    for (unit, why) in left {
        text += &format!("\n  {unit}: {why}");
        let place =
            services.iter().find(|service| service.name() == unit).map(|service| service.place.file());
        let had = state
            .units
            .iter()
            .find(|before| before.unit == *unit)
            .is_some_and(|before| !before.files.is_empty());
        if let Some(place) = place {
            let lies = if place.exists() {
                format!("{} lies there", place.display())
            } else {
                format!("{} does not lie there", place.display())
            };
            text += &format!(
                "\n    {lies}; by hand: {}sudo systemctl daemon-reload && sudo systemctl restart {unit}",
                if had { String::new() } else { format!("sudo vcm disable {unit} && ") }
            );
        }
    }
    text += &format!("\n'vcm compare --put-back' tries again ({})", path.display());
    Failure::new(NOT_PUT_BACK, text)
}

/// A unit whose file is not there any more.
fn gone(name: &str) -> systemd::Unit {
    let name = name.strip_suffix(".service").unwrap_or(name);
    systemd::Unit {
        name: format!("{name}.service"),
        asked_as: None,
        file: Default::default(),
        drop_ins: Vec::new(),
    }
}

/// Without `--resume`: what a killed run, or a reboot, has left.
fn put_back(root: &Root, manager: &Manager, path: &Path, left: Option<State>) -> Outcome {
    let Some(mut state) = left else {
        return say::result(&format!("{}: no interrupted run; nothing to restore\n", path.display()));
    };
    if state.is_worked_on() {
        return Err(refused(format!(
            "a run over {} is in progress (process {}): end it with Ctrl-C, or kill -INT {}",
            state.names(),
            state.owner.0,
            state.owner.0
        )));
    }
    let mut services = Vec::new();
    for before in &state.units {
        let unit = match systemd::find(root, &before.unit) {
            Ok(unit) => unit,
            // Of a unit that was removed since only the files of ours are left.
            Err(systemd::NoUnit::Unknown { .. }) => gone(&before.unit),
            Err(why) => return Err(refused(crate::unit_plan::no_unit(root, &before.unit, "disable", &why))),
        };
        let place = crate::drop_in::Place::of(root, &unit.name);
        let role = units::role(root, &unit);
        services.push(Service { unit, place, role, before: before.files.clone() });
    }
    state.adopt();
    let (stop, progress) = (Stop::default(), Progress::new());
    let (line, known) = (state.wanted.health.clone(), state.health_before.clone());
    let health = Health { line: line.as_deref(), known: &known };
    let run = Run {
        machine: Machine { root, manager },
        services: &services,
        fitted: &[],
        health,
        stop: &stop,
        progress: &progress,
        path,
    };
    let was_changed = state.is_changed();
    let left = run.put_back(&mut state);
    progress.end();
    if !left.is_empty() {
        return Err(not_put_back(&state, &services, &left, path));
    }
    State::remove(path)?;
    let what = if was_changed { "are as they were before" } else { "were as before already" };
    say::result(&format!("{} {what}; the run is discarded\n", state.names()))
}
