//! Whole programs on each allocator: one declared table, and the runner.
//!
//! ```text
//!   table (what is run) ─┐
//!   ground, inputs ──────┼─► run: turns, trials and proofs of vcm-measure ─► row (one run) ─► report (tables)
//!   columns, tracer ─────┘
//! ```
//!
//! A run counts only if the witness of vcm-measure has seen the allocator serve the program, or, of a program in Rust, if the
//! program says which it has.

pub mod choice;
mod columns;
mod ground;
mod inputs;
mod program;
mod report;
mod row;
mod servers;
pub mod table;
mod tracer;
mod untuned;

use crate::harness::origin::Origin;
use crate::harness::shelf::{self, Folder, open_rows};
use anyhow::{Context, Result, ensure};
use choice::Choice;
use columns::Column;
use ground::Ground;
use row::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use table::{Figure, Program};
use tracer::Tracer;
use vcm_measure::allocators::Places;
use vcm_measure::progress::Progress;
use vcm_measure::spoken::Regex;
use vcm_measure::stop::Stop;
use vcm_measure::tree::adopt_orphans;
use vcm_measure::trial::{self, Failed, Job, Ready, Service};
use vcm_measure::turns::interleaved;

/// For everything that a run waits for.
const LIMIT: Duration = Duration::from_secs(240);

/// Runs the chosen programs on the chosen allocators in turn, and writes the folder of the run.
pub fn run(choice: &Choice, places: &Places) -> Result<()> {
    let programs = table::chosen(&choice.only);
    ensure!(
        !programs.is_empty(),
        "no program is called so; `--only {} --list` prints all",
        table::SETS.join(",")
    );
    if choice.list {
        for Program { name, sets, needs, threads, operations: (many, what), .. } in programs {
            println!("{name}  [{sets}]  {many} {what}, {threads} at a time; needs {needs}");
        }
        return Ok(());
    }
    ensure!(choice.rounds > 0, "--rounds 0 measures nothing; give 1 or more");
    columns::understood(&choice.allocators)?;
    let ground = Ground::new()?;
    let programs: Vec<&Program> = programs.into_iter().filter(|program| is_here(program, &ground)).collect();
    let mut columns = Vec::new();
    if programs.iter().any(|program| !is_in_rust(program)) {
        columns.extend(columns::preloads(choice, places, ground.folder())?);
    }
    if programs.iter().any(|program| is_in_rust(program)) {
        columns.extend(columns::crates(&choice.allocators, places)?);
    }
    ensure!(!columns.is_empty(), "no program and no allocator is left");
    for name in programs.iter().flat_map(|program| program.made.split_whitespace()).collect::<BTreeSet<_>>() {
        inputs::make(name, &ground).with_context(|| format!("cannot make {name}"))?;
    }
    let (folder, file) = Folder::new(choice.out.as_deref(), &places.ours, "programs")?;
    let session = Session { programs, columns, ground };
    let (rows, stopped) = session.run(choice.rounds, file)?;
    let versions = session
        .columns
        .iter()
        .filter_map(|column| Some(format!("- {}: {}", column.arm.name, column.version.as_ref()?)));
    let lines = shelf::origin("vcm-bench", &places.ours).into_iter().chain(versions);
    let names: Vec<&str> = session.columns.iter().map(|column| column.arm.name.as_str()).collect();
    let about = match stopped {
        None => format!("Medians of {} interleaved rounds.", choice.rounds),
        Some(round) => format!("Stopped in round {round} of {} interleaved ones.", choice.rounds),
    };
    let about = Origin::here(&names, places).led_by(lines).around(&about);
    folder.write(&about, None, &report::markdown(&rows, choice.against.as_deref()))?;
    ensure!(rows.iter().any(Row::is_finished), "no run counts; the page gives the reasons");
    ensure!(stopped.is_none(), "stopped; the page has what was measured until then");
    Ok(())
}

/// The tables of an earlier run, of the scripts' too; none if these rows are of something else.
pub fn rendered(raw: &Path) -> Option<String> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(open_rows(raw).ok()?);
    let rows: Vec<Row> = reader.deserialize().collect::<Result<_, _>>().ok()?;
    (!rows.is_empty()).then(|| report::markdown(&rows, None))
}

fn is_here(program: &Program, ground: &Ground) -> bool {
    let lacking = ground.lacks(program);
    let group =
        if ["idle", "untuned", "servers"].contains(&program.sets) { program.sets } else { "programs" };
    if let Some(reason) = &lacking {
        eprintln!("without {}: {reason}; `scripts/setup {}` installs what it can", program.name, group);
    }
    lacking.is_none()
}

fn is_in_rust(program: &Program) -> bool {
    program.figure == Figure::Crate
}

struct Session {
    programs: Vec<&'static Program>,
    columns: Vec<Column>,
    ground: Ground,
}

impl Session {
    /// The rows, and in which round a signal ended the measurement. Each row is in the file before the next run starts. What
    /// failed once is not tried again.
    fn run(&self, rounds: usize, raw: std::fs::File) -> Result<(Vec<Row>, Option<usize>)> {
        adopt_orphans()?;
        let (stop, progress, mut writer) =
            (Stop::on_signals()?, Progress::new(), csv::Writer::from_writer(raw));
        let of = |program: &&Program| {
            self.columns.iter().filter(|column| column.rust.is_some() == is_in_rust(program)).collect()
        };
        let turns = interleaved(rounds, &self.programs, of);
        progress.begin(turns.len());
        let (mut rows, mut computed): (Vec<Row>, BTreeMap<&str, String>) = (Vec::new(), BTreeMap::new());
        let mut stopped = None;
        for turn in turns {
            let (program, column) = (*turn.case, turn.allocator);
            let is_it = |row: &Row| row.program == program.name && row.allocator == column.arm.name;
            if !rows.iter().any(|row| is_it(row) && !row.is_finished()) {
                progress.cell(&format!(
                    "round {} of {rounds}, {} on {}",
                    turn.pass + 1,
                    program.name,
                    column.arm.name
                ));
                let (mut done, stops) = self.once(program, column, &stop);
                if matches!(done, Err(Failed::Stopped)) {
                    stopped = Some(turn.pass + 1);
                    break;
                }
                if let Ok(trial) = &done
                    && is_in_rust(program)
                {
                    let number = row::computed(&trial.said).unwrap_or_default().to_owned();
                    let first = computed.entry(program.name).or_insert_with(|| number.clone());
                    if *first != number {
                        done = Err(Failed::Because(format!("it computed {number}, and {first} before")));
                    }
                }
                let row = Row::of(turn.pass, program.name, &column.arm.name, done, stops);
                if !row.is_finished() {
                    progress.say(&format!(
                        "{} on {} does not count: {}",
                        row.program, row.allocator, row.outcome
                    ));
                }
                writer.serialize(&row)?;
                writer.flush()?;
                rows.push(row);
            }
            progress.cell_done();
        }
        progress.end();
        Ok((rows, stopped))
    }

    fn once(
        &self,
        program: &Program,
        column: &Column,
        stop: &Stop,
    ) -> (Result<trial::Trial, Failed>, Option<u64>) {
        let mut tracer = match (column.is_traced, &column.arm.library) {
            (true, Some(library)) => match Tracer::attach(library) {
                Ok(tracer) => Some(tracer),
                Err(error) => return (Err(error.into()), None),
            },
            _ => None,
        };
        if !program.scratch.is_empty() {
            let _ = std::fs::remove_dir_all(self.ground.folder().join(program.scratch));
        }
        let done = match self.job(program, column) {
            Ok(job) => trial::run(&job, &column.arm, &|| stop.is_asked()),
            Err(error) => Err(error.into()),
        };
        (done, tracer.as_mut().map(Tracer::stops))
    }

    fn job(&self, program: &Program, column: &Column) -> Result<Job> {
        let rust = column.rust.clone().unwrap_or_default();
        let filled = |words: &str| self.ground.filled(words, program, &rust);
        let word = |word: &str| match word.strip_prefix("{script:").and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => inputs::text(name).unwrap_or_default().to_owned(),
            None if word == "''" => String::new(),
            None => filled(word),
        };
        let regex = |words: &str| Regex::new(words).with_context(|| format!("'{words}' of {}", program.name));
        let service = |server: &table::Server| -> Result<Service> {
            let ready = match server.ready {
                "" => Ready::Port(self.ground.port),
                words => Ready::Says(regex(words)?),
            };
            let loaded = Some(server.loaded).filter(|words| !words.is_empty()).map(regex).transpose()?;
            let load = format!("cd {}; {}", self.ground.folder().display(), filled(server.load));
            Ok(Service {
                ready,
                load,
                loaded,
                idle: Duration::from_secs(server.idle_seconds),
                end: server.end,
            })
        };
        let given = ["LC_ALL=C"].into_iter().chain(program.environment.split_whitespace());
        let says = matches!(program.figure, Figure::Pair | Figure::Crate)
            || program.server.is_some_and(|server| !server.ready.is_empty());
        Ok(Job {
            command: program.command.split_whitespace().map(|one| word(one).into()).collect(),
            input: inputs::read(program.reads, &self.ground)?,
            environment: given
                .filter_map(|one| one.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            folder: Some(self.ground.folder().to_owned()),
            user: self.ground.unprivileged().filter(|_| program.is_unprivileged),
            service: program.server.as_ref().map(service).transpose()?,
            limit: LIMIT,
            patterns: Vec::new(),
            is_quiet: true,
            discards_output: !says,
        })
    }
}
