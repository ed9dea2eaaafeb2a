//! `age`: resident against live bytes in programs that go on after a peak, or replace what they hold for ever.

use super::super::report::{Column, Origin, heap_by_live};
use super::super::session::Case;
use super::{Common, arguments as list};
use crate::harness::surroundings;
use crate::memory::load::age::Pattern;
use anyhow::Result;
use clap::Args;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Only these patterns
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<Pattern>,
    /// Seconds to watch the idle process
    #[arg(long, default_value_t = 5.0, value_parser = surroundings::seconds)]
    pub idle: f64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let chosen = super::chosen(&arguments.only).iter();
    let cases: Vec<Case> = chosen.map(|&pattern| case(pattern, arguments)).collect();
    let columns = [
        super::live_column(),
        Column::mib("heap peak", |run| run.peak_heap()),
        Column::mib("heap at the end", |run| Some(run.at_idle(0.0)?.memory.heap)),
        Column::ratio("end / live", |run| heap_by_live(run.at_idle(0.0)?)),
        Column::mib("heap when idle", |run| Some(run.last().filter(|_| run.is_finished())?.memory.heap)),
        super::end_ratio_column("idle / live"),
        super::cpu_column(),
        super::faults_column(),
    ];
    let about = format!(
        "By one thread beside the first. MiB: RSS of the heap. `end`: the first sample after the last call; `idle`: {} s later. \
         `CPU s` and `faults`: the load's, from its first sample to the first after its last call.",
        arguments.idle
    );
    common.measure("age", &about, &cases, &columns, Origin::Start)
}

fn case(pattern: Pattern, arguments: &Arguments) -> Case {
    let (name, help) = super::named(pattern);
    Case {
        arguments: list(&[&"age", &name]),
        name: format!("{name}: {help}"),
        idle: Duration::from_secs_f64(arguments.idle),
        limit: Duration::from_secs(180),
        cgroup_bytes: None,
    }
}
