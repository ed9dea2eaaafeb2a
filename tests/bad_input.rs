//! `vcm stat`, `top`, `set` and `release` where they cannot do or say what was asked for: clear words, the exit codes of
//! their help, and a process that is as it was. `vcm profile` has its own in tests/profile.rs.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use vcm_inspect::process::Process;
use vcm_inspect::window::Seen;
use vcm_inspect::window::orders::{Answer, Order, give};
use vcmalloc_tests::{Ground, compile, library, machine};

/// A program that has a janitor and sleeps, ended with the test.
struct Idle(Child);

impl Idle {
    fn start(ground: Ground) -> Idle {
        let source = library::repository().join("tests/orders/idle.c");
        let program = compile::program(&source, ground, &["-pthread".into()]).unwrap();
        let mut command = machine::command(&program);
        ground.prepare(&mut command).unwrap();
        Self::of(command.arg("thread"))
    }

    fn of(command: &mut Command) -> Idle {
        library::tool().unwrap_or_else(|error| panic!("{error}"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Idle(child)
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn seen(&self) -> Seen {
        Seen::open(Process::new(self.0.id() as i32)).unwrap_or_else(|why| panic!("{} {why}", self.id()))
    }

    fn cache_limit(&self) -> u64 {
        self.seen().snapshot().unwrap().setting("cache_limit").expect("an option").value
    }

    /// Nobody traces a thread of it, none is stopped, and it takes orders.
    fn is_as_before(&self) {
        for thread in fs::read_dir(format!("/proc/{}/task", self.id())).unwrap().flatten() {
            let status = fs::read_to_string(thread.path().join("status")).unwrap();
            let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
            assert_eq!(line("TracerPid:"), "TracerPid:\t0", "{status}");
            assert!(!line("State:").contains("stopped"), "{status}");
        }
        // On a busy machine the one before may still lie there.
        for _ in 0..400 {
            if matches!(give(&self.seen(), &Order::Set("retain=1")), Ok(Answer::Done(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it takes no orders any more");
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn vcm(arguments: &[&str]) -> Command {
    let mut command = Command::new(library::tool().unwrap_or_else(|error| panic!("{error}")));
    Ground::Glibc.prepare(&mut command).unwrap();
    command.args(arguments);
    command
}

fn said(arguments: &[&str]) -> Output {
    vcm(arguments).output().unwrap()
}

/// The arguments of each verb that names a process.
fn each_verb(target: &str) -> [Vec<&str>; 4] {
    [
        vec!["stat", target],
        vec!["set", target, "retain=1"],
        vec!["release", target],
        vec!["profile", target, "--for", "10m"],
    ]
}

/// Refused by all of them, in one line that has these words, and advises no other verb.
fn all_refuse(target: &str, words: &str) {
    for arguments in each_verb(target) {
        let refused = said(&arguments);
        let line = String::from_utf8_lossy(&refused.stderr);
        assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), &b""[..]), "{line}");
        assert!(line.contains(words) && line.lines().count() == 1, "{arguments:?}: {line}");
        let verb = arguments[0];
        for other in ["stat", "set", "release", "profile"].iter().filter(|other| **other != verb) {
            assert!(!line.contains(&format!("vcm {other}")), "{arguments:?}: {line}");
        }
    }
}

#[test]
fn a_process_without_a_heap_of_ours_is_refused_by_every_verb_in_one_line_that_says_why() {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    all_refuse(&gone.id().to_string(), "does not run: no such process");
    all_refuse("there-is-no-such-name", "no process is called 'there-is-no-such-name'");
    if fs::read("/proc/2/maps").is_ok_and(|maps| maps.is_empty()) {
        all_refuse("2", "2 is a kernel thread: it calls no malloc");
    }
    let mut zombie = Command::new("true").spawn().unwrap();
    while Process::new(zombie.id() as i32).is_alive() {
        std::thread::sleep(Duration::from_millis(5));
    }
    all_refuse(&zombie.id().to_string(), "has ended and waits for its parent (zombie)");
    zombie.wait().unwrap();
}

#[test]
fn a_process_on_another_allocator_is_told_which_one_by_every_verb() {
    let glibc = Idle::start(Ground::Glibc);
    all_refuse(&glibc.id(), "runs on glibc malloc");
    let mut found = 0;
    for (file, name) in [
        ("libjemalloc.so.2", "runs on jemalloc"),
        ("libtcmalloc.so.4", "runs on TCMalloc"),
        ("libtcmalloc_minimal.so.4", "runs on TCMalloc"),
        ("libmimalloc.so.2", "runs on mimalloc"),
        ("libmimalloc.so.2.0", "runs on mimalloc"),
    ] {
        let path = format!("/usr/lib/x86_64-linux-gnu/{file}");
        if !std::path::Path::new(&path).exists() {
            continue;
        }
        let source = library::repository().join("tests/orders/idle.c");
        let program = compile::program(&source, Ground::Glibc, &["-pthread".into()]).unwrap();
        let mut command = machine::command(&program);
        Ground::Glibc.prepare(&mut command).unwrap();
        all_refuse(&Idle::of(command.env("LD_PRELOAD", &path)).id(), name);
        found += 1;
    }
    if found == 0 {
        vcmalloc_tests::skip!("none of jemalloc, TCMalloc and mimalloc is installed");
    }
}

#[test]
fn a_name_that_several_have_is_refused_with_their_numbers_by_every_verb() {
    let two = [Idle::start(Ground::Preload), Idle::start(Ground::Preload)];
    let comm = fs::read_to_string(format!("/proc/{}/comm", two[0].id())).unwrap();
    let name = comm.trim_end();
    for arguments in each_verb(name) {
        let line = String::from_utf8_lossy(&said(&arguments).stderr).into_owned();
        assert!(line.contains(&format!("processes are called '{name}': ")), "{line}");
        assert!(two.iter().all(|idle| line.contains(&format!(" {}", idle.id()))), "{line}");
        assert!(line.contains(&format!("give a process id: vcm {} ", arguments[0])), "{line}");
    }
    two.iter().for_each(Idle::is_as_before);
}

#[test]
fn top_shows_the_others_whatever_cannot_be_shown() {
    let idle = Idle::start(Ground::Preload);
    let stopped = Idle::start(Ground::Preload);
    signal(&stopped.0, libc::SIGSTOP);
    let other = Idle::start(Ground::Glibc);
    let mut zombie = Command::new("true").spawn().unwrap();
    while Process::new(zombie.id() as i32).is_alive() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let shown = said(&["top", "--json"]);
    assert_eq!(shown.status.code(), Some(0), "{}", String::from_utf8_lossy(&shown.stderr));
    let object: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let ids: Vec<u64> =
        object["processes"].as_array().unwrap().iter().filter_map(|row| row["pid"].as_u64()).collect();
    for (child, is_shown) in [(&idle.0, true), (&stopped.0, true), (&other.0, false), (&zombie, false)] {
        assert_eq!(ids.contains(&u64::from(child.id())), is_shown, "{}: {ids:?}", child.id());
    }
    signal(&stopped.0, libc::SIGCONT);
    zombie.wait().unwrap();
}

#[test]
fn a_full_disk_is_told_and_ends_with_1() {
    let idle = Idle::start(Ground::Preload);
    let id = idle.id();
    for arguments in [
        &["stat", &id][..],
        &["stat", &id, "--json"],
        &["stat", &id, "-i", "0.01"],
        &["stat", &id, "-i", "0.01", "--json"],
        &["top"],
        &["top", "--json"],
        &["set", &id, "cache_limit=3M"],
        &["release", &id],
        &["profile", &id, "--for", "0.05s", "-o", "-"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let told = vcm(arguments).stdout(full).output().unwrap();
        let line = String::from_utf8_lossy(&told.stderr);
        assert_eq!(told.status.code(), Some(1), "{arguments:?}: {line}");
        assert!(line.contains("No space left"), "{arguments:?}: {line}");
    }
    assert_eq!(idle.cache_limit(), 3 << 20, "what was asked for was done; only the words had no room");
    idle.is_as_before();
}

#[test]
fn a_reader_that_went_away_ends_it_without_a_word() {
    let idle = Idle::start(Ground::Preload);
    let id = idle.id();
    for arguments in [
        &["stat", &id][..],
        &["stat", &id, "-i", "0.01"],
        &["stat", &id, "-i", "0.01", "--json"],
        &["top"],
        &["top", "--json"],
        &["set", &id, "cache_limit=3M"],
        &["release", &id],
    ] {
        let mut unread = vcm(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(unread.stdout.take());
        let ended = unread.wait_with_output().unwrap();
        let line = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), &*line), (Some(0), ""), "{arguments:?}");
    }
    idle.is_as_before();
}

fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: sends a signal to a child of our own that was not waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

#[test]
fn a_closed_terminal_and_ctrl_c_end_the_lines_of_stat_and_cut_none() {
    let idle = Idle::start(Ground::Preload);
    for (number, code) in [(libc::SIGINT, Some(0)), (libc::SIGHUP, None), (libc::SIGTERM, None)] {
        let mut stat =
            vcm(&["stat", &idle.id(), "-i", "0.01", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(stat.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        signal(&stat, number);
        let rest: Vec<String> = out.lines().map(|line| line.unwrap()).collect();
        let ended = stat.wait().unwrap();
        assert_eq!(ended.code(), code);
        assert!(code.is_some() || ended.signal() == Some(number), "{ended:?}");
        if code.is_some() {
            assert!(rest.iter().all(|line| line.starts_with('{') && line.ends_with('}')), "{rest:?}");
        }
        idle.is_as_before();
    }
}

#[test]
fn ctrl_c_at_any_time_leaves_the_process_as_it_was() {
    let idle = Idle::start(Ground::Preload);
    let id = idle.id();
    for (at, number) in (0..60).zip([libc::SIGINT, libc::SIGHUP, libc::SIGKILL].into_iter().cycle()) {
        let arguments: &[&str] = match at % 2 {
            0 => &["set", &id, "cache_limit=2M", "release_delay=300ms"],
            _ => &["release", &id],
        };
        let mut asked = vcm(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // From before it has looked for the process until after it was answered.
        std::thread::sleep(Duration::from_micros(at * 250));
        signal(&asked, number);
        let ended = asked.wait().unwrap();
        // 3: on a busy machine it may have been answered later.
        let has_ended = matches!(ended.code(), Some(0 | 3)) || ended.signal() == Some(number);
        assert!(has_ended, "{ended:?}");
        if at % 10 == 9 {
            idle.is_as_before();
        }
    }
    idle.is_as_before();
}
