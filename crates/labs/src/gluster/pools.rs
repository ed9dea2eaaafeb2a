//! `pools`: Gluster's own memory pools on and off, over each allocator.

use super::cluster::{Cluster, Shape};
use super::{PACKAGES, reports};
use crate::engine::cell::Cell;
use crate::engine::experiment::*;
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;
use std::time::Duration;

const RSS: &str = "rss_mib";
const FILE_BYTES: u64 = 4096;
const STAYING: u64 = 4;
const WAIT: Duration = Duration::from_secs(10);

const fn at(
    allocator: &'static str,
    axes: &'static [(&'static str, &'static str)],
    step: &'static str,
) -> Point {
    Point { allocator, axes, step, measure: RSS }
}

const ON: &[(&str, &str)] = &[("pools", "on")];
const OFF: &[(&str, &str)] = &[("pools", "off")];
const ON_120: &[(&str, &str)] = &[("pools", "on"), ("bricks", "120")];
const OFF_120: &[(&str, &str)] = &[("pools", "off"), ("bricks", "120")];

pub static POOLS: Experiment = Experiment {
    name: "pools",
    title: "Gluster's own pools, on and off",
    question: "Gluster keeps freed objects in pools of its own, for each thread. What do they cost and gain over each \
               allocator?",
    reports: &[reports::MULTIPLEX, reports::FIRST_RUN, reports::POOLS_OFF],
    then: "In 2016 a pool belonged to a translator and a thread; taking them out carried twice the volumes. Today \
           there are 14 pools for each thread, of powers of two. Debian builds them in; here a preload of the \
           functions that take from them and give to them turns them off.",
    allocators: &["glibc", "jemalloc", "tcmalloc", "mimalloc", "vcmalloc"],
    axes: &[
        Axis { name: "bricks", what: "bricks in one process", quick: &["20"], full: &["120"], setup: false },
        Axis {
            name: "pools",
            what: "Gluster's own pools",
            quick: &["on", "off"],
            full: &["on", "off"],
            setup: false,
        },
    ],
    pairing: Pairing::Turns,
    quick: Plan { repetitions: 1, about: "5 minutes" },
    full: Plan { repetitions: 1, about: "25 minutes" },
    steps: &[
        Step { name: "idle", what: "all bricks attached, no load yet" },
        Step { name: "loaded", what: "right after the load" },
        Step { name: "detached", what: "10 s after all but 4 bricks were detached" },
    ],
    measures: &[
        Measure {
            name: RSS,
            unit: "MiB",
            what: "resident memory of the brick process",
            digits: 1,
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
            name: "create_seconds",
            unit: "s",
            what: "files created and written",
            digits: 2,
            shown: false,
            whole: false,
        },
        Measure {
            name: "delete_seconds",
            unit: "s",
            what: "files deleted",
            digits: 2,
            shown: false,
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
        Measure { name: "threads", unit: "", what: "threads", digits: 0, shown: false, whole: false },
    ],
    controls: &[
        Control {
            // Under load: an idle brick has hardly touched a pool.
            what: "turning the pools off has an effect: glibc under load is smaller without them",
            higher: at("glibc", ON, "loaded"),
            lower: at("glibc", OFF, "loaded"),
            at_least: 1.03,
        },
        Control {
            what: "a cost that is known is seen: glibc keeps what the detached bricks freed",
            higher: at("glibc", ON, "detached"),
            lower: at("glibc", ON, "idle"),
            at_least: 1.3,
        },
    ],
    claims: &[],
    answer: &[
        Compared::allocators(
            "memory 10 s after the detach, vcmalloc over glibc",
            RSS,
            "detached",
            ["vcmalloc", "glibc"],
        ),
        Compared::axes(
            "memory under load without Gluster's pools over with them, an allocator a place",
            RSS,
            "loaded",
            [OFF, ON],
        ),
        Compared::axes("10 s after the detach", RSS, "detached", [OFF, ON]),
        Compared::axes("processor time of the bricks a file", "cpu_ms_per_file", "loaded", [OFF, ON]),
    ],
    figures: &[
        Figure { report: 1, point: at("glibc", ON_120, "idle"), value: 91.0 },
        Figure { report: 1, point: at("glibc", ON_120, "loaded"), value: 247.0 },
        Figure { report: 1, point: at("glibc", ON_120, "detached"), value: 255.0 },
        Figure { report: 1, point: at("glibc", OFF_120, "idle"), value: 78.0 },
        Figure { report: 1, point: at("glibc", OFF_120, "loaded"), value: 229.0 },
        Figure { report: 1, point: at("glibc", OFF_120, "detached"), value: 236.0 },
    ],
    pictures: &[
        Picture::Bars {
            title: "Right after the load, pools on and off: resident memory, MiB",
            measure: RSS,
            axis: "pools",
            step: "loaded",
        },
        Picture::Bars {
            title: "10 s after the detach, pools on and off: resident memory, MiB",
            measure: RSS,
            axis: "pools",
            step: "detached",
        },
        Picture::Bars {
            title: "Processor time of the bricks a file, ms",
            measure: "cpu_ms_per_file",
            axis: "pools",
            step: "loaded",
        },
    ],
    packages: PACKAGES,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell: pools,
};

fn pools(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let shape = Shape { pools: cell.is_on("pools"), ..Shape::of(cell.number("bricks")) };
        let (volumes, files) = (shape.volumes, if cell.quick { 4_000 } else { 20_000 });
        let leaving = STAYING / shape.bricks_each + 1..=volumes;
        super::note_load(session, files, FILE_BYTES);
        let cluster = Cluster::up(session, "cluster", shape, cell.allocator())?;
        let row = |step: &str| Row::of(cell, cell.allocator()).step(step);
        let before = cluster.usage()?;
        let loaded = cluster.load(session, volumes, files, FILE_BYTES)?;
        let after = cluster.usage()?;
        let cpu_ms = 1000.0 * (after.cpu_seconds() - before.cpu_seconds());
        cluster.stop(session, leaving)?;
        session.sleep(WAIT)?;
        Ok(vec![
            super::usage_row(row("idle"), &before),
            super::usage_row(row("loaded"), &after).values([
                ("create_seconds", loaded.create_seconds),
                ("delete_seconds", loaded.delete_seconds),
                ("cpu_ms_per_file", cpu_ms / loaded.files as f64),
            ]),
            super::usage_row(row("detached"), &cluster.usage()?),
        ])
    })
}
