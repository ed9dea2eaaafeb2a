//! `vcm run`: which library is preloaded, and with which options.

mod support;

use std::path::Path;
use support::{Place, done, install, text, vcm};
use vcmalloc_core::options::SPECS;

#[test]
fn options_become_variables() {
    let place = Place::new();
    for spec in &SPECS {
        let variable = format!("VCM_{}", spec.name.to_ascii_uppercase());
        let setting = format!("{}={}", spec.name, spec.default);
        let flag = format!("--{}", spec.name.replace('_', "-"));
        for arguments in [["--option", &setting], [&flag, spec.default]] {
            let result = done(place.run(&arguments).args(["--", "printenv", &variable]));
            assert_eq!(result.out, format!("{}\n", spec.default), "{arguments:?}: {}", result.err);
        }
    }
}

#[test]
fn wrong_options_are_refused_in_the_librarys_words_before_the_start() {
    let place = Place::new();
    let wrong = [
        "--option",
        "cache_limt=1M",
        "--cache-limit",
        "lots",
        "--option",
        "nothing",
        "--",
        "echo",
        "started",
    ];
    let result = done(&mut place.run(&wrong));
    assert_eq!((result.code, result.out.as_str()), (Some(125), ""));
    for words in [
        "vcmalloc: cache_limt: no option of this name; did you mean cache_limit?",
        "vcmalloc: cache_limit: 'lots' cannot be read; expected bytes",
        "vcm: --option nothing: give NAME=VALUE",
        "vcm: nothing was started",
    ] {
        assert!(result.err.contains(words), "{words}\n{}", result.err);
    }
    assert!(!result.err.contains("the value it had"), "{}", result.err);
}

#[test]
fn the_hardened_library_lies_beside_the_other() {
    let place = Place::new();
    let hardened = place.path("libvcmalloc-hardened.so");
    std::fs::copy(&place.stub, &hardened).unwrap();
    let run = |flags: &[&str]| {
        let mut command = vcm(&[&["run"], flags, &["--", "printenv", "LD_PRELOAD"]].concat());
        done(command.env("VCM_LIBRARY", &place.stub))
    };
    assert_eq!(run(&[]).out.trim(), text(&place.stub));
    let result = run(&["--hardened"]);
    assert_eq!(result.out.trim(), text(&hardened), "{}", result.err);
    let result = run(&["--hardened", "--library", text(&place.stub)]);
    assert!(result.code != Some(0) && result.err.contains("cannot be used with"), "{}", result.err);
}

#[test]
fn a_library_that_is_not_fit_is_refused() {
    let place = Place::new();
    std::fs::write(place.path("text.so"), "no library").unwrap();
    std::fs::copy(&place.stub, place.path("a b.so")).unwrap();
    let empty = place.program("empty.so", "int nothing;", &["-shared", "-fPIC"]);
    let other =
        place.program("other.so", "void *malloc(unsigned long n) { return 0; }", &["-shared", "-fPIC"]);
    let cases = [
        (place.path("absent.so"), "No such file"),
        (place.path("text.so"), "not a shared library"),
        (place.path("a b.so"), "blank or a colon"),
        (place.folder.path().to_path_buf(), "it is a folder; give the file in it, libvcmalloc.so"),
        (empty, "exports no malloc"),
        (other, "is not vcmalloc"),
    ];
    for (path, words) in cases {
        let result = done(&mut vcm(&["run", "--library", text(&path), "--", "true"]));
        assert_eq!(result.code, Some(125));
        assert!(result.err.contains(words), "{words}\n{}", result.err);
    }
}

#[test]
fn the_library_is_found_by_variable_and_beside_the_tool() {
    let place = Place::new();
    let by_variable = done(vcm(&["run", "-v", "--", "true"]).env("VCM_LIBRARY", &place.stub));
    assert!(by_variable.err.contains("runs on vcmalloc 0.0-stub"), "{}", by_variable.err);
    let tool = place.path("vcm");
    install(Path::new(env!("CARGO_BIN_EXE_vcm")), &tool);
    let beside = done(std::process::Command::new(&tool).args(["run", "-v", "--", "true"]));
    assert!(beside.err.contains("runs on vcmalloc 0.0-stub"), "{}", beside.err);
}

#[test]
fn the_library_of_the_package_is_taken_before_the_link_for_developers() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("bin")).unwrap();
    std::fs::create_dir_all(place.path("lib")).unwrap();
    let tool = place.path("bin/vcm");
    install(Path::new(env!("CARGO_BIN_EXE_vcm")), &tool);
    let found = || {
        done(std::process::Command::new(&tool).args(["run", "-v", "--", "true"]).env_remove("VCM_LIBRARY"))
    };
    install(&place.stub, &place.path("lib/libvcmalloc.so.0"));
    assert!(found().err.ends_with("/lib/libvcmalloc.so.0\n"), "{}", found().err);
    std::os::unix::fs::symlink("libvcmalloc.so.0", place.path("lib/libvcmalloc.so")).unwrap();
    assert!(found().err.ends_with("/lib/libvcmalloc.so.0\n"), "{}", found().err);
}

#[test]
fn a_library_that_is_nowhere_is_reported_with_the_places() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("x/bin")).unwrap();
    let tool = place.path("x/bin/vcm");
    install(Path::new(env!("CARGO_BIN_EXE_vcm")), &tool);
    if ["/usr/lib", "/usr/local/lib"].iter().any(|folder| has_library(folder)) {
        vcmalloc_tests::skip!("vcmalloc is installed here");
        return;
    }
    let result =
        done(std::process::Command::new(&tool).args(["run", "--", "true"]).env_remove("VCM_LIBRARY"));
    assert_eq!(result.code, Some(125));
    for words in ["x/bin/libvcmalloc.so", "x/lib/libvcmalloc.so", "/usr/lib/libvcmalloc.so", "--library PATH"]
    {
        assert!(result.err.contains(words), "{words}\n{}", result.err);
    }
}

fn has_library(folder: &str) -> bool {
    ["", "x86_64-linux-gnu/"]
        .iter()
        .flat_map(|part| ["", ".0"].map(|end| format!("{folder}/{part}libvcmalloc.so{end}")))
        .any(|path| std::fs::exists(path).unwrap_or(false))
}
