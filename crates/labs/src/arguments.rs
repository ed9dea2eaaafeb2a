//! The arguments of `vcm-lab`: made from the labs' own declarations, so a new lab, tool or setting
//! needs no change here.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use vcm_foreign::Shown;
use vcm_front::say;
use vcm_labs::engine::lab::{ACTIONS, Lab, Setting, Tool};
use vcm_labs::engine::request::{DEFAULT_CACHE, DEFAULT_STATE, DEFAULT_WORK, Request};
use vcm_labs::{LABS, TOOLS};

const EXAMPLES: &str = "\
Examples:
  vcm lab list                             experiments and the reports behind them (--long: in full)
  vcm lab gluster detach --plan            cells, packages, permissions, time and disk; nothing is run
  vcm lab gluster detach --quick           one experiment, in about five minutes
  vcm lab gluster detach --full --out results
  vcm lab gluster down                     clean up after a killed run

Exit status: 0 done, 1 failed, 2 wrong arguments, 3 void (the controls did not reproduce), 130 interrupted";

/// The request.
pub enum Chosen {
    List {
        json: bool,
        long: bool,
    },
    /// Of the library that this process runs on, for the results.
    LibraryVersion,
    Completions(Shell),
    /// The manual page, into a folder.
    Manual(PathBuf),
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

/// As it is typed, by way of `vcm`.
pub fn command() -> Command {
    let list = Command::new("list")
        .about("List the labs, their experiments and the reports behind them")
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
        .arg(
            Arg::new("long")
                .long("long")
                .action(ArgAction::SetTrue)
                .help("Include question and findings of each experiment"),
        );
    let shell = Arg::new("shell").required(true).value_parser(value_parser!(Shell));
    let folder = Arg::new("dir").long("dir").required(true).value_parser(value_parser!(PathBuf));
    let command = Command::new("vcm-lab")
        .bin_name("vcm lab")
        .version(env!("VCMALLOC_VERSION"))
        .about("Repeat published allocator experiments of Ceph and GlusterFS on this machine")
        .after_help(EXAMPLES)
        .override_usage("vcm lab <list|LAB EXPERIMENT|LAB up|run|down> [OPTIONS]")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .subcommand(Command::new("library-version").hide(true))
        .subcommand(Command::new("completions").hide(true).arg(shell))
        .subcommand(Command::new("man").hide(true).arg(folder))
        .subcommand(list);
    let command = LABS.iter().fold(command, |command, lab| command.subcommand(lab_command(lab)));
    TOOLS.iter().fold(command, |command, tool| command.subcommand(tool_command(tool)))
}

impl Chosen {
    pub fn of(matches: &ArgMatches) -> Option<Chosen> {
        let (name, matches) = matches.subcommand()?;
        let library = |matches: &ArgMatches| matches.get_one::<PathBuf>("library").cloned();
        if let Some(lab) = LABS.iter().find(|lab| lab.name == name) {
            let request = Box::new(request(matches, lab.settings));
            return Some(Chosen::Act { lab, request, library: library(matches) });
        }
        if let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) {
            let request = Box::new(request(matches, tool.settings));
            return Some(Chosen::Use { tool, request, library: library(matches) });
        }
        Some(match name {
            "library-version" => Chosen::LibraryVersion,
            "completions" => Chosen::Completions(*matches.get_one("shell")?),
            "man" => Chosen::Manual(matches.get_one::<PathBuf>("dir")?.clone()),
            _ => Chosen::List { json: matches.get_flag("json"), long: matches.get_flag("long") },
        })
    }
}

fn lab_command(lab: &'static Lab) -> Command {
    let names: Vec<&str> = lab.experiments.iter().map(|experiment| experiment.name).chain(ACTIONS).collect();
    let action = Arg::new("action")
        .value_name("EXPERIMENT")
        .help(format!("One of: {} (the last three act on the cluster only)", names.join(", ")));
    let usage = format!("vcm lab {} <EXPERIMENT|up|run|down> [OPTIONS]", lab.name);
    let command = Command::new(lab.name).about(lab.what).override_usage(usage).arg(action);
    let command = with_common(command).arg(
        Arg::new("quick")
            .long("quick")
            .action(ArgAction::SetTrue)
            .conflicts_with("full")
            .help("Run fewer and smaller cells, in about five minutes [default]"),
    );
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let command = command
        .arg(
            Arg::new("full")
                .long("full")
                .action(ArgAction::SetTrue)
                .help("Run all cells, without a time limit"),
        )
        .arg(
            flag("repeat", "N", "Repetitions of each cell [default: set by the experiment]")
                .value_parser(value_parser!(u32).range(1..=100)),
        )
        .arg(
            flag("allocators", "A,B", "Run only these allocators and those of the controls")
                .value_delimiter(','),
        )
        .arg(
            flag("out", "DIR", "Write the results to this folder as JSON, HTML and Markdown")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            flag("from", "JSON", "Evaluate the rows of an earlier run again; run nothing")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("plan")
                .long("plan")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["from", "json"])
                .help(
                    "Print the cells, packages, permissions, time and disk, and what is missing here; run nothing",
                ),
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
        .arg(no_install.help("Fail if a package is missing, and print the command that installs it"))
        .arg(yes.help("Install missing packages without a question, also on a host with a running cluster"))
        .arg(library.help("libvcmalloc.so to use [default: the one that vcm finds]"))
        .arg(folder("state", DEFAULT_STATE, "Undo journals"))
        .arg(folder("work", DEFAULT_WORK, "Files of the running cluster"))
        .arg(folder("cache", DEFAULT_CACHE, "Files kept between runs, such as other systems"))
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
        command: format!(
            "vcm lab {}",
            say::typed(std::env::args_os().skip(1).map(|word| word.shown().printed()))
        ),
        action: text("action").unwrap_or_default(),
        quick: !flag("full"),
        repetitions: matches.try_get_one::<u32>("repeat").ok().flatten().copied(),
        allocators: allocators.map(|names| names.cloned().collect()).unwrap_or_default(),
        no_install: flag("no-install"),
        plan: flag("plan"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Option<Chosen> {
        Chosen::of(&command().try_get_matches_from([&["vcm-lab"], words].concat()).ok()?)
    }

    #[test]
    fn no_two_arguments_have_the_same_name() {
        command().debug_assert();
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
