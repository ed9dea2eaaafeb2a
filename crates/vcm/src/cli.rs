//! The command line: verbs, arguments and their help.
//!
//! Owns the shape of the command line; the long flags of `run` are made from the allocator's declared
//! options, so a new option needs no change here. `main`, `man` and `completions` use it.

pub mod bounds;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod enable;
pub mod orders;
pub mod profile;
pub mod record;
pub mod replay;
pub mod serve;
pub mod stat;
pub mod top;
pub mod trace;

use crate::settings;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vcm_foreign::Shown;
use vcm_front::say;
use vcmalloc_core::options::SPECS;

const EXAMPLES: &str = "\
Examples:
  vcm run -- redis-server --port 7000      run a program on vcmalloc
  vcm run --cache-limit 64M -- ./daemon    the same, with an option set
  vcm config                               list the options
  vcm config 4711                          show the settings in effect in a running process
  vcm compare -- ./program                 compare allocators on a program
  vcm doctor                               report allocator and problems of the storage daemons
  vcm stat ceph-osd                        show the memory of a running process
  vcm serve                                serve metrics and profiles for Prometheus and pprof
  vcm top                                  live view of all vcmalloc processes
  vcm profile ceph-osd                     show the call sites that hold memory
  vcm enable ceph-osd@3                    make a systemd service start on vcmalloc";

const RUN_EXAMPLES: &str = "\
Examples:
  vcm run -- redis-server --port 7000
  vcm run -v --cache-limit 64M --stats -- db_bench --benchmarks=fillrandom
  vcm run --option cache_limit=64M --strict -- /usr/bin/ceph-osd -f -i 3
  vcm run --library /opt/vcmalloc/libvcmalloc.so -- ./daemon
  vcm run --hardened -- ./daemon           find overflows, double frees, uses after free

Exit status:
  that of the command; 128+N if signal N killed it
  125  vcm failed or refused; with --strict also: the command did not run on vcmalloc
  126  the command cannot be executed
  127  the command was not found";

const CONFIG_EXAMPLES: &str = "\
Examples:
  vcm config                               all options: default, range, variable, meaning
  vcm config --json
  vcm config --program ceph-osd            settings of ceph-osd if started from this shell
  vcm config --file new.conf --program ceph-osd
  vcm config $(pidof ceph-osd)             settings in effect in a running process

Exit status:
  0  shown, possibly with warnings on stderr
  1  the file or the process cannot be read
  2  wrong arguments";

/// Run programs on the vcmalloc memory allocator; inspect, profile and configure them.
#[derive(Parser)]
#[command(name = "vcm", version = env!("VCMALLOC_VERSION"), after_help = EXAMPLES, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Run(Run),
    Config(Config),
    Check(check::Check),
    Compare(Box<compare::Compare>),
    Lab(Lab),
    Doctor(doctor::Doctor),
    Enable(enable::Enable),
    Disable(enable::Disable),
    Stat(stat::Stat),
    Top(top::Top),
    Trace(trace::TraceVerb),
    Bounds(bounds::Bounds),
    Profile(Box<profile::Profile>),
    Serve(serve::Serve),
    Record(record::Record),
    Replay(replay::Replay),
    Set(orders::Set),
    Release(orders::Release),
    Completions(Completions),
    Man(Man),
}

/// Run a program on vcmalloc and verify that it allocates there.
#[derive(Args)]
#[command(after_help = RUN_EXAMPLES, override_usage = "vcm run [OPTIONS] -- COMMAND [ARG]...")]
pub struct Run {
    /// Set an allocator option; may be repeated ('vcm config' lists them). The flag of an option takes precedence
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Library to preload [default: the one that vcm finds]
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Preload the hardened library, which checks every block and aborts on misuse with a message
    #[arg(long, conflicts_with = "library")]
    pub hardened: bool,
    /// Print the allocator's statistics on stderr when the program ends
    #[arg(long)]
    pub stats: bool,
    /// Refuse a program that cannot run on vcmalloc; exit with 125 if it did not run on it
    #[arg(long)]
    pub strict: bool,
    /// Start the program even if vcm would refuse to
    #[arg(long)]
    pub force: bool,
    /// Report when the program runs on vcmalloc, and which of its child processes do not
    #[arg(short, long)]
    pub verbose: bool,
    #[command(flatten)]
    pub flags: OptionFlags,
    /// Command with its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// List the options, or show the values for a program and the source of each.
#[derive(Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub struct Config {
    /// Show the settings of this running process: those in effect, or else those it started with
    #[arg(value_name = "PID", conflicts_with = "program", value_parser = process_id)]
    pub pid: Option<i32>,
    /// Read this config file instead of VCM_CONFIG or /etc/vcmalloc.conf
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Show the values for the program of this name in the current environment
    #[arg(long, value_name = "NAME", value_parser = OsStringValueParser::new().try_map(program_name))]
    pub program: Option<OsString>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the reference page of all options
    #[arg(long, hide = true, conflicts_with_all = ["pid", "file", "program", "json"])]
    pub markdown: bool,
}

/// Repeat published allocator experiments of Ceph and GlusterFS on this machine, with vcm-lab
#[derive(Args)]
#[command(
    disable_help_flag = true,
    override_usage = "vcm lab <list|LAB EXPERIMENT|LAB up|run|down> [OPTIONS]"
)]
pub struct Lab {
    /// Arguments of `vcm-lab`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
    pub arguments: Vec<OsString>,
}

/// Print the completion script for a shell.
#[derive(Args)]
#[command(after_help = "Example:\n  vcm completions bash > /etc/bash_completion.d/vcm")]
pub struct Completions {
    pub shell: Shell,
}

/// Write the manual pages.
#[derive(Args)]
#[command(hide = true)]
pub struct Man {
    /// Folder to write to
    #[arg(long, value_name = "FOLDER")]
    pub dir: PathBuf,
}

/// The allocator's options given as flags: name and value.
pub struct OptionFlags(pub Vec<(&'static str, String)>);

/// Flags and the tool's own arguments share one space of ids, so an option may have the name of an argument.
fn flag_id(name: &str) -> String {
    format!("option.{name}")
}

impl Args for OptionFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        SPECS.iter().fold(command, |command, spec| {
            let help = format!("{} [{}; default: {}]", spec.help, settings::range(spec), spec.default);
            command.arg(
                Arg::new(flag_id(spec.name))
                    .long(spec.name.replace('_', "-"))
                    .value_name("VALUE")
                    .help(help)
                    .help_heading("Allocator options"),
            )
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OptionFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name| matches.get_one::<String>(&flag_id(name)).map(|value| (name, value.clone()));
        Ok(OptionFlags(SPECS.iter().filter_map(|spec| given(spec.name)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn process_id(text: &str) -> Result<i32, &'static str> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or("give a process id, or '--program NAME' for the settings of a program of that name")
}

/// The last part of a path: the library knows a program by its name alone.
fn program_name(given: OsString) -> Result<OsString, &'static str> {
    let name = Path::new(&given).file_name().map(OsStr::to_os_string);
    name.ok_or("give the name of a program, such as '--program ceph-osd'")
}

/// The flags of `vcm run`, for suggestions.
pub fn run_flags() -> Vec<String> {
    let command = Run::augment_args(clap::Command::new("run"));
    command.get_arguments().filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect()
}

/// Prints help or what is wrong with the command line; `run` and `record` keep the low codes for their command.
pub fn refused(error: &clap::Error) -> ExitCode {
    let is_run = std::env::args_os().nth(1).is_some_and(|verb| verb == "run" || verb == "record");
    let own = |code| ExitCode::from(if is_run { say::OWN_FAILURE } else { code });
    if error.kind() == ErrorKind::InvalidUtf8 {
        let mut words = std::env::args_os().skip(1);
        if let Some(word) = words.find(|word| word.to_str().is_none()) {
            say::line(&format!("vcm: the argument '{}' is not UTF-8", word.shown()));
            return own(say::NOT_UNDERSTOOD);
        }
    }
    let printed = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match say::written(printed) {
            Ok(_) => ExitCode::SUCCESS,
            Err(failure) => {
                say::line(&format!("vcm: {}", failure.message));
                own(failure.code)
            }
        },
        _ => own(say::NOT_UNDERSTOOD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn no_two_arguments_have_the_same_name() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_is_also_a_flag_of_run() {
        for spec in &SPECS {
            let flag = format!("--{}", spec.name.replace('_', "-"));
            let cli = Cli::try_parse_from(["vcm", "run", &flag, "1", "--", "true"]).ok();
            let Some(Cli { verb: Verb::Run(run) }) = cli else { panic!("{flag} is not taken") };
            assert_eq!(run.flags.0, [(spec.name, "1".to_string())]);
        }
    }

    #[test]
    fn what_follows_the_command_belongs_to_the_command() {
        let cli = Cli::try_parse_from(["vcm", "run", "ls", "--strict", "--", "-l"]).ok();
        let Some(Cli { verb: Verb::Run(run) }) = cli else { panic!("not taken") };
        assert!(!run.strict);
        assert_eq!(run.command, ["ls", "--strict", "--", "-l"]);
    }
}
