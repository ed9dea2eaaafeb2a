//! Every pattern runs, on the C library that is there, and reports what it did.

use clap::ValueEnum;
use std::process::Command;
use vcmalloc_bench::load::Pattern;
use vcmalloc_bench::report::Report;

/// Runs the load program, as the harness does: each pattern in a process of its own.
fn load(pattern: Pattern, arguments: &[&str]) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vcm-load"));
    let output = command.arg(pattern.name()).args(arguments).env_remove("LD_PRELOAD").output().unwrap();
    assert!(output.status.success(), "{pattern:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vcm-load")).args(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?} was accepted");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_pattern_runs_for_a_moment_and_reports_work_and_memory() {
    for &pattern in Pattern::value_variants() {
        let report = match pattern {
            // It refuses to run without a tracer; see below.
            Pattern::Steps => continue,
            Pattern::Small => load(pattern, &[]),
            Pattern::Churn => load(pattern, &["--threads", "2", "--operations", "200"]),
            // By default it takes gigabytes, which a small machine does not have.
            Pattern::TimedBeside => {
                load(pattern, &["--threads", "2", "--seconds", "0.05", "--bytes", "67108864"])
            }
            single if single.fast_path_order().is_some() => load(pattern, &["--seconds", "0.05"]),
            _ => load(pattern, &["--threads", "2", "--seconds", "0.05"]),
        };
        assert_eq!(report.pattern, pattern.name());
        assert!(report.operations > 0, "{report:?}");
        assert!(report.peak_rss_kib > 512 && report.end_rss_kib > 512, "{report:?}");
        assert!(report.malloc_object.contains("libc.so"), "{report:?}");
    }
}

#[test]
fn a_fixed_number_of_operations_is_done_and_little_more() {
    for pattern in [Pattern::Larson, Pattern::Prodcons, Pattern::Storage, Pattern::Mixedlife] {
        let report = load(pattern, &["--threads", "4", "--operations", "20000"]);
        assert!((20_000..21_000).contains(&report.operations), "{pattern:?}: {}", report.operations);
    }
}

#[test]
fn more_threads_than_cpus_all_get_through_start_and_end() {
    let report = load(Pattern::Storage, &["--threads", "128", "--seconds", "0.05"]);
    assert!(report.operations > 0 && report.wall_seconds < 30.0, "{report:?}");
}

#[test]
fn bad_input_is_refused_with_a_way_out() {
    assert!(refusal(&["storage", "--threads", "3"]).contains("even number"));
    assert!(refusal(&["pair", "--threads", "2"]).contains("leave --threads out"));
    assert!(refusal(&["larson", "--threads", "0"]).contains("between 1 and"));
    assert!(refusal(&["pair", "--operations", "5"]).contains("--seconds"));
    assert!(refusal(&["larsen"]).contains("larson"));
    assert!(refusal(&["steps"]).contains("vcm-bench instructions"));
}
