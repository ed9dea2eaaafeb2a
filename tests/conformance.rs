//! Runs every program of `conformance/` on the grounds its first comment names.
//!
//! ```text
//!   // The rule that must hold.
//!   // on: glibc preload locked hardened static    the grounds; glibc is the control
//!   // limit: 240                           seconds, 120 if absent: it ends a hang, also on a busy machine
//!   // args: 500                            arguments of the program
//!   // args.preload: 10000                  others on one ground
//!   // args.kernels: 20                      others on the emulated machines of scripts/kernels
//!   // flags: -lm                           further compiler flags
//! ```
//! A program prints nothing and exits with 0, or says what it expected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use vcmalloc_tests::{Ground, compile, library, machine, run};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let folder = library::repository().join("tests/conformance");
    let trials = match programs_in(&folder) {
        Ok(programs) => programs.into_iter().flat_map(trials_of).collect(),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Programs, or their trials, that would judge qemu on another machine, and why.
const NOT_UNDER_QEMU: [(&str, &str); 13] = [
    ("a_filter_that_was_there_before_is_not_met", "it keeps no filters"),
    ("a_lowered_address_limit_leaves_room", "it keeps no limits"),
    ("new_handler_that_frees_memory", "it keeps no limits"),
    ("out_of_data_while_running", "it keeps no limits"),
    ("out_of_memory_in_many_threads", "it keeps no limits"),
    ("out_of_memory_is_null_and_passes", "it keeps no limits"),
    ("children_that_share_memory", "it gives every child a memory of its own"),
    ("a_stop_for_misuse_ends_all_who_share_the_heap", "it gives every child a memory of its own"),
    ("vforked_children_have_a_copy_where_rseq_is_refused", "it has no filters"),
    ("exceptions_in_static_programs", "it starts no programs of the other machine from a program"),
    ("thread_churn_leaves_nothing", "it keeps some 100 KiB of every thread that ended"),
    ("blocks_freed_by_other_threads::hardened", "its list of protected pages takes 90 MiB"),
    ("fork_while_threads_use_stdio", "a child now and then waits for a lock of its own"),
];

#[derive(Clone)]
struct Program {
    source: PathBuf,
    grounds: Vec<Ground>,
    limit: Duration,
    arguments: Vec<String>,
    own_arguments: Vec<(Ground, Vec<String>)>,
    flags: Vec<String>,
}

fn programs_in(folder: &Path) -> Result<Vec<Program>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c" || extension == "cc"));
    sources.sort();
    sources.into_iter().map(|source| Program::read(&source)).collect()
}

impl Program {
    fn read(source: &Path) -> Result<Program, String> {
        let text = fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
        let wrong = |what: String| format!("{}: {what}", source.display());
        let words = |key: &str| -> Vec<String> {
            let head = text.lines().map_while(|line| line.strip_prefix("//"));
            let values = head.filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
            values.flat_map(str::split_whitespace).map(String::from).collect()
        };
        let grounds = words("on").into_iter().map(|name| {
            Ground::named(&name)
                .ok_or_else(|| wrong(format!("there is no ground '{name}'; see src/ground.rs")))
        });
        let grounds: Vec<Ground> = grounds.collect::<Result<_, String>>()?;
        if grounds.is_empty() {
            return Err(wrong(
                "its first comment needs a line `// on: glibc preload locked hardened static`".into(),
            ));
        }
        let limit = words("limit").first().map_or(Ok(120), |seconds| seconds.parse());
        let limit = limit.map_err(|error| wrong(format!("limit: {error}")))?;
        Ok(Program {
            source: source.to_path_buf(),
            grounds,
            limit: Duration::from_secs(limit),
            arguments: words("args"),
            own_arguments: Ground::ALL
                .map(|ground| (ground, words(&format!("args.{}", ground.name()))))
                .into(),
            flags: words("flags"),
        })
    }

    fn prove(&self, ground: Ground) -> Result<(), String> {
        let mut command = machine::command(&compile::program(&self.source, ground, &self.flags)?);
        let own = self.own_arguments.iter().find(|(of, words)| *of == ground && !words.is_empty());
        // Arguments that ask for more than glibc is asked take qemu minutes.
        let own = own.filter(|_| machine::slowness() == 1 || ground != Ground::Preload);
        command.args(own.map_or(&self.arguments, |(_, words)| words));
        ground.prepare(&mut command)?;
        // For programs that load the library late.
        command.env("CONFORMANCE_LIBRARY", library::shared()?);
        let finished = run(&mut command, machine::patience(self.limit))?;
        finished.succeeded()?;
        match finished.complaints.is_empty() && finished.output.is_empty() {
            true => Ok(()),
            false => Err(format!("it should print nothing:\n{}{}", finished.complaints, finished.text())),
        }
    }
}

fn trials_of(program: Program) -> Vec<Trial> {
    let stem = program.source.file_stem().expect("a source has a name").to_string_lossy().into_owned();
    let is_one_library = |ground: &&Ground| matches!(ground, Ground::Static | Ground::Hardened);
    let grounds = program.grounds.iter().filter(|ground| !is_one_library(ground) || !library::is_foreign());
    // On another machine the caches are locked anyway, and glibc's rules are known from this one.
    let is_repetition =
        |ground: &&Ground| machine::is_other() && matches!(ground, Ground::Glibc | Ground::Locked);
    let trial = |ground: &Ground| {
        let (program, ground) = (program.clone(), *ground);
        let name = format!("{stem}::{}", ground.name());
        let is_qemus = NOT_UNDER_QEMU.iter().any(|(named, _)| *named == name || *named == stem);
        Trial::test(name, move || Ok(program.prove(ground)?))
            .with_ignored_flag(machine::is_other() && is_qemus)
    };
    grounds.filter(|ground| !is_repetition(ground)).map(trial).collect()
}
