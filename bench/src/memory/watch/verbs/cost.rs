//! `cost`: what the janitor takes from a busy program, as pairs of runs with and without it.

use super::Common;
use crate::harness::execute::{self, Outcome, Runner};
use crate::harness::plan::{Cell, Program};
use crate::harness::surroundings::{self, progress_bar};
use crate::load::Pattern;
use anyhow::{Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use std::time::Duration;
use vcm_measure::allocators::{self, Ready};
use vcm_measure::statistics;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Pairs of runs of each pattern
    #[arg(long, default_value_t = 25)]
    pub pairs: usize,
    #[arg(long, default_value_t = 64, value_parser = surroundings::threads)]
    pub threads: usize,
    /// Seconds a run
    #[arg(long, default_value_t = 1.0, value_parser = surroundings::seconds)]
    pub seconds: f64,
    /// Only these patterns
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<Pattern>,
}

const PATTERNS: [Pattern; 4] = [Pattern::Storage, Pattern::Mixedlife, Pattern::Prodcons, Pattern::Starve];

#[derive(Serialize)]
struct Row {
    pattern: String,
    pair: usize,
    on_first: bool,
    operations_per_cpu_second_on: f64,
    operations_per_cpu_second_off: f64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    ensure!(arguments.pairs > 0 && arguments.seconds > 0.0, "give at least one pair and some seconds");
    let places = common.places()?;
    let ready = |name| places.find(allocators::named(name).map_err(anyhow::Error::msg)?);
    let (on, off) = (ready("vcmalloc")?, ready("vcmalloc-no-janitor")?);
    let runner = Runner {
        load_program: execute::load_program()?,
        seconds: arguments.seconds,
        limit: Duration::from_secs_f64(arguments.seconds * 4.0 + 20.0),
    };
    let output = common.files("cost")?;
    let mut writer = csv::Writer::from_writer(output.raw_file()?);
    let patterns = if arguments.only.is_empty() { &PATTERNS[..] } else { &arguments.only };
    let progress = progress_bar(patterns.len() * arguments.pairs);
    let mut rows: Vec<Row> = Vec::new();
    for pair in 0..arguments.pairs {
        for &pattern in patterns {
            let cell = Cell { program: Program::Load(pattern), threads: arguments.threads, bytes: None };
            progress.set_message(cell.label());
            let row = measure_pair(&runner, &cell, [&on, &off], pair)?;
            writer.serialize(&row)?;
            writer.flush()?;
            rows.push(row);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let about = format!(
        "Million operations per CPU second with and without the janitor, {} pairs of runs one after the other, the first of a \
         pair in turn. Off is `VCM_JANITOR=off VCM_RELEASE_DELAY=1h VCM_RETAIN=1T`: nothing is given back by anybody, and no \
         page faults in again. `on / off`: median of the pairs' ratios, with the interval in which it lies with 95 % \
         confidence; spread: width of their middle half.",
        arguments.pairs
    );
    output.write(&about, &table(&rows), &[])
}

fn measure_pair(runner: &Runner, cell: &Cell, sides: [&Ready; 2], pair: usize) -> Result<Row> {
    if super::super::session::INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed) {
        bail!("interrupted; what was measured so far is in the raw file");
    }
    let on_first = pair.is_multiple_of(2);
    let mut speeds = [0.0; 2];
    for side in if on_first { [0, 1] } else { [1, 0] } {
        speeds[side] = match runner.run(cell, sides[side]) {
            Outcome::Finished(report) => report.operations_per_cpu_second,
            Outcome::TimedOut => bail!("{} on {} timed out", cell.label(), sides[side].allocator.name),
            Outcome::Failed(reason) => bail!("{}: {reason}", cell.label()),
        };
    }
    Ok(Row {
        pattern: cell.label(),
        pair,
        on_first,
        operations_per_cpu_second_on: speeds[0],
        operations_per_cpu_second_off: speeds[1],
    })
}

fn table(rows: &[Row]) -> String {
    let mut text =
        "| pattern | on | off | on / off | 95 % | spread |\n|---|---:|---:|---:|---:|---:|\n".to_owned();
    for pattern in super::super::report::distinct(rows.iter().map(|row| row.pattern.as_str())) {
        let rows = || rows.iter().filter(|row| row.pattern == pattern);
        let on: Vec<f64> = rows().map(|row| row.operations_per_cpu_second_on).collect();
        let off: Vec<f64> = rows().map(|row| row.operations_per_cpu_second_off).collect();
        let ratios: Vec<f64> =
            on.iter().zip(&off).filter_map(|(&on, &off)| statistics::ratio(on, off)).collect();
        let million = |values: &[f64]| statistics::median(values).unwrap_or(0.0) / 1e6;
        text += &format!(
            "| {pattern} | {:.2} | {:.2} | {:.3} | {} | {:.3} |\n",
            million(&on),
            million(&off),
            statistics::median(&ratios).unwrap_or(0.0),
            statistics::median_interval(&ratios)
                .map_or("-".to_owned(), |(least, most)| format!("{least:.3} to {most:.3}")),
            statistics::spread(&ratios).unwrap_or(0.0),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_median_of_the_ratios_and_not_the_ratio_of_the_medians() {
        let row = |on, off| Row {
            pattern: "p".to_owned(),
            pair: 0,
            on_first: true,
            operations_per_cpu_second_on: on,
            operations_per_cpu_second_off: off,
        };
        let text = table(&[row(1e6, 2e6), row(3e6, 3e6), row(9e6, 9e6)]);
        assert!(text.contains("| p | 3.00 | 3.00 | 1.000 | - |"), "{text}");
    }
}
