//! `vcm stat` where there is nothing to see: one line that says why and what mends it, and the exit code.

mod support;

use std::os::unix::process::CommandExt;
use std::process::Command;
use support::{Place, Sleeper, done, only_root_can, real_library, vcm};

const NOBODY: u32 = 65534;
const PROGRAM: &str =
    "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"1\"); fflush(stdout); sleep(60); }";

fn said(arguments: &[&str], code: i32) -> String {
    let result = done(&mut vcm(&[&["stat"], arguments].concat()));
    assert_eq!((result.code, result.out.as_str()), (Some(code), ""), "{}", result.err);
    result.err
}

#[test]
fn who_cannot_be_seen_is_told_in_one_line_with_the_reason() {
    assert_eq!(said(&["4194305"], 1), "vcm: 4194305 does not run: no such process\n");
    let mut child = Command::new("true").spawn().unwrap();
    let zombie = child.id().to_string();
    while !std::fs::read_to_string(format!("/proc/{zombie}/stat")).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let expected = format!("vcm: {zombie} has ended and waits for its parent (zombie)\n");
    assert_eq!(said(&[&zombie], 1), expected);
    child.wait().unwrap();
    if std::fs::read_to_string("/proc/2/stat").is_ok_and(|stat| stat.contains("(kthreadd)")) {
        assert_eq!(said(&["2"], 1), "vcm: 2 is a kernel thread: it calls no malloc\n");
    }
    let unknown =
        "vcm: no process is called 'no-such-program'; 'vcm doctor' shows the daemons, 'ps -e' all\n";
    assert_eq!(said(&["no-such-program"], 1), unknown);
}

#[test]
fn a_process_on_another_allocator_is_told_with_its_name_and_version() {
    let place = Place::new();
    let program = place.program("plain", PROGRAM, &[]);
    let process = Sleeper::start(&mut Command::new(&program));
    let (line, id) = (said(&[&process.id()], 1), process.id());
    let (before, behind) = (
        format!("vcm: {id} runs on glibc malloc "),
        ", not on vcmalloc ('vcm run' or 'vcm enable' changes that)\n",
    );
    assert!(line.starts_with(&before) && line.ends_with(behind), "{line}");
    let former = Sleeper::start(Command::new(&program).env("LD_PRELOAD", &place.stub));
    let line = said(&[&former.id()], 1);
    assert!(line.starts_with(&format!("vcm: {} runs vcmalloc", former.id())), "{line}");
    assert!(line.ends_with("which is older than 'vcm stat'; restart it on this one\n"), "{line}");
}

#[test]
fn stat_and_config_say_the_same_bound_of_the_caches_and_why() {
    let place = Place::new();
    let Some(library) = real_library() else { return };
    let process =
        Sleeper::start(Command::new(place.program("bounded", PROGRAM, &[])).env("LD_PRELOAD", library));
    let own = vcm_inspect::process::Process::new(std::process::id() as i32);
    let cpus = own.usable_cpus().unwrap();
    if cpus == 1 {
        vcmalloc_tests::skip!("one CPU");
        return;
    }
    let stat = done(&mut vcm(&["stat", &process.id()])).out;
    let config = done(&mut vcm(&["config", &process.id()])).out;
    let all = 16 * cpus;
    let said = format!("16.0 MiB for the CPU in use; {all}.0 MiB for {cpus} CPUs once needed\n");
    assert!(cpus > 60 || stat.contains(&said), "{stat}");
    let said = format!("auto (16M for the CPU in use; {all}M for {cpus} CPUs once needed)");
    assert!(cpus > 60 || config.contains(&said), "{config}");
}

#[test]
fn a_name_that_fits_several_names_them_all() {
    let place = Place::new();
    let name = format!("two{}", std::process::id());
    let program = place.program(&name, PROGRAM, &[]);
    let first = Sleeper::start(&mut Command::new(&program));
    let one = said(&[&name], 1);
    assert!(one.starts_with(&format!("vcm: {} runs on glibc", first.id())), "{one}");
    let second = Sleeper::start(&mut Command::new(&program));
    let mut ids = [first.id(), second.id()].map(|id| id.parse::<i32>().unwrap());
    ids.sort_unstable();
    let [low, high] = ids;
    let expected =
        format!("vcm: 2 processes are called '{name}': {low} {high}; give a process id: vcm stat {low}\n");
    assert_eq!(said(&[&name], 1), expected);
}

#[test]
fn who_may_not_read_the_memory_is_told_the_command_that_may() {
    if !only_root_can("start vcm as another user") {
        return;
    }
    let place = Place::new();
    let program = place.program("plain", PROGRAM, &[]);
    let process = Sleeper::start(&mut Command::new(&program));
    // Another user may reach it there.
    let tool = place.path("vcm");
    support::install(std::path::Path::new(env!("CARGO_BIN_EXE_vcm")), &tool);
    let id = process.id();
    let refused = done(Command::new(&tool).args(["stat", &id]).uid(NOBODY).gid(NOBODY));
    let expected =
        format!("vcm: {id} belongs to root, whose memory only root may read: sudo vcm stat {id}\n");
    assert_eq!((refused.code, refused.err), (Some(1), expected));
    // Its own, but with Yama, or without a right that it would need.
    let own = Sleeper::start(Command::new(&program).uid(NOBODY).gid(NOBODY));
    let id = own.id();
    let result = done(Command::new(&tool).args(["stat", &id]).uid(NOBODY).gid(NOBODY));
    let is_refused = format!("vcm: {id} may be read by root only, as kernel.yama.ptrace_scope is ");
    let is_seen = format!("vcm: {id} runs on glibc");
    assert!(result.err.starts_with(&is_refused) || result.err.starts_with(&is_seen), "{}", result.err);
}

#[test]
fn wrong_arguments_end_with_2() {
    for (arguments, complaint) in [
        (&["1", "-i", "0"][..], "give seconds from 0.01 to 86400"),
        (&["1", "-i", "x"], "give seconds from 0.01 to 86400"),
        (&["1", "--count", "3"], "--interval <SECONDS>"),
        (&["1", "-i", "1", "--count", "0"], "0 is not in 1.."),
        (&[], "<PID|NAME>"),
    ] {
        let result = done(&mut vcm(&[&["stat"], arguments].concat()));
        assert_eq!(result.code, Some(2), "{arguments:?}");
        assert!(result.err.contains(complaint), "{arguments:?}: {}", result.err);
    }
}
