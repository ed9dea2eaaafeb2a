//! The text of a lab cluster's ceph.conf and keyring.
//!
//! Owns every setting that is not the experiment's. Promises that all addresses are loopback and all paths
//! lie below the run's directory, so that a cluster that lives on the machine is never touched. `cluster`
//! writes it.

use super::shape::{Shape, Store};
use std::fmt::Write;
use std::path::Path;

/// The part that does not depend on the shape.
pub struct Ground<'a> {
    pub directory: &'a Path,
    pub fsid: &'a str,
    /// The monitor's; the next is its second, the OSDs' follow.
    pub port: u16,
}

/// How many ports a cluster may use.
pub const PORTS: u16 = 300;

/// Their logs cost processor time in the daemon that is measured.
const QUIET: &str = "asok auth bluefs bluestore bdev buffer client context crush filer filestore finisher heartbeatmap \
    journal journaler kstore lockdep mds memdb mgr mgrc mon monc ms none objclass objectcacher objecter optracker osd \
    paxos perfcounter rados rbd reserver rgw rocksdb throttle timer tp";

pub fn monitor_host(port: u16) -> String {
    format!("[v2:127.0.0.1:{port},v1:127.0.0.1:{}]", port + 1)
}

/// The parts of an OSD that are not in its directory.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// Its journal, a file or a device.
    pub journal: Option<String>,
    /// Its data (BlueStore).
    pub block: Option<String>,
}

/// The whole file; `elsewhere` has an entry for each OSD.
pub fn text(ground: &Ground, shape: &Shape, elsewhere: &[Elsewhere]) -> String {
    let directory = ground.directory.display();
    let mut text = String::new();
    let mut section = |name: &str, lines: &[String]| {
        let _ = writeln!(text, "[{name}]");
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    };
    section("global", &global(ground, shape));
    section("client", &client(ground));
    section(
        "mon",
        &[
            format!("mon data = {directory}/mon"),
            "mgr initial modules =".into(),
            "mon mgr beacon grace = 300".into(),
        ],
    );
    section("mgr", &[format!("mgr data = {directory}/mgr")]);
    section("osd", &osd(ground, shape));
    for (number, osd) in elsewhere.iter().enumerate() {
        let mut lines = Vec::new();
        if let Some(path) = &osd.block {
            lines.push(format!("bluestore block path = {path}"));
        }
        if let Some(path) = &osd.journal {
            lines.push(format!("osd journal = {path}"));
            if shape.store == Store::Bluestore {
                lines.push(format!("bluestore block db path = {path}"));
                lines.push(format!("bluestore block db size = {}", shape.journal_mib << 20));
            }
        }
        if !lines.is_empty() {
            section(&format!("osd.{number}"), &lines);
        }
    }
    text
}

fn global(ground: &Ground, shape: &Shape) -> Vec<String> {
    let directory = ground.directory.display();
    let authentication = if shape.keys { "cephx" } else { "none" };
    let mut lines = vec![
        format!("fsid = {}", ground.fsid),
        format!("mon host = {}", monitor_host(ground.port)),
        "mon initial members = a".into(),
        "public addr = 127.0.0.1".into(),
        "cluster addr = 127.0.0.1".into(),
        "ms bind ipv6 = false".into(),
        format!("ms bind port min = {}", ground.port + 10),
        format!("ms bind port max = {}", ground.port + PORTS - 1),
        format!("auth cluster required = {authentication}"),
        format!("auth service required = {authentication}"),
        format!("auth client required = {authentication}"),
        format!("keyring = {directory}/keyring"),
        format!("run dir = {directory}/run"),
        format!("admin socket = {directory}/run/$name.asok"),
        format!("log file = {directory}/log/$name.log"),
        "pid file =".into(),
        format!("crash dir = {directory}/crash"),
        "setuser match path =".into(),
        format!("osd pool default size = {}", shape.copies),
        "osd pool default min size = 1".into(),
        "osd pool default pg autoscale mode = off".into(),
        "osd crush chooseleaf type = 0".into(),
        "mon allow pool size one = true".into(),
        "mon allow pool delete = true".into(),
        "mon warn on pool no redundancy = false".into(),
        "mon max pg per osd = 1000".into(),
        "mon pg warn min per osd = 0".into(),
        "mon data avail crit = 1".into(),
        "mon data avail warn = 2".into(),
        "mon clock drift allowed = 5".into(),
        // A metadata server that waits for a processor is not replaced.
        "mds beacon grace = 300".into(),
        // A single monitor need not collect changes for a second before it decides.
        "paxos propose interval = 0.05".into(),
        "paxos min wait = 0.02".into(),
        // KStore, and memstore in newer releases.
        "enable experimental unrecoverable data corrupting features = *".into(),
    ];
    if !shape.default_debug {
        lines.extend(QUIET.split_whitespace().map(|part| format!("debug {part} = 0/0")));
    }
    lines.extend(shape.global_settings.iter().cloned());
    lines
}

fn client(ground: &Ground) -> Vec<String> {
    vec![
        "admin socket =".into(),
        "log file =".into(),
        "rbd default features = 1".into(),
        // The client's cache would answer instead of the daemon that is measured.
        "rbd cache = false".into(),
        format!("keyring = {}/keyring", ground.directory.display()),
    ]
}

fn osd(ground: &Ground, shape: &Shape) -> Vec<String> {
    let directory = ground.directory.display();
    let bytes = shape.disk_gib << 30;
    let mut lines = vec![
        format!("osd data = {directory}/osd/$id"),
        format!("osd journal = {directory}/osd/$id/journal"),
        format!("osd journal size = {}", shape.journal_mib),
        format!("osd objectstore = {}", shape.store.name()),
        "osd max object name len = 256".into(),
        "osd max object namespace len = 64".into(),
        format!("bluestore block size = {bytes}"),
        "bluestore block create = true".into(),
        "bluestore fsck on mount = false".into(),
        format!("memstore device bytes = {bytes}"),
        "osd op complaint time = 120".into(),
        "osd scrub load threshold = 0".into(),
        "osd max scrubs = 0".into(),
        // Groups move once, while they are empty; one at a time with a pause after each takes a minute.
        "osd max backfills = 16".into(),
        "osd recovery sleep hdd = 0".into(),
        // `cluster` does both: an OSD of 14.2 that asks before it has the monitor's map is refused and ends.
        "osd crush update on start = false".into(),
        "osd class update on start = false".into(),
        "osd numa auto affinity = false".into(),
        "osd mclock skip benchmark = true".into(),
    ];
    if shape.store == Store::Filestore {
        lines.extend(["journal aio = true".into(), "journal dio = true".into()]);
    }
    lines.extend(shape.osd_settings.iter().cloned());
    lines
}

/// More than there are allocators.
const GATEWAYS: usize = 16;

/// One key for everybody: the cluster is thrown away.
pub fn keyring(key: &str, osds: usize) -> String {
    let mut text = format!("[mon.]\n\tkey = {key}\n\tcaps mon = \"allow *\"\n");
    let osds = (0..osds).map(|number| format!("osd.{number}"));
    let gateways = (0..GATEWAYS).map(|number| format!("client.rgw.{number}"));
    let servers = (0..GATEWAYS).map(|number| format!("mds.m{number}"));
    let daemons = gateways.chain(servers).chain(osds);
    for name in ["client.admin", "mgr.x"].map(str::to_owned).into_iter().chain(daemons) {
        let _ = writeln!(text, "[{name}]\n\tkey = {key}");
        for daemon in ["mon", "osd", "mgr", "mds"] {
            let _ = writeln!(text, "\tcaps {daemon} = \"allow *\"");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(shape: &Shape) -> String {
        let ground = Ground { directory: Path::new("/var/tmp/vcm-lab-ceph-x"), fsid: "1234", port: 17100 };
        let elsewhere = Elsewhere { journal: Some("/dev/shm/j0".into()), block: None };
        text(&ground, shape, &[elsewhere, Elsewhere { journal: None, block: Some("/dev/shm/b1".into()) }])
    }

    #[test]
    fn nothing_lies_outside_the_runs_directory_and_loopback() {
        let shape = Shape::of(Store::Memstore, 1);
        for line in written(&shape).lines().filter(|line| {
            line.contains('=') && !line.ends_with("/dev/shm/j0") && !line.ends_with("/dev/shm/b1")
        }) {
            let (name, value) = line.split_once('=').unwrap();
            if value.trim().starts_with('/') {
                assert!(value.contains("/var/tmp/vcm-lab-ceph-x/"), "{line}");
            }
            if name.contains("addr") || name.contains("host") {
                assert!(value.contains("127.0.0.1"), "{line}");
            }
        }
        // The settings of the places where Ceph would write by default.
        for name in [
            "admin socket",
            "log file",
            "pid file",
            "run dir",
            "mon data",
            "osd data",
            "keyring",
            "crash dir",
        ] {
            assert!(written(&shape).contains(&format!("{name} =")), "{name} is left to its default");
        }
    }

    #[test]
    fn a_bluestore_journal_is_its_database_device() {
        let text = written(&Shape::of(Store::Bluestore, 1));
        assert!(
            text.contains("[osd.0]\nosd journal = /dev/shm/j0\nbluestore block db path = /dev/shm/j0"),
            "{text}"
        );
        assert!(!written(&Shape::of(Store::Memstore, 1)).contains("block db path"));
    }

    #[test]
    fn an_osd_in_memory_has_its_data_there() {
        let text = written(&Shape::of(Store::Bluestore, 2));
        assert!(text.contains("[osd.1]\nbluestore block path = /dev/shm/b1\n"), "{text}");
    }

    #[test]
    fn every_daemon_has_a_key() {
        let text = keyring("AQ==", 2);
        for name in ["[mon.]", "[client.admin]", "[mgr.x]", "[osd.0]", "[osd.1]"] {
            assert!(text.contains(name), "{name}");
        }
    }
}
