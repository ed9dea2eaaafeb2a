//! The memory that OSDs hold, second by second, and what they believe that they hold.
//!
//! Owns the looking while a load runs: resident memory by the kernel, and the counters of `prioritycache` by
//! the OSD, which is what Ceph steers `osd_memory_target` by. Promises an error where an OSD does not answer,
//! never a gap.

use super::cluster::Cluster;
use crate::engine::beside::beside;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use vcm_inspect::ceph::socket::{LONG, Question, ask};

/// One OSD at one moment, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    pub rss: f64,
    /// The heap's mapped memory, as Ceph believes.
    pub mapped: f64,
    /// The memory that Ceph allows its caches.
    pub caches: f64,
}

/// The counters of what an OSD believes: until Ceph 17, and since.
const COUNTERS: [&str; 2] = ["prioritycache", "bluestore-pricache"];

/// A series of one OSD.
pub type Series = Vec<Held>;

struct Place {
    pid: i32,
    socket: PathBuf,
}

/// Does the work and looks at every OSD once a second meanwhile, in the order of the OSDs.
pub fn while_looking<T>(cluster: &Cluster, work: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Series>)> {
    let places = places(cluster);
    let mut all = vec![Series::new(); places.len()];
    let look = || -> Result<()> {
        all.iter_mut().zip(&places).try_for_each(|(series, place)| look(place).map(|held| series.push(held)))
    };
    let (done, looked) = beside(Duration::from_secs(1), look, work);
    let done = done?;
    looked?;
    Ok((done, all))
}

/// Every OSD now.
pub fn now(cluster: &Cluster) -> Result<Vec<Held>> {
    places(cluster).iter().map(look).collect()
}

fn places(cluster: &Cluster) -> Vec<Place> {
    let osds = cluster.osds();
    osds.iter().map(|osd| Place { pid: osd.process.pid(), socket: osd.socket.clone() }).collect()
}

fn look(place: &Place) -> Result<Held> {
    let dump = ask(&place.socket, Question::PerfDump, LONG)?;
    let status = fs::read_to_string(format!("/proc/{}/status", place.pid));
    let status = status.with_context(|| format!("cannot look at process {}", place.pid))?;
    held(&status, &dump).with_context(|| format!("process {} does not say what it holds", place.pid))
}

fn held(status: &str, dump: &Value) -> Option<Held> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    let counters = COUNTERS.iter().map(|name| &dump[*name]).find(|counters| counters.is_object())?;
    let mib = |name: &str| Some(counters[name].as_f64()? / (1 << 20) as f64);
    Some(Held { rss: kib / 1024.0, mapped: mib("mapped_bytes")?, caches: mib("cache_bytes")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn memory_is_read_from_the_kernel_and_from_the_osd() {
        let dump = json!({ "prioritycache": { "mapped_bytes": 3 << 20, "cache_bytes": 1 << 20 } });
        let seen = held("Name:\tceph-osd\nVmRSS:\t    2048 kB\n", &dump);
        assert_eq!(seen, Some(Held { rss: 2.0, mapped: 3.0, caches: 1.0 }));
        let newer = json!({ "bluestore-pricache": { "mapped_bytes": 5 << 20, "cache_bytes": 0 } });
        assert_eq!(held("VmRSS: 1024 kB\n", &newer).map(|held| held.mapped), Some(5.0));
    }

    #[test]
    fn an_osd_that_does_not_steer_its_caches_has_no_answer() {
        assert_eq!(held("VmRSS: 2048 kB\n", &json!({ "osd": {} })), None);
    }
}
