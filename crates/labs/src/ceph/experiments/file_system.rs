//! `file-system`: CephFS, an MDS for each allocator, whose cache is smaller than what its clients make.
//!
//! Paired: each MDS has a file system of its own in one cluster, and the same tree is created, walked and removed in
//! all of them at the same time.

use crate::ceph::cluster::Cluster;
use crate::ceph::cluster::release::FILE_SYSTEM_PACKAGES;
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::file_system::{self, MetadataServer};
use crate::ceph::load::Load;
use crate::ceph::load::files::Files;
use crate::ceph::paired::measure;
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Claim, Compared, Control, Experiment, Pairing, Picture, Plan, Point, Report, Step,
    nothing_to_prepare, nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::{Result, bail};
use std::time::Duration;
use vcm_inspect::ceph::counters::cpu_seconds;
use vcm_inspect::usage::{Heap, Usage};

/// `mds_cache_memory_limit` for each inode: an MDS needs two to three times that, so it has to choose.
const LIMIT_AN_INODE: u64 = 1024;
/// Removed files leave the cache when their objects are gone from the pools.
const PURGED_WITHIN: Duration = Duration::from_secs(600);
/// How long nothing runs then. Every ten seconds an MDS asks its allocator for what is free, if that is TCMalloc.
const IDLE: Duration = Duration::from_secs(30);
/// An OSD on memstore needs 3.8 KiB for a file: so many are 2 GiB.
const MOST_IN_MEMORY: u64 = 500_000;
const RSS: &str = "rss_mib";

pub static FILE_SYSTEM: Experiment = Experiment {
    name: "file-system",
    title: "CephFS: an MDS against its mds_cache_memory_limit",
    question: "Clients create, walk and remove more files than an MDS may cache. How far does its memory go beyond \
               `mds_cache_memory_limit` under each allocator, and what comes back when the files are gone?",
    reports: &[Report {
        who: "Red Hat and IBM, in their guides to CephFS",
        year: "2019 to 2025",
        found: "mds_cache_memory_limit should be about 66 % of the memory that an MDS may take at most; the limit is not a \
                    hard one, and the cluster warns at 150 % of it",
        source: "https://www.ibm.com/docs/en/storage-ceph/9.9.1?topic=server-metadata-cache-size-limits",
    }],
    then: "An MDS in the field has a limit of 4 GiB and more, many clients, and a standby. Here each has one client with 16 \
           threads (libcephfs, as a gateway for NFS or SMB has it), files without content, a limit of one KiB a file, and \
           its pools on OSDs in memory (with a million files on BlueStore on the disk). Where Ceph is linked with TCMalloc (14.2, 18.2, 20.2) an MDS asks it every ten \
           seconds to give back what is free; Debian 12's 16.2 asks nobody.",
    allocators: &["glibc", "tcmalloc", "tcmalloc-128M", "jemalloc", "mimalloc", "vcmalloc"],
    axes: &[Axis {
        name: "inodes",
        what: "files that are created in each file system, 500 to a directory",
        quick: &["20000"],
        full: &["1000000"],
        setup: true,
    }],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 1, about: "2 minutes" },
    full: Plan { repetitions: 1, about: "3 hours" },
    steps: &[
        Step { name: START, what: "the MDS serves an empty file system" },
        Step { name: CREATED, what: "right after the clients created all files and left" },
        Step { name: WALKED, what: "after new clients listed all directories and looked at each file" },
        Step { name: REMOVED, what: "right after new clients removed all of it" },
        Step { name: IDLE_AGAIN, what: "30 s after the last removed file had left the pools" },
    ],
    measures: &[
        measure(RSS, "MiB", 1, true, "resident memory of the MDS"),
        measure("over_limit", "%", 0, true, "resident memory over mds_cache_memory_limit"),
        measure("cache_mib", "MiB", 1, true, "what the MDS says that its cache takes"),
        measure("peak_mib", "MiB", 1, true, "the most resident memory so far"),
        measure("cached_inodes", "", 0, true, "inodes in its cache"),
        measure("cpu_ms_per_file", "ms", 4, true, "processor time of the MDS for each file of the step"),
        measure("client_ms", "ms", 3, false, "time a file, as the client saw it"),
        measure("threads", "", 0, false, "threads of the MDS"),
        measure("heap_live_mib", "MiB", 1, false, "what is live in vcmalloc's heap"),
        measure("heap_cached_mib", "MiB", 1, false, "in its caches"),
        measure("heap_free_mib", "MiB", 1, false, "free and kept"),
    ],
    controls: &[Control {
        what: "the load is seen: glibc's MDS grows with the files",
        higher: at("glibc", WALKED, RSS),
        lower: at("glibc", START, RSS),
        at_least: 1.3,
    }],
    claims: &[
        Claim {
            // Of a smaller limit the program itself is the larger part.
            what: "with a million files, the most memory of vcmalloc's MDS, percent of mds_cache_memory_limit (operators are \
                   told 150)",
            point: Point { axes: FULL, ..at("vcmalloc", IDLE_AGAIN, "peak_over_limit") },
            over: None,
            at_most: 150.0,
        },
        Claim {
            what: "the most memory of the MDS, vcmalloc over TCMalloc with 32 MiB",
            point: at("vcmalloc", IDLE_AGAIN, "peak_mib"),
            over: Some(at("tcmalloc", IDLE_AGAIN, "peak_mib")),
            at_most: 1.0,
        },
        Claim {
            what: "memory when all was removed, vcmalloc over TCMalloc with 32 MiB",
            point: at("vcmalloc", IDLE_AGAIN, RSS),
            over: Some(at("tcmalloc", IDLE_AGAIN, RSS)),
            at_most: 1.0,
        },
        Claim {
            what: "the same over TCMalloc with 128 MiB, which Ceph's packages set",
            point: at("vcmalloc", IDLE_AGAIN, RSS),
            over: Some(at("tcmalloc-128M", IDLE_AGAIN, RSS)),
            at_most: 1.0,
        },
        Claim {
            what: "the same over glibc",
            point: at("vcmalloc", IDLE_AGAIN, RSS),
            over: Some(at("glibc", IDLE_AGAIN, RSS)),
            at_most: 1.0,
        },
    ],
    answer: &[
        Compared::allocators(
            "memory of the MDS when all was removed, vcmalloc over TCMalloc with 32 MiB",
            RSS,
            IDLE_AGAIN,
            ["vcmalloc", "tcmalloc"],
        ),
        Compared::allocators("against glibc", RSS, IDLE_AGAIN, ["vcmalloc", "glibc"]),
        Compared::allocators(
            "the most it held, over TCMalloc",
            "peak_mib",
            IDLE_AGAIN,
            ["vcmalloc", "tcmalloc"],
        ),
    ],
    figures: &[],
    pictures: &[
        Picture::Steps { title: "Resident memory of the MDS, MiB", measure: RSS },
        Picture::Steps { title: "Resident memory over mds_cache_memory_limit, %", measure: "over_limit" },
        Picture::Steps { title: "Processor time of the MDS for each file, ms", measure: "cpu_ms_per_file" },
    ],
    packages: &FILE_SYSTEM_PACKAGES,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

const FULL: &[(&str, &str)] = &[("inodes", "1000000")];
const START: &str = "start";
const CREATED: &str = "created";
const WALKED: &str = "walked";
const REMOVED: &str = "removed";
const IDLE_AGAIN: &str = "idle";

const fn at(allocator: &'static str, step: &'static str, measure: &'static str) -> Point {
    Point { allocator, axes: &[], step, measure }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        let files = cell.number("inodes");
        let limit_bytes = files * LIMIT_AN_INODE;
        session.note(format!(
            "mds_cache_memory_limit was {} MiB, for {files} files in each file system.",
            limit_bytes >> 20
        ));
        // All OSDs on one allocator: only the metadata servers differ.
        let in_memory = files * cell.allocators.len() as u64 <= MOST_IN_MEMORY;
        let shape = match in_memory {
            true => Shape::of(Store::Memstore, 3),
            false => Shape::of(Store::Bluestore, 3).osd("osd memory target = 1073741824"),
        };
        let shape = shape.programs(&["ceph-mds"]);
        let cluster = Cluster::up(session, &shape, &["tcmalloc"])?;
        let servers = file_system::start(session, &cluster, &cell.allocators, limit_bytes)?;
        let watched = Watched { cell, servers: &servers, limit_mib: limit_bytes as f64 / f64::from(1 << 20) };
        watched.course(
            session,
            &Files {
                conf: &cluster.client.conf,
                file_systems: &servers.iter().map(|server| server.file_system.clone()).collect::<Vec<_>>(),
                files,
            },
        )
    })
}

struct Watched<'a> {
    cell: &'a Cell,
    servers: &'a [MetadataServer],
    limit_mib: f64,
}

impl Watched<'_> {
    fn course(&self, session: &Session, load: &Files) -> Result<Vec<Row>> {
        let mut rows = self.rows(START, None)?;
        for (step, phase) in [(CREATED, "create"), (WALKED, "walk"), (REMOVED, "remove")] {
            session.step(&format!("the clients {phase} {} files each", load.files))?;
            let before = self.cpu_seconds()?;
            let loads = load.run(session, phase)?;
            if let Some(short) = loads.iter().find(|one| one.operations < load.files as f64) {
                bail!("{phase}: a client found {} of {} files", short.operations, load.files);
            }
            rows.extend(self.rows(step, Some((&before, &loads)))?);
        }
        session.step("waiting until the removed files have left the pools")?;
        session.wait_for("the removed files to leave the pools", PURGED_WITHIN, || {
            let caches = self.servers.iter().map(MetadataServer::cache).collect::<Result<Vec<_>>>()?;
            Ok(caches.iter().all(|cache| cache.strays == 0.0).then_some(()))
        })?;
        session.sleep(IDLE)?;
        rows.extend(self.rows(IDLE_AGAIN, None)?);
        Ok(rows)
    }

    fn cpu_seconds(&self) -> Result<Vec<f64>> {
        self.servers.iter().map(|server| cpu_seconds(server.process.pid())).collect()
    }

    /// A row for each server; with the processor time since `before` where a load ran.
    fn rows(&self, step: &str, done: Option<(&[f64], &[Load])>) -> Result<Vec<Row>> {
        let row = |(index, server): (usize, &MetadataServer)| {
            server.process.check()?;
            let (usage, cache) = (Usage::of(server.process.pid())?, server.cache()?);
            let row = Row::of(self.cell, server.allocator.name()).step(step).values([
                (RSS, usage.rss_mib),
                ("peak_mib", usage.peak_mib),
                ("over_limit", 100.0 * usage.rss_mib / self.limit_mib),
                ("peak_over_limit", 100.0 * usage.peak_mib / self.limit_mib),
                ("cache_mib", cache.mib),
                ("cached_inodes", cache.inodes),
                ("threads", usage.threads as f64),
            ]);
            let row = row.values(usage.heap.into_iter().flat_map(Heap::values));
            let Some((before, loads)) = done else { return Ok(row) };
            let (before, load) = (before[index], &loads[index]);
            let cpu_ms = 1000.0 * (cpu_seconds(server.process.pid())? - before);
            Ok(row.value("cpu_ms_per_file", cpu_ms / load.operations).value("client_ms", load.mean_ms))
        };
        self.servers.iter().enumerate().map(row).collect()
    }
}
