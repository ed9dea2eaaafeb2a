//! The corpora of the fuzz targets, replayed: what a fuzzer once found, or found worth keeping, stays right.

use std::fs;

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
