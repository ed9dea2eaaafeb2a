//! The pool that the load goes to, its placement groups, its image.
//!
//! Promises that every placement group takes operations when `make` comes back.

use super::Cluster;
use super::osd::Osd;
use super::shape::Shape;
use crate::engine::session::Session;
use anyhow::{Context, Result, anyhow, bail};
use std::sync::atomic::Ordering;
use std::time::Duration;
use vcm_inspect::ceph::socket::{LONG, Question, ask};

pub const POOL: &str = "bench";
pub const IMAGE: &str = "image";

/// How long the load that settles a pool may take, attempt by attempt. Groups that do not become active in
/// the first never will; a busy machine is only slow.
const SETTLED_WITHIN: [Duration; 3] =
    [Duration::from_secs(30), Duration::from_secs(60), Duration::from_secs(120)];

/// How long groups without objects may take to move.
const MOVED_WITHIN: Duration = Duration::from_secs(60);

/// So many sessions of `ceph` give commands at the same time.
const SIDE_BY_SIDE: usize = 4;

/// The contents of a pool beside that of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Data,
    Metadata,
}

const ON_DISK: &str = "on-disk";
const IN_MEMORY: &str = "in-memory";

/// The placement rules of a cluster with OSDs in memory.
pub fn make_rules(session: &Session, cluster: &Cluster) -> Result<()> {
    let shape = &cluster.shape;
    if shape.in_memory == 0 {
        return Ok(());
    }
    let class = |number: usize| if number < shape.osds - shape.in_memory { "hdd" } else { "ssd" };
    let classes =
        (0..shape.osds).map(|number| format!("osd crush set-device-class {} osd.{number}", class(number)));
    let rules = [(ON_DISK, "hdd"), (IN_MEMORY, "ssd")]
        .map(|(rule, class)| format!("osd crush rule create-replicated {rule} default osd {class}"));
    cluster.client.command(session, &classes.chain(rules).collect::<Vec<_>>())
}

/// The command that makes a pool of `groups` on the OSDs that its contents ask for.
pub fn creation(cluster: &Cluster, pool: &str, groups: u64, holds: Holds) -> String {
    format!("osd pool create {pool} {groups} {groups} replicated{}", rule(&cluster.shape, holds))
}

fn rule(shape: &Shape, holds: Holds) -> String {
    match (shape.in_memory, holds) {
        (0, _) => String::new(),
        (_, Holds::Metadata) if shape.metadata_in_memory => format!(" {IN_MEMORY}"),
        _ => format!(" {ON_DISK}"),
    }
}

pub fn make(session: &Session, cluster: &Cluster, copies: usize) -> Result<()> {
    make_settled(session, cluster, copies)?;
    if cluster.shape.image_mib > 0 {
        let size = cluster.shape.image_mib.to_string();
        let rbd =
            cluster.client.program(session, "rbd").args(["--pool", POOL, "create", IMAGE, "--size", &size]);
        // Small objects, so that a small image spreads evenly over the OSDs.
        rbd.args(["--object-size", "128K"]).run()?;
    }
    Ok(())
}

pub fn create(session: &Session, cluster: &Cluster, pool: &str, copies: usize) -> Result<()> {
    let groups = cluster.shape.placement_groups;
    let twice = match copies == 1 && cluster.release.asks_twice_for_one_copy() {
        true => " --yes-i-really-mean-it",
        false => "",
    };
    cluster.client.command(
        session,
        &[
            format!("osd pool create {pool} {groups} {groups} replicated"),
            format!("osd pool set {pool} size {copies}{twice}"),
            format!("osd pool set {pool} min_size 1"),
            format!("osd pool application enable {pool} rbd"),
        ],
    )
}

/// A pool beside the first, with its groups where they are wanted.
pub fn create_level(session: &Session, cluster: &Cluster, pool: &str, copies: usize) -> Result<()> {
    create(session, cluster, pool, copies)?;
    settle(session, cluster, pool, SETTLED_WITHIN[1])?;
    level(session, cluster, pool, copies)?;
    settle(session, cluster, pool, SETTLED_WITHIN[1])
}

pub fn remove(session: &Session, cluster: &Cluster, pool: &str) -> Result<()> {
    let line = format!("osd pool delete {pool} {pool} --yes-i-really-really-mean-it");
    cluster.client.command(session, &[line])
}

/// A placement group that is moved while an OSD is about to make it can be lost: the monitor believes that it
/// was made, no OSD has it, and operations on it wait for ever. So every group works before any is moved.
/// Should one be lost all the same, a new pool has new groups.
fn make_settled(session: &Session, cluster: &Cluster, copies: usize) -> Result<()> {
    let mut last = anyhow!("no attempt");
    for (attempt, limit) in SETTLED_WITHIN.into_iter().enumerate() {
        if attempt > 0 {
            session.say(&format!("the pool did not settle ({last:#}): once more with a new one"));
            remove(session, cluster, POOL)?;
        }
        create(session, cluster, POOL, copies)?;
        let settled = settle(session, cluster, POOL, limit).and_then(|()| match cluster.shape.level {
            true => {
                level(session, cluster, POOL, copies).and_then(|()| settle(session, cluster, POOL, limit))
            }
            false => Ok(()),
        });
        match settled {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
        session.check()?;
        cluster.check()?;
    }
    bail!("{last:#}")
}

/// A pool that nothing was written to, with so many copies: the one that is there if it is such a one.
pub fn fresh(session: &Session, cluster: &Cluster, copies: usize) -> Result<()> {
    if cluster.fresh_copies.swap(0, Ordering::Relaxed) == copies {
        return Ok(());
    }
    remove(session, cluster, POOL)?;
    make(session, cluster, copies)
}

/// Puts group n on OSD n modulo their number, its copies on the next ones, while the pool is still empty, and
/// waits until they are there: until then the former OSD does the work.
fn level(session: &Session, cluster: &Cluster, pool: &str, copies: usize) -> Result<()> {
    let pools = cluster.client.ask(session, &["osd", "lspools"])?;
    let pools = pools.as_array().context("no list of pools")?;
    let ours = pools.iter().find(|one| one["poolname"] == pool);
    let number = ours.and_then(|pool| pool["poolnum"].as_u64()).context("the pool is not listed")?;
    // 14.2 still expects clients that do not know of pinned groups.
    cluster.client.command(session, &["osd set-require-min-compat-client luminous".to_owned()])?;
    let mut lists = vec![Vec::new(); SIDE_BY_SIDE];
    for group in 0..cluster.shape.placement_groups {
        let osds = (0..copies).map(|copy| ((group + copy) % cluster.shape.osds).to_string());
        let osds = osds.collect::<Vec<_>>().join(" ");
        lists[group % SIDE_BY_SIDE].push(format!("osd pg-upmap {number}.{group:x} {osds}"));
    }
    cluster.client.command_side_by_side(session, &lists)?;
    session.wait_for("the placement groups to be where they were put", MOVED_WITHIN, || {
        let led = cluster.osds().iter().map(groups_led_by).collect::<Result<Vec<usize>>>()?;
        let (groups, osds) = (cluster.shape.placement_groups, cluster.shape.osds);
        // Every pool here is level and has as many groups.
        let wanted = |osd: usize| pools.len() * (groups / osds + usize::from(osd < groups % osds));
        if led.iter().enumerate().any(|(osd, led)| *led < wanted(osd)) {
            return Ok(None);
        }
        let map = cluster.client.ask(session, &["osd", "dump"])?;
        Ok(map["pg_temp"].as_array().is_none_or(Vec::is_empty).then_some(()))
    })
}

fn groups_led_by(osd: &Osd) -> Result<usize> {
    let dump = ask(&osd.socket, Question::PerfDump, LONG)?;
    let led = dump["osd"]["numpg_primary"].as_u64();
    led.map(|led| led as usize).context("an OSD does not say how many placement groups it leads")
}

/// An operation waits until its placement group is active, so some to each of them settle it.
fn settle(session: &Session, cluster: &Cluster, pool: &str, limit: Duration) -> Result<()> {
    let bench = cluster.client.program(session, "rados").args(["--pool", pool, "bench", "1", "write"]);
    bench.args(["-b", "1", "-t", "64", "--run-name", "settle"]).limit(limit).run().map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::shape::Store;
    use super::*;

    #[test]
    fn metadata_lie_in_memory_only_where_that_is_asked_for() {
        let shape = || Shape::of(Store::Bluestore, 5);
        for (shape, data, metadata) in [
            (shape(), "", ""),
            (shape().in_memory(2, false), " on-disk", " on-disk"),
            (shape().in_memory(2, true), " on-disk", " in-memory"),
        ] {
            assert_eq!(
                (rule(&shape, Holds::Data).as_str(), rule(&shape, Holds::Metadata).as_str()),
                (data, metadata)
            );
        }
    }
}
