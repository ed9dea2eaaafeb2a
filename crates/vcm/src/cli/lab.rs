//! The arguments of `vcm lab`: made from the labs' own declarations, so a new lab, tool or setting
//! needs no change here.

use crate::say;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::collections::BTreeMap;
use std::path::PathBuf;
use vcm_foreign::Shown;
use vcm_labs::engine::lab::{ACTIONS, Lab, Setting, Tool};
use vcm_labs::engine::request::{DEFAULT_CACHE, DEFAULT_STATE, DEFAULT_WORK, Request};
use vcm_labs::{LABS, TOOLS};

const EXAMPLES: &str = "\
Examples:
  vcm lab list                             what can be rerun, and whose report it was (--long: all of it)
  vcm lab gluster detach --quick           one experiment, in about five minutes
  vcm lab gluster detach --full --out results
  vcm lab gluster down                     undo what a killed run has left

Exit status: 0 done, 1 failed, 2 not understood, 3 void (the controls were not seen), 130 interrupted";

/// Rerun the storage world's allocator reports on real daemons, on this machine.
#[derive(Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
#[command(override_usage = "vcm lab <list|LAB EXPERIMENT|LAB up|run|down> [OPTIONS]")]
pub struct LabVerb {
    #[command(flatten)]
    pub chosen: Chosen,
}

/// The subcommand of `vcm lab`.
pub enum Chosen {
    List {
        json: bool,
        long: bool,
    },
    /// Of the library that this process runs on, for the results.
    LibraryVersion,
    Act {
        lab: &'static Lab,
        request: Box<Request>,
        library: Option<PathBuf>,
    },
    Use {
        tool: &'static Tool,
        request: Box<Request>,
        library: Option<PathBuf>,
    },
}

impl Args for Chosen {
    fn augment_args(command: Command) -> Command {
        let list = Command::new("list")
            .about("List the labs, their experiments and the reports behind them")
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
            .arg(
                Arg::new("long")
                    .long("long")
                    .action(ArgAction::SetTrue)
                    .help("With what each asks and what was found"),
            );
        let command = command.subcommand(Command::new("library-version").hide(true));
        let command = command.subcommand(list).disable_help_subcommand(true);
        let command = LABS.iter().fold(command, |command, lab| command.subcommand(lab_command(lab)));
        TOOLS.iter().fold(command, |command, tool| command.subcommand(tool_command(tool)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand));
        };
        let library = |matches: &ArgMatches| matches.get_one::<PathBuf>("library").cloned();
        if let Some(lab) = LABS.iter().find(|lab| lab.name == name) {
            let request = Box::new(request(matches, lab.settings));
            return Ok(Chosen::Act { lab, request, library: library(matches) });
        }
        if let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) {
            let request = Box::new(request(matches, tool.settings));
            return Ok(Chosen::Use { tool, request, library: library(matches) });
        }
        if name == "library-version" {
            return Ok(Chosen::LibraryVersion);
        }
        Ok(Chosen::List { json: matches.get_flag("json"), long: matches.get_flag("long") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn lab_command(lab: &'static Lab) -> Command {
    let names: Vec<&str> = lab.experiments.iter().map(|experiment| experiment.name).chain(ACTIONS).collect();
    let action = Arg::new("action")
        .value_name("EXPERIMENT")
        .help(format!("One of: {} (the last three: a cluster by itself)", names.join(", ")));
    let usage = format!("vcm lab {} <EXPERIMENT|up|run|down> [OPTIONS]", lab.name);
    let command = Command::new(lab.name).about(lab.what).override_usage(usage).arg(action);
    let command = with_common(command).arg(
        Arg::new("quick")
            .long("quick")
            .action(ArgAction::SetTrue)
            .conflicts_with("full")
            .help("Fewer and smaller cells, in about five minutes [default]"),
    );
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let command = command
        .arg(
            Arg::new("full")
                .long("full")
                .action(ArgAction::SetTrue)
                .help("All of it, for as long as it takes"),
        )
        .arg(
            flag("repeat", "N", "Repetitions of each cell, instead of the experiment's own number")
                .value_parser(value_parser!(u32).range(1..=100)),
        )
        .arg(
            flag("allocators", "A,B", "Only these allocators, and those that the controls need")
                .value_delimiter(','),
        )
        .arg(
            flag("out", "DIR", "Write the results there: JSON, a web page, a Markdown page")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            flag("from", "JSON", "Run nothing: judge and draw the rows of an earlier run again")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the results as JSON on stdout"),
        );
    with_settings(command, lab.settings)
}

fn tool_command(tool: &'static Tool) -> Command {
    let operand = Arg::new("action").value_name(tool.operand).required(true).help(tool.operand_help);
    let command = with_common(Command::new(tool.name).about(tool.what).arg(operand));
    let json =
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the results as JSON on stdout");
    with_settings(command.arg(json), tool.settings)
}

fn with_common(command: Command) -> Command {
    let folder = |name: &'static str, default: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name("DIR").help(help).default_value(default);
        arg.value_parser(value_parser!(PathBuf)).help_heading("Places")
    };
    let library = Arg::new("library").long("library").value_name("PATH").value_parser(value_parser!(PathBuf));
    let no_install = Arg::new("no-install").long("no-install").action(ArgAction::SetTrue);
    let yes = Arg::new("yes").long("yes").short('y').action(ArgAction::SetTrue).conflicts_with("no-install");
    command
        .arg(no_install.help("Fail, and name the command, when a package is missing"))
        .arg(yes.help("Install missing packages without a question, also beside a cluster that lives here"))
        .arg(library.help("The libvcmalloc.so to use, instead of the one that is found by itself"))
        .arg(folder("state", DEFAULT_STATE, "Undo journals"))
        .arg(folder("work", DEFAULT_WORK, "The cluster's files while it runs"))
        .arg(folder("cache", DEFAULT_CACHE, "What is kept between runs, such as other systems"))
}

fn with_settings(command: Command, settings: &'static [Setting]) -> Command {
    settings.iter().fold(command, |command, setting| {
        let arg = Arg::new(setting.name).long(setting.name.replace('_', "-")).value_name(setting.value);
        let arg = arg.help(setting.help).help_heading("Settings of this lab");
        command.arg(match setting.default {
            Some(default) => arg.default_value(default),
            None => arg,
        })
    })
}

fn request(matches: &ArgMatches, settings: &[Setting]) -> Request {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let flag = |name: &str| matches!(matches.try_get_one::<bool>(name), Ok(Some(true)));
    let path = |name: &str| matches.try_get_one::<PathBuf>(name).ok().flatten().cloned();
    let allocators = matches.try_get_many::<String>("allocators").ok().flatten();
    let values: BTreeMap<String, String> =
        settings.iter().filter_map(|setting| Some((setting.name.to_owned(), text(setting.name)?))).collect();
    Request {
        command: say::typed(std::env::args_os().map(|word| own_name(word.shown().printed()))),
        action: text("action").unwrap_or_default(),
        quick: !flag("full"),
        repetitions: matches.try_get_one::<u32>("repeat").ok().flatten().copied(),
        allocators: allocators.map(|names| names.cloned().collect()).unwrap_or_default(),
        no_install: flag("no-install"),
        json: flag("json"),
        out: path("out"),
        from: path("from"),
        state: path("state").unwrap_or_else(|| DEFAULT_STATE.into()),
        work: path("work").unwrap_or_else(|| DEFAULT_WORK.into()),
        cache: path("cache").unwrap_or_else(|| DEFAULT_CACHE.into()),
        yes: flag("yes"),
        settings: values,
        ..Request::default()
    }
}

/// The tool by its name wherever it lies.
fn own_name(word: String) -> String {
    if word.ends_with("/vcm") { "vcm".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Verb};
    use clap::Parser;

    fn parsed(words: &[&str]) -> Option<Chosen> {
        match Cli::try_parse_from([&["vcm", "lab"], words].concat()).ok()?.verb {
            Verb::Lab(verb) => Some(verb.chosen),
            _ => None,
        }
    }

    #[test]
    fn an_experiment_is_quick_unless_full_is_asked_for() {
        let quick = |words: &[&str]| match parsed(words) {
            Some(Chosen::Act { request, .. }) => request.quick,
            _ => panic!("{words:?}"),
        };
        assert!(quick(&["gluster", "detach"]));
        assert!(!quick(&["gluster", "detach", "--full"]));
        assert!(parsed(&["gluster", "detach", "--full", "--quick"]).is_none());
    }

    #[test]
    fn every_setting_of_a_lab_is_a_flag() {
        for lab in LABS {
            for setting in lab.settings {
                let flag = format!("--{}", setting.name.replace('_', "-"));
                let Some(Chosen::Act { request, .. }) = parsed(&[lab.name, "up", &flag, "7"]) else {
                    panic!("{} does not take {flag}", lab.name)
                };
                assert_eq!(request.settings.get(setting.name).map(String::as_str), Some("7"));
            }
        }
    }

    #[test]
    fn allocators_are_divided_by_commas() {
        let Some(Chosen::Act { request, .. }) =
            parsed(&["gluster", "detach", "--allocators", "glibc,vcmalloc"])
        else {
            panic!("not taken")
        };
        assert_eq!(request.allocators, ["glibc", "vcmalloc"]);
    }
}
