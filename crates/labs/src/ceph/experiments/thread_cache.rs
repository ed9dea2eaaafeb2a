//! `thread-cache`: the report of 2015, with all allocators at the same moment.
//!
//! One cluster has one OSD for each allocator, with the same placement groups each; all get the same load at
//! the same moment, and what is compared is processor time per own operation. Noise of the machine meets all
//! alike.

use crate::ceph::cluster::Cluster;
use crate::ceph::cluster::pool::POOL;
use crate::ceph::cluster::release::CLUSTER_PACKAGES;
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::load::Load;
use crate::ceph::load::rados_bench::Bench;
use crate::ceph::paired::{self, Round};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Claim, Compared, Control, Experiment, Pairing, Picture, Plan, Point, Report, Step,
    nothing_to_prepare, nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;

pub static THREAD_CACHE: Experiment = Experiment {
    name: "thread-cache",
    title: "Ceph OSDs under five allocators, 4 KiB writes and reads",
    question: "What does an OSD's processor time per operation, and its memory, owe to its allocator? And what \
               happens when TCMalloc's thread caches are too small for its threads?",
    reports: &[
        Report {
            who: "SanDisk and Red Hat, on the Ceph developers' list",
            year: "2015",
            found: "4 KiB random writes were 4.2 times faster on jemalloc than on TCMalloc 2.1 with its default \
                    thread caches; more than half of the processor time was spent moving blocks between caches. \
                    128 MiB of thread caches mended it; jemalloc cost about 300 MB more a daemon",
            source: "https://www.spinics.net/lists/ceph-devel/msg25635.html",
        },
        Report {
            who: "our own earlier measurement with the same method",
            year: "2026",
            found: "on one machine of two processors, Ceph 16.2 on memstore",
            source: "",
        },
    ],
    then: "In 2015 an OSD had several hundred to some thousand threads (two for each connection) and a machine had \
           dozens of them, so 32 MiB of thread caches were a few KiB a thread. Since Ceph 12 an OSD has about 60 \
           threads whatever the number of clients, so TCMalloc with 1 MiB stands for its default of then. The load \
           was a block image on flash; here it is `rados bench` on memory or on one shared disk.",
    allocators: &[
        "glibc",
        "tcmalloc-1M",
        "tcmalloc",
        "tcmalloc-128M",
        "jemalloc",
        "mimalloc",
        "vcmalloc",
        "vcmalloc-1M",
    ],
    axes: &[Axis {
        name: "store",
        what: "the object store: memstore leaves the disk out, so the allocator shows most",
        quick: &["memstore"],
        full: &["memstore", "bluestore"],
        setup: true,
    }],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 3, about: "4 minutes" },
    full: Plan { repetitions: 8, about: "28 minutes" },
    steps: &[
        Step { name: "write 32", what: "4 KiB writes of new objects, 32 in flight over all OSDs" },
        Step { name: "write 128", what: "the same, 128 in flight" },
        Step { name: "read 32", what: "4 KiB reads at random, 32 in flight" },
        Step { name: "read 128", what: "the same, 128 in flight" },
    ],
    measures: paired::MEASURES,
    controls: &[
        Control {
            what: "glibc costs more than TCMalloc with 32 MiB",
            higher: on_memstore("glibc", "write 32"),
            lower: on_memstore("tcmalloc", "write 32"),
            at_least: 1.05,
        },
        Control {
            what: "TCMalloc starved to 1 MiB costs more than with 32 MiB",
            higher: on_memstore("tcmalloc-1M", "write 32"),
            lower: on_memstore("tcmalloc", "write 32"),
            at_least: 1.05,
        },
    ],
    claims: &[
        Claim {
            what: "processor time per write, vcmalloc over TCMalloc with 32 MiB",
            point: on_memstore("vcmalloc", "write 32"),
            over: Some(on_memstore("tcmalloc", "write 32")),
            at_most: 0.95,
        },
        Claim {
            what: "the same over TCMalloc with 128 MiB, which Ceph's packages set",
            point: on_memstore("vcmalloc", "write 32"),
            over: Some(on_memstore("tcmalloc-128M", "write 32")),
            at_most: 1.0,
        },
        Claim {
            what: "the same over jemalloc",
            point: on_memstore("vcmalloc", "write 32"),
            over: Some(on_memstore("jemalloc", "write 32")),
            at_most: 1.0,
        },
        Claim {
            what: "the same over mimalloc",
            point: on_memstore("vcmalloc", "write 32"),
            over: Some(on_memstore("mimalloc", "write 32")),
            at_most: 1.0,
        },
        Claim {
            what: "the same with 1 MiB of caches on both, vcmalloc over TCMalloc with 1 MiB",
            point: on_memstore("vcmalloc-1M", "write 32"),
            over: Some(on_memstore("tcmalloc-1M", "write 32")),
            at_most: 0.80,
        },
        Claim {
            what: "memory at equal work, vcmalloc over TCMalloc with 32 MiB",
            point: memory("vcmalloc"),
            over: Some(memory("tcmalloc")),
            at_most: 1.0,
        },
        Claim {
            what: "memory at equal work, vcmalloc over TCMalloc with 128 MiB",
            point: memory("vcmalloc"),
            over: Some(memory("tcmalloc-128M")),
            at_most: 1.0,
        },
        Claim {
            what: "memory at equal work, vcmalloc over jemalloc",
            point: memory("vcmalloc"),
            over: Some(memory("jemalloc")),
            at_most: 1.0,
        },
    ],
    answer: &[
        paired::OURS,
        paired::OVER_128_MIB,
        Compared::allocators(
            "TCMalloc with 1 MiB of caches over TCMalloc with 32 MiB",
            "cpu_ms_per_op",
            "",
            ["tcmalloc-1M", "tcmalloc"],
        ),
        Compared::allocators(
            "memory at equal work, vcmalloc over TCMalloc with 32 MiB",
            "rss_equal_mib",
            "",
            ["vcmalloc", "tcmalloc"],
        ),
    ],
    figures: &[],
    pictures: &[
        Picture::Ratios {
            title: "Processor time per operation, TCMalloc with 32 MiB = 1",
            measure: "cpu_ms_per_op",
            over: "tcmalloc",
            axis: "",
            step: "",
        },
        Picture::Steps { title: "Processor time per operation", measure: "cpu_ms_per_op" },
        Picture::Steps { title: "Share of processor time inside the allocator", measure: "inside_percent" },
        Picture::Steps { title: "Memory at equal work", measure: "rss_equal_mib" },
    ],
    packages: &CLUSTER_PACKAGES,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

const fn on_memstore(allocator: &'static str, step: &'static str) -> Point {
    Point { allocator, axes: &[("store", "memstore")], step, measure: "cpu_ms_per_op" }
}

const fn memory(allocator: &'static str) -> Point {
    Point { allocator, axes: &[("store", "memstore")], step: "write 128", measure: "rss_equal_mib" }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let store = Store::of(cell.text("store"))?;
        let shape = Shape::of(store, cell.allocators.len()).level();
        let cluster = Cluster::up(session, &shape, &cell.allocators)?;
        measure(session, cell, &cluster)
    })
}

fn measure(session: &Session, cell: &Cell, cluster: &Cluster) -> Result<Vec<Row>> {
    let seconds = if cell.quick { 8 } else { 15 };
    let bench = |in_flight| Bench {
        pool: POOL,
        namespace: "",
        name: "thread-cache",
        seconds,
        in_flight,
        bytes: 4096,
    };
    let warm = Bench { seconds: 2, name: "warm", ..bench(32) };
    warm.write(session, &cluster.client)?;
    let mut rows = Vec::new();
    for (step, in_flight) in [("write 32", 32), ("write 128", 128), ("read 32", 32), ("read 128", 128)] {
        let load = |session: &Session| -> Result<Load> {
            match step.starts_with("write") {
                true => bench(in_flight).write(session, &cluster.client),
                false => bench(in_flight).read(session, &cluster.client),
            }
        };
        let round = Round { cell, step, reads: step.starts_with("read") };
        rows.extend(round.run(session, cluster, load)?);
    }
    let perf = Bench { seconds: 6, name: "sampled", ..bench(32) };
    paired::add_inside(session, cluster, &mut rows, "write 32", 5, |session| {
        perf.write(session, &cluster.client)
    })?;
    Ok(rows)
}
