//! `journal`: where an OSD's journal lies, how large it is, and how many copies of an object there are.
//!
//! Paired: each OSD runs on another allocator; the cluster's operations per second answer the report's
//! question, the OSDs' processor time ours.

use crate::ceph::cluster::pool::{self, POOL};
use crate::ceph::cluster::release::CLUSTER_PACKAGES_AND_FIO;
use crate::ceph::cluster::shape::{JournalPlace, Shape, Store};
use crate::ceph::load::fio::Job;
use crate::ceph::load::rados_bench::Bench;
use crate::ceph::paired::{self, Round};
use crate::engine::cell::Cell;
use crate::engine::experiment::{
    Axis, Compared, Control, Experiment, Pairing, Picture, Plan, Point, Report, nothing_to_prepare,
};
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::Result;

/// `filestore max sync interval`.
const SYNC_SECONDS: f64 = 5.0;
/// FileStore refuses a journal that does not hold its largest write, 90 MiB.
const SMALL_MIB: u64 = 100;
/// The rule's answer is kept within these: a lab has one disk and some memory.
const RULE_MIB: std::ops::RangeInclusive<u64> = 256..=512;

pub static JOURNAL: Experiment = Experiment {
    name: "journal",
    title: "The journal: where, how large, for how many copies",
    question: "What do the object store, the journal's place, its size by the rule 2 x throughput x sync interval, and \
               the number of copies do to 4 KiB writes?",
    reports: &[
        Report {
            who: "Sebastien Han",
            year: "2014",
            found: "with the journal beside the data every write is done twice on one disk; a device for the journal \
                    must be fast at 4 KiB writes with O_DIRECT and O_DSYNC, which many flash disks are not",
            source: "https://www.sebastien-han.fr/blog/2014/10/10/ceph-how-to-test-if-your-ssd-is-suitable-as-a-journal-device/",
        },
        Report {
            who: "our own earlier measurement",
            year: "2026",
            found: "FileStore with 1, 2 and 3 copies: 7,262, 3,508 and 2,167 writes per second; with 3 copies KStore \
                    1,672, FileStore 2,167, BlueStore 2,376",
            source: "",
        },
    ],
    then: "The reports had a disk and a flash device for each OSD and a network between copies. Here all OSDs share \
           one disk and copies go over loopback: a loop device for the journal is on the same disk, so only the journal in \
           memory (tmpfs) shows what a device of its own would bring.",
    allocators: &["glibc", "tcmalloc", "tcmalloc-128M", "jemalloc", "vcmalloc"],
    axes: &[
        Axis {
            name: "store",
            what: "the object store; BlueStore's database takes the journal's place",
            quick: &["filestore"],
            full: &["filestore", "bluestore"],
            setup: true,
        },
        Axis {
            name: "journal",
            what: "same: beside the data; tmpfs: in memory; loop: a loop device",
            quick: &["same", "tmpfs"],
            full: &["same", "tmpfs", "loop"],
            setup: true,
        },
        Axis {
            name: "size",
            what: "small: 100 MiB; rule: 2 x measured throughput x sync interval, kept within 256 and 512 MiB here",
            quick: &["rule"],
            full: &["small", "rule"],
            setup: true,
        },
        Axis {
            name: "copies",
            what: "of an object",
            quick: &["1", "3"],
            full: &["1", "2", "3"],
            setup: false,
        },
    ],
    pairing: Pairing::Together,
    quick: Plan { repetitions: 1, about: "3 minutes" },
    full: Plan { repetitions: 1, about: "12 minutes" },
    steps: &[],
    measures: paired::MEASURES,
    controls: &[Control {
        what: "three copies take longer than one",
        higher: latency(&[("store", "filestore"), ("journal", "same"), ("size", "rule"), ("copies", "3")]),
        lower: latency(&[("store", "filestore"), ("journal", "same"), ("size", "rule"), ("copies", "1")]),
        at_least: 1.1,
    }],
    claims: &[],
    answer: &[
        Compared::axes(
            "writes per second of the cluster, three copies over one",
            "client_iops",
            "",
            [&[("copies", "3")], &[("copies", "1")]],
        ),
        Compared::axes(
            "the journal in memory over one beside the data",
            "client_iops",
            "",
            [&[("journal", "tmpfs")], &[("journal", "same")]],
        ),
        Compared::axes(
            "a journal by the rule over one of 100 MiB",
            "client_iops",
            "",
            [&[("size", "rule")], &[("size", "small")]],
        ),
        Compared::axes(
            "BlueStore over FileStore",
            "client_iops",
            "",
            [&[("store", "bluestore")], &[("store", "filestore")]],
        ),
        paired::OURS,
    ],
    figures: &[],
    pictures: &[
        Picture::Ratios {
            title: "Processor time per operation over copies, TCMalloc with 32 MiB = 1",
            measure: "cpu_ms_per_op",
            over: "tcmalloc",
            axis: "copies",
            step: "",
        },
        Picture::Lines {
            title: "Operations per second of the whole cluster over the number of copies",
            measure: "client_iops",
            axis: "copies",
            step: "",
        },
        Picture::Lines {
            title: "Processor time per operation of the OSD, copies' writes included",
            measure: "cpu_ms_per_op",
            axis: "copies",
            step: "",
        },
    ],
    packages: &CLUSTER_PACKAGES_AND_FIO,
    prepare: nothing_to_prepare,
    skip,
    cell,
};

const fn latency(axes: &'static [(&'static str, &'static str)]) -> Point {
    Point { allocator: "vcmalloc", axes, step: "", measure: "client_ms" }
}

fn skip(cell: &Cell) -> Option<&'static str> {
    if cell.text("store") == "bluestore" && cell.text("size") == "small" {
        return Some(
            "a small database device spills over to the main one: that is not what the report is about",
        );
    }
    None
}

fn cell(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    let place = JournalPlace::of(cell.text("journal"))?;
    let size = match cell.text("size") {
        "small" => SMALL_MIB,
        _ => by_the_rule(session)?,
    };
    let shape = Shape::of(Store::of(cell.text("store"))?, cell.allocators.len()).level().journal(place, size);
    let shape = shape.osd(&format!("filestore max sync interval = {SYNC_SECONDS}"));
    let cluster = paired::fixture(session, cell, &shape, "", |_, _| Ok(()))?;
    let copies = cell.number("copies") as usize;
    pool::fresh(session, &cluster, copies)?;
    let seconds = if cell.quick { 10 } else { 12 };
    let bench = Bench { pool: POOL, namespace: "", name: "journal", seconds, in_flight: 32, bytes: 4096 };
    let round = Round { cell, step: "", reads: false };
    let rows = round.run(session, &cluster, |session| bench.write(session, &cluster.client))?;
    Ok(rows.into_iter().map(|row| row.value("journal_mib", size as f64)).collect())
}

/// 2 x throughput x sync interval, with the throughput of this disk, measured once a run.
fn by_the_rule(session: &Session) -> Result<u64> {
    use std::sync::Mutex;
    static MEASURED: Mutex<Option<u64>> = Mutex::new(None);
    let known = || MEASURED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(mib) = *known() {
        return Ok(mib);
    }
    session.step("the disk's throughput, for the journal's size")?;
    let mib_per_second = session.scope(|session| {
        let file = session.directory().join("throughput");
        session.make_file(&file, 256 << 20)?;
        let job = Job { bytes: 4 << 20, ..Job::random("write", 1, 3, 256) };
        Ok(4.0 * job.synchronous(session, &file)?.write.load.per_second())
    })?;
    let mib = ((2.0 * mib_per_second * SYNC_SECONDS) as u64).clamp(*RULE_MIB.start(), *RULE_MIB.end());
    session.note(format!(
        "The disk wrote {mib_per_second:.0} MiB/s; 2 x that x {SYNC_SECONDS} s gave journals of {mib} MiB."
    ));
    *known() = Some(mib);
    Ok(mib)
}
