//! `many-threads`: Ceph 14.2 with the messenger that has two threads for each connection, the nearest to
//! 2015.
//!
//! Paired like `thread-cache`. The clients are what makes the threads, so their number is the axis.

use crate::ceph::cluster::Cluster;
use crate::ceph::cluster::pool::{IMAGE, POOL};
use crate::ceph::cluster::release::{CLUSTER_PACKAGES_AND_FIO, Release};
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::load::fio::Job;
use crate::ceph::load::{Load, fio};
use crate::ceph::paired::{self, Round};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Claim, Control, Experiment, Pairing, Picture, Plan, Point, Report, Step, nothing_to_prepare,
    nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;

const IMAGE_MIB: u64 = 512;

pub static MANY_THREADS: Experiment = Experiment {
    name: "many-threads",
    title: "Ceph 14.2 with two threads for each connection",
    question: "What do hundreds of threads in one OSD cost under each allocator, as they did when the report of 2015 \
               was written?",
    reports: &[Report {
        who: "SanDisk and Red Hat, on the Ceph developers' list",
        year: "2015",
        found: "with several hundred threads behind TCMalloc's default of 32 MiB of thread caches, 55 % of an OSD's \
                processor time went into moving blocks between caches (FetchFromSpans, ReleaseToCentralCache, \
                ReleaseToSpans), and 4 KiB random writes ran 4.2 times slower than on jemalloc",
        source: "https://www.spinics.net/lists/ceph-devel/msg25635.html",
    }],
    then: "Ceph 0.94 with TCMalloc 2.1 on servers with 40 processors, eight flash OSDs and a thousand and more \
           threads in each; its thread caches could not be enlarged at all, as the variable was ignored before 2.2. \
           Here: Ceph 14.2 (Debian 11) with `ms type = simple`, TCMalloc 2.8, memstore, two processors: what runs \
           at the same time is two threads, however many there are. Debian 11's C library (2.31) registers no \
           thread for restartable sequences: vcmalloc does so itself, and these OSDs are on caches of virtual CPUs.",
    allocators: &["glibc", "tcmalloc-1M", "tcmalloc", "tcmalloc-128M", "jemalloc", "vcmalloc", "vcmalloc-1M"],
    axes: &[Axis {
        name: "clients",
        what: "connections to each OSD, each with two threads there",
        quick: &["100"],
        full: &["20", "100", "200"],
        setup: true,
    }],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 2, about: "4 minutes" },
    full: Plan { repetitions: 2, about: "10 minutes" },
    steps: &[
        Step { name: "write", what: "4 KiB random writes to a block image, one in flight for each client" },
        Step { name: "read", what: "4 KiB random reads of it" },
    ],
    measures: paired::MEASURES,
    controls: &[Control {
        what: "TCMalloc starved to 1 MiB costs more than with 32 MiB",
        higher: with_100("tcmalloc-1M"),
        lower: with_100("tcmalloc"),
        at_least: 1.05,
    }],
    claims: &[
        Claim {
            what: "processor time per write, vcmalloc over TCMalloc with 32 MiB",
            point: with_100("vcmalloc"),
            over: Some(with_100("tcmalloc")),
            at_most: 1.0,
        },
        Claim {
            what: "the same over TCMalloc with 128 MiB, which Ceph's packages set",
            point: with_100("vcmalloc"),
            over: Some(with_100("tcmalloc-128M")),
            at_most: 1.0,
        },
        Claim {
            what: "the same with 1 MiB of caches on both, vcmalloc over TCMalloc with 1 MiB",
            point: with_100("vcmalloc-1M"),
            over: Some(with_100("tcmalloc-1M")),
            at_most: 0.80,
        },
    ],
    answer: &[paired::OURS, paired::OVER_128_MIB],
    figures: &[],
    pictures: &[
        Picture::Ratios {
            title: "Processor time per write over clients, TCMalloc with 32 MiB = 1",
            measure: "cpu_ms_per_op",
            over: "tcmalloc",
            axis: "clients",
            step: "write",
        },
        Picture::Lines {
            title: "Processor time per write over the number of clients",
            measure: "cpu_ms_per_op",
            axis: "clients",
            step: "write",
        },
        Picture::Lines {
            title: "Memory at equal work over the number of clients",
            measure: "rss_equal_mib",
            axis: "clients",
            step: "write",
        },
    ],
    packages: &CLUSTER_PACKAGES_AND_FIO,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

const fn with_100(allocator: &'static str) -> Point {
    Point { allocator, axes: &[("clients", "100")], step: "write", measure: "cpu_ms_per_op" }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let shape = Shape::of(Store::Memstore, cell.allocators.len()).release(Release::Nautilus).level();
        let shape = shape.image(IMAGE_MIB).osd("ms type = simple").osd("ms bind msgr2 = false");
        let cluster = Cluster::up(session, &shape, &cell.allocators)?;
        measure(session, cell, &cluster)
    })
}

fn measure(session: &Session, cell: &Cell, cluster: &Cluster) -> Result<Vec<Row>> {
    let seconds = if cell.quick { 15 } else { 25 };
    let clients = cell.number("clients");
    let run = |session: &Session, mode: &'static str, seconds: u64| -> Result<fio::Answer> {
        let job = Job { jobs: clients, ..Job::random(mode, 1, seconds, IMAGE_MIB) };
        job.on_image(session, &cluster.client, POOL, IMAGE)
    };
    session.step("filling the image")?;
    Job::fill(IMAGE_MIB).on_image(session, &cluster.client, POOL, IMAGE)?;
    let mut rows = Vec::new();
    for (step, mode) in [("write", "randwrite"), ("read", "randread")] {
        let load = |session: &Session| -> Result<Load> {
            let answer = run(session, mode, seconds)?;
            Ok(if step == "write" { answer.write.load } else { answer.read.load })
        };
        rows.extend(Round { cell, step, reads: step == "read" }.run(session, cluster, load)?);
    }
    // fio opens the image once for each client before it begins: perf looks at what comes after.
    let looked = 8 + clients / 10;
    paired::add_inside(session, cluster, &mut rows, "write", looked, |session| {
        run(session, "randwrite", 12).map(|answer| answer.write.load)
    })?;
    Ok(rows)
}
