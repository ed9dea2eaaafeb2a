//! `alone`: a process of one thread after a burst, and what giving back costs it.

use super::super::report::{Column, Origin};
use super::super::session::Case;
use super::{Common, arguments as list};
use crate::harness::surroundings;
use crate::memory::load::alone::Pattern;
use anyhow::Result;
use clap::Args;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Only these patterns
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<Pattern>,
    /// Seconds to watch the process after its burst
    #[arg(long, default_value_t = 10.5, value_parser = surroundings::seconds)]
    pub seconds: f64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let chosen = super::chosen(&arguments.only).iter();
    let cases: Vec<Case> = chosen.map(|&pattern| case(pattern, arguments)).collect();
    let mut columns = vec![Column::mib("peak", |run| run.peak_heap())];
    columns.extend(super::idle_columns(&[0.0, 2.0, 5.0, 10.0]));
    columns.extend([super::cpu_column(), super::faults_column()]);
    let about = "A process of one thread, in which nothing lives after its burst.\n\
        MiB: RSS of the heap. `CPU s` and `faults`: the load's, from its first sample to the first after its last call.";
    common.measure("alone", about, &cases, &columns, Origin::Stop)
}

fn case(pattern: Pattern, arguments: &Arguments) -> Case {
    let (name, help) = super::named(pattern);
    Case {
        arguments: list(&[&"alone", &name]),
        name: format!("{name}: {help}"),
        idle: Duration::from_secs_f64(arguments.seconds),
        limit: Duration::from_secs(120),
        cgroup_bytes: None,
    }
}
