//! Programs that are compiled against gperftools' headers and linked with its library, run unchanged on it
//! and on ours.
//!
//! gperftools is the control: a program that fails there asks for something of our own making. Ours is
//! preloaded, as `vcm run` does it: a file whose soname is libtcmalloc.so.4 takes the place of the one that
//! is linked.

#[path = "tcmalloc/costs.rs"]
mod costs;
#[path = "tcmalloc/names.rs"]
mod names;
#[path = "tcmalloc/profiles.rs"]
mod profiles;
#[path = "tcmalloc/symbols.rs"]
mod symbols;
#[path = "tcmalloc/variables.rs"]
mod variables;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use vcmalloc_tests::{Finished, Ground, compile, library, run};

/// The programs, and what their stderr may say beside nothing.
const PROGRAMS: [(&str, &str); 8] = [
    ("extension.cc", ""),
    ("rounds.cc", ""),
    ("properties.cc", ""),
    ("c_api.c", "the hook was not added"),
    ("functions.cc", ""),
    ("leak_checker.cc", ""),
    ("without_cxx.c", ""),
    ("pieces.cc", "no effect here"),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    Gperftools,
    Ours,
    /// Ours without restartable sequences, as on Debian 11.
    Locked,
}

impl On {
    const ALL: [On; 3] = [On::Gperftools, On::Ours, On::Locked];

    fn name(self) -> &'static str {
        match self {
            On::Gperftools => "gperftools",
            On::Ours => "ours",
            On::Locked => "locked",
        }
    }

    /// The program, ready to be run there.
    pub fn command(self, source: &str) -> Result<Command, String> {
        let mut command = Command::new(program(source)?);
        self.prepare(&mut command)?;
        Ok(command)
    }

    fn prepare(self, command: &mut Command) -> Result<(), String> {
        Ground::Glibc.prepare(command)?;
        command.env("CONFORMANCE_ON", "any");
        if self != On::Gperftools {
            command.env("LD_PRELOAD", library::stand_in()?);
        }
        if self == On::Locked {
            command.env("VCM_FRONT", "locked");
        }
        Ok(())
    }

    pub fn run(self, source: &str, arguments: &[&str]) -> Result<Finished, String> {
        let finished = run(self.command(source)?.args(arguments), Duration::from_secs(60))?;
        finished.succeeded()?;
        Ok(finished)
    }
}

/// A program of the folder, linked with gperftools unless it is to be one without C++.
fn program(source: &str) -> Result<PathBuf, String> {
    let path = library::repository().join("tests/tcmalloc").join(source);
    let flags: &[&str] = match source {
        "without_cxx.c" => &[],
        _ => &["-Wl,--no-as-needed", "-ltcmalloc"],
    };
    compile::program(&path, Ground::Glibc, &flags.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn prove(source: &str, said: &str, on: On) -> Result<(), String> {
    let finished = on.run(source, &[])?;
    let mut lines = finished.complaints.lines();
    match lines.find(|line| on != On::Gperftools && (said.is_empty() || !line.contains(said))) {
        None => Ok(()),
        Some(line) => Err(format!("it should not say: {line}")),
    }
}

/// One test: why it failed, where it does.
type Check = fn() -> Result<(), String>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (source, said) in PROGRAMS {
        for on in On::ALL {
            let name = format!("{}::{}", source.split('.').next().unwrap_or(source), on.name());
            trials.push(Trial::test(name, move || Ok(prove(source, said, on)?)));
        }
    }
    let single: [(&str, Check); 18] = [
        ("a_program_linked_under_any_name_runs_on_ours", names::each),
        ("several_names_in_one_process_are_one_heap", names::several),
        ("gperftools_own_library_beside_ours_is_not_noticed", names::beside_gperftools),
        ("the_file_of_each_name_has_it_and_all_functions", names::files),
        ("children_write_profiles_under_their_own_names", profiles::of_children),
        ("profiles_follow_no_link_and_wait_for_no_pipe", profiles::beside_strangers),
        ("the_profiler_never_hangs_across_fork", profiles::across_fork),
        ("a_profile_is_read_by_pprof", profiles::read_by_pprof),
        ("heapprofile_profiles_a_program_to_its_end", profiles::from_the_environment),
        ("a_release_with_little_to_do_is_cheap", costs::releases),
        ("every_public_name_of_gperftools_is_exported_or_decided_against", symbols::names),
        ("exports_are_those_reviewed", symbols::exports),
        ("the_table_of_methods_is_that_of_gperftools", symbols::methods),
        ("only_the_c_library_is_needed", symbols::needed),
        ("the_libraries_load_on_debian_11", symbols::versions),
        ("no_panic_is_reachable", symbols::panics),
        ("variables_of_gperftools_are_obeyed", variables::obeyed),
        ("variables_without_effect_are_named_once", variables::named),
    ];
    trials.extend(single.map(|(name, test)| Trial::test(name, move || Ok(test()?))));
    trials.extend(
        [On::Ours, On::Locked].map(|on| {
            Trial::test(format!("children_that_share_memory::{}", on.name()), move || Ok(share(on)?))
        }),
    );
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The program of the conformance suite, on the stand-in.
fn share(on: On) -> Result<(), String> {
    let source = library::repository().join("tests/conformance/children_that_share_memory.c");
    let mut command = Command::new(compile::program(&source, Ground::Glibc, &[])?);
    on.prepare(&mut command)?;
    run(&mut command, Duration::from_secs(300))?.succeeded()
}
