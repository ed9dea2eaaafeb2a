//! `scattered`: one block in twenty stays, in nearly every span. Who gives back pages inside of spans?

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
    /// Seconds to watch the idle process
    #[arg(long, default_value_t = 10.5, value_parser = surroundings::seconds)]
    pub seconds: f64,
    /// Only this of the three: 1 nothing is called, 2 by a thread beside the first, 3 the allocator's own call
    #[arg(long, default_value_t = 0)]
    pub only: usize,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let case = |name: &str, words: &[&dyn ToString]| Case {
        name: name.to_owned(),
        arguments: list(words),
        idle: Duration::from_secs_f64(arguments.seconds),
        limit: Duration::from_secs(120),
        cgroup_bytes: None,
    };
    let all = [
        case("nothing is called", &[&"scattered"]),
        case("nothing is called, by a thread beside the first", &[&"scattered", &"--beside"]),
        case("the allocator's own call every 100 ms", &[&"scattered", &"--asking"]),
    ];
    ensure!(arguments.only <= all.len(), "--only takes 1 to {}, or 0 for all", all.len());
    let cases = if arguments.only == 0 { &all[..] } else { &all[arguments.only - 1..arguments.only] };
    let mut columns =
        vec![super::live_column(), super::pages_column(), Column::mib("peak", |run| run.peak_heap())];
    columns.extend(super::idle_columns(&[0.0, 1.0, 2.0, 5.0, 10.0]));
    columns.push(Column::ratio("end / live pages", |run| {
        let last = run.last().filter(|_| run.is_finished())?;
        statistics::ratio(last.memory.heap as f64, run.page_bytes as f64)
    }));
    columns.push(Column::new(
        "returned",
        |share| format!("{:.0} %", 100.0 * share),
        |run| {
            let last = run.last().filter(|_| run.is_finished())?;
            Some(1.0 - statistics::ratio(last.memory.heap as f64, run.peak_heap()? as f64)?)
        },
    ));
    let about = "150,000 blocks of 512 bytes, 100,000 of 1 KiB and 50,000 of 2 KiB in turn, by one thread, which \
        frees all but every twentieth; then idle.\nMiB. `live`: requested bytes; `live pages`: 4 KiB pages that \
        hold a live block, counted from the addresses that this allocator chose. The other columns: RSS of the \
        heap; `returned`: of the peak, at the end.\nThe allocator's own call: vcm_release(0), mi_on_thread_idle() \
        where there is one, else mi_collect(true), jemalloc's arena.4096.purge, gperftools' \
        MallocExtension_ReleaseFreeMemory(), google/tcmalloc's ReleaseMemoryToSystem, rpmalloc_thread_collect(), \
        glibc's malloc_trim(0). Nothing is called where the library exports none of them: snmalloc, and the \
        crates of mimalloc 2 and 3.";
    common.measure("scattered", about, cases, &columns, Origin::Stop)
}
