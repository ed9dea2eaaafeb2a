//! `scripts/setup` and the targets that call it: each target has the packages that it uses and no others, and the remedy of a machine
//! that lacks some fits the user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;
use vcmalloc_tests::library::repository;

/// The groups that a target of the Makefile sets up, in its own or in another call.
fn groups_of(target: &str) -> Vec<String> {
    let mut make = Command::new("make");
    make.args(["--dry-run", "--no-print-directory", target]).current_dir(repository());
    let output = make.output().expect("make");
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let calls = said.lines().filter_map(|line| line.strip_prefix("scripts/setup "));
    calls.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn packages_of(target: &str) -> Vec<String> {
    let mut setup = Command::new(repository().join("scripts/setup"));
    let output = setup.arg("--list").args(groups_of(target)).output().expect("scripts/setup");
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect()
}

#[test]
fn each_target_of_packages_sets_up_what_it_uses_and_no_more() {
    let build = packages_of("libraries");
    for (target, used) in [
        ("deb", &["dpkg-dev", "git", "python3"] as &[&str]),
        ("deb-test", &["dpkg-dev", "git", "lintian", "mmdebstrap", "python3"]),
        ("rpm", &["cpio", "git", "rpm"]),
        ("linking-test", &["cmake", "meson", "pkg-config,pkgconf"]),
    ] {
        let of_target = packages_of(target);
        let more: Vec<&String> = of_target.iter().filter(|name| !build.contains(name)).collect();
        assert_eq!(more, used, "make {target}");
        assert!(build.iter().all(|name| of_target.contains(name)), "make {target}: {of_target:?}");
    }
}

#[test]
fn every_group_of_the_usage_has_packages() {
    let setup = repository().join("scripts/setup");
    let help = Command::new(&setup).arg("--help").output().expect("scripts/setup");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let groups = help.lines().find_map(|line| line.trim().strip_prefix("groups: ")).expect("groups");
    for group in groups.split(", ") {
        let listed = Command::new(&setup).args(["--list", group]).output().expect("scripts/setup");
        assert!(listed.status.success() && !listed.stdout.is_empty(), "{group}");
    }
}

/// The output of setup on a machine where nothing is installed and apt would upgrade a package.
fn objection(user: &str) -> String {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in [
        ("id", format!("echo {user}")),
        ("sudo", "exit 1".to_owned()),
        ("dpkg-query", "exit 1".to_owned()),
        ("cargo", "exit 0".to_owned()),
        ("rustc", "echo rustc 1.999.0".to_owned()),
        ("apt-cache", "echo '  Candidate: 1.0'".to_owned()),
        ("apt-get", "case \"$*\" in *simulate*) echo 'Inst perl [5.36.0-7] (5.36.0-9)' ;; esac".to_owned()),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    }
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut setup = Command::new(repository().join("scripts/setup"));
    setup.args(["build", "test"]).env("PATH", path).env("CARGO_TARGET_DIR", folder.path().join("target"));
    let output = setup.output().expect("scripts/setup");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("would upgrade packages"), "{said}");
    said
}

#[test]
fn the_remedy_of_a_user_is_by_sudo_and_that_of_root_is_not() {
    let (of_root, of_user) = (objection("0"), objection("1000"));
    assert!(of_user.contains("    sudo apt-get update\n    sudo apt-get install --no-install"), "{of_user}");
    assert!(of_root.contains("    apt-get update\n    apt-get install --no-install"), "{of_root}");
    assert!(!of_root.contains("sudo"), "{of_root}");
}
