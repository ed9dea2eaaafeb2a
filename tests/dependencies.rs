//! Dependencies by the rules of deny.toml, as `cargo metadata` and the files of locked versions have them: licences, sources, and crates
//! in two versions. Advisories need cargo-deny and a database: `make deny`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::Value;
use vcmalloc_tests::library::{is_built, repository};

const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that a platform's build is made of, by name and version, with their licences. Members of the workspace are not among them.
fn crates_of(platform: &str) -> BTreeMap<(String, String), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", platform]);
    let output = command.current_dir(repository()).output().expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON of cargo metadata");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let resolved: BTreeSet<String> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| text(&node["id"])).collect();
    let packages = list(&metadata["packages"]);
    let foreign = packages.iter().filter(|package| !package["source"].is_null());
    let used = foreign.filter(|package| resolved.contains(&text(&package["id"])));
    used.map(|package| ((text(&package["name"]), text(&package["version"])), text(&package["license"])))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The strings of a list in deny.toml, a line each; of a table the one behind `crate`.
fn rule(name: &str) -> Vec<String> {
    let rules = fs::read_to_string(repository().join("deny.toml")).expect("deny.toml");
    list_in(&rules, name)
}

fn list_in(rules: &str, name: &str) -> Vec<String> {
    let head = format!("\n{name} = [\n");
    let (_, rest) = rules.split_once(&head).unwrap_or_else(|| panic!("deny.toml has no list {name}"));
    let lines = rest.lines().take_while(|line| *line != "]");
    lines.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

#[test]
fn every_licence_is_one_of_the_allowed_and_each_allowed_one_is_used() {
    if is_built() {
        return vcmalloc_tests::skip!("no cargo here");
    }
    let allowed = rule("allow");
    let mut used = BTreeSet::new();
    for platform in PLATFORMS {
        for ((name, version), licence) in crates_of(platform) {
            let names = chosen(&licence, &allowed);
            assert!(
                !names.is_empty(),
                "{name} {version} is under '{licence}', which deny.toml does not allow"
            );
            used.extend(names);
        }
    }
    let idle: Vec<&String> = allowed.iter().filter(|name| !used.contains(*name)).collect();
    assert!(idle.is_empty(), "no crate needs these licences of deny.toml: {idle:?}");
}

#[test]
fn no_crate_is_there_in_two_versions_but_those_with_a_reason() {
    if is_built() {
        return vcmalloc_tests::skip!("no cargo here");
    }
    let skipped = rule("skip");
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, version) in PLATFORMS.into_iter().flat_map(crates_of).map(|(of, _)| of) {
        versions.entry(name).or_default().insert(version);
    }
    let is_skipped = |name: &str, version: &str| {
        skipped.iter().any(|skip| {
            let of = skip.split_once('@').filter(|(crate_of, _)| *crate_of == name);
            of.is_some_and(|(_, of)| version == of || version.starts_with(&format!("{of}.")))
        })
    };
    for (name, versions) in &versions {
        let left: Vec<&String> = versions.iter().filter(|version| !is_skipped(name, version)).collect();
        assert!(left.len() <= 1, "{name} is there in {left:?}; `cargo tree -d` shows by which crates");
    }
    for skip in &skipped {
        let name = skip.split('@').next().unwrap_or_default();
        assert!(versions.get(name).is_some_and(|of| of.len() > 1), "deny.toml skips {skip} without need");
    }
}

#[test]
fn every_locked_crate_comes_from_crates_io() {
    let listed = Command::new("git")
        .args(["ls-files", "Cargo.lock", "**/Cargo.lock"])
        .current_dir(repository())
        .output();
    let listed =
        listed.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    let locks: Vec<&str> = if listed.is_empty() { vec!["Cargo.lock"] } else { listed.lines().collect() };
    for lock in locks {
        let locked =
            fs::read_to_string(repository().join(lock)).unwrap_or_else(|error| panic!("{lock}: {error}"));
        for source in locked.lines().filter_map(|line| line.strip_prefix("source = ")) {
            assert_eq!(source.trim_matches('"'), CRATES_IO, "{lock}");
        }
    }
}

#[test]
fn no_dependency_has_an_open_advisory() {
    let mut command = Command::new(repository().join("scripts/deny"));
    let output = command.arg("--if-possible").output().expect("scripts/deny");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => {}
        Some(3) => {
            let reason = said.lines().rev().find_map(|line| line.strip_prefix("deny: not checked: "));
            vcmalloc_tests::skip!("{}", reason.unwrap_or_default());
        }
        _ => panic!("{said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn a_licence_is_allowed_as_its_expression_says() {
    let allowed: Vec<String> = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned).to_vec();
    let of = |licence| chosen(licence, &allowed).into_iter().collect::<Vec<_>>().join(", ");
    assert_eq!(of("MIT"), "MIT");
    assert_eq!(of("GPL-3.0-only"), "");
    assert_eq!(of("MIT OR Apache-2.0"), "Apache-2.0, MIT");
    assert_eq!(of("GPL-2.0 OR Apache-2.0"), "Apache-2.0");
    assert_eq!(of("MIT/Apache-2.0"), "Apache-2.0, MIT");
    assert_eq!(of("(MIT OR Apache-2.0) AND Unicode-3.0"), "Apache-2.0, MIT, Unicode-3.0");
    assert_eq!(of("(MIT OR Apache-2.0) AND OpenSSL"), "");
    assert_eq!(of("Apache-2.0 WITH LLVM-exception OR MIT"), "MIT");
    assert_eq!(of(""), "");
}

#[test]
fn lists_of_rules_are_read_by_line() {
    let rules = "x = 1\nallow = [\n    \"A\",\n    \"B\", # why\n]\nskip = [\n    { crate = \"a@1\", reason = \"b\" },\n]\n";
    assert_eq!(list_in(rules, "allow"), ["A", "B"]);
    assert_eq!(list_in(rules, "skip"), ["a@1"]);
}

/// The allowed licences that an SPDX expression can be met by; none if it cannot. Older crates write `/` for OR.
fn chosen(expression: &str, allowed: &[String]) -> BTreeSet<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let met = any_of(&mut words, allowed);
    assert!(words.is_empty(), "no expression: {expression}");
    met
}

fn any_of(words: &mut Vec<&str>, allowed: &[String]) -> BTreeSet<String> {
    let mut met = all_of(words, allowed);
    while words.pop_if(|word| *word == "OR").is_some() {
        met.extend(all_of(words, allowed));
    }
    met
}

fn all_of(words: &mut Vec<&str>, allowed: &[String]) -> BTreeSet<String> {
    let mut parts = vec![one(words, allowed)];
    while words.pop_if(|word| *word == "AND").is_some() {
        parts.push(one(words, allowed));
    }
    if parts.iter().any(BTreeSet::is_empty) { BTreeSet::new() } else { parts.into_iter().flatten().collect() }
}

fn one(words: &mut Vec<&str>, allowed: &[String]) -> BTreeSet<String> {
    match words.pop() {
        Some("(") => {
            let met = any_of(words, allowed);
            words.pop();
            met
        }
        Some(name) => {
            let exception = words.pop_if(|word| *word == "WITH").and_then(|_| words.pop());
            let name = exception.map_or_else(|| name.to_owned(), |of| format!("{name} WITH {of}"));
            allowed.iter().filter(|one| **one == name).cloned().collect()
        }
        None => BTreeSet::new(),
    }
}
