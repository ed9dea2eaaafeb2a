//! Programs people use, run on the library with and without restartable sequences. If a program's output is
//! determined by its input, it must be that of the run on glibc.

#[path = "programs/ours.rs"]
mod ours;
#[path = "programs/redis.rs"]
mod redis;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;
use vcmalloc_tests::{Finished, Ground, library, machine, run};

/// Runs on a ground in an empty folder; the output is compared with that of the run on glibc.
type Scenario = fn(Ground, &Path) -> Outcome;
type Outcome = Result<Vec<u8>, String>;

const MINUTE: Duration = Duration::from_secs(60);

const SCENARIOS: [(&str, Scenario); 17] = [
    ("python_runs_its_own_tests_of_containers", python_containers),
    ("python_runs_its_own_tests_of_threads_and_forks", python_threads),
    ("python_computes_the_same", python_script),
    ("perl_computes_the_same", perl_script),
    ("gcc_compiles_the_same", gcc),
    ("g++_compiles_the_same", gpp),
    ("sqlite_answers_the_same", sqlite),
    ("git_makes_the_same_repository", git),
    ("sort_in_threads_sorts_the_same", sort),
    ("redis_holds_the_same_data", redis::data),
    ("redis_serves_its_benchmark", redis::benchmark),
    ("db_bench_fills_and_reads", db_bench),
    ("valgrind_runs_a_program", valgrind),
    ("a_shell_and_its_children_say_nothing", shell),
    ("every_process_proves_its_allocator", ours::run_proof),
    ("what_is_wrong_with_the_config_file_is_said_with_its_place", ours::config_file),
    ("statistics_at_exit_are_printed_once_asked_for", ours::statistics_at_exit),
];

/// The programs that also run while many of their allocations are sampled: threads, forks, exceptions, many
/// children.
const WATCHED: [&str; 6] = [
    "python_runs_its_own_tests_of_threads_and_forks",
    "python_computes_the_same",
    "g++_compiles_the_same",
    "redis_holds_the_same_data",
    "db_bench_fills_and_reads",
    "a_shell_and_its_children_say_nothing",
];

/// The programs that also run on another machine, of which Debian's packages are unpacked: one process each.
const ELSEWHERE: [&str; 3] =
    ["python_computes_the_same", "sqlite_answers_the_same", "sort_in_threads_sorts_the_same"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let controls: Arc<Mutex<HashMap<&str, Outcome>>> = Arc::default();
    let mut trials = Vec::new();
    for (name, scenario) in SCENARIOS {
        if machine::is_other() && !ELSEWHERE.contains(&name) {
            continue;
        }
        let watched = WATCHED.contains(&name).then_some(Ground::Watched);
        for ground in [Ground::Preload, Ground::Locked, Ground::Hardened].into_iter().chain(watched) {
            let controls = controls.clone();
            trials.push(Trial::test(format!("{name}::{}", ground.name()), move || {
                let output = in_empty_folder(scenario, ground)?;
                // Outside the lock, so that the other test thread goes on; at worst the control runs twice.
                let known = controls.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
                let control = known.unwrap_or_else(|| in_empty_folder(scenario, Ground::Glibc));
                controls.lock().unwrap_or_else(PoisonError::into_inner).insert(name, control.clone());
                let control = control.map_err(|error| format!("on glibc too: {error}"))?;
                Ok(expect_same(&output, &control)?)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn in_empty_folder(scenario: Scenario, ground: Ground) -> Outcome {
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    scenario(ground, folder.path())
}

fn expect_same(output: &[u8], control: &[u8]) -> Result<(), String> {
    if output == control {
        return Ok(());
    }
    let (ours, theirs) = (String::from_utf8_lossy(output), String::from_utf8_lossy(control));
    let differs = ours.lines().zip(theirs.lines()).enumerate().find(|(_, (one, other))| one != other);
    Err(match differs {
        Some((line, (one, other))) => {
            format!("line {} differs from glibc's run:\n  {one}\n  {other}", line + 1)
        }
        None => format!("{} lines, {} on glibc", ours.lines().count(), theirs.lines().count()),
    })
}

/// Runs `program` on `ground` in `folder`; it must succeed, and the library must have nothing to complain
/// about.
fn output_of(ground: Ground, folder: &Path, program: &str, arguments: &[&str]) -> Outcome {
    let mut command = machine::debians(program);
    command.args(arguments);
    Ok(finish(ground, folder, &mut command)?.output)
}

fn finish(ground: Ground, folder: &Path, command: &mut Command) -> Result<Finished, String> {
    ground.prepare(command)?;
    command.current_dir(folder).env("HOME", folder).env("TMPDIR", folder);
    let finished = run(command, machine::patience(Duration::from_secs(150)))?;
    finished.succeeded().map_err(|error| format!("{command:?}: {error}"))?;
    match finished.complaints.contains("vcmalloc") {
        true => Err(format!("the library complained:\n{}", finished.complaints)),
        false => Ok(finished),
    }
}

fn beside(file: &str) -> String {
    library::repository().join("tests/programs").join(file).to_string_lossy().into_owned()
}

/// Python's small blocks come from its own arenas unless it is told to ask malloc.
fn python(ground: Ground, folder: &Path, arguments: &[&str]) -> Outcome {
    let mut command = machine::debians("/usr/bin/python3");
    command.args(arguments).env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0");
    Ok(finish(ground, folder, &mut command)?.output)
}

fn python_tests(ground: Ground, folder: &Path, names: &[&str]) -> Outcome {
    let run = |ground, names: &[&str]| {
        let mut command = debians_python();
        command
            .args(["-m", "test", "-q"])
            .args(names)
            .env("PYTHONMALLOC", "malloc")
            .env("PYTHONHASHSEED", "0");
        // Its output has times in it.
        finish(ground, folder, &mut command).map(|_| Vec::new())
    };
    let failed = match run(ground, names) {
        Err(said) => said,
        passed => return passed,
    };
    // Debian's updates bring tests that an interpreter which was not updated fails, on any allocator.
    let broken = run(Ground::Glibc, names).err().map_or(Vec::new(), |said| failed_modules(&said));
    let rest: Vec<&str> = names.iter().copied().filter(|name| !broken.contains(&name.to_string())).collect();
    if rest.is_empty() || rest.len() == names.len() {
        return Err(failed);
    }
    vcmalloc_tests::skip!("{} of Python: it fails on glibc too", broken.join(", "));
    run(ground, &rest)
}

/// The modules that Python's own runner names in its last lines: `1 test failed:`, and the names, indented.
fn failed_modules(said: &str) -> Vec<String> {
    let after = said.lines().skip_while(|line| !line.ends_with(" failed:")).skip(1);
    let names = after.take_while(|line| line.starts_with("    ")).flat_map(str::split_whitespace);
    names.map(str::to_string).collect()
}

/// Debian's, with its tests.
fn debians_python() -> Command {
    let mut command = machine::debians("/usr/bin/python3");
    if let Some(place) = machine::python_tests() {
        command.env("PYTHONPATH", place);
    }
    command
}

/// Since Python 3.13 that of strings has another name.
fn python_test_of_strings() -> &'static str {
    let is_new = debians_python().args(["-c", "import test.test_str"]).stderr(Stdio::null()).status();
    if is_new.is_ok_and(|status| status.success()) { "test_str" } else { "test_unicode" }
}

fn python_containers(ground: Ground, folder: &Path) -> Outcome {
    let names = "test_json test_dict test_list test_set test_bytes test_re test_deque test_heapq test_array test_sort \
                 test_memoryview test_zlib test_ctypes";
    let names = names.split_whitespace().chain([python_test_of_strings()]);
    python_tests(ground, folder, &names.collect::<Vec<_>>())
}

fn python_threads(ground: Ground, folder: &Path) -> Outcome {
    python_tests(ground, folder, &["test_gc", "test_thread", "test_fork1"])
}

fn python_script(ground: Ground, folder: &Path) -> Outcome {
    python(ground, folder, &[&beside("work.py")])
}

fn perl_script(ground: Ground, folder: &Path) -> Outcome {
    let mut command = Command::new("/usr/bin/perl");
    command.arg(beside("work.pl")).env("PERL_HASH_SEED", "0");
    Ok(finish(ground, folder, &mut command)?.output)
}

fn gcc(ground: Ground, folder: &Path) -> Outcome {
    output_of(ground, folder, "gcc", &["-O2", "-S", "-o", "-", &beside("many_functions.c")])
}

fn gpp(ground: Ground, folder: &Path) -> Outcome {
    output_of(ground, folder, "g++", &["-std=c++17", "-O2", "-S", "-o", "-", &beside("templates.cc")])
}

fn sqlite(ground: Ground, folder: &Path) -> Outcome {
    output_of(ground, folder, "sqlite3", &["rows.db", &format!(".read {}", beside("rows.sql"))])
}

fn git(ground: Ground, folder: &Path) -> Outcome {
    for number in 0..500 {
        let lines: String = (0..number % 120).map(|line| format!("{}\n", line * number % 997)).collect();
        fs::write(folder.join(format!("file-{number}")), lines).map_err(|error| error.to_string())?;
    }
    let mut output = Vec::new();
    let steps: [&[&str]; 11] = [
        &["init", "-q", "-b", "main", "."],
        &["add", "--all", "."],
        &["commit", "-q", "-m", "All files"],
        &["rm", "-q", "file-7", "file-70"],
        &["mv", "file-8", "moved"],
        &["commit", "-q", "-m", "Fewer files"],
        &["-c", "pack.threads=4", "gc", "-q"],
        &["fsck", "--full", "--strict"],
        &["log", "--stat", "--format=%H %T %s"],
        &["grep", "--threads=4", "-c", "996"],
        &["count-objects", "-v"],
    ];
    for step in steps {
        let mut command = Command::new("git");
        command.args(step).env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "A").env(format!("GIT_{role}_EMAIL"), "a@example.org");
            command.env(format!("GIT_{role}_DATE"), "2020-01-01T00:00:00Z");
        }
        output.extend(finish(ground, folder, &mut command)?.output);
    }
    // The size of the pack depends on which thread found which delta first.
    let text = String::from_utf8_lossy(&output);
    let lines = text.lines().filter(|line| !line.starts_with("size"));
    Ok(lines.map(|line| format!("{line}\n")).collect::<String>().into_bytes())
}

fn sort(ground: Ground, folder: &Path) -> Outcome {
    let mut state = 1u64;
    let lines = (0..300_000).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        format!("{:x}\n", state >> (state % 40))
    });
    fs::write(folder.join("lines"), lines.collect::<String>()).map_err(|error| error.to_string())?;
    output_of(ground, folder, "sort", &["--parallel=4", "--buffer-size=20M", "lines"])
}

fn db_bench(ground: Ground, folder: &Path) -> Outcome {
    let kinds = "--benchmarks=fillrandom,overwrite,readrandom,readwhilewriting,compact,seekrandom";
    let size = [
        "--num=20000",
        "--threads=8",
        "--value_size=400",
        "--write_buffer_size=1000000",
        "--cache_size=2000000",
    ];
    let database = format!("--db={}", folder.join("database").display());
    let output = output_of(ground, folder, "db_bench", &[&[kinds, &database], &size[..]].concat())?;
    match String::from_utf8_lossy(&output).contains("seekrandom") {
        true => Ok(Vec::new()),
        false => Err("db_bench did not come to its last benchmark".into()),
    }
}

/// valgrind has no restartable sequences and little address space, and a program on it must not notice.
fn valgrind(ground: Ground, folder: &Path) -> Outcome {
    let script =
        "my %h = map { $_ => \"x\" x ($_ % 900) } 1 .. 3000; my $n = 0; $n += length for values %h; print $n";
    let mut command = machine::debians("valgrind");
    command.args(["-q", "--tool=none", "perl", "-e", script]);
    // Each miss is a sample, and each has a stack.
    command.envs([("VCM_PROFILE", "on"), ("VCM_SAMPLE_INTERVAL", "1")]);
    let finished = finish(ground, folder, &mut command)?;
    match finished.complaints.as_str() {
        "" => Ok(finished.output),
        complaints => Err(format!("valgrind says of it:\n{complaints}")),
    }
}

fn shell(ground: Ground, folder: &Path) -> Outcome {
    let script = "for i in 1 2 3 4 5; do ls /etc | sort -r | head -3 | tr a-z A-Z; (echo sub $i) & wait; done; \
                  tar cf - -C /etc passwd group | tar tf - ; exec true";
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    ground.prepare(&mut command)?;
    let finished = run(command.current_dir(folder), MINUTE)?;
    finished.succeeded()?;
    match finished.complaints.is_empty() {
        true => Ok(finished.output),
        false => Err(format!("a silent script said:\n{}", finished.complaints)),
    }
}
