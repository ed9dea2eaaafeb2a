//! How many bytes reach the disk for each byte that a client writes.
//!
//! Owns the two ways to count: what the kernel charges the process with, and, under BlueStore, what BlueFS
//! has written for RocksDB, whose log and tables it holds. Under KStore RocksDB is all there is, so the
//! kernel's count is its own.

use super::cluster::Cluster;
use super::paired;
use crate::engine::experiment::Measure;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use vcm_inspect::ceph::socket::{LONG, Question, ask};

/// Those of a paired round, and the amplification.
pub static MEASURES: &[Measure] = &{
    let mut all = [paired::MEASURES[0]; paired::MEASURES.len() + 2];
    let mut index = 0;
    while index < paired::MEASURES.len() {
        all[index] = paired::MEASURES[index];
        index += 1;
    }
    all[index] = paired::measure(
        "disk_bytes_per_byte",
        "",
        2,
        true,
        "bytes that the OSD wrote to its disk for each byte of the operations that it did, by the kernel",
    );
    all[index + 1] = paired::measure(
        "rocksdb_bytes_per_byte",
        "",
        2,
        true,
        "bytes of RocksDB's log and tables among them, by BlueFS's counters; the other stores keep none",
    );
    all
};

/// The bytes that one OSD has written so far.
#[derive(Clone, Debug)]
pub struct Written {
    disk: f64,
    rocksdb: Option<f64>,
}

impl Written {
    pub fn of_all(cluster: &Cluster) -> Result<Vec<Written>> {
        let osds = cluster.osds();
        let of = |osd: &super::cluster::osd::Osd| -> Result<Written> {
            let pid = osd.process.pid();
            let io = fs::read_to_string(format!("/proc/{pid}/io"));
            let io = io.with_context(|| format!("cannot read what process {pid} wrote; run as root"))?;
            let dump = ask(&osd.socket, Question::PerfDump, LONG)?;
            Ok(Written { disk: written_by(&io), rocksdb: of_rocksdb(&dump) })
        };
        osds.iter().map(of).collect()
    }

    /// Per byte of the client's.
    pub fn until(&self, later: &Written, client_bytes: f64) -> Vec<(&'static str, f64)> {
        if client_bytes <= 0.0 {
            return Vec::new();
        }
        let rocksdb = self.rocksdb.zip(later.rocksdb).map(|(before, after)| (after - before) / client_bytes);
        let disk = ("disk_bytes_per_byte", (later.disk - self.disk) / client_bytes);
        [Some(disk), rocksdb.map(|value| ("rocksdb_bytes_per_byte", value))].into_iter().flatten().collect()
    }
}

fn written_by(io: &str) -> f64 {
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0.0)
}

/// BlueFS holds RocksDB's files and nothing else.
fn of_rocksdb(dump: &Value) -> Option<f64> {
    let bluefs = &dump["bluefs"];
    let count = |name: &str| bluefs[name].as_f64();
    Some(count("bytes_written_wal")? + count("bytes_written_sst")? + count("logged_bytes").unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bytes_are_counted_per_byte_of_the_client() {
        let before = Written { disk: 1000.0, rocksdb: Some(100.0) };
        let after = Written { disk: 9000.0, rocksdb: Some(2100.0) };
        let values = before.until(&after, 4000.0);
        assert_eq!(values, [("disk_bytes_per_byte", 2.0), ("rocksdb_bytes_per_byte", 0.5)]);
        assert!(before.until(&after, 0.0).is_empty());
    }

    #[test]
    fn the_kernels_and_bluefs_counters_are_found() {
        assert_eq!(
            written_by("rchar: 1\nread_bytes: 2\nwrite_bytes: 4096\ncancelled_write_bytes: 1\n"),
            4096.0
        );
        let dump =
            json!({ "bluefs": { "bytes_written_wal": 10, "bytes_written_sst": 5, "logged_bytes": 1 } });
        assert_eq!(of_rocksdb(&dump), Some(16.0));
        assert_eq!(of_rocksdb(&json!({ "osd": {} })), None);
    }
}
