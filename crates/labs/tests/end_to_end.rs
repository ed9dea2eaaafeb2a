//! The engine from outside, on the lab in examples/toy_lab.rs: whatever stops a run, nothing stays behind.
//!
//! As root the toy lab also mounts, makes a loop device and a network; as anybody else it makes directories and
//! processes only.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Ground { folder }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toy-lab"));
        command.args(words).arg("--state").arg(self.place("state")).arg("--work").arg(self.place("work"));
        // The panics that are asked for need no trace.
        command.env_remove("RUST_BACKTRACE");
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn run_with_fault(&self, fault: &str) -> Output {
        self.command(&["nap"]).env("VCM_LABS_FAULT", fault).output().unwrap()
    }

    /// What is left: journals, files, mounts, loop devices, processes.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for folder in ["state", "work"] {
            for entry in fs::read_dir(self.place(folder)).into_iter().flatten().flatten() {
                left.push(format!("{folder}/{}", entry.file_name().display()));
            }
        }
        let here = self.folder.path().display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        left.extend(mounts.lines().filter(|line| line.contains(&here)).map(|line| format!("mount {line}")));
        for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
            if backing.contains(&here) {
                left.push(format!("loop device on {backing}"));
            }
        }
        left.extend(self.processes().into_iter().map(|pid| format!("process {pid}")));
        left
    }

    /// A process shows no environment for the moment in which it becomes another program.
    fn shows_one_process(&self) {
        let seen = |_: &i32| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            self.processes().len() == 1
        };
        assert!((0..500).any(|attempt| seen(&attempt)), "{:?}", self.processes());
    }

    /// Those that were started from here, with all that they started.
    fn processes(&self) -> Vec<String> {
        let word = format!("TOY_GROUND={}", self.place("work").display()).into_bytes();
        let is_ours = |entry: &fs::DirEntry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == word)
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter(is_ours).map(|entry| entry.file_name().display().to_string()).collect()
    }
}

/// What an assertion leaves behind is undone with it.
impl Drop for Ground {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let undone = self.run(&["down"]);
            eprintln!("down: {}\n{}", undone.status, stderr(&undone));
        }
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_whole_run_leaves_its_results_and_nothing_else() {
    let ground = Ground::new();
    let out = ground.place("out");
    let output = ground.run(&["nap", "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(ground.left(), [] as [&str; 0]);
    let text = fs::read_to_string(out.join("toy-nap.json")).unwrap();
    let results: vcm_labs::engine::results::Results = serde_json::from_str(&text).unwrap();
    assert_eq!(results.rows.len(), 2 * 2 * 2, "two sizes, two repetitions, two steps");
    assert!(results.verdict.void.is_empty(), "{:?}", results.verdict.void);
    assert_eq!(results.verdict.claims[0].holds, Some(true));
    assert!(fs::read_to_string(out.join("toy-nap.html")).unwrap().contains("<svg"));
    assert!(out.join("toy-nap.md").exists() && out.join("toy-nap-1.svg").exists());
    let lines = stderr(&output);
    assert!(lines.contains("[1/4] glibc, bytes 100000, repetition 1"), "progress in plain lines: {lines}");
}

/// Stops at ever later checks until a run has fewer.
fn sweep(kind: &str, every: usize, mut judge: impl FnMut(&Ground, &Output)) {
    for step in (1..400).step_by(every) {
        let ground = Ground::new();
        let output = ground.run_with_fault(&format!("{kind}:{step}"));
        if output.status.success() {
            assert!(step > 20, "only {step} places to stop at");
            return;
        }
        judge(&ground, &output);
        assert_eq!(ground.left(), [] as [&str; 0], "after {kind} at check {step}:\n{}", stderr(&output));
    }
    panic!("the run never ends");
}

#[test]
fn a_signal_at_any_step_leaves_nothing() {
    sweep("signal", 1, |_, output| assert_eq!(output.status.code(), Some(130), "{}", stderr(output)));
}

#[test]
fn a_panic_at_any_step_leaves_nothing() {
    sweep("panic", 3, |_, output| assert!(stderr(output).contains("VCM_LABS_FAULT"), "{}", stderr(output)));
}

#[test]
fn a_killed_run_is_undone_by_down_and_by_the_next_run() {
    let mut by_down = true;
    sweep("kill", 2, |ground, output| {
        assert_eq!(output.status.code(), None, "killed");
        let words: &[&str] = if by_down { &["down"] } else { &["nap"] };
        by_down = !by_down;
        let undone = ground.run(words);
        assert!(undone.status.success(), "{}", stderr(&undone));
    });
}

#[test]
fn what_is_up_stays_until_down() {
    let ground = Ground::new();
    assert!(ground.run(&["up"]).status.success());
    ground.shows_one_process();
    let again = ground.run(&["up"]);
    assert!(!again.status.success() && stderr(&again).contains("is up already"), "{}", stderr(&again));
    let run = ground.run(&["run"]);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "up: true\n");
    assert!(ground.run(&["nap"]).status.success(), "an experiment beside it");
    assert_eq!(ground.processes().len(), 1, "and it is still up");
    assert!(ground.run(&["down"]).status.success());
    assert_eq!(ground.left(), [] as [&str; 0]);
}

#[test]
fn names_that_do_not_exist_start_nothing() {
    let ground = Ground::new();
    let output = ground.run(&["knap"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("did you mean 'nap'?"), "{}", stderr(&output));
    assert!(!ground.place("state").exists());
}
