//! `container`: who lives in a cgroup whose limit is a little above the live bytes?

use super::super::report::{Column, Origin};
use super::super::session::Case;
use super::{Common, arguments as list};
use crate::memory::load::container::{Settings, own_bytes};
use anyhow::{Result, ensure};
use clap::Args;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 64)]
    pub threads: usize,
    #[arg(long, default_value_t = 256)]
    pub live_mib: usize,
    /// The cgroup's limit over the live bytes
    #[arg(long, default_value_t = 1.3)]
    pub factor: f64,
    /// How often the sizes go up and down
    #[arg(long, default_value_t = 2)]
    pub rounds: usize,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let Arguments { threads, live_mib, factor, rounds } = *arguments;
    ensure!(factor > 1.0, "--factor {factor} leaves no room beside the live bytes; give more than 1");
    ensure!(
        (1..=2000).contains(&threads) && live_mib >= threads,
        "give 1 to 2000 threads, and a MiB for each"
    );
    let live = (live_mib << 20) as f64;
    let own = own_bytes(&Settings { threads, live_mib, rounds });
    let limit = (live * factor) as u64 + own as u64;
    let case = Case {
        name: format!("{live_mib} MiB live, memory limit {factor} times that"),
        arguments: list(&[
            &"container",
            &"--threads",
            &threads,
            &"--live-mib",
            &live_mib,
            &"--rounds",
            &rounds,
        ]),
        idle: Duration::from_secs(1),
        limit: Duration::from_secs(120),
        cgroup_bytes: Some(limit),
    };
    let columns = [
        Column::mib("live at its peak", |run| Some(run.at_peak_live()?.live)),
        Column::mib("heap peak", |run| run.peak_heap()),
        Column::mib("cgroup peak", |run| Some(run.cgroup_peak)),
        Column::new("times full", |times| format!("{times:.0}"), |run| Some(run.cgroup_full as f64)),
        Column::new("s", |seconds| format!("{seconds:.1}"), |run| Some(run.last_loaded()?.seconds)),
    ];
    let about = format!(
        "{threads} threads keep {live_mib} MiB live and replace it, oldest first, by blocks of other sizes in {} phases; \
         each block is freed by another thread than the one that allocated it. The limit is {factor} x live + {:.1} MiB \
         for the load program's tables, stacks and code = {:.1} MiB.\nAn allocator without a note finished.",
        rounds * 8,
        own as f64 / 1048576.0,
        limit as f64 / 1048576.0,
    );
    common.measure("container", &about, &[case], &columns, Origin::Start)
}
