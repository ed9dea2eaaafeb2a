//! `metadata-pools`: the pools of CephFS's metadata and of bucket indexes on faster OSDs than the data.
//!
//! Turns: a cluster, its MDS and its gateway run on one allocator. The placement of the pools decides how many
//! operations an OSD has, so no OSD is compared with another.

use crate::ceph::cluster::Cluster;
use crate::ceph::cluster::release::METADATA_PACKAGES;
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::file_system;
use crate::ceph::gateway::{self, KEY, SECRET};
use crate::ceph::load::Load;
use crate::ceph::load::files::Files;
use crate::ceph::load::s3::S3;
use crate::ceph::paired::{measure, moments};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Compared, Control, Experiment, Pairing, Picture, Plan, Point, Report, Step, nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use crate::engine::throttle;
use anyhow::{Context, Result};
use vcm_inspect::ceph::counters::Work;

const ON_DISK: usize = 3;
const IN_MEMORY: usize = 2;
/// Of each OSD's disk in a second, as disks that turn have. This machine's own takes thousands.
const DISK_OPERATIONS: u64 = 150;
/// So small that a walk reads directories from the pool.
const MDS_CACHE_BYTES: u64 = 16 << 20;

pub static METADATA_POOLS: Experiment = Experiment {
    name: "metadata-pools",
    title: "Metadata pools on a faster device than the data",
    question: "What does a faster device for the metadata pool of CephFS, and for the index of buckets, bring to files and S3 \
               requests, when the data stay on the slower one?",
    reports: &[Report {
        who: "reports on Ceph's tuning, and Ceph's own guides to CephFS and to the object gateway",
        year: "2016 to 2025",
        found: "the metadata pool of a CephFS and the index pool of a gateway are small, take many small writes, and belong \
                on flash; the data may stay on disks",
        source: "https://docs.ceph.com/en/latest/cephfs/createfs/",
    }],
    then: "The reports had disks for the data, which take 10 ms for a write, and flash for the metadata. Here the data lie on \
           three OSDs (BlueStore) on this machine's disk, each slowed down to 150 reads and 150 writes a second (control \
           groups), as a disk that turns; the faster device is memory (tmpfs): two more OSDs, which in the other half of the \
           cells have nothing to do. A GET reads no index: it should not change.",
    allocators: &["tcmalloc", "vcmalloc"],
    axes: &[
        Axis {
            name: "use",
            what: "CephFS (files without content), or S3 (objects of 4 KiB)",
            quick: &["cephfs", "s3"],
            full: &["cephfs", "s3"],
            setup: true,
        },
        Axis {
            name: "metadata",
            what: "on the disk beside the data, or on OSDs in memory",
            quick: &[BESIDE, FASTER],
            full: &[BESIDE, FASTER],
            setup: true,
        },
    ],
    pairing: Pairing::Turns,
    quick: Plan { repetitions: 1, about: "6 minutes" },
    full: Plan { repetitions: 3, about: "30 minutes" },
    steps: &[
        Step { name: "create", what: "new files by 16 threads of a client" },
        Step { name: "walk", what: "another client lists all directories and looks at each file" },
        Step { name: "remove", what: "another removes them" },
        Step { name: "put", what: "new objects, two in flight" },
        Step { name: "get", what: "those objects again" },
    ],
    measures: &[
        measure("client_ms", "ms", 3, true, "mean time of a file or request, as the client saw it"),
        measure("client_iops", "1/s", 0, true, "files or requests per second"),
        measure("disk_operations", "", 2, true, "operations of the OSDs on disk for each of them"),
        measure("memory_operations", "", 2, true, "operations of the OSDs in memory for each of them"),
        measure("cluster_cpu_ms", "ms", 3, true, "processor time of all OSDs for each of them"),
        measure("cluster_rss_mib", "MiB", 0, true, "memory of all OSDs at the end of the step"),
    ],
    controls: &[Control {
        what: "the index is elsewhere: the OSDs on disk have fewer operations for each PUT",
        higher: at(BESIDE_S3, "put"),
        lower: at(FASTER_S3, "put"),
        at_least: 1.3,
    }],
    claims: &[],
    answer: &[
        over("time to create a file, metadata in memory over beside the data", "create"),
        over("to walk over it", "walk"),
        over("to remove it", "remove"),
        over("time of a PUT, the bucket's index in memory over beside the data", "put"),
        over("of a GET", "get"),
    ],
    figures: &[],
    pictures: &[
        Picture::Only { axes: &[("use", "cephfs")], picture: &bars("Time to create a file, ms", "create") },
        Picture::Only { axes: &[("use", "cephfs")], picture: &bars("Time to remove a file, ms", "remove") },
        Picture::Only { axes: &[("use", "s3")], picture: &bars("Time of a PUT, ms", "put") },
        Picture::Only { axes: &[("use", "s3")], picture: &bars("Time of a GET, ms", "get") },
    ],
    packages: &METADATA_PACKAGES,
    prepare: throttle::prepare,
    skip: nothing_to_skip,
    cell,
};

const BESIDE: &str = "beside";
const FASTER: &str = "memory";
const BESIDE_S3: &[(&str, &str)] = &[("use", "s3"), ("metadata", BESIDE)];
const FASTER_S3: &[(&str, &str)] = &[("use", "s3"), ("metadata", FASTER)];

const fn at(axes: &'static [(&'static str, &'static str)], step: &'static str) -> Point {
    Point { allocator: "vcmalloc", axes, step, measure: "disk_operations" }
}

const fn over(what: &'static str, step: &'static str) -> Compared {
    Compared::axes(what, "client_ms", step, [&[("metadata", FASTER)], &[("metadata", BESIDE)]])
}

const fn bars(title: &'static str, step: &'static str) -> Picture {
    Picture::Bars { title, measure: "client_ms", axis: "metadata", step }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let files = cell.text("use") == "cephfs";
        let shape = Shape::of(Store::Bluestore, ON_DISK + IN_MEMORY)
            .slow_disks(DISK_OPERATIONS)
            .in_memory(IN_MEMORY, cell.text("metadata") == FASTER)
            .programs(if files { &["ceph-mds"] } else { &["radosgw"] });
        let shape = if files { shape } else { shape.keys() };
        let cluster = Cluster::up(session, &shape, &cell.allocators)?;
        match files {
            true => of_files(session, cell, &cluster),
            false => of_objects(session, cell, &cluster),
        }
    })
}

fn of_files(session: &Session, cell: &Cell, cluster: &Cluster) -> Result<Vec<Row>> {
    let servers = file_system::start(session, cluster, &cell.allocators, MDS_CACHE_BYTES)?;
    let file_systems: Vec<String> = servers.iter().map(|server| server.file_system.clone()).collect();
    let files = if cell.quick { 10_000 } else { 40_000 };
    let load = Files { conf: &cluster.client.conf, file_systems: &file_systems, files };
    let phases = ["create", "walk", "remove"];
    phases.into_iter().map(|phase| row(session, cell, cluster, phase, || load.run(session, phase))).collect()
}

fn of_objects(session: &Session, cell: &Cell, cluster: &Cluster) -> Result<Vec<Row>> {
    let gateways = gateway::start(session, cluster, &cell.allocators)?;
    let ports: Vec<u16> = gateways.iter().map(|gateway| gateway.port).collect();
    let seconds = if cell.quick { 15 } else { 20 };
    let s3 = S3 { ports: &ports, key: KEY, secret: SECRET, seconds, threads: 2, bytes: 4096 };
    // Connections, caches and code that is used for the first time are not what is asked for.
    S3 { seconds: 3, ..s3 }.run(session, "put")?;
    let steps = ["put", "get"];
    steps.into_iter().map(|step| row(session, cell, cluster, step, || s3.run(session, step))).collect()
}

/// Runs the step's load, which one client has.
fn row(
    session: &Session,
    cell: &Cell,
    cluster: &Cluster,
    step: &str,
    load: impl FnOnce() -> Result<Vec<Load>>,
) -> Result<Row> {
    session.step(step)?;
    let before = moments(cluster)?;
    let load = load()?.pop().context("the client did nothing")?;
    let work: Vec<Work> =
        before.iter().zip(moments(cluster)?).map(|(before, after)| before.until(&after)).collect();
    cluster.check()?;
    let (disk, memory) = work.split_at(ON_DISK);
    let operations = |osds: &[Work]| osds.iter().map(|osd| osd.operations).sum::<f64>() / load.operations;
    let cpu_seconds: f64 = work.iter().map(|osd| osd.cpu_seconds).sum();
    Ok(Row::of(cell, cell.allocators[0]).step(step).values([
        ("client_ms", load.mean_ms),
        ("client_iops", load.per_second()),
        ("disk_operations", operations(disk)),
        ("memory_operations", operations(memory)),
        ("cluster_cpu_ms", 1000.0 * cpu_seconds / load.operations),
        ("cluster_rss_mib", work.iter().map(|osd| osd.usage.rss_mib).sum()),
    ]))
}
