//! `vcm set` and `vcm release` where nothing can be done: one line that says why, and the exit code.

mod support;

use std::process::{Command, Stdio};
use support::{Place, Sleeper, done, real_library, vcm};

const PROGRAM: &str =
    "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"1\"); fflush(stdout); sleep(60); }";

/// A process of one thread on the real library that allocates once it is given a line.
const IDLE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    int main(void) { char c; puts(\"1\"); fflush(stdout); if (read(0, &c, 1) == 1) {\n\
    for (int i = 0; i < 100; i++) { char *volatile p = malloc(8 << 20); p[0] = 1; free(p); } puts(\"2\"); fflush(stdout); }\n\
    sleep(60); }";

fn idle(place: &Place) -> Option<Sleeper> {
    let library = real_library()?;
    let program = place.program("idle", IDLE, &[]);
    let mut command = Command::new(program);
    Some(Sleeper::start(command.env("LD_PRELOAD", library).stdin(Stdio::piped())))
}

/// The value of an option in effect.
fn in_effect(id: &str, option: &str) -> String {
    let told = done(&mut vcm(&["config", "--json", id]));
    let told: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let options = told["options"].as_array().unwrap();
    let option = options.iter().find(|one| one["name"] == option).unwrap();
    option["value"].as_str().unwrap().to_owned()
}

const PENDING: &str = "pending until its next cache miss\n";
const TRY_AGAIN: &str = "is pending: the process is idle and has no janitor (one thread, or 'janitor' off); \
     try again after the process allocates\n";

#[test]
fn an_order_behind_a_pending_one_is_not_sent_and_is_named() {
    let place = Place::new();
    let Some(mut process) = idle(&place) else { return };
    let id = process.id();
    let first = done(&mut vcm(&["set", &id, "retain=0", "cache_limit=1M", "release_delay=1s"]));
    let lines: Vec<&str> = first.err.lines().collect();
    assert_eq!((first.code, lines.len()), (Some(1), 3), "{}", first.err);
    assert!(lines[0].starts_with(&format!("vcm: {id} retain=0: the process is idle")), "{}", first.err);
    for (line, setting) in lines[1..].iter().zip(["cache_limit=1M", "release_delay=1s"]) {
        let begin = format!("vcm: {id} {setting}: not sent: an earlier order (retain=0) {TRY_AGAIN}");
        assert_eq!(*line, begin.trim_end());
    }
    let line = said(&["set", &id, "cache_limit=1M"], 1);
    assert_eq!(line, format!("vcm: {id} cache_limit=1M: not sent: an earlier order (retain=0) {TRY_AGAIN}"));
    let line = said(&["release", &id], 1);
    assert_eq!(line, format!("vcm: {id} release: not sent: an earlier order (retain=0) {TRY_AGAIN}"));
    process.say("\n");
    assert_eq!(in_effect(&id, "retain"), "0");
    assert_ne!(in_effect(&id, "cache_limit"), "1M");
}

#[test]
fn a_pending_order_gives_way_to_one_of_the_same_option() {
    let place = Place::new();
    let Some(mut process) = idle(&place) else { return };
    let id = process.id();
    for setting in ["retain=0", "retain=3M", "retain=3M", "retain=2M"] {
        let line = said(&["set", &id, setting], 3);
        assert!(line.starts_with(&format!("vcm: {id} {setting}: ")) && line.ends_with(PENDING), "{line}");
    }
    process.say("\n");
    assert_eq!(in_effect(&id, "retain"), "2M");
}

#[test]
fn a_profile_that_was_not_started_leaves_no_order_behind() {
    let place = Place::new();
    let Some(mut process) = idle(&place) else { return };
    let id = process.id();
    for interval in [&[][..], &["--interval", "64K"]] {
        let taken = done(vcm(&["profile", &id, "--for", "100ms"]).args(interval));
        assert_eq!(taken.code, Some(1), "{}", taken.err);
        assert!(!taken.err.contains("note:"), "{}", taken.err);
    }
    let line = said(&["set", &id, "retain=2M"], 3);
    assert!(line.ends_with(PENDING), "{line}");
    let before = in_effect(&id, "sample_interval");
    process.say("\n");
    let now = ["retain", "profile", "sample_interval"].map(|option| in_effect(&id, option));
    assert_eq!(now, ["2M".to_owned(), "off".into(), before]);
}

fn said(arguments: &[&str], code: i32) -> String {
    let result = done(&mut vcm(arguments));
    assert_eq!((result.code, result.out.as_str()), (Some(code), ""), "{arguments:?}: {}", result.err);
    assert!(code == 2 || result.err.lines().count() == 1, "{}", result.err);
    result.err
}

#[test]
fn what_no_process_would_do_is_refused_before_one_is_looked_for() {
    let none = "4194305";
    for (setting, words) in [
        ("no_such_option=1", "no_such_option: no option of this name"),
        ("retain=bad", "retain: 'bad' cannot be read"),
        ("front=locked", "front: is read once, at start"),
        ("janitor=off", "janitor: cannot be set from outside"),
        ("system_calls=few", "system_calls: cannot be set from outside"),
        ("retain=0", "4194305 does not run: no such process"),
    ] {
        let line = said(&["set", none, setting], 1);
        assert!(line.starts_with(&format!("vcm: {words}")), "{line}");
    }
    assert_eq!(said(&["release", none], 1), "vcm: 4194305 does not run: no such process\n");
    for wrong in [&["set", none][..], &["set", none, "retain"], &["release", none, "much"], &["release"]] {
        said(wrong, 2);
    }
}

#[test]
fn a_process_on_another_allocator_or_on_an_older_vcmalloc_is_told() {
    let place = Place::new();
    let program = place.program("plain", PROGRAM, &[]);
    let process = Sleeper::start(&mut Command::new(&program));
    let id = process.id();
    assert!(said(&["release", &id], 1).starts_with(&format!("vcm: {id} runs on glibc malloc ")));
    let former = Sleeper::start(Command::new(&program).env("LD_PRELOAD", &place.stub));
    let line = said(&["set", &former.id(), "retain=0"], 1);
    assert!(line.contains("which is older than 'vcm set'"), "{line}");
}
