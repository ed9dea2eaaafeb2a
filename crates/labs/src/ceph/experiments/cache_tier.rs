//! `cache-tier`: a pool of fast copies in front of a pool, under a load that has favourites.

use crate::ceph::cluster::Cluster;
use crate::ceph::cluster::pool::{self, IMAGE, POOL};
use crate::ceph::cluster::release::CLUSTER_PACKAGES_AND_FIO;
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::load::Load;
use crate::ceph::load::fio::Job;
use crate::ceph::paired::{self, Round, measure, of_all};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Compared, Control, Experiment, Measure, Pairing, Picture, Plan, Point, Report, Step,
    nothing_to_prepare, nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;

const IMAGE_MIB: u64 = 512;
const TIER: &str = "hot";

pub static CACHE_TIER: Experiment = Experiment {
    name: "cache-tier",
    title: "A writeback cache tier under a load with favourites",
    question: "What does a cache tier do to random writes and reads whose blocks follow a zipf distribution, and what does \
               it cost the OSDs?",
    reports: &[
        Report {
            who: "several reports on cache tiers, flashcache and bcache under Ceph",
            year: "2014 to 2016",
            found: "a tier of flash in front of disks pays when the favourites fit into it; promotions and flushes cost \
                    more than they bring when they do not",
            source: "",
        },
        Report {
            who: "our own earlier measurement",
            year: "2026",
            found: "with the tier on the same disk, 0.81 times the operations at zipf 0.8 and 0.74 times at 1.2",
            source: "",
        },
    ],
    then: "The reports had flash in front of spinning disks. One machine with one disk has only the costs: the tier is \
           on the same device. flashcache and bcache need a kernel module and a second device; the tier is the nearest \
           that runs here. Favourites lie in few objects, so a few OSDs have most of the operations: what is \
           compared is the cluster with and without the tier, not one OSD with another.",
    allocators: &["glibc", "tcmalloc", "tcmalloc-128M", "jemalloc", "vcmalloc"],
    axes: &[
        Axis {
            name: "tier",
            what: "none, or a writeback tier",
            quick: &["none", "writeback"],
            full: &["none", "writeback"],
            setup: true,
        },
        Axis {
            name: "zipf",
            what: "how much the favourites are preferred",
            quick: &["1.2"],
            full: &["0.8", "1.2"],
            setup: false,
        },
    ],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 1, about: "3 minutes" },
    full: Plan { repetitions: 2, about: "10 minutes" },
    steps: &[
        Step { name: "write", what: "4 KiB random writes, 32 in flight" },
        Step { name: "read", what: "4 KiB random reads, 32 in flight" },
    ],
    measures: MEASURES,
    controls: &[Control {
        what: "the tier is there: a write through it takes longer on one disk",
        higher: at(&[("tier", "writeback"), ("zipf", "1.2")]),
        lower: at(&[("tier", "none"), ("zipf", "1.2")]),
        at_least: 1.05,
    }],
    claims: &[],
    answer: &[
        Compared::axes(
            "writes per second of the cluster, with a writeback tier over without",
            "client_iops",
            "write",
            [&[("tier", "writeback")], &[("tier", "none")]],
        ),
        Compared::axes(
            "reads per second",
            "client_iops",
            "read",
            [&[("tier", "writeback")], &[("tier", "none")]],
        ),
        Compared::axes(
            "processor time of all OSDs for each write",
            "cluster_cpu_ms",
            "write",
            [&[("tier", "writeback")], &[("tier", "none")]],
        ),
    ],
    figures: &[],
    pictures: &[
        Picture::Bars {
            title: "Operations per second of the whole cluster, writes",
            measure: "client_iops",
            axis: "tier",
            step: "write",
        },
        Picture::Bars {
            title: "Operations per second of the whole cluster, reads",
            measure: "client_iops",
            axis: "tier",
            step: "read",
        },
        Picture::Bars {
            title: "Processor time of all OSDs for each write of the client, ms",
            measure: "cluster_cpu_ms",
            axis: "tier",
            step: "write",
        },
    ],
    packages: &CLUSTER_PACKAGES_AND_FIO,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

/// The tier's effect on the cluster. No allocator is compared with another: a load with favourites has most of its
/// operations in a few objects, so OSDs have 0.55 to 1.59 of the mean whatever the placement, and the busier one looks
/// cheaper by a fifth. Each OSD's own numbers are in the JSON.
static MEASURES: &[Measure] = &[
    paired::CLIENT_IOPS,
    paired::CLIENT_MS,
    of_all("cluster_cpu_ms", "ms", 4, "processor time of all OSDs together for each operation of the client"),
    of_all("cluster_rss_mib", "MiB", 0, "memory of all OSDs together at the end of the step"),
    measure("imbalance", "", 2, true, "own operations of the OSD over the mean of all"),
    measure("cpu_ms_per_op", "ms", 4, false, "processor time of the OSD per own operation"),
    measure("operations", "", 0, false, "own operations in the step"),
    measure("rss_mib", "MiB", 1, false, "memory of the OSD at the end of the step"),
];

const fn at(axes: &'static [(&'static str, &'static str)]) -> Point {
    Point { allocator: "vcmalloc", axes, step: "write", measure: "client_ms" }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    let shape = Shape::of(Store::Bluestore, cell.allocators.len()).level().image(IMAGE_MIB);
    let cluster = paired::fixture(session, cell, &shape, cell.text("tier"), |session, cluster| {
        session.step("filling the image")?;
        Job::fill(IMAGE_MIB).on_image(session, &cluster.client, POOL, IMAGE)?;
        match cell.text("tier") {
            "none" => Ok(()),
            _ => put_tier(session, cluster),
        }
    })?;
    let seconds = if cell.quick { 12 } else { 20 };
    let zipf = cell.text("zipf").parse().ok();
    let mut rows = Vec::new();
    for (step, mode) in [("write", "randwrite"), ("read", "randread")] {
        let job = Job { zipf, ..Job::random(mode, 32, seconds, IMAGE_MIB) };
        let load = |session: &Session| -> Result<Load> {
            Ok(job.on_image(session, &cluster.client, POOL, IMAGE)?.together())
        };
        let round = Round { cell, step, reads: step == "read" }.run(session, &cluster, load)?;
        rows.extend(of_the_cluster(round));
    }
    Ok(rows)
}

/// Puts what all OSDs used together into each of their rows.
fn of_the_cluster(rows: Vec<Row>) -> Vec<Row> {
    let value = |row: &Row, measure: &str| row.values.get(measure).copied().unwrap_or(0.0);
    let cpu: f64 = rows.iter().map(|row| value(row, "cpu_ms_per_op") * value(row, "operations")).sum();
    let rss: f64 = rows.iter().map(|row| value(row, "rss_mib")).sum();
    let client = rows.first().map_or(0.0, |row| value(row, "client_operations"));
    let cpu = (client > 0.0).then_some(("cluster_cpu_ms", cpu / client));
    rows.into_iter().map(|row| row.values(cpu).value("cluster_rss_mib", rss)).collect()
}

/// Holds a quarter of the image.
fn put_tier(session: &Session, cluster: &Cluster) -> Result<()> {
    pool::create_level(session, cluster, TIER, cluster.shape.copies)?;
    let mut lines = vec![
        format!("osd tier add {POOL} {TIER} --force-nonempty"),
        format!("osd tier cache-mode {TIER} writeback"),
        format!("osd tier set-overlay {POOL} {TIER}"),
    ];
    let settings = [
        ("hit_set_type", "bloom".to_owned()),
        ("hit_set_count", "4".to_owned()),
        ("hit_set_period", "60".to_owned()),
        ("target_max_bytes", ((IMAGE_MIB << 20) / 4).to_string()),
        ("cache_target_dirty_ratio", "0.4".to_owned()),
        ("cache_target_full_ratio", "0.8".to_owned()),
        ("min_read_recency_for_promote", "1".to_owned()),
        ("min_write_recency_for_promote", "1".to_owned()),
    ];
    lines.extend(settings.map(|(name, value)| format!("osd pool set {TIER} {name} {value}")));
    cluster.client.command(session, &lines)
}
