//! Measures vcmalloc against its peers. `vcm-bench help` lists what it can do; docs/guides/benchmarks.md
//! explains it.

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vcm_measure::allocators::{self, Places, Ready};
use vcm_measure::statistics;
use vcmalloc_bench::harness::execute::{self, Runner};
use vcmalloc_bench::harness::origin::Origin;
use vcmalloc_bench::harness::plan::{self, Cell, Program, Selection};
use vcmalloc_bench::harness::session::{self, Row, Session};
use vcmalloc_bench::harness::shelf::{self, Folder};
use vcmalloc_bench::harness::summary::Summary;
use vcmalloc_bench::harness::{cores, demo, instructions, peers, picture, sizes, surroundings, tables};
use vcmalloc_bench::load::Pattern;
use vcmalloc_bench::programs;

/// Measures vcmalloc against its peers.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Our library, instead of libvcmalloc.so beside this program
    #[arg(long, global = true, value_parser = surroundings::library_named)]
    library: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs the patterns interleaved and writes CSV, tables and a picture
    Run(RunArguments),
    /// Throughput against cores: six patterns on 1, 2, 4 ... threads, up to one for each CPU
    Cores {
        /// Minutes for all, some more where there are few CPUs
        #[arg(long, default_value_t = 7.0, value_parser = surroundings::seconds)]
        minutes: f64,
        /// Names of allocators; `default` and `all` are groups
        #[arg(long, value_delimiter = ',', default_value = "default")]
        allocators: Vec<String>,
        /// Folder of runs/, as of `run`
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Cost against size: calls, fork, end, `vcm stat` and idle seconds of processes with ever more threads, bytes, sizes, years
    Sizes {
        /// Names of allocators; `default` and `all` are groups
        #[arg(long, value_delimiter = ',', default_value = "vcmalloc,glibc,jemalloc,tcmalloc")]
        allocators: Vec<String>,
        /// Only these properties grow
        #[arg(long, value_delimiter = ',')]
        only: Vec<sizes::Along>,
        /// Folder of runs/, as of `run`
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Runs whole programs interleaved: CPU time, peak memory and memory held when idle, on each allocator
    Programs(programs::choice::Choice),
    /// Writes tables and picture again from the rows of an earlier run (its raw.csv.zst)
    Render { raw: PathBuf },
    /// Builds the newest peers from crates.io
    Peers { names: Vec<String> },
    /// Runs RocksDB's db_bench on the allocators that a distribution ships, and on ours
    Demo {
        #[arg(long, default_value_t = 64, value_parser = surroundings::threads)]
        threads: usize,
        /// Seconds a run; each allocator runs twice
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=86_400))]
        seconds: u64,
        /// The report to write, a page for any browser [default: demo.html beside this program]
        #[arg(long, value_name = "FILE.html")]
        html: Option<PathBuf>,
    },
    /// Counts the instructions of malloc and free on the fast path
    Instructions(InstructionsArguments),
}

#[derive(Args)]
struct RunArguments {
    /// Few cells, short: a look in some minutes
    #[arg(long)]
    quick: bool,
    /// Every cell (the default)
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Only these patterns
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Thread counts, instead of those of the plan
    #[arg(long, value_delimiter = ',', value_parser = surroundings::threads)]
    threads: Vec<usize>,
    /// Names of allocators; `default` and `all` are groups
    #[arg(long, value_delimiter = ',', default_value = "default")]
    allocators: Vec<String>,
    /// Runs of each cell on each allocator
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Seconds that a threaded cell works; `mixedlife`, `realloc` and `buffer-*` do a number of operations that stands for
    /// them [default: 0.5 quick, 1.5 full]
    #[arg(long, value_parser = surroundings::seconds)]
    seconds: Option<f64>,
    /// Seconds after which a run counts as timed out
    #[arg(long, default_value_t = 30)]
    time_limit: u64,
    /// Folder of runs/ [default: results/ of the repository around the working directory, else the working
    /// directory]
    #[arg(long)]
    output: Option<PathBuf>,
}

#[derive(Args)]
struct InstructionsArguments {
    #[arg(long, value_delimiter = ',', default_value = "vcmalloc")]
    allocators: Vec<String>,
    /// Fail unless the counts are those of this file
    #[arg(long)]
    check: Option<PathBuf>,
    /// Write the counts to this file
    #[arg(long, conflicts_with = "check")]
    renew: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let places = Places::beside_this_program(arguments.library)?;
    match arguments.verb {
        Verb::Run(run) => run_session(&run, &places),
        Verb::Cores { minutes, allocators, output } => {
            run_on_cores(minutes * 60.0, &allocators, output.as_deref(), &places)
        }
        Verb::Sizes { allocators, only, output } => {
            run_on_sizes(&only, &allocators, output.as_deref(), &places)
        }
        Verb::Programs(choice) => programs::run(&choice, &places),
        Verb::Render { raw } => {
            let folder = Folder::around(&raw);
            if let Some(tables) = programs::rendered(&raw) {
                let origin = Origin::of_page(&folder.page());
                return folder.write(&origin.around("Medians of interleaved rounds."), None, &tables);
            }
            match sizes::read_rows(&raw) {
                Ok(rows) if !rows.is_empty() => {
                    render_sizes(&rows, &folder, &Origin::of_page(&folder.page()))
                }
                _ => render(&session::read_rows(&raw)?, &folder, None),
            }
        }
        Verb::Peers { names } => peers::build(&names, &places),
        Verb::Demo { threads, seconds, html } => demo::run(&places, threads, seconds, html),
        Verb::Instructions(wanted) => count_instructions(&wanted, &places),
    }
}

fn run_session(arguments: &RunArguments, places: &Places) -> Result<()> {
    ensure!(arguments.repeat > 0, "--repeat 0 measures nothing; give 1 or more");
    let patterns = arguments.only.iter().map(|name| program_named(name)).collect::<Result<Vec<_>>>()?;
    let threads = arguments.threads.clone();
    let selection = Selection { quick: arguments.quick, patterns, threads };
    if let Some(reason) = plan::refusal(&selection) {
        bail!("nothing was run: {reason}");
    }
    let cells = plan::cells(&selection);
    let allocators = ready(&arguments.allocators, places)?;
    ensure!(!allocators.is_empty(), "none of the chosen allocators is there");
    let extras = if arguments.allocators == ["default"] { extras(&cells, places)? } else { Vec::new() };
    let runner = Runner {
        load_program: execute::load_program()?,
        seconds: arguments.seconds.unwrap_or(if arguments.quick { 0.5 } else { 1.5 }),
        limit: Duration::from_secs(arguments.time_limit),
    };

    let kind = if arguments.quick { "quick" } else { "full" };
    let (folder, file) = Folder::new(arguments.output.as_deref(), &places.ours, kind)?;
    let session = Session {
        runner: &runner,
        cells: &cells,
        allocators: &allocators,
        extras: &extras,
        passes: arguments.repeat,
    };
    let rows = session.run(file)?;
    render(&rows, &folder, Some(places))?;
    ensure!(rows.iter().any(|row| row.is_finished()), "no run came to its end; the page says why");
    Ok(())
}

fn run_on_cores(seconds: f64, names: &[String], output: Option<&Path>, places: &Places) -> Result<()> {
    let cpus = std::thread::available_parallelism().context("cannot count the CPUs")?.get();
    let (cells, allocators) = (cores::cells(cpus), ready(names, places)?);
    ensure!(!allocators.is_empty(), "none of the chosen allocators is there");
    let runner = Runner {
        load_program: execute::load_program()?,
        seconds: cores::seconds_each(seconds, cells.len() * allocators.len()),
        limit: Duration::from_secs(30),
    };
    let (folder, file) = Folder::new(output, &places.ours, "cores")?;
    let session = Session { runner: &runner, cells: &cells, allocators: &allocators, extras: &[], passes: 1 };
    let rows = session.run(file)?;
    let origin =
        Origin::here(&Summary::of(&rows).allocators, places).led_by(shelf::origin("vcm-bench", &places.ours));
    let mut seen = None;
    if let Some(svg) = cores::draw(&rows) {
        surroundings::replace(&folder.picture(), &svg)?;
        seen = Some("Operations a second against threads, one for each CPU at most, by pattern");
    }
    let about = format!("{cpus} CPUs; each run works {:.2} s, once.", runner.seconds);
    folder.write(&origin.around(&about), seen, &cores::markdown(&rows))?;
    ensure!(rows.iter().any(Row::is_finished), "no run came to its end; the rows say why");
    Ok(())
}

fn run_on_sizes(
    only: &[sizes::Along],
    names: &[String],
    output: Option<&Path>,
    places: &Places,
) -> Result<()> {
    let allocators = ready(names, places)?;
    ensure!(!allocators.is_empty(), "none of the chosen allocators is there");
    let runner = sizes::Runner::new()?;
    let (folder, file) = Folder::new(output, &places.ours, "sizes")?;
    let rows = runner.run(sizes::points(only), &allocators, file)?;
    let names: Vec<&str> = allocators.iter().map(Ready::name).collect();
    let origin = Origin::here(&names, places).led_by(shelf::origin("vcm-bench", &places.ours));
    render_sizes(&rows, &folder, &origin)?;
    ensure!(rows.iter().any(sizes::Row::is_finished), "no process came to its size; the page says why");
    Ok(())
}

fn render_sizes(rows: &[sizes::Row], folder: &Folder, origin: &Origin) -> Result<()> {
    let mut seen = None;
    if let Some(svg) = sizes::draw(rows) {
        surroundings::replace(&folder.picture(), &svg)?;
        seen = Some("A pair of malloc and free against threads, bytes, distinct sizes and age");
    }
    folder.write(&origin.around("Each size once; one process after the other."), seen, &sizes::markdown(rows))
}

/// The variants that some cell brings along.
fn extras(cells: &[Cell], places: &Places) -> Result<Vec<Ready>> {
    let names: Vec<String> =
        cells.iter().flat_map(Cell::extra_allocators).map(|&name| name.to_owned()).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    ready(&names, places)
}

fn ready(names: &[String], places: &Places) -> Result<Vec<Ready>> {
    let chosen = allocators::chosen(names, |allocator| allocator.is_peer).map_err(anyhow::Error::msg)?;
    Ok(allocators::ready(&chosen, places))
}

fn program_named(name: &str) -> Result<Program> {
    match Program::named(name) {
        Some(program) => Ok(program),
        None => {
            let known: Vec<String> = Pattern::value_variants()
                .iter()
                .filter_map(|one| one.to_possible_value())
                .filter(|one| !one.is_hide_set())
                .map(|one| one.get_name().to_owned())
                .collect();
            bail!("no pattern is called `{name}`; there are true, {}", known.join(", "))
        }
    }
}

/// Tables and picture beside the rows. `places`: where it was measured just now; without them this machine may
/// be another than the one that the rows are of.
fn render(rows: &[Row], folder: &Folder, places: Option<&Places>) -> Result<()> {
    ensure!(!rows.is_empty(), "the run has no rows");
    let summary = Summary::of(rows);
    let origin = match places {
        Some(places) => {
            Origin::here(&summary.allocators, places).led_by(shelf::origin("vcm-bench", &places.ours))
        }
        None => Origin::of_page(&folder.page()),
    };
    let mut seen = None;
    if let Some(svg) = picture::draw(&summary) {
        surroundings::replace(&folder.picture(), &svg)?;
        seen = Some("Time of the fast path as bars; time against memory for each number of threads");
    }
    folder.write(&origin.around(&quietness(rows, &summary)), seen, &tables::markdown(&summary))
}

fn quietness(rows: &[Row], summary: &Summary) -> String {
    let passes = rows.iter().map(|row| row.pass + 1).max().unwrap_or(0);
    let speeds: Vec<f64> = rows.iter().map(|row| row.machine_ns).filter(|&speed| speed > 0.0).collect();
    let best = statistics::minimum(&speeds).unwrap_or(1.0);
    let slow = speeds.iter().filter(|&&speed| speed > 1.1 * best).count();
    let busy = rows.iter().filter(|row| row.load_before >= 1.0).count();
    let spread = summary.typical_spread().unwrap_or(0.0) * 100.0;
    let by_work = |cell: &Cell| format!("`{}`", String::from(cell.program));
    let by_work: std::collections::BTreeSet<String> = summary.by_work(rows).map(by_work).collect();
    let by_work = Vec::from_iter(by_work).join(", ");
    format!(
        "Medians of {passes} interleaved passes. Middle half of a cell's runs within {spread:.0} % of its median \
         (typical cell); the machine was more than 10 % slow in {slow} of {} runs, and busy with something else before \
         {busy} of all {}. By work, the same for each thread: {}; the others by the clock.",
        speeds.len(),
        rows.len(),
        if by_work.is_empty() { "none" } else { &by_work }
    )
}

fn count_instructions(arguments: &InstructionsArguments, places: &Places) -> Result<()> {
    let ready = ready(&arguments.allocators, places)?;
    ensure!(!ready.is_empty(), "none of the chosen allocators is there");
    let load_program = execute::load_program()?;
    let mut text = String::new();
    for ready in &ready {
        let counts = instructions::count(ready, &load_program)
            .with_context(|| format!("cannot count the instructions of {}", ready.name()))?;
        text += &instructions::text(ready.name(), &counts);
    }
    print!("{text}");
    if let Some(path) = &arguments.renew {
        std::fs::write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &arguments.check {
        let golden =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            golden == text,
            "the fast path changed; {} says:\n{golden}If the change is meant, renew it with --renew {}",
            path.display(),
            path.display()
        );
    }
    Ok(())
}
