//! Running one case of the robustness suite on one allocator.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use vcmalloc_tests::{Ground, child, compile, library, machine};

use crate::allocators::{Allocator, End, Run, run};
use crate::suite::{Case, Setting};

/// How much is asked of the cases that can do more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// For every day.
    Daily,
    /// For the published table.
    Thorough,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Passed,
    /// The machine cannot run the case, for this reason.
    Skipped(String),
    /// The case says nothing about this allocator.
    NotMeant,
    Failed {
        how: String,
        said: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => write!(to, "passed"),
            Outcome::Skipped(_) => write!(to, "skipped"),
            Outcome::NotMeant => write!(to, "-"),
            Outcome::Failed { how, .. } => write!(to, "**{how}**"),
        }
    }
}

/// `patience`: how many times the case's limit of time it may take.
pub fn attempt(allocator: &Allocator, case: &Case, effort: Effort, patience: u32) -> Result<Outcome, String> {
    let ours_only = matches!(case.setting, Setting::Static | Setting::Secure);
    if (ours_only && !allocator.is_ours()) || (case.setting == Setting::Late && allocator.library.is_none()) {
        return Ok(Outcome::NotMeant);
    }
    if let Setting::Refusing(call) = case.setting {
        return refuse(allocator, case, call, effort);
    }
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let mut command = match case.setting {
        Setting::Secure => secure_program(allocator, folder.path())?,
        setting => prepared(allocator, case, setting, folder.path())?,
    };
    command.env("ROBUSTNESS_PATIENCE", patience.to_string());
    if allocator.is_hardened() {
        // The bytes around a block are 24 and more: 40 MiB in blocks of 64 bytes would be 65.
        command.env("ROBUSTNESS_LEAST_BLOCK", "512");
    }
    if effort == Effort::Thorough {
        command.env("ROBUSTNESS_FORKS", "1000").env("ROBUSTNESS_SECONDS", "3");
    }
    let run = run(&mut command, case.limit * patience)?;
    // The starter of the setuid program is no setuid program: it is told off for its variables.
    let may_speak = case.name.starts_with("handler_") || case.setting == Setting::Secure;
    Ok(judge(&run, allocator.is_ours() && !may_speak))
}

/// `silent`: our library has nothing to say in a case that passes.
fn judge(run: &Run, silent: bool) -> Outcome {
    let said = child::tail(&format!("{}{}", run.complaints, run.output));
    let failed = |how: &str| Outcome::Failed { how: how.into(), said: said.clone() };
    match run.end {
        End::Exit(0) if silent && run.complaints.contains("vcmalloc: ") => failed("complains"),
        End::Exit(0) => Outcome::Passed,
        End::Exit(77) => Outcome::Skipped(said.trim().to_string()),
        End::Hang => failed("hangs"),
        End::Exit(127) => failed("does not load"),
        End::Exit(_) => failed("fails"),
        End::Signal(libc::SIGSEGV) => failed("SEGV"),
        End::Signal(libc::SIGABRT) => failed("aborts"),
        End::Signal(libc::SIGALRM) => failed("hangs"),
        End::Signal(signal) => failed(&format!("signal {signal}")),
    }
}

fn source(file: &str) -> PathBuf {
    library::repository().join("tests/robustness").join(file)
}

fn compiled(file: &str, ground: Ground) -> Result<PathBuf, String> {
    // C++ is less patient with what the shared headers leave unused.
    let flags: &[String] = if file.ends_with(".cc") { &["-w".into()] } else { &[] };
    compile::program(&source(file), ground, flags)
}

fn prepared(allocator: &Allocator, case: &Case, setting: Setting, folder: &Path) -> Result<Command, String> {
    let ground = if setting == Setting::Static { Ground::Static } else { Ground::Preload };
    let program = compiled(case.program, ground)?;
    let mut command = match setting {
        Setting::Valgrind => words(&["valgrind", "--tool=none", "-q"], &program),
        Setting::UnlimitedStack => {
            words(&["sh", "-c", "ulimit -s unlimited && exec \"$0\" \"$@\""], &program)
        }
        _ => machine::command(&program),
    };
    allocator.prepare(&mut command)?;
    if let Some(library) = &allocator.library {
        command.env("ROBUSTNESS_LIBRARY", library);
    }
    command.env("ROBUSTNESS_PLUGIN", compile::shared_library(&source("plugin.c"), "robustness_plugin", &[])?);
    let name = match setting {
        Setting::Plain | Setting::Limited(_) | Setting::Late | Setting::EmptyRoot => case.name,
        Setting::Static => "a_thousand_threads",
        _ => "plain_work",
    };
    command.arg(name);
    match setting {
        Setting::NoSequences => {
            command.env("VCM_FRONT", "locked");
        }
        Setting::Limited(limit) => {
            command.env("VCM_MEMORY_LIMIT", limit);
        }
        Setting::Audited => {
            command.env("LD_AUDIT", compile::shared_library(&source("audit.c"), "robustness_audit", &[])?);
        }
        Setting::Late | Setting::Static => {
            command.env_remove("LD_PRELOAD");
        }
        Setting::EmptyRoot => {
            fill_root(folder, &program, allocator.library.as_deref())?;
            command.env("ROBUSTNESS_ROOT", folder);
        }
        Setting::EmptyEnvironment => {
            command.env_clear();
            if let Some(library) = &allocator.library {
                command.env("LD_PRELOAD", library);
            }
        }
        _ => {}
    }
    Ok(command)
}

fn words(words: &[&str], program: &Path) -> Command {
    let (first, rest) = words.split_first().expect("a command has a name");
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command
}

/// Copies by a process of its own: a child forked meanwhile by another thread would hold our descriptor, and
/// what somebody writes cannot be started.
fn install(file: &Path, target: &Path) -> Result<(), String> {
    let mut copy = Command::new("install");
    copy.args(["-D", "-m", "755"]).args([file, target]);
    vcmalloc_tests::run(&mut copy, std::time::Duration::from_secs(60))?.succeeded()
}

/// Copies a program and everything that the dynamic linker needs for it.
fn fill_root(root: &Path, program: &Path, library: Option<&Path>) -> Result<(), String> {
    let listed =
        Command::new("ldd").arg(program).args(library).output().map_err(|error| format!("ldd: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    for path in paths.map(Path::new).chain(library) {
        let inside = root.join(path.strip_prefix("/").expect("an absolute path"));
        install(path, &inside)?;
    }
    install(program, &root.join("program"))
}

/// A program beside the library, in a folder that everybody may read.
fn secure_program(allocator: &Allocator, folder: &Path) -> Result<Command, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(wrong)?;
    let built = allocator.library.as_ref().expect("ours is a library");
    let name = built.file_name().expect("a library has a name");
    let (library, program) = (folder.join(name), folder.join("secure"));
    fs::copy(built, &library).map_err(wrong)?;
    // The loader asks for it by one of its sonames.
    for soname in ["libvcmalloc.so.0", "libvcmalloc-hardened.so.0"] {
        std::os::unix::fs::symlink(&library, folder.join(soname)).map_err(wrong)?;
    }
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-D_GNU_SOURCE", "-fno-builtin", "-w"]).arg(source("secure.c")).arg(&library);
    compiler.arg(format!("-Wl,-rpath,{}", folder.display())).arg("-o").arg(&program);
    vcmalloc_tests::run(&mut compiler, std::time::Duration::from_secs(60))?.succeeded()?;
    let file = folder.join("vcmalloc.conf");
    fs::write(&file, "stats_at_exit = on\n").map_err(wrong)?;
    let mut command = Command::new(&program);
    allocator.prepare(&mut command)?;
    command.env_remove("LD_PRELOAD").env("ROBUSTNESS_COPY", &program);
    // The tested program is the copy that the starter runs as nobody; the starter itself obeys all this.
    command.env("VCM_CONFIG", &file).env("VCM_STATS_AT_EXIT", "1").env("VCM_NO_SUCH_OPTION", "1");
    Ok(command)
}

/// Every error for a system call, several loads; stops at the first that is not survived.
fn refuse(allocator: &Allocator, case: &Case, call: &str, effort: Effort) -> Result<Outcome, String> {
    let (injector, program) =
        (compiled("inject/inject.c", Ground::Glibc)?, compiled(case.program, Ground::Preload)?);
    let daily: (&[&str], &[&str], &str) = (&["trimmed_blocks", "threads"], &["ENOMEM"], "8");
    let thorough: (&[&str], &[&str], &str) = (
        &[
            "small_blocks",
            "zeroed_blocks",
            "growing_block",
            "large_blocks",
            "aligned_blocks",
            "trimmed_blocks",
            "threads",
            "children",
            "many_small_blocks",
            "threads_run_out",
        ],
        &["ENOMEM", "EPERM", "EINVAL", "ENOSYS", "EAGAIN"],
        "500",
    );
    let (loads, errors, most) = if effort == Effort::Daily { daily } else { thorough };
    // glibc's own threads end the process at any other error of a futex.
    let errors = if call == "futex" { &["EAGAIN"] } else { errors };
    for load in loads {
        for error in errors {
            for (how, start) in [("once", "exec"), ("on", "main")] {
                let mut command = machine::command(&injector);
                allocator.prepare(&mut command)?;
                command.env_remove("LD_PRELOAD");
                if let Some(library) = &allocator.library {
                    command.env("INJECT_PRELOAD", library);
                }
                command.args([call, error, how, start, most]).arg(&program).arg(load);
                let outcome = judge(&run(&mut command, case.limit)?, false);
                if outcome != Outcome::Passed {
                    return Ok(outcome);
                }
            }
        }
    }
    Ok(Outcome::Passed)
}
