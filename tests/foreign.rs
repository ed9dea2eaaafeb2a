//! Hostile processes, containers, traces and names: the tools read them with bounds, and print them escaped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use vcmalloc_tests::{Ground, child, compile, library, machine};

const LIMIT: Duration = Duration::from_secs(120);

/// Only `vcm_foreign` opens and prints here. `unit_plan`, `drop_in` and what belongs to systemd are root's own files.
const HELD: [&str; 4] = ["crates/front/src", "crates/inspect/src", "crates/profile/src", "crates/vcm/src"];
const OF_UNITS: [&str; 7] = [
    "verbs/enable",
    "verbs/compare/crossover",
    "unit_plan.rs",
    "drop_in.rs",
    "vcm/src/sandbox.rs",
    "verbs/check/unit.rs",
    "systemd/sandbox.rs",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    entries.flatten().flat_map(|entry| below(entry.path())).collect()
}

/// Its lines of code, without comments and tests.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].lines().enumerate().map(|(at, line)| (at + 1, line.split("//").next().unwrap_or(line)))
}

#[test]
fn no_tool_prints_a_foreign_name_by_itself_nor_opens_a_file_of_a_container() {
    // Procfs and what the tool wrote itself: the memory of a process, its pages, traces that are as long as they are.
    let may_open = [
        "window/memory.rs",
        "window/residence.rs",
        "inspect/src/variables.rs",
        "inspect/src/start.rs",
        "inspect/src/process.rs",
        "vcm/src/trace_file.rs",
        "verbs/run/filter.rs",
        "verbs/record/session.rs",
        "verbs/record/mod.rs",
    ];
    let may_guess = ["inspect/src", "front/src/manual.rs", "verbs/completions.rs", "src/proof.rs"];
    let is_one_of = |names: &[&str], path: &str| names.iter().any(|name| path.contains(name));
    let mut wrong = Vec::new();
    for path in HELD.iter().flat_map(|folder| sources(&library::repository().join(folder))) {
        let text = fs::read_to_string(&path).expect("a source file");
        let path = path.display().to_string();
        if is_one_of(&OF_UNITS, &path) || path.ends_with("tests.rs") || path.ends_with("fake.rs") {
            continue;
        }
        for (number, line) in code(&text) {
            let opens =
                ["File::open(", "fs::read(", "fs::read_to_string("].iter().any(|word| line.contains(word));
            let prints = line.contains(".display()") || line.contains("println!");
            let guesses = line.contains("_lossy(") && !is_one_of(&may_guess, &path);
            if prints || guesses || (opens && !is_one_of(&may_open, &path)) {
                wrong.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "use vcm_foreign:\n{}", wrong.join("\n"));
}

/// Ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// So many lying processes of one program.
fn liars(seed: u32, how: u32, count: u32) -> Running {
    let source = library::repository().join("tests/foreign/liar.c");
    let program = compile::program(&source, Ground::Preload, &[]).unwrap_or_else(|error| panic!("{error}"));
    let mut command = machine::command(&program);
    Ground::Preload.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
    command.args([seed, how, count].map(|number| number.to_string())).stdout(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    (0..count).for_each(|_| assert_eq!(lines.next().expect("a line").expect("read"), "ready"));
    Running(child)
}

fn vcm(arguments: &[&str]) -> Output {
    let tool = library::tool().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new("sh");
    // A tool that would take all memory is refused it.
    command.args(["-c", "ulimit -v 4000000; exec timeout -k 1 60 \"$0\" \"$@\""]).arg(tool).args(arguments);
    command.stdin(Stdio::null()).output().expect("run")
}

/// Nothing that does something to a terminal, and an end that was chosen.
fn is_harmless(arguments: &[&str], output: &Output) {
    let code = output.status.code();
    assert!(matches!(code, Some(0..=3 | 125)), "{arguments:?}: {:?}\n{output:?}", output.status);
    for text in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(text.clone()).expect("text");
        let is_hidden =
            |letter: char| letter.is_control() && letter != '\n' || "\u{202e}\u{200b}".contains(letter);
        let found = text.lines().find(|line| line.contains(is_hidden));
        assert_eq!(found, None, "{arguments:?}");
    }
}

struct Agent {
    child: Running,
    address: String,
}

impl Agent {
    fn start() -> Agent {
        let tool = library::tool().unwrap_or_else(|error| panic!("{error}"));
        let mut command = Command::new(tool);
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.trim().trim_start_matches("listening on http://").trim_end_matches('/').to_owned();
        Agent { child: Running(child), address }
    }

    fn get(&self, path: &str, lines: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(LIMIT)).expect("set");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\n{lines}\r\n", self.address).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// The one that answers, below the one that watches it.
    fn worker(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.child.0.id());
        let children = fs::read_to_string(path).expect("its children");
        children.split_whitespace().next().expect("one that answers").parse().expect("a number")
    }

    fn peak_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.worker())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

#[test]
fn processes_that_lie_in_their_statistics_harm_neither_the_agent_nor_a_tool() {
    // A thousand are asked for by hand: VCMALLOC_TEST_LIARS=1000.
    let count = std::env::var("VCMALLOC_TEST_LIARS").ok().and_then(|text| text.parse().ok()).unwrap_or(25);
    let agent = Agent::start();
    let running = liars(1, 0, count);
    let mut metrics = String::new();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(1100));
        metrics = agent.get("/metrics", "");
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    }
    let agents = |line: &&str| line.starts_with("vcmalloc_agent_");
    println!("{}", metrics.lines().filter(agents).collect::<Vec<_>>().join("\n"));
    println!("peak of the agent: {} KiB, with {count} liars", agent.peak_kib());
    assert!(metrics.contains("vcmalloc_agent_restarts_total 0\n"), "a look has ended the agent: {metrics}");
    assert!(agent.peak_kib() < 128 << 10, "{} KiB", agent.peak_kib());
    let parent = running.0.id();
    let children =
        fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("its children");
    for id in children.split_whitespace().take(25) {
        for words in [&["stat", id][..], &["stat", "--json", id], &["config", id], &["check", id]] {
            is_harmless(words, &vcm(words));
        }
    }
    for id in children.split_whitespace().take(5) {
        for words in [
            &["profile", "--for", "50ms", id][..],
            &["doctor", id],
            &["set", id, "retain=1"],
            &["release", id],
        ] {
            is_harmless(words, &vcm(words));
        }
    }
    for words in [&["top", "--json"][..], &["top"], &["doctor"]] {
        is_harmless(words, &vcm(words));
    }
    assert!(agent.get("/", "").starts_with("HTTP/1.1 200"));
}

#[test]
fn an_agent_that_a_look_has_ended_is_started_again_and_answers_on_the_same_place() {
    let agent = Agent::start();
    assert!(agent.get("/healthz", "").starts_with("HTTP/1.1 200"));
    let first = agent.worker();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first as i32), nix::sys::signal::Signal::SIGABRT)
        .expect("sent");
    let metrics = agent.get("/metrics", "");
    assert!(metrics.contains("vcmalloc_agent_restarts_total 1\n"), "{metrics}");
    assert_ne!(agent.worker(), first);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(agent.child.0.id() as i32),
        nix::sys::signal::Signal::SIGTERM,
    )
    .expect("sent");
    let mut ended = agent.child;
    assert_eq!(child::wait(&mut ended.0, LIMIT).and_then(|status| status.code()), Some(0));
}

#[test]
fn a_page_of_the_web_gets_no_profile_and_two_hosts_are_refused() {
    let agent = Agent::start();
    let asked = |lines: &str| {
        agent.get("/debug/pprof/heap?pid=1", lines).lines().next().unwrap_or_default().to_owned()
    };
    assert!(asked("origin: http://evil.example\r\n").contains("403"));
    assert!(asked("sec-fetch-site: cross-site\r\n").contains("403"));
    assert!(asked("host: localhost\r\n").contains("400"));
    assert!(!asked("sec-fetch-site: same-origin\r\n").contains("403"));
}

#[test]
fn no_fifo_and_no_endless_file_keeps_a_verb() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
    let fifo = fifo.to_str().expect("text");
    for words in [
        &["run", "--", fifo][..],
        &["run", "--library", fifo, "--", "true"],
        &["serve", "--token", fifo],
        &["config", "--file", fifo],
        &["profile", "--diff", fifo, fifo],
        &["check", "--", fifo],
        &["run", "--library", "/dev/zero", "--", "true"],
    ] {
        let output = vcm(words);
        let code = output.status.code();
        assert!(matches!(code, Some(0..=3 | 125..=127)), "{words:?}: {output:?}");
    }
}

#[test]
fn traces_of_a_few_bytes_take_neither_memory_nor_time() {
    let folder = library::repository().join("tests/foreign/traces");
    for name in ["many-aligned.vct", "last-ordinal.vct", "leap.vct", "escapes.vct"] {
        let file = folder.join(name);
        let file = file.to_str().expect("text");
        for words in [&["trace", "info", file][..], &["bounds", file], &["trace", "dump", file]] {
            is_harmless(words, &vcm(words));
        }
    }
}
