//! `vcm lab` as it is typed. No daemon is started here: that is `make labs-test`.

use std::process::{Command, Output};

fn lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vcm")).arg("lab").args(words).output().unwrap()
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
fn a_place_or_a_library_that_is_not_there_is_refused_before_anything_is_installed_or_made() {
    let ground = tempfile::tempdir().unwrap();
    let file = ground.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (state, file) = (ground.path().join("state"), file.to_str().unwrap());
    let refusals: [(&[&str], &str); 8] = [
        (&["journal-test", "/nonexistent"], "/nonexistent is not there"),
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
fn down_where_nothing_is_up_is_no_failure() {
    let state = tempfile::tempdir().unwrap();
    let output = lab(&["gluster", "down", "--state", state.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nothing of the gluster lab is there"));
}
