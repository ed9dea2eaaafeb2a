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

#[test]
fn a_pattern_without_a_cell_is_refused_with_the_plan_that_has_none() {
    let unplanned = refusal(BENCH, &["run", "--only", "timed-beside", "--allocators", "glibc"]);
    assert!(unplanned.contains("in no plan") && !unplanned.contains("quick"), "{unplanned}");
    let quick = refusal(BENCH, &["run", "--quick", "--only", "larson,timed-small", "--allocators", "glibc"]);
    assert!(quick.contains("quick plan has no `timed-small`"), "{quick}");
}

#[test]
fn a_property_that_sizes_do_not_grow_by_is_refused_with_those_that_there_are() {
    let said = refusal(BENCH, &["sizes", "--only", "heap,thread", "--allocators", "glibc"]);
    assert!(said.contains("'thread'") && said.contains("threads, heap, sizes, age"), "{said}");
}

#[test]
fn a_library_that_is_not_there_is_refused_and_not_left_out() {
    let measurements: [(&str, &[&str]); 5] = [
        (BENCH, &["run", "--only", "true", "--allocators", "glibc,vcmalloc", "--repeat", "1"]),
        (BENCH, &["demo", "--seconds", "1"]),
        (BENCH, &["instructions", "--allocators", "glibc"]),
        (MEMORY, &["idle", "--threads", "1", "--seconds", "0", "--allocators", "glibc,vcmalloc"]),
        (MEMORY, &["cost", "--pairs", "1", "--seconds", "0.1"]),
    ];
    for (program, words) in measurements {
        let said = refusal(program, &[words, &["--library", "/nonexistent/x.so"]].concat());
        assert!(said.contains("--library") && said.contains("No such file"), "{words:?}: {said}");
    }
    let folder = refusal(BENCH, &["demo", "--library", "/"]);
    assert!(folder.contains("it is a folder"), "{folder}");
}
