//! The demonstration: a real storage engine, RocksDB's `db_bench`, on each allocator in turn.
//!
//! 64 threads read and write at random through a block cache that is far too small, so blocks come and go all
//! the time. The data base is filled once, on glibc, and copied for every run, so that all start from the
//! same files.

use super::busy::Before;
use super::shelf;
use super::surroundings::{named, progress_bar, replace};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use vcm_measure::allocators::{self, Places, Ready};
use vcm_measure::arm::Arm;
use vcm_measure::child;
use vcm_measure::machine::Machine;
use vcm_measure::statistics::median;
use vcm_measure::stop::Stop;
use vcm_measure::tree::adopt_orphans;
use vcm_measure::trial::{self, Job};
use vcm_measure::turns::{Turn, interleaved};
use vcm_report::chart::{Axis, Bar, Better, Chart, Extent, Form, Group, Point};
use vcm_report::{Cell, Column, Page, Part, Row, Table, unit};

const DB_BENCH: &str = "/usr/bin/db_bench";
const ALLOCATORS: [&str; 5] = ["vcmalloc", "glibc", "jemalloc", "tcmalloc", "mimalloc"];
const PASSES: usize = 2;
const DIRECTORY_PREFIX: &str = "vcmalloc-demo-";
/// About 80 MB of data against 8 MB of block cache.
const DATA: [&str; 6] = [
    "--num=200000",
    "--value_size=400",
    "--compression_type=none",
    "--cache_size=8388608",
    "--write_buffer_size=8388608",
    "--disable_wal=1",
];

/// Measures `threads` threads for `seconds` a run, prints the table and writes the report.
pub fn run(places: &Places, threads: usize, seconds: u64, html: Option<PathBuf>) -> Result<()> {
    ensure!(
        Path::new(DB_BENCH).exists(),
        "{DB_BENCH} is not there; `apt-get install rocksdb-tools` brings it"
    );
    let html = match html {
        Some(html) => html,
        None => std::env::current_exe()?.with_file_name("demo.html"),
    };
    let chosen = allocators::ALLOCATORS.iter().filter(|one| ALLOCATORS.contains(&one.name));
    let ready = allocators::ready(&chosen.collect::<Vec<_>>(), places);
    let before = Before::seen();
    println!("{}", before.caution().unwrap_or_else(|| format!("Before the runs: {}.", before.line())));
    let (scratch, stop) = (scratch()?, Stop::on_signals()?);
    let template = scratch.path().join("template");
    fill(&template)?;
    println!(
        "RocksDB's db_bench, {threads} threads reading and writing at random, {PASSES} x {seconds} s each."
    );

    let turns = interleaved(PASSES, &[()], |_| ready.iter().collect());
    let progress = progress_bar(turns.len());
    adopt_orphans()?;
    let mut runs = Vec::new();
    for Turn { allocator: ready, .. } in turns {
        progress.set_message(ready.name());
        let data = scratch.path().join("run");
        copy_files(&template, &data)?;
        runs.push((ready, measure(ready, &data, threads, seconds, &stop)?));
        std::fs::remove_dir_all(&data)?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    print!("{}", table(&ready, &runs));
    before.caution().iter().for_each(|caution| println!("\n{caution}"));
    print!("{}", picture(&ready, &runs));
    replace(&html, &page(&ready, &runs, threads, seconds, &places.ours, &before))?;
    println!("\n{}", machine_line(&Machine::this()));
    ready.iter().for_each(|ready| println!("{:<12} {}", ready.name(), version_of(ready)));
    println!("the picture and the rest, for a browser: {}", html.display());
    println!("\nWhat to try next:");
    println!("  LD_PRELOAD={} YOUR-PROGRAM", places.ours.display());
    println!(
        "  make build && target/release/vcm compare -- YOUR-PROGRAM    # the same table for a program of yours"
    );
    Ok(())
}

/// Time against memory, as bars of text with the least and the most of the runs: the report has it as a picture.
fn picture(ready: &[Ready], runs: &[(&Ready, Measured)]) -> String {
    const WIDTH: f64 = 18.0;
    let mut text = format!("\n{:<12} {:<35} {}\n", "", COST.name, PEAK.name);
    let most = |figure: &Figure| ready.iter().map(|one| middle(one, runs, figure)).fold(0.0, f64::max);
    let (most_time, most_memory) = (most(&COST), most(&PEAK));
    for one in ready {
        let bar = |figure: &Figure, most: f64| {
            let value = middle(one, runs, figure);
            let bar = "#".repeat((value / most * WIDTH).round() as usize);
            format!("{bar} {}", range(&values(one, runs, figure), figure.decimals))
        };
        text += &format!("{:<12} {:<35} {}\n", one.name(), bar(&COST, most_time), bar(&PEAK, most_memory));
    }
    text
}

fn range(values: &[f64], decimals: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let (least, most) = (format!("{least:.decimals$}"), format!("{most:.decimals$}"));
    if least == most { least } else { format!("{least} to {most}") }
}

fn machine_line(machine: &Machine) -> String {
    let Machine { cpus, processor, memory_gib, system, kernel } = machine;
    format!("{cpus} x {processor}, {memory_gib} GiB, {}, Linux {}", system.trim(), kernel.trim())
}

/// The version that the package database gives, else the file's own name.
fn version_of(ready: &Ready) -> String {
    let Some(file) = &ready.library else {
        // SAFETY: the string is static.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        return version.to_string_lossy().into_owned();
    };
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    let said = |program: &str, arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let package = said("dpkg-query", &["--search".as_ref(), real.as_os_str()]);
    let package = package.and_then(|line| Some(line.split_once(": ")?.0.to_owned()));
    let version = package.and_then(|package| {
        said(
            "dpkg-query",
            &["--show".as_ref(), "--showformat=${Version} (${Package})".as_ref(), package.as_ref()],
        )
    });
    shelf::version_of(file).or(version).unwrap_or_else(|| real.display().to_string())
}

/// A directory for the data bases, in memory where there is room. The next demonstration removes what a killed one left.
fn scratch() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    remove_leftovers(&parent);
    let prefix = format!("{DIRECTORY_PREFIX}{}-", std::process::id());
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(&parent);
    made.with_context(|| format!("cannot make a directory in {}", parent.display()))
}

/// Directories of demonstrations whose process is gone.
fn remove_leftovers(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY_PREFIX)?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn db_bench(data: &Path, benchmark: &str) -> Vec<String> {
    let words =
        [DB_BENCH.to_owned(), format!("--db={}", data.display()), format!("--benchmarks={benchmark}")];
    words.into_iter().chain(DATA.map(str::to_owned)).collect()
}

fn fill(template: &Path) -> Result<()> {
    let mut command = Command::new(DB_BENCH);
    command.env_remove("LD_PRELOAD").args(&db_bench(template, "fillseq")[1..]);
    let ended = child::run(&mut command, Duration::from_secs(120))?;
    ensure!(
        ended.status.is_some_and(|status| status.success()),
        "db_bench cannot fill: {}",
        ended.errors.trim()
    );
    Ok(())
}

/// Copies a directory of plain files.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    operations: f64,
    operations_per_second: f64,
    cpu_seconds: f64,
    peak_rss_bytes: f64,
}

/// One run, which counts only if db_bench was seen to run on the allocator.
fn measure(ready: &Ready, data: &Path, threads: usize, seconds: u64, stop: &Stop) -> Result<Measured> {
    let mut words = db_bench(data, "readrandomwriterandom");
    words.extend([
        "--use_existing_db=1".to_owned(),
        format!("--threads={threads}"),
        format!("--duration={seconds}"),
    ]);
    let command = words.into_iter().map(Into::into).collect();
    let job =
        Job { command, limit: Duration::from_secs(10 * seconds + 60), is_quiet: true, ..Job::default() };
    let name = ready.name();
    let trial = trial::run(&job, &Arm::of(ready), &|| stop.is_asked())
        .with_context(|| format!("db_bench on {name}"))?;
    let (operations_per_second, operations) =
        rates(&trial.said).with_context(|| format!("db_bench on {name} printed no result"))?;
    let (cpu_seconds, peak_rss_bytes) = (trial.value("CPU time"), trial.value("peak RSS"));
    Ok(Measured { operations, operations_per_second, cpu_seconds, peak_rss_bytes })
}

/// Operations a second, and operations, from a line "NAME : ... micros/op N ops/sec ... seconds N operations;
/// ...".
fn rates(output: &str) -> Option<(f64, f64)> {
    let line = output.lines().rev().find(|line| line.contains("ops/sec"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |unit: &str| {
        let position = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
        words.get(position.checked_sub(1)?)?.parse().ok()
    };
    Some((before("ops/sec")?, before("operations")?))
}

/// One column: what it is called, and its value of a run.
struct Figure {
    name: &'static str,
    decimals: usize,
    of: fn(&Measured) -> f64,
}

const RATE: Figure = Figure { name: "operations/s", decimals: 0, of: |run| run.operations_per_second };
const CPU: Figure = Figure { name: "CPU seconds", decimals: 2, of: |run| run.cpu_seconds };
const COST: Figure =
    Figure { name: "CPU us/operation", decimals: 2, of: |run| run.cpu_seconds * 1e6 / run.operations };
const PEAK: Figure =
    Figure { name: "peak RSS, MiB", decimals: 0, of: |run| run.peak_rss_bytes / f64::from(1 << 20) };
const FIGURES: [Figure; 4] = [RATE, CPU, COST, PEAK];

fn values(ready: &Ready, runs: &[(&Ready, Measured)], figure: &Figure) -> Vec<f64> {
    runs.iter().filter(|(of, _)| *of == ready).map(|(_, run)| (figure.of)(run)).collect()
}

fn middle(ready: &Ready, runs: &[(&Ready, Measured)], figure: &Figure) -> f64 {
    median(&values(ready, runs, figure)).unwrap_or(0.0)
}

/// A line of medians for each allocator, below it its runs.
fn table(ready: &[Ready], runs: &[(&Ready, Measured)]) -> String {
    let mut text = format!("{:<12}", "");
    FIGURES.iter().for_each(|figure| text += &format!(" {:>16}", figure.name));
    text.push('\n');
    for ready in ready {
        let mut each = format!("{:<12}", "");
        text += &format!("{:<12}", ready.name());
        for figure in &FIGURES {
            text += &format!(" {:>16.*}", figure.decimals, middle(ready, runs, figure));
            let values = values(ready, runs, figure);
            let values: Vec<_> = values.iter().map(|value| format!("{value:.*}", figure.decimals)).collect();
            each += &format!(" {:>16}", values.join(", "));
        }
        text += &format!("\n{each}\n");
    }
    text + &format!("Medians of {PASSES} runs, below them the runs.\n")
}

fn page(
    ready: &[Ready],
    runs: &[(&Ready, Measured)],
    threads: usize,
    seconds: u64,
    ours: &Path,
    before: &Before,
) -> String {
    let machine = Machine::this();
    let facts = [
        ("processor", format!("{} x {}", machine.cpus, machine.processor)),
        ("memory", format!("{} GiB", machine.memory_gib)),
        ("system", format!("{}, Linux {}", machine.system, machine.kernel)),
        ("before the runs", before.line()),
        ("when", chrono::Local::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, false)),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let mut load = vec![DB_BENCH, "--benchmarks=readrandomwriterandom", "--use_existing_db=1"];
    load.extend(DATA);
    let load = format!("{} --threads={threads} --duration={seconds}", load.join(" "));
    Page {
        title: "RocksDB's db_bench on each allocator".to_owned(),
        about: format!(
            "{threads} threads read and write at random through a block cache that is far too small, {PASSES} times {seconds} \
             seconds on each allocator, in turns."
        ),
        outcome: before.caution().unwrap_or_default(),
        parts: vec![
            speed_against_memory(ready, runs),
            costs(ready, runs),
            Part::Table(as_part(ready, runs)),
            Part::Note(format!(
                "Medians of {PASSES} runs, below them the runs. Few rounds show large differences only: 'vcm compare' says of each \
                 how sure it is. {}",
                before.caution().unwrap_or_default()
            )),
            Part::Heading("The allocators that took part".to_owned()),
            Part::Facts(ready.iter().map(|one| (one.name().to_owned(), file_of(one))).collect()),
            Part::Heading("The command, and the machine".to_owned()),
            Part::Code { what: String::new(), text: command },
            Part::Code { what: "Each run, on its own copy of the data:".to_owned(), text: load },
            Part::Facts(facts),
            Part::List(shelf::origin("vcm-bench", ours).iter().map(|line| line.trim_start_matches("- ").to_owned()).collect()),
        ],
    }
    .html()
}

fn file_of(ready: &Ready) -> String {
    let file = ready.library.as_ref().map_or("the C library".to_owned(), |file| file.display().to_string());
    format!("{file} ({})", ready.allocator.what)
}

fn speed_against_memory(ready: &[Ready], runs: &[(&Ready, Measured)]) -> Part {
    let point = |ready: &Ready| Point {
        name: named(ready.name()),
        across: middle(ready, runs, &RATE),
        up: middle(ready, runs, &PEAK),
        rounds: values(ready, runs, &RATE).into_iter().zip(values(ready, runs, &PEAK)).collect(),
    };
    Part::Chart(Chart {
        title: "Speed against memory".to_owned(),
        note:
            "Medians; the small points are the runs. The dashed line joins those that no other beats in both."
                .to_owned(),
        form: Form::Points {
            points: ready.iter().map(point).collect(),
            across: Axis::new("operations a second", "", Better::More),
            up: Axis::new("peak RSS", "MiB", Better::Less),
            extent: Extent::Data,
        },
    })
}

fn costs(ready: &[Ready], runs: &[(&Ready, Measured)]) -> Part {
    let bars = ready.iter().map(|ready| {
        let values = values(ready, runs, &COST);
        Bar::of(median(&values), &values, None)
    });
    Part::Chart(Chart {
        title: "CPU time of an operation".to_owned(),
        note: "RocksDB's own work is in it, the same on all.".to_owned(),
        form: Form::Bars {
            groups: vec![Group { name: String::new(), bars: bars.collect() }],
            names: ready.iter().map(|ready| named(ready.name())).collect(),
            unit: "us".to_owned(),
        },
    })
}

fn as_part(ready: &[Ready], runs: &[(&Ready, Measured)]) -> Table {
    let row = |ready: &Ready| {
        let cells = FIGURES.iter().map(|figure| {
            let shown = |value: f64| match figure.decimals {
                0 => unit::grouped(value),
                decimals => format!("{value:.decimals$}"),
            };
            let each: Vec<String> = values(ready, runs, figure).into_iter().map(shown).collect();
            let value = middle(ready, runs, figure);
            Cell { below: each.join(", "), ..Cell::number(value, shown(value)) }
        });
        let is_marked = ready.allocator.is_ours();
        Row { is_marked, ..Row::of(std::iter::once(Cell::text(ready.name())).chain(cells).collect()) }
    };
    let columns = FIGURES.iter().map(|figure| Column::number(figure.name));
    Table {
        title: String::new(),
        columns: std::iter::once(Column::text("allocator")).chain(columns).collect(),
        rows: ready.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::busy::tests::before;

    #[test]
    fn the_rates_are_read_from_the_last_result_line() {
        let output = "DB path: [x]\nreadrandomwriterandom :  538.5 micros/op 114500 ops/sec 5.4 seconds 619936 \
                      operations; ( reads:7200 writes:799 )\n";
        assert_eq!(rates(output), Some((114_500.0, 619_936.0)));
        assert_eq!(rates("open error: no such file"), None);
    }

    fn measured(operations_per_second: f64) -> Measured {
        Measured { operations: 8e5, operations_per_second, cpu_seconds: 15.5, peak_rss_bytes: 5e7 }
    }

    #[test]
    fn every_run_of_an_allocator_is_shown_beside_the_middle() {
        let only = [Ready { allocator: allocators::known("glibc").unwrap(), library: None }];
        let runs = [100_000.0, 140_000.0].map(|rate| (&only[0], measured(rate)));
        let (text, bars) = (table(&only, &runs), picture(&only, &runs));
        assert!(text.contains("120000") && text.contains("100000, 140000"), "{text}");
        assert!(
            bars.contains("# 19.38") && bars.contains("# 48"),
            "runs that are alike are one number: {bars}"
        );
        assert_eq!(range(&[2.0, 1.0], 1), "1.0 to 2.0");
    }

    #[test]
    fn the_page_of_a_busy_machine_carries_a_caution_and_that_of_a_quiet_one_none() {
        let only = [Ready { allocator: allocators::known("glibc").unwrap(), library: None }];
        let runs = [100_000.0, 140_000.0].map(|rate| (&only[0], measured(rate)));
        let page = |before| page(&only, &runs, 64, 8, Path::new("/none.so"), &before);
        assert!(page(before(12.0, 9.0)).contains("figures of a busy machine mean little"));
        let quiet = page(before(0.2, 0.1));
        assert!(!quiet.contains("mean little") && quiet.contains("load average 0.20"), "{quiet}");
    }
}
