//! `idle`: load, stop, and no malloc call by anybody: does memory come back?

use super::super::report::{Column, MIB, Origin};
use super::super::session::Case;
use super::{Common, arguments as list};
use crate::harness::surroundings;
use anyhow::{Result, ensure};
use clap::Args;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    #[arg(long, value_delimiter = ',', default_values_t = [2, 256, 2000])]
    pub threads: Vec<usize>,
    /// What stays live
    #[arg(long, default_value_t = 64)]
    pub live_mib: usize,
    /// What the load has live besides at its peaks
    #[arg(long, default_value_t = 512)]
    pub load_mib: usize,
    /// Seconds to watch the idle process
    #[arg(long, default_value_t = 11.0, value_parser = surroundings::seconds)]
    pub seconds: f64,
    /// What an allocator may keep beside 1.1 times the live bytes
    #[arg(long, default_value_t = 0.0)]
    pub retain_mib: f64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    ensure!(
        arguments.threads.iter().all(|threads| (1..=10_000).contains(threads)),
        "--threads takes numbers from 1 to 10000"
    );
    let case = |&threads: &usize| Case {
        name: format!("{threads} threads"),
        arguments: list(&[
            &"idle",
            &"--threads",
            &threads,
            &"--live-mib",
            &arguments.live_mib,
            &"--load-mib",
            &arguments.load_mib,
        ]),
        idle: Duration::from_secs_f64(arguments.seconds),
        limit: Duration::from_secs(120),
        cgroup_bytes: None,
    };
    let cases: Vec<Case> = arguments.threads.iter().map(case).collect();
    let retain = (arguments.retain_mib * MIB) as u64;
    let mut columns = vec![
        super::live_column(),
        super::usable_column(),
        super::pages_column(),
        Column::mib("peak", |run| run.peak_heap()),
    ];
    columns.extend(super::idle_columns(&[0.0, 1.0, 2.0, 5.0, 10.0]));
    columns.push(super::end_ratio_column("end / live"));
    columns.push(Column::ratio("s until <= 1.1 live + retain", move |run| {
        run.idle_seconds_until(run.live_at_stop()? * 11 / 10 + retain)
    }));
    let about = format!(
        "{} MiB for good at the start, then four rounds that allocate {} MiB and free all of it, by the owner and by \
         another thread in turn; then every thread sleeps.\nMiB. `live`: requested bytes; `usable`: what \
         malloc_usable_size says of them; `live pages`: 4 KiB pages that hold a live block. The other columns: RSS of \
         the heap. Last column: until it stays below, `-` for never; retain = {} MiB.",
        arguments.live_mib, arguments.load_mib, arguments.retain_mib
    );
    common.measure("idle", &about, &cases, &columns, Origin::Stop)
}
