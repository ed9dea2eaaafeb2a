//! `scattered`: one block in twenty stays, in nearly every span. Who gives back pages inside of spans?

use super::super::report::{Column, Origin};
use super::super::session::Case;
use super::{Common, arguments as list};
use crate::harness::surroundings;
use anyhow::Result;
use clap::Args;
use std::time::Duration;
use vcm_measure::statistics;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Seconds to watch the idle process
    #[arg(long, default_value_t = 10.5, value_parser = surroundings::seconds)]
    pub seconds: f64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let case = |name: &str, words: &[&dyn ToString]| Case {
        name: name.to_owned(),
        arguments: list(words),
        idle: Duration::from_secs_f64(arguments.seconds),
        limit: Duration::from_secs(120),
        cgroup_bytes: None,
    };
    let cases = [
        case("nothing is called", &[&"scattered"]),
        case("the allocator's own call every 100 ms", &[&"scattered", &"--asking"]),
    ];
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
    common.measure("scattered", about, &cases, &columns, Origin::Stop)
}
