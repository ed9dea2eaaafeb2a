//! Cost against size: what a call, a fork, an end, a look from outside and an idle second cost a process with ever more
//! threads, bytes, distinct sizes, or years.

use super::shelf;
use super::surroundings::{self, named, progress_bar};
use super::thread_limit::Raised;
use crate::load::sized::{Costs, LEAST, Size};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vcm_measure::allocators::Ready;
use vcm_report::chart::{Bar, Chart, Form, Group};
use vcm_report::standing_alone;

/// After so long a process is ended: its size is not reached.
const LIMIT: Duration = Duration::from_secs(300);
/// Looks from outside.
const LOOKS: usize = 3;

/// The one property that grows while all others stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Along {
    /// 2 to 60,000 threads
    Threads,
    /// 64 MiB to 160 GiB
    Heap,
    /// 1 to 1,000 distinct sizes
    Sizes,
    /// each block replaced up to 50 times
    Age,
}

const ALL: [Along; 4] = [Along::Threads, Along::Heap, Along::Sizes, Along::Age];

impl Along {
    fn title(self) -> &'static str {
        match self {
            Along::Threads => "Threads",
            Along::Heap => "Bytes of the heap",
            Along::Sizes => "Distinct sizes",
            Along::Age => "Age: times that each block was replaced",
        }
    }
}

const BASE: Size = Size { threads: 2, heap_bytes: 1 << 30, sizes: 16, least: LEAST, age: 0 };

/// The sizes, by what grows; all if nothing is chosen.
pub fn points(only: &[Along]) -> Vec<(Along, Size)> {
    let threads =
        [2, 64, 1000, 8000, 30_000, 60_000].map(|threads| (Along::Threads, Size { threads, ..BASE }));
    let heap =
        [64, 1 << 10, 16 << 10, 160 << 10].map(|mib| (Along::Heap, Size { heap_bytes: mib << 20, ..BASE }));
    let small = Size { least: 32, heap_bytes: 256 << 20, ..BASE };
    let sizes = [1, 16, 256, 1000].map(|sizes| (Along::Sizes, Size { sizes, ..small }));
    let age = [0, 1, 10, 50].map(|age| (Along::Age, Size { age, ..small }));
    let all = threads.into_iter().chain(heap).chain(sizes).chain(age);
    all.filter(|(along, _)| only.is_empty() || only.contains(along)).collect()
}

fn most_threads(points: &[(Along, Size)]) -> usize {
    points.iter().map(|(_, size)| size.threads).max().unwrap_or_default()
}

/// The costs of one process, in nanoseconds. A cost that is none was not reached, or is of an allocator that is not ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub along: Along,
    pub threads: usize,
    pub heap_bytes: usize,
    pub sizes: usize,
    pub least: usize,
    pub age: usize,
    pub allocator: String,
    pub small_pair: Option<f64>,
    pub large_pair: Option<f64>,
    pub idle: Option<f64>,
    pub fork: Option<f64>,
    pub resident_kib: Option<u64>,
    /// From the request to end until it was gone.
    pub end: Option<f64>,
    /// Of `vcm stat`.
    pub look: Option<f64>,
    /// Bytes that the allocator's own tables have in memory.
    pub metadata: Option<u64>,
    /// Why that size was not reached.
    pub failure: Option<String>,
}

impl Row {
    fn of(along: Along, size: Size, allocator: &str) -> Row {
        let Size { threads, heap_bytes, sizes, least, age } = size;
        Row {
            along,
            threads,
            heap_bytes,
            sizes,
            least,
            age,
            allocator: allocator.to_owned(),
            small_pair: None,
            large_pair: None,
            idle: None,
            fork: None,
            resident_kib: None,
            end: None,
            look: None,
            metadata: None,
            failure: None,
        }
    }

    /// The value of the property that grows.
    fn point(&self) -> String {
        match self.along {
            Along::Threads => self.threads.to_string(),
            Along::Heap if self.heap_bytes < 1 << 30 => format!("{} MiB", self.heap_bytes >> 20),
            Along::Heap => format!("{} GiB", self.heap_bytes >> 30),
            Along::Sizes => self.sizes.to_string(),
            Along::Age => self.age.to_string(),
        }
    }

    fn take(&mut self, costs: &Costs) {
        self.small_pair = Some(costs.small_pair);
        self.large_pair = Some(costs.large_pair);
        self.idle = Some(costs.idle);
        self.fork = Some(costs.fork);
        self.resident_kib = Some(costs.resident_kib);
    }

    pub fn is_finished(&self) -> bool {
        self.failure.is_none()
    }
}

pub struct Runner {
    load: PathBuf,
    /// The tool that looks from outside; none where it is not beside this program.
    vcm: Option<PathBuf>,
}

impl Runner {
    pub fn new() -> Result<Runner> {
        let vcm = std::env::current_exe()?.with_file_name("vcm");
        Ok(Runner {
            load: surroundings::program_beside("vcm-size-load")?,
            vcm: Some(vcm).filter(|vcm| vcm.exists()),
        })
    }

    /// Every size under every allocator, one after the other.
    pub fn run(&self, points: Vec<(Along, Size)>, allocators: &[Ready], file: File) -> Result<Vec<Row>> {
        let _raised = Raised::for_threads(most_threads(&points));
        let bar = progress_bar(points.len() * allocators.len());
        let (mut rows, mut writer) = (Vec::new(), csv::Writer::from_writer(file));
        for (along, size) in points {
            for ready in allocators {
                let mut row = Row::of(along, size, ready.name());
                bar.set_message(format!("{} {} on {}", along.title(), row.point(), row.allocator));
                if let Err(error) = self.fill(&mut row, size, ready) {
                    row.failure = Some(format!("{error:#}"));
                }
                writer.serialize(&row)?;
                writer.flush()?;
                rows.push(row);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(rows)
    }

    fn fill(&self, row: &mut Row, size: Size, ready: &Ready) -> Result<()> {
        let mut command = ready.command(&self.load);
        command.args(["--threads", &size.threads.to_string(), "--heap", &size.heap_bytes.to_string()]);
        command.args(["--sizes", &size.sizes.to_string(), "--least", &size.least.to_string()]);
        command.args(["--age", &size.age.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let line = first_line(&mut child);
        let seen = line.and_then(|line| {
            row.take(&serde_json::from_str(&line).context("the load said something else than its costs")?);
            match &self.vcm {
                Some(vcm) if ready.allocator.is_ours() => look(vcm, child.id()),
                _ => Ok((None, None)),
            }
        });
        let before = Instant::now();
        drop(child.stdin.take());
        let status = child.wait()?;
        row.end = Some(before.elapsed().as_nanos() as f64);
        (row.look, row.metadata) = seen?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

/// The first line of the child, which is ended where that takes too long.
fn first_line(child: &mut Child) -> Result<String> {
    let output = child.stdout.take().context("the load has no output")?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    });
    match receiver.recv_timeout(LIMIT) {
        Ok(line) => {
            let line = line?;
            ensure!(!line.is_empty(), "it ended before it had that size");
            Ok(line)
        }
        Err(_) => {
            child.kill()?;
            anyhow::bail!("it took more than {} s", LIMIT.as_secs())
        }
    }
}

/// The median time of a look from outside, and what it says of our own tables.
fn look(vcm: &Path, process: u32) -> Result<(Option<f64>, Option<u64>)> {
    let (mut times, mut metadata) = (Vec::new(), None);
    for _ in 0..LOOKS {
        let before = Instant::now();
        let output = Command::new(vcm).args(["stat", "--json", &process.to_string()]).output()?;
        times.push(before.elapsed().as_nanos() as f64);
        ensure!(output.status.success(), "vcm stat: {}", String::from_utf8_lossy(&output.stderr).trim());
        let seen: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        metadata = seen["metadata"].as_u64();
    }
    times.sort_by(f64::total_cmp);
    Ok((Some(times[LOOKS / 2]), metadata))
}

/// Rows as an earlier run wrote them.
pub fn read_rows(rows: &Path) -> Result<Vec<Row>> {
    let mut reader = csv::Reader::from_reader(shelf::open_rows(rows)?);
    reader
        .deserialize()
        .map(|row| row.with_context(|| format!("{} has other rows", rows.display())))
        .collect()
}

/// One cost, as it stands in the tables.
struct Cost {
    title: &'static str,
    of: fn(&Row) -> Option<f64>,
    unit: &'static str,
    scale: f64,
    is_drawn: bool,
}

const COSTS: [Cost; 8] = [
    Cost {
        title: "CPU of a malloc and a free of 16 B to 1 KiB",
        of: |row| row.small_pair,
        unit: "ns",
        scale: 1.0,
        is_drawn: true,
    },
    Cost {
        title: "CPU of a malloc and a free of 300 KiB to 1 MiB",
        of: |row| row.large_pair,
        unit: "ns",
        scale: 1.0,
        is_drawn: true,
    },
    Cost { title: "CPU in an idle second", of: |row| row.idle, unit: "us", scale: 1e3, is_drawn: false },
    Cost {
        title: "a child, from fork to its end",
        of: |row| row.fork,
        unit: "ms",
        scale: 1e6,
        is_drawn: false,
    },
    Cost { title: "the end of the process", of: |row| row.end, unit: "ms", scale: 1e6, is_drawn: false },
    Cost {
        title: "in memory",
        of: |row| row.resident_kib.map(|kib| kib as f64),
        unit: "MiB",
        scale: 1024.0,
        is_drawn: false,
    },
    Cost { title: "`vcm stat`", of: |row| row.look, unit: "ms", scale: 1e6, is_drawn: false },
    Cost {
        title: "its own tables, in memory",
        of: |row| row.metadata.map(|bytes| bytes as f64),
        unit: "MiB",
        scale: 1_048_576.0,
        is_drawn: false,
    },
];

fn shown(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// The rows along one of them, by point: what it is called, and one row for each allocator.
fn groups(rows: &[Row], along: Along) -> Vec<(String, Vec<&Row>)> {
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows.iter().filter(|row| row.along == along) {
        let name = row.point();
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    groups
}

pub fn draw(rows: &[Row]) -> Option<String> {
    let mut charts = Vec::new();
    for along in ALL {
        let groups = groups(rows, along);
        let Some((_, first)) = groups.first() else { continue };
        let names: Vec<_> = first.iter().map(|row| named(&row.allocator)).collect();
        for cost in COSTS.iter().filter(|cost| cost.is_drawn) {
            let bar = |row: &&Row| Bar::of((cost.of)(row).map(|value| value / cost.scale), &[], None);
            let group = |(name, rows): &(String, Vec<&Row>)| Group {
                name: name.clone(),
                bars: rows.iter().map(bar).collect(),
            };
            charts.push(Chart {
                title: format!("{}: {}", along.title(), cost.title),
                note: String::new(),
                form: Form::Bars {
                    names: names.clone(),
                    groups: groups.iter().map(group).collect(),
                    unit: cost.unit.to_owned(),
                },
            });
        }
    }
    (!charts.is_empty()).then(|| standing_alone(&charts, 2))
}

/// A table for each that grows and each cost, and what was not reached.
pub fn markdown(rows: &[Row]) -> String {
    let mut page = String::new();
    for along in ALL {
        let groups = groups(rows, along);
        let Some((_, first)) = groups.first() else { continue };
        let names: Vec<&str> = first.iter().map(|row| row.allocator.as_str()).collect();
        let _ = writeln!(page, "## {}\n", along.title());
        for cost in &COSTS {
            if !groups.iter().any(|(_, rows)| rows.iter().any(|row| (cost.of)(row).is_some())) {
                continue;
            }
            let _ = writeln!(page, "| {}, {} | {} |", cost.title, cost.unit, names.join(" | "));
            let _ = writeln!(page, "|---|{}", "---:|".repeat(names.len()));
            for (name, rows) in &groups {
                let value =
                    |row: &&Row| (cost.of)(row).map_or("-".to_owned(), |value| shown(value / cost.scale));
                let values: Vec<String> = rows.iter().map(value).collect();
                let _ = writeln!(page, "| {name} | {} |", values.join(" | "));
            }
            page.push('\n');
        }
    }
    let failed = |row: &Row| {
        let why = row.failure.as_ref()?;
        Some(format!("- {} {}, {}: {why}\n", row.along.title(), row.point(), row.allocator))
    };
    let failures: String = rows.iter().filter_map(failed).collect();
    if !failures.is_empty() {
        let _ = write!(page, "Not reached:\n\n{failures}");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(along: Along, allocator: &str, small_pair: f64) -> Row {
        Row { small_pair: Some(small_pair), end: Some(2e6), ..Row::of(along, BASE, allocator) }
    }

    #[test]
    fn tables_have_a_row_for_each_size_and_say_which_were_not_reached() {
        let mut rows = vec![row(Along::Threads, "vcmalloc", 12.3), row(Along::Threads, "glibc", 1234.0)];
        rows.push(Row {
            failure: Some("29,000 of 30,000 threads are there".to_owned()),
            ..Row::of(Along::Threads, Size { threads: 30_000, ..BASE }, "glibc")
        });
        let page = markdown(&rows);
        assert!(page.contains("| 2 | 12 | 1234 |") && page.contains("| 2 | 2.00 | 2.00 |"), "{page}");
        assert!(page.contains("- Threads 30000, glibc: 29,000 of 30,000"), "{page}");
        assert!(!page.contains("vcm stat"), "a cost that nobody has is no table: {page}");
        assert!(draw(&rows).is_some_and(|svg| svg.contains("Threads")) && draw(&[]).is_none());
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let rows = [row(Along::Heap, "vcmalloc", 1.5), row(Along::Age, "glibc", 2.5)];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("raw.csv");
        let mut writer = csv::Writer::from_path(&path).unwrap();
        rows.iter().for_each(|row| writer.serialize(row).unwrap());
        writer.flush().unwrap();
        assert_eq!(markdown(&read_rows(&path).unwrap()), markdown(&rows));
    }

    #[test]
    fn a_chosen_property_grows_alone_and_only_that_of_threads_has_many() {
        let some = points(&[Along::Heap, Along::Age]);
        assert!(
            some.iter().any(|point| point.0 == Along::Heap) && some.iter().any(|point| point.0 == Along::Age)
        );
        assert!(some.iter().all(|point| matches!(point.0, Along::Heap | Along::Age)));
        assert_eq!((most_threads(&some), most_threads(&points(&[]))), (2, 60_000));
        let each: usize = ALL.iter().map(|&along| points(&[along]).len()).sum();
        assert_eq!(points(&[]).len(), each);
    }

    #[test]
    fn one_thing_grows_at_a_time() {
        for along in ALL {
            let of: Vec<Size> = points(&[along])
                .into_iter()
                .inspect(|point| assert_eq!(point.0, along))
                .map(|point| point.1)
                .collect();
            assert!(of.len() >= 4);
            for size in &of {
                let same = Size {
                    threads: if along == Along::Threads { size.threads } else { of[0].threads },
                    heap_bytes: if along == Along::Heap { size.heap_bytes } else { of[0].heap_bytes },
                    sizes: if along == Along::Sizes { size.sizes } else { of[0].sizes },
                    age: if along == Along::Age { size.age } else { of[0].age },
                    ..of[0]
                };
                assert_eq!(*size, same);
            }
        }
    }
}
