//! `memory-target`: does an OSD stay at `osd_memory_target`, and what if Ceph cannot see the heap?
//!
//! Paired: one OSD for each allocator, all under the same load, looked at once a second.

use crate::ceph::cluster::Cluster;
use crate::ceph::cluster::pool::{IMAGE, POOL};
use crate::ceph::cluster::release::{CLUSTER_PACKAGES_AND_FIO, Release};
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::held::{self, Held, Series};
use crate::ceph::load::fio::Job;
use crate::ceph::paired::{measure, moments};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Claim, Compared, Control, Experiment, Measure, Pairing, Picture, Plan, Point, Report, Step,
    nothing_to_prepare, nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use vcm_measure::statistics::median;

const TARGET_MIB: u64 = 1024;
/// Of each OSD's part of the image: more than the caches may hold.
const DATA_MIB: u64 = 1280;
/// From here on an OSD counts as full: its caches are what the target leaves them.
const FULL: f64 = 0.9;
const STEADY: &str = "steady";
const PRESSED: &str = "pressed";
const MINUTES: [&str; 10] = [
    "minute 1",
    "minute 2",
    "minute 3",
    "minute 4",
    "minute 5",
    "minute 6",
    "minute 7",
    "minute 8",
    "minute 9",
    "minute 10",
];

pub static MEMORY_TARGET: Experiment = Experiment {
    name: "memory-target",
    title: "An OSD at its osd_memory_target",
    question: "Does an OSD's memory stay within 15 % of `osd_memory_target` while clients read and write, under each \
               allocator, and what happens where Ceph does not see the heap?",
    reports: &[
        Report {
            who: "Ceph's documentation, on automatic cache sizing",
            year: "2018",
            found: "BlueStore resizes its caches so that the heap stays at osd_memory_target, if TCMalloc is the allocator: \
                    what it compares with the target is what MallocExtension says to be mapped",
            source: "https://docs.ceph.com/en/reef/rados/configuration/bluestore-config-ref/",
        },
        Report {
            who: "our own earlier measurement",
            year: "2026",
            found: "one OSD alone on libtcmalloc.so.4 of vcmalloc for ten minutes: 0.89 to 0.99 of 1 GiB under Ceph 18.2, \
                    0.94 to 1.04 under 14.2",
            source: "",
        },
    ],
    then: "An OSD in the field has 4 GiB and more, of which its caches are most. Here the target is 1 GiB, so that several \
           OSDs fit into one machine, and Ceph is told so: `osd memory base` 64 MiB, no allowance for fragmentation, a \
           twentieth of the cache for keys and for metadata each. With Ceph's own numbers (768 MiB of base) the \
           caches of so small an OSD stay at their least, whatever the allocator says. Judged is 14.2: under 18.2 these loads fill \
           half of the cache only, so that Ceph has nothing to steer for most of the time.",
    allocators: &["tcmalloc", "tcmalloc-128M", "jemalloc", "vcmalloc"],
    axes: &[Axis {
        name: "release",
        what: "Ceph 14.2 of Debian 11, Ceph 18.2 of Debian 13: both are linked with TCMalloc",
        quick: &["14.2"],
        full: &["14.2", "18.2"],
        setup: true,
    }],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 1, about: "4 minutes" },
    full: Plan { repetitions: 1, about: "25 minutes" },
    steps: &[
        Step {
            name: STEADY,
            what: "once every OSD is full: 64 KiB, one in twenty a write; five minutes (one with --quick)",
        },
        Step {
            name: PRESSED,
            what: "as long again, 16 KiB, a quarter of them writes: the log of the writes and RocksDB's tables in \
                   memory grow, and caches have to make room",
        },
    ],
    measures: MEASURES,
    controls: &[Control {
        what: "where Ceph cannot see the heap an OSD outgrows its target: jemalloc before the linked TCMalloc",
        higher: at("jemalloc", PRESSED, "rss_most"),
        lower: at("tcmalloc", PRESSED, "rss_most"),
        at_least: 1.05,
    }],
    claims: &[
        Claim {
            what: "vcmalloc's OSD is at most 15 % off its target in every second of the steady load",
            point: at("vcmalloc", STEADY, "off_target"),
            over: None,
            at_most: 15.0,
        },
        Claim {
            what: "and at most 15 % above it in every second of the other, percent of the target",
            point: at("vcmalloc", PRESSED, "rss_most"),
            over: None,
            at_most: 115.0,
        },
        Claim {
            what: "most memory at any time under the other load, vcmalloc over TCMalloc with 32 MiB",
            point: at("vcmalloc", PRESSED, "rss_most"),
            over: Some(at("tcmalloc", PRESSED, "rss_most")),
            at_most: 1.02,
        },
        Claim {
            what: "the same over TCMalloc with 128 MiB",
            point: at("vcmalloc", PRESSED, "rss_most"),
            over: Some(at("tcmalloc-128M", PRESSED, "rss_most")),
            at_most: 1.02,
        },
    ],
    answer: &[
        Compared::allocators(
            "the most memory of an OSD at a quarter of writes, vcmalloc over TCMalloc",
            "rss_most",
            PRESSED,
            ["vcmalloc", "tcmalloc"],
        ),
        Compared::allocators(
            "an OSD with jemalloc before the linked TCMalloc, which Ceph still asks, over TCMalloc",
            "rss_most",
            PRESSED,
            ["jemalloc", "tcmalloc"],
        ),
    ],
    figures: &[],
    pictures: &[
        Picture::Bars {
            title: "Most memory at any time, percent of the target",
            measure: "rss_most",
            axis: "release",
            step: PRESSED,
        },
        Picture::Bars {
            title: "What Ceph believes is mapped, percent of the target",
            measure: "mapped_most",
            axis: "release",
            step: PRESSED,
        },
    ],
    packages: &CLUSTER_PACKAGES_AND_FIO,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

static MEASURES: &[Measure] = &[
    measure("rss_most", "%", 1, true, "resident memory over the target, the most"),
    measure("rss_median", "%", 1, true, "the median"),
    measure("rss_least", "%", 1, true, "the least"),
    measure("off_target", "%", 1, true, "how far off the target at worst"),
    measure("rss_minute", "%", 1, true, "resident memory over the target, the most of each minute"),
    measure("rss_minute_least", "%", 1, true, "the least of each minute"),
    measure("mapped_most", "%", 1, true, "what Ceph believes is mapped over the target, the most"),
    measure("caches_least", "MiB", 0, true, "what Ceph allowed its caches, the least"),
    measure("caches_most", "MiB", 0, true, "the most"),
    measure("operations", "", 0, true, "operations of the OSD meanwhile"),
];

const fn at(allocator: &'static str, step: &'static str, measure: &'static str) -> Point {
    Point { allocator, axes: &[("release", "14.2")], step, measure }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let release = Release::of(cell.text("release")).context("no such release of Ceph")?;
        let image_mib = DATA_MIB * cell.allocators.len() as u64;
        let shape =
            Shape::of(Store::Bluestore, cell.allocators.len()).release(release).level().image(image_mib);
        let cluster = Cluster::up(session, &with_target(shape), &cell.allocators)?;
        session.step("filling the image")?;
        Job::fill(image_mib).on_image(session, &cluster.client, POOL, IMAGE)?;
        fill_caches(session, cell, &cluster, image_mib)?;
        watch(session, cell, &cluster, image_mib)
    })
}

fn with_target(shape: Shape) -> Shape {
    let target = format!("osd memory target = {}", TARGET_MIB << 20);
    let shape =
        shape.osd(&target).osd("osd memory base = 67108864").osd("osd memory expected fragmentation = 0");
    let shape = shape.osd("bluestore cache kv ratio = 0.05").osd("bluestore cache meta ratio = 0.05");
    // An OSD holds the log of its writes beside its caches, here as much of it as there is.
    let shape = shape.osd("osd min pg log entries = 100000").osd("osd max pg log entries = 100000");
    // Small writes into RocksDB's log would come and go by hundreds of MiB.
    shape.osd("bluestore prefer deferred size = 0").osd("bluestore prefer deferred size hdd = 0")
}

fn steady(seconds: u64, image_mib: u64) -> Job {
    Job { reads: 95, bytes: 64 << 10, ..Job::random("randrw", 16, seconds, image_mib) }
}

fn pressing(seconds: u64, image_mib: u64) -> Job {
    Job { reads: 75, bytes: 16 << 10, ..Job::random("randrw", 32, seconds, image_mib) }
}

fn fill_caches(session: &Session, cell: &Cell, cluster: &Cluster, image_mib: u64) -> Result<()> {
    let rounds = if cell.quick { 8 } else { 14 };
    for round in 0..=rounds {
        let (least, _) = range(&held::now(cluster)?, |held| held.rss);
        if least >= FULL * TARGET_MIB as f64 {
            return Ok(());
        }
        if round == rounds {
            let release = cell.text("release");
            session.note(format!("Under {release} an OSD held {least:.0} of {TARGET_MIB} MiB when looking began: its caches did not fill."));
        } else {
            session.step(&format!("filling the caches: {least:.0} of {TARGET_MIB} MiB"))?;
            steady(10, image_mib).on_image(session, &cluster.client, POOL, IMAGE)?;
        }
    }
    Ok(())
}

fn watch(session: &Session, cell: &Cell, cluster: &Cluster, image_mib: u64) -> Result<Vec<Row>> {
    let each = if cell.quick { 1 } else { MINUTES.len() / 2 };
    let mut rows = Vec::new();
    let mut minutes = MINUTES.iter();
    for (step, load) in [(STEADY, steady as fn(u64, u64) -> Job), (PRESSED, pressing)] {
        session.step(&format!("{step}: {each} min, looking once a second"))?;
        let before = moments(cluster)?;
        let (_, seen) = held::while_looking(cluster, || {
            load(60 * each as u64, image_mib).on_image(session, &cluster.client, POOL, IMAGE)
        })?;
        let after = moments(cluster)?;
        cluster.check()?;
        let names: Vec<&str> = minutes.by_ref().take(each).copied().collect();
        let osds = cluster.osds();
        for (osd, (series, (before, after))) in osds.iter().zip(seen.iter().zip(before.iter().zip(&after))) {
            let row = Row::of(cell, osd.allocator.name());
            rows.push(
                whole(row.clone().step(step), series).value("operations", before.until(after).operations),
            );
            for (minute, series) in names.iter().zip(series.chunks(60)) {
                let (least, most) = range(series, rss_percent);
                let row = row.clone().step(minute).value("rss_minute", most);
                rows.push(row.value("rss_minute_least", least));
            }
        }
    }
    Ok(rows)
}

fn whole(row: Row, series: &Series) -> Row {
    let (least, most) = range(series, rss_percent);
    let (caches_least, caches_most) = range(series, |held| held.caches);
    let rss: Vec<f64> = series.iter().map(rss_percent).collect();
    row.value("rss_least", least)
        .value("rss_most", most)
        .values(median(&rss).map(|median| ("rss_median", median)))
        .value("off_target", (most - 100.0).max(100.0 - least))
        .value("mapped_most", range(series, |held| percent(held.mapped)).1)
        .value("caches_least", caches_least)
        .value("caches_most", caches_most)
}

fn rss_percent(held: &Held) -> f64 {
    percent(held.rss)
}

/// Of the target.
fn percent(mib: f64) -> f64 {
    mib / TARGET_MIB as f64 * 100.0
}

/// The least and the most.
fn range(series: &[Held], what: impl Fn(&Held) -> f64) -> (f64, f64) {
    let wider = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
    series.iter().map(what).fold((f64::INFINITY, f64::NEG_INFINITY), wider)
}
