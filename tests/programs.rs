//! Programs people use, run on the library with and without restartable sequences. Where a program's output
//! is determined by its input, it must be that of the run on glibc.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;
use vcmalloc_tests::{Ground, child, library, run};

/// Runs on a ground in an empty folder; the output is compared with that of the run on glibc.
type Scenario = fn(Ground, &Path) -> Result<Vec<u8>, String>;

const SCENARIOS: [(&str, Scenario); 16] = [
    ("python_runs_its_own_tests_of_containers", python_containers),
    ("python_runs_its_own_tests_of_threads_and_forks", python_threads),
    ("python_computes_the_same", python_script),
    ("perl_computes_the_same", perl_script),
    ("gcc_compiles_the_same", gcc),
    ("g++_compiles_the_same", gpp),
    ("sqlite_answers_the_same", sqlite),
    ("git_makes_the_same_repository", git),
    ("sort_in_threads_sorts_the_same", sort),
    ("redis_holds_the_same_data", redis_data),
    ("redis_serves_its_benchmark", redis_benchmark),
    ("db_bench_fills_and_reads", db_bench),
    ("valgrind_runs_a_program", valgrind),
    ("a_shell_and_its_children_say_nothing", shell),
    ("every_process_proves_its_allocator", run_proof),
    ("statistics_at_exit_are_printed_once_asked_for", statistics_at_exit),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let controls: Arc<Mutex<HashMap<&str, Result<Vec<u8>, String>>>> = Arc::default();
    let mut trials = Vec::new();
    for (name, scenario) in SCENARIOS {
        for ground in [Ground::Preload, Ground::Locked] {
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

fn in_empty_folder(scenario: Scenario, ground: Ground) -> Result<Vec<u8>, String> {
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
fn output_of(ground: Ground, folder: &Path, program: &str, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    finish(ground, folder, &mut command)
}

fn finish(ground: Ground, folder: &Path, command: &mut Command) -> Result<Vec<u8>, String> {
    ground.prepare(command)?;
    command.current_dir(folder).env("HOME", folder).env("TMPDIR", folder);
    let finished = run(command, Duration::from_secs(150))?;
    finished.succeeded().map_err(|error| format!("{command:?}: {error}"))?;
    match finished.complaints.contains("vcmalloc") {
        true => Err(format!("the library complained:\n{}", finished.complaints)),
        false => Ok(finished.output),
    }
}

fn beside(file: &str) -> String {
    library::repository().join("tests/programs").join(file).to_string_lossy().into_owned()
}

/// Python's small blocks come from its own arenas unless it is told to ask malloc.
fn python(ground: Ground, folder: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new("/usr/bin/python3");
    command.args(arguments).env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0");
    finish(ground, folder, &mut command)
}

fn python_tests(ground: Ground, folder: &Path, names: &[&str]) -> Result<Vec<u8>, String> {
    let arguments = [&["-m", "test", "-q"], names].concat();
    // What it prints has times in it.
    python(ground, folder, &arguments).map(|_| Vec::new())
}

fn python_containers(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    let names = "test_json test_dict test_list test_set test_bytes test_re test_deque test_heapq test_array test_sort \
                 test_unicode test_memoryview test_zlib test_ctypes";
    python_tests(ground, folder, &names.split_whitespace().collect::<Vec<_>>())
}

fn python_threads(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    python_tests(ground, folder, &["test_gc", "test_thread", "test_fork1"])
}

fn python_script(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    python(ground, folder, &[&beside("work.py")])
}

fn perl_script(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    let mut command = Command::new("/usr/bin/perl");
    command.arg(beside("work.pl")).env("PERL_HASH_SEED", "0");
    finish(ground, folder, &mut command)
}

fn gcc(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    output_of(ground, folder, "gcc", &["-O2", "-S", "-o", "-", &beside("many_functions.c")])
}

fn gpp(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    output_of(ground, folder, "g++", &["-std=c++17", "-O2", "-S", "-o", "-", &beside("templates.cc")])
}

fn sqlite(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    output_of(ground, folder, "sqlite3", &["rows.db", &format!(".read {}", beside("rows.sql"))])
}

fn git(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
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
        output.extend(finish(ground, folder, &mut command)?);
    }
    // The size of the pack depends on which thread found which delta first.
    let text = String::from_utf8_lossy(&output);
    let lines = text.lines().filter(|line| !line.starts_with("size"));
    Ok(lines.map(|line| format!("{line}\n")).collect::<String>().into_bytes())
}

fn sort(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    let mut state = 1u64;
    let lines = (0..300_000).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        format!("{:x}\n", state >> (state % 40))
    });
    fs::write(folder.join("lines"), lines.collect::<String>()).map_err(|error| error.to_string())?;
    output_of(ground, folder, "sort", &["--parallel=4", "--buffer-size=20M", "lines"])
}

/// A server on a free port of the loopback, ended when dropped.
struct Redis {
    server: std::process::Child,
    port: String,
}

impl Redis {
    fn start(ground: Ground, folder: &Path) -> Result<Redis, String> {
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| error.to_string())?.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--enable-debug-command", "local", "--io-threads", "2"]);
        ground.prepare(&mut command)?;
        let log = fs::File::create(folder.join("redis.log")).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        command.current_dir(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let server = command.spawn().map_err(|error| format!("redis-server did not start: {error}"))?;
        let mut redis = Redis { server, port };
        let start = Instant::now();
        while redis.ask(folder, &["ping"]).is_err() {
            let ended = matches!(redis.server.try_wait(), Ok(Some(_)));
            if ended || start.elapsed() > Duration::from_secs(20) {
                return Err(format!("redis-server does not answer:\n{}", redis.log(folder)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(redis)
    }

    fn log(&self, folder: &Path) -> String {
        child::tail(&fs::read_to_string(folder.join("redis.log")).unwrap_or_default())
    }

    /// The client runs on glibc: the server is what is tested.
    fn ask(&self, folder: &Path, words: &[&str]) -> Result<Vec<u8>, String> {
        output_of(Ground::Glibc, folder, "redis-cli", &[&["-e", "-p", &self.port], words].concat())
    }

    fn stop(mut self, folder: &Path) -> Result<(), String> {
        let _ = self.ask(folder, &["shutdown", "nosave"]);
        let status = child::wait(&mut self.server, Duration::from_secs(20));
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("redis-server ended with {status}:\n{}", self.log(folder))),
            None => Err(format!("redis-server does not stop:\n{}", self.log(folder))),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Ok(None) = self.server.try_wait() {
            child::end_group(&self.server);
            let _ = self.server.wait();
        }
    }
}

fn redis_data(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    let redis = Redis::start(ground, folder)?;
    let fill = "for i = 1, 20000 do redis.call('set', 'key' .. i, string.rep('v', i % 700)) \
                redis.call('hset', 'hash' .. i % 500, 'field' .. i, i) redis.call('zadd', 'sorted', i * 7 % 1000, i) \
                redis.call('rpush', 'list' .. i % 20, string.rep('x', i % 90)) end \
                for i = 1, 20000, 3 do redis.call('del', 'key' .. i) end return redis.call('dbsize')";
    let mut output = redis.ask(folder, &["eval", fill, "0"])?;
    // Saves from a forked child and loads it again: the child and the reload use the heap in their own ways.
    redis.ask(folder, &["debug", "reload"])?;
    output.extend(redis.ask(folder, &["debug", "digest"])?);
    redis.ask(folder, &["bgsave"])?;
    redis.ask(folder, &["flushall"])?;
    redis.ask(folder, &["memory", "purge"])?;
    redis.stop(folder)?;
    Ok(output)
}

fn redis_benchmark(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    let redis = Redis::start(ground, folder)?;
    let load = ["-q", "-n", "20000", "-r", "5000", "-d", "300", "-P", "8", "-c", "50", "--threads", "2"];
    let kinds = ["-t", "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,lrange_100,mset"];
    // The benchmark runs on the same ground: it is a threaded program too.
    let arguments = [&["-p", &redis.port][..], &load, &kinds].concat();
    output_of(ground, folder, "redis-benchmark", &arguments)?;
    redis.stop(folder)?;
    Ok(Vec::new())
}

fn db_bench(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
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
fn valgrind(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    let script =
        "my %h = map { $_ => \"x\" x ($_ % 900) } 1 .. 3000; my $n = 0; $n += length for values %h; print $n";
    output_of(ground, folder, "valgrind", &["-q", "--tool=none", "perl", "-e", script])
}

fn shell(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    let script = "for i in 1 2 3 4 5; do ls /etc | sort -r | head -3 | tr a-z A-Z; (echo sub $i) & wait; done; \
                  tar cf - -C /etc passwd group | tar tf - ; exec true";
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    ground.prepare(&mut command)?;
    let finished = run(command.current_dir(folder), Duration::from_secs(60))?;
    finished.succeeded()?;
    match finished.complaints.is_empty() {
        true => Ok(finished.output),
        false => Err(format!("a silent script said:\n{}", finished.complaints)),
    }
}

fn lines_of(path: PathBuf) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(String::from).collect()
}

/// `vcm run` believes the line that each process writes when the library starts.
fn run_proof(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    if !ground.is_ours() || library::is_foreign() {
        return Ok(Vec::new());
    }
    let script = "exec 9>>proof; export VCM_RUN_PROOF=9; /bin/true; exec perl -e 'system(\"/bin/true\")'";
    output_of(ground, folder, "/bin/sh", &["-c", script])?;
    let lines = lines_of(folder.join("proof"));
    if lines.len() < 3 {
        return Err(format!("three processes should each write a line, not {lines:?}"));
    }
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let front = words.last().copied().unwrap_or("");
        let right_front = match ground {
            Ground::Locked => front == "locked",
            _ => front == "locked" || front.starts_with("vcpu-"),
        };
        let form = words.len() == 8
            && words[0] == "vcmalloc"
            && words[2] == "pid"
            && words[4..6] == ["malloc", "ours"];
        if !form || !right_front {
            return Err(format!("not `vcmalloc <version> pid <pid> malloc ours front <front>`: {line}"));
        }
    }
    Ok(Vec::new())
}

fn statistics_at_exit(ground: Ground, folder: &Path) -> Result<Vec<u8>, String> {
    if !ground.is_ours() || library::is_foreign() {
        return Ok(Vec::new());
    }
    let mut command = Command::new("perl");
    command.args(["-e", "my @a = map { 'x' x $_ } 1 .. 2000; print scalar @a"]);
    ground.prepare(&mut command)?;
    let finished = run(command.current_dir(folder).env("VCM_STATS_AT_EXIT", "1"), Duration::from_secs(20))?;
    finished.succeeded()?;
    match (finished.text().as_str(), finished.complaints.lines().count()) {
        ("2000", 5..) => Ok(Vec::new()),
        (output, _) => {
            Err(format!("statistics on stderr and '2000' on stdout, not:\n{}\n{output}", finished.complaints))
        }
    }
}
