//! Another Debian in a directory of its own: made once and kept in the cache, used through an overlay.
//!
//! Owns `CACHE/SUITE`. Promises that a directory of that name is whole: it is made as `SUITE.new` and
//! renamed, under the lock `CACHE/SUITE.lock`; what an interrupted run left is recognised and made again.
//! Promises that a cluster changes nothing in it. `cluster` calls it.

use crate::engine::packages;
use crate::engine::session::Session;
use crate::engine::space;
use crate::engine::stop::is_stopped;
use crate::engine::undo::{Undo, is_mounted};
use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What such a system takes, with Ceph in it.
const SYSTEM_MIB: u64 = 1200;
const AN_HOUR: Duration = Duration::from_secs(3600);
/// Where releases go that the mirrors no longer carry.
const ARCHIVE: &str = "http://archive.debian.org/debian";
const USUAL_MIRROR: &str = "http://deb.debian.org/debian";

/// The system's directory, with these packages in it; made first if need be.
pub fn provide(session: &Session, suite: &str, packages: &[&str]) -> Result<PathBuf> {
    let cache = &session.request().cache;
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}; run as root", cache.display()))?;
    let system = cache.join(suite);
    if is_whole(&system) && missing(&system, packages).is_empty() {
        return Ok(system);
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("Debian {suite} has to be set up in {}: run as root", system.display());
    }
    if session.request().no_install {
        bail!("Debian {suite} is not set up in {}, and --no-install was given", system.display());
    }
    let _lock = lock(session, &cache.join(format!("{suite}.lock")))?;
    if !is_whole(&system) {
        make(session, suite, &system)?;
    }
    let missing = missing(&system, packages);
    if !missing.is_empty() {
        install(session, &system, &missing)?;
    }
    Ok(system)
}

/// Waits for whoever is making the same system.
fn lock(session: &Session, path: &Path) -> Result<Flock<File>> {
    let mut told = false;
    session.wait_for("the lock of another run that sets up the same system", AN_HOUR, || {
        let file = File::options().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(lock)),
            Err(_) if told => Ok(None),
            Err(_) => {
                told = true;
                session.step(&format!("waiting: somebody else holds {}", path.display())).map(|()| None)
            }
        }
    })
}

/// debootstrap keeps its notes in `debootstrap/` until it is through.
fn is_whole(system: &Path) -> bool {
    system.join("etc/debian_version").is_file() && !system.join("debootstrap").exists()
}

fn missing<'a>(system: &Path, packages: &[&'a str]) -> Vec<&'a str> {
    let there = |package: &str| vcm_measure::machine::package_version(package, Some(system)).is_some();
    packages.iter().copied().filter(|package| !there(package)).collect()
}

fn make(session: &Session, suite: &str, system: &Path) -> Result<()> {
    let whys = [("debootstrap", "sets up another Debian release in a directory")];
    session.packages(&whys.map(|(name, why)| (name.to_owned(), why.to_owned())))?;
    for half_made in [system.to_owned(), with_suffix(system, ".new")] {
        if half_made.exists() {
            session.say(&format!("{} is half made: removing it", half_made.display()));
            let proc = half_made.join("proc");
            Undo::Unmount { path: proc }.act()?;
            Undo::RemoveDirectory { path: half_made }.act()?;
        }
    }
    space::check_place(&session.request().cache, SYSTEM_MIB, &format!("Debian {suite}"), "--cache DIR")?;
    let shown = system.display();
    session.say(&format!(
        "Debian {suite} has to be set up in {shown}: some minutes, about 1 GiB, kept for later runs"
    ));
    if !packages::agreed(session) {
        bail!("nothing was set up");
    }
    session.step(&format!("setting up Debian {suite}"))?;
    let new = with_suffix(system, ".new");
    let made = session.scope(|session| {
        session.journal().add(Undo::RemoveDirectory { path: new.clone() })?;
        session.journal().add(Undo::Unmount { path: new.join("proc") })?;
        let own = bootstrap(session, suite, &new, &mirror(session)?);
        let done = match own {
            Err(error) if !is_stopped(&error) => {
                session.say(&format!("that mirror does not have it: trying {ARCHIVE}"));
                Undo::RemoveDirectory { path: new.clone() }.act()?;
                bootstrap(session, suite, &new, ARCHIVE)
            }
            other => other,
        };
        done?;
        // Renamed inside the scope: its end removes what is left under the old name, and nothing is.
        fs::rename(&new, system).with_context(|| format!("cannot rename {}", new.display()))
    });
    made.with_context(|| format!("cannot set up Debian {suite}"))
}

fn bootstrap(session: &Session, suite: &str, new: &Path, mirror: &str) -> Result<()> {
    let program = session.command("debootstrap").arg("--variant=minbase").arg(suite).arg(new).arg(mirror);
    proxied(session, program)?.limit(AN_HOUR).run().map(drop)
}

/// This machine's own package source, for it is the one that can be reached.
fn mirror(session: &Session) -> Result<String> {
    let format = "$(REPO_URI) $(COMPONENT)";
    let targets = session.command("apt-get").args(["indextargets", "--format", format]);
    let targets = targets.args(["Created-By: Packages", "Origin: Debian", "Label: Debian"]).output()?;
    let main = targets.stdout.lines().find_map(|line| line.strip_suffix(" main"));
    Ok(main.map_or_else(|| USUAL_MIRROR.to_owned(), |uri| uri.trim_end_matches('/').to_owned()))
}

/// debootstrap and another system's apt do not read this system's apt settings.
fn proxied<'a>(
    session: &Session,
    program: crate::engine::process::Program<'a>,
) -> Result<crate::engine::process::Program<'a>> {
    let set = session.command("apt-config").args(["shell", "proxy", "Acquire::http::Proxy"]).output()?.stdout;
    let of_apt = set.trim().strip_prefix("proxy=").map(|text| text.trim_matches('\'').to_owned());
    let proxy = of_apt.or_else(|| std::env::var("http_proxy").ok()).filter(|proxy| !proxy.is_empty());
    Ok(match proxy {
        Some(proxy) => program.env("http_proxy", proxy),
        None => program,
    })
}

fn install(session: &Session, system: &Path, packages: &[&str]) -> Result<()> {
    session.step(&format!("installing in {}: {}", system.display(), packages.join(" ")))?;
    // Nothing may start there.
    let policy = system.join("usr/sbin/policy-rc.d");
    fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o755))?;
    session.scope(|session| {
        for folder in ["/proc", "/dev"] {
            let place = system.join(&folder[1..]);
            if !is_mounted(&place) {
                session.bind(Path::new(folder), &place)?;
            }
        }
        let inside = |program: &str, words: &[&str]| {
            let program = session.command(program).args(words).root(Some(system)).limit(AN_HOUR);
            proxied(session, program.env("DEBIAN_FRONTEND", "noninteractive"))?.run()
        };
        // An earlier run may have been stopped between unpacking and configuring.
        inside("dpkg", &["--configure", "-a"])?;
        inside("apt-get", &["--quiet", "update"])?;
        let words = ["--quiet", "--yes", "install", "--no-install-recommends"];
        inside("apt-get", &[&words, packages].concat())?;
        inside("apt-get", &["clean"])?;
        Ok(())
    })
}

/// Makes the system usable at `root`, an existing directory: with its own /proc, /sys and /dev, with `shared`
/// at the same path as here, and without a change in the cache. `layers` is an existing directory for what is
/// written.
pub fn enter(session: &Session, system: &Path, root: &Path, layers: &Path, shared: &Path) -> Result<()> {
    let (upper, work) = (layers.join("written"), layers.join("work"));
    fs::create_dir(&upper)?;
    fs::create_dir(&work)?;
    session.journal().add(Undo::Unmount { path: root.to_owned() })?;
    let options =
        format!("lowerdir={},upperdir={},workdir={}", system.display(), upper.display(), work.display());
    mount(Some("vcm-lab"), root, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .with_context(|| format!("cannot mount an overlay on {}; run as root", root.display()))?;
    mount(None::<&str>, root, None::<&str>, MsFlags::MS_PRIVATE, None::<&str>)?;
    for folder in ["/proc", "/sys", "/dev", "/dev/shm"] {
        session.bind(Path::new(folder), &root.join(&folder[1..]))?;
    }
    let inside = root.join(shared.strip_prefix("/").unwrap_or(shared));
    fs::create_dir_all(&inside)?;
    session.bind(shared, &inside)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_made_system_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let system = folder.path();
        assert!(!is_whole(system), "an empty directory");
        fs::create_dir_all(system.join("etc")).unwrap();
        fs::write(system.join("etc/debian_version"), "11.11\n").unwrap();
        assert!(is_whole(system));
        fs::create_dir(system.join("debootstrap")).unwrap();
        assert!(!is_whole(system), "debootstrap was not through");
    }
}
