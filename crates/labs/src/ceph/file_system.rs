//! Metadata servers of a cluster: one MDS for each allocator, each with a CephFS of its own.
//!
//! Owns their settings and what is looked at in them. `file_system` of the experiments calls it.

use super::cluster::Cluster;
use super::cluster::osd::prove_allocator;
use super::cluster::pool::{self, Holds};
use crate::engine::process::Process;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use vcm_inspect::ceph::socket::{LONG, Question, ask};
use vcm_measure::allocators::Ready;

const MINUTES: Duration = Duration::from_secs(180);
/// Placement groups of each pool: their contents are small.
const GROUPS: u64 = 8;

pub struct MetadataServer {
    pub file_system: String,
    pub process: Process,
    pub allocator: Ready,
    pub socket: PathBuf,
}

/// An MDS's own figures of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cache {
    pub mib: f64,
    pub inodes: f64,
    /// Removed and not yet gone from the pools.
    pub strays: f64,
}

/// Starts one for each allocator, with `mds_cache_memory_limit`, and waits until each serves its file system.
pub fn start(
    session: &Session,
    cluster: &Cluster,
    allocators: &[&str],
    limit_bytes: u64,
) -> Result<Vec<MetadataServer>> {
    session.step("metadata servers")?;
    configure(cluster, allocators.len(), limit_bytes)?;
    let mut servers = Vec::new();
    // One after the other: a new server takes the only file system that has none.
    for (number, name) in allocators.iter().enumerate() {
        make_file_system(session, cluster, number)?;
        let server = start_one(session, cluster, number, name)?;
        session.wait_for(&format!("mds.m{number} to serve its file system"), MINUTES, || {
            server.process.check()?;
            let status = ask(&server.socket, Question::Status, LONG);
            Ok(status.is_ok_and(|status| status["state"] == "up:active").then_some(()))
        })?;
        prove_allocator(
            &format!("mds.m{number}"),
            &server.process,
            &server.allocator,
            cluster.root.as_deref(),
        )?;
        servers.push(server);
    }
    Ok(servers)
}

fn configure(cluster: &Cluster, servers: usize, limit_bytes: u64) -> Result<()> {
    let directory = cluster.directory.display();
    let mut lines =
        format!("[mds]\nmds data = {directory}/mds/$id\nmds cache memory limit = {limit_bytes}\n");
    for number in 0..servers {
        lines += &format!("[mds.m{number}]\nmds join fs = {}\n", name_of(number));
        let place = cluster.directory.join(format!("mds/m{number}"));
        fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    }
    let conf = fs::OpenOptions::new().append(true).open(&cluster.client.conf);
    conf.and_then(|mut conf| conf.write_all(lines.as_bytes()))
        .context("cannot add the metadata servers to ceph.conf")
}

fn name_of(number: usize) -> String {
    format!("fs{number}")
}

fn make_file_system(session: &Session, cluster: &Cluster, number: usize) -> Result<()> {
    let name = name_of(number);
    let mut lines = Vec::new();
    if number == 0 {
        lines.push("fs flag set enable_multiple true --yes-i-really-mean-it".to_owned());
    }
    for (pool, holds) in [("metadata", Holds::Metadata), ("data", Holds::Data)] {
        lines.push(pool::creation(cluster, &format!("{name}-{pool}"), GROUPS, holds));
    }
    lines.push(format!("fs new {name} {name}-metadata {name}-data"));
    cluster.client.command(session, &lines)
}

fn start_one(session: &Session, cluster: &Cluster, number: usize, name: &str) -> Result<MetadataServer> {
    let allocator = cluster.allocator(session, name)?;
    let who = format!("mds.m{number}");
    let program = cluster.program(session, "ceph-mds").arg("-c").arg(&cluster.client.conf);
    let program = program.args(["-f", "-i", &format!("m{number}")]).allocator(&allocator);
    let process = program.start(&who)?;
    Ok(MetadataServer { file_system: name_of(number), process, allocator, socket: cluster.socket(&who) })
}

impl MetadataServer {
    pub fn cache(&self) -> Result<Cache> {
        let pools = ask(&self.socket, Question::Mempools, LONG)?;
        let counters = ask(&self.socket, Question::PerfDump, LONG)?;
        cache(&pools, &counters).with_context(|| format!("{} does not say what it caches", self.file_system))
    }
}

fn cache(pools: &Value, counters: &Value) -> Option<Cache> {
    let bytes = pools["mempool"]["by_pool"]["mds_co"]["bytes"].as_f64()?;
    Some(Cache {
        mib: bytes / f64::from(1 << 20),
        inodes: counters["mds_mem"]["ino"].as_f64()?,
        strays: counters["mds_cache"]["num_strays"].as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_cache_is_what_the_server_counts_in_its_own_pool() {
        let pools = json!({ "mempool": { "by_pool": { "mds_co": { "items": 7, "bytes": 3 << 20 } } } });
        let counters = json!({ "mds_mem": { "ino": 12 }, "mds_cache": { "num_strays": 2 } });
        assert_eq!(cache(&pools, &counters), Some(Cache { mib: 3.0, inodes: 12.0, strays: 2.0 }));
        assert_eq!(cache(&pools, &json!({})), None);
        assert_eq!(cache(&json!({}), &counters), None);
    }
}
