//! `multiplex`: the 20,000-file test and the memory of idle bricks, in one process and in many.

use super::cluster::{Cluster, Shape};
use super::{PACKAGES, reports};
use crate::engine::cell::Cell;
use crate::engine::experiment::*;
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;
use std::time::{Duration, Instant};

const RSS: &str = "rss_mib";
/// More bricks than this in a process each would take several GiB: 240 were seen to cost 3.7 to 4.2.
const MOST_PROCESSES: u64 = 80;
/// The files are written where both ways of serving bricks are compared; the allocator matters little to
/// them.
const BRICKS_UNDER_LOAD: u64 = 20;
const FILE_BYTES: u64 = 4096;
/// Between the last brick online and the look at its memory.
const SETTLE: Duration = Duration::from_secs(5);

const fn idle(allocator: &'static str, axes: &'static [(&'static str, &'static str)]) -> Point {
    Point { allocator, axes, step: "idle", measure: RSS }
}

const TOGETHER_20: &[(&str, &str)] = &[("multiplex", "on"), ("bricks", "20")];
const APART_20: &[(&str, &str)] = &[("multiplex", "off"), ("bricks", "20")];
const TOGETHER_80: &[(&str, &str)] = &[("multiplex", "on"), ("bricks", "80")];
const TOGETHER_240: &[(&str, &str)] = &[("multiplex", "on"), ("bricks", "240")];
const TOGETHER_1000: &[(&str, &str)] = &[("multiplex", "on"), ("bricks", "1000")];

const fn figure(
    allocator: &'static str,
    axes: &'static [(&'static str, &'static str)],
    value: f64,
) -> Figure {
    Figure { report: 1, point: idle(allocator, axes), value }
}

pub static MULTIPLEX: Experiment = Experiment {
    name: "multiplex",
    title: "Bricks in one process and in many",
    question: "What do idle bricks take (20 to 1,000 with --full), in one process and in one each, and how long do thousands \
               of files of 4 KiB (20,000 with --full) take to be created, written and deleted on 20 of them?",
    reports: &[reports::MULTIPLEX, reports::FIRST_RUN],
    then: "In 2016 the 20,000-file test was slower with multiplexing than without, because the pools' locks were \
           shared by all bricks; today the pools belong to threads and the kernel takes half of the bricks' processor \
           time, so the test hardly depends on the allocator (allocator and pools together take 9 to 14 %). Memory \
           does: a thread cache for each of 5,000 threads, mostly idle, is what an allocator must not have.",
    allocators: &["glibc", "jemalloc", "tcmalloc", "mimalloc", "vcmalloc"],
    axes: &[
        Axis {
            name: "multiplex",
            what: "all bricks in one process",
            quick: &["on", "off"],
            full: &["on", "off"],
            setup: false,
        },
        Axis {
            name: "bricks",
            what: "bricks",
            quick: &["20"],
            full: &["20", "80", "240", "1000"],
            setup: false,
        },
    ],
    pairing: Pairing::Turns,
    quick: Plan { repetitions: 1, about: "5 minutes" },
    full: Plan { repetitions: 1, about: "30 minutes" },
    steps: &[
        Step { name: "idle", what: "5 s after the last brick came online, before any load" },
        Step { name: "loaded", what: "20 bricks, right after the files were created and deleted" },
    ],
    measures: &[
        Measure {
            name: RSS,
            unit: "MiB",
            what: "resident memory of all brick processes",
            digits: 1,
            shown: true,
            whole: false,
        },
        Measure {
            name: "pss_mib",
            unit: "MiB",
            what: "the same, shared pages divided",
            digits: 1,
            shown: true,
            whole: false,
        },
        Measure {
            name: "anonymous_mib",
            unit: "MiB",
            what: "anonymous memory",
            digits: 1,
            shown: false,
            whole: false,
        },
        Measure {
            name: "threads",
            unit: "",
            what: "threads of all brick processes",
            digits: 0,
            shown: true,
            whole: false,
        },
        Measure {
            name: "create_seconds",
            unit: "s",
            what: "all files created and written",
            digits: 2,
            shown: true,
            whole: false,
        },
        Measure {
            name: "delete_seconds",
            unit: "s",
            what: "all files deleted",
            digits: 2,
            shown: true,
            whole: false,
        },
        Measure {
            name: "cpu_ms_per_file",
            unit: "ms",
            what: "processor time of the bricks a file",
            digits: 3,
            shown: true,
            whole: false,
        },
        Measure {
            name: "start_seconds",
            unit: "s",
            what: "from nothing to all bricks online",
            digits: 1,
            shown: false,
            whole: false,
        },
        Measure {
            name: "cpu_seconds",
            unit: "s",
            what: "processor time so far",
            digits: 1,
            shown: false,
            whole: false,
        },
    ],
    controls: &[Control {
        what: "a cost that is known is seen: 20 processes take more than one (glibc)",
        higher: idle("glibc", APART_20),
        lower: idle("glibc", TOGETHER_20),
        at_least: 2.0,
    }],
    claims: &[
        Claim {
            what: "memory of 20 idle bricks in one process, vcmalloc over glibc",
            point: idle("vcmalloc", TOGETHER_20),
            over: Some(idle("glibc", TOGETHER_20)),
            at_most: 1.0,
        },
        Claim {
            what: "the same over jemalloc",
            point: idle("vcmalloc", TOGETHER_20),
            over: Some(idle("jemalloc", TOGETHER_20)),
            at_most: 1.0,
        },
        Claim {
            what: "1,000 idle bricks on vcmalloc take at most 353 MiB",
            point: idle("vcmalloc", TOGETHER_1000),
            over: None,
            at_most: 353.0,
        },
        Claim {
            what: "1,000 idle bricks take no more on vcmalloc than on jemalloc in the same run",
            point: idle("vcmalloc", TOGETHER_1000),
            over: Some(idle("jemalloc", TOGETHER_1000)),
            at_most: 1.0,
        },
    ],
    answer: &[
        Compared::axes(
            "memory of idle bricks, one process over one for each, an allocator and a number of bricks a place",
            RSS,
            "idle",
            [&[("multiplex", "on")], &[("multiplex", "off")]],
        ),
        Compared::allocators("all idle bricks on vcmalloc over glibc", RSS, "idle", ["vcmalloc", "glibc"]),
        Compared::allocators("against jemalloc", RSS, "idle", ["vcmalloc", "jemalloc"]),
    ],
    figures: &[
        figure("glibc", TOGETHER_80, 71.5),
        figure("jemalloc", TOGETHER_80, 45.0),
        figure("tcmalloc", TOGETHER_80, 58.0),
        figure("mimalloc", TOGETHER_80, 222.0),
        figure("glibc", TOGETHER_240, 137.0),
        figure("jemalloc", TOGETHER_240, 97.0),
        figure("tcmalloc", TOGETHER_240, 131.0),
        figure("mimalloc", TOGETHER_240, 638.0),
        figure("glibc", TOGETHER_1000, 422.0),
        figure("jemalloc", TOGETHER_1000, 353.0),
    ],
    pictures: &[
        Picture::Only {
            axes: &[("multiplex", "on")],
            picture: &Picture::Lines {
                title: "Idle bricks in one process: resident memory, MiB",
                measure: RSS,
                axis: "bricks",
                step: "idle",
            },
        },
        Picture::Only {
            axes: &[("bricks", "20")],
            picture: &Picture::Bars {
                title: "20 bricks, idle: one process (on) and twenty (off), MiB",
                measure: RSS,
                axis: "multiplex",
                step: "idle",
            },
        },
    ],
    packages: PACKAGES,
    prepare: nothing_to_prepare,
    skip,
    cell: multiplex,
};

fn skip(cell: &Cell) -> Option<&'static str> {
    if cell.number("bricks") == 1000 && cell.allocators.first() == Some(&"mimalloc") {
        return Some("5,000 threads with a heap each take several GiB, and no report has a number for it");
    }
    let apart = !cell.is_on("multiplex");
    (apart && cell.number("bricks") > MOST_PROCESSES)
        .then_some("a process for each brick would take several GiB")
}

fn multiplex(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let shape = Shape { multiplex: cell.is_on("multiplex"), ..Shape::of(cell.number("bricks")) };
        let volumes = shape.volumes;
        let files = if cell.quick { 4_000 } else { 20_000 };
        super::note_load(session, files, FILE_BYTES);
        let begin = Instant::now();
        let cluster = Cluster::up(session, "cluster", shape, cell.allocator())?;
        let start_seconds = begin.elapsed().as_secs_f64();
        session.sleep(SETTLE)?;
        let before = cluster.usage()?;
        let row = Row::of(cell, cell.allocator()).step("idle").value("start_seconds", start_seconds);
        let idle = super::usage_row(row, &before);
        if cell.number("bricks") > BRICKS_UNDER_LOAD {
            return Ok(vec![idle]);
        }
        let loaded = cluster.load(session, volumes, files, FILE_BYTES)?;
        let after = cluster.usage()?;
        let cpu_ms = 1000.0 * (after.cpu_seconds() - before.cpu_seconds());
        let row = super::usage_row(Row::of(cell, cell.allocator()).step("loaded"), &after).values([
            ("create_seconds", loaded.create_seconds),
            ("delete_seconds", loaded.delete_seconds),
            ("cpu_ms_per_file", cpu_ms / loaded.files as f64),
        ]);
        Ok(vec![idle, row])
    })
}
