//! `detach`: does memory come back when most bricks leave the process that serves them?

use super::cluster::{Cluster, Shape};
use super::{PACKAGES, reports};
use crate::engine::cell::Cell;
use crate::engine::experiment::*;
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;
use std::time::Duration;

const MEASURE: &str = "rss_mib";
const FULL: &[(&str, &str)] = &[("bricks", "120")];
/// Bricks that stay: one volume.
const STAYING: u64 = 4;
/// How long after the detach memory is looked at.
const WAIT: Duration = Duration::from_secs(10);
const FILE_BYTES: u64 = 4096;

const fn at(allocator: &'static str, step: &'static str) -> Point {
    Point { allocator, axes: &[], step, measure: MEASURE }
}

const fn figure(allocator: &'static str, step: &'static str, value: f64) -> Figure {
    Figure { report: 1, point: Point { allocator, axes: FULL, step, measure: MEASURE }, value }
}

const fn claim(what: &'static str, step: &'static str) -> Claim {
    let point = Point { allocator: "vcmalloc", axes: FULL, step, measure: MEASURE };
    Claim { what, point, over: None, at_most: 70.0 }
}

/// Holds at any number of bricks: what the bricks that stay hold is a smaller share of more.
const fn relative(what: &'static str, step: &'static str) -> Claim {
    Claim { what, point: at("vcmalloc", step), over: Some(at("glibc", step)), at_most: 0.5 }
}

pub static DETACH: Experiment = Experiment {
    name: "detach",
    title: "Memory after most bricks have left",
    question: "Many bricks share one process (120 with --full); all are loaded, then all but 4 are detached. What does the \
               process still hold 10 seconds later, and after a second round?",
    reports: &[reports::MULTIPLEX, reports::FIRST_RUN],
    then: "In 2016 each translator of each brick had pools of its own for each thread. Today's pools are 14 size \
           classes for each thread, so most of the memory is the allocator's business: what it keeps of what was \
           freed shows only when the load is over. A detach is the moment when that is most, and it is not sensitive \
           to how busy the machine is. It is sensitive to its pace: here all volumes leave within a second, as glusterd's \
           waits are shortened, and then nothing runs. jemalloc gives back while threads allocate and free, so it holds less \
           where volumes leave one by one (24 bricks: 68 MiB with 2 s between two volumes, 91 here).",
    allocators: &["glibc", "jemalloc", "tcmalloc", "mimalloc", "vcmalloc"],
    axes: &[Axis {
        name: "bricks",
        what: "bricks in one process",
        quick: &["24"],
        full: &["120"],
        setup: false,
    }],
    pairing: Pairing::Turns,
    quick: Plan { repetitions: 1, about: "4 minutes" },
    full: Plan { repetitions: 1, about: "16 minutes" },
    steps: &[
        Step { name: "idle", what: "all bricks attached, no load yet" },
        Step { name: "loaded", what: "right after the load" },
        Step { name: "detached", what: "10 s after all but 4 bricks were detached" },
        Step { name: "reloaded", what: "after all were attached and loaded again" },
        Step { name: "detached again", what: "10 s after the second detach" },
    ],
    measures: &[
        Measure {
            name: MEASURE,
            unit: "MiB",
            what: "resident memory of the brick process",
            digits: 1,
            shown: true,
            whole: false,
        },
        Measure {
            name: "pss_mib",
            unit: "MiB",
            what: "proportional share",
            digits: 1,
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
        Measure {
            name: "cpu_seconds",
            unit: "s",
            what: "processor time so far",
            digits: 1,
            shown: false,
            whole: false,
        },
    ],
    controls: &[
        Control {
            what: "the load is seen: glibc grows",
            higher: at("glibc", "loaded"),
            lower: at("glibc", "idle"),
            at_least: 1.3,
        },
        Control {
            what: "a cost that is known is seen: glibc keeps what the detached bricks freed",
            higher: at("glibc", "detached"),
            lower: at("glibc", "idle"),
            at_least: 1.3,
        },
    ],
    claims: &[
        relative("memory 10 s after the detach, vcmalloc over glibc", "detached"),
        relative("memory 10 s after the second detach, vcmalloc over glibc", "detached again"),
        claim("of 120 bricks vcmalloc holds at most 70 MiB 10 s after the detach", "detached"),
        claim("of 120 bricks vcmalloc holds at most 70 MiB 10 s after the second detach", "detached again"),
    ],
    answer: &[
        Compared::allocators(
            "memory 10 s after the detach, vcmalloc over glibc",
            MEASURE,
            "detached",
            ["vcmalloc", "glibc"],
        ),
        Compared::allocators("against jemalloc", MEASURE, "detached", ["vcmalloc", "jemalloc"]),
        Compared::allocators("against TCMalloc", MEASURE, "detached", ["vcmalloc", "tcmalloc"]),
    ],
    figures: &[
        figure("glibc", "idle", 91.0),
        figure("glibc", "loaded", 247.0),
        figure("glibc", "detached", 255.0),
        figure("glibc", "reloaded", 346.0),
        figure("glibc", "detached again", 329.0),
        figure("jemalloc", "idle", 57.0),
        figure("jemalloc", "loaded", 368.0),
        figure("jemalloc", "detached", 238.0),
        figure("jemalloc", "reloaded", 397.0),
        figure("jemalloc", "detached again", 171.0),
        figure("tcmalloc", "idle", 74.0),
        figure("tcmalloc", "loaded", 300.0),
        figure("tcmalloc", "detached", 290.0),
        figure("tcmalloc", "reloaded", 306.0),
        figure("tcmalloc", "detached again", 297.0),
        figure("mimalloc", "idle", 303.0),
        figure("mimalloc", "loaded", 427.0),
        figure("mimalloc", "detached", 325.0),
        figure("mimalloc", "reloaded", 619.0),
        figure("mimalloc", "detached again", 463.0),
    ],
    pictures: &[Picture::Steps { title: "Resident memory of the brick process, MiB", measure: MEASURE }],
    packages: PACKAGES,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell: detach,
};

fn detach(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let shape = Shape::of(cell.number("bricks"));
        let (volumes, files) = (shape.volumes, if cell.quick { 4_000 } else { 20_000 });
        let leaving = STAYING / shape.bricks_each + 1..=volumes;
        super::note_load(session, files, FILE_BYTES);
        let cluster = Cluster::up(session, "cluster", shape, cell.allocator())?;
        let mut rows = Vec::new();
        let mut take = |step: &str| -> Result<()> {
            session.step(&format!("measuring: {step}"))?;
            rows.push(super::usage_row(Row::of(cell, cell.allocator()).step(step), &cluster.usage()?));
            Ok(())
        };
        take("idle")?;
        cluster.load(session, volumes, files, FILE_BYTES)?;
        take("loaded")?;
        cluster.stop(session, leaving.clone())?;
        session.sleep(WAIT)?;
        take("detached")?;
        cluster.start(session, leaving.clone())?;
        cluster.load(session, volumes, files, FILE_BYTES)?;
        take("reloaded")?;
        cluster.stop(session, leaving)?;
        session.sleep(WAIT)?;
        take("detached again")?;
        Ok(rows)
    })
}
