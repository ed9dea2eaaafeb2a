//! Whole programs on each allocator: one declared table, and the runner.
//!
//! ```text
//!   table (what is run) ─┐
//!   ground, inputs ──────┼─► run: turns, trials and proofs of vcm-measure ─► row (one run) ─► report (tables)
//!   columns, tracer ─────┘        └ clients: the loads of servers
//! ```
//!
//! A run counts only if the witness of vcm-measure has seen the allocator serve the program, or, of a program in Rust, if the
//! program says which it has.

pub mod clients;
mod columns;
mod ground;
mod inputs;
mod report;
mod row;
pub mod table;
mod tracer;

use crate::harness::origin::Origin;
use crate::harness::shelf::{self, Folder, open_rows};
use anyhow::{Context, Result, ensure};
use clap::Args;
use columns::Column;
use ground::Ground;
use row::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::{Ending, Figure, Program};
use tracer::Tracer;
use vcm_measure::allocators::Places;
use vcm_measure::progress::Progress;
use vcm_measure::spoken::Regex;
use vcm_measure::stop::Stop;
use vcm_measure::tree::adopt_orphans;
use vcm_measure::trial::{self, End, Failed, Job, Ready, Service, Signal};
use vcm_measure::turns::interleaved;

/// For everything that a run waits for.
const LIMIT: Duration = Duration::from_secs(240);

/// What a session measures.
#[derive(Args)]
pub struct Choice {
    /// Sets (whole, hardened, watching, idle, rust) or parts of names, with commas [default: whole]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Names of allocators, with commas; `default` and `all` are groups
    #[arg(long, default_value = "default")]
    allocators: String,
    /// Another library beside them, as NAME=FILE; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    add: Vec<String>,
    /// Runs of each program on each allocator
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Adds vcmalloc with a tracer at its probes; as root
    #[arg(long)]
    tracer: bool,
    /// Adds tables of differences from this column, with their intervals
    #[arg(long)]
    against: Option<String>,
    /// Where runs/ is, as of `run --output`
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only prints the table of programs
    #[arg(long)]
    list: bool,
}

/// Runs the chosen programs on the chosen allocators in turn, and writes the folder of the run.
pub fn run(choice: &Choice, places: &Places) -> Result<()> {
    let programs = table::chosen(&choice.only);
    ensure!(
        !programs.is_empty(),
        "no program is called so; `--list` prints all with --only {}",
        sets().join(",")
    );
    if choice.list {
        programs.iter().for_each(|program| println!("{}", described(program)));
        return Ok(());
    }
    ensure!(choice.rounds > 0, "--rounds 0 measures nothing; give 1 or more");
    let names = columns::understood(&choice.allocators)?;
    let ground = Ground::new()?;
    let programs: Vec<&Program> = programs.into_iter().filter(|program| is_here(program, &ground)).collect();
    let session =
        Session { columns: columns_for(&programs, &names, choice, places, &ground)?, programs, ground };
    session.prepare()?;
    let (folder, file) = Folder::new(choice.out.as_deref(), &places.ours, "programs")?;
    let rows = session.run(choice.rounds, file)?;
    let versions = session.columns.iter().filter_map(|column| {
        let name = &column.arm.name;
        let version = if column.rust.is_some() {
            columns::version_of(name)
        } else {
            shelf::version_of(column.arm.library.as_ref()?)
        };
        Some(format!("- {name}: {}", version?))
    });
    let lines: Vec<String> = shelf::origin("vcm-bench", &places.ours).into_iter().chain(versions).collect();
    let columns: Vec<&str> = session.columns.iter().map(|column| column.arm.name.as_str()).collect();
    let about = Origin::here(&columns, places)
        .led_by(lines)
        .around(&format!("Medians of {} interleaved rounds.", choice.rounds));
    folder.write(&about, None, &report::markdown(&rows, choice.against.as_deref()))?;
    ensure!(rows.iter().any(Row::is_finished), "no run counts; the page gives the reasons");
    Ok(())
}

/// The tables of an earlier run, of the scripts' too; none if these rows are of something else.
pub fn rendered(raw: &Path) -> Option<String> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(open_rows(raw).ok()?);
    let rows: Vec<Row> = reader.deserialize().collect::<Result<_, _>>().ok()?;
    (!rows.is_empty()).then(|| report::markdown(&rows, None))
}

fn sets() -> Vec<&'static str> {
    table::SETS.iter().map(|(name, _)| *name).collect()
}

fn described(program: &Program) -> String {
    let Program { name, sets, needs, threads, operations: (many, what), .. } = program;
    format!("{name}  [{}]  {many} {what}, {threads} at a time; needs {}", sets.join(", "), needs.join(", "))
}

fn is_here(program: &Program, ground: &Ground) -> bool {
    let lacking = ground.lacks(program);
    if let Some(reason) = &lacking {
        eprintln!("without {}: {reason}; `scripts/setup programs` installs what it can", program.name);
    }
    lacking.is_none()
}

fn is_in_rust(program: &Program) -> bool {
    program.figure == Figure::Crate
}

fn columns_for(
    programs: &[&Program],
    names: &[String],
    choice: &Choice,
    places: &Places,
    ground: &Ground,
) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    if programs.iter().any(|program| !is_in_rust(program)) {
        columns.extend(columns::preloads(names, &choice.add, choice.tracer, places, ground.folder())?);
    }
    if programs.iter().any(|program| is_in_rust(program)) {
        columns.extend(columns::crates(names, places)?);
    }
    ensure!(!columns.is_empty(), "no program and no allocator is left");
    Ok(columns)
}

struct Session {
    programs: Vec<&'static Program>,
    columns: Vec<Column>,
    ground: Ground,
}

impl Session {
    fn prepare(&self) -> Result<()> {
        let made: BTreeSet<&str> = self.programs.iter().flat_map(|program| program.made).copied().collect();
        made.into_iter().try_for_each(|name| {
            inputs::make(name, &self.ground).with_context(|| format!("cannot make {name}"))
        })
    }

    /// Each row is in the file before the next run starts. What failed once is not tried again.
    fn run(&self, rounds: usize, raw: std::fs::File) -> Result<Vec<Row>> {
        adopt_orphans()?;
        let (stop, progress, mut writer) =
            (Stop::on_signals()?, Progress::new(), csv::Writer::from_writer(raw));
        let of = |program: &&Program| {
            self.columns.iter().filter(|column| column.rust.is_some() == is_in_rust(program)).collect()
        };
        let turns = interleaved(rounds, &self.programs, of);
        progress.begin(turns.len());
        let (mut rows, mut computed): (Vec<Row>, BTreeMap<&str, String>) = (Vec::new(), BTreeMap::new());
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
        Ok(rows)
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
        let filled = |word: &str| self.ground.filled(word, program, &rust);
        let given = [("LC_ALL", "C")]
            .iter()
            .chain(program.environment)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let service = program.server.as_ref().map(|server| -> Result<Service> {
            let ready = match server.ready {
                "" => Ready::Port(self.ground.port),
                words => Ready::Says(Regex::new(words)?),
            };
            let loaded = if server.loaded.is_empty() { None } else { Some(Regex::new(server.loaded)?) };
            let end = match server.end {
                Ending::Terminated => End::By(Signal::SIGTERM),
                Ending::Interrupted => End::By(Signal::SIGINT),
                Ending::Input => End::Input,
            };
            Ok(Service {
                ready,
                load: filled(server.load),
                loaded,
                idle: Duration::from_secs(server.idle_seconds),
                end,
            })
        });
        let has_words = matches!(program.figure, Figure::Pair | Figure::Crate)
            || program.server.is_some_and(|server| !server.ready.is_empty());
        Ok(Job {
            command: program.command.iter().map(|word| filled(word).into()).collect(),
            input: program.input.as_bytes().to_vec(),
            environment: given.collect(),
            folder: Some(self.ground.folder().to_owned()),
            user: if program.is_unprivileged { self.ground.unprivileged() } else { None },
            service: service.transpose()?,
            limit: LIMIT,
            patterns: Vec::new(),
            is_quiet: true,
            discards_output: !has_words,
        })
    }
}
