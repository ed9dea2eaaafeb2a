//! Under a real systemd, which is booted in namespaces of its own from this system's files: `vcm compare --systemd`, and programs
//! under the filters of system calls that units of Debian have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;
use vcmalloc_tests::{Ground, child, compile, library, machine};

const SYSTEMD: &str = "/lib/systemd/systemd";
const TWO_MINUTES: Duration = Duration::from_secs(120);
const UNIT: &str = "[Service]\nRestart=on-failure\nStartLimitIntervalSec=1800\n";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = missing();
    if let Some(what) = &missing {
        eprintln!("a real systemd is left out: {what}");
    }
    type Run = fn() -> Result<(), String>;
    let trials: [(&str, Run); 2] = [
        ("units_take_turns_and_are_left_as_they_were", take_turns),
        ("programs_run_under_every_filter_under_which_they_run_on_glibc", run_under_filters),
    ];
    let trials =
        trials.map(|(name, run)| Trial::test(name, move || Ok(run()?)).with_ignored_flag(missing.is_some()));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn missing() -> Option<&'static str> {
    // SAFETY: the call has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    match () {
        () if machine::is_other() => Some("it is not for another machine"),
        () if !is_root => Some("only root can boot it"),
        () if !Path::new(SYSTEMD).exists() => Some("systemd is not installed"),
        () if !may_boot() => Some("namespaces or a control group cannot be made here"),
        () => None,
    }
}

/// In a container without rights of its own neither works.
fn may_boot() -> bool {
    let script = "mount --make-rprivate / && mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w /mnt/r && \
                  mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r && mount -t cgroup2 cgroup2 /mnt/r/sys";
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--fork", "sh", "-c", script]);
    unshare.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A booted systemd, ended when dropped.
struct Booted {
    process: Child,
    /// Of its first process, as this machine names it.
    first: i32,
    folder: TempDir,
}

impl Booted {
    fn new() -> Result<Booted, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).map_err(|error| error.to_string())?;
        let boot = library::repository().join("tests/systemd/boot");
        let mut command = Command::new(boot);
        command.arg(folder.path().join("system")).arg(&shared).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = child::apart(&mut command).spawn().map_err(|error| error.to_string())?;
        let mut booted = Booted { process, first: 0, folder };
        let begin = Instant::now();
        while !booted.is_up() {
            if begin.elapsed() > machine::patience(TWO_MINUTES) {
                return Err("systemd did not come up".to_owned());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(booted)
    }

    fn is_up(&mut self) -> bool {
        let children = format!("/proc/{0}/task/{0}/children", self.process.id());
        let first = fs::read_to_string(children).ok().and_then(|text| text.trim().parse().ok());
        self.first = first.unwrap_or(0);
        let state = self.first > 0
            && fs::read_to_string(format!("/proc/{}/comm", self.first))
                .is_ok_and(|name| name.trim() == "systemd");
        // "running", or "degraded" where something of this system's did not start.
        state
            && self
                .inside(&["systemctl", "is-system-running"])
                .is_ok_and(|said| ["running", "degraded"].contains(&said.0.trim()))
    }

    /// stdout, stderr and the exit code of a command in there.
    fn inside(&self, words: &[&str]) -> Result<(String, String, Option<i32>), String> {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.first.to_string(), "--all", "--wd=/"])
            .args(words)
            .stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&output.stdout), text(&output.stderr), output.status.code()))
    }

    fn done(&self, words: &[&str]) -> Result<String, String> {
        match self.inside(words)? {
            (out, _, Some(0)) => Ok(out),
            (out, err, code) => Err(format!("{words:?}: {code:?}\n{out}{err}")),
        }
    }

    fn shared(&self, name: &str) -> PathBuf {
        self.folder.path().join("shared").join(name)
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        child::end_group(&self.process);
        let _ = self.process.kill();
        let _ = self.process.wait();
        for group in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
            remove_groups(&Path::new(group).join(format!("vcmalloc-test-{}", self.process.id())));
        }
    }
}

/// Groups go from the leaves on, when their processes are gone.
fn remove_groups(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
        remove_groups(&entry.path());
    }
    for _ in 0..50 {
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(Duration::from_millis(100))
            }
            _ => return,
        }
    }
}

fn gcc(arguments: &[&str]) -> Result<(), String> {
    let done = Command::new("gcc").args(arguments).output().map_err(|error| error.to_string())?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

fn take_turns() -> Result<(), String> {
    let tool = library::tool()?;
    let booted = Booted::new()?;
    let sources = library::repository().join("tests/systemd");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (daemon, vcm) = (text(&booted.shared("daemon")), text(&booted.shared("vcm")));
    fs::copy(&tool, &vcm).map_err(|error| error.to_string())?;
    gcc(&["-o", &daemon, &text(&sources.join("daemon.c"))])?;
    let allocator = |name: &str, cost: &str, growth: &str| {
        let path = text(&booted.shared(name));
        gcc(&["-shared", "-fPIC", "-O1", cost, growth, "-o", &path, &text(&sources.join("allocator.c"))])
            .map(|()| path)
    };
    let quick = allocator("quick.so", "-DCOST=10", "-DGROWTH=10")?;
    let slow = allocator("slow.so", "-DCOST=12", "-DGROWTH=12")?;
    let shared = text(&booted.shared(""));
    let unit = format!("{UNIT}ExecStart={daemon} {shared}\n");
    fs::write(booted.shared("toy@.service"), unit).map_err(|error| error.to_string())?;
    booted.done(&["cp", &text(&booted.shared("toy@.service")), "/etc/systemd/system/"])?;
    booted.done(&["systemctl", "daemon-reload"])?;
    booted.done(&["systemctl", "start", "toy@1", "toy@2", "toy@3"])?;
    let steps = format!("steps: cat {shared}steps.$MAINPID");
    let arms = format!("{quick},{quick},{slow}");
    let words = [
        "compare",
        "--systemd",
        "toy@{1..3}",
        "--arms",
        &arms,
        "--for",
        "15s",
        "--periods",
        "6",
        "--washout",
        "1s",
    ];
    let run: Vec<&str> =
        std::iter::once(vcm.as_str()).chain(words).chain(["--cost", &steps, "--yes", "--json"]).collect();
    // Six starts of each in half a minute: more than a unit may have, were they counted.
    let json = booted.done(&run)?;
    let json: serde_json::Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    let compared = |arm: &str, measure: &str| {
        let mut all = json["comparisons"].as_array().into_iter().flatten();
        let found = all.find(|one| one["allocator"] == arm && one["measure"] == measure);
        found.map(|one| (one["by"].as_f64().unwrap_or(f64::NAN), one["is_shown"] == true))
    };
    let planted = [compared("slow.so", "steps"), compared("slow.so", "RSS")];
    if !planted.iter().all(|found| found.is_some_and(|(by, is_shown)| (0.15..0.25).contains(&by) && is_shown))
    {
        return Err(format!("the planted arm was not found: {planted:?}"));
    }
    let same = compared("quick.so (2)", "steps");
    // Of processor time these units take less than a tick on a quiet machine.
    if same != Some((0.0, false)) {
        return Err(format!("the same twice differs: {same:?}"));
    }
    let left = booted.done(&[
        "sh",
        "-c",
        "ls -d /etc/systemd/system/toy@*.d /var/lib/vcm/* 2>/dev/null || echo none",
    ])?;
    let preloads =
        booted.done(&["sh", "-c", "cat /proc/[0-9]*/maps | grep -c -e quick.so -e slow.so || true"])?;
    let active = booted.done(&["systemctl", "is-active", "toy@1", "toy@2", "toy@3"])?;
    match (left.trim(), preloads.trim(), active.split_ascii_whitespace().count()) {
        ("none", "0", 3) => Ok(()),
        other => Err(format!("the units are not as they were: {other:?}")),
    }
}

/// Settings that units may have beside a filter and that bear on the library's calls.
const HARDER: [&str; 4] = [
    "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\nCPUSchedulingPolicy=fifo\nCPUSchedulingPriority=1",
    "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\nCPUSchedulingPolicy=idle\nCPUAffinity=0",
    "SystemCallFilter=@system-service\nMemoryDenyWriteExecute=yes\nLimitAS=2G",
    "SystemCallFilter=@system-service\nRestrictRealtime=yes\nLimitDATA=1G\nLimitMEMLOCK=0",
];

/// Their programs sleep more than they compute.
const SETS_AT_A_TIME: usize = 8;

/// Units that run a program on each library under the settings of each set of tests/systemd/filters.txt.
fn run_under_filters() -> Result<(), String> {
    let booted = Booted::new()?;
    let source = library::repository().join("tests/system_calls/paths.c");
    let program = compile::program(&source, Ground::Glibc, &[])?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let copy = |from: &Path, name: &str| -> Result<String, String> {
        let to = booted.shared(name);
        fs::copy(from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
        Ok(text(&to))
    };
    let program = copy(&program, "paths")?;
    let preloads = [
        ("glibc", None),
        ("shared", Some(copy(&library::our_shared()?, "shared.so")?)),
        ("hardened", Some(copy(&library::hardened()?, "hardened.so")?)),
        ("stand-in", Some(copy(&library::stand_in()?, "stand-in.so")?)),
    ];
    let filters = fs::read_to_string(library::repository().join("tests/systemd/filters.txt"));
    let filters = filters.map_err(|error| error.to_string())?;
    let of_debian = filters.split("\n\n").skip(1).map(str::trim);
    let sets: Vec<&str> = of_debian.chain(HARDER).collect();
    let unit_of = |number: usize, name: &str| format!("filtered-{number}-{name}.service");
    for (number, set) in sets.iter().enumerate() {
        for (name, preload) in &preloads {
            let preload =
                preload.as_ref().map_or(String::new(), |path| format!("Environment=LD_PRELOAD={path}\n"));
            let lines = format!(
                "[Service]\nType=oneshot\n{set}\n{preload}Environment=VCM_RELEASE_DELAY=20ms\nExecStart={program} all\n"
            );
            fs::write(booted.shared(&unit_of(number, name)), lines).map_err(|error| error.to_string())?;
        }
    }
    let shared = text(&booted.shared(""));
    booted.done(&[
        "sh",
        "-c",
        &format!("cp {shared}/filtered-* /run/systemd/system/ && systemctl daemon-reload"),
    ])?;
    let (mut wrong, numbered): (_, Vec<(usize, &&str)>) = (Vec::new(), sets.iter().enumerate().collect());
    for group in numbered.chunks(SETS_AT_A_TIME) {
        let units = |number| preloads.iter().map(move |(name, _)| unit_of(number, name));
        let all: Vec<String> = group.iter().flat_map(|(number, _)| units(*number)).collect();
        let words = |first: &[&'static str]| -> Vec<&str> {
            first.iter().copied().chain(all.iter().map(String::as_str)).collect()
        };
        booted.inside(&words(&["systemctl", "start"]))?;
        let shown = booted.done(&words(&["systemctl", "show", "--property=Result,ExecMainStatus"]))?;
        let results: Vec<&str> = shown.split("\n\n").map(str::trim).collect();
        if results.len() != all.len() {
            return Err(format!("{} results of {} units: {shown}", results.len(), all.len()));
        }
        for ((_, set), (units, results)) in
            group.iter().zip(all.chunks(preloads.len()).zip(results.chunks(preloads.len())))
        {
            // A filter under which glibc does not run either lets no thread begin.
            let runs_on_glibc = results[0].contains("Result=success");
            let failed = |(_, said): &(&String, &&str)| runs_on_glibc && !said.contains("Result=success");
            for (unit, said) in units.iter().zip(results).filter(failed) {
                wrong.push(format!("{unit}: {}\n{set}", said.replace('\n', " ")));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n\n")) }
}
