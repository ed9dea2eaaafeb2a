//! `vcm profile` on programs that allocate, leak and pin what they say: right names on top, in the hands of pprof as well,
//! and whatever ends it, the process is as it was before.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use vcm_inspect::process::Process;
use vcm_inspect::window::orders::{self, Order};
use vcm_inspect::window::{Seen, Snapshot};
use vcm_profile::{Measure, Profile, chains};
use vcmalloc_tests::{Ground, compile, library, machine};

#[path = "profile/tenants.rs"]
mod tenants;

/// A program of ours on this ground, ended with the test.
struct Running {
    child: Child,
    /// The line that it said when it was ready.
    line: String,
}

const ON: &[(&str, &str)] = &[("VCM_PROFILE", "on"), ("VCM_SAMPLE_INTERVAL", "64K")];

impl Running {
    fn start(name: &str, ground: Ground, variables: &[(&str, &str)]) -> Running {
        let program = program(name, ground, &[]);
        let mut command = machine::command(&program);
        ground.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
        Self::of(command.envs(variables.iter().copied()))
    }

    fn of(command: &mut Command) -> Running {
        // Before anything runs and grows: building it may take minutes.
        library::tool().unwrap_or_else(|error| panic!("{error}"));
        // Its input ends with us at the latest.
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("it says when it is ready");
        assert!(!line.is_empty(), "it ended at once");
        Running { child, line }
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }

    fn seen(&self) -> Seen {
        let id = self.child.id() as i32;
        Seen::open(Process::new(id)).unwrap_or_else(|why| panic!("{id} {why}"))
    }

    fn signal(&self, signal: libc::c_int) {
        send(&self.child, signal);
    }

    /// Takes orders, samples nothing, and at the interval of its start.
    fn is_as_before(&self) {
        let seen = self.seen();
        let given = orders::give(&seen, &Order::Set("retain=1"));
        assert!(matches!(given, Ok(orders::Answer::Done(_))), "{given:?}");
        assert_eq!(seen.is_profiling(), Some(false));
        let snapshot = seen.snapshot().expect("seen");
        assert_eq!((value(&snapshot, "profile"), value(&snapshot, "sample_interval")), (0, 512 << 10));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn value(snapshot: &Snapshot, name: &str) -> u64 {
    snapshot.setting(name).expect("an option").value
}

fn send(child: &Child, signal: libc::c_int) {
    // SAFETY: sends a signal to a child of our own that was not waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

fn program(name: &str, ground: Ground, flags: &[&str]) -> PathBuf {
    let source = library::repository().join("tests/profile").join(name);
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    compile::program(&source, ground, &flags).unwrap_or_else(|error| panic!("{error}"))
}

fn vcm(arguments: &[&str]) -> Command {
    let mut command = Command::new(library::tool().unwrap_or_else(|error| panic!("{error}")));
    Ground::Glibc.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
    command.arg("profile").args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    vcm(arguments).output().expect("vcm starts")
}

/// The table, where all went well.
fn table(arguments: &[&str]) -> String {
    let output = output(arguments);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaints}");
    String::from_utf8(output.stdout).expect("text")
}

/// The call sites of a table, in order.
fn rows(table: &str) -> Vec<String> {
    let heading = table.lines().position(|line| line.ends_with("call site")).expect("a heading");
    let lines = table.lines().skip(heading + 1).take_while(|line| !line.ends_with("in all"));
    let name = |line: &str| line.chars().skip(FIGURES).collect::<String>();
    lines.map(|line| name(line).split("  ").next().unwrap_or_default().to_string()).collect()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Columns before the name of a call site.
const FIGURES: usize = 51;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

fn saved(path: &Path) -> Profile {
    Profile::from_pprof(&fs::read(path).expect("it was written")).expect("a profile")
}

#[test]
fn sites_are_named_and_hold_what_they_say_on_every_library() {
    for ground in [Ground::Preload, Ground::Locked, Ground::Static, Ground::Hardened] {
        let running = Running::start("sites.cc", ground, ON);
        let held: Vec<f64> =
            running.line.split_whitespace().map(|word| word.parse().expect("bytes")).collect();
        let folder = folder();
        let file = folder.path().join("sites.pb.gz");
        let table = table(&[&running.id(), "-o", text(&file)]);
        let expected = [("Index::fill", held[2]), ("hold_large", held[1]), ("hold_small", held[0])];
        let found = chains(&saved(&file), Measure::Live);
        for (name, bytes) in expected {
            let of_it =
                found.iter().filter(|chain| chain.own().is_some_and(|own| own.function.starts_with(name)));
            let (mut sum, mut variance) = (0.0, 0.0);
            of_it.for_each(|chain| {
                (sum, variance) = (sum + chain.amount.bytes, variance + chain.amount.variance)
            });
            let error = variance.sqrt().max(bytes / 50.0);
            assert!((sum - bytes).abs() < 5.0 * error, "{}: {name}: {sum} ± {error}, {bytes}", ground.name());
        }
        let rows = rows(&table);
        for ((name, _), row) in expected.iter().zip(&rows) {
            assert!(row.starts_with(name), "{}: {table}", ground.name());
        }
        assert_eq!(running.seen().is_profiling(), Some(true), "what was on stays on");
    }
}

/// The output of another tool about a file, where the tool is installed.
fn shown_by(tool: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(tool).args(arguments).output() {
        Ok(output) => output,
        Err(_) => {
            vcmalloc_tests::skip!("{tool} is not installed");
            return None;
        }
    };
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_leak_in_a_busy_server_is_the_first_line_and_both_pprofs_see_it() {
    let running = Running::start("server.cc", Ground::Preload, &[]);
    let folder = folder();
    let [file, text_file, page] =
        ["leak.pb.gz", "leak.heap", "leak.html"].map(|name| folder.path().join(name));
    let common = [&running.id(), "--for", "1.5s", "--interval", "16K"];
    let table = table(&[&common[..], &["-o", text(&file), "--flamegraph", text(&page)]].concat());
    assert_eq!(rows(&table)[0], "remember_request", "{table}");
    running.is_as_before();
    let first_of = |shown: &str| {
        let line = shown.lines().find(|line| {
            line.split_whitespace().count() >= 6 && line.contains('%') && !line.contains("flat")
        });
        line.map(str::to_string).unwrap_or_default()
    };
    if let Some(shown) = shown_by("go", &["tool", "pprof", "-top", text(&file)]) {
        assert!(shown.contains("Type: inuse_space"), "{shown}");
        assert!(shown.lines().any(|line| line.ends_with(" remember_request")), "{shown}");
        let first = shown.lines().skip_while(|line| !line.contains("flat%")).nth(1).unwrap_or_default();
        assert!(first.ends_with("remember_request"), "{shown}");
    }
    self::table(&[&common[..], &["-o", text(&text_file), "--format", "gperftools"]].concat());
    let program = program("server.cc", Ground::Preload, &[]);
    if let Some(shown) = shown_by("google-pprof", &["--text", text(&program), text(&text_file)]) {
        assert!(first_of(&shown).ends_with("remember_request"), "{shown}");
    }
    let page = fs::read_to_string(page).expect("a page");
    assert!(
        page.contains("\"n\":\"remember_request\"")
            && !page.replace("http://www.w3.org/2000/svg", "").contains("://"),
        "a page that needs no network"
    );
    // The build-id by which other tools find the program's own symbols.
    let profile = saved(&file);
    let mapping = profile
        .mappings
        .iter()
        .find(|mapping| mapping.file == text(&program))
        .expect("the program is mapped");
    let notes = shown_by("readelf", &["-n", text(&program)]).expect("binutils");
    assert!(mapping.build_id.len() >= 16 && notes.contains(&mapping.build_id), "{notes}");
}

#[test]
fn what_is_allocated_meanwhile_is_counted_and_not_what_was_before() {
    let running = Running::start("server.cc", Ground::Preload, ON);
    let folder = folder();
    let [before, after] = ["before", "after"].map(|name| folder.path().join(name));
    let allocated = |arguments: &[&str], file: &Path| {
        table(&[&[&running.id(), "-o", text(file)], arguments].concat());
        saved(file).total(Measure::Allocated).bytes
    };
    // So much that it would be seen in what follows.
    while allocated(&[], &before) < (20 << 20) as f64 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let then = saved(&before).total(Measure::Allocated).bytes;
    let meanwhile = allocated(&["--allocated", "--for", "0.2s"], &after);
    let all = allocated(&[], &after);
    assert!(meanwhile > 0.0 && meanwhile <= all - then + 1.0, "{meanwhile} of {all} - {then}");
    let grown = table(&["--diff", text(&before), text(&after)]);
    assert_eq!(rows(&grown)[0], "remember_request", "{grown}");
    assert_eq!(running.seen().is_profiling(), Some(true), "what was on stays on");
}

#[test]
fn a_command_is_profiled_from_its_start_to_its_end_whatever_that_is() {
    let program = program("sites.cc", Ground::Preload, &[]);
    // The library lies beside the tool, and is found there.
    library::shared().unwrap_or_else(|error| panic!("{error}"));
    for (word, code) in [("7", 7), ("-15", 143), ("-9", 137)] {
        let mut command = vcm(&["--interval", "64K", "--", text(&program), word]);
        let output = command.output().expect("vcm starts");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{word}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(rows(&shown)[0], "Index::fill()", "{word}: {shown}");
    }
    let output = output(&["--", "/there/is/no/such/program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(output.stdout.is_empty());
}

#[test]
fn whatever_ends_it_the_process_is_as_it_was_before() {
    let running = Running::start("server.cc", Ground::Preload, &[]);
    let id = running.id();
    for (signal, code) in [(libc::SIGINT, 0), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let mut command = vcm(&[&id, "--for", "10m", "--interval", "32K"]);
        let mut started = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("vcm starts");
        let mut line = String::new();
        BufReader::new(started.stderr.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("it says that it looks");
        assert!(line.contains("vcm: profiling ") && line.contains("for 10m"), "{line}");
        assert_eq!(running.seen().is_profiling(), Some(true));
        send(&started, signal);
        assert_eq!(started.wait().expect("it ends").code(), Some(code), "signal {signal}");
        running.is_as_before();
    }
    let full = output(&[&id, "--for", "0.1s", "-o", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&full.stderr).contains("/dev/full: not written: No space left"),
        "{full:?}"
    );
    running.is_as_before();
    let nowhere = output(&[&id, "--for", "10m", "-o", "/there/is/no/folder"]);
    assert_eq!(nowhere.status.code(), Some(1), "before anything is waited for");
    running.is_as_before();
    // Nobody reads any more.
    let mut command = vcm(&[&id, "--for", "0.1s"]);
    let mut unread = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("vcm starts");
    drop((unread.stdout.take(), unread.stderr.take()));
    assert_eq!(unread.wait().expect("it ends").code(), Some(0));
    running.is_as_before();
}

#[test]
fn a_stopped_process_is_left_as_it_is_and_seen_where_it_samples_already() {
    let running = Running::start("server.cc", Ground::Preload, &[]);
    running.signal(libc::SIGSTOP);
    let refused = output(&[&running.id(), "--for", "0.1s"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("is stopped, and takes no samples"),
        "{refused:?}"
    );
    running.signal(libc::SIGCONT);
    while !matches!(orders::give(&running.seen(), &Order::Set("retain=1")), Ok(orders::Answer::Done(_))) {
        std::thread::sleep(Duration::from_millis(10));
    }
    running.is_as_before();
    let running = Running::start("sites.cc", Ground::Preload, ON);
    running.signal(libc::SIGSTOP);
    assert!(rows(&table(&[&running.id()]))[0].starts_with("Index::fill"));
    running.signal(libc::SIGCONT);
}

#[test]
fn an_idle_process_of_one_thread_is_told_from_one_that_allocates_nothing() {
    let running = Running::start("idle.c", Ground::Preload, &[]);
    let output = output(&[&running.id(), "--for", "0.1s"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("has not started a profile: it is idle"),
        "{output:?}"
    );
    assert_eq!(running.seen().is_profiling(), Some(false));
}

#[test]
fn who_leaves_one_block_in_twenty_pins_the_pages_and_who_leaves_all_does_not() {
    // On a busy machine the program takes longer than the delay, and pages that nothing holds go back.
    let variables = [ON, &[("VCM_RELEASE_DELAY", "1h")]].concat();
    let running = Running::start("pinned.c", Ground::Preload, &variables);
    let live = table(&[&running.id()]);
    assert_eq!(rows(&live)[..2], ["keeps_all", "keeps_few"], "{live}");
    let folder = folder();
    let file = folder.path().join("pinned");
    let pinned = table(&[&running.id(), "--pinned", "-o", text(&file)]);
    assert_eq!(rows(&pinned)[0], "keeps_few", "{pinned}");
    let found = chains(&saved(&file), Measure::Pinned);
    let of = |name: &str| -> f64 {
        let is_it = |chain: &&vcm_profile::Chain| chain.own().is_some_and(|own| own.function == name);
        found.iter().filter(is_it).map(|chain| chain.amount.bytes).sum()
    };
    let held = running.seen().snapshot().expect("seen").stats.free_in_spans as f64;
    assert!(of("keeps_few") > 0.8 * held && of("keeps_few") < 1.2 * held, "{} of {held}", of("keeps_few"));
    assert!(of("keeps_all") < 0.1 * held, "{} of {held}", of("keeps_all"));
}

#[test]
fn stripped_programs_are_named_by_what_is_left_of_them() {
    let folder = folder();
    let stripped = folder.path().join("bare");
    let program = program("idle.c", Ground::Preload, &[]);
    let source = library::repository().join("tests/profile/sites.cc");
    let built = machine::compiler("g++")
        .args(["-O1", "-s", "-fno-builtin", "-std=c++17", "-pthread", "-o", text(&stripped), text(&source)])
        .status();
    assert!(built.is_ok_and(|status| status.success()) && program.exists());
    let mut command = Command::new(&stripped);
    Ground::Preload.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
    let running = Running::of(command.envs(ON.iter().copied()));
    // Its file is gone as well: the mapping is still there.
    fs::remove_file(&stripped).expect("its file goes");
    let shown = table(&[&running.id()]);
    assert!(rows(&shown)[0].starts_with("bare+0x"), "{shown}");
}

#[test]
fn a_process_that_cannot_be_profiled_is_refused_in_a_line() {
    let idle = Running::start("idle.c", Ground::Glibc, &[]);
    let ended = {
        let mut child = Command::new("true").spawn().expect("it starts");
        child.wait().expect("it ends");
        child.id().to_string()
    };
    for (target, words) in [
        (idle.id().as_str(), "runs on glibc malloc"),
        (ended.as_str(), "does not run: no such process"),
        ("2", "is a kernel thread"),
        ("there-is-no-such-name", "no process is called"),
    ] {
        if target == "2" && fs::read_to_string("/proc/2/comm").ok().as_deref() != Some("kthreadd\n") {
            vcmalloc_tests::skip!("2 is no kernel thread here, as in a container");
            continue;
        }
        let refused = output(&[target, "--for", "10m"]);
        let line = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{line}");
        assert!(line.contains(words) && line.lines().count() == 1, "{line}");
    }
    let mut zombie = Command::new("true").spawn().expect("it starts");
    while Process::new(zombie.id() as i32).is_alive() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = output(&[&zombie.id().to_string()]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("zombie"), "{refused:?}");
    zombie.wait().expect("waited for");
    assert_eq!(output(&[]).status.code(), Some(2));
    assert_eq!(output(&["1", "--for", "never"]).status.code(), Some(2));
}

#[test]
fn a_library_without_these_places_is_named_and_left_alone() {
    let folder = folder();
    let older = folder.path().join("libvcmalloc.so");
    let mut bytes =
        fs::read(library::shared().unwrap_or_else(|error| panic!("{error}"))).expect("the library");
    let name = b"record.entry_bytes\0";
    let at = bytes.windows(name.len()).position(|window| window == name).expect("a place");
    bytes[at] = b'x';
    fs::write(&older, bytes).expect("written");
    let program = program("server.cc", Ground::Preload, &[]);
    let mut command = machine::command(&program);
    Ground::Glibc.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
    let running = Running::of(command.env("LD_PRELOAD", &older));
    let refused = output(&[&running.id(), "--for", "10m"]);
    assert_eq!(refused.status.code(), Some(1));
    let line = String::from_utf8_lossy(&refused.stderr);
    assert!(line.contains("whose profile cannot be read from outside; restart it on this one"), "{line}");
    running.is_as_before();
}

#[test]
fn two_files_that_are_no_profiles_are_refused_in_words() {
    let folder = folder();
    let file = folder.path().join("words");
    fs::write(&file, "heap profile: 1: 2 [3: 4] @ heapprofile\n").expect("written");
    let refused = output(&["--diff", text(&file), text(&file)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("is no profile of pprof's format"),
        "{refused:?}"
    );
    let missing = output(&["--diff", "/there/is/none", text(&file)]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/there/is/none: No such file"), "{missing:?}");
}
