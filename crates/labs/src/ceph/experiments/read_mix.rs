//! `read-mix`: Ocado's load, from writes only to reads only.
//!
//! Paired: one OSD for each allocator, a block image over all, the same load for all.

use crate::ceph::cluster::pool::{IMAGE, POOL};
use crate::ceph::cluster::release::CLUSTER_PACKAGES_AND_FIO;
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::load::Load;
use crate::ceph::load::fio::Job;
use crate::ceph::paired::{self, Round};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Claim, Control, Experiment, Pairing, Picture, Plan, Point, Report, nothing_to_prepare,
    nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;

const IMAGE_MIB: u64 = 1024;

pub static READ_MIX: Experiment = Experiment {
    name: "read-mix",
    title: "8 KiB blocks, from writes only to reads only",
    question: "Does the allocator's share change with the share of reads?",
    reports: &[Report {
        who: "Ocado Technology",
        year: "2016",
        found: "with 8 KiB blocks, 16 in flight for each of 24 jobs, 32 MiB of TCMalloc's thread caches were not \
                enough for any mixture and 128 MiB were; jemalloc did as well as those 128 MiB without a number \
                that somebody has to know",
        source: "",
    }],
    then: "Ocado had a cluster of flash OSDs with TCMalloc 2.4 and many connections to each. Here one machine has one \
           OSD for each allocator, and their flash is one shared disk under BlueStore (memory under memstore).",
    allocators: &["glibc", "tcmalloc-1M", "tcmalloc", "tcmalloc-128M", "jemalloc", "vcmalloc"],
    axes: &[
        Axis {
            name: "store",
            what: "the object store",
            quick: &["memstore"],
            full: &["memstore", "bluestore"],
            setup: true,
        },
        Axis {
            name: "reads",
            what: "share of reads in percent",
            quick: &["0", "50", "100"],
            full: &["0", "10", "20", "30", "40", "50", "60", "70", "80", "90", "100"],
            setup: false,
        },
    ],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 2, about: "4 minutes" },
    full: Plan { repetitions: 2, about: "14 minutes" },
    steps: &[],
    measures: paired::MEASURES,
    controls: &[Control {
        // Not TCMalloc starved to 1 MiB: with as many operations as the others it costs 0 to 4 % more here.
        what: "glibc costs more than TCMalloc with 32 MiB when all is written",
        higher: writing("glibc"),
        lower: writing("tcmalloc"),
        at_least: 1.03,
    }],
    claims: &[
        Claim {
            what: "processor time per write, vcmalloc over TCMalloc with 32 MiB",
            point: writing("vcmalloc"),
            over: Some(writing("tcmalloc")),
            at_most: 1.0,
        },
        Claim {
            what: "the same over TCMalloc with 128 MiB, which Ceph's packages set",
            point: writing("vcmalloc"),
            over: Some(writing("tcmalloc-128M")),
            at_most: 1.0,
        },
        Claim {
            what: "processor time per read, vcmalloc over TCMalloc with 32 MiB",
            point: reading("vcmalloc"),
            over: Some(reading("tcmalloc")),
            at_most: 1.0,
        },
        Claim {
            what: "the same over TCMalloc with 128 MiB",
            point: reading("vcmalloc"),
            over: Some(reading("tcmalloc-128M")),
            at_most: 1.0,
        },
    ],
    answer: &[paired::OURS, paired::OVER_128_MIB],
    figures: &[],
    pictures: &[
        Picture::Ratios {
            title: "Processor time per operation over the share of reads, TCMalloc with 32 MiB = 1",
            measure: "cpu_ms_per_op",
            over: "tcmalloc",
            axis: "reads",
            step: "",
        },
        Picture::Lines {
            title: "Processor time per operation over the share of reads",
            measure: "cpu_ms_per_op",
            axis: "reads",
            step: "",
        },
        Picture::Lines {
            title: "Operations per second of the whole cluster",
            measure: "client_iops",
            axis: "reads",
            step: "",
        },
    ],
    packages: &CLUSTER_PACKAGES_AND_FIO,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

const fn writing(allocator: &'static str) -> Point {
    Point { allocator, axes: &[("store", "memstore"), ("reads", "0")], step: "", measure: "cpu_ms_per_op" }
}

const fn reading(allocator: &'static str) -> Point {
    Point { allocator, axes: &[("store", "memstore"), ("reads", "100")], step: "", measure: "cpu_ms_per_op" }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    let store = Store::of(cell.text("store"))?;
    let shape = Shape::of(store, cell.allocators.len()).level().image(IMAGE_MIB);
    let cluster = paired::fixture(session, cell, &shape, "", |session, cluster| {
        session.step("filling the image")?;
        Job::fill(IMAGE_MIB).on_image(session, &cluster.client, POOL, IMAGE).map(drop)
    })?;
    let seconds = if cell.quick { 10 } else { 12 };
    let reads = cell.number("reads");
    let job = Job { reads, bytes: 8192, jobs: 24, ..Job::random("randrw", 16, seconds, IMAGE_MIB) };
    let load = |session: &Session| -> Result<Load> {
        let answer = job.on_image(session, &cluster.client, POOL, IMAGE)?;
        session.check()?;
        Ok(answer.together())
    };
    Round { cell, step: "", reads: reads > 50 }.run(session, &cluster, load)
}
