//! `churn`: resident against live bytes after and during long, fragmenting loads.

use super::super::report::{Column, Origin, heap_by_live};
use super::super::session::Case;
use super::{Common, arguments as list};
use crate::harness::surroundings;
use crate::memory::load::churn::Pattern;
use anyhow::{Result, ensure};
use clap::Args;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Only these patterns
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<Pattern>,
    /// About how long each takes
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds to watch the idle process
    #[arg(long, default_value_t = 5.0, value_parser = surroundings::seconds)]
    pub idle: f64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    ensure!((0.1..=600.0).contains(&arguments.seconds), "--seconds takes 0.1 to 600");
    let chosen = super::chosen(&arguments.only).iter();
    let cases: Vec<Case> = chosen.map(|&pattern| case(pattern, arguments)).collect();
    let columns = [
        super::live_column(),
        super::pages_column(),
        Column::mib("heap peak", |run| run.peak_heap()),
        Column::ratio("mean / live", |run| run.mean_ratio()),
        Column::mib("heap at the end", |run| Some(run.at_idle(0.0)?.memory.heap)),
        Column::ratio("end / live", |run| heap_by_live(run.at_idle(0.0)?)),
        Column::mib("heap when idle", |run| Some(run.last().filter(|_| run.is_finished())?.memory.heap)),
        super::end_ratio_column("idle / live"),
        Column::new("s", |seconds| format!("{seconds:.0}"), |run| Some(run.last_loaded()?.seconds)),
    ];
    let about = format!(
        "Every pattern is a fixed number of steps, so all allocators end with the same live blocks.\n\
         MiB. `mean / live`: over the samples of the load; `end`: the first sample after the last call; `idle`: {} s later. \
         `live pages`: 4 KiB pages that hold a live block at the end, the limit without moving blocks.",
        arguments.idle
    );
    common.measure("churn", &about, &cases, &columns, Origin::Start)
}

fn case(pattern: Pattern, arguments: &Arguments) -> Case {
    let (name, help) = super::named(pattern);
    Case {
        arguments: list(&[&"churn", &name, &"--seconds", &arguments.seconds]),
        name: format!("{name}: {help}"),
        idle: Duration::from_secs_f64(arguments.idle),
        limit: Duration::from_secs_f64(30.0 + 6.0 * arguments.seconds),
        cgroup_bytes: None,
    }
}
