//! `tuning-ladder`: Intel's steps from a default configuration to a tuned one, the allocator as the last
//! rung.
//!
//! Each rung keeps what the rungs before it changed. Every rung has all allocators in it, so that the last
//! rung can be read beside the others: what is gained by choosing the allocator, against what the other steps
//! gain.

use crate::ceph::cluster::Cluster;
use crate::ceph::cluster::pool::{IMAGE, POOL};
use crate::ceph::cluster::release::CLUSTER_PACKAGES_AND_FIO;
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::load::Load;
use crate::ceph::load::fio::Job;
use crate::ceph::paired::{self, Round};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Claim, Compared, Control, Experiment, Pairing, Picture, Plan, Point, Report, Step,
    nothing_to_prepare, nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::{Result, bail};

const IMAGE_MIB: u64 = 1024;

/// The rungs above the first, and what each adds.
const RUNGS: [(&str, &[&str]); 6] = [
    ("baseline", &[]),
    ("two OSDs a device", &[]),
    ("debug off", &[]),
    (
        "throttles x10",
        &[
            "osd client message cap = 2560",
            "osd client message size cap = 5242880000",
            "objecter inflight ops = 10240",
            "ms dispatch throttle bytes = 1048576000",
            "bluestore throttle bytes = 671088640",
            "bluestore throttle deferred bytes = 1342177280",
        ],
    ),
    (
        "caches and op tracker off",
        &[
            "osd enable op tracker = false",
            "bluestore cache size = 67108864",
            "bluestore cache autotune = false",
        ],
    ),
    (LEVEL, &[]),
];

/// Not one of Intel's: until then CRUSH gives one OSD three times the operations of another, and the busier
/// one looks cheaper. Only here can allocators be compared.
const LEVEL: &str = "placement level";
const AT_LEVEL: &[(&str, &str)] = &[("rung", LEVEL)];

pub static TUNING_LADDER: Experiment = Experiment {
    name: "tuning-ladder",
    title: "From the default configuration to a tuned one, step by step",
    question: "What does each of the usual steps of tuning bring, and the allocator beside them? Where in the OSD is \
               the time of an operation spent, and do all OSDs get the same share?",
    reports: &[Report {
        who: "Intel, on Ceph with flash",
        year: "2015",
        found: "from 4 KiB random reads and writes in default configuration, steps (more OSDs a device, debug = 0, larger \
                throttles, op tracker and caches off, jemalloc) multiplied the throughput; the last step, the allocator, \
                more than doubled random reads",
        source: "",
    }],
    then: "Intel had servers with flash devices, 36 processors and Ceph 0.87, which logged much more by default and had \
           FileStore. Here two processors and one shared disk carry all OSDs, BlueStore of 16.2 needs no throttle \
           opened for them, and the disk is what limits most steps. Intel's steps say nothing of how evenly the OSDs are \
           loaded: 64 placement groups over eight OSDs give one three times the operations of another, so the last rung \
           here pins them, as Ceph's balancer would, and the allocators are compared there.",
    allocators: &["glibc", "tcmalloc", "tcmalloc-128M", "jemalloc", "vcmalloc"],
    axes: &[Axis {
        name: "rung",
        what: "what was changed, with everything before it",
        quick: &["baseline", LEVEL],
        full: &[
            "baseline",
            "two OSDs a device",
            "debug off",
            "throttles x10",
            "caches and op tracker off",
            LEVEL,
        ],
        setup: true,
    }],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 1, about: "4 minutes" },
    full: Plan { repetitions: 2, about: "15 minutes" },
    steps: &[
        Step { name: "write 4K", what: "4 KiB random writes, 64 in flight" },
        Step { name: "read 4K", what: "4 KiB random reads, 64 in flight" },
        Step { name: "write 64K", what: "64 KiB sequential writes, 16 in flight" },
        Step { name: "read 64K", what: "64 KiB sequential reads, 16 in flight" },
    ],
    measures: paired::MEASURES,
    controls: &[Control {
        what: "glibc costs more than TCMalloc with 32 MiB",
        higher: tuned("glibc"),
        lower: tuned("tcmalloc"),
        at_least: 1.02,
    }],
    claims: &[
        Claim {
            what: "processor time per 4 KiB write on the last rung, vcmalloc over TCMalloc with 32 MiB",
            point: tuned("vcmalloc"),
            over: Some(tuned("tcmalloc")),
            at_most: 1.0,
        },
        Claim {
            what: "the same over TCMalloc with 128 MiB, which Ceph's packages set",
            point: tuned("vcmalloc"),
            over: Some(tuned("tcmalloc-128M")),
            at_most: 1.0,
        },
    ],
    answer: &[
        Compared::axes(
            "4 KiB writes per second of the cluster, the last rung over the first",
            "client_iops",
            "write 4K",
            [&[("rung", LEVEL)], &[("rung", "baseline")]],
        ),
        paired::OURS.at(AT_LEVEL),
        paired::OVER_128_MIB.at(AT_LEVEL),
    ],
    figures: &[],
    pictures: &[
        Picture::Only {
            axes: AT_LEVEL,
            picture: &Picture::Ratios {
                title: "Processor time per operation on the last rung, TCMalloc with 32 MiB = 1",
                measure: "cpu_ms_per_op",
                over: "tcmalloc",
                axis: "",
                step: "",
            },
        },
        Picture::Bars {
            title: "4 KiB writes per second of the whole cluster",
            measure: "client_iops",
            axis: "rung",
            step: "write 4K",
        },
        Picture::Bars {
            title: "Processor time per 4 KiB write",
            measure: "cpu_ms_per_op",
            axis: "rung",
            step: "write 4K",
        },
    ],
    packages: &CLUSTER_PACKAGES_AND_FIO,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

const fn tuned(allocator: &'static str) -> Point {
    Point { allocator, axes: AT_LEVEL, step: "write 4K", measure: "cpu_ms_per_op" }
}

fn shape(cell: &Cell) -> Result<Shape> {
    let Some(rung) = RUNGS.iter().position(|(name, _)| *name == cell.text("rung")) else {
        bail!("there is no rung '{}'", cell.text("rung"));
    };
    let osds = cell.allocators.len() * if rung >= 1 { 2 } else { 1 };
    let mut shape = Shape::of(Store::Bluestore, osds).image(IMAGE_MIB);
    shape.default_debug = rung < 2;
    if cell.text("rung") == LEVEL {
        shape = shape.level();
    }
    for line in RUNGS[..=rung].iter().flat_map(|(_, lines)| lines.iter()) {
        shape = shape.osd(line);
    }
    Ok(shape)
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let cluster = Cluster::up(session, &shape(cell)?, &cell.allocators)?;
        session.step("filling the image")?;
        Job::fill(IMAGE_MIB).on_image(session, &cluster.client, POOL, IMAGE)?;
        let seconds = if cell.quick { 8 } else { 12 };
        let mut rows = Vec::new();
        let random = |mode| Job::random(mode, 64, seconds, IMAGE_MIB);
        let sequential = |mode| Job { bytes: 65536, ..Job::random(mode, 16, seconds, IMAGE_MIB) };
        let steps = [
            ("write 4K", random("randwrite")),
            ("read 4K", random("randread")),
            ("write 64K", sequential("write")),
            ("read 64K", sequential("read")),
        ];
        for (step, job) in steps {
            let load = |session: &Session| -> Result<Load> {
                Ok(job.on_image(session, &cluster.client, POOL, IMAGE)?.together())
            };
            let round = Round { cell, step, reads: step.starts_with("read") };
            rows.extend(round.run(session, &cluster, load)?);
        }
        Ok(rows)
    })
}
