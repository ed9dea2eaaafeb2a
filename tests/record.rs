//! `vcm record`: what the trace says is what the program did.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use vcm_trace::{Reader, Summary, summarize};
use vcmalloc_tests::{Finished, Ground, compile, heed_signals, library, run};

fn record(folder: &Path, options: &[&str], command: &[&str]) -> (Finished, PathBuf) {
    let file = folder.join("it.vct");
    let mut tool = Command::new(library::tool().unwrap());
    tool.arg("record").arg("--library").arg(library::interposer().unwrap()).arg("-o").arg(&file);
    tool.args(options).arg("--").args(command).current_dir(folder).env_remove("LD_PRELOAD");
    (run(&mut tool, Duration::from_secs(60)).unwrap(), file)
}

fn known() -> String {
    let source = library::repository().join("tests/record/known.c");
    compile::program(&source, Ground::Glibc, &[]).unwrap().display().to_string()
}

fn summary(file: &Path) -> Summary {
    summarize(&mut Reader::new(File::open(file).unwrap()).unwrap()).unwrap()
}

fn recorded(options: &[&str], arguments: &[&str]) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    let program = known();
    let command: Vec<&str> = std::iter::once(program.as_str()).chain(arguments.iter().copied()).collect();
    let (finished, file) = record(folder.path(), options, &command);
    assert_eq!(finished.status.code(), Some(7), "{}", finished.complaints);
    let summary = summary(&file);
    assert_eq!((summary.lost, summary.reordered, summary.unknown), (0, 0, 0));
    summary
}

#[test]
fn a_thousand_threads_that_come_and_go_are_recorded_exactly() {
    let seen = recorded(&[], &["1000"]);
    assert_eq!((seen.threads, seen.reallocations, seen.frees), (1001, 1000, 11_000));
    assert_eq!(seen.by_size.get(&7), Some(&10_000), "100 to 109 bytes");
}

#[test]
fn another_allocator_is_recorded_as_well() {
    let ours = library::our_shared().unwrap().display().to_string();
    let seen = recorded(&["--preload", &ours], &["3"]);
    assert_eq!((seen.reallocations, seen.by_size.get(&7)), (1000, Some(&30)));
}

#[test]
fn a_child_of_fork_is_not_recorded_and_exec_goes_on() {
    let seen = recorded(&[], &["3", "fork"]);
    assert_eq!((seen.threads, seen.reallocations, seen.frees), (4, 1000, 1030));
    let seen = recorded(&[], &["3", "exec"]);
    assert_eq!((seen.reallocations, seen.by_size.get(&7)), (1000, Some(&30)));
    // Blocks that the exec ended are no frees, least of all of another thread.
    assert_eq!((seen.frees, seen.of_other_threads), (1030, 0));
}

#[test]
fn under_sampling_blocks_are_whole() {
    let seen = recorded(&["--sample", "1/3"], &["300"]);
    assert_eq!(seen.unknown, 0);
    assert!(seen.live_blocks_at_end <= 2, "{seen:?}");
}

#[test]
fn what_cannot_be_recorded_is_told_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = known();
    for (command, code, word) in [
        (vec!["/nowhere/such"], 127, "no such command"),
        (vec!["env", "-i", &program, "1"], 125, "clears the environment"),
        (vec!["su", "nobody"], 125, "setuid"),
    ] {
        // SAFETY: it has no condition.
        if command[0] == "su" && unsafe { libc::geteuid() } == 0 {
            // Root gains nothing by it.
            continue;
        }
        let (finished, file) = record(folder.path(), &[], &command);
        assert_eq!(finished.status.code(), Some(code), "{}", finished.complaints);
        assert!(finished.complaints.contains(word), "{}", finished.complaints);
        assert!(!file.exists());
    }
}

#[test]
fn a_program_that_drops_the_preload_is_told_and_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let (finished, file) = record(folder.path(), &[], &["sh", "-c", "unset LD_PRELOAD; exec sleep 1"]);
    assert_eq!(finished.status.code(), Some(125), "{}", finished.complaints);
    assert!(finished.complaints.contains("LD_PRELOAD was cleared"), "{}", finished.complaints);
    assert!(summary(&file).cut_off.is_none(), "what the shell did is kept");
    let (finished, _) = record(folder.path(), &[], &["sh", "-c", "exec sleep 1"]);
    assert_eq!(finished.status.code(), Some(0), "{}", finished.complaints);
}

#[test]
fn who_forks_away_is_recorded_to_the_end_of_the_parent() {
    let folder = tempfile::tempdir().unwrap();
    let (finished, file) = record(folder.path(), &[], &[&known(), "3", "away"]);
    assert_eq!(finished.status.code(), Some(0), "{}", finished.complaints);
    let child: i32 = finished.text().trim().parse().unwrap();
    // SAFETY: it has no condition; the number is that of the program's child, which lives for a minute.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0, "the tool does not wait for the child");
    let seen = summary(&file);
    assert_eq!((seen.reallocations, seen.frees, seen.cut_off), (1000, 1000, None));
    let note =
        format!("process {child} of the same program continues in the background and is not in the trace");
    assert!(finished.complaints.contains(&note), "{}", finished.complaints);
}

#[test]
fn a_crash_keeps_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (finished, file) = record(folder.path(), &[], &["sh", "-c", "read x </dev/null; kill -ABRT $$"]);
    assert!(!finished.status.success());
    assert!(summary(&file).cut_off.is_none());
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut tool = Command::new(library::tool().unwrap());
    tool.arg("record").arg("--library").arg(library::interposer().unwrap()).args(["-o", "/dev/full", "--"]);
    tool.args([known().as_str(), "10"]).current_dir(folder.path()).env_remove("LD_PRELOAD");
    let finished = run(&mut tool, Duration::from_secs(60)).unwrap();
    assert_eq!(finished.status.code(), Some(125), "{}", finished.complaints);
    assert!(finished.complaints.contains("No space left"), "{}", finished.complaints);
}

/// The tool around a program that has made its events and waits for SIGUSR1 to make others.
struct Waiting {
    folder: tempfile::TempDir,
    tool: Child,
}

impl Waiting {
    fn start(options: &[&str]) -> Waiting {
        let folder = tempfile::tempdir().unwrap();
        let mut tool = Command::new(library::tool().unwrap());
        tool.arg("record").arg("--library").arg(library::interposer().unwrap()).args(options);
        tool.args(["-o", "it.vct", "--", &known(), "3", "wait"]).current_dir(folder.path());
        tool.env_remove("LD_PRELOAD").stdout(Stdio::piped()).stderr(Stdio::piped());
        heed_signals(&mut tool);
        let mut tool = tool.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(tool.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Waiting { folder, tool }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("it.vct")
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: it is our child and was not waited for.
        assert_eq!(unsafe { libc::kill(self.tool.id() as i32, signal) }, 0);
    }

    fn end(self) -> (ExitStatus, String, tempfile::TempDir) {
        let output = self.tool.wait_with_output().unwrap();
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned(), self.folder)
    }
}

#[test]
fn an_interrupt_ends_the_command_and_keeps_what_was_recorded() {
    let waiting = Waiting::start(&[]);
    assert!(!waiting.file().exists(), "it has its name when it is whole");
    waiting.signal(libc::SIGINT);
    let (status, told, folder) = waiting.end();
    assert_eq!(status.signal().or(status.code()), Some(libc::SIGINT), "{told}");
    let seen = summary(&folder.path().join("it.vct"));
    assert_eq!((seen.frees, seen.lost, seen.cut_off), (1030, 0, None), "{told}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_recording_for_a_time_ends_and_the_command_goes_on() {
    let mut waiting = Waiting::start(&["--for", "3s"]);
    let late = Instant::now() + Duration::from_secs(60);
    while !waiting.file().exists() {
        assert!(Instant::now() < late && waiting.tool.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(20));
    }
    waiting.signal(libc::SIGUSR1);
    let (status, told, folder) = waiting.end();
    assert_eq!(status.code(), Some(7), "{told}");
    let seen = summary(&folder.path().join("it.vct"));
    assert_eq!((seen.frees, seen.by_size.get(&16), seen.cut_off), (1030, None, None), "{told}");
}

#[test]
fn nothing_is_recorded_before_its_time() {
    let waiting = Waiting::start(&["--after", "1h"]);
    waiting.signal(libc::SIGUSR1);
    let (status, told, folder) = waiting.end();
    assert_eq!(status.code(), Some(125), "{told}");
    assert!(
        told.contains("nothing was recorded: the process allocated nothing during the recording"),
        "{told}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
