//! Another Debian in a directory of its own: made once and kept in the cache, used through an overlay.
//!
//! Owns `CACHE/SUITE`. Promises that a directory of that name is whole: it is made as `SUITE.new` and
//! renamed, under the lock `CACHE/SUITE.lock`; the rest of an interrupted run is recognised and made again.
//! Promises that a cluster changes nothing in it. Labs call it for daemons of another release.

use super::packages;
use super::session::Session;
use super::space;
use super::undo::{Lasting, Undo};
use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vcm_measure::stop::is_stopped;

/// The room that such a system takes, with its daemons in it.
pub const SYSTEM_MIB: u64 = 1200;
const AN_HOUR: Duration = Duration::from_secs(3600);
/// The archive of releases that the mirrors no longer carry.
const ARCHIVE: &str = "http://archive.debian.org/debian";
const USUAL_MIRROR: &str = "http://deb.debian.org/debian";

/// Daemons of a release that another Debian has.
pub struct Wanted<'a> {
    /// Such as `Ceph 18.2`; the number is what the package's version has to begin with.
    pub product: &'a str,
    pub number: &'a str,
    pub suite: &'a str,
    /// The package that has the daemon that is measured.
    pub daemon: &'a str,
    pub packages: &'a [&'a str],
}

impl Wanted<'_> {
    /// The system's directory, with these packages in it and the release that was asked for. Its versions go
    /// among the results.
    pub fn provide(&self, session: &Session) -> Result<PathBuf> {
        let Wanted { product, number, suite, daemon, packages } = self;
        let system = provide(session, suite, packages)
            .with_context(|| format!("{product} {number} comes from Debian {suite}"))?;
        let version_of = |package: &str| vcm_measure::machine::package_version(package, Some(&system));
        let version = version_of(daemon).with_context(|| format!("no {daemon} in {}", system.display()))?;
        if !is_of(&version, number) {
            bail!(
                "Debian {suite} in {} has {product} {version}, not {number}. Remove that directory if it is \
                 older, and choose an existing release",
                system.display()
            );
        }
        for package in packages.iter().chain([&"libc6"]) {
            if let Some(version) = version_of(package) {
                session.version(&format!("{package} ({suite})"), version);
            }
        }
        session.note(format!("The daemons are {product} {version} of Debian {suite}, with its C library."));
        Ok(system)
    }
}

/// Whether a package's version is of this release: `18.2.7+ds-1` is of 18.2, and `18.20.1` is not.
fn is_of(version: &str, number: &str) -> bool {
    let upstream = version.split_once(':').map_or(version, |(_, upstream)| upstream);
    upstream.strip_prefix(number).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

/// The name of this machine's own Debian, such as `bookworm`.
pub fn own_suite() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The system's directory, with these packages in it; made first if need be.
fn provide(session: &Session, suite: &str, packages: &[&str]) -> Result<PathBuf> {
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
pub fn is_whole(system: &Path) -> bool {
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
            Lasting::Directory(half_made).remove()?;
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
        session.journal().add(Undo::Remove(Lasting::Directory(new.clone())))?;
        session.journal().add(Undo::Unmount(new.join("proc")))?;
        let own = bootstrap(session, suite, &new, &mirror(session)?);
        let done = match own {
            Err(error) if !is_stopped(&error) => {
                session.say(&format!("that mirror does not have it: trying {ARCHIVE}"));
                Lasting::Directory(new.clone()).remove()?;
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
    proxied(session, program)?.outside().limit(AN_HOUR).run().map(drop)
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
            session.bind(Path::new(folder), &system.join(&folder[1..]))?;
        }
        let inside = |program: &str, words: &[&str]| {
            let program = session.command(program).args(words).root(Some(system)).outside().limit(AN_HOUR);
            proxied(session, program.env("DEBIAN_FRONTEND", "noninteractive"))?.run()
        };
        // An earlier run may have been stopped between unpacking and configuring.
        inside("dpkg", &["--configure", "-a"])?;
        update(session, system, &inside)?;
        let words = ["--quiet", "--yes", "install", "--no-install-recommends"];
        inside("apt-get", &[&words, packages].concat())?;
        inside("apt-get", &["clean"])?;
        Ok(())
    })
}

/// apt refuses the lists of a mirror that was not renewed for weeks, as somebody might keep known holes open with
/// them. Nothing of this system is reachable or kept, so they are taken, and the reader of the results is told.
fn update(
    session: &Session,
    system: &Path,
    inside: &dyn Fn(&str, &[&str]) -> Result<super::process::Output>,
) -> Result<()> {
    match inside("apt-get", &["--quiet", "update"]) {
        Err(error) if is_expired(&format!("{error:#}")) => {
            let suite = system.file_name().unwrap_or_default().display();
            session.say(&format!(
                "the mirror's lists of Debian {suite} are past their date: taking them all the same"
            ));
            session.note(format!(
                "The mirror's package lists of Debian {suite} were past their date when it was set up: its versions may \
                 be older than today's."
            ));
            inside("apt-get", &["--quiet", "-o", "Acquire::Check-Valid-Until=false", "update"]).map(drop)
        }
        other => other.map(drop),
    }
}

fn is_expired(said: &str) -> bool {
    said.contains("is expired") || said.contains("is not valid anymore")
}

/// Makes the system usable at `root`, an existing directory: with its own /proc, /sys and /dev, with `shared`
/// at the same path as here, and without a change in the cache. `layers` is an existing directory for what is
/// written.
pub fn enter(session: &Session, system: &Path, root: &Path, layers: &Path, shared: &Path) -> Result<()> {
    let (upper, work) = (layers.join("written"), layers.join("work"));
    fs::create_dir(&upper)?;
    fs::create_dir(&work)?;
    session.journal().add(Undo::Unmount(root.to_owned()))?;
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
    fn a_release_is_known_by_its_packages_version() {
        assert!(is_of("18.2.7+ds-1+deb13u1", "18.2") && is_of("11.1-6", "11.1") && is_of("2:20.2.4", "20.2"));
        assert!(!is_of("20.3.0", "20.2") && !is_of("18.20.1", "18.2") && !is_of("11.10-1", "11.1"));
    }

    #[test]
    fn lists_past_their_date_are_told_from_lists_that_cannot_be_had() {
        let late = "E: Release file for http://mirror/dists/sid/InRelease is expired (invalid since 19d).";
        assert!(is_expired(late));
        assert!(!is_expired("E: Could not connect to mirror:80 (127.0.0.1)"));
    }

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
