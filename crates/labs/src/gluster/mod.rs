//! The Gluster lab: one glusterd and its bricks in a network of their own.
//!
//! ```text
//! detach, multiplex, pools     the experiments
//! cluster                      glusterd, volumes, bricks, load
//! release                      which GlusterFS, of which Debian
//! helpers                      the C programs that are compiled for them
//! reports                      who found what
//! ```

mod cluster;
mod detach;
mod helpers;
mod multiplex;
mod pools;
mod release;
mod reports;

use crate::engine::experiment::Package;
use crate::engine::lab::{For, Lab, Setting, Values};
use crate::engine::neighbours;
use crate::engine::request::{Request, check_library};
use crate::engine::results::Row;
use crate::engine::session::Session;
use crate::engine::understood::NotUnderstood;
use anyhow::{Context, Result, bail};
use cluster::{Cluster, Kept, Shape};
use vcm_inspect::daemon::Role;
use vcm_inspect::usage::{Heap, Usage};
use vcm_measure::tell;

pub static LAB: Lab = Lab {
    name: "gluster",
    what: "GlusterFS with brick multiplexing: up to 1,000 bricks in one process",
    experiments: &[&detach::DETACH, &multiplex::MULTIPLEX, &pools::POOLS],
    settings: SETTINGS,
    check,
    debians: release::debians,
    lives_here,
    elsewhere: None,
    up,
    run,
};

/// The bricks' allocator unless another is named.
const DEFAULT: &str = "vcmalloc";
const ON_OFF: Values = Values::OneOf(&["on", "off"]);

const fn setting(
    name: &'static str,
    value: &'static str,
    of: &'static str,
    default: &'static str,
    help: &'static str,
    values: Values,
) -> Setting {
    Setting { name, value, values, of: For::Only(of), default: Some(default), help }
}

static SETTINGS: &[Setting] = &[
    Setting {
        name: "release",
        value: "N",
        values: Values::OneOf(&release::NUMBERS),
        of: For::NewClusters,
        default: None,
        help: "up, experiments: GlusterFS 10.3, 11.1 or 11.2, each from its Debian [default: this machine's]",
    },
    setting("bricks", "N", "up", "20", "up: number of bricks, up to 1000", Values::Number(1..=1000)),
    setting("multiplex", "on|off", "up", "on", "up: all bricks in one process", ON_OFF),
    setting("pools", "on|off", "up", "on", "up: Gluster's own memory pools", ON_OFF),
    setting("allocator", "NAME", "up", DEFAULT, "up: the bricks' allocator", Values::Allocator),
    setting("files", "N", "run", "20000", "run: files to create and delete", Values::Number(1..=10_000_000)),
    setting("bytes", "N", "run", "4096", "run: size of each file", Values::Number(1..=1 << 30)),
];

const PACKAGES: &[Package] = &[
    Package { name: "glusterfs-server", why: "glusterd and the bricks" },
    Package { name: "glusterfs-client", why: "the library of the load" },
    Package { name: "libglusterfs-dev", why: "its headers" },
    Package { name: "gcc", why: "compiles the load and the preloads" },
    Package { name: "libc6-dev", why: "compiles the load and the preloads" },
];

fn check(request: &Request) -> Result<()> {
    if !["up", "run"].contains(&request.action.as_str()) {
        return check_rights();
    }
    if !request.allocators.is_empty() {
        bail!(NotUnderstood(
            "--allocators is for experiments; the bricks of `up` have one: --allocator NAME".into()
        ));
    }
    check_rights()?;
    match request.action.as_str() {
        "up" => check_library(request, &[request.settings.get("allocator").map_or(DEFAULT, String::as_str)]),
        _ => Ok(()),
    }
}

/// A Gluster on this machine that is not the lab's.
fn lives_here() -> Option<String> {
    neighbours::first(
        |role| matches!(role, Role::Glusterd | Role::Glusterfsd),
        &["/var/lib/glusterd/vols", "/var/lib/glusterd/peers"],
    )
}

fn check_rights() -> Result<()> {
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
    .values(usage.heap.into_iter().flat_map(Heap::values))
}

/// The quick plan has fewer files: the page says how many there were.
fn note_load(session: &Session, files: u64, bytes: u64) {
    session.note(format!("Each load created, wrote and deleted {files} files of {bytes} bytes."));
}

fn on_or_off(session: &Session, name: &str) -> Result<bool> {
    match session.setting(name) {
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        other => bail!("--{name} takes on or off, not '{}'", other.unwrap_or_default()),
    }
}

fn up(session: &Session) -> Result<()> {
    let name = session.setting("allocator").unwrap_or(DEFAULT);
    let shape = Shape {
        multiplex: on_or_off(session, "multiplex")?,
        pools: on_or_off(session, "pools")?,
        ..Shape::of(session.number("bricks")?)
    };
    let packages = PACKAGES.iter().map(|package| (package.name.to_owned(), package.why.to_owned()));
    session.packages(&packages.collect::<Vec<_>>())?;
    let cluster = Cluster::up(session, "cluster", shape, name)?;
    let (kept, usage) = (cluster.kept(), cluster.usage()?);
    session.keep(&kept)?;
    tell::result(&format!(
        "{} bricks on {name}, {:.1} MiB resident\nin {}\nreach it: {}\n\
         next: `vcm lab gluster run`, then `vcm lab gluster down`\n",
        kept.shape.bricks(),
        usage.rss_mib,
        kept.directory.display(),
        cluster.typed(session)
    ))
}

fn run(session: &Session) -> Result<()> {
    let kept: Option<Kept> = session.kept()?;
    let kept = kept.context("no cluster is up; start one with `vcm lab gluster up`")?;
    let cluster = Cluster::again(session, kept)?;
    let before = cluster.usage()?;
    let loaded =
        cluster.load(session, cluster.shape.volumes, session.number("files")?, session.number("bytes")?)?;
    let after = cluster.usage()?;
    let cpu = after.cpu_seconds() - before.cpu_seconds();
    tell::result(&format!(
        "{} files: created in {:.2} s, deleted in {:.2} s, {} errors\n\
         bricks: {cpu:.2} s of processor time, {:.1} MiB resident before, {:.1} after, {} threads\n{}",
        loaded.files,
        loaded.create_seconds,
        loaded.delete_seconds,
        loaded.errors,
        before.rss_mib,
        after.rss_mib,
        after.threads,
        after.heap.map_or(String::new(), |heap| format!("their heaps: {}\n", heap.words()))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::lab::check_settings;

    fn request(action: &str, settings: &[(&str, &str)]) -> Request {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Request { action: action.to_owned(), settings: settings.collect(), ..Request::default() }
    }

    #[test]
    fn a_number_of_bricks_that_cannot_be_is_refused_with_its_range() {
        for bricks in ["0", "1001", "x", "-1"] {
            let refused =
                check_settings(SETTINGS, "gluster", &request("up", &[("bricks", bricks)])).unwrap_err();
            assert_eq!(refused.to_string(), format!("--bricks is a number from 1 to 1000, not '{bricks}'"));
        }
        assert!(check_settings(SETTINGS, "gluster", &request("up", &[("bricks", "1")])).is_ok());
        assert!(check_settings(SETTINGS, "gluster", &request("up", &[("allocator", "foo")])).is_err());
    }

    #[test]
    fn allocators_for_a_cluster_that_has_one_are_refused() {
        let request = Request { allocators: vec!["glibc".to_owned()], ..request("up", &[]) };
        let refused = check(&request).unwrap_err();
        assert!(refused.to_string().contains("--allocator NAME"), "{refused}");
        assert!(crate::engine::understood::is_not_understood(&refused));
    }

    #[test]
    fn who_is_not_root_is_told_so_before_anything_is_made() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("state");
        let as_nobody = || {
            // SAFETY: by this call, unlike by the C library's function, this thread alone becomes another
            // user.
            unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            let request = Request { state: state.clone(), ..request("detach", &[]) };
            crate::engine::run::act(&LAB, request).unwrap_err().to_string()
        };
        let said = std::thread::scope(|scope| scope.spawn(as_nobody).join().unwrap());
        assert!(said.contains("run it as root"), "{said}");
        assert!(!state.exists());
    }
}
