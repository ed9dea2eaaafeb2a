//! Two builds can be told apart: each says from which commit it was made, wherever it says its version.

use std::fs;
use std::process::Command;

use vcmalloc_tests::library::{hardened, our_shared, repository};

/// `0.1.0`, and the commit where these sources are a repository.
fn is_a_version(text: &str, kind: &str) -> bool {
    let Some(text) = text.strip_suffix(kind) else { return false };
    let mut parts = text.split('+');
    let number = parts.next() == Some(env!("CARGO_PKG_VERSION"));
    let commit = parts.next();
    let is_hash = |hash: &str| hash.len() == 10 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_repository = repository().join(".git").exists();
    number && commit.is_some_and(is_hash) == is_repository && matches!(parts.next(), None | Some("changes"))
}

#[test]
fn the_statistics_and_the_file_of_a_library_say_its_commit() {
    for (library, kind) in [(our_shared(), ""), (hardened(), " (hardened)")] {
        let library = library.unwrap_or_else(|error| panic!("{error}"));
        let mut program = Command::new("/bin/true");
        let output =
            program.env("LD_PRELOAD", &library).env("VCM_STATS_AT_EXIT", "1").output().expect("true");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = text.strip_prefix("vcmalloc ").and_then(|rest| rest.split(": heap of true").next());
        let told = told.unwrap_or_else(|| panic!("no version in {text}"));
        assert!(is_a_version(told, kind), "{told}");
        let file = fs::read(&library).expect("a library");
        let kept = format!("vcmalloc version {told}\0");
        assert!(file.windows(kept.len()).any(|part| part == kept.as_bytes()), "{kept}");
    }
}
