//! `vcm lab` becomes vcm-lab, beside it or in PATH, and says how to get it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program that says its place and its words, and ends with 7.
fn fake(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let program = folder.join("vcm-lab");
    fs::write(&program, "#!/bin/sh\necho \"$0:\" \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_labs_are_found_beside_vcm_then_in_path_and_are_named_where_they_are_not_installed() {
    let ground = tempfile::tempdir().unwrap();
    let (own, other) = (ground.path().join("own"), ground.path().join("other"));
    fs::create_dir(&own).unwrap();
    let vcm = own.join("vcm");
    fs::copy(env!("CARGO_BIN_EXE_vcm"), &vcm).unwrap();
    let lab = |words: &[&str]| -> Output {
        let path = format!("{}:/usr/bin:/bin", other.display());
        Command::new(&vcm).arg("lab").args(words).env("PATH", path).output().unwrap()
    };
    let missing = lab(&["gluster", "detach"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("vcmalloc-lab"), "{}", text(&missing.stderr));
    for words in [&["--help"][..], &["-h"], &[]] {
        let help = lab(words);
        let said = text(&help.stdout);
        assert_eq!(
            help.status.code(),
            Some(if words.is_empty() { 2 } else { 0 }),
            "{said}{}",
            text(&help.stderr)
        );
        let said = said + &text(&help.stderr);
        assert!(
            ["Ceph", "Gluster", "vcmalloc-lab", "make lab"].iter().all(|word| said.contains(word)),
            "{said}"
        );
    }
    for folder in [&other, &own] {
        fake(folder);
        for words in
            [&["gluster", "detach", "--quick", "--out", "a b"][..], &["--help"], &["list", "-h"], &[]]
        {
            let said = lab(words);
            let expected = format!("{}/vcm-lab: {}", folder.display(), words.join(" "));
            assert_eq!((said.status.code(), text(&said.stdout).trim_end()), (Some(7), expected.trim_end()));
        }
    }
}
