//! The options as they are declared.

use crate::settings;
use serde::Serialize;
use std::fmt::Write;
use vcmalloc_core::options::{FOREIGN, SPECS, Spec};

/// One option; the names of the fields are a promise to readers of the JSON.
#[derive(Serialize)]
pub struct Entry {
    pub name: &'static str,
    pub kind: &'static str,
    pub default: &'static str,
    pub range: String,
    /// True when a change takes effect in a running process.
    pub live: bool,
    pub variable: String,
    pub alias: Option<&'static str>,
    /// Variables of other allocators that are translated into a value of this option.
    pub translated: Vec<&'static str>,
    pub meaning: &'static str,
}

impl Entry {
    fn new(spec: &Spec) -> Self {
        Entry {
            name: spec.name,
            kind: spec.kind.name(),
            default: spec.default,
            range: settings::range(spec),
            live: spec.live,
            variable: settings::variable(spec.name),
            alias: spec.alias,
            translated: FOREIGN
                .iter()
                .filter(|foreign| vcmalloc_core::options::spec(foreign.option).name == spec.name)
                .map(|foreign| foreign.variable)
                .collect(),
            meaning: spec.help,
        }
    }

    /// All variables of other allocators that set it.
    pub fn foreign(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.alias.into_iter().chain(self.translated.iter().copied())
    }

    pub fn when(&self) -> &'static str {
        if self.live { "live" } else { "read at start" }
    }
}

pub fn entries() -> Vec<Entry> {
    SPECS.iter().map(Entry::new).collect()
}

pub fn text() -> String {
    let mut text = String::new();
    for entry in entries() {
        let alias: String = entry.foreign().map(|alias| format!(", also {alias}")).collect();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{} = {}\n    {}\n    {}: {}; {}\n    {}{alias}\n\n",
            entry.name,
            entry.default,
            entry.meaning,
            entry.kind,
            entry.range,
            entry.when(),
            entry.variable
        );
    }
    text.push_str(
        "Each line 'name = default'. Set an option by its variable, in /etc/vcmalloc.conf, or with\n\
         'vcm run --option NAME=VALUE -- COMMAND'; 'live' ones also in the running process through the C \
API.\n",
    );
    text
}
