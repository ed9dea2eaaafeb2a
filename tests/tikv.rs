//! The crate `tikv-jemalloc-sys` of ours in programs that depend on another's: tikv-jemallocator, tikv-jemalloc-ctl and jemalloc_pprof
//! from the registry, with a line `[patch.crates-io]`.
//!
//! Nothing of theirs is kept in this repository: cargo fetches it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::Duration;

use object::{Object, ObjectSymbol};
use vcmalloc_tests::{library, machine, run};

/// Versions of the crates that depend on each other.
#[derive(Clone, Copy)]
struct Versions {
    ours: &'static str,
    sys: &'static str,
    jemallocator: &'static str,
    ctl: &'static str,
    pprof: &'static str,
}

const OLDER: Versions =
    Versions { ours: "tikv-jemalloc-sys", sys: "0.6.1", jemallocator: "0.6.1", ctl: "0.6.1", pprof: "0.8.2" };
const NEWER: Versions = Versions {
    ours: "tikv-jemalloc-sys-0.7",
    sys: "0.7.1",
    jemallocator: "0.7.0",
    ctl: "0.7.0",
    pprof: "0.9.0",
};

fn tests() -> PathBuf {
    library::repository().join("tests/tikv")
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    // Cargo builds what is newer.
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return;
    }
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(folder).args(arguments).env("HALF", tests().join("half.c"));
    // Quickest to build; the tests of speed are elsewhere.
    for profile in ["DEV", "TEST"] {
        cargo.env(format!("CARGO_PROFILE_{profile}_OPT_LEVEL"), "0");
        cargo.env(format!("CARGO_PROFILE_{profile}_DEBUG"), "line-tables-only");
    }
    for set_here in ["CARGO_TARGET_DIR", "RUSTFLAGS", "MALLOC_CONF", "_RJEM_MALLOC_CONF"] {
        cargo.env_remove(set_here);
    }
    cargo.output().expect("cargo")
}

fn said(output: &Output) -> String {
    (String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)).into_owned()
}

/// The folder of each crate of theirs, as cargo fetched it; none without a network.
fn fetched(versions: &Versions) -> Option<[PathBuf; 3]> {
    let folder = library::work_directory("tikv").join(versions.sys).join("fetch");
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n\
         tikv-jemalloc-sys = \"={}\"\ntikv-jemallocator = \"={}\"\ntikv-jemalloc-ctl = \"={}\"\njemalloc_pprof = \"={}\"\n",
        versions.sys, versions.jemallocator, versions.ctl, versions.pprof
    );
    write(&folder.join("Cargo.toml"), &manifest);
    write(&folder.join("src/lib.rs"), "");
    let told = cargo(&folder, &["metadata", "--format-version", "1"]);
    if !told.status.success() {
        return None;
    }
    let all: serde_json::Value = serde_json::from_slice(&told.stdout).expect("metadata");
    let place = |name: &str| {
        let packages = all["packages"].as_array().expect("packages");
        let package = packages.iter().find(|package| package["name"] == name).expect("it was fetched");
        let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a path"));
        manifest.parent().expect("a folder").to_path_buf()
    };
    Some(["tikv-jemallocator", "tikv-jemalloc-ctl", "tikv-jemalloc-sys"].map(place))
}

/// A copy without the lock file, which names the crate that ours takes the place of.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder of sources").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else if name != "Cargo.lock" {
            write(&to.join(name), &String::from_utf8_lossy(&fs::read(&path).expect("a file")));
        }
    }
}

/// The workspace of a user, made by the first test that needs it.
fn workspace(versions: &Versions) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock();
    make_workspace(versions)
}

/// Their crates, programs of ours, and the line that takes our crate.
fn make_workspace(versions: &Versions) -> Option<PathBuf> {
    let [jemallocator, ctl, sys] = fetched(versions)?;
    let folder = library::work_directory("tikv").join(versions.sys).join("user");
    copy(&jemallocator, &folder.join("jemallocator"));
    copy(&ctl, &folder.join("ctl"));
    // Its tests need it, and 0.7.0 as published does not say so.
    let manifest = folder.join("jemallocator/Cargo.toml");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    if !text.contains("dev-dependencies.tikv-jemalloc-ctl") {
        write(
            &manifest,
            &format!("{text}\n[dev-dependencies.tikv-jemalloc-ctl]\nversion = {:?}\n", versions.ctl),
        );
    }
    copy(&sys.join("tests"), &folder.join("sys/tests"));
    let ours = library::repository().join("crates/libraries").join(versions.ours);
    let manifest = format!(
        "[workspace]\nresolver = \"2\"\nmembers = [\"jemallocator\", \"ctl\", \"sys\", \"profile\", \"copies\", \"plugin\"]\n\
         [patch.crates-io]\ntikv-jemalloc-sys = {{ path = {ours:?} }}\n\
         tikv-jemallocator = {{ path = \"jemallocator\" }}\ntikv-jemalloc-ctl = {{ path = \"ctl\" }}\n\
         [profile.release]\nlto = \"fat\"\n",
    );
    write(&folder.join("Cargo.toml"), &manifest);
    let package = |name: &str, more: &str, dependencies: &str| {
        let edition = if name == "sys" { "2021" } else { "2024" };
        let text = format!(
            "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = {edition:?}\n{more}[dependencies]\nlibc = \"0.2\"\n{dependencies}"
        );
        write(&folder.join(name).join("Cargo.toml"), &text);
    };
    let (number, pprof) = (versions.jemallocator, versions.pprof);
    let sys = format!("tikv-jemalloc-sys = \"{}\"\n", versions.sys);
    let both = format!("tikv-jemallocator = {number:?}\ntikv-jemalloc-ctl = {number:?}\n");
    package(
        "sys",
        "[features]\nunprefixed = [\"tikv-jemalloc-sys/unprefixed_malloc_on_supported_platforms\"]\n",
        &sys,
    );
    write(&folder.join("sys/src/lib.rs"), "");
    let set = "fn main() {\n    if std::env::var(\"CARGO_FEATURE_UNPREFIXED\").is_err() {\n        println!(\"cargo:rustc-cfg=prefixed\");\n    }\n}\n";
    write(&folder.join("sys/build.rs"), set);
    package(
        "profile",
        "",
        &format!(
            "{both}jemalloc_pprof = {pprof:?}\npprof_util = \"0.8\"\ntokio = {{ version = \"1\", features = [\"rt\"] }}\n"
        ),
    );
    package("copies", "", &format!("{both}{sys}[build-dependencies]\ncc = \"1\"\n"));
    package("plugin", "[lib]\ncrate-type = [\"cdylib\"]\n", &both);
    for (source, place) in [
        ("profile.rs", "profile/src/main.rs"),
        ("copies.rs", "copies/src/main.rs"),
        ("plugin.rs", "plugin/src/lib.rs"),
        ("half.rs", "copies/build.rs"),
    ] {
        write(&folder.join(place), &fs::read_to_string(tests().join(source)).expect("a source"));
    }
    Some(folder)
}

const NOT_FETCHED: &str = "their crates cannot be fetched (no network?)";

/// Runs their tests, of which at least so many must have run.
fn pass(versions: &Versions, features: &[&str], least: usize) {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    let Some(folder) = workspace(versions) else { return vcmalloc_tests::skip!("{NOT_FETCHED}") };
    let features = features.join(",");
    let mut arguments =
        vec!["test", "--no-fail-fast", "-p", "tikv-jemallocator", "-p", "tikv-jemalloc-ctl", "-p", "sys"];
    // One at a time: tests of the epoch expect that no other advances it.
    arguments.extend(["--features", &features, "--", "--test-threads=1"]);
    let output = cargo(&folder, &arguments);
    let text = said(&output);
    assert!(output.status.success() && !text.contains("FAILED"), "{text}");
    let results = text.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let passed: usize = results.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok()).sum();
    assert!(passed >= least, "only {passed} tests ran: {text}");
}

const EVERY_FEATURE: [&str; 11] = [
    "tikv-jemallocator/stats",
    "tikv-jemallocator/profiling",
    "tikv-jemallocator/debug",
    "tikv-jemallocator/background_threads",
    "tikv-jemallocator/disable_initial_exec_tls",
    "tikv-jemallocator/disable_cache_oblivious",
    "tikv-jemallocator/override_allocator_on_supported_platforms",
    "tikv-jemalloc-ctl/stats",
    "tikv-jemalloc-ctl/profiling",
    "tikv-jemalloc-ctl/use_std",
    "sys/unprefixed",
];

#[test]
fn their_tests_pass_with_the_prefix() {
    pass(&OLDER, &["tikv-jemallocator/stats"], 60);
}

#[test]
fn their_tests_pass_with_every_feature_and_without_the_prefix() {
    pass(&OLDER, &EVERY_FEATURE, 85);
}

#[test]
fn their_tests_pass_with_the_newer_version() {
    pass(&NEWER, &EVERY_FEATURE, 80);
}

#[test]
fn jemalloc_pprof_writes_a_profile_of_what_is_held() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    let Some(folder) = workspace(&OLDER) else { return vcmalloc_tests::skip!("{NOT_FETCHED}") };
    let built = cargo(&folder, &["build", "-p", "profile"]);
    assert!(built.status.success(), "{}", said(&built));
    let program = folder.join("target/debug/profile");
    let finished = run(&mut Command::new(program), Duration::from_secs(60)).expect("it runs");
    finished.succeeded().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(finished.text(), "bytes true stacks true\npprof true\nheld 1000\n");
}

/// The names with the prefix that other objects of a process could find.
fn found_by_others(file: &Path) -> Vec<String> {
    let data = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let elf = object::File::parse(&*data).expect("an ELF file");
    let names = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = names.filter_map(|symbol| symbol.name().ok().map(str::to_string));
    names.filter(|name| name.starts_with("_rjem_")).collect()
}

/// Once as written, once with all Rust code in one piece.
#[test]
fn the_program_a_library_and_a_preloaded_one_have_a_heap_each() {
    if machine::is_other() || library::is_foreign() {
        return;
    }
    let Some(folder) = workspace(&OLDER) else { return vcmalloc_tests::skip!("{NOT_FETCHED}") };
    let preloaded = [library::our_shared(), library::hardened(), library::jemalloc()];
    let preloaded = preloaded.map(|path| path.unwrap_or_else(|error| panic!("{error}")));
    for (profile, flag) in [("debug", None), ("release", Some("--release"))] {
        let arguments = ["build", "-p", "copies", "-p", "plugin"].into_iter().chain(flag);
        let built = cargo(&folder, &arguments.collect::<Vec<_>>());
        assert!(built.status.success(), "{}", said(&built));
        let place = folder.join("target").join(profile);
        let (program, plugin) = (place.join("copies"), place.join("libplugin.so"));
        for file in [&program, &plugin] {
            assert_eq!(found_by_others(file), Vec::<String>::new(), "{}", file.display());
        }
        for preload in std::iter::once(None).chain(preloaded.iter().map(Some)) {
            let mut command = Command::new(&program);
            command
                .arg(&plugin)
                .env("_RJEM_MALLOC_CONF", "dirty_decay_ms:1234")
                .env("MALLOC_CONF", "dirty_decay_ms:77");
            if let Some(library) = preload {
                command.env("LD_PRELOAD", library);
            }
            let finished = run(&mut command, Duration::from_secs(60)).expect("it runs");
            finished.succeeded().unwrap_or_else(|error| panic!("{preload:?}: {error}"));
            let text = "options Some(4242) Some(1234)\nrust true\nlibc 0\nc true\n\
                        plugin true 0 of it true\nthreads 40000 child true\n";
            assert_eq!(finished.text(), text, "{profile} {preload:?}");
        }
    }
}
