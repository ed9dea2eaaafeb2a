//! A paired round: the same load on all OSDs at the same moment, and what each used for its own operations.
//!
//! Owns the measures of such rounds. Compares nothing itself; the ratios are taken by the engine, repetition
//! by repetition. Experiments call it with their load.

use super::cluster::Cluster;
use super::cluster::osd::Osd;
use super::cluster::shape::Shape;
use super::load::Load;
use super::look::sampling::{self, Looked};
use crate::engine::beside::beside;
use crate::engine::cell::Cell;
use crate::engine::experiment::Measure;
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::{Context, Result, bail};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use vcm_inspect::ceph::counters::{Moment, Work};
use vcm_inspect::usage::Heap;

pub const fn measure(
    name: &'static str,
    unit: &'static str,
    digits: usize,
    shown: bool,
    what: &'static str,
) -> Measure {
    Measure { name, unit, what, digits, shown, whole: false }
}

/// One number of the whole cluster.
pub const fn of_all(name: &'static str, unit: &'static str, digits: usize, what: &'static str) -> Measure {
    Measure { name, unit, what, digits, shown: true, whole: true }
}

pub const CLIENT_IOPS: Measure =
    of_all("client_iops", "1/s", 0, "operations per second of all OSDs together, as the client saw it");
pub const CLIENT_MS: Measure =
    of_all("client_ms", "ms", 2, "mean latency as the client saw it, over all OSDs");

/// The comparison that a paired experiment says of us first.
pub const OURS: crate::engine::experiment::Compared = crate::engine::experiment::Compared::allocators(
    "processor time per operation, vcmalloc over TCMalloc with 32 MiB",
    "cpu_ms_per_op",
    "",
    ["vcmalloc", "tcmalloc"],
);
pub const OVER_128_MIB: crate::engine::experiment::Compared = crate::engine::experiment::Compared::allocators(
    "against the 128 MiB that Ceph's packages set",
    "cpu_ms_per_op",
    "",
    ["vcmalloc", "tcmalloc-128M"],
);

pub const MEASURES: &[Measure] = &[
    measure("cpu_ms_per_op", "ms", 4, true, "processor time of the OSD, user and system, per own operation"),
    measure(
        "rss_equal_mib",
        "MiB",
        1,
        true,
        "memory when as many operations were done as the OSD with the fewest did",
    ),
    measure(
        "inside_percent",
        "%",
        1,
        true,
        "share of processor time inside the allocator's own code, by perf",
    ),
    measure("op_ms", "ms", 2, true, "mean latency of an operation inside the OSD"),
    measure("queue_ms", "ms", 2, true, "of it before and in the queue, until a thread took it"),
    measure("process_ms", "ms", 2, true, "of it from then on: the object store, and the copies"),
    measure("prepare_ms", "ms", 2, false, "of that until it was handed to the object store (writes)"),
    measure("imbalance", "", 2, true, "own operations over the mean of all OSDs"),
    measure("within_1ms", "%", 1, true, "operations done within 1 ms inside the OSD"),
    measure("within_2ms", "%", 1, false, "within 2 ms"),
    measure("within_5ms", "%", 1, true, "within 5 ms"),
    measure("within_10ms", "%", 1, false, "within 10 ms"),
    measure("within_20ms", "%", 1, true, "within 20 ms"),
    measure("within_50ms", "%", 1, false, "within 50 ms"),
    measure("page_faults_per_op", "", 2, true, "page faults per operation"),
    measure("operations", "", 0, true, "own operations in the step"),
    measure("rss_mib", "MiB", 1, false, "memory at the end of the step"),
    measure("threads", "", 0, true, "the most threads that the OSD had during the step"),
    CLIENT_IOPS,
    CLIENT_MS,
    measure("load_average", "", 1, false, "runnable processes of the machine: other work disturbs"),
];

/// A load may reach its OSDs with less than this only if something is wrong.
const FEWEST_OPERATIONS: f64 = 50.0;

pub struct Round<'a> {
    pub cell: &'a Cell,
    pub step: &'a str,
    pub reads: bool,
}

impl Round<'_> {
    /// A row for each OSD.
    pub fn run(
        &self,
        session: &Session,
        cluster: &Cluster,
        load: impl FnOnce(&Session) -> Result<Load>,
    ) -> Result<Vec<Row>> {
        session.step(if self.step.is_empty() { "load" } else { self.step })?;
        let before = moments(cluster)?;
        let (client, threads) = while_counting_threads(cluster, || load(session));
        let client = client?;
        // Answered operations are not done yet: completions, logs.
        session.sleep(Duration::from_millis(500))?;
        let work: Vec<Work> =
            before.iter().zip(moments(cluster)?).map(|(before, after)| before.until(&after)).collect();
        cluster.check()?;
        let fewest = work.iter().map(|work| work.operations).fold(f64::INFINITY, f64::min);
        if fewest < FEWEST_OPERATIONS {
            bail!("{}: an OSD had {fewest} operations; the load did not reach it", self.step);
        }
        let osds = cluster.osds();
        let mean = work.iter().map(|work| work.operations).sum::<f64>() / work.len() as f64;
        let row = |((osd, work), threads): ((&Osd, &Work), &u64)| {
            let row = self.row(osd.allocator.name(), work, fewest, &client)?;
            let row = row.value("imbalance", work.operations / mean);
            Ok(row.value("threads", *threads as f64))
        };
        osds.iter().zip(&work).zip(&threads).map(row).collect()
    }

    fn row(&self, allocator: &str, work: &Work, fewest: f64, client: &Load) -> Result<Row> {
        let (latency, histogram) = match self.reads {
            true => ("op_r_latency", &work.reads),
            false => ("op_w_latency", &work.writes),
        };
        let mut row = Row::of(self.cell, allocator).step(self.step);
        let cpu = work.cpu_ms_per_operation().context("no operations")?;
        row = row.value("cpu_ms_per_op", cpu).value("operations", work.operations);
        row = row.value("rss_mib", work.usage.rss_mib).value("rss_equal_mib", work.rss_at(fewest));
        row = row.values(work.usage.heap.into_iter().flat_map(Heap::values));
        row = row.value("load_average", load_average());
        row = row.value("client_iops", client.per_second()).value("client_ms", client.mean_ms);
        row = row.value("client_operations", client.operations);
        row = row.values(work.latency_ms("osd", latency).map(|ms| ("op_ms", ms)));
        let process = if self.reads { "op_r_process_latency" } else { "op_w_process_latency" };
        let parts = [
            ("queue_ms", "op_before_dequeue_op_lat"),
            ("process_ms", process),
            ("prepare_ms", "op_w_prepare_latency"),
        ];
        row = row
            .values(parts.into_iter().filter_map(|(name, part)| Some((name, work.latency_ms("osd", part)?))));
        row = row.values(work.faults_per_operation().map(|faults| ("page_faults_per_op", faults)));
        Ok(row.values(histogram.shares()))
    }
}

/// A cluster with an OSD for each allocator, for all cells of a repetition that want the same shape;
/// `prepare` is run once on it, and `prepared` says what it does. The allocators' order is part of what a
/// cluster is.
pub fn fixture(
    session: &Session,
    cell: &Cell,
    shape: &Shape,
    prepared: &str,
    prepare: impl FnOnce(&Session, &Cluster) -> Result<()>,
) -> Result<Arc<Cluster>> {
    let key = format!("{shape:?} {prepared} {:?} {}", cell.allocators, cell.repetition);
    session.fixture(&key, |session| {
        let cluster = Cluster::up(session, shape, &cell.allocators)?;
        prepare(session, &cluster)?;
        Ok(cluster)
    })
}

/// The most threads that each OSD had meanwhile: clients that are gone take theirs with them.
fn while_counting_threads<T>(cluster: &Cluster, work: impl FnOnce() -> T) -> (T, Vec<u64>) {
    let pids: Vec<i32> = cluster.osds().iter().map(|osd| osd.process.pid()).collect();
    let mut most = vec![0; pids.len()];
    let count = || {
        most.iter_mut().zip(&pids).for_each(|(most, pid)| *most = threads_of(*pid).max(*most));
        Ok::<(), Infallible>(())
    };
    let (done, Ok(())) = beside(Duration::from_millis(500), count, work);
    (done, most)
}

fn threads_of(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Every OSD now, in their order.
pub fn moments(cluster: &Cluster) -> Result<Vec<Moment>> {
    cluster.osds().iter().map(|osd| Moment::of(&osd.socket, osd.process.pid())).collect()
}

fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// Runs the load once more, looks where the time goes, and puts the share into the rows of `step`.
pub fn add_inside(
    session: &Session,
    cluster: &Cluster,
    rows: &mut [Row],
    step: &str,
    seconds: u64,
    load: impl FnOnce(&Session) -> Result<Load>,
) -> Result<()> {
    session.step("where the processor time goes")?;
    let looked: Vec<Looked> =
        cluster.osds().iter().map(|osd| osd.looked_at(cluster.root.as_deref())).collect();
    let pids: Vec<i32> = looked.iter().map(|one| one.pid).collect();
    let Some(sampling) = sampling::begin(session, &pids, seconds)? else { return Ok(()) };
    load(session)?;
    let shares = sampling.end(session, &looked)?;
    let osds = cluster.osds();
    for (osd, share) in osds.iter().zip(shares) {
        let row = rows.iter_mut().find(|row| row.step == step && row.allocator == osd.allocator.name());
        if let (Some(row), Some(share)) = (row, share) {
            row.values.insert("inside_percent".to_owned(), share);
        }
    }
    Ok(())
}
