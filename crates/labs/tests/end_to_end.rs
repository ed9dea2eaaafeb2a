//! The engine from outside, on the lab in examples/toy_lab.rs: whatever stops a run, nothing stays behind.
//!
//! Where the system grants namespaces the toy lab also mounts and makes a loop device; elsewhere it makes directories and
//! processes only.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use vcm_labs::engine::journal::Journal;

const CAP_SYS_ADMIN: libc::c_ulong = 21;

struct Ground {
    folder: tempfile::TempDir,
    /// Runs get no namespaces, as in most containers.
    refuses: bool,
}

impl Ground {
    fn new() -> Ground {
        Ground::that_refuses(false)
    }

    fn that_refuses(refuses: bool) -> Ground {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Ground { folder, refuses }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toy-lab"));
        command.args(words).arg("--state").arg(self.place("state")).arg("--work").arg(self.place("work"));
        // The panics that are asked for need no trace.
        command.env_remove("RUST_BACKTRACE");
        if self.refuses {
            let refuse = || {
                // SAFETY: a system call between fork and exec; who may not make it is refused namespaces anyhow.
                unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) };
                Ok(())
            };
            // SAFETY: see there.
            unsafe { command.pre_exec(refuse) };
        }
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn run_with_fault(&self, fault: &str) -> Output {
        self.command(&["nap"]).env("VCM_LABS_FAULT", fault).output().unwrap()
    }

    /// The leftovers: journals, files, mounts, loop devices, processes.
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

    /// The leftovers after a moment: the kernel takes a loop device away when it comes to it.
    fn stays(&self) -> Vec<String> {
        for _ in 0..200 {
            if self.left().is_empty() {
                return Vec::new();
            }
            sleep(Duration::from_millis(20));
        }
        self.left()
    }

    /// A process shows no environment for the moment in which it becomes another program.
    fn shows_one_process(&self) {
        let seen = |_: &i32| {
            sleep(Duration::from_millis(10));
            self.processes().len() == 1
        };
        assert!((0..500).any(|attempt| seen(&attempt)), "{:?}", self.processes());
    }

    /// The processes that were started from here, with all that they started.
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

/// Undoes what an assertion leaves behind.
impl Drop for Ground {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let undone = self.run(&["down"]);
            eprintln!("down: {}\n{}", undone.status, stderr(&undone));
        }
    }
}

/// Whether this system grants namespaces.
fn can_enter() -> bool {
    let tried = Command::new("unshare").args(["-p", "-m", "-n", "-f", "--mount-proc", "true"]).output();
    tried.is_ok_and(|tried| tried.status.success())
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
    let text = fs::read_to_string(out.join("data/toy-nap.json")).unwrap();
    let results: vcm_labs::engine::results::Results = serde_json::from_str(&text).unwrap();
    assert_eq!(results.rows.len(), 2 * 2 * 2, "two sizes, two repetitions, two steps");
    assert!(results.verdict.void.is_empty(), "{:?}", results.verdict.void);
    assert_eq!(results.verdict.claims[0].holds, Some(true));
    assert!(fs::read_to_string(out.join("toy-nap.html")).unwrap().contains("<svg"));
    assert!(out.join("toy-nap.md").exists() && out.join("pictures/toy-nap-1.svg").exists());
    let lines = stderr(&output);
    assert!(lines.contains("[1/4] glibc, bytes 100000, repetition 1"), "progress in plain lines: {lines}");
    let other = |name: &String| !name.starts_with("toy-nap") || name.contains("partial");
    for folder in [out.clone(), out.join("data"), out.join("pictures")] {
        let files = fs::read_dir(&folder).unwrap().map(Result::unwrap);
        let files =
            files.filter(|file| !["data", "pictures"].iter().any(|name| file.path() == out.join(name)));
        let names = files.map(|file| file.file_name().display().to_string());
        assert_eq!(names.filter(other).collect::<Vec<_>>(), [""; 0], "nothing unfinished");
    }
}

#[test]
fn a_run_with_a_failed_cell_shows_the_others_and_names_it_and_fails() {
    let ground = Ground::new();
    let (out, failing) = (ground.place("out"), "glibc, bytes 300000, repetition 2");
    let mut run = ground.command(&["nap", "--out", out.to_str().unwrap()]);
    let output = run.env("TOY_FAILS", failing).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("1 of 4 cells failed; the results are those of the others\n"));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.contains("a file of 300,000 bytes holds no more: 300000.00 (300000 at most: holds)"),
        "{table}"
    );
    assert!(table.contains(&format!("failed: {failing}: as asked for\n")), "{table}");
    assert!(fs::read_to_string(out.join("toy-nap.md")).unwrap().contains("Cells that failed"));
    assert_eq!(ground.left(), [] as [&str; 0]);
}

/// A pipe whose reader has gone.
fn nobody_reads() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn full_disk() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn results_are_on_disk_before_stdout_can_fail() {
    for (stdout, code) in [(nobody_reads(), 0), (full_disk(), 1)] {
        let ground = Ground::new();
        let out = ground.place("out");
        let output =
            ground.command(&["nap", "--out", out.to_str().unwrap()]).stdout(stdout).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("cannot write the result"), code == 1, "{}", stderr(&output));
        assert!(out.join("data/toy-nap.json").exists() && out.join("toy-nap.html").exists());
        assert_eq!(ground.left(), [] as [&str; 0]);
        for form in [&["--json"][..], &[]] {
            let json = out.join("data/toy-nap.json");
            let words = [&["nap", "--from", json.to_str().unwrap()], form].concat();
            let again = ground.command(&words).stdout(nobody_reads()).output().unwrap();
            assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
        }
    }
}

#[test]
fn results_that_nobody_could_be_told_are_kept_with_the_journals() {
    let ground = Ground::new();
    let output = ground.command(&["nap"]).stdout(full_disk()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let json = ground.place("state/toy-nap.json");
    assert!(stderr(&output).contains(json.to_str().unwrap()), "{}", stderr(&output));
    assert!(ground.run(&["nap", "--from", json.to_str().unwrap()]).status.success());
    assert_eq!(ground.left(), ["state/toy-nap.json"]);
}

#[test]
fn a_line_that_cannot_be_written_to_stderr_ends_nothing() {
    let ground = Ground::new();
    assert!(ground.command(&["nap"]).stderr(full_disk()).output().unwrap().status.success());
    assert!(ground.command(&["down"]).stderr(full_disk()).output().unwrap().status.success());
    assert_eq!(ground.left(), [] as [&str; 0]);
}

#[test]
fn the_cells_before_a_kill_can_be_judged_and_drawn() {
    let out = tempfile::tempdir().unwrap();
    let partial = out.path().join("toy-nap.partial.json");
    let killed = (1..400).map(|step| {
        let ground = Ground::new();
        let mut run = ground.command(&["nap", "--out", out.path().to_str().unwrap()]);
        let output = run.env("VCM_LABS_FAULT", format!("kill:{step}")).output().unwrap();
        assert_eq!(output.status.code(), None, "killed");
        assert!(ground.run(&["down"]).status.success());
    });
    assert!(killed.into_iter().any(|()| partial.exists()));
    let ground = Ground::new();
    let drawn = ground.run(&["nap", "--from", partial.to_str().unwrap(), "--json"]);
    let results: vcm_labs::engine::results::Results = serde_json::from_slice(&drawn.stdout).unwrap();
    // Mostly the first cell; the looks of a wait are steps too, and a busy machine has more or fewer.
    let steps: Vec<&str> = results.rows.iter().map(|row| row.step.as_str()).collect();
    assert!(!steps.is_empty() && steps.chunks(2).all(|cell| cell == ["empty", "full"]), "{steps:?}");
    assert!(results.notes[0].contains("did not finish"), "{:?}", results.notes);
}

#[test]
fn a_place_that_takes_no_results_is_refused_before_anything_is_measured() {
    let ground = Ground::new();
    fs::write(ground.place("file"), "").unwrap();
    let output = ground.run(&["nap", "--out", ground.place("file").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("file"), "{}", stderr(&output));
    assert!(!ground.place("state").exists());
}

#[test]
fn settings_that_cannot_be_meant_start_nothing() {
    let ground = Ground::new();
    let refusals = [
        (["run", "--length", "0"], "--length is a number from 1 to 60, not '0'"),
        (["run", "--length", "x"], "--length is a number from 1 to 60, not 'x'"),
        (["up", "--length", "7"], "--length is for `vcm lab toy run`; `up` does not take it"),
    ];
    for (words, message) in refusals {
        let output = ground.run(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    assert!(!ground.place("state").exists());
}

#[test]
fn flags_of_experiments_are_refused_for_a_cluster_by_itself() {
    let ground = Ground::new();
    let refusals = [
        (&["up", "--json"][..], "--json is for experiments; `up` does not take it"),
        (&["run", "--out", "x"], "--out is for experiments; `run` does not take it"),
        (&["down", "--from", "x"], "--from is for experiments; `down` does not take it"),
    ];
    for (words, message) in refusals {
        let output = ground.run(words);
        assert_eq!((output.status.code(), stderr(&output).contains(message)), (Some(2), true), "{words:?}");
    }
    assert!(!ground.place("state").exists());
}

#[test]
fn places_are_the_same_ones_wherever_down_is_typed() {
    let ground = Ground::new();
    let words = ["up", "--state", "state", "--work", "work"];
    let mut up = Command::new(env!("CARGO_BIN_EXE_toy-lab"));
    let up = up.args(words).current_dir(ground.folder.path()).output().unwrap();
    assert!(up.status.success(), "{}", stderr(&up));
    assert_eq!(ground.run(&["run"]).stdout, b"up: true\n");
    assert!(ground.run(&["down"]).status.success());
    assert_eq!(ground.left(), [] as [&str; 0]);
}

#[test]
fn a_work_directory_that_was_not_there_is_made_and_goes_with_the_run() {
    let ground = Ground::new();
    let run = |action: &str, fault: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toy-lab"));
        command.args([action, "--state", "state", "--work", "new/dir"]).current_dir(ground.folder.path());
        command.env("VCM_LABS_FAULT", fault).env_remove("RUST_BACKTRACE").output().unwrap()
    };
    let new = ground.place("new");
    let whole = run("nap", "");
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert!(!new.exists());
    assert_eq!(run("nap", "kill:20").status.code(), None, "killed");
    assert!(!new.exists());
    assert!(run("up", "").status.success());
    assert!(new.join("dir").exists());
    fs::write(new.join("note"), "an operator's").unwrap();
    assert!(run("down", "").status.success());
    assert!(new.join("note").exists() && !new.join("dir").exists());
}

#[test]
fn while_one_run_goes_on_another_neither_ends_nor_doubles_its_cluster() {
    let ground = Ground::new();
    let beside = |what: &str| Journal::begin(&ground.place("state"), "toy", what).unwrap();
    let coming = beside("up");
    let second = ground.run(&["up"]);
    assert!(stderr(&second).contains("is being brought up"), "{}", stderr(&second));
    drop(coming);
    assert!(ground.run(&["up"]).status.success());
    ground.shows_one_process();
    let running = beside("run");
    let down = ground.run(&["down"]);
    assert!(stderr(&down).contains("`run` is running"), "{}", stderr(&down));
    assert_eq!(ground.processes().len(), 1, "the cluster that it uses is up");
    drop(running);
    let experiment = beside("nap");
    let down = ground.run(&["down"]);
    assert!(down.status.success(), "an experiment has a cluster of its own: {}", stderr(&down));
    assert!(
        stderr(&down).contains("`nap` (pid") && stderr(&down).contains("continues with its own cluster"),
        "{}",
        stderr(&down)
    );
    assert_eq!(ground.processes(), [""; 0]);
    let nothing = ground.run(&["down"]);
    assert!(stderr(&nothing).contains("`nap` is running"), "{}", stderr(&nothing));
    drop(experiment);
    assert_eq!(ground.left(), [] as [&str; 0]);
}

/// Stops at ever later checks until a run has fewer.
fn sweep(kind: &str, every: usize, refuses: bool, mut judge: impl FnMut(&Output)) {
    for step in (1..400).step_by(every) {
        let ground = Ground::that_refuses(refuses);
        let output = ground.run_with_fault(&format!("{kind}:{step}"));
        if output.status.success() {
            assert!(step > 20, "only {step} places to stop at");
            return;
        }
        judge(&output);
        assert_eq!(ground.stays(), [] as [&str; 0], "after {kind} at check {step}:\n{}", stderr(&output));
    }
    panic!("the run never ends");
}

#[test]
fn a_signal_at_any_step_leaves_nothing() {
    for (every, refuses) in [(1, false), (5, true)] {
        sweep("signal", every, refuses, |output| {
            assert_eq!(output.status.code(), Some(130), "{}", stderr(output));
        });
    }
}

#[test]
fn a_panic_at_any_step_leaves_nothing() {
    for (every, refuses) in [(3, false), (7, true)] {
        sweep("panic", every, refuses, |output| {
            assert!(stderr(output).contains("VCM_LABS_FAULT"), "{}", stderr(output));
        });
    }
}

#[test]
fn a_kill_of_the_run_at_any_step_leaves_nothing() {
    for (every, refuses) in [(2, false), (5, true)] {
        sweep("kill", every, refuses, |output| assert_eq!(output.status.code(), None, "killed"));
    }
}

/// The process that a user sees and may kill is not the one that runs.
#[test]
fn a_kill_of_the_process_that_waits_leaves_files_at_most_and_down_or_the_next_run_removes_them() {
    for (attempt, refuses) in (0..24).zip([false, true].into_iter().cycle()) {
        let ground = Ground::that_refuses(refuses);
        let mut run = ground.command(&["nap"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(attempt * 12));
        run.kill().unwrap();
        run.wait().unwrap();
        let is_a_file = |one: &String| ["state/", "work/"].iter().any(|folder| one.starts_with(folder));
        let ends = |_: &i32| {
            sleep(Duration::from_millis(20));
            ground.left().iter().all(is_a_file)
        };
        assert!((0..250).any(|look| ends(&look)), "{:?}", ground.left());
        let words: &[&str] = if attempt % 4 < 2 { &["down"] } else { &["nap"] };
        let undone = ground.run(words);
        assert!(undone.status.success(), "{}", stderr(&undone));
        assert_eq!(ground.stays(), [] as [&str; 0], "attempt {attempt}");
    }
}

#[test]
fn what_is_up_stays_until_down() {
    [false, true].into_iter().map(Ground::that_refuses).for_each(|ground| up_and_down(&ground));
}

fn up_and_down(ground: &Ground) {
    assert!(ground.run(&["up"]).status.success());
    ground.shows_one_process();
    let mut files = fs::read_dir(ground.place("state")).unwrap().map(|file| file.unwrap().path());
    let journal = files.find(|path| path.extension().is_some_and(|end| end == "journal")).unwrap();
    let journal: serde_json::Value = serde_json::from_slice(&fs::read(journal).unwrap()).unwrap();
    assert!(journal["holder"].is_object() || ground.refuses || !can_enter(), "{journal}");
    assert!(journal["holder"].is_null() || !ground.refuses, "{journal}");
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
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean 'nap'?"), "{}", stderr(&output));
    assert!(!ground.place("state").exists());
}

#[test]
fn beside_a_cluster_that_lives_here_nothing_is_installed_and_the_command_is_named() {
    if !nix::unistd::geteuid().is_root() {
        return vcmalloc_tests::skip!("without root nothing is ever installed");
    }
    let ground = Ground::new();
    let mut nap = ground.command(&["nap"]);
    let needs = nap.env("TOY_NEEDS", "vcm-no-such-package").env("TOY_LIVES_HERE", "toyd, pid 7");
    let output = needs.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("on a host with a cluster (toyd, pid 7)") && said.contains("--yes"), "{said}");
    assert!(said.contains("apt-get install --no-install-recommends vcm-no-such-package"), "{said}");
    assert_eq!(ground.left(), [] as [&str; 0]);
}
