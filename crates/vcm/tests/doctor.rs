//! `vcm doctor` on real processes.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Done, Place, Sleeper, done, install, only_root_can, text, vcm};

impl Sleeper {
    /// Python under a preload, once it has mapped what it was told to.
    fn python(preload: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(python());
        command.args(["-c", "import time; print(1, flush=True); time.sleep(60)"]);
        command.env_remove("LD_PRELOAD").envs(variables.iter().copied());
        if !preload.is_empty() {
            command.env("LD_PRELOAD", preload);
        }
        Self::start(&mut command)
    }
}

/// The interpreter itself: a version manager's wrapper is another program.
fn python() -> String {
    let asked = done(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
    asked.out.trim().to_string()
}

fn doctor(arguments: &[&str]) -> Done {
    done(vcm(&["doctor"]).args(arguments))
}

fn json(arguments: &[&str]) -> Value {
    let result = doctor(&[arguments, &["--json"]].concat());
    assert!(matches!(result.code, Some(0 | 1)), "{}", result.err);
    serde_json::from_str(&result.out).unwrap()
}

fn found(answer: &Value) -> Vec<&str> {
    answer["findings"].as_array().unwrap().iter().map(|finding| finding["check"].as_str().unwrap()).collect()
}

fn library(name: &str) -> Option<String> {
    let path = format!("/usr/lib/{}-linux-gnu/{name}", std::env::consts::ARCH);
    Path::new(&path).exists().then_some(path)
}

#[test]
fn the_allocator_of_a_preloaded_process_is_named_with_its_file() {
    let place = Place::new();
    let stub = text(&place.stub).to_string();
    let cases = [
        ("jemalloc", "5.", library("libjemalloc.so.2")),
        ("TCMalloc (gperftools, minimal)", "2.", library("libtcmalloc_minimal.so.4")),
        ("TCMalloc (gperftools, full)", "2.", library("libtcmalloc.so.4")),
        ("mimalloc", "2.", library("libmimalloc.so.2.0")),
        ("vcmalloc", "", Some(stub)),
    ];
    for (name, version, path) in cases {
        let Some(path) = path else {
            vcmalloc_tests::skip!("{name} is not installed");
            continue;
        };
        let process = Sleeper::python(&path, &[]);
        let answer = json(&[&process.id()]);
        let allocator = &answer["daemons"][0]["allocator"];
        assert_eq!(allocator["name"], name, "{answer:#}");
        assert_eq!(allocator["certainty"], "certain");
        let real = std::fs::canonicalize(&path).unwrap();
        assert_eq!(allocator["object"], text(&real), "{answer:#}");
        assert!(allocator["version"].as_str().unwrap_or("").starts_with(version), "{allocator:#}");
        assert!(
            allocator["evidence"][0].as_str().unwrap().contains("LD_PRELOAD puts it before"),
            "{allocator:#}"
        );
    }
}

#[test]
fn a_process_without_a_preload_runs_on_glibc() {
    let process = Sleeper::python("", &[("MALLOC_ARENA_MAX", "2")]);
    let answer = json(&[&process.id()]);
    let daemon = &answer["daemons"][0];
    assert_eq!(daemon["allocator"]["name"], "glibc malloc");
    assert_eq!(daemon["settings"][0]["name"], "MALLOC_ARENA_MAX");
    assert_eq!(daemon["settings"][0]["origin"], "environment");
    let text = doctor(&[&process.id()]);
    assert!(text.out.contains("allocator  glibc malloc 2."), "{}", text.out);
}

#[test]
fn a_malloc_that_is_built_in_is_told_by_the_programs_own_symbols() {
    let place = Place::new();
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
                  static char room[1 << 20]; static size_t used;\n\
                  void *malloc(size_t n) { used += n + 64; return room + used; }\n\
                  void free(void *p) {} void *tc_malloc(size_t n) { return malloc(n); }\n\
                  int main(void) { tc_malloc(1); puts(\"1\"); fflush(stdout); sleep(60); }";
    let program = place.program("built-in", source, &["-fvisibility=hidden"]);
    let process = Sleeper::start(&mut Command::new(&program));
    let answer = json(&[&process.id()]);
    let allocator = &answer["daemons"][0]["allocator"];
    assert_eq!(allocator["name"], "TCMalloc (gperftools, minimal)", "{answer:#}");
    assert!(allocator["evidence"][0].as_str().unwrap().contains("built into the program"), "{answer:#}");
}

#[test]
fn a_preload_over_a_program_that_asks_tcmalloc_is_a_danger() {
    let Some(jemalloc) = library("libjemalloc.so.2") else {
        vcmalloc_tests::skip!("jemalloc is not installed");
        return;
    };
    let place = Place::new();
    let interface = "#include <stdlib.h>\nvoid *_ZN15MallocExtension8instanceEv(void) { return 0; }\n\
                     void *tc_malloc(size_t n) { return 0; }\n\
                     extern void *__libc_malloc(size_t); void *malloc(size_t n) { return __libc_malloc(n); }";
    let tcmalloc =
        place.program("libtcmalloc.so.4", interface, &["-shared", "-fPIC", "-Wl,-soname,libtcmalloc.so.4"]);
    let source = "#include <stdio.h>\n#include <unistd.h>\nvoid *_ZN15MallocExtension8instanceEv(void);\n\
                  int main(void) { _ZN15MallocExtension8instanceEv(); puts(\"1\"); fflush(stdout); sleep(60); }";
    let folder = place.folder.path().display().to_string();
    let program = place.program("asks", source, &[text(&tcmalloc), &format!("-Wl,-rpath,{folder}")]);
    let process = Sleeper::start(Command::new(&program).env("LD_PRELOAD", &jemalloc));
    let result = doctor(&[&process.id()]);
    assert_eq!(result.code, Some(1), "{}", result.err);
    assert!(result.out.contains("DANGER preload-over-tcmalloc"), "{}", result.out);
    assert!(result.out.contains("<https://github.com/ceph/ceph/pull/46062>"), "{}", result.out);
    drop(process);
    let alone = Sleeper::start(&mut Command::new(&program));
    assert!(!found(&json(&[&alone.id()])).contains(&"preload-over-tcmalloc"));
}

#[test]
fn variables_without_effect_and_misspelt_options_are_found() {
    let process = Sleeper::python("", &[("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "1")]);
    assert!(found(&json(&[&process.id()])).contains(&"variables-ignored"));
    let place = Place::new();
    let process = Sleeper::python(text(&place.stub), &[("VCM_CACHE_LIMT", "1M"), ("VCM_CONFIG", "")]);
    assert!(found(&json(&[&process.id()])).contains(&"own-settings"));
}

#[test]
fn exit_codes_tell_findings_from_failures() {
    let process = Sleeper::python("", &[]);
    let danger = doctor(&[&process.id(), "--severity", "danger"]);
    assert_eq!(danger.code, Some(0), "{}{}", danger.out, danger.err);
    assert!(danger.out.starts_with("1 process: nothing to report.\n"), "{}", danger.out);
    let absent = doctor(&["2147483647"]);
    assert_eq!((absent.code, absent.err.contains("no such process")), (Some(2), true), "{}", absent.err);
    let wrong = doctor(&["cehp"]);
    assert_eq!((wrong.code, wrong.err.contains("write 'ceph', 'gluster'")), (Some(2), true), "{}", wrong.err);
    let place = Place::new();
    std::fs::create_dir(place.path("proc")).unwrap();
    let empty = doctor(&["ceph", "--root", text(place.folder.path())]);
    assert_eq!(empty.code, Some(2));
    assert!(empty.err.contains("no ceph daemon runs on this machine"), "{}", empty.err);
    let nothing = doctor(&["--root", text(place.folder.path())]);
    assert_eq!(nothing.code, Some(0), "{}", nothing.err);
}

#[test]
fn what_is_no_running_process_is_named() {
    let mut child = Command::new("true").spawn().unwrap();
    let zombie = child.id().to_string();
    while !std::fs::read_to_string(format!("/proc/{zombie}/stat")).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut cases = vec![(zombie, "has ended and waits for its parent (zombie)")];
    let is_kernels = std::fs::read_to_string("/proc/2/status").is_ok_and(|text| text.contains("kthreadd"));
    cases.extend(is_kernels.then(|| ("2".to_string(), "is a kernel thread")));
    for (id, words) in cases {
        for (verb, code) in [("config", 1), ("doctor", 2)] {
            let result = done(&mut vcm(&[verb, &id]));
            assert_eq!(result.code, Some(code), "{verb}: {}", result.out);
            assert_eq!(result.err.lines().count(), 1, "{}", result.err);
            assert!(result.err.starts_with(&format!("vcm: {id} {words}")), "{}", result.err);
        }
    }
    child.wait().unwrap();
}

#[test]
fn another_users_process_is_reported_as_far_as_it_can_be_seen() {
    if !only_root_can("ask as another user") {
        return;
    }
    let process = Sleeper::python("", &[]);
    let place = Place::new();
    let tool = place.path("vcm");
    install(Path::new(env!("CARGO_BIN_EXE_vcm")), &tool);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", text(&tool), "doctor", &process.id()]);
    let result = done(&mut command);
    assert_eq!(result.code, Some(2), "{}", result.err);
    assert!(result.out.contains("allocator  not known"), "{}", result.out);
    assert!(
        result.out.contains("run vcm as root") && !result.out.contains("othing to report"),
        "{}",
        result.out
    );
    assert!(result.out.contains("its mapped files"), "{}", result.out);
    assert!(result.out.contains("1 thread"), "{}", result.out);
}

#[test]
fn a_process_in_a_chroot_or_a_container_is_told_by_its_own_files() {
    if !only_root_can("change the root") {
        return;
    }
    let place = Place::new();
    let source =
        "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"1\"); fflush(stdout); sleep(60); }";
    let program = place.program("says", source, &[]);
    // The files that the program needs, at the places where it looks for them.
    let needed = done(Command::new("ldd").arg(&program));
    let inside = place.path("root");
    for path in needed.out.split_whitespace().filter(|word| word.starts_with('/')) {
        let target = inside.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        install(Path::new(path), &target);
    }
    install(&program, &inside.join("says"));
    std::fs::copy(&place.stub, inside.join("own.so")).unwrap();
    for with_own_mounts in [false, true] {
        let words: &[&str] = if with_own_mounts { &["unshare", "--mount", "chroot"] } else { &["chroot"] };
        let mut command = Command::new("env");
        // On the way the loader complains of a path that is not there yet.
        command.args(words).arg(&inside).args(["/says"]).env("LD_PRELOAD", "/own.so").stderr(Stdio::null());
        let process = Sleeper::start(&mut command);
        let answer = json(&[&process.id()]);
        let daemon = &answer["daemons"][0];
        assert_eq!(daemon["allocator"]["name"], "vcmalloc", "{answer:#}");
        assert_eq!(daemon["allocator"]["certainty"], "certain", "{answer:#}");
        assert_eq!(daemon["contained"], true);
    }
}

#[test]
fn a_process_with_mounts_of_its_own_is_not_taken_for_a_container() {
    if !only_root_can("make a mount namespace") {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs x /mnt && echo 1 && exec sleep 60"]);
    let process = Sleeper::start(&mut command);
    // It says its line just before it becomes another program: while it does, and until that has its C library, little can be
    // read of it.
    let read = |file| std::fs::read_to_string(format!("/proc/{}/{file}", process.id())).unwrap();
    while read("comm") != "sleep\n" || !read("maps").contains("/libc.so") {
        std::thread::yield_now();
    }
    let answer = json(&[&process.id()]);
    assert_eq!(answer["daemons"][0]["contained"], false, "{answer:#}");
}

#[test]
fn what_systemctl_says_of_a_unit_that_does_not_run_is_answered() {
    for target in ["0", ""] {
        let result = doctor(&[target]);
        assert_eq!(result.code, Some(2), "{}", result.out);
        let words = ["systemd does not run here", "not running", "the process id is empty"];
        assert!(words.iter().any(|words| result.err.contains(words)), "{}", result.err);
        assert!(
            !result.err.contains("write 'ceph', 'gluster' or process ids: vcm doctor PID"),
            "{}",
            result.err
        );
    }
}

#[test]
fn the_checks_are_listed() {
    let list = doctor(&["--list"]);
    assert_eq!(list.code, Some(0));
    for check in ["preload-over-tcmalloc", "journal-size", "file-limit"] {
        assert!(list.out.contains(check), "{}", list.out);
    }
}
