//! The crate `vcmalloc` in programs in Rust: what it gets blocks for, with and without `override`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use vcmalloc_tests::{library, machine, run};

/// How the example itself is compiled; what it is linked with always is as for debugging.
#[derive(Clone, Copy, Debug)]
enum As {
    Written,
    /// The optimiser makes other calls of it than its source does.
    Optimised,
    /// With all that it is linked with, in one piece.
    OptimisedAtLinkTime,
}

/// Builds an example of the crate as cargo builds a program's, in a folder of its own: the features are not those of the libraries.
/// `target`: none for this machine's own.
fn example(name: &str, features: &str, target: Option<&str>) -> PathBuf {
    built(name, features, target, As::Written)
}

fn built(name: &str, features: &str, target: Option<&str>, how: As) -> PathBuf {
    let folder = library::repository().join("target/rust-crate");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(library::repository()).args(["rustc", "--quiet", "-p", "vcmalloc", "--example", name]);
    if let As::OptimisedAtLinkTime = how {
        cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "3").env("CARGO_PROFILE_DEV_LTO", "fat");
    } else {
        // Quickest to build; the tests of speed are elsewhere.
        cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    }
    cargo.args(["--features", features, "--target-dir"]).arg(&folder);
    // The C++ that it compiles needs no C library: there is no compiler of its own for musl.
    cargo.env("CXX_x86_64_unknown_linux_musl", "c++").env("CC_x86_64_unknown_linux_musl", "cc");
    if let Some(target) = target {
        cargo.args(["--target", target]);
    }
    if let As::Optimised = how {
        cargo.args(["--", "-C", "opt-level=3"]);
    }
    let built = cargo.output().expect("cargo");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    folder.join(target.unwrap_or("")).join("debug/examples").join(name)
}

/// The output of an example.
fn output_of(program: &PathBuf) -> String {
    let finished = run(&mut Command::new(program), Duration::from_secs(60)).expect("it runs");
    finished.succeeded().unwrap_or_else(|error| panic!("{error}"));
    finished.text()
}

#[test]
fn with_override_rust_c_and_cpp_are_on_the_one_heap() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    let text = output_of(&example("halves", "override,stats", None));
    assert!(text.starts_with("rust true c true c++ true\n"), "{text}");
    let text = output_of(&example("halves", "override,stats,hardened", None));
    assert!(text.starts_with("rust true c true c++ true\n"), "{text}");
}

#[test]
fn without_override_rust_alone_is_on_it() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    let program = example("rules", "stats,profile", None);
    let text = output_of(&program);
    assert!(text.starts_with("rust true c false\n"), "{text}");
    let tool = library::tool().unwrap_or_else(|error| panic!("{error}"));
    let asked = Command::new(tool).args(["check", "--"]).arg(program).output().expect("vcm");
    let told = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.code() == Some(1) && told.contains("the Rust code of"), "{told}");
}

/// The README's programs, and with them what docs.rs shows: each is compiled and run.
#[test]
fn the_programs_of_the_crates_readme_run_and_nothing_public_is_without_words() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(library::repository()).env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        cargo.env("CARGO_PROFILE_TEST_OPT_LEVEL", "0").args(arguments).args([
            "-p",
            "vcmalloc",
            "--features",
            "stats,profile",
        ]);
        cargo.arg("--target-dir").arg(library::repository().join("target/rust-crate"));
        let done = cargo.env("RUSTDOCFLAGS", "-D warnings -D missing_docs").output().expect("cargo");
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        said.into_owned()
    };
    let said = cargo(&["test", "--doc"]);
    assert!(said.contains("test result: ok. 4 passed"), "{said}");
    cargo(&["doc", "--no-deps"]);
}

#[test]
fn rusts_collections_of_every_alignment_run_on_every_form_of_the_crate() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    // Features that other tests here build with, too.
    for (features, how) in [
        ("override,stats,hardened", As::Written),
        ("override,stats,hardened", As::Optimised),
        ("stats,profile", As::Optimised),
    ] {
        let text = output_of(&built("collections", features, None, how));
        assert_eq!(text, "all collections are kept\n", "{features} {how:?}");
    }
}

/// The crate is inlined into the program here, and no value of a thread may be kept while a fiber changes threads.
#[test]
fn fibers_that_change_threads_keep_their_blocks_in_a_program_that_was_optimised_at_link_time() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    for how in [As::Written, As::OptimisedAtLinkTime] {
        let text = output_of(&built("fibers", "stats,profile", None, how));
        assert_eq!(text, "all blocks are kept\n", "{how:?}");
    }
}

/// The compiler crashes in some programs into which it was: `packaging/linking/rust` compiles such ones.
#[test]
fn the_function_that_allocates_is_not_inlined_into_programs() {
    let source = library::repository().join("crates/exports/src/rust.rs");
    let text = std::fs::read_to_string(source).expect("it can be read");
    assert!(text.contains("#[inline(never)]\n    unsafe fn alloc(&self"));
}

#[test]
fn the_hardened_crate_stops_what_unsafe_code_does_wrong() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    const WRONG_SIZE: &str = "free with the wrong size or alignment";
    const CRIMES: [(&str, &str); 7] = [
        ("freed_twice", "double free"),
        ("freed_as_aligned", WRONG_SIZE),
        ("freed_as_less_aligned", WRONG_SIZE),
        ("written_past_the_end", "write behind the end of a block"),
        ("written_before_the_start", "write before the start of a block"),
        ("written_after_the_free", "write to a freed block"),
        ("freed_inside", "free of an interior pointer"),
    ];
    for how in [As::Written, As::Optimised] {
        let program = built("crimes", "override,stats,hardened", None, how);
        for (crime, line) in CRIMES {
            let finished = run(Command::new(&program).arg(crime), Duration::from_secs(60)).expect("it runs");
            let said = &finished.complaints;
            assert!(said.contains(&format!("vcmalloc: {line}")), "{crime}, {how:?}: {said}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_static_program_of_musl_is_on_it_with_virtual_cpus() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    const MUSL: &str = "x86_64-unknown-linux-musl";
    let asked = Command::new("rustc").args(["--target", MUSL, "--print", "target-libdir"]).output();
    let folder = asked.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    if !folder.is_some_and(|folder| std::path::Path::new(folder.trim()).is_dir()) {
        return vcmalloc_tests::skip!(
            "Rust's library for {MUSL} is not installed (rustup target add {MUSL})"
        );
    }
    let text = output_of(&example("halves", "override,stats", Some(MUSL)));
    assert!(text.starts_with("rust true c true c++ true\n"), "{text}");
    assert!(text.contains("registered by vcmalloc") || !text.contains("front: vcpu"), "{text}");
}
