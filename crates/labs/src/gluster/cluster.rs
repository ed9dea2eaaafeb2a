//! One glusterd with its bricks, on a tmpfs of its own.
//!
//! Owns how they are started, spoken to and looked at. Promises that what Gluster drops into /run/gluster and /var/lib/glusterd is seen by nobody else and
//! goes with the daemons.

use super::helpers::Helpers;
use super::release;
use crate::engine::marked::daemons_of;
use crate::engine::process::{Output, Process, open_files_possible};
use crate::engine::session::Session;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vcm_inspect::daemon::Role;
use vcm_inspect::usage::Usage;
use vcm_measure::allocators::Ready;
use vcm_measure::stop::is_stopped;
use vcm_measure::tell::counted;

/// The command line tool refuses 127.0.0.1 and "localhost" for bricks, and takes this.
const HOST: &str = "127.1.1.1";
/// A brick holds so many descriptors, its 256 directories above all.
const DESCRIPTORS_A_BRICK: u64 = 270;
/// The length here of glusterd's waits of a second.
const SLEEP_MILLISECONDS: &str = "100";

/// How long a brick may take to come online before its volume is started once more.
const MEND_AFTER: Duration = Duration::from_secs(10);

/// The cluster to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    pub volumes: u64,
    pub bricks_each: u64,
    pub multiplex: bool,
    pub pools: bool,
}

pub struct Cluster {
    pub shape: Shape,
    directory: PathBuf,
    helpers: Helpers,
    daemon: Process,
    /// The other system that the daemons live in.
    root: Option<PathBuf>,
}

/// The record by which `run` finds the cluster again.
#[derive(Serialize, Deserialize)]
pub struct Kept {
    pub shape: Shape,
    pub directory: PathBuf,
    pub daemon: Process,
    pub root: Option<PathBuf>,
}

/// The work of the load and the time that it took.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Loaded {
    pub files: u64,
    pub create_seconds: f64,
    pub delete_seconds: f64,
    pub errors: u64,
}

impl Shape {
    /// Volumes of up to four bricks, all of the same number.
    pub fn of(bricks: u64) -> Shape {
        let bricks_each = (1..=4).rev().find(|each| bricks.is_multiple_of(*each)).unwrap_or(1);
        Shape { volumes: bricks / bricks_each, bricks_each, multiplex: true, pools: true }
    }

    pub fn bricks(&self) -> u64 {
        self.volumes * self.bricks_each
    }
}

impl Cluster {
    /// glusterd and all volumes, started, with every brick online.
    pub fn up(session: &Session, name: &str, shape: Shape, allocator: &str) -> Result<Cluster> {
        let system = release::provide(session)?;
        session.step("starting glusterd")?;
        let directory = session.directory().join(name);
        session.make_directory(&directory)?;
        // In memory: glusterd waits for the disk many times for each volume.
        session.mount_tmpfs(&directory, "size=80%,nr_inodes=0,mode=755")?;
        for folder in ["work", "run", "log", "log/bricks", "bricks"] {
            fs::create_dir(directory.join(folder))?;
        }
        let (root, helpers, allocator) = match system {
            None => {
                session.ensure_directory("/run/gluster".as_ref())?;
                (None, Helpers::compile(session)?, session.allocator(allocator)?)
            }
            Some(system) => {
                let root = release::enter(session, &system, &directory)?;
                let helpers = Helpers::compile_below(session, &root, &directory)?;
                let allocator = release::allocator(session, &root, &directory, allocator)?;
                (Some(root), helpers, allocator)
            }
        };
        fs::write(directory.join("glusterd.vol"), configuration(&directory))?;
        let place = Place { directory: &directory, root: root.as_deref(), helpers: &helpers };
        let daemon = start(session, &place, &shape, &allocator)?;
        let cluster = Cluster { shape, directory, helpers, daemon, root };
        cluster.wait_for_daemon(session)?;
        cluster.make_volumes(session)?;
        cluster.start(session, 1..=cluster.shape.volumes)?;
        cluster.check_allocator(session, &allocator)?;
        Ok(cluster)
    }

    /// The cluster that `up` left.
    pub fn again(session: &Session, kept: Kept) -> Result<Cluster> {
        kept.daemon.check()?;
        let helpers = match &kept.root {
            None => Helpers::compile(session)?,
            Some(root) => Helpers::compile_below(session, root, &kept.directory)?,
        };
        let Kept { shape, directory, daemon, root } = kept;
        Ok(Cluster { shape, directory, helpers, daemon, root })
    }

    pub fn kept(&self) -> Kept {
        Kept {
            shape: self.shape.clone(),
            directory: self.directory.clone(),
            daemon: self.daemon.clone(),
            root: self.root.clone(),
        }
    }

    /// The command by which an operator speaks to this glusterd.
    pub fn typed(&self, session: &Session) -> String {
        let socket = self.directory.join("glusterd.socket");
        let root = self.root.as_ref().map_or(String::new(), |root| format!("chroot {} ", root.display()));
        let enter = session.entering();
        format!("{enter}{root}gluster --glusterd-sock={} volume list", socket.display())
    }

    fn cli(&self, session: &Session, words: &[&str]) -> Result<Output> {
        self.try_cli(session, words).map_err(|error| match is_stopped(&error) {
            true => error,
            false => {
                let log = last_errors(&self.directory.join("log/glusterd.log"));
                error.context(format!("glusterd's log: {log}"))
            }
        })
    }

    fn try_cli(&self, session: &Session, words: &[&str]) -> Result<Output> {
        let log = self.directory.join("log/cli.log");
        let socket = self.directory.join("glusterd.socket");
        let program = session
            .command("gluster")
            .root(self.root.as_deref())
            .env("LD_PRELOAD", &self.helpers.glusterd_children)
            .arg("--mode=script")
            .arg(format!("--glusterd-sock={}", socket.display()))
            .arg(format!("--log-file={}", log.display()));
        program.args(words).limit(Duration::from_secs(300)).run()
    }

    fn wait_for_daemon(&self, session: &Session) -> Result<()> {
        session.wait_for("glusterd to answer", Duration::from_secs(60), || {
            self.daemon.check()?;
            // Without it the tool waits for seconds before it says so.
            if !self.directory.join("glusterd.socket").exists() {
                return Ok(None);
            }
            match self.try_cli(session, &["volume", "list"]) {
                Ok(_) => Ok(Some(())),
                Err(error) if is_stopped(&error) => Err(error),
                Err(_) => Ok(None),
            }
        })
    }

    fn make_volumes(&self, session: &Session) -> Result<()> {
        let multiplex = if self.shape.multiplex { "on" } else { "off" };
        self.cli(session, &["volume", "set", "all", "cluster.brick-multiplex", multiplex])?;
        if self.shape.multiplex {
            // 0: one process takes them all.
            self.cli(session, &["volume", "set", "all", "cluster.max-bricks-per-process", "0"])?;
        }
        session.step(&format!("creating {}", counted(self.shape.volumes, "volume")))?;
        for volume in 1..=self.shape.volumes {
            let name = format!("v{volume}");
            let mut words = vec!["volume".to_owned(), "create".to_owned(), name.clone()];
            for brick in 1..=self.shape.bricks_each {
                let place = self.directory.join(format!("bricks/{name}/b{brick}"));
                fs::create_dir_all(&place)?;
                words.push(format!("{HOST}:{}", place.display()));
            }
            words.push("force".to_owned());
            self.cli(session, &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Starts volumes and waits until all bricks of the started ones answer.
    pub fn start(&self, session: &Session, volumes: std::ops::RangeInclusive<u64>) -> Result<()> {
        let last = *volumes.end();
        for volume in volumes {
            if volume % 10 == 1 {
                session.step(&format!("starting volume {volume} of {last}"))?;
            }
            self.cli(session, &["volume", "start", &format!("v{volume}")])?;
        }
        self.wait_online(session, last)
    }

    /// On a busy machine glusterd gives up on a brick now and then; starting its volume once more mends that.
    fn wait_online(&self, session: &Session, volumes: u64) -> Result<()> {
        let wanted = (volumes * self.shape.bricks_each) as usize;
        let mut mended = Instant::now();
        session.wait_for(&format!("{wanted} bricks to be online"), Duration::from_secs(600), || {
            let status = self.cli(session, &["--xml", "volume", "status", "all"])?.stdout;
            if status.matches("<status>1</status>").count() >= wanted {
                return Ok(Some(()));
            }
            if mended.elapsed() > MEND_AFTER {
                for volume in offline(&status) {
                    // `start force` says success and leaves the brick as it is.
                    self.cli(session, &["volume", "stop", volume])?;
                    self.cli(session, &["volume", "start", volume])?;
                }
                mended = Instant::now();
            }
            session.sleep(Duration::from_millis(300))?;
            Ok(None)
        })
    }

    /// Stops volumes: their bricks are detached from the process that serves them.
    pub fn stop(&self, session: &Session, volumes: std::ops::RangeInclusive<u64>) -> Result<()> {
        session.step(&format!(
            "detaching {} bricks",
            (volumes.clone().count() as u64) * self.shape.bricks_each
        ))?;
        for volume in volumes {
            self.cli(session, &["volume", "stop", &format!("v{volume}")])?;
        }
        Ok(())
    }

    /// Files are created, written and deleted through libgfapi, over the first so many volumes.
    pub fn load(&self, session: &Session, volumes: u64, files: u64, bytes: u64) -> Result<Loaded> {
        session.step(&format!("load: {files} files over {}", counted(volumes, "volume")))?;
        let program = session.command(&self.helpers.load).root(self.root.as_deref()).arg(HOST);
        let program = program.args([volumes, files, bytes].map(|number| number.to_string()));
        let program = program.arg(self.directory.join("log/load.log"));
        let output = program.limit(Duration::from_secs(1200)).run()?;
        serde_json::from_str(&output.stdout).context("the load's result cannot be read")
    }

    /// The processes that serve bricks.
    pub fn bricks(&self) -> Vec<i32> {
        daemons_of(Role::Glusterfsd, self.daemon.pid())
    }

    pub fn usage(&self) -> Result<Usage> {
        let bricks = self.bricks();
        if bricks.is_empty() {
            bail!("no brick process is running; see {}", self.directory.join("log/bricks").display());
        }
        Usage::of_all(bricks)
    }

    /// A preload that did not take effect would measure the wrong thing.
    fn check_allocator(&self, session: &Session, allocator: &Ready) -> Result<()> {
        let Some(library) = &allocator.library else { return Ok(()) };
        session.check()?;
        // In another system's directory the kernel shows the file's own name, behind the directory's.
        let file = self.root.as_deref().map(|root| root.join(library.strip_prefix("/").unwrap_or(library)));
        let file = file.and_then(|file| Some(file.canonicalize().ok()?.file_name()?.to_owned()));
        for pid in self.bricks() {
            let maps = match &file {
                None => vcm_inspect::process::Process::new(pid).maps(library),
                Some(name) => {
                    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
                    text.lines().any(|line| line.ends_with(&format!("/{}", name.display())))
                }
            };
            if !maps {
                bail!("{} is not mapped in brick process {pid}", library.display());
            }
        }
        Ok(())
    }
}

/// The place where glusterd runs, and what it is given.
struct Place<'a> {
    directory: &'a Path,
    root: Option<&'a Path>,
    helpers: &'a Helpers,
}

fn start(session: &Session, place: &Place, shape: &Shape, allocator: &Ready) -> Result<Process> {
    let Place { directory, root, helpers } = *place;
    let wanted = DESCRIPTORS_A_BRICK * shape.bricks() + 1000;
    let mut preloads: Vec<String> = Vec::new();
    if shape.multiplex && open_files_possible(wanted) < wanted {
        session.note(format!(
            "This machine does not let a process open {wanted} files, so the 256 directories that a brick holds open \
             are virtual here (a preload in the bricks). It allocates nothing."
        ));
        preloads.push(helpers.virtual_directories.display().to_string());
    }
    if !shape.pools {
        preloads.push(helpers.pools_off.display().to_string());
    }
    let mut environment = Vec::new();
    for (name, value) in allocator.environment() {
        match name {
            "LD_PRELOAD" => preloads.push(value.display().to_string()),
            _ => environment.push(format!("{name}={}", value.display())),
        }
    }
    if !preloads.is_empty() {
        environment.push(format!("LD_PRELOAD={}", preloads.join(":")));
    }
    session
        .command("glusterd")
        .root(root)
        .arg("-N")
        .arg("-f")
        .arg(directory.join("glusterd.vol"))
        .arg("-p")
        .arg(directory.join("glusterd.pid"))
        .arg("-l")
        .arg(directory.join("log/glusterd.log"))
        .args(["-L", "WARNING"])
        .env("LD_PRELOAD", &helpers.glusterd_children)
        .env("LAB_BRICK_ENVIRONMENT", environment.join("\n"))
        .env("LAB_SLEEP_MILLISECONDS", SLEEP_MILLISECONDS)
        .own_mount("/run/gluster")
        // Whatever its working directory is, it makes directories there too (`ss_brick`, `geo-replication`).
        .own_mount("/var/lib/glusterd")
        .open_files(wanted.max(65536))
        .start(&format!("glusterd-{}", directory.file_name().unwrap_or_default().display()))
}

fn configuration(directory: &Path) -> String {
    let place = directory.display();
    format!(
        "volume management
    type mgmt/glusterd
    option working-directory {place}/work
    option run-directory {place}/run
    option logging-directory {place}/log
    option glusterd-sockfile {place}/glusterd.socket
    option transport-type socket
    option transport.address-family inet
    option transport.socket.bind-address {HOST}
    option transport.socket.listen-port 24007
    option transport.socket.keepalive-time 10
    option transport.socket.keepalive-interval 2
    option transport.socket.read-fail-log off
    option ping-timeout 0
    option event-threads 1
    option max-port 60999
end-volume
"
    )
}

/// The volumes of which a brick does not answer, from the tool's XML.
fn offline(status: &str) -> Vec<&str> {
    let volumes = status.split("<volName>").skip(1);
    volumes
        .filter(|volume| volume.contains("<status>0</status>"))
        .filter_map(|volume| volume.split('<').next())
        .collect()
}

fn last_errors(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let errors: Vec<&str> = text.lines().filter(|line| line.contains(" E ")).collect();
    errors[errors.len().saturating_sub(3)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_with_a_brick_that_does_not_answer_is_named() {
        let status = "<volume><volName>v1</volName><node><status>1</status></node></volume>\
                      <volume><volName>v2</volName><node><status>1</status></node><node><status>0</status></node>";
        assert_eq!(offline(status), ["v2"]);
    }

    #[test]
    fn bricks_are_divided_into_volumes_of_up_to_four() {
        assert_eq!((Shape::of(120).volumes, Shape::of(120).bricks_each), (30, 4));
        assert_eq!((Shape::of(6).volumes, Shape::of(6).bricks_each), (2, 3));
        assert!((1..=1000).all(|bricks| Shape::of(bricks).bricks() == bricks));
    }
}
