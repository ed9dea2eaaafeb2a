//! The fast paths take as many instructions as were reviewed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that `make build` leaves, from a test in target/<profile>/deps.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().join("release/libvcmalloc.so")
}

#[test]
fn a_malloc_and_a_free_that_hit_the_cache_take_the_reviewed_number_of_instructions() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/fast-path-instructions.txt");
    let library = library();
    assert!(library.exists(), "{}: run `make build` first", library.display());
    let output = Command::new(env!("CARGO_BIN_EXE_vcm-bench"))
        .args(["instructions", "--library"])
        .arg(&library)
        .arg("--check")
        .arg(&golden)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}\nif the change is meant: vcm-bench instructions --renew {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        golden.display()
    );
}
