//! `vcm-lab` as it is typed. No daemon is started here: that is `make labs-test`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vcm-lab")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_list_names_every_experiment_and_whose_report_it_reruns() {
    let list = text(&lab(&["list"]).stdout);
    for part in ["vcm lab gluster detach", "vcm lab gluster multiplex", "vcm lab gluster pools", "Jeff Darcy"]
    {
        assert!(list.contains(part), "{part} is missing in\n{list}");
    }
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
    let json: serde_json::Value = serde_json::from_slice(&lab(&["list", "--json"]).stdout).unwrap();
    assert!(json.as_array().unwrap().iter().any(|lab| lab["lab"] == "gluster"));
}

#[test]
fn a_name_that_does_not_exist_suggests_the_nearest_and_starts_nothing() {
    let state = tempfile::tempdir().unwrap();
    let state = state.path().join("state");
    let state_words = ["--state", state.to_str().unwrap()];
    let experiment = lab(&[&["gluster", "detatch"], &state_words[..]].concat());
    assert_eq!(experiment.status.code(), Some(2));
    assert!(text(&experiment.stderr).contains("did you mean 'detach'?"), "{}", text(&experiment.stderr));
    let words = ["gluster", "detach", "--allocators", "jemaloc"];
    let allocator = lab(&[&words[..], &state_words[..]].concat());
    assert!(!allocator.status.success());
    assert!(text(&allocator.stderr).contains("did you mean 'jemalloc'?"), "{}", text(&allocator.stderr));
    assert!(!state.exists());
}

#[test]
fn a_plan_names_cells_packages_permissions_time_and_what_is_missing_and_makes_nothing() {
    let ground = tempfile::tempdir().unwrap();
    let place = |name: &str| ground.path().join(name).display().to_string();
    let (state, work, cache) = (place("state"), place("work"), place("cache"));
    let places = ["--state", &state, "--work", &work, "--cache", &cache, "--plan"];
    let plan = |words: &[&str]| {
        let output = lab(&[words, &places].concat());
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
        assert_eq!(std::fs::read_dir(ground.path()).unwrap().count(), 0, "{words:?} made something");
        text(&output.stdout)
    };
    let detach = plan(&["gluster", "detach", "--allocators", "glibc,jemalloc", "--repeat", "2"]);
    for part in [
        "detach --quick: ",
        "time: 4 minutes on two CPUs",
        "glibc, bricks 24, repetition 2",
        "glusterfs-server",
        "permissions: root",
        "MiB free: the files of the run",
        "missing on this machine",
        "Nothing was run",
    ] {
        assert!(detach.contains(part), "{part} is missing in\n{detach}");
    }
    assert!(!detach.contains("Debian "), "{detach}");
    let many = plan(&["ceph", "many-threads", "--full"]);
    assert!(
        many.contains("Debian bullseye, about 1200 MiB") && many.contains("many-threads --full"),
        "{many}"
    );
    assert!(many.contains("Debian bullseye in ") && many.contains("10 minutes"), "{many}");

    let refused = |words: &[&str]| lab(&[words, &places].concat()).status.code();
    assert_eq!(refused(&["gluster", "up"]), Some(2));
    assert_eq!(refused(&["ceph", "thread-cache", "--release", "15.2"]), Some(2));
}

#[test]
fn a_place_or_a_library_that_is_not_there_is_refused_before_anything_is_installed_or_made() {
    let ground = tempfile::tempdir().unwrap();
    let file = ground.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (state, file) = (ground.path().join("state"), file.to_str().unwrap());
    let refusals: [(&[&str], &str); 8] = [
        (&["journal-test", "/nonexistent"], "/nonexistent does not exist"),
        (&["journal-test", file], "neither a directory nor a block device"),
        (&["ceph", "thread-cache", "--library", "/nonexistent"], "/nonexistent (--library)"),
        (&["ceph", "up", "--allocators", "glibc", "--library", "/nonexistent"], "/nonexistent (--library)"),
        (&["ceph", "run", "--conf", "/nonexistent", "--pool", "x"], "cannot read /nonexistent"),
        (&["ceph", "run", "--conf", "/", "--pool", "x"], "/ is not a file"),
        (&["ceph", "thread-cache", "--allocators", "glibc", "--work", file], "is not a directory"),
        (&["ceph", "up", "--allocators", "glibc", "--cache", file], "is not a directory"),
    ];
    for (words, message) in refusals {
        let output = lab(&[words, &["--no-install", "--state", state.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(text(&output.stderr).contains(message), "{words:?}: {}", text(&output.stderr));
        assert!(!state.exists(), "{words:?}");
    }
    let down = lab(&["ceph", "down", "--library", "/nonexistent", "--state", state.to_str().unwrap()]);
    assert!(down.status.success(), "{}", text(&down.stderr));
}

#[test]
fn what_cannot_be_meant_ends_with_2_and_starts_nothing() {
    let ground = tempfile::tempdir().unwrap();
    let state = ground.path().join("state");
    let code = |words: &[&str]| {
        lab(&[&["ceph"], words, &["--no-install", "--state", state.to_str().unwrap()]].concat()).status.code()
    };
    assert_eq!(code(&["thread-cash"]), Some(2));
    assert_eq!(code(&["thread-cache", "--allocators", "foo"]), Some(2));
    assert_eq!(code(&["up", "--osds", "0"]), Some(2));
    assert_eq!(code(&["run", "--pool", "x"]), Some(2));
    assert!(!state.exists());
    assert_eq!(code(&["run", "--seconds", "10"]), Some(1), "no cluster is up");
}

#[test]
fn down_where_nothing_is_up_is_no_failure() {
    let state = tempfile::tempdir().unwrap();
    let output = lab(&["gluster", "down", "--state", state.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nothing of the gluster lab is left"));
}

#[test]
fn a_lab_without_a_name_behind_it_lists_what_can_follow() {
    let output = lab(&["ceph"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    for part in ["give an experiment", "thread-cache ", "memory-target ", "up, run, down"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
}

#[test]
fn the_long_list_tells_a_report_that_several_rerun_once() {
    let list = text(&lab(&["list", "--long"]).stdout);
    assert_eq!(list.matches("brick multiplexing (2016): told before").count(), 2, "{list}");
    assert!(text(&lab(&["list"]).stdout).lines().count() < 60);
}

/// True if the library is built (`make build`); without it there is nothing to install.
fn is_built() -> bool {
    let is_built = Path::new(LIBRARY).exists();
    if !is_built {
        vcmalloc_tests::skip!("{LIBRARY} is not built");
    }
    is_built
}

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/libvcmalloc.so");

/// The folder that `make install` fills, with this build's vcm-lab.
fn installed(below: &Path) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut make = Command::new("make");
    let destination = format!("DESTDIR={}", below.display());
    make.args(["--silent", "-C", root, "install", "PREFIX=/opt/x", &destination]);
    // No test asks this vcm.
    make.env("VCM_TOOL", env!("CARGO_BIN_EXE_vcm-lab")).env("VCM_LAB_TOOL", env!("CARGO_BIN_EXE_vcm-lab"));
    let made = make.output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    below.join("opt/x")
}

#[test]
fn an_installed_vcm_lab_finds_the_stand_in_for_ceph_and_misses_it_before_anything_is_downloaded() {
    if !is_built() {
        return;
    }
    let ground = tempfile::tempdir().unwrap();
    let prefix = installed(ground.path());
    let place = |name: &str| ground.path().join(name).display().to_string();
    let run = |words: &[&str]| {
        let mut vcm = Command::new(prefix.join("bin/vcm-lab"));
        vcm.arg("ceph").args(words).args(["--no-install", "--state", &place("state")]);
        vcm.args(["--work", &place("work"), "--cache", &place("cache")]);
        // It stops where it would begin.
        vcm.env("VCM_LABS_FAULT", "signal:1").env_remove("VCM_LIBRARY").output().unwrap()
    };
    let needs: [&[&str]; 3] = [&["many-threads"], &["memory-target"], &["up", "--release", "18.2"]];
    for words in needs {
        let output = run(words);
        assert_eq!(output.status.code(), Some(130), "{words:?}: {}", text(&output.stderr));
    }
    std::fs::remove_file(prefix.join("lib/vcmalloc/libtcmalloc.so.4")).unwrap();
    for words in needs {
        let output = run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("lib/vcmalloc/libtcmalloc.so.4") && said.contains("make install"), "{said}");
        assert!(!ground.path().join("cache").exists());
    }
    assert_eq!(run(&["up", "--release", "16.2"]).status.code(), Some(130), "linked with no TCMalloc");
}

#[test]
fn the_results_name_what_the_library_says_of_itself() {
    if !is_built() {
        return;
    }
    let mut vcm = Command::new(env!("CARGO_BIN_EXE_vcm-lab"));
    let said = vcm.arg("library-version").env("LD_PRELOAD", LIBRARY).output().unwrap();
    assert!(said.status.success(), "{}", text(&said.stderr));
    assert!(text(&said.stdout).starts_with(env!("CARGO_PKG_VERSION")), "{}", text(&said.stdout));
}
