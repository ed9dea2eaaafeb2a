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
use vcm_front::say;
use vcmalloc_core::options::SPECS;

const EXAMPLES: &str = "\
Examples:
  vcm run -- redis-server --port 7000      run a program on vcmalloc
  vcm run --cache-limit 64M -- ./daemon    the same with an option
  vcm config                               list the options
  vcm config 4711                          settings that a running process has in effect
  vcm compare -- ./program                 which allocator for it, and how sure is that
  vcm doctor                               what the storage daemons here run on, and what is wrong
  vcm stat ceph-osd                        where the memory of a running process is
  vcm serve                                metrics and profiles of every process here, for Prometheus and pprof
  vcm top                                  every process here on vcmalloc, refreshed
  vcm profile ceph-osd                     which call sites hold it
  vcm enable ceph-osd@3                    make a systemd service start on vcmalloc";

const RUN_EXAMPLES: &str = "\
Examples:
  vcm run -- redis-server --port 7000
  vcm run -v --cache-limit 64M --stats -- db_bench --benchmarks=fillrandom
  vcm run --option cache_limit=64M --strict -- /usr/bin/ceph-osd -f -i 3
  vcm run --library /opt/vcmalloc/libvcmalloc.so -- ./daemon
  vcm run --hardened -- ./daemon           find overflows, double frees, uses after free

Exit status:
  the command's own; 128+N, as a shell sees it, when signal N killed it
  125  vcm failed or refused; with --strict also: the command did not run on vcmalloc
  126  the command cannot be executed
  127  the command was not found";

const CONFIG_EXAMPLES: &str = "\
Examples:
  vcm config                               all options: default, range, variable, meaning
  vcm config --json
  vcm config --program ceph-osd            what ceph-osd would get, started from here
  vcm config --file new.conf --program ceph-osd
  vcm config $(pidof ceph-osd)             what a running process has in effect

Exit status:
  0  shown, also with warnings on stderr
  1  the file or the process cannot be read
  2  wrong arguments";

/// Run programs on the vcmalloc memory allocator and see how it is set up.
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

/// Run a program on vcmalloc, and verify that it does.
#[derive(Args)]
#[command(after_help = RUN_EXAMPLES, override_usage = "vcm run [OPTIONS] -- COMMAND [ARG]...")]
pub struct Run {
    /// Set an allocator option; may be repeated ('vcm config' lists them); its own flag wins over it
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// The library to preload, instead of the one that is found by itself
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Preload the hardened library: every block is checked, misuse ends the program with a line
    #[arg(long, conflicts_with = "library")]
    pub hardened: bool,
    /// Print the allocator's statistics on stderr when the program ends
    #[arg(long)]
    pub stats: bool,
    /// Refuse a program that cannot run on vcmalloc, and end with 125 if it did not
    #[arg(long)]
    pub strict: bool,
    /// Start the program even where vcm would refuse to
    #[arg(long)]
    pub force: bool,
    /// Say when the program runs on vcmalloc, and which of its child processes do not
    #[arg(short, long)]
    pub verbose: bool,
    #[command(flatten)]
    pub flags: OptionFlags,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// List the options, or show the values that a program gets and where each comes from.
#[derive(Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub struct Config {
    /// Show the settings of this running process: in effect, or where its memory does not tell, of its start
    #[arg(value_name = "PID", conflicts_with = "program", value_parser = process_id)]
    pub pid: Option<i32>,
    /// Read this config file instead of VCM_CONFIG or /etc/vcmalloc.conf
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Show the values for the program of this name, with the present environment
    #[arg(long, value_name = "NAME", value_parser = OsStringValueParser::new().try_map(program_name))]
    pub program: Option<OsString>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the reference page of all options
    #[arg(long, hide = true, conflicts_with_all = ["pid", "file", "program", "json"])]
    pub markdown: bool,
}

/// Rerun the storage world's allocator reports on real daemons, on this machine: the program vcm-lab
#[derive(Args)]
#[command(
    disable_help_flag = true,
    override_usage = "vcm lab <list|LAB EXPERIMENT|LAB up|run|down> [OPTIONS]"
)]
pub struct Lab {
    /// The arguments for `vcm-lab`
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
    /// The folder to write to
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
    id.ok_or("write a process id, or '--program NAME' for what a program of that name would get")
}

/// The last part of a path: the library knows a program by its name alone.
fn program_name(given: OsString) -> Result<OsString, &'static str> {
    let name = Path::new(&given).file_name().map(OsStr::to_os_string);
    name.ok_or("write the name of a program, as in '--program ceph-osd'")
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
