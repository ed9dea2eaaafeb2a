//! What a lab is: a name, experiments, and a cluster that can be brought up by itself.

use super::experiment::Experiment;
use super::nearest;
use super::session::Session;
use anyhow::{Result, bail};

pub struct Lab {
    /// As typed after `vcm lab`.
    pub name: &'static str,
    pub what: &'static str,
    pub experiments: &'static [&'static Experiment],
    /// Flags of its own: `--name VALUE`.
    pub settings: &'static [Setting],
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
    /// None: not set unless given.
    pub default: Option<&'static str>,
    pub help: &'static str,
}

/// A measurement without a cluster: `vcm lab NAME OPERAND`.
pub struct Tool {
    pub name: &'static str,
    pub what: &'static str,
    /// What is typed behind it, in capitals; the session has it as `request().action`.
    pub operand: &'static str,
    pub operand_help: &'static str,
    pub settings: &'static [Setting],
    /// Whose journals and settings it uses.
    pub lab: &'static Lab,
    pub run: fn(&Session) -> Result<()>,
}

pub const ACTIONS: [&str; 3] = ["up", "run", "down"];

impl Lab {
    pub fn experiment(&self, name: &str) -> Result<&'static Experiment> {
        if let Some(found) = self.experiments.iter().find(|experiment| experiment.name == name) {
            return Ok(found);
        }
        let names = self.experiments.iter().map(|experiment| experiment.name).chain(ACTIONS);
        bail!("the {} lab has no experiment '{name}'{}", self.name, nearest::suggestion(name, names));
    }

    pub fn setting(&self, name: &str) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}
