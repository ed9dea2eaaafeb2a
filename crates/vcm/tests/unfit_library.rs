//! Libraries that cannot be preloaded: of another machine, cut off, empty, left behind by half a package, older than the tool.
//! `vcm run`, `vcm enable` and `vcm check` name the file and say what is wrong with it.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Done, Place, Sleeper, done, install, text, vcm};

const SLEEPS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
     int main(void) { free(malloc(9)); puts(\"ready\"); fflush(stdout); return sleep(600); }";

/// Each with words of what is wrong with it.
fn unfit(place: &Place) -> Vec<(PathBuf, &'static str)> {
    let stub = fs::read(&place.stub).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        fs::write(place.path(name), bytes).unwrap();
        place.path(name)
    };
    // The place where an ELF file names its machine; the number of aarch64, and on that one of x86-64.
    let mut other = stub.clone();
    other[18..20].copy_from_slice(if cfg!(target_arch = "x86_64") { &[183, 0] } else { &[62, 0] });
    let is_made_for =
        if cfg!(target_arch = "x86_64") { "is built for Aarch64" } else { "is built for X86_64" };
    // And the size of its words.
    let mut narrow = stub.clone();
    narrow[4] = 1;
    symlink("libvcmalloc.so.0.9", place.path("libvcmalloc-left.so")).unwrap();
    vec![
        (write("libvcmalloc-other.so", &other), is_made_for),
        (write("libvcmalloc-narrow.so", &narrow), "is built for a 32-bit machine"),
        // Behind its first header. One with more of it ends whoever preloads it, `vcm` too.
        (write("libvcmalloc-cut.so", &stub[..100]), "a damaged ELF file"),
        (write("libvcmalloc-empty.so", b""), "it is empty"),
        (write("libvcmalloc-text.so", b"no library"), "not a shared library"),
        (place.path("libvcmalloc-left.so"), "a link to libvcmalloc.so.0.9, which does not exist"),
    ]
}

fn assert_names(result: &Done, code: i32, path: &Path, words: &str) {
    assert_eq!(result.code, Some(code), "{path:?}: {}{}", result.out, result.err);
    assert!(result.err.contains(text(path)), "{path:?}: {}", result.err);
    assert!(result.err.contains(words), "{words}: {}", result.err);
}

#[test]
fn run_starts_nothing_on_it() {
    let place = Place::new();
    for (path, words) in unfit(&place) {
        let result = done(&mut vcm(&["run", "--library", text(&path), "--", "echo", "started"]));
        assert_names(&result, 125, &path, words);
        assert_eq!(result.out, "");
        let by_variable = done(vcm(&["run", "--", "true"]).env("VCM_LIBRARY", &path));
        assert_names(&by_variable, 125, &path, words);
    }
}

#[test]
fn enable_writes_nothing() {
    let place = Place::new();
    let root = place.path("machine");
    for folder in ["lib/systemd/system", "usr/bin", "usr/lib"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("lib/systemd/system/foo.service"), "[Service]\nExecStart=/usr/bin/foo\n").unwrap();
    fs::copy(place.program("foo", "int main(void) { return 0; }", &[]), root.join("usr/bin/foo")).unwrap();
    for (path, words) in unfit(&place) {
        let there = root.join("usr/lib/libvcmalloc.so.0");
        let _ = fs::remove_file(&there);
        match path.read_link() {
            Ok(to) => symlink(to, &there).unwrap(),
            Err(_) => fs::copy(&path, &there).map(drop).unwrap(),
        }
        let result = done(&mut vcm(&["enable", "foo", "--root", text(&root)]));
        assert_names(&result, 1, &there, words);
        assert!(!root.join("etc/systemd").exists());
    }
}

#[test]
fn check_says_why_a_command_is_not_on_it() {
    let place = Place::new();
    let program = place.program("ends", "int main(void) { return 0; }", &[]);
    for (path, words) in unfit(&place) {
        let result = done(vcm(&["check", "--", text(&program)]).env("LD_PRELOAD", &path));
        assert_names(&result, 1, &path, words);
    }
}

#[test]
fn check_says_why_a_process_is_not_on_it() {
    let place = Place::new();
    let program = place.program("sleeps", SLEEPS, &[]);
    for (path, words) in unfit(&place) {
        let words = if words.starts_with("a link") { "a link to a file that does not exist" } else { words };
        let words = if words == "it is empty" { "not a shared library" } else { words };
        let sleeper = Sleeper::start(Command::new(&program).env("LD_PRELOAD", &path));
        assert_names(&done(&mut vcm(&["check", &sleeper.id()])), 1, &path, words);
    }
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let place = Place::new();
    let stub = fs::read(&place.stub).unwrap();
    let path = place.path("libvcmalloc-cut.so");
    for length in (1..stub.len()).step_by(stub.len() / 40) {
        fs::write(&path, &stub[..length]).unwrap();
        let result = done(&mut vcm(&["run", "--library", text(&path), "--", "echo", "started"]));
        assert_eq!((result.code, result.out.as_str()), (Some(125), ""), "{length}: {}", result.err);
    }
}

#[test]
fn a_link_that_leads_nowhere_is_told_with_the_package_that_has_the_file() {
    let place = Place::new();
    for folder in ["bin", "lib"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let tool = place.path("bin/vcm");
    install(Path::new(env!("CARGO_BIN_EXE_vcm")), &tool);
    let lib = place.path("lib");
    for name in ["libvcmalloc-hardened.so.0", "libvcm_interposer.so"] {
        symlink(format!("{name}.gone"), lib.join(name)).unwrap();
    }
    for (arguments, file, package) in [
        (&["run", "--hardened", "--", "true"][..], "libvcmalloc-hardened.so.0", "libvcmalloc-hardened0"),
        (&["record", "--", "true"], "libvcm_interposer.so", "vcmalloc-tools"),
    ] {
        let result = done(Command::new(&tool).args(arguments).env_remove("VCM_LIBRARY").current_dir(&lib));
        if result.code == Some(0) {
            vcmalloc_tests::skip!("{file} is installed here");
            continue;
        }
        let left = format!("{}: a link to {file}.gone, which does not exist", lib.join(file).display());
        assert!(result.err.contains(&left) && result.err.contains(package), "{}", result.err);
    }
}

#[test]
fn a_library_that_reports_nothing_is_told_as_an_older_one() {
    let place = Place::new();
    let source = "extern void *__libc_malloc(unsigned long); extern void __libc_free(void *);\n\
        void *malloc(unsigned long size) { return __libc_malloc(size); } void free(void *block) { __libc_free(block); }\n\
        const char *vcm_version(void) { return \"0.0-old\"; }";
    let old = place.program("libvcmalloc-old.so", source, &["-shared", "-fPIC"]);
    let program = place.program("short", "#include <unistd.h>\nint main(void) { return sleep(3); }", &[]);
    let result = done(&mut vcm(&["run", "--library", text(&old), "--", text(&program)]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.err.contains("may be older than this vcm"), "{}", result.err);
    let strict = done(&mut vcm(&["run", "--strict", "--library", text(&old), "--", text(&program)]));
    assert_eq!(strict.code, Some(125), "{}", strict.err);
}
