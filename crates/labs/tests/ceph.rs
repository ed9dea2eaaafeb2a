//! The Ceph lab leaves nothing behind, wherever it is stopped. Needs root and Debian's ceph packages; without
//! them it says so and passes.

use std::path::{Path, PathBuf};
use std::process::Command;

fn can_run() -> bool {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    let programs = ["ceph-osd", "ceph-mon", "ceph", "rados", "perf"];
    let there = programs.iter().all(|name| Path::new("/usr/bin").join(name).exists());
    if !(root && there) {
        vcmalloc_tests::skip!("needs root, ceph-mon, ceph-osd, ceph-common and linux-perf");
    }
    root && there
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
    let mut rados = inside(folder, "rados");
    rados.arg("-c").arg(conf(folder)).args(["--pool", "bench", "--all", "ls"]);
    let said = rados.output().expect("rados can be started");
    assert!(said.status.success());
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    text.lines().filter(|line| line.contains("vcm-lab")).map(str::to_owned).collect()
}

/// The first process of the cluster's namespaces.
fn holder(folder: &Path) -> String {
    let journals = std::fs::read_dir(folder.join("state")).expect("the state").flatten();
    let mut texts = journals.filter_map(|file| std::fs::read(file.path()).ok());
    let found = texts.find_map(|text| {
        let journal: serde_json::Value = serde_json::from_slice(&text).ok()?;
        journal["holder"]["pid"].as_i64()
    });
    found.expect("a cluster that is up").to_string()
}

/// A command that sees what the cluster sees.
fn inside(folder: &Path, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", &holder(folder), "-a", program]);
    command
}

fn act_elsewhere(action: &str, folder: &Path, fault: Option<&str>) -> bool {
    let program = env!("CARGO_BIN_EXE_vcm-lab");
    let mut command = if action == RUN_ON_IT { inside(folder, program) } else { Command::new(program) };
    match action {
        "up" => command.args(["ceph", "up", "--osds", "1", "--store", "memstore", "--allocators", "glibc"]),
        RUN_ON_IT => {
            command.args(["ceph", "run", "--seconds", "1", "--pool", "bench", "--conf"]).arg(conf(folder))
        }
        "run" => command.args(["ceph", "run", "--seconds", "1"]),
        JOURNAL_TEST => command.args(["journal-test", ".", "--seconds", "1"]),
        action => command.args(["ceph", action]),
    };
    command
        .arg("--no-install")
        .arg("--state")
        .arg(folder.join("state"))
        .arg("--work")
        .arg(folder.join("work"));
    command.current_dir(folder);
    if let Some(fault) = fault {
        command.env(vcm_measure::stop::FAULT_VARIABLE, fault);
    }
    command.status().expect("vcm-lab can be started").success()
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
        return vcmalloc_tests::skip!("needs fio");
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
