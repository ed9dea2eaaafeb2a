//! `vcm set` and `vcm release` where nothing can be done: one line that says why, and the exit code.

mod support;

use std::process::Command;
use support::{Place, Sleeper, done, vcm};

const PROGRAM: &str =
    "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"1\"); fflush(stdout); sleep(60); }";

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
