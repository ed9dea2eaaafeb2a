//! Object gateways of a cluster: one radosgw for each allocator, each on its own port.
//!
//! Owns their settings and the S3 user. `object_gateway` calls it; the cluster must have been brought up with
//! keys.

use super::cluster::Cluster;
use super::cluster::pool::{self, Holds};
use crate::engine::process::Process;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use vcm_measure::allocators::Ready;

pub const KEY: &str = "labkey";
pub const SECRET: &str = "labsecret";
/// Placement groups of each pool that is made here.
const GROUPS: u64 = 8;
const MINUTES: Duration = Duration::from_secs(180);

pub struct Gateway {
    pub process: Process,
    pub allocator: Ready,
    pub port: u16,
    pub socket: PathBuf,
}

/// Starts one for each allocator, and makes the user.
pub fn start(session: &Session, cluster: &Cluster, allocators: &[&str]) -> Result<Vec<Gateway>> {
    session.step("object gateways")?;
    make_pools(session, cluster)?;
    // The first user makes the other pools, before several daemons try to at once.
    let admin = cluster.program(session, "radosgw-admin").arg("-c").arg(&cluster.client.conf);
    let admin = admin.args(["user", "create", "--uid=lab", "--display-name=lab"]);
    admin.arg(format!("--access-key={KEY}")).arg(format!("--secret-key={SECRET}")).limit(MINUTES).run()?;
    let mut gateways = Vec::new();
    for (number, name) in allocators.iter().enumerate() {
        gateways.push(start_one(session, cluster, number, name)?);
    }
    session.wait_for("the object gateways", MINUTES, || {
        gateways.iter().try_for_each(|gateway| gateway.process.check())?;
        let answers = |gateway: &Gateway| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, gateway.port));
            TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
        };
        Ok(gateways.iter().all(answers).then_some(()))
    })?;
    Ok(gateways)
}

/// Makes the pools of buckets, which a gateway takes as it finds them, if the cluster has OSDs in memory.
fn make_pools(session: &Session, cluster: &Cluster) -> Result<()> {
    if cluster.shape.in_memory == 0 {
        return Ok(());
    }
    let pools = [("index", Holds::Metadata), ("data", Holds::Data), ("non-ec", Holds::Metadata)];
    let lines = pools.into_iter().flat_map(|(pool, holds)| {
        let pool = format!("default.rgw.buckets.{pool}");
        [pool::creation(cluster, &pool, GROUPS, holds), format!("osd pool application enable {pool} rgw")]
    });
    cluster.client.command(session, &lines.collect::<Vec<_>>())
}

fn start_one(session: &Session, cluster: &Cluster, number: usize, name: &str) -> Result<Gateway> {
    let allocator = cluster.allocator(session, name)?;
    // Freed at once: a process that takes it first is seen as a gateway that ends.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let who = format!("rgw.{number}");
    let data = cluster.directory.join(&who);
    std::fs::create_dir(&data)?;
    let socket = cluster.directory.join(format!("run/{who}.asok"));
    // Without `tcp_nodelay` the end of each GET's answer waits 40 ms for the client's delayed acknowledgement.
    let lines = format!(
        "[client.{who}]\nadmin socket = {}\nrgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1\nlog file = {}\n\
         debug rgw = 0/0\nrgw data = {}\nrgw enable ops log = false\nrgw thread pool size = 64\n",
        socket.display(),
        cluster.directory.join(format!("log/{who}.log")).display(),
        data.display(),
    );
    let conf = std::fs::OpenOptions::new().append(true).open(&cluster.client.conf);
    conf.and_then(|mut conf| conf.write_all(lines.as_bytes()))
        .context("cannot add the gateway to ceph.conf")?;
    let program = cluster.program(session, "radosgw").arg("-c").arg(&cluster.client.conf);
    let program = program.args(["-f", "-n", &format!("client.{who}")]).allocator(&allocator);
    Ok(Gateway { process: program.start(&who)?, allocator, port, socket })
}
