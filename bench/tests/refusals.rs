//! What cannot be meant is refused before anything is measured or written.

use std::process::Command;

const BENCH: &str = env!("CARGO_BIN_EXE_vcm-bench");
const MEMORY: &str = env!("CARGO_BIN_EXE_vcm-memory");

/// What is said on stderr, by a program that writes nothing where it runs.
fn refusal(program: &str, words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    let output = command.args(words).current_dir(folder.path()).env_remove("CARGO").output().unwrap();
    assert!(!output.status.success(), "{words:?} was accepted");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{words:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_number_of_threads_that_cannot_be_is_refused_with_its_range() {
    let one_load = ["run", "--only", "larson", "--allocators", "glibc", "--seconds", "0.05", "--threads"];
    let cost = ["cost", "--pairs", "1", "--only", "larson", "--threads"];
    for (program, words) in [(BENCH, &one_load[..]), (BENCH, &["demo", "--threads"]), (MEMORY, &cost)] {
        for threads in ["0", "65537"] {
            let said = refusal(program, &[words, &[threads]].concat());
            assert!(said.contains(&format!("'{threads}'")) && said.contains("from 1 to 65536"), "{said}");
        }
    }
}
