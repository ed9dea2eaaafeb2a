//! `object-gateway`: S3 PUT and GET through radosgw, a gateway for each allocator in front of one cluster.

use crate::ceph::cluster::Cluster;
use crate::ceph::cluster::release::GATEWAY_PACKAGES;
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::gateway::{self, Gateway, KEY, SECRET};
use crate::ceph::load::Load;
use crate::ceph::load::s3::S3;
use crate::ceph::paired::measure;
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Claim, Compared, Control, Experiment, Pairing, Picture, Plan, Point, Report, Step,
    nothing_to_prepare, nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::{Result, bail};
use vcm_inspect::ceph::counters::cpu_seconds;
use vcm_inspect::usage::Usage;

pub static OBJECT_GATEWAY: Experiment = Experiment {
    name: "object-gateway",
    title: "S3 through radosgw, a gateway for each allocator",
    question: "What do S3 PUTs and GETs cost the gateway under each allocator, in processor time and in memory?",
    reports: &[Report {
        who: "operators of Ceph object gateways",
        year: "2014 to 2019",
        found: "gateways with hundreds of threads grow to several GiB and do not come back after a burst; packages link \
                TCMalloc, containers often start without it",
        source: "",
    }],
    then: "Processor time is shown and not compared: no allocator was seen to cost a gateway more than the repetitions differ by. \
           The reports had many thousands of clients for each gateway. Here a real S3 client (boto3) keeps a few requests in \
           flight at each gateway, all gateways at the same time, in front of one cluster on memstore.",
    allocators: &["glibc", "tcmalloc-1M", "tcmalloc", "tcmalloc-128M", "jemalloc", "mimalloc", "vcmalloc"],
    axes: &[Axis {
        name: "kib",
        what: "size of an object in KiB",
        quick: &["4"],
        full: &["4", "1024"],
        setup: true,
    }],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 2, about: "4 minutes" },
    full: Plan { repetitions: 4, about: "12 minutes" },
    steps: &[
        Step { name: "put", what: "new objects, two in flight at each gateway" },
        Step { name: "get", what: "those objects again" },
    ],
    measures: &[
        measure("cpu_ms_per_op", "ms", 3, true, "processor time of the gateway per request"),
        measure("rss_mib", "MiB", 1, true, "memory of the gateway after the step"),
        measure("client_ms", "ms", 2, true, "mean time of a request, as the client saw it"),
        measure("operations", "", 0, true, "requests that the gateway answered"),
        measure("threads", "", 0, false, "threads of the gateway"),
    ],
    controls: &[Control {
        what: "mimalloc's gateway holds more memory than glibc's: the claims are about memory",
        higher: memory("mimalloc"),
        lower: memory("glibc"),
        at_least: 1.1,
    }],
    claims: &[
        Claim {
            what: "memory of the gateway after PUTs of 4 KiB, vcmalloc over TCMalloc with 32 MiB",
            point: memory("vcmalloc"),
            over: Some(memory("tcmalloc")),
            at_most: 1.0,
        },
        Claim {
            what: "the same over TCMalloc with 128 MiB, which Ceph's packages set",
            point: memory("vcmalloc"),
            over: Some(memory("tcmalloc-128M")),
            at_most: 1.0,
        },
    ],
    answer: &[
        Compared::allocators(
            "processor time of the gateway per request, vcmalloc over TCMalloc with 32 MiB",
            "cpu_ms_per_op",
            "",
            ["vcmalloc", "tcmalloc"],
        ),
        Compared::allocators("its memory", "rss_mib", "", ["vcmalloc", "tcmalloc"]),
    ],
    figures: &[],
    // No ratios of processor time: no allocator was seen to cost a gateway more than noise (glibc 0.99 of TCMalloc,
    // 1 MiB of thread caches 1.01), so nothing shows that a difference would be seen.
    pictures: &[
        Picture::Steps { title: "Processor time per request", measure: "cpu_ms_per_op" },
        Picture::Steps { title: "Memory of the gateway", measure: "rss_mib" },
    ],
    packages: &GATEWAY_PACKAGES,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

const fn memory(allocator: &'static str) -> Point {
    Point { allocator, axes: &[("kib", "4")], step: "put", measure: "rss_mib" }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    session.scope(|session| {
        // All OSDs on one allocator: only the gateways differ.
        let cluster = Cluster::up(
            session,
            &Shape::of(Store::Memstore, 3).keys().programs(&["radosgw"]),
            &["tcmalloc"],
        )?;
        let gateways = gateway::start(session, &cluster, &cell.allocators)?;
        let ports: Vec<u16> = gateways.iter().map(|gateway| gateway.port).collect();
        let seconds = if cell.quick { 15 } else { 20 };
        let bytes = cell.number("kib") << 10;
        let s3 = S3 { ports: &ports, key: KEY, secret: SECRET, seconds, threads: 2, bytes };
        // Connections, caches and code that is used for the first time are not what is asked for.
        S3 { seconds: 3, ..s3 }.run(session, "put")?;
        let mut rows = Vec::new();
        for step in ["put", "get"] {
            session.step(step)?;
            let before =
                gateways.iter().map(|one| cpu_seconds(one.process.pid())).collect::<Result<Vec<_>>>()?;
            let loads = s3.run(session, step)?;
            for ((gateway, load), before) in gateways.iter().zip(&loads).zip(before) {
                rows.push(row(cell, step, gateway, load, before)?);
            }
        }
        Ok(rows)
    })
}

fn row(cell: &Cell, step: &str, gateway: &Gateway, load: &Load, before: f64) -> Result<Row> {
    gateway.process.check()?;
    let pid = gateway.process.pid();
    if load.operations < 10.0 {
        bail!("{step}: a gateway answered {} requests; the load did not reach it", load.operations);
    }
    let usage = Usage::of(pid)?;
    let cpu = 1000.0 * (cpu_seconds(pid)? - before) / load.operations;
    let row = Row::of(cell, gateway.allocator.name()).step(step).value("cpu_ms_per_op", cpu);
    let row = row.value("rss_mib", usage.rss_mib).value("client_ms", load.mean_ms);
    Ok(row.value("operations", load.operations).value("threads", usage.threads as f64))
}
