//! A cluster by itself: brought up and left, or one that lives here already, under the load of
//! `thread-cache`.
//!
//! Owns `up` and `run`. On a cluster that is not the lab's
//! it promises to start, stop and change nothing: it writes objects of its own into the named pool and
//! removes them, also when it is stopped.

use super::cluster::Cluster;
use super::cluster::monitor::Client;
use super::cluster::pool::POOL;
use super::cluster::release::CLUSTER_PACKAGES;
use super::cluster::shape::{Shape, Store};
use super::load::Load;
use super::load::rados_bench::Bench;
use super::look::found::{Found, found};
use super::settings::{self, OWN_ID};
use crate::engine::neighbours;
use crate::engine::session::Session;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use vcm_inspect::ceph::counters::{Moment, Work};
use vcm_inspect::daemon::Role;
use vcm_measure::child;
use vcm_measure::tell;

/// A Ceph on this machine that is not the lab's.
pub fn lives_here() -> Option<String> {
    let places = ["/etc/ceph/ceph.conf", "/var/lib/ceph/osd", "/var/lib/ceph/mon"];
    neighbours::first(Role::is_ceph, &places)
}

/// The record that `up` leaves for `run`.
#[derive(serde::Serialize, serde::Deserialize)]
struct Kept {
    client: Client,
    directory: PathBuf,
}

pub fn up(session: &Session) -> Result<()> {
    let packages = CLUSTER_PACKAGES.map(|package| (package.name.to_owned(), package.why.to_owned()));
    session.packages(&packages)?;
    let store = Store::of(session.setting("store").unwrap_or_default())?;
    let (osds, copies) = (session.number("osds")? as usize, session.number("copies")? as usize);
    let names = settings::allocators_of_up(session.request());
    let shape = Shape::of(store, osds).copies(copies).level();
    let mut cluster = Cluster::up(session, &shape, &names)?;
    session.keep(&Kept { client: cluster.client.clone(), directory: cluster.directory.clone() })?;
    cluster.keep();
    session.progress().end();
    tell::result(&format!(
        "up, with pool '{POOL}'. Ceph's own tools reach it by\n    {}env CEPH_CONF={} ceph status\n\
         vcm lab ceph run     loads it and shows what each OSD used\nvcm lab ceph down    ends it\n",
        session.entering(),
        cluster.client.conf.display()
    ))
}

pub fn run(session: &Session) -> Result<()> {
    ensure_clients(session)?;
    let (client, pool, sockets) = target(session)?;
    check_pool(session, &client, &pool)?;
    let fsid = client.ask(session, &["fsid"])?["fsid"].as_str().unwrap_or_default().to_owned();
    let osds = found(&sockets, &fsid);
    if osds.is_empty() {
        session.say("no OSD of that cluster runs on this machine: only the client's side is shown");
    }
    let name = format!("vcm-lab-{}", session.journal().mark());
    let mut objects = Objects { client: &client, pool: &pool, namespace: &name, whole: false };
    let seconds = session.number("seconds")?;
    let mut steps = Vec::new();
    for (step, in_flight) in [("write", 32), ("write", 128), ("read", 32), ("read", 128)] {
        session.step(&format!("{step}, 4 KiB, {in_flight} in flight, {seconds} s"))?;
        let bench = Bench {
            pool: &pool,
            namespace: &name,
            name: run_name(in_flight),
            seconds,
            in_flight,
            bytes: 4096,
        };
        let before = moments(&osds)?;
        let load = match step {
            "write" => bench.write(session, &client)?,
            _ => bench.read(session, &client)?,
        };
        let work: Vec<Work> =
            before.iter().zip(moments(&osds)?).map(|(one, later)| one.until(&later)).collect();
        steps.push((format!("{step} {in_flight}"), load, work));
    }
    session.step("removing the objects")?;
    objects.whole = true;
    drop(objects);
    session.progress().end();
    let shown = |(step, load, work): &(String, Load, Vec<Work>)| match session.request().json {
        true => format!("{}\n", as_json(step, load, &osds, work)),
        false => as_text(step, load, &osds, work),
    };
    tell::result(&steps.iter().map(shown).collect::<String>())
}

/// Ensures the programs that speak to the cluster; a node of it may have them from another place than Debian.
fn ensure_clients(session: &Session) -> Result<()> {
    let there = ["ceph", "rados", "ceph-conf"].iter().all(|name| Path::new("/usr/bin").join(name).exists());
    if there {
        return Ok(());
    }
    session.packages(&[(
        "ceph-common".to_owned(),
        "ceph and rados, which query and load the cluster".to_owned(),
    )])
}

/// Before anything is written: a name that was mistyped would be told as objects that may be left.
fn check_pool(session: &Session, client: &Client, pool: &str) -> Result<()> {
    let pools = client.ask(session, &["osd", "lspools"])?;
    let named = pools.as_array().into_iter().flatten().filter_map(|one| one["poolname"].as_str());
    let names: Vec<&str> = named.collect();
    if names.contains(&pool) {
        return Ok(());
    }
    let there =
        if names.is_empty() { "It has none".to_owned() } else { format!("There are: {}", names.join(", ")) };
    bail!("that cluster has no pool '{pool}'. {there}")
}

/// The cluster that the settings name, or the one that `up` left.
fn target(session: &Session) -> Result<(Client, String, Vec<PathBuf>)> {
    if let Some(conf) = session.setting("conf") {
        let pool = session.setting("pool").context("--conf needs --pool POOL")?;
        let name = session.setting("id").unwrap_or(OWN_ID).to_owned();
        let client = Client { conf: PathBuf::from(conf).canonicalize()?, name, monitor: None };
        let mut sockets = vec![PathBuf::from("/run/ceph"), PathBuf::from("/var/run/ceph")];
        sockets.extend(socket_folder(session, &client.conf)?);
        return Ok((client, pool.to_owned(), sockets));
    }
    let Some(kept) = session.kept::<Kept>()? else {
        bail!("no cluster; start one with `vcm lab ceph up`, or give your own: --conf ceph.conf --pool POOL");
    };
    Ok((kept.client, POOL.to_owned(), vec![kept.directory.join("run")]))
}

/// The folder of the OSDs' admin sockets by that configuration, if it names one.
fn socket_folder(session: &Session, conf: &Path) -> Result<Option<PathBuf>> {
    let ask = session.command("ceph-conf").arg("-c").arg(conf).args(["--name", "osd.0"]);
    let said = ask.args(["--lookup", "admin_socket"]).output()?;
    let path = said.status.success().then(|| PathBuf::from(said.stdout.trim()));
    Ok(path.and_then(|path| path.parent().map(Path::to_owned)).filter(|folder| folder.is_absolute()))
}

fn moments(osds: &[Found]) -> Result<Vec<Moment>> {
    osds.iter().map(|osd| Moment::of(&osd.socket, osd.pid)).collect()
}

/// The loads that write, by what is in flight: `rados bench` finds only the last write of a name again.
const WRITES: [(u64, &str); 2] = [(32, "write-32"), (128, "write-128")];

/// How the names of all objects of `rados bench` begin; `rados cleanup` refuses less.
const PREFIX: &str = "benchmark_data";

fn run_name(in_flight: u64) -> &'static str {
    WRITES.iter().find(|(number, _)| *number == in_flight).map_or("write", |(_, name)| name)
}

/// Objects in somebody's pool, in a namespace of ours: removed when this goes, after a stop too, when no
/// errand of the session's runs any more.
struct Objects<'a> {
    client: &'a Client,
    pool: &'a str,
    namespace: &'a str,
    /// All writes came to their end and left a note of what they wrote. Otherwise the pool is searched for
    /// objects of the namespace, which takes longer where many others are.
    whole: bool,
}

/// Long enough to search a large pool. On a cluster that no longer answers rados would wait for ever.
const CLEANED_WITHIN: Duration = Duration::from_secs(600);

impl Objects<'_> {
    /// Whether it was done; none if there was no answer.
    fn clean(&self, which: [&str; 2]) -> Option<bool> {
        let mut rados = Command::new("rados");
        rados.arg("-c").arg(&self.client.conf).args(["--id", &self.client.name, "--pool", self.pool]);
        rados.args(["--namespace", self.namespace, "cleanup"]).args(which);
        // Ctrl-C in a terminal goes to everybody in the foreground.
        rados.process_group(0);
        child::run(&mut rados, CLEANED_WITHIN).map_or(Some(false), |ended| Some(ended.status?.success()))
    }

    fn remove(&self) -> Option<bool> {
        // Every name is tried: each write that came to its end left a note under its own.
        let mut found = true;
        for (_, name) in WRITES {
            found &= self.clean(["--run-name", name])?;
        }
        if self.whole && found { Some(true) } else { self.clean(["--prefix", PREFIX]) }
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        if self.remove() != Some(true) {
            let (pool, namespace) = (self.pool, self.namespace);
            tell::line(&format!(
                "objects may be left: rados --pool {pool} --namespace {namespace} cleanup --prefix {PREFIX}"
            ));
        }
    }
}

fn as_json(step: &str, load: &Load, osds: &[Found], work: &[Work]) -> serde_json::Value {
    let osd = |(osd, work): (&Found, &Work)| {
        json!({
            "osd": osd.number, "pid": osd.pid, "allocator": osd.allocator, "operations": work.operations,
            "cpu_ms_per_op": work.cpu_ms_per_operation(), "rss_mib": work.usage.rss_mib,
            "threads": work.usage.threads, "heap": work.usage.heap,
        })
    };
    let osds: Vec<_> = osds.iter().zip(work).map(osd).collect();
    json!({ "step": step, "client_iops": load.per_second(), "client_ms": load.mean_ms, "osds": osds })
}

fn as_text(step: &str, load: &Load, osds: &[Found], work: &[Work]) -> String {
    let mut text = format!("{step}: {:.0} operations/s, mean {:.2} ms\n", load.per_second(), load.mean_ms);
    for (osd, work) in osds.iter().zip(work) {
        text += &format!(
            "  osd.{:<3} {:<10} {:8.0} operations  {:>7} ms of processor time each  {:7.1} MiB  {:4} threads\n",
            osd.number,
            osd.allocator,
            work.operations,
            work.cpu_ms_per_operation().map_or("-".to_owned(), |ms| format!("{ms:.4}")),
            work.usage.rss_mib,
            work.usage.threads,
        );
        if let Some(heap) = work.usage.heap {
            text += &format!("          its heap: {}\n", heap.words());
        }
    }
    text
}
