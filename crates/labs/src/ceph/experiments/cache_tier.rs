//! `cache-tier`: a pool of fast copies in front of a pool, under a load that has favourites.

use crate::ceph::cluster::Cluster;
use crate::ceph::load::Load;
use crate::ceph::load::fio::Job;
use crate::ceph::paired::{self, Round};
use crate::ceph::pool::{self, IMAGE, POOL};
use crate::ceph::release::CLUSTER_PACKAGES_AND_FIO;
use crate::ceph::shape::{Shape, Store};
use crate::engine::experiment::{
    Axis, Control, Experiment, Pairing, Picture, Plan, Point, Report, Step, nothing_to_prepare,
    nothing_to_skip,
};
use crate::engine::plan::Cell;
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
           that runs here.",
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
    measures: paired::MEASURES,
    controls: &[Control {
        what: "the tier is there: a write through it takes longer on one disk",
        higher: at(&[("tier", "writeback"), ("zipf", "1.2")]),
        lower: at(&[("tier", "none"), ("zipf", "1.2")]),
        at_least: 1.05,
    }],
    claims: &[],
    figures: &[],
    pictures: &[
        Picture::Ratios {
            title: "Processor time per write, TCMalloc = 1",
            measure: "cpu_ms_per_op",
            over: "tcmalloc",
            axis: "tier",
            step: "write",
        },
        Picture::Bars {
            title: "Writes per second of the whole cluster, all allocators together",
            measure: "client_iops",
            axis: "tier",
            step: "write",
        },
        Picture::Bars {
            title: "Processor time per operation",
            measure: "cpu_ms_per_op",
            axis: "tier",
            step: "write",
        },
    ],
    packages: &CLUSTER_PACKAGES_AND_FIO,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

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
        rows.extend(Round { cell, step, reads: step == "read" }.run(session, &cluster, load)?);
    }
    Ok(rows)
}

/// Holds a quarter of the image.
fn put_tier(session: &Session, cluster: &Cluster) -> Result<()> {
    pool::create(session, cluster, TIER, cluster.shape.copies)?;
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
