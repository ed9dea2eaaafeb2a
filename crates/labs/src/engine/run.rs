//! From a request to an ending: the actions of a lab, and the loop over an experiment's cells.
//!
//! Owns the order of things: look, refuse or go on; prepare; cells; verdict; pages; undo. `vcm-lab` calls `act`.

use super::cell::Cell;
use super::experiment::{Control, Experiment, Point};
use super::journal::{self, Journal, Record, complain};
use super::lab::{ACTIONS, Lab, Tool, check_settings, with_defaults};
use super::namespaces::{self, Wanted};
use super::plan::{Choice, cells};
use super::request::{Request, check_flags, check_library, check_places};
use super::results::{Results, Row, SCHEMA};
use super::session::Session;
use super::understood::{self, NotUnderstood};
use super::{dry_run, page, space, verdict};
use anyhow::{Context, Result, bail};
use std::time::Instant;
use vcm_measure::machine::{Machine, package_version};
use vcm_measure::stop::{Stop, is_stopped};
use vcm_measure::tell;

/// How an action ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// The controls were not seen: there are rows, and they mean nothing.
    Void,
}

/// So many cells in a row may fail; after that the machine is at fault, not the cell.
const FAILURES_IN_A_ROW: usize = 3;

/// Comes back in another process than it was called in, where something is run: see `namespaces`.
pub fn act(lab: &'static Lab, request: Request) -> Result<Ending> {
    let request = request.grounded()?;
    check_settings(lab.settings, lab.name, &request)?;
    let experiment = match ACTIONS.contains(&request.action.as_str()) {
        true => None,
        false => Some(lab.experiment(&request.action)?),
    };
    if experiment.is_none() {
        check_flags(&request)?;
    }
    if request.action == "down" {
        return down(lab, &request);
    }
    if let (Some(experiment), Some(from)) = (experiment, &request.from) {
        return publish_again(&request, experiment, from);
    }
    let named = named(&request)?;
    if let (Some(experiment), true) = (experiment, request.plan) {
        let choice = chosen(experiment, &request, named);
        return dry_run::tell(lab, experiment, &request, &choice).map(|()| Ending::Done);
    }
    (lab.check)(&request)?;
    check_places(&request)?;
    let chosen = experiment.map(|experiment| chosen(experiment, &request, named));
    if let Some(choice) = &chosen {
        check_library(&request, &choice.allocators)?;
    }
    if let (Some(_), Some(out)) = (experiment, &request.out) {
        page::check_place(out)?;
    }
    clear_stale(lab, &request)?;
    let action = request.action.clone();
    let request = with_defaults(lab.settings, request);
    let wanted = match action.as_str() {
        "up" => Wanted::Own { stays: true },
        "run" => of_cluster(lab, &request)?,
        _ => Wanted::Own { stays: false },
    };
    let session = begin(lab, request, wanted)?;
    let done = match (experiment, chosen) {
        (Some(experiment), Some(choice)) => perform(&session, experiment, &choice),
        _ if action == "up" => {
            // Kept or not is decided by `Session::keep`, the last thing that `up` does.
            return (lab.up)(&session).map(|()| Ending::Done).or_else(|error| fail(&session, error));
        }
        _ => (lab.run)(&session).map(|()| Ending::Done),
    };
    match done {
        Ok(ending) => session.end().map(|()| ending),
        Err(error) => fail(&session, error),
    }
}

/// The rows stay as they were measured; verdict and pages are those of today's declaration.
fn publish_again(request: &Request, experiment: &Experiment, from: &std::path::Path) -> Result<Ending> {
    let text = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let mut results: Results =
        serde_json::from_slice(&text).with_context(|| format!("{} has no results", from.display()))?;
    if results.experiment != experiment.name {
        bail!(
            "{} is from the experiment '{}', not '{}'",
            from.display(),
            results.experiment,
            experiment.name
        );
    }
    results.verdict = verdict::judge(experiment, &results.rows);
    page::publish(request, experiment, &results)?;
    Ok(if results.verdict.void.is_empty() { Ending::Done } else { Ending::Void })
}

/// A tool's way: no experiment, no cluster, the same care.
pub fn act_tool(tool: &'static Tool, request: Request) -> Result<Ending> {
    let request = request.grounded()?;
    check_settings(tool.settings, tool.name, &request)?;
    (tool.check)(&request)?;
    check_places(&request)?;
    clear_stale(tool.lab, &request)?;
    let request = with_defaults(tool.settings, request);
    let session = begin(tool.lab, request, Wanted::Own { stays: false })?;
    match (tool.run)(&session) {
        Ok(()) => session.end().map(|()| Ending::Done),
        Err(error) => fail(&session, error),
    }
}

fn begin(lab: &'static Lab, request: Request, wanted: Wanted) -> Result<Session> {
    // Nobody else is seen from inside.
    let lives_here = (lab.lives_here)();
    let journal = Journal::begin(&request.state, lab.name, &request.action)?;
    let outside = namespaces::enter(&journal, wanted)?;
    Session::begin(lab.name, lives_here, request, (journal, outside), Stop::on_signals()?)
}

/// The namespaces of the lab's cluster, unless the settings point at somebody else's.
fn of_cluster(lab: &Lab, request: &Request) -> Result<Wanted> {
    if lab.elsewhere.is_some_and(|setting| request.settings.contains_key(setting)) {
        return Ok(Wanted::None);
    }
    let up = journal::found(&request.state, lab.name)?.into_iter().find(Record::is_up);
    Ok(up.and_then(|found| found.holder).map_or(Wanted::None, Wanted::Of))
}

fn fail(session: &Session, error: anyhow::Error) -> Result<Ending> {
    if is_stopped(&error) {
        session.say("stopping: cleaning up");
    }
    match session.end() {
        Ok(()) => Err(error),
        Err(left) => Err(error.context(left)),
    }
}

/// Journals of runs that were killed; and a cluster that is up keeps another from coming up.
fn clear_stale(lab: &Lab, request: &Request) -> Result<()> {
    for found in journal::found(&request.state, lab.name)? {
        if found.is_up() && request.action == "up" {
            bail!(
                "a {0} cluster is up already: `vcm lab {0} run` uses it, `vcm lab {0} down` ends it",
                lab.name
            );
        }
        if found.is_live() && found.what == "up" && request.action == "up" {
            bail!("a {} cluster is being brought up by pid {}", lab.name, found.owner.pid);
        }
        if !found.is_live() {
            found.check_rights()?;
            let what = &found.what;
            tell::line(&format!("cleaning up after an earlier run (`{what}`, killed)"));
            complain(found.replay())?;
        }
    }
    Ok(())
}

fn down(lab: &Lab, request: &Request) -> Result<Ending> {
    let journals = journal::found(&request.state, lab.name)?;
    if journals.is_empty() {
        tell::line(&format!("nothing of the {} lab is left", lab.name));
    }
    let (running, over): (Vec<_>, Vec<_>) =
        journals.into_iter().partition(|found| !found.kept && found.owner_is_alive());
    // Looked at before anything is undone: a run may be using the cluster that is up. An experiment has its own.
    for found in &running {
        let (what, owner) = (&found.what, found.owner.pid);
        if over.is_empty() || ["up", "run"].contains(&what.as_str()) {
            bail!(
                "`{what}` is running (pid {owner}); stop it with Ctrl-C or `kill {owner}`, it cleans up itself"
            );
        }
        tell::line(&format!("`{what}` (pid {owner}) continues with its own cluster"));
    }
    over.iter().try_for_each(|found| found.check_rights())?;
    let mut failed = Vec::new();
    for found in over {
        tell::line(&format!("undoing `{}`", found.what));
        failed.extend(found.replay());
    }
    complain(failed)?;
    Ok(Ending::Done)
}

/// The allocators asked for.
fn named(request: &Request) -> Result<Vec<&'static str>, NotUnderstood> {
    request.allocators.iter().map(|name| Ok(understood::allocator(name)?.name)).collect()
}

/// And those that the controls need.
fn chosen(experiment: &'static Experiment, request: &Request, mut names: Vec<&'static str>) -> Choice {
    if names.is_empty() {
        names = experiment.allocators.to_vec();
    }
    let points = |control: &Control| [control.higher, control.lower];
    for Point { allocator, .. } in experiment.controls.iter().flat_map(points) {
        if !names.contains(&allocator) {
            tell::line(&format!("{allocator} is added, as the controls need it"));
            names.push(allocator);
        }
    }
    Choice { quick: request.quick, repetitions: request.repetitions, allocators: names }
}

/// An experiment on its way: what was measured so far.
struct Course<'a> {
    session: &'a Session,
    experiment: &'static Experiment,
    choice: &'a Choice,
    begin: (Instant, chrono::DateTime<chrono::Local>),
    rows: Vec<Row>,
    failures: Vec<String>,
}

fn perform(session: &Session, experiment: &'static Experiment, choice: &Choice) -> Result<Ending> {
    let begin = (Instant::now(), chrono::Local::now());
    ensure_packages(session, experiment, choice)?;
    for name in &choice.allocators {
        session.allocator(name)?;
    }
    (experiment.prepare)(session)?;
    note_library(session);
    let (rows, failures) = (Vec::new(), Vec::new());
    let mut course = Course { session, experiment, choice, begin, rows, failures };
    let cells = cells(experiment, choice);
    let ended = course.run_cells(&cells);
    if let Err(error) = &ended {
        // Hours of measuring are not thrown away for a Ctrl-C.
        if course.rows.is_empty() || session.request().out.is_none() {
            return ended.map(|()| Ending::Void);
        }
        session.note(format!("This run did not finish: {error:#}. It has the cells before that."));
    }
    let fixture = session.end_fixture();
    session.progress().end();
    let results = course.results();
    page::publish(session.request(), experiment, &results)?;
    ended.and(fixture)?;
    match results.failures.len() {
        _ if !results.verdict.void.is_empty() => Ok(Ending::Void),
        0 => Ok(Ending::Done),
        // A reader of the exit code alone must not take missing cells for measured.
        failed => bail!("{failed} of {} cells failed; the results are those of the others", cells.len()),
    }
}

fn ensure_packages(session: &Session, experiment: &Experiment, choice: &Choice) -> Result<()> {
    let own = experiment.packages.iter().map(|package| (package.name.to_owned(), package.why.to_owned()));
    let mut packages: Vec<(String, String)> = own.collect();
    for name in &choice.allocators {
        let declaration = understood::allocator(name)?;
        let there = session.allocator(name).is_ok();
        let Some(package) = declaration.package() else { continue };
        // A library that came by other means than its package will do.
        match (there, package_version(package, None)) {
            (true, Some(version)) => session.version(package, version),
            (true, None) => {}
            (false, _) => packages.push((package.to_owned(), format!("the allocator {name}"))),
        }
    }
    session.packages(&packages)
}

/// Notes the build that took part: what library and tool say of themselves, with their commit.
fn note_library(session: &Session) {
    let request = session.request();
    let unknown = || "an unknown version".to_owned();
    if session.library().is_ok() {
        session.version("vcmalloc", request.library_version.clone().unwrap_or_else(unknown));
    }
    if !request.tool_version.is_empty() {
        session.version("vcm", request.tool_version.clone());
    }
}

impl Course<'_> {
    fn run_cells(&mut self, cells: &[Cell]) -> Result<()> {
        let session = self.session;
        let mut in_a_row = 0;
        session.progress().begin(cells.len());
        for cell in cells {
            session.check()?;
            session.progress().cell(&cell.tell());
            match (self.experiment.cell)(session, cell) {
                Ok(taken) => {
                    self.rows.extend(taken);
                    in_a_row = 0;
                }
                Err(error) if is_stopped(&error) => return Err(error),
                Err(error) => {
                    session.say(&format!("failed: {}: {error:#}", cell.tell()));
                    self.failures.push(format!("{}: {error:#}", cell.tell()));
                    in_a_row += 1;
                    let full = space::fullness(session.directory());
                    session.end_fixture()?;
                    if let Some(full) = full {
                        return Err(error).context(format!("giving up, as {full}"));
                    }
                    if in_a_row == FAILURES_IN_A_ROW {
                        return Err(error)
                            .context(format!("{in_a_row} cells in a row failed, giving up; the last"));
                    }
                }
            }
            self.keep();
            session.progress().cell_done();
        }
        Ok(())
    }

    /// Keeps the rows so far: they survive whatever ends this run, a kill, a panic, the power.
    fn keep(&self) {
        let Some(out) = self.session.request().out.as_ref().filter(|_| !self.rows.is_empty()) else { return };
        let mut results = self.results();
        results.notes.push("This run did not finish. It has the cells before that.".to_owned());
        if let Err(error) = page::keep(out, &results) {
            self.session.say(&format!("the finished cells are not saved: {error:#}"));
        }
    }

    fn results(&self) -> Results {
        let (session, choice) = (self.session, self.choice);
        Results {
            schema: SCHEMA,
            lab: session.lab().to_owned(),
            experiment: self.experiment.name.to_owned(),
            title: self.experiment.title.to_owned(),
            release: session.request().settings.get("release").cloned().unwrap_or_default(),
            date: self.begin.1.to_rfc3339_opts(chrono::SecondsFormat::Secs, false),
            seconds: self.begin.0.elapsed().as_secs_f64().round(),
            command: session.request().command.clone(),
            plan: if choice.quick { "quick" } else { "full" }.to_owned(),
            machine: Machine::this(),
            versions: session.versions(),
            allocators: choice.allocators.iter().map(|name| name.to_string()).collect(),
            verdict: verdict::judge(self.experiment, &self.rows),
            rows: self.rows.clone(),
            notes: session.notes(),
            failures: self.failures.clone(),
        }
    }
}
