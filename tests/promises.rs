//! docs/reference/promises.md names a test for every promise: each of them must exist.

use std::fs;
use std::path::Path;

use vcmalloc_tests::library::repository;

const PAGE: &str = "docs/reference/promises.md";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust sources of a folder in one text.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&read(&path));
        }
    }
    text
}

fn exists(suite: &str, name: &str) -> bool {
    let tests = repository().join("tests");
    let function = |text: String| is_test(&text, name);
    let listed = |file: &str| read(&tests.join(file)).contains(&format!("\"{name}\""));
    match suite {
        "misuse" => {
            let crime = name.strip_suffix("_in_a_tenants_heap").unwrap_or(name);
            let of_tenants = read(&tests.join("misuse/tenants.rs")).contains(&format!("\"{crime}\""));
            listed("misuse/suite.rs") || listed("misuse.rs") || of_tenants
        }
        "robustness" => listed("robustness/suite.rs"),
        "serve" | "profile" => {
            function(read(&tests.join(format!("{suite}.rs")))) || function(sources(&tests.join(suite)))
        }
        "foreign" | "guards" | "last_words" | "orders" | "record_running" | "window" | "preemption"
        | "musl" | "rust_crate" | "archive" | "layers" | "symbols" => {
            function(read(&tests.join(format!("{suite}.rs"))))
        }
        "core" | "inspect" => function(sources(&repository().join("crates").join(suite).join("src"))),
        // Their cases are listed by `CASE(name)` in one program for each kind of behaviour.
        "sandboxed" => fs::read_dir(tests.join("sandboxed"))
            .expect("the probes have a folder")
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "c"))
            .any(|entry| read(&entry.path()).contains(&format!("CASE({name}),"))),
        "systemd" => listed("systemd.rs"),
        "system_calls" => read(&tests.join("system_calls.rs")).contains(&format!("\"{name}::")),
        "sshd" => read(&tests.join("sshd.rs")).contains(&format!("\"{name}::")),
        "conformance" => {
            ["c", "cc"].iter().any(|kind| tests.join(format!("conformance/{name}.{kind}")).exists())
        }
        // Its programs in C run on each ground, the rest are listed.
        "jemalloc" => tests.join(format!("jemalloc/{name}.c")).exists() || listed("jemalloc.rs"),
        "tikv" => function(read(&tests.join("tikv.rs"))),
        _ => false,
    }
}

/// Whether a text has a test function of this name: attributes and comments stand between `#[test]` and it.
fn is_test(text: &str, name: &str) -> bool {
    text.match_indices(&format!("fn {name}(")).any(|(at, _)| {
        let before = text[..at].lines().rev().map(str::trim);
        let is_between = |line: &&str| line.is_empty() || line.starts_with("#[") || line.starts_with("///");
        before.take_while(is_between).any(|line| line == "#[test]")
    })
}

/// The `suite::name` in a line.
fn named(line: &str) -> Vec<(&str, &str)> {
    line.split('`').filter_map(|word| word.split_once("::")).filter(|(_, name)| !name.contains(' ')).collect()
}

#[test]
fn every_promise_names_tests_that_exist() {
    let page = read(&repository().join(PAGE));
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| tests |"));
    let without: Vec<&str> = rows.clone().filter(|row| named(row).is_empty()).collect();
    assert!(rows.count() > 30 && without.is_empty(), "{PAGE}: no test stands behind\n{}", without.join("\n"));
    let missing: Vec<String> = page
        .lines()
        .flat_map(named)
        .filter(|(suite, name)| !exists(suite, name))
        .map(|(suite, name)| format!("{suite}::{name}"))
        .collect();
    assert!(missing.is_empty(), "{PAGE} names tests that do not exist: {}", missing.join(", "));
}

#[test]
fn a_name_that_is_no_test_is_found() {
    assert_eq!(named("| x | `misuse::y`, `core::z` | plain `word` |"), [("misuse", "y"), ("core", "z")]);
    assert!(!exists("misuse", "no_such_crime") && !exists("nowhere", "double_free_at_once"));
    assert!(is_test("#[test]\n/// Why.\nfn name() {", "name"));
    assert!(!is_test("fn name() {", "name") && !is_test("#[test]\nfn other() {}\n\nfn name() {", "name"));
}
