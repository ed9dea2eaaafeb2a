//! `vcm check`: 0 only where a process or a command allocates on vcmalloc.

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Done, Place, Sleeper, done, text, vcm};

const SLEEPS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
     int main(void) { free(malloc(9)); puts(\"ready\"); fflush(stdout); return sleep(600); }";
const ENDS: &str = "#include <stdlib.h>\nint main(void) { free(malloc(9)); return 7; }";
/// A copy of jemalloc under its own prefix, as redis and Rust programs carry it.
const PRIVATE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
     void *je_malloc(size_t size) { return malloc(size); }\n\
     int main(void) { free(je_malloc(9)); puts(\"ready\"); fflush(stdout); return sleep(PAUSE); }";

fn check(id: &str) -> Done {
    done(&mut vcm(&["check", id]))
}

fn check_command(program: &Path, preload: &str) -> Done {
    done(vcm(&["check", "--", text(program)]).env("LD_PRELOAD", preload))
}

fn assert_says(result: &Done, code: i32, words: &str) {
    assert_eq!(result.code, Some(code), "{}{}", result.out, result.err);
    let said = if code == 0 { &result.out } else { &result.err };
    assert!(said.contains(words), "{words}\n{}{}", result.out, result.err);
}

#[test]
fn a_process_with_the_preload_passes_and_one_without_does_not() {
    let place = Place::new();
    let program = place.program("sleeps", SLEEPS, &[]);
    let with = Sleeper::start(Command::new(&program).env("LD_PRELOAD", &place.stub));
    assert_says(&check(&with.id()), 0, "runs on vcmalloc");
    let quiet = done(&mut vcm(&["check", "--quiet", &with.id()]));
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (Some(0), "", ""));
    let without = Sleeper::start(&mut Command::new(&program));
    assert_says(&check(&without.id()), 1, "its malloc is glibc malloc");
    let both = done(&mut vcm(&["check", &with.id(), &without.id()]));
    assert_says(&both, 1, "does not run on vcmalloc");
    assert!(both.out.contains("runs on vcmalloc"), "{}", both.out);
}

#[test]
fn a_path_with_the_loaders_word_for_the_folder_passes() {
    let place = Place::new();
    let folder = place.path(&format!("lib/{}-linux-gnu", std::env::consts::ARCH));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&place.stub, folder.join("libvcmalloc.so.0")).unwrap();
    let program = place.program("sleeps", SLEEPS, &[]);
    for word in ["$LIB", "${LIB}"] {
        let preload = format!("{}/{word}/libvcmalloc.so.0", place.folder.path().display());
        let sleeper = Sleeper::start(Command::new(&program).env("LD_PRELOAD", preload));
        assert_says(&check(&sleeper.id()), 0, "/libvcmalloc.so.0");
    }
}

#[test]
fn a_preload_that_the_loader_did_not_take_is_named() {
    let place = Place::new();
    let program = place.program("sleeps", SLEEPS, &[]);
    let sleeper = Sleeper::start(Command::new(&program).env("LD_PRELOAD", "/nowhere/libvcmalloc.so.0"));
    assert_says(&check(&sleeper.id()), 1, "/nowhere/libvcmalloc.so.0, which the loader did not load");
}

#[test]
fn a_library_that_was_only_opened_does_not_pass() {
    let place = Place::new();
    let source = "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        int main(int count, char **words) { puts(dlopen(words[1], RTLD_NOW) ? \"ready\" : dlerror()); fflush(stdout);\n\
        return sleep(600); }";
    let program = place.program("opens", source, &[]);
    let sleeper = Sleeper::start(Command::new(&program).arg(&place.stub));
    assert_says(&check(&sleeper.id()), 1, "its malloc is glibc malloc");
    let cleared = Sleeper::start(Command::new(&program).arg(&place.stub).env_clear());
    assert_says(&check(&cleared.id()), 1, "its malloc is glibc malloc");
}

#[test]
fn a_process_that_wiped_its_environment_passes_by_the_loaders_order() {
    let place = Place::new();
    // As nginx does, which keeps TZ alone.
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        extern char **environ; int main(void) { char *end = environ[0]; static char *none[1];\n\
        for (char **at = environ; *at; at++) end = *at + strlen(*at); memset(environ[0], 0, end - environ[0]);\n\
        environ = none; free(malloc(9)); puts(\"ready\"); fflush(stdout); return sleep(600); }";
    let program = place.program("wipes", source, &[]);
    let with = Sleeper::start(Command::new(&program).env("LD_PRELOAD", &place.stub));
    assert_says(&check(&with.id()), 0, "runs on vcmalloc");
    let without = Sleeper::start(&mut Command::new(&program));
    assert_says(&check(&without.id()), 1, "its malloc is glibc malloc");
}

#[test]
fn a_name_means_the_processes_of_that_name_where_no_unit_has_it() {
    let place = Place::new();
    let program = place.program("vcm-named", SLEEPS, &[]);
    let with = Sleeper::start(Command::new(&program).env("LD_PRELOAD", &place.stub));
    assert_says(&check("vcm-named"), 0, &format!("vcm-named (pid {}) runs on vcmalloc", with.id()));
    let without = Sleeper::start(&mut Command::new(&program));
    let both = check("vcm-named");
    assert_says(&both, 1, &format!("vcm-named (pid {}) does not run on vcmalloc", without.id()));
    assert!(both.out.contains(&with.id()), "{}", both.out);
    let doctor = done(&mut vcm(&["doctor", "vcm-named"]));
    assert!(
        doctor.out.contains(&with.id()) && doctor.out.contains(&without.id()),
        "{}{}",
        doctor.out,
        doctor.err
    );
}

#[test]
fn a_name_of_nothing_is_told_without_a_command_that_cannot_help() {
    let unknown = check("vcm-nothing");
    assert_says(&unknown, 2, "vcm-nothing: no such service");
    assert!(unknown.err.contains("no process is called so"), "{}", unknown.err);
    let enabled = done(&mut vcm(&["enable", "vcm-nothing"]));
    assert!(enabled.err.contains("vcm-nothing: no such service"), "{}", enabled.err);
    let runs = Path::new("/run/systemd/system").is_dir();
    for told in [unknown.err, enabled.err] {
        assert_eq!(told.contains("systemctl"), runs, "{told}");
    }
    for (verb, code) in [("stat", 1), ("set", 1), ("release", 1), ("doctor", 2), ("check", 2)] {
        for wrong in ["0", "11111111111111111111111"] {
            let setting = if verb == "set" { &["retain=0"][..] } else { &[] };
            let told = done(vcm(&[verb, wrong]).args(setting));
            let is_said =
                told.err.contains("no process id") || told.err.contains("give a process id") || wrong == "0";
            assert_eq!((told.code, is_said), (Some(code), true), "{verb} {wrong}: {}", told.err);
        }
    }
}

#[test]
fn a_name_that_is_no_text_is_escaped_once_and_an_argument_that_must_be_text_is_named() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"na\xffme");
    let program = place.path("x").with_file_name(name);
    let told = done(vcm(&["check", "--"]).arg(&program));
    assert!(told.err.contains("/na\\xffme: no such command"), "{}", told.err);
    for verb in ["check", "stat", "doctor", "config", "release", "profile"] {
        let told = done(vcm(&[verb]).arg(name));
        assert_eq!(told.code, Some(2), "{verb}: {}", told.err);
        assert!(told.err.contains("argument 'na\\xffme' is not UTF-8"), "{verb}: {}", told.err);
    }
}

#[test]
fn who_may_not_look_is_told_what_root_lacks() {
    if !support::only_root_can("drop the right to look into processes") {
        return;
    }
    let place = Place::new();
    let sleeper = Sleeper::start(&mut Command::new(place.program("sleeps", SLEEPS, &[])));
    let root = vcm(&["check", &sleeper.id()]);
    let mut without = Command::new("setpriv");
    without
        .args(["--bounding-set=-sys_ptrace", "--inh-caps=-all"])
        .arg(root.get_program())
        .args(root.get_args());
    let told = done(&mut without);
    assert_says(&told, 2, "this root has no CAP_SYS_PTRACE");
    assert!(!told.err.contains("another user"), "{}", told.err);
}

#[test]
fn who_carries_another_allocator_runs_only_in_part_on_it() {
    let place = Place::new();
    let program = place.program("carries", PRIVATE, &["-DPAUSE=600"]);
    let sleeper = Sleeper::start(Command::new(&program).env("LD_PRELOAD", &place.stub));
    assert_says(&check(&sleeper.id()), 1, "only partly on vcmalloc: it contains jemalloc");
    let short = place.program("short", PRIVATE, &["-DPAUSE=0"]);
    assert_says(&check_command(&short, text(&place.stub)), 1, "only partly on vcmalloc");
}

#[test]
fn a_command_is_judged_by_the_environment_as_it_is_and_not_by_its_own_code() {
    let place = Place::new();
    let program = place.program("ends", ENDS, &[]);
    assert_says(&check_command(&program, text(&place.stub)), 0, "runs on vcmalloc 0.0-stub, front locked");
    assert_says(&check_command(&program, ""), 1, "LD_PRELOAD is not set here");
    assert_says(
        &check_command(&program, "/nowhere/libvcmalloc.so.0"),
        1,
        "is a vcmalloc that can be preloaded",
    );
    for preload in [text(&place.stub), ""] {
        let said = check_command(&program, preload);
        assert!((said.out + &said.err).contains("; the command exited with code 7"));
    }
    let killed = "#include <signal.h>\nint main(void) { return raise(SIGSEGV); }";
    let killed = place.program("killed", killed, &[]);
    assert_says(
        &check_command(&killed, text(&place.stub)),
        0,
        "; the command was killed by signal 11 SIGSEGV",
    );
    let still = place.program("static", ENDS, &["-static"]);
    assert_says(&check_command(&still, text(&place.stub)), 1, "is linked statically");
}

#[test]
fn a_command_that_runs_on_is_judged_and_ended_with_its_children() {
    let place = Place::new();
    let source = "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        int main(int count, char **words) { FILE *file = fopen(words[1], \"w\"); signal(SIGTERM, SIG_IGN);\n\
        int child = fork(); if (child) { fprintf(file, \"%d\", child); fclose(file); } for (;;) pause(); }";
    let program = place.program("stays", source, &[]);
    let file = place.path("child");
    for (preload, code) in [(text(&place.stub), 0), ("", 1)] {
        let mut command = vcm(&["check", "--within", "1s", "--", text(&program), text(&file)]);
        // A child that stayed would keep the pipe open, and the test with it.
        assert_eq!(done(command.env("LD_PRELOAD", preload).stderr(Stdio::null())).code, Some(code));
        let child = std::fs::read_to_string(&file).unwrap();
        let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z"), "it still runs: {state}");
    }
}

#[test]
fn a_command_that_loses_the_preload_on_its_way_does_not_pass() {
    let place = Place::new();
    let program = place.program("sleeps", SLEEPS, &[]);
    let script =
        place.script("wrapper", &format!("#!/bin/sh\nunset LD_PRELOAD\nexec {}\n", program.display()));
    let mut command = vcm(&["check", "--within", "1s", "--", text(&script)]);
    assert_says(&done(command.env("LD_PRELOAD", &place.stub)), 1, "its malloc is glibc malloc");
}

#[test]
fn a_signal_to_the_check_ends_the_command_too() {
    let place = Place::new();
    let program = place.program("sleeps", SLEEPS, &[]);
    let script = format!("#!/bin/sh\necho $$ > {}\nexec {}\n", text(&place.path("id")), text(&program));
    let script = place.script("notes", &script);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let _ = std::fs::remove_file(place.path("id"));
        let mut command = vcm(&["check", "--within", "60s", "--", text(&script)]);
        let mut check = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        let child = loop {
            if let Ok(id) =
                std::fs::read_to_string(place.path("id")).unwrap_or_default().trim().parse::<i32>()
            {
                break id;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "the command was never started");
            std::thread::sleep(Duration::from_millis(20));
        };
        kill(Pid::from_raw(check.id() as i32), signal).unwrap();
        assert!(!check.wait().unwrap().success());
        assert!(kill(Pid::from_raw(child), None).is_err(), "{signal}: {child} runs on");
    }
}

#[test]
fn what_cannot_be_told_has_a_code_of_its_own() {
    let place = Place::new();
    let plain = place.path("plain");
    std::fs::write(&plain, "no program").unwrap();
    for (arguments, words) in [
        (&["check", "999999999"][..], "no such process: 999999999"),
        (&["check", "--", "no-such-command"], "no such command"),
        (&["check", "--", text(&plain)], "cannot be executed"),
        (&["check"], "required"),
        (&["check", "0"], "process id"),
        (&["check", "1", "--", "true"], "cannot be used with"),
    ] {
        assert_says(&done(&mut vcm(arguments)), 2, words);
    }
}
