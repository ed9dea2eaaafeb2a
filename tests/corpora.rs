//! The corpora of the fuzz targets, replayed: what a fuzzer once found, or found worth keeping, stays right.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use vcmalloc_fuzz_targets::TARGETS;
use vcmalloc_tests::library::repository;

#[test]
fn every_input_of_every_corpus_passes() {
    for (name, run) in TARGETS {
        let folder = repository().join("fuzz/corpus").join(name);
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut replayed = 0;
        for file in files {
            let path = file.expect("an entry of a folder").path();
            let input = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            // Seen where the target fails: the harness shows what a failed test printed.
            println!("{}", path.display());
            run(&input);
            replayed += 1;
        }
        assert!(replayed > 0, "{} is empty", folder.display());
    }
}

#[test]
fn every_target_survives_no_input_and_a_long_one() {
    for (_, run) in TARGETS {
        run(&[]);
        run(&(0..4000u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<_>>());
    }
}

/// A cargo that builds nothing, for which the target `bitmaps` fails and the others do seven runs.
const CARGO: &str = r#"#!/bin/sh
case " $* " in
    *" run "*" bitmaps "*) exit 77 ;;
    *" run "*) echo "Done 7 runs in 1 second(s)" ;;
esac
"#;

fn fuzz(folder: &Path, settings: &[(&str, &str)], targets: &[&str]) -> (Option<i32>, String, String) {
    let cargo = folder.join("cargo");
    fs::write(&cargo, CARGO).expect("a file");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut command = Command::new(repository().join("scripts/fuzz"));
    command.args(targets).env("CARGO", &cargo).env("CARGO_TARGET_DIR", folder);
    let done = command.envs(settings.iter().copied()).output().expect("a shell");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn a_target_that_fails_is_named_the_others_run_and_the_script_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    for jobs in ["1", "3"] {
        let (code, said, _) =
            fuzz(folder.path(), &[("JOBS", jobs), ("PARSERS_EACH", "90")], &["bitmaps", "classes", "elf"]);
        assert_eq!(code, Some(1), "{said}");
        let log = folder.path().join("fuzz/bitmaps.log");
        for line in [
            &format!("bitmaps\t60\t\t0\tFAILED, see {}", log.display()),
            "classes\t60\t7\t0\tnone",
            "elf\t90\t7\t0\tnone",
        ] {
            assert!(said.lines().any(|said| said == line), "no line '{line}' in\n{said}");
        }
    }
}

#[test]
fn times_without_an_end_and_targets_that_are_not_there_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for setting in [("SECONDS_EACH", "0"), ("PARSERS_EACH", "1h"), ("JOBS", "0")] {
        let (code, _, said) = fuzz(folder.path(), &[setting], &["classes"]);
        assert!(code == Some(2) && said.contains("whole numbers from 1 on"), "{setting:?}: {said}");
    }
    let (code, _, said) = fuzz(folder.path(), &[], &["nosuch"]);
    assert!(code == Some(2) && said.contains("there is no target 'nosuch'"), "{said}");
}
