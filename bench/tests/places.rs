//! Results go where the program runs, not where it was built.

use std::path::Path;
use std::process::Command;

/// What one measurement in `place` says on stderr; `measurement` is its program and its words.
fn measured((program, words): (&str, &[&str]), place: &Path) -> String {
    let mut command = Command::new(program);
    let output = command.args(words).current_dir(place).env_remove("CARGO").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    said
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

const MEASUREMENTS: [(&str, &[&str]); 2] = [
    (
        env!("CARGO_BIN_EXE_vcm-bench"),
        &["run", "--quick", "--only", "true", "--allocators", "glibc", "--repeat", "1"],
    ),
    (
        env!("CARGO_BIN_EXE_vcm-memory"),
        &["wakeups", "--threads", "1", "--seconds", "0", "--settle", "0", "--allocators", "glibc"],
    ),
];

#[test]
fn results_go_into_the_repository_of_the_working_directory_and_say_so() {
    for measurement in MEASUREMENTS {
        let repository = tempfile::tempdir().unwrap();
        let bench = repository.path().join("bench");
        let below = repository.path().join("docs/guides");
        for folder in [&bench, &below] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(bench.join("Cargo.toml"), "[package]\nname = \"vcmalloc-bench\"\n").unwrap();
        let said = measured(measurement, &below);
        let runs = repository.path().join("results/runs");
        assert_eq!((files(&runs), files(&below)), (1, 0), "{said}");
        assert!(said.contains(&runs.display().to_string()), "{said}");
        let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
        for file in ["README.md", "summary.md", "raw.csv.zst"] {
            assert!(run.join(file).exists(), "{file} is not in {}", run.display());
        }
        assert!(!run.join("raw.csv").exists(), "packed");
    }
}

#[test]
fn outside_a_repository_results_go_into_the_working_directory() {
    for measurement in MEASUREMENTS {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("bench")).unwrap();
        std::fs::write(place.path().join("bench/Cargo.toml"), "[package]\nname = \"others\"\n").unwrap();
        measured(measurement, place.path());
        assert_eq!(files(&place.path().join("runs")), 1);
        assert_eq!(files(&place.path().join("bench")), 1, "another's benchmarks");
    }
}
