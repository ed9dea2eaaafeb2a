//! Bringing a cluster up.
//!
//! Promises that everything it starts or makes is in the run's journal first, and that the cluster takes operations
//! when `Cluster::up` comes back.

use super::configuration::{self, Elsewhere, Ground, PORTS};
use super::monitor::Client;
use super::osd::Osd;
use super::release::Release;
use super::shape::{JournalPlace, Shape, Store};
use super::{Cluster, pool};
use crate::engine::other_system::{self, Wanted};
use crate::engine::process::Process;
use crate::engine::session::Session;
use crate::engine::space;
use crate::engine::throttle;
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use vcm_inspect::ceph::socket::{LONG, Question, ask};
use vcm_measure::allocators::Ready;
use vcm_measure::stop::is_stopped;
use vcm_measure::tell::counted;

/// Below the ephemeral ports, away from Ceph's own 3300 and 6789 to 7300.
const PORT_RANGE: std::ops::Range<u16> = 17_000..31_000;
const IN_MEMORY: &str = "/dev/shm";
/// Metadata are small; a BlueStore of less has no room for its database beside them.
const STORE_IN_MEMORY_MIB: u64 = 1024;
/// So many of its last lines are shown where a cluster does not come up.
const MONITOR_LINES: usize = 6;

impl Cluster {
    /// Brings it up. The OSDs get `allocators` in turn, from the first again where there are more OSDs.
    pub fn up(session: &Session, shape: &Shape, allocators: &[&str]) -> Result<Cluster> {
        session.step(&format!(
            "a cluster: {} on {}",
            counted(shape.osds as u64, "OSD"),
            shape.store.name()
        ))?;
        space::check(session.directory(), shape.disk_mib(), "the cluster")?;
        let directory = make_directory(session)?;
        let up = Cluster::up_in(session, shape, allocators, &directory);
        up.map_err(|error| with_reason(error, &directory))
    }

    fn up_in(session: &Session, shape: &Shape, allocators: &[&str], directory: &Path) -> Result<Cluster> {
        let directory = directory.to_owned();
        let release = match shape.release {
            Some(release) => release,
            None => asked_for(session)?,
        };
        if !release.has(shape.store) {
            bail!("Ceph {} has no {}", release.number(), shape.store.name());
        }
        let root = enter_release(session, release, shape, &directory)?;
        let port = free_ports()?;
        let elsewhere = make_elsewhere(session, shape, &directory)?;
        let client = Client::of(&directory.join("ceph.conf"));
        let fsid = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
        let ground = Ground { directory: &directory, fsid: &fsid, port };
        let text = configuration::text(&ground, shape, &elsewhere);
        fs::write(&client.conf, text).with_context(|| format!("cannot write {}", client.conf.display()))?;
        let fresh_copies = AtomicUsize::new(shape.copies);
        let mut cluster = Cluster {
            shape: shape.clone(),
            release,
            directory,
            client,
            root,
            osds: Mutex::default(),
            fresh_copies,
            kept: false,
        };
        cluster.make_keys(session)?;
        cluster.client.monitor = Some(cluster.start_monitor(session, &fsid, port)?);
        cluster.make_osds(session)?;
        let wanted =
            (0..shape.osds).map(|number| cluster.allocator(session, allocators[number % allocators.len()]));
        let wanted = wanted.collect::<Result<Vec<Ready>>>()?;
        cluster.start_osds(session, wanted)?;
        pool::make_rules(session, &cluster)?;
        pool::make(session, &cluster, shape.copies)?;
        Ok(cluster)
    }

    fn make_keys(&self, session: &Session) -> Result<()> {
        let key = session.command("ceph-authtool").arg("--gen-print-key").run()?.stdout;
        let path = self.directory.join("keyring");
        fs::write(&path, configuration::keyring(key.trim(), self.shape.osds))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn start_monitor(&self, session: &Session, fsid: &str, port: u16) -> Result<Process> {
        let map = self.directory.join("monmap");
        let host = configuration::monitor_host(port);
        let tool = self.program(session, "monmaptool").args(["--create", "--clobber", "--fsid", fsid]);
        tool.args(["--addv", "a", &host]).arg(&map).run()?;
        let make = self.daemon(session, "ceph-mon").args(["--mkfs", "-i", "a", "--monmap"]).arg(&map);
        make.arg("--keyring").arg(self.directory.join("keyring")).run()?;
        let monitor = self.daemon(session, "ceph-mon").args(["-f", "-i", "a"]).start("mon.a")?;
        let socket = self.socket("mon.a");
        session.wait_for("the monitor", Duration::from_secs(60), || {
            monitor.check()?;
            let status = ask(&socket, Question::MonStatus, LONG);
            Ok(status.is_ok_and(|status| status["state"] == "leader").then_some(()))
        })?;
        Ok(monitor)
    }

    /// Registers the OSDs and lets each make its store.
    fn make_osds(&self, session: &Session) -> Result<()> {
        let mut lines = Vec::new();
        let mut uuids = Vec::new();
        for number in 0..self.shape.osds {
            let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
            fs::create_dir(self.directory.join(format!("osd/{number}")))?;
            lines.push(format!("osd new {uuid} {number}"));
            lines.push(format!("osd crush add osd.{number} 1 host=lab root=default"));
            uuids.push(uuid);
        }
        lines.push("osd set noscrub".into());
        lines.push("osd set nodeep-scrub".into());
        self.client.command(session, &lines)?;
        let make = self.program(session, "sh").args(["-c", &script_that_makes(&uuids)]);
        let made = make.env("LOGS", self.directory.join("log")).output()?;
        if !made.status.success() {
            let said = (0..self.shape.osds).map(|number| self.directory.join(format!("log/mkfs.{number}")));
            let said: String = said.filter_map(|path| fs::read_to_string(path).ok()).collect();
            let lines: Vec<&str> = said.lines().collect();
            let end = &lines[lines.len().saturating_sub(10)..];
            bail!("an OSD could not make its {} store: {}", self.shape.store.name(), end.join(" / "));
        }
        Ok(())
    }

    fn start_osds(&self, session: &Session, allocators: Vec<Ready>) -> Result<()> {
        for (number, allocator) in allocators.into_iter().enumerate() {
            let osd = self.start_osd(session, number, allocator)?;
            self.osds().push(osd);
        }
        self.wait_for_osds(session)
    }

    fn start_osd(&self, session: &Session, number: usize, allocator: Ready) -> Result<Osd> {
        let group = self.slow_disk_of(session, number)?;
        let program = self.daemon(session, "ceph-osd").args(["-f", "-i", &number.to_string()]);
        let process = program.allocator(&allocator).start(&format!("osd.{number}"))?;
        if let Some(group) = group {
            throttle::enter(&group, process.pid())?;
        }
        Ok(Osd { number, process, allocator, socket: self.socket(&format!("osd.{number}")) })
    }

    /// A control group for an OSD whose disk is to be slow. Its store was made before, quickly.
    fn slow_disk_of(&self, session: &Session, number: usize) -> Result<Option<PathBuf>> {
        let is_on_disk = number < self.shape.osds - self.shape.in_memory;
        let Some(operations) = self.shape.disk_operations.filter(|_| is_on_disk) else { return Ok(None) };
        let cluster = self.directory.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("vcm-{}-{cluster}-osd-{number}", session.journal().mark());
        throttle::group(session, &name, &self.directory, operations).map(Some)
    }

    fn wait_for_osds(&self, session: &Session) -> Result<()> {
        session.wait_for("the OSDs", Duration::from_secs(120), || {
            let osds = self.osds();
            osds.iter().try_for_each(|osd| osd.process.check())?;
            Ok(osds.iter().all(Osd::is_active).then_some(()))
        })?;
        self.osds().iter().try_for_each(|osd| osd.prove_allocator(self.root.as_deref()))
    }
}

/// Adds the reason for a wait in vain: a full disk, and the monitor's last words.
fn with_reason(error: anyhow::Error, directory: &Path) -> anyhow::Error {
    if is_stopped(&error) {
        return error;
    }
    let full = [directory, Path::new(IN_MEMORY)].into_iter().find_map(space::fullness);
    let said = fs::read_to_string(directory.join("log/mon.a.log")).unwrap_or_default();
    let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    let end = lines[lines.len().saturating_sub(MONITOR_LINES)..].join("\n    ");
    let end = (!end.is_empty()).then(|| format!("the end of the monitor's log:\n    {end}"));
    let reasons: Vec<String> = full.into_iter().chain(end).collect();
    if reasons.is_empty() { error } else { anyhow!("{error:#}\n{}", reasons.join("\n")) }
}

/// All OSDs' stores at the same time. The folder of their logs comes as a variable: the operator chose it.
fn script_that_makes(uuids: &[String]) -> String {
    let make = |(number, uuid): (usize, &String)| {
        format!(
            " ceph-osd -c \"$CEPH_CONF\" -i {number} --mkfs --osd-uuid {uuid} >\"$LOGS/mkfs.{number}\" 2>&1 & \
             pids=\"$pids $!\";"
        )
    };
    let all: String = uuids.iter().enumerate().map(make).collect();
    format!("failed=0; pids=;{all} for pid in $pids; do wait $pid || failed=1; done; exit $failed")
}

/// A run may bring up several clusters, one after the other.
fn make_directory(session: &Session) -> Result<PathBuf> {
    let names = (0..).map(|number| session.directory().join(format!("c{number}")));
    let directory = names.into_iter().find(|path| !path.exists()).context("no name is free")?;
    session.make_directory(&directory)?;
    for folder in ["log", "run", "mon", "mgr", "osd", "crash", "lib"] {
        fs::create_dir(directory.join(folder))?;
    }
    Ok(directory)
}

/// `--release`, or this machine's own.
fn asked_for(session: &Session) -> Result<Release> {
    let Some(number) = session.setting("release") else { return Ok(Release::own()) };
    Release::of(number).with_context(|| format!("no release {number}"))
}

/// Sets up the release's Debian and mounts it for this cluster, if it is another than the system's.
fn enter_release(
    session: &Session,
    release: Release,
    shape: &Shape,
    directory: &Path,
) -> Result<Option<PathBuf>> {
    if release == Release::own() {
        return Ok(None);
    }
    let packages: Vec<&str> = release.packages().into_iter().chain(shape.programs.iter().copied()).collect();
    let (number, suite) = (release.number(), release.suite());
    let wanted = Wanted { product: "Ceph", number, suite, daemon: "ceph-osd", packages: &packages };
    let system = wanted.provide(session)?;
    // Beside the cluster's directory, which is shown inside: it would show itself.
    let root = directory.with_extension("root");
    let layers = directory.with_extension("layers");
    session.make_directory(&root)?;
    session.make_directory(&layers)?;
    other_system::enter(session, &system, &root, &layers, directory)?;
    Ok(Some(root))
}

fn free_ports() -> Result<u16> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    // Another lab may look at the same moment: starting at different places keeps them apart.
    let ranges: Vec<u16> = PORT_RANGE.step_by(usize::from(PORTS)).collect();
    let begin = std::process::id() as usize % ranges.len();
    let found = (0..ranges.len()).map(|index| ranges[(begin + index) % ranges.len()]);
    let free = |port: &u16| (0..40).all(|offset| is_free(port + offset));
    found.into_iter().find(free).context("no range of ports is free on 127.0.0.1 between 17000 and 31000")
}

/// The OSDs' journals where they are not beside the data, and stores in memory.
fn make_elsewhere(session: &Session, shape: &Shape, directory: &Path) -> Result<Vec<Elsewhere>> {
    let mark = session.journal().mark();
    let make = |number: usize| -> Result<Elsewhere> {
        let journal = match shape.journal {
            JournalPlace::Same => None,
            _ if shape.store == Store::Memstore => bail!("memstore has no journal"),
            place => {
                let folder = if place == JournalPlace::Loop { directory } else { Path::new(IN_MEMORY) };
                let file = folder.join(format!("vcm-{mark}-journal-{number}"));
                session.make_file(&file, shape.journal_mib << 20)?;
                let path = if place == JournalPlace::Loop { session.loop_device(&file)? } else { file };
                Some(path.display().to_string())
            }
        };
        let in_memory = number >= shape.osds - shape.in_memory;
        if in_memory && shape.store != Store::Bluestore {
            bail!("only BlueStore lies in memory as on a device");
        }
        let block = in_memory.then(|| Path::new(IN_MEMORY).join(format!("vcm-{mark}-store-{number}")));
        if let Some(file) = &block {
            session.make_file(file, STORE_IN_MEMORY_MIB << 20)?;
        }
        Ok(Elsewhere { journal, block: block.map(|file| file.display().to_string()) })
    };
    (0..shape.osds).map(make).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_does_not_come_up_shows_the_last_words_of_its_monitor() {
        let folder = tempfile::tempdir().unwrap();
        let error = || anyhow!("waited 60 s in vain for the monitor");
        assert_eq!(with_reason(error(), folder.path()).to_string(), error().to_string());
        fs::create_dir(folder.path().join("log")).unwrap();
        fs::write(folder.path().join("log/mon.a.log"), "first\n".repeat(9) + "no space: shutting down\n")
            .unwrap();
        let said = with_reason(error(), folder.path()).to_string();
        assert!(said.starts_with("waited 60 s") && said.ends_with("no space: shutting down"), "{said}");
        assert_eq!(said.matches("first").count(), MONITOR_LINES - 1);
    }

    #[test]
    fn stores_are_made_in_a_folder_of_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let (logs, fake) = (folder.path().join("a b; false"), folder.path().join("ceph-osd"));
        fs::create_dir(&logs).unwrap();
        // Written by another process: a child that another test forks meanwhile would hold our descriptor,
        // and what somebody writes cannot be started.
        let write = "printf '#!/bin/sh\\necho \"$@\"\\n[ $4 != 2 ]\\n' > \"$0\" && chmod 755 \"$0\"";
        let written = std::process::Command::new("sh").args(["-c", write]).arg(&fake).status().unwrap();
        assert!(written.success());
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let make = |osds: usize| {
            let script = script_that_makes(&vec!["u-u".to_owned(); osds]);
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &script]).env("PATH", &path).env("CEPH_CONF", "/c.conf").env("LOGS", &logs);
            shell.status().unwrap().success()
        };
        assert!(make(2), "both could");
        let said = fs::read_to_string(logs.join("mkfs.1")).unwrap();
        assert_eq!(said, "-c /c.conf -i 1 --mkfs --osd-uuid u-u\n");
        assert!(!make(3), "the third could not");
    }
}
