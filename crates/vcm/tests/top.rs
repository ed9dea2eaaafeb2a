//! `vcm top` of processes whose titles and libraries are of many kinds.

mod support;

use std::os::unix::process::CommandExt;
use std::process::Command;
use support::{Place, Sleeper, done, real_library, vcm};

const SLEEPS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
     int main(void) { free(malloc(9)); puts(\"ready\"); fflush(stdout); return sleep(600); }";

fn row(process: &Sleeper, filter: &str) -> Option<serde_json::Value> {
    let told = done(&mut vcm(&["top", "--json", "--filter", filter]));
    let told: serde_json::Value = serde_json::from_str(&told.out).unwrap_or_else(|_| panic!("{}", told.err));
    let rows = told["processes"].as_array().unwrap();
    let id: u64 = process.id().parse().unwrap();
    rows.iter().find(|row| row["pid"] == id).cloned()
}

#[test]
fn a_process_with_a_title_is_found_by_the_name_of_its_title_and_of_its_program() {
    let place = Place::new();
    let Some(library) = real_library() else { return };
    let program = place.program("served", SLEEPS, &[]);
    let title = "titled: master process /usr/sbin/titled -c /etc/the.conf -g daemon on;";
    let process = Sleeper::start(Command::new(&program).arg0(title).env("LD_PRELOAD", library));
    assert_eq!(row(&process, "titled").unwrap()["name"], "titled");
    assert!(row(&process, "served").is_some() && row(&process, "the.conf").is_none());
}

#[test]
fn a_process_on_the_stand_in_for_jemalloc_is_shown_as_such() {
    let place = Place::new();
    let Some(library) = real_library() else { return };
    let library = library.with_file_name("libjemalloc.so.2");
    if !library.exists() {
        vcmalloc_tests::skip!("target/release/libjemalloc.so.2 is not built");
        return;
    }
    let program = place.program("served", SLEEPS, &[]);
    let process = Sleeper::start(Command::new(&program).env("LD_PRELOAD", library));
    assert_eq!(row(&process, "").unwrap()["kind"], "stand-in");
}
