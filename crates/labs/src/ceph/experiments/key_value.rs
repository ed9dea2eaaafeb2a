//! `key-value`: an object store that puts everything into RocksDB, against FileStore and BlueStore.
//!
//! Paired for the processor time; the bytes that reach the disk are counted for each OSD by the kernel and by
//! RocksDB itself.

use crate::ceph::cluster::pool::{self, POOL};
use crate::ceph::cluster::release::CLUSTER_PACKAGES;
use crate::ceph::cluster::shape::{Shape, Store};
use crate::ceph::load::rados_bench::Bench;
use crate::ceph::paired::{self, Round};
use crate::ceph::written::{self, Written};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Compared, Control, Experiment, Pairing, Picture, Plan, Point, Report, nothing_to_prepare,
    nothing_to_skip,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;

pub static KEY_VALUE: Experiment = Experiment {
    name: "key-value",
    title: "KStore against FileStore and BlueStore",
    question: "What does it cost to keep objects in RocksDB, in operations per second, in processor time and in bytes \
               written for each byte of the client?",
    reports: &[
        Report {
            who: "the Ceph developers' list, on KeyValueStore and KStore",
            year: "2014 to 2016",
            found: "a key-value store under an OSD wins small writes until compaction begins, and writes each byte many \
                    times over; BlueStore took its place",
            source: "",
        },
        Report {
            who: "our own earlier measurement",
            year: "2026",
            found: "with three copies: KStore 1,672, FileStore 2,167, BlueStore 2,376 writes per second",
            source: "",
        },
    ],
    then: "The reports had LevelDB or RocksDB of 2014 and runs of hours. A run of seconds sees the log and the first \
           levels only, so the amplification here is a lower bound.",
    allocators: &["glibc", "tcmalloc", "tcmalloc-128M", "jemalloc", "vcmalloc"],
    axes: &[
        Axis {
            name: "store",
            what: "the object store",
            quick: &["kstore", "bluestore"],
            full: &["kstore", "filestore", "bluestore"],
            setup: true,
        },
        Axis { name: "copies", what: "of an object", quick: &["3"], full: &["1", "3"], setup: false },
    ],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 2, about: "4 minutes" },
    full: Plan { repetitions: 2, about: "10 minutes" },
    steps: &[],
    measures: written::MEASURES,
    controls: &[Control {
        // With three copies an OSD has three times the operations: with one, some hundred a second say
        // little.
        what: "glibc costs more than TCMalloc with 32 MiB on BlueStore with three copies",
        higher: on_bluestore("glibc"),
        lower: on_bluestore("tcmalloc"),
        at_least: 1.02,
    }],
    claims: &[],
    answer: &[
        Compared::axes(
            "writes per second of the cluster, KStore over BlueStore",
            "client_iops",
            "",
            [&[("store", "kstore")], &[("store", "bluestore")]],
        ),
        Compared::axes(
            "processor time per operation, KStore over BlueStore",
            "cpu_ms_per_op",
            "",
            [&[("store", "kstore")], &[("store", "bluestore")]],
        ),
        Compared::axes(
            "bytes written for each byte of the client, KStore over BlueStore",
            "disk_bytes_per_byte",
            "",
            [&[("store", "kstore")], &[("store", "bluestore")]],
        ),
        paired::OURS,
    ],
    figures: &[],
    pictures: &[
        Picture::Ratios {
            title: "Processor time per write, TCMalloc with 32 MiB = 1",
            measure: "cpu_ms_per_op",
            over: "tcmalloc",
            axis: "store",
            step: "",
        },
        Picture::Bars {
            title: "Writes per second of the whole cluster",
            measure: "client_iops",
            axis: "store",
            step: "",
        },
        Picture::Bars {
            title: "Bytes to the disk for each byte of the client",
            measure: "disk_bytes_per_byte",
            axis: "store",
            step: "",
        },
        Picture::Bars {
            title: "Processor time per write",
            measure: "cpu_ms_per_op",
            axis: "store",
            step: "",
        },
    ],
    packages: &CLUSTER_PACKAGES,
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

const fn on_bluestore(allocator: &'static str) -> Point {
    Point { allocator, axes: &[("store", "bluestore"), ("copies", "3")], step: "", measure: "cpu_ms_per_op" }
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    let store = Store::of(cell.text("store"))?;
    let shape = Shape::of(store, cell.allocators.len()).level();
    let cluster = paired::fixture(session, cell, &shape, "", |_, _| Ok(()))?;
    let copies = cell.number("copies") as usize;
    pool::fresh(session, &cluster, copies)?;
    let seconds = if cell.quick { 15 } else { 30 };
    let bench = Bench { pool: POOL, namespace: "", name: "key-value", seconds, in_flight: 32, bytes: 4096 };
    let round = Round { cell, step: "", reads: false };
    let before = Written::of_all(&cluster)?;
    let rows = round.run(session, &cluster, |session| bench.write(session, &cluster.client))?;
    let after = Written::of_all(&cluster)?;
    let with_bytes = |((row, before), after): ((Row, &Written), &Written)| {
        let client = row.values.get("operations").copied().unwrap_or(0.0) * bench.bytes as f64;
        row.values(before.until(after, client))
    };
    Ok(rows.into_iter().zip(&before).zip(&after).map(with_bytes).collect())
}
