//! The Gluster lab: one glusterd and its bricks in a network of their own.
//!
//! ```text
//! detach, multiplex, pools     the experiments
//! cluster                      glusterd, volumes, bricks, load
//! helpers                      the C programs that are compiled for them
//! reports                      who found what
//! ```

mod cluster;
mod detach;
mod helpers;
mod multiplex;
mod pools;
mod reports;

use crate::engine::experiment::Package;
use crate::engine::lab::{Lab, Setting};
use crate::engine::measure::Usage;
use crate::engine::results::Row;
use crate::engine::session::Session;
use anyhow::{Context, Result, bail};
use cluster::{Cluster, Kept, Shape};

pub static LAB: Lab = Lab {
    name: "gluster",
    what: "GlusterFS with brick multiplexing: up to 1,000 bricks in one process",
    experiments: &[&detach::DETACH, &multiplex::MULTIPLEX, &pools::POOLS],
    settings: &[
        Setting { name: "bricks", value: "N", default: Some("20"), help: "up: how many bricks" },
        Setting {
            name: "multiplex",
            value: "on|off",
            default: Some("on"),
            help: "up: all bricks in one process",
        },
        Setting {
            name: "pools",
            value: "on|off",
            default: Some("on"),
            help: "up: Gluster's own memory pools",
        },
        Setting {
            name: "allocator",
            value: "NAME",
            default: Some("vcmalloc"),
            help: "up: the bricks' allocator",
        },
        Setting {
            name: "files",
            value: "N",
            default: Some("20000"),
            help: "run: files to create and delete",
        },
        Setting { name: "bytes", value: "N", default: Some("4096"), help: "run: size of each file" },
    ],
    up,
    run,
};

const PACKAGES: &[Package] = &[
    Package { name: "glusterfs-server", why: "glusterd and the bricks" },
    Package { name: "glusterfs-client", why: "the library the load speaks through" },
    Package { name: "libglusterfs-dev", why: "its headers" },
    Package { name: "gcc", why: "compiles the load and the preloads" },
    Package { name: "libc6-dev", why: "compiles the load and the preloads" },
];

/// What can be known before anything is started.
fn prepare(_: &Session) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("the gluster lab mounts, makes a network and starts daemons: run it as root");
    }
    Ok(())
}

fn usage_row(row: Row, usage: &Usage) -> Row {
    row.values([
        ("rss_mib", usage.rss_mib),
        ("pss_mib", usage.pss_mib),
        ("anonymous_mib", usage.anonymous_mib),
        ("threads", usage.threads as f64),
        ("cpu_seconds", usage.cpu_seconds()),
    ])
}

fn on_or_off(session: &Session, name: &str) -> Result<bool> {
    match session.setting(name) {
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        other => bail!("--{name} is on or off, not '{}'", other.unwrap_or_default()),
    }
}

fn up(session: &Session) -> Result<()> {
    prepare(session)?;
    let name = session.setting("allocator").unwrap_or("vcmalloc");
    let shape = Shape {
        multiplex: on_or_off(session, "multiplex")?,
        pools: on_or_off(session, "pools")?,
        ..Shape::of(session.number("bricks")?)
    };
    let packages = PACKAGES.iter().map(|package| (package.name.to_owned(), package.why.to_owned()));
    session.packages(&packages.collect::<Vec<_>>())?;
    let cluster = Cluster::up(session, "cluster", shape, &session.allocator(name)?)?;
    let (kept, usage) = (cluster.kept(session), cluster.usage()?);
    println!(
        "{} bricks on {name}, pids {:?}, {:.1} MiB resident",
        kept.shape.bricks(),
        cluster.bricks(),
        usage.rss_mib
    );
    println!("in {}", kept.directory.display());
    println!("speak to it: {}", cluster.typed());
    println!("next: `vcm lab gluster run`, then `vcm lab gluster down`");
    session.keep(&kept)
}

fn run(session: &Session) -> Result<()> {
    let kept: Option<Kept> = session.kept()?;
    let kept = kept.context("no cluster is up; `vcm lab gluster up` makes one")?;
    let cluster = Cluster::again(session, kept)?;
    let before = cluster.usage()?;
    let loaded =
        cluster.load(session, cluster.shape.volumes, session.number("files")?, session.number("bytes")?)?;
    let after = cluster.usage()?;
    let cpu = after.cpu_seconds() - before.cpu_seconds();
    println!(
        "{} files: created in {:.2} s, deleted in {:.2} s, {} errors",
        loaded.files, loaded.create_seconds, loaded.delete_seconds, loaded.errors
    );
    println!(
        "bricks: {cpu:.2} s of processor time, {:.1} MiB resident before, {:.1} after, {} threads",
        before.rss_mib, after.rss_mib, after.threads
    );
    Ok(())
}
