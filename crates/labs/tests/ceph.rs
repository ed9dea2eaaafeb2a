//! The Ceph lab leaves nothing behind, wherever it is stopped. Needs root and Debian's ceph packages; without
//! them it says so and passes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs this test binary again as `vcm lab ceph up`, so that a fault ends that process and not the tests.
const CHILD: &str = "VCM_LABS_TEST_ACT";

fn can_run() -> bool {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    let programs = ["ceph-osd", "ceph-mon", "ceph", "rados", "perf"];
    let there = programs.iter().all(|name| Path::new("/usr/bin").join(name).exists());
    if !(root && there) {
        eprintln!("skipped: needs root, ceph-mon, ceph-osd, ceph-common and linux-perf");
    }
    root && there
}

fn request(action: &str, folder: &Path) -> vcm_labs::engine::request::Request {
    let settings: &[(&str, &str)] = match action {
        "up" => &[("osds", "1"), ("store", "memstore")],
        "down" => &[],
        _ => &[("seconds", "1")],
    };
    vcm_labs::engine::request::Request {
        action: action.to_owned(),
        allocators: if action == "up" { vec!["glibc".to_owned()] } else { Vec::new() },
        no_install: true,
        state: folder.join("state"),
        work: folder.join("work"),
        settings: settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        ..Default::default()
    }
}

/// As an operator points the lab at a cluster of his own.
const RUN_ON_IT: &str = "run-on-it";

/// In the directory in which it is typed.
const JOURNAL_TEST: &str = "journal-test";

fn conf(folder: &Path) -> PathBuf {
    let runs = std::fs::read_dir(folder.join("work")).into_iter().flatten().flatten();
    runs.map(|run| run.path().join("c0/ceph.conf"))
        .find(|path| path.is_file())
        .expect("a cluster's ceph.conf")
}

/// The objects in the pool, in all namespaces, but for what `up` itself wrote to see that it answers.
fn objects(folder: &Path) -> Vec<String> {
    let mut rados = Command::new("rados");
    rados.arg("-c").arg(conf(folder)).args(["--pool", "bench", "--all", "ls"]);
    let said = rados.output().expect("rados can be started");
    assert!(said.status.success());
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    text.lines().filter(|line| line.contains("vcm-lab")).map(str::to_owned).collect()
}

/// Does nothing unless `act_elsewhere` started it.
#[test]
fn child() {
    let Ok(said) = std::env::var(CHILD) else { return };
    let (action, folder) = said.split_once(' ').expect("an action and a folder");
    let lab = vcm_labs::LABS.iter().find(|lab| lab.name == "ceph").expect("the Ceph lab");
    let folder = Path::new(folder);
    let request = match action {
        RUN_ON_IT => {
            let mut request = request("run", folder);
            let here = [("conf", conf(folder).display().to_string()), ("pool", "bench".to_owned())];
            request.settings.extend(here.map(|(name, value)| (name.to_owned(), value)));
            request
        }
        JOURNAL_TEST => request(".", folder),
        action => request(action, folder),
    };
    let ending = match action {
        JOURNAL_TEST => vcm_labs::engine::run::act_tool(vcm_labs::TOOLS[0], request),
        _ => vcm_labs::engine::run::act(lab, request),
    };
    if let Err(error) = &ending {
        eprintln!("{error:#}");
    }
    std::process::exit(if ending.is_ok() { 0 } else { 1 });
}

fn act_elsewhere(action: &str, folder: &Path, fault: Option<&str>) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "child", "--nocapture"]).env(CHILD, format!("{action} {}", folder.display()));
    command.current_dir(folder);
    if let Some(fault) = fault {
        command.env(vcm_measure::stop::FAULT_VARIABLE, fault);
    }
    command.status().expect("this program can be started").success()
}

/// The folder of a lab's state and its clusters. A cluster that an assertion leaves up goes down with it.
struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Ground {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a directory");
        for name in ["state", "work"] {
            std::fs::create_dir(folder.path().join(name)).expect("a directory");
        }
        Ground { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if std::thread::panicking() && !act_elsewhere("down", self.path(), None) {
            eprintln!("what is left in {} could not be undone", self.path().display());
        }
    }
}

/// Files, mounts and processes that name the folder.
fn left(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let entries = |below: &str| std::fs::read_dir(folder.join(below)).into_iter().flatten().flatten();
    let files =
        ["state", "work"].into_iter().flat_map(entries).map(|entry| entry.path().display().to_string());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts: Vec<String> = mounts.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect();
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let processes = processes.filter(|path| *path != own).filter_map(|path| {
        let command = std::fs::read(path.join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        command.contains(&name).then_some(command)
    });
    files.chain(mounts).chain(processes).collect()
}

#[test]
fn a_cluster_that_comes_up_takes_load_and_goes_without_a_trace() {
    if !can_run() {
        return;
    }
    let ground = Ground::new();
    let folder = ground.path();
    assert!(act_elsewhere("up", folder, None));
    assert!(left(folder).iter().any(|one| one.contains("ceph-osd")), "it stays up");
    assert!(act_elsewhere("run", folder, None));
    assert!(act_elsewhere(RUN_ON_IT, folder, None));
    assert_eq!(objects(folder), [""; 0], "the pool is as it was");
    assert!(!act_elsewhere(RUN_ON_IT, folder, Some("signal:90")), "stopped under load");
    assert_eq!(objects(folder), [""; 0], "the pool is as it was after a stop");
    assert!(act_elsewhere("down", folder, None));
    assert_eq!(left(folder), [""; 0]);
}

#[test]
fn a_stop_on_the_way_up_leaves_nothing() {
    if !can_run() {
        return;
    }
    for fault in ["signal:4", "signal:12", "signal:30", "panic:20"] {
        let ground = Ground::new();
        let folder = ground.path();
        assert!(!act_elsewhere("up", folder, Some(fault)), "{fault} did not come to pass");
        assert_eq!(left(folder), [""; 0], "{fault}");
    }
}

#[test]
fn a_journal_test_of_this_directory_writes_nowhere_else() {
    if !Path::new("/usr/bin/fio").exists() {
        return eprintln!("skipped: needs fio");
    }
    let files = |place: &Path| -> Vec<PathBuf> {
        let mut files: Vec<_> = std::fs::read_dir(place).unwrap().flatten().map(|file| file.path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with("-journal-test"));
        files
    };
    let (ground, before) = (Ground::new(), files(Path::new("/")));
    assert!(act_elsewhere(JOURNAL_TEST, ground.path(), None));
    let stray: Vec<_> = files(Path::new("/")).into_iter().filter(|file| !before.contains(file)).collect();
    for file in &stray {
        let _ = std::fs::remove_file(file);
    }
    assert!(stray.is_empty(), "{stray:?}");
    assert!(files(ground.path()).is_empty(), "and nothing stays here");
}
