//! The tool that is put on hosts: small, and without what builds clusters.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use vcmalloc_tests::library::{repository, target_directory};

const MOST_BYTES: u64 = 7 << 20;
/// The labs' business.
const FOREIGN: [&str; 2] = ["apt-get", "debootstrap"];

/// The release of these sources, where `make build` has made one.
fn release() -> Option<PathBuf> {
    let tool = target_directory().join("release/vcm");
    let said = Command::new(&tool).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(repository()).output().ok()?;
    let commit = String::from_utf8_lossy(&commit.stdout).into_owned();
    commit.get(..10).is_some_and(|commit| said.contains(commit)).then_some(tool)
}

#[test]
fn the_released_tool_is_at_most_7_mib_and_has_nothing_of_apt_and_debootstrap() {
    let Some(tool) = release() else {
        return vcmalloc_tests::skip!("no release of this commit's vcm is built ('make build' makes it)");
    };
    let bytes = fs::read(&tool).expect("a tool");
    let is_small = bytes.len() as u64 <= MOST_BYTES;
    assert!(is_small, "{}: {} bytes, of {MOST_BYTES} at most", tool.display(), bytes.len());
    for word in FOREIGN {
        let holds = bytes.windows(word.len()).any(|part| part == word.as_bytes());
        assert!(!holds, "{} holds '{word}'", tool.display());
    }
}

#[test]
fn neither_the_tool_nor_the_labs_are_made_of_the_other() {
    for (crate_of, other) in [("vcm", "vcm-labs = "), ("labs", "vcm = "), ("front", "vcm-labs = ")] {
        let manifest = repository().join(format!("crates/{crate_of}/Cargo.toml"));
        let text =
            fs::read_to_string(&manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
        assert!(!text.contains(other), "{} has {other}", manifest.display());
    }
}

#[test]
fn no_source_of_the_tool_has_a_word_of_apt_and_debootstrap() {
    let crates = [
        "bounds", "foreign", "front", "inspect", "measure", "profile", "record", "replay", "report", "trace",
        "vcm",
    ];
    for folder in crates.map(|name| repository().join(format!("crates/{name}/src"))) {
        for word in FOREIGN {
            let found = Command::new("grep").args(["-rl", word]).arg(&folder).output().expect("grep");
            let files = String::from_utf8_lossy(&found.stdout).into_owned();
            assert!(files.is_empty(), "'{word}' stands in\n{files}");
        }
    }
}
