//! `survivors`: a peak of small blocks of which a random tenth stays, against the limit without moving
//! blocks.

use super::super::report::{Column, Origin};
use super::super::session::Case;
use super::{Common, arguments as list};
use crate::harness::surroundings;
use anyhow::{Result, ensure};
use clap::Args;
use std::time::Duration;
use vcm_measure::statistics;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Requested bytes at the peak
    #[arg(long, default_value_t = 2.0)]
    pub gib: f64,
    /// Seconds to watch the idle process
    #[arg(long, default_value_t = 11.0, value_parser = surroundings::seconds)]
    pub seconds: f64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    ensure!(arguments.gib > 0.0 && arguments.gib <= 64.0, "--gib takes more than 0 and at most 64");
    let case = Case {
        name: format!("peak of {} GiB, 10 % survivors", arguments.gib),
        arguments: list(&[&"survivors", &"--gib", &arguments.gib]),
        idle: Duration::from_secs_f64(arguments.seconds),
        limit: Duration::from_secs_f64(60.0 + 60.0 * arguments.gib),
        cgroup_bytes: None,
    };
    let mut columns =
        vec![super::live_column(), super::pages_column(), Column::mib("peak", |run| run.peak_heap())];
    columns.extend(super::idle_columns(&[0.0, 1.0, 5.0, 10.0]));
    columns.push(super::end_ratio_column("end / live"));
    columns.push(Column::ratio("end / live pages", |run| {
        let last = run.last().filter(|_| run.is_finished())?;
        statistics::ratio(last.memory.heap as f64, run.page_bytes as f64)
    }));
    let about = "Blocks of 64 to 512 bytes, allocated by 4 threads; 4 other threads free nine in ten, chosen at random; \
        then idle.\nMiB. `live`: requested bytes; `live pages`: 4 KiB pages that hold at least one byte of a live block, \
        counted from the addresses this allocator chose, so each has its own limit. The other columns: RSS of the heap.";
    common.measure("survivors", about, &[case], &columns, Origin::Stop)
}
