//! `vcm record --pid`: a process that runs already is recorded exactly, goes on as it was, and is let go whatever becomes of the
//! tool.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use vcm_inspect::process::Process;
use vcm_inspect::window::Seen;
use vcm_inspect::window::recording::Rings;
use vcm_trace::{Reader, Summary, summarize};
use vcmalloc_tests::{Ground, compile, library, machine};

const LONG: Duration = Duration::from_secs(60);

/// A program that does what it is told, and answers.
struct Program {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start(ground: Ground, words: &[&str]) -> Program {
        let source = library::repository().join("tests/record/steps.c");
        let program = compile::program(&source, ground, &["-pthread".into()]).unwrap();
        let mut command = machine::command(&program);
        ground.prepare(&mut command).unwrap();
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, answers };
        program.answered();
        program
    }

    fn id(&self) -> i32 {
        self.child.id() as i32
    }

    fn answered(&mut self) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line, "ok\n");
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn steps(&mut self, lines: &[&str]) {
        for line in lines {
            self.say(line);
            self.answered();
        }
    }

    fn end(mut self) {
        self.say("e");
        assert_eq!(self.child.wait().unwrap().code(), Some(7));
    }

    fn is_recorded(&self) -> bool {
        let seen = Seen::open(Process::new(self.id())).unwrap_or_else(|why| panic!("{} {why}", self.id()));
        let rings = Rings::of(&seen).unwrap();
        (0..4).any(|number| rings.is_on(number).unwrap())
    }

    fn wait_until_recorded(&self, is: bool) {
        let late = Instant::now() + LONG;
        while self.is_recorded() != is {
            assert!(Instant::now() < late, "recorded: {}", !is);
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Tool {
    child: Child,
    folder: tempfile::TempDir,
}

struct Ended {
    code: Option<i32>,
    told: String,
    folder: tempfile::TempDir,
}

impl Tool {
    fn start(program: &Program, options: &[&str]) -> Tool {
        Self::start_as(program, options, |_| ())
    }

    fn start_as(program: &Program, options: &[&str], change: impl Fn(&mut Command)) -> Tool {
        let folder = tempfile::tempdir().unwrap();
        let mut tool = Command::new(library::tool().unwrap());
        tool.args(["record", "--pid", &program.id().to_string(), "-o", "it.vct"]).args(options);
        tool.current_dir(folder.path()).stderr(Stdio::piped()).env_remove("LD_PRELOAD");
        change(&mut tool);
        Tool { child: tool.spawn().unwrap(), folder }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: it is our child and was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    fn end(self) -> Ended {
        let output = self.child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        Ended { code: output.status.code(), told, folder: self.folder }
    }
}

impl Ended {
    fn file(&self) -> PathBuf {
        self.folder.path().join("it.vct")
    }

    fn summary(&self) -> Summary {
        assert_eq!(self.code, Some(0), "{}", self.told);
        let seen = summarize(&mut Reader::new(File::open(self.file()).unwrap()).unwrap()).unwrap();
        assert_eq!((seen.lost, seen.reordered, seen.cut_off.as_deref()), (0, 0, None), "{}", self.told);
        seen
    }
}

/// The recording of a program that takes these steps.
fn recorded(ground: Ground, options: &[&str], steps: &[&str]) -> (Summary, Ended) {
    let mut program = Program::start(ground, &[]);
    let tool = Tool::start(&program, options);
    program.wait_until_recorded(true);
    program.steps(steps);
    tool.signal(libc::SIGINT);
    let ended = tool.end();
    // It goes on, and is not recorded any more.
    program.wait_until_recorded(false);
    program.steps(&["r1000", "t3"]);
    program.end();
    (ended.summary(), ended)
}

#[test]
fn what_a_running_program_does_is_recorded_exactly_with_every_kind_of_cache() {
    for ground in [Ground::Preload, Ground::Locked, Ground::Registered] {
        let steps = ["t20", "r1000", "c50", "g10", "b", "f5000"];
        let (seen, ended) = recorded(ground, &[], &steps);
        assert_eq!((seen.threads, seen.reallocations), (21, 1010), "{ground:?}");
        assert_eq!(seen.by_size.get(&7), Some(&200), "{ground:?}: of threads, 100 to 109 bytes");
        // 50 of calloc, 1000 that realloc moves; of the child's 5000 none.
        assert_eq!(seen.by_size.get(&10), Some(&1050), "{ground:?}");
        assert_eq!(seen.unknown, 100, "{ground:?}: blocks from before");
        assert!(
            ended.told.contains("100 frees and reallocs were of unknown blocks, from before"),
            "{}",
            ended.told
        );
    }
}

#[test]
fn a_thousand_threads_that_come_and_go_are_told_apart() {
    let (seen, _) = recorded(Ground::Preload, &[], &["t1000"]);
    // And the one that makes them, for which the C library allocates.
    assert_eq!((seen.threads, seen.by_size.get(&7)), (1001, Some(&10_000)));
}

#[test]
fn under_sampling_blocks_are_whole_and_realloc_leads_to_no_others() {
    // A block that the C library keeps of a thread that has ended may be in a sample or not.
    let steps = ["t300", "r1000"];
    let kept = recorded(Ground::Preload, &[], &steps).0.live_blocks_at_end;
    let (seen, _) = recorded(Ground::Preload, &["--sample", "1/3"], &steps);
    assert_eq!(seen.unknown, 0);
    assert!(seen.live_blocks_at_end <= kept && kept <= 1, "{} of {kept}", seen.live_blocks_at_end);
}

#[test]
fn events_of_threads_that_run_all_the_time_are_none_too_many_and_none_too_few() {
    let mut program = Program::start(Ground::Preload, &[]);
    program.steps(&["l2"]);
    let tool = Tool::start(&program, &["--for", "1s"]);
    let ended = tool.end();
    program.steps(&["q"]);
    program.end();
    assert_eq!(ended.code, Some(0), "{}", ended.told);
    let seen = summarize(&mut Reader::new(File::open(ended.file()).unwrap()).unwrap()).unwrap();
    assert_eq!((seen.reordered, seen.cut_off), (0, None));
    // Each thread had 64 blocks in the beginning; more are unknown only where events were lost.
    assert!(seen.unknown <= 128 + seen.lost, "{}", ended.told);
    assert!(seen.live_blocks_at_end as u64 <= 128 + seen.lost, "{}", ended.told);
}

#[test]
fn a_program_is_let_go_when_the_tool_is_killed_and_can_be_recorded_again() {
    let mut program = Program::start(Ground::Preload, &[]);
    program.steps(&["l1"]);
    let mut tool = Tool::start(&program, &[]);
    program.wait_until_recorded(true);
    let second = Tool::start(&program, &["--for", "1s"]).end();
    assert_eq!(second.code, Some(125), "{}", second.told);
    assert!(second.told.contains("is already recorded"), "{}", second.told);
    assert_eq!(fs::read_dir(second.folder.path()).unwrap().count(), 0);
    tool.child.kill().unwrap();
    tool.child.wait().unwrap();
    // It has no other way to know but time.
    program.wait_until_recorded(false);
    let third = Tool::start(&program, &["--for", "300ms"]).end();
    assert_eq!(third.code, Some(0), "{}", third.told);
    program.steps(&["q"]);
    program.end();
}

#[test]
fn a_program_that_ends_or_becomes_another_ends_the_recording() {
    for step in ["e", "x"] {
        let mut program = Program::start(Ground::Preload, &[]);
        let tool = Tool::start(&program, &[]);
        program.wait_until_recorded(true);
        program.steps(&["t20"]);
        // The events of the last moment go with the memory.
        sleep(Duration::from_secs(1));
        program.say(step);
        let ended = tool.end();
        assert_eq!(ended.summary().by_size.get(&7), Some(&200), "{step}: {}", ended.told);
        assert!(ended.told.contains("has ended, or became another program"), "{}", ended.told);
    }
}

#[test]
fn a_program_without_a_janitor_is_recorded_from_its_next_slow_path_on() {
    let mut program = Program::start(Ground::Preload, &["alone"]);
    let mut tool = Tool::start(&program, &[]);
    let mut told = BufReader::new(tool.child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("the recording starts then"), "{line}");
    program.steps(&["g10"]);
    told.read_line(&mut line).unwrap();
    assert!(line.contains("is recorded until it ends"), "{line}");
    program.steps(&["r1000"]);
    tool.signal(libc::SIGINT);
    let ended = tool.end();
    assert!(ended.summary().reallocations >= 1000);
    program.end();
}

#[test]
fn an_order_that_nobody_has_obeyed_is_taken_back() {
    let mut program = Program::start(Ground::Preload, &["alone"]);
    let mut tool = Tool::start(&program, &[]);
    let mut told = BufReader::new(tool.child.stderr.take().unwrap());
    told.read_line(&mut String::new()).unwrap();
    tool.signal(libc::SIGINT);
    let ended = tool.end();
    assert_eq!(ended.code, Some(130));
    assert_eq!(fs::read_dir(ended.folder.path()).unwrap().count(), 0);
    program.steps(&["g10"]);
    assert!(!program.is_recorded());
    program.end();
}

#[test]
fn what_cannot_be_recorded_is_told_and_leaves_nothing() {
    let ended = |program: &Program, change: &dyn Fn(&mut Command)| {
        let ended = Tool::start_as(program, &["--for", "1s"], change).end();
        assert_eq!(ended.code, Some(125), "{}", ended.told);
        assert_eq!(fs::read_dir(ended.folder.path()).unwrap().count(), 0);
        ended.told
    };
    for (ground, words) in [(Ground::Glibc, "not on vcmalloc"), (Ground::Hardened, "the hardened vcmalloc")] {
        let told = ended(&Program::start(ground, &[]), &|_| ());
        assert!(told.contains(words), "{told}");
    }
    // SAFETY: it has no condition.
    if unsafe { libc::geteuid() } == 0 {
        let told =
            Tool::start_as(&Program::start(Ground::Preload, &[]), &[], |tool| _ = tool.uid(65534)).end();
        assert_eq!(told.code, Some(125), "{}", told.told);
        assert!(told.told.contains("only root may read"), "{}", told.told);
    }
    let mut program = Program::start(Ground::Preload, &[]);
    program.say("e");
    program.child.wait().unwrap();
    let told = ended(&program, &|_| ());
    assert!(told.contains("no such process") || told.contains("has ended"), "{told}");
}
