//! Programs that are compiled against jemalloc's interface and linked with its library, run unchanged on it and on ours.
//!
//! jemalloc is the control: a program that fails there asks for something of our own making. Ours is preloaded, as entrypoints of
//! images do it: a file whose soname is libjemalloc.so.2 takes the place of the one that is linked.

#[path = "jemalloc/bundled.rs"]
mod bundled;
#[path = "jemalloc/options.rs"]
mod options;
#[path = "jemalloc/profiles.rs"]
mod profiles;
#[path = "jemalloc/statistics.rs"]
mod statistics;
#[path = "jemalloc/symbols.rs"]
mod symbols;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use vcmalloc_tests::{Finished, Ground, compile, library, machine, run};

const PROGRAMS: [&str; 7] =
    ["tree.c", "counts.c", "arenas.c", "family.c", "children.c", "hostile.c", "crowd.c"];

/// Left out under qemu, and the reason.
const NOT_UNDER_QEMU: [(&str, &str); 4] = [
    ("crowd::ours", "its own thread is among the program's"),
    ("crowd::locked", "its own thread is among the program's"),
    ("crowd::jemalloc", "10,000 threads take minutes"),
    ("tree::jemalloc", "Debian builds jemalloc for arm64 without profiles"),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    Jemalloc,
    Ours,
    /// Ours without restartable sequences, as on Debian 11.
    Locked,
}

impl On {
    const ALL: [On; 3] = [On::Jemalloc, On::Ours, On::Locked];

    fn name(self) -> &'static str {
        match self {
            On::Jemalloc => "jemalloc",
            On::Ours => "ours",
            On::Locked => "locked",
        }
    }

    /// The program, ready to be run there.
    pub fn command(self, source: &str) -> Result<Command, String> {
        let mut command = machine::command(&program(source)?);
        self.prepare(&mut command)?;
        Ok(command)
    }

    fn prepare(self, command: &mut Command) -> Result<(), String> {
        Ground::Glibc.prepare(command)?;
        command.env_remove("MALLOC_CONF");
        if self != On::Jemalloc {
            command.env("LD_PRELOAD", library::jemalloc()?);
        }
        if self == On::Locked {
            command.env("VCM_FRONT", "locked");
        }
        Ok(())
    }

    pub fn run(self, source: &str, arguments: &[&str], conf: &str) -> Result<Finished, String> {
        let mut command = self.command(source)?;
        if !conf.is_empty() {
            command.env("MALLOC_CONF", conf);
        }
        let finished = run(command.args(arguments), machine::patience(Duration::from_secs(200)))?;
        finished.succeeded()?;
        Ok(finished)
    }
}

/// A program of the folder, with our header, linked with jemalloc.
pub fn program(source: &str) -> Result<PathBuf, String> {
    let path = library::repository().join("tests/jemalloc").join(source);
    let include = format!("-I{}", library::repository().join("include").display());
    let place = machine::other_libraries().map(|folder| format!("-L{}", folder.display()));
    let flags: Vec<String> = [include, "-l:libjemalloc.so.2".to_string()].into_iter().chain(place).collect();
    compile::program(&path, Ground::Glibc, &flags)
}

fn prove(source: &str, on: On) -> Result<(), String> {
    let finished = on.run(source, &[], "")?;
    match finished.complaints.is_empty() {
        true => Ok(()),
        false => Err(format!("it should not say: {}", finished.complaints)),
    }
}

/// jemalloc's storage of threads is more than the loader keeps for libraries that come late, so it is asked for more.
fn beside_jemalloc() -> Result<(), String> {
    let mut command = On::Ours.command("two.c")?;
    command.arg(symbols::THEIRS).env("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=16384");
    run(&mut command, Duration::from_secs(60))?.succeeded()
}

/// Of heaps that jemalloc has not.
fn handed_over() -> Result<(), String> {
    [On::Ours, On::Locked].into_iter().try_for_each(|on| on.run("handed_over.c", &[], "").map(|_| ()))
}

fn sampled() -> Result<(), String> {
    On::ALL.into_iter().try_for_each(|on| on.run("sampled.c", &[], "prof:true,lg_prof_sample:14").map(|_| ()))
}

/// An arena with hooks that leave it out of core files. With ours by its option; without that the hooks are refused, which is told.
fn core_files() -> Result<(), String> {
    let limit = Duration::from_secs(100);
    for on in On::ALL {
        let mut command = on.command("core_files.c")?;
        run(command.env("VCM_DUMP_HEAPS", "off"), limit)?.succeeded()?;
    }
    let finished = run(On::Ours.command("core_files.c")?.arg("refused"), limit)?;
    finished.succeeded()?;
    match finished.complaints.contains("VCM_DUMP_HEAPS=off") {
        true => Ok(()),
        false => Err(format!("it does not say what to set: {}", finished.complaints)),
    }
}

/// RocksDB and folly declare the functions once more, as weak ones with the header's attributes.
fn declared_once_more() -> Result<(), String> {
    On::Ours.run("declared.cc", &[], "").map(|_| ())
}

/// One test: why it failed, where it does.
type Check = fn() -> Result<(), String>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for source in PROGRAMS {
        for on in On::ALL {
            let name = format!("{}::{}", source.split('.').next().unwrap_or(source), on.name());
            let is_left_out =
                machine::is_other() && NOT_UNDER_QEMU.iter().any(|(left_out, _)| *left_out == name);
            trials.push(Trial::test(name, move || Ok(prove(source, on)?)).with_ignored_flag(is_left_out));
        }
    }
    let single: [(&str, Check); 21] = [
        ("jemalloc_itself_may_be_in_the_process_too", beside_jemalloc),
        ("jemalloc_within_the_program_may_be_there_too", bundled::beside_the_linked_one),
        ("a_block_that_is_handed_over_is_resized_where_it_is_then", handed_over),
        ("zeroed_blocks_are_clear_when_they_are_samples", sampled),
        ("an_arena_is_left_out_of_core_files_by_hooks_or_an_option", core_files),
        ("the_functions_may_be_declared_once_more_with_the_attributes_of_the_header", declared_once_more),
        ("statistics_as_json_have_the_keys_of_jemalloc", statistics::json),
        ("letters_leave_parts_of_the_statistics_out", statistics::letters),
        ("statistics_as_text_tell_the_same", statistics::text),
        ("a_profile_is_read_by_jeprof", profiles::read_by_jeprof),
        ("profiles_are_read_by_others_when_converted", profiles::converted_for_other_readers),
        ("profiles_are_written_at_intervals_and_at_the_end", profiles::at_their_times),
        ("leaks_are_told_at_the_end", profiles::leaks),
        ("every_option_is_obeyed_or_named", options::each),
        ("options_come_from_three_places_of_which_the_last_wins", options::places),
        ("options_that_cannot_be_read_are_told_and_may_end_the_process", options::bad),
        ("names_without_an_answer_are_told_once_where_that_is_wanted", options::absent),
        ("every_name_of_jemalloc_is_exported", symbols::names),
        ("exports_are_those_reviewed", symbols::exports),
        ("only_the_c_library_is_needed", symbols::needed),
        ("no_panic_is_reachable", symbols::panics),
    ];
    // They read files and symbols with this machine's programs.
    let is_left_out = machine::is_other();
    trials.extend(
        single.map(|(name, test)| Trial::test(name, move || Ok(test()?)).with_ignored_flag(is_left_out)),
    );
    libtest_mimic::run(&arguments, trials).exit_code()
}
