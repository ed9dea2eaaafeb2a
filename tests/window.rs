//! `vcm stat` and its reader on programs that run on the real libraries: the figures are those that the library itself
//! tells, whatever way it got into the program and whatever the program does meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use vcm_inspect::process::Process;
use vcm_inspect::window::{Seen, Snapshot, Watched};
use vcmalloc_tests::{Ground, compile, library, machine};

/// A program that runs on this ground, ended with the test.
struct Running {
    child: Child,
    /// The line that it said when it was ready.
    line: String,
}

impl Running {
    fn start(name: &str, ground: Ground, flags: &[&str], arguments: &[&str]) -> Running {
        Self::start_by(&[], name, ground, flags, arguments)
    }

    /// Started by another program, which is given this one.
    fn start_by(by: &[&str], name: &str, ground: Ground, flags: &[&str], arguments: &[&str]) -> Running {
        let source = library::repository().join("tests/window").join(name);
        let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
        let program = compile::program(&source, ground, &flags).unwrap_or_else(|error| panic!("{error}"));
        let mut command = match by {
            [] => machine::command(&program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&program);
                command
            }
        };
        ground.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
        // At rest nothing is given back between its own look and ours.
        command.args(arguments).env("VCM_JANITOR", "off").stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("it says when it is ready");
        Running { child, line }
    }

    fn seen(&self) -> Seen {
        let id = self.child.id() as i32;
        Seen::open(Process::new(id)).unwrap_or_else(|why| panic!("{id} {why}"))
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to a child of our own that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Exactly those: the process stands still.
const COUNTED: [&str; 18] = [
    "live",
    "quarantined",
    "live_requested",
    "vcpu_caches",
    "transfer",
    "free_in_spans",
    "span_tails",
    "large",
    "large_blocks",
    "mapped",
    "spans",
    "cache_limit",
    "cache_room",
    "slabs",
    "underflows",
    "overflows",
    "released",
    "memory_limit",
];
/// Within 2 %: pages of its own that come into memory after it told them.
const RESIDENT: [&str; 4] = ["resident", "metadata", "dirty_free", "not_in_memory"];

fn compare(running: &Running, snapshot: &Snapshot, on: &str) {
    let told: Value = serde_json::from_str(&running.line).unwrap_or_else(|error| panic!("{on}: {error}"));
    let resident = told["resident"].as_u64().expect("a number");
    assert_eq!((&snapshot.torn, snapshot.missing.as_slice()), (&None, &[][..]), "{on}");
    let mut found = 0;
    snapshot.stats.each(|name, seen| {
        let told = told[name].as_u64().unwrap_or_else(|| panic!("{on}: {name}"));
        if COUNTED.contains(&name) {
            assert_eq!(seen, told, "{on}: {name}");
            found += 1;
        } else if RESIDENT.contains(&name) {
            assert!(seen.abs_diff(told) <= resident / 50, "{on}: {name}: {seen}, told {told}");
            found += 1;
        }
    });
    assert_eq!(found, COUNTED.len() + RESIDENT.len());
    let stats = &snapshot.stats;
    assert!(
        stats.live > 10 << 20 && stats.vcpu_caches + stats.transfer > 0 && stats.free_in_spans > 0,
        "{on}"
    );
    let rss = snapshot.process.expect("its mappings are told").rss;
    assert!(stats.resident <= rss + rss / 50, "{on}: {} of {rss}", stats.resident);
    let classes = told["classes"].as_array().expect("classes").len();
    assert_eq!(snapshot.classes.iter().filter(|class| class.spans > 0).count(), classes, "{on}");
}

#[test]
fn figures_are_those_that_the_library_tells_preloaded_hardened_locked_and_linked() {
    for ground in [Ground::Preload, Ground::Hardened, Ground::Locked, Ground::Static] {
        let running = Running::start("steady.c", ground, &[], &[]);
        compare(&running, &running.seen().snapshot().expect("seen"), ground.name());
    }
}

#[test]
fn a_static_program_without_symbols_and_without_its_file_is_seen() {
    for flags in [&["-static", "-s"][..], &["-static-pie", "-s"]] {
        let running = Running::start("steady.c", Ground::Static, flags, &[]);
        let file = std::fs::read_link(format!("/proc/{}/exe", running.child.id())).expect("its program");
        std::fs::remove_file(file).expect("its file goes");
        compare(&running, &running.seen().snapshot().expect("seen"), flags[0]);
    }
}

#[test]
fn a_process_in_namespaces_of_its_own_is_seen_from_the_host() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        vcmalloc_tests::skip!("only root can make namespaces");
        return;
    }
    let by = ["unshare", "--pid", "--fork", "--mount", "--kill-child"];
    let running = Running::start_by(&by, "steady.c", Ground::Preload, &[], &[]);
    let id = running.child.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("children");
    let inside = Process::new(children.trim().parse().expect("one child"));
    let numbers = inside.status("NSpid").unwrap_or_default();
    assert!(numbers.ends_with("\t1"), "it is the first of its namespace: {numbers}");
    let seen = Seen::open(inside).unwrap_or_else(|why| panic!("{why}"));
    compare(&running, &seen.snapshot().expect("seen"), "namespaces");
}

#[test]
fn a_stopped_process_is_seen_like_any_other() {
    let running = Running::start("steady.c", Ground::Preload, &[], &[]);
    running.signal(libc::SIGSTOP);
    compare(&running, &running.seen().snapshot().expect("seen"), "stopped");
    // And one that was stopped in the midst of its work: whatever was under way is marked or adds up.
    let running = Running::start("churn.c", Ground::Preload, &[], &["8", "16"]);
    for _ in 0..20 {
        running.signal(libc::SIGSTOP);
        within_bounds(&running.seen().snapshot().expect("seen"), 8, 16);
        running.signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The blocks that stay, and at most those that the threads hold and have in their hands between two tiers.
fn within_bounds(snapshot: &Snapshot, threads: u64, megabytes: u64) {
    if snapshot.torn.is_some() {
        return;
    }
    let (least, stats) = (megabytes << 20, &snapshot.stats);
    // 64 blocks of at most 2 KiB, and a batch.
    let most = least + threads * (64 * 2304 + (128 << 10)) + (4 << 20);
    assert!((least..=most).contains(&stats.live), "{least} <= {} <= {most}", stats.live);
    assert!(stats.vcpu_caches + stats.transfer <= stats.cache_limit.max(32 << 20), "{stats:?}");
}

/// Looks of each kind; more of them than `make test` has time for are asked for by `VCM_WINDOW_LOOKS`.
fn looks(usually: usize) -> usize {
    std::env::var("VCM_WINDOW_LOOKS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

/// Looks so often, while `between` is done, at a process whose figures are known, and tells how many were whole.
fn no_look_is_wrong_and_unmarked(
    what: &str,
    running: &Running,
    count: usize,
    mut between: impl FnMut(usize),
) {
    let mut watched = Watched::new(running.seen());
    let (mut whole, mut apart) = (0, 0);
    for at in 0..count {
        between(at);
        // Every hundredth counts pages whatever they cost.
        let snapshot = if at % 100 == 0 { running.seen().snapshot() } else { watched.look() };
        let snapshot = snapshot.unwrap_or_else(|why| panic!("{what}, look {at}: {why}"));
        within_bounds(&snapshot, 64, 64);
        adds_up(&snapshot);
        whole += usize::from(snapshot.torn.is_none());
        apart += usize::from(snapshot.pages_apart);
    }
    println!("{what}: {count} looks, {} torn, {apart} apart", count - whole);
    assert!(whole >= count / 10, "{what}: of {count} looks {whole} were whole");
}

/// A look that is not marked leads from live bytes to what is in memory, within 2 % of RSS.
fn adds_up(snapshot: &Snapshot) {
    if !snapshot.is_whole() {
        return;
    }
    let (stats, rss) = (&snapshot.stats, snapshot.process.expect("its mappings are told").rss);
    let caches = stats.quarantined + stats.vcpu_caches + stats.transfer;
    let free = stats.free_in_spans + stats.span_tails + stats.dirty_free;
    let sum = stats.live_requested + stats.waste() + caches + free + stats.metadata - stats.not_in_memory;
    assert!(sum.abs_diff(stats.resident) <= rss / 50, "{sum} and {} of {rss}", stats.resident);
    assert!(stats.resident <= rss + rss / 50, "{} of {rss}", stats.resident);
}

#[test]
fn no_look_at_64_threads_that_churn_while_children_fork_is_wrong_and_unmarked() {
    let running = Running::start("churn.c", Ground::Preload, &[], &["64", "64"]);
    no_look_is_wrong_and_unmarked("churn", &running, looks(1000), |_| ());
}

#[test]
fn no_look_at_64_threads_that_are_stopped_at_any_instant_is_wrong_and_unmarked() {
    let running = Running::start("churn.c", Ground::Preload, &[], &["64", "64"]);
    no_look_is_wrong_and_unmarked("stopped", &running, looks(1000), |at| {
        // Ten looks at each instant at which it was stopped.
        if at % 10 == 0 {
            running.signal(libc::SIGCONT);
            std::thread::sleep(Duration::from_millis(1));
            running.signal(libc::SIGSTOP);
        }
    });
}

/// The pattern for dumps of core, as long as this lives one by which the kernel pipes them into a program of ours. A child puts it
/// back, also where this process is killed.
struct SlowDumps {
    watch: std::process::Child,
    folder: std::path::PathBuf,
}

/// Set where the whole machine's pattern for dumps of core may be another for some seconds: it belongs to no namespace.
const MAY_CHANGE_PATTERN: &str = "VCMALLOC_TEST_CORE_PATTERN";

const PATTERN: &str = "/proc/sys/kernel/core_pattern";

impl SlowDumps {
    /// The dump of the process of this name waits for as long as `folder/wait` is there; others are let go at once.
    fn of(name: &str) -> SlowDumps {
        let folder = library::work_directory("slow-dumps");
        let program = folder.join("take");
        let wait = folder.join("wait");
        std::fs::write(&wait, "").expect("written");
        // It reads nothing, so the pipe is full and the dump stands in its midst.
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = {name} ] || exit 0\nwhile [ -e {wait} ]; do sleep 0.1; done\n",
            wait = wait.display()
        );
        std::fs::write(&program, script).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("a program");
        // It waits for the end of its input, which comes however this process ends.
        let restore =
            format!("before=$(cat {PATTERN}); echo known; read -r _; printf '%s\\n' \"$before\" >{PATTERN}");
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", &restore]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut watch = command.spawn().expect("it starts");
        let mut line = String::new();
        let output = watch.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("it knows the pattern");
        std::fs::write(PATTERN, format!("|{} %e", program.display())).expect("set");
        SlowDumps { watch, folder }
    }
}

impl Drop for SlowDumps {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        let _ = self.watch.wait();
        let _ = std::fs::remove_file(self.folder.join("wait"));
    }
}

#[test]
fn no_look_at_64_threads_whose_core_is_dumped_into_a_slow_pipe_is_wrong_and_unmarked() {
    if std::env::var_os(MAY_CHANGE_PATTERN).is_none() {
        vcmalloc_tests::skip!(
            "it changes where this machine's cores go, so it is only done with {MAY_CHANGE_PATTERN}=1"
        );
        return;
    }
    if std::fs::OpenOptions::new().write(true).open(PATTERN).is_err() {
        vcmalloc_tests::skip!("only root of the host can say where cores go");
        return;
    }
    let mut running = Running::start("churn.c", Ground::Preload, &[], &["64", "64"]);
    let name = std::fs::read_to_string(format!("/proc/{}/comm", running.child.id())).expect("a name");
    let dumps = SlowDumps::of(name.trim_end());
    running.signal(libc::SIGABRT);
    let is_dumping = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", running.child.id()));
        status.expect("its state").contains("CoreDumping:\t1")
    };
    for _ in 0..1000 {
        if is_dumping() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(is_dumping(), "no dump began");
    no_look_is_wrong_and_unmarked("core dump", &running, looks(1000), |_| ());
    assert!(is_dumping(), "it was over before the looks were");
    drop(dumps);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(running.child.wait().expect("it ends").signal(), Some(libc::SIGABRT));
}

#[test]
fn looks_in_a_row_count_pages_seldom_and_say_how_old_they_are() {
    let running = Running::start("steady.c", Ground::Preload, &[], &[]);
    let mut watched = Watched::new(running.seen());
    let first = watched.look().expect("seen");
    assert!(first.is_whole(), "{:?}", first.torn);
    let began = std::time::Instant::now();
    let looks: Vec<Snapshot> = (0..50).map(|_| watched.look().expect("seen")).collect();
    let counted = looks.windows(2).filter(|two| two[1].pages_age < two[0].pages_age).count();
    // A count of these pages takes a tenth of a millisecond at least, so it is due after 100 ms at the earliest.
    let most = 1 + began.elapsed().as_millis() as usize / 50;
    assert!(counted <= most, "{counted} of 50 counted pages, {most} may");
    for look in &looks {
        assert!(look.is_whole());
        assert_eq!(look.stats.live, first.stats.live);
        assert_eq!(look.stats.resident, first.stats.resident);
    }
}

#[test]
fn pages_that_do_not_fit_any_more_are_marked() {
    let running = Running::start("grows.c", Ground::Preload, &[], &["64"]);
    let mut watched = Watched::new(running.seen());
    assert!(watched.look().expect("seen").is_whole());
    running.signal(libc::SIGUSR1);
    // Until it has grown by half, as the counters say: then the old pages are apart, or were counted anew.
    for _ in 0..1000 {
        let look = watched.look().expect("seen");
        let grown = look.stats.live > 90 << 20;
        let told = look.process.expect("its mappings are told").rss;
        let resident = look.stats.resident;
        // Files and stacks of some MiB are no heap.
        let fits = told.abs_diff(resident) <= told / 50 + (6 << 20);
        assert!(!look.is_whole() || fits, "{resident} of {told} and unmarked");
        if grown {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("it never grew");
}

#[test]
fn a_process_that_ends_or_becomes_another_program_is_an_end_and_no_figure() {
    let mut running = Running::start("steady.c", Ground::Preload, &[], &[]);
    let seen = running.seen();
    running.child.kill().expect("killed");
    // Its memory goes before its state says that it is gone.
    while seen.process.is_alive() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let zombie = seen.snapshot().err().expect("no figures");
    assert_eq!(zombie, "has ended and waits for its parent (zombie)");
    running.child.wait().expect("waited for");
    assert_eq!(seen.snapshot().err().expect("no figures"), "does not run: no such process");
    let running = Running::start("steady.c", Ground::Preload, &["-DBECOMES=\"/bin/sleep\""], &[]);
    let seen = running.seen();
    running.signal(libc::SIGUSR1);
    let end = loop {
        match seen.snapshot() {
            Ok(_) => std::thread::sleep(Duration::from_millis(10)),
            Err(why) => break why,
        }
    };
    assert_eq!(end, "has ended, or became another program");
}

#[test]
fn the_tool_shows_the_bridge_in_80_columns_and_lines_until_it_is_interrupted() {
    let running = Running::start("steady.c", Ground::Preload, &[], &[]);
    let tool = library::tool().unwrap_or_else(|error| panic!("{error}"));
    let id = running.child.id().to_string();
    let stat = |arguments: &[&str]| {
        let output = Command::new(&tool).args(["stat", &id]).args(arguments).output().expect("vcm starts");
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && complaints.is_empty(), "{complaints}");
        String::from_utf8(output.stdout).expect("text")
    };
    let page = stat(&[]);
    for label in [
        "live, as requested",
        "= resident memory of the heap",
        "= RSS",
        "environment",
        "went back",
        "registered \
         by",
    ] {
        assert!(page.contains(label), "{label} is missing\n{page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let object: Value = serde_json::from_str(&stat(&["--json"])).expect("JSON");
    assert_eq!((&object["pid"], &object["torn"]), (&running.child.id().into(), &Value::Null));
    assert!(object["rss"].as_u64() >= object["resident"].as_u64(), "{object}");
    let rows = stat(&["-i", "0.02", "--count", "25"]);
    // A heading is said again after 20 lines.
    assert_eq!(rows.lines().count(), 27, "{rows}");
    assert!(rows.lines().all(|line| line.chars().count() <= 80), "{rows}");
    assert_eq!(stat(&["-i", "0.02", "--count", "3", "--json"]).lines().count(), 3);
    let mut endless =
        Command::new(&tool).args(["stat", &id, "-i", "600"]).stdout(Stdio::piped()).spawn().expect("starts");
    let mut reader = BufReader::new(endless.stdout.take().expect("a pipe"));
    let mut line = String::new();
    // The heading and the first row: it waits now, or will.
    (0..2).for_each(|_| drop(reader.read_line(&mut line)));
    // SAFETY: sends a signal to a child of our own that was not waited for.
    unsafe { libc::kill(endless.id() as i32, libc::SIGINT) };
    assert_eq!(endless.wait().expect("it ends").code(), Some(0));
}
