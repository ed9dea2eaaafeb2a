//! A lab: a name, experiments, and a cluster that can be brought up by itself.

use super::experiment::Experiment;
use super::request::Request;
use super::session::Session;
use super::understood::{self, NotUnderstood};
use anyhow::Result;
use std::ops::RangeInclusive;
use vcm_measure::nearest;

pub struct Lab {
    /// As typed after `vcm lab`.
    pub name: &'static str,
    pub what: &'static str,
    pub experiments: &'static [&'static Experiment],
    /// Flags of its own: `--name VALUE`.
    pub settings: &'static [Setting],
    /// Checks what can be known before anything is installed or made: settings that do not go together, files
    /// that cannot be read, missing rights.
    pub check: fn(&Request) -> Result<()>,
    /// The other Debians whose daemons a request runs.
    pub debians: fn(&Request) -> Vec<&'static str>,
    /// Names what of this kind lives on this machine and is not the lab's, in a few words: beside it nothing is
    /// installed without being told to.
    pub lives_here: fn() -> Option<String>,
    /// The setting that points `run` at a cluster that is not the lab's.
    pub elsewhere: Option<&'static str>,
    /// Brings a cluster up and leaves it; `down` is the journal's work.
    pub up: fn(&Session) -> Result<()>,
    /// Puts load on the cluster that is up (or that the settings point at) and prints what is measured.
    pub run: fn(&Session) -> Result<()>,
}

/// A flag of one lab.
pub struct Setting {
    /// With underscores; the flag has hyphens.
    pub name: &'static str,
    /// Shown for the value, in capitals.
    pub value: &'static str,
    pub values: Values,
    /// Given to another action it is refused, as it would have no effect.
    pub of: For,
    /// None: not set unless given.
    pub default: Option<&'static str>,
    pub help: &'static str,
}

/// The actions that a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    All,
    Only(&'static str),
    /// Whatever brings a cluster up: `up` and the experiments.
    NewClusters,
}

impl For {
    fn has(self, action: &str) -> bool {
        match self {
            For::All => true,
            For::Only(one) => one == action,
            For::NewClusters => !["run", "down"].contains(&action),
        }
    }

    /// The commands that take it, as they are typed.
    fn told(self, lab: &str) -> String {
        match self {
            For::Only(one) => format!("`vcm lab {lab} {one}`"),
            For::All | For::NewClusters => format!("`vcm lab {lab} up` and experiments"),
        }
    }
}

/// The values that a setting may have.
pub enum Values {
    Text,
    Number(RangeInclusive<u64>),
    OneOf(&'static [&'static str]),
    Allocator,
}

impl Setting {
    fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    fn check(&self, value: &str) -> Result<(), NotUnderstood> {
        let flag = self.flag();
        match &self.values {
            Values::Text => Ok(()),
            Values::Allocator => understood::allocator(value).map(drop),
            Values::Number(range) if value.parse().is_ok_and(|number| range.contains(&number)) => Ok(()),
            Values::Number(range) => Err(NotUnderstood(format!(
                "{flag} is a number from {} to {}, not '{value}'",
                range.start(),
                range.end()
            ))),
            Values::OneOf(names) if names.contains(&value) => Ok(()),
            Values::OneOf(names) => {
                Err(NotUnderstood(format!("{flag} is {}, not '{value}'", enumerated(names))))
            }
        }
    }
}

fn enumerated(names: &[&str]) -> String {
    match names {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => names.concat(),
    }
}

/// That every setting can be what it was given and is for the action that it was given to.
pub fn check_settings(settings: &[Setting], lab: &str, request: &Request) -> Result<(), NotUnderstood> {
    for setting in settings {
        let Some(value) = request.settings.get(setting.name) else { continue };
        setting.check(value)?;
        let given = setting.default != Some(value.as_str());
        if given && !setting.of.has(&request.action) {
            let (flag, action, of) = (setting.flag(), &request.action, setting.of.told(lab));
            return Err(NotUnderstood(format!("{flag} is for {of}; `{action}` does not take it")));
        }
    }
    Ok(())
}

/// The request with the defaults of what was not given.
pub fn with_defaults(settings: &[Setting], mut request: Request) -> Request {
    for setting in settings {
        if let Some(default) = setting.default {
            request.settings.entry(setting.name.to_owned()).or_insert_with(|| default.to_owned());
        }
    }
    request
}

/// For a lab without such needs.
pub fn nothing_to_check(_: &Request) -> Result<()> {
    Ok(())
}

/// For a lab whose daemons are this machine's.
pub fn no_other_debian(_: &Request) -> Vec<&'static str> {
    Vec::new()
}

/// For a lab whose packages no cluster has.
pub fn nothing_lives_here() -> Option<String> {
    None
}

/// A measurement without a cluster: `vcm lab NAME OPERAND`.
pub struct Tool {
    pub name: &'static str,
    pub what: &'static str,
    /// The word that is typed behind it, in capitals; the session has it as `request().action`.
    pub operand: &'static str,
    pub operand_help: &'static str,
    pub settings: &'static [Setting],
    /// Checks what can be known of operand and settings before anything is installed or made.
    pub check: fn(&Request) -> Result<()>,
    /// Whose journals and settings it uses.
    pub lab: &'static Lab,
    pub run: fn(&Session) -> Result<()>,
}

pub const ACTIONS: [&str; 3] = ["up", "run", "down"];

impl Lab {
    pub fn experiment(&self, name: &str) -> Result<&'static Experiment, NotUnderstood> {
        if let Some(found) = self.experiments.iter().find(|experiment| experiment.name == name) {
            return Ok(found);
        }
        let names = self.experiments.iter().map(|experiment| experiment.name).chain(ACTIONS);
        let suggestion = nearest::suggestion(name, names);
        Err(NotUnderstood(format!("the {} lab has no experiment '{name}'{suggestion}", self.name)))
    }
}
