//! The values that a program gets from the config file and the environment, and where each comes from.

use super::json;
use crate::automatic::{self, Automatic};
use crate::config_file::ConfigFile;
use crate::settings::{Effective, NOT_KNOWN, UNLESS_SET};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use vcm_foreign::Shown;
use vcm_front::say::{self, Outcome};
use vcmalloc_core::options::{OptionId, Origin, spec};

/// A value in effect; the names of the fields are a promise to readers of the JSON.
#[derive(Serialize)]
pub struct Value {
    pub name: &'static str,
    /// None where a variable may have set it and the environment is not known.
    pub value: Option<String>,
    /// The value of `auto` for this process or machine; none for other values, and where it is not known.
    pub comes_to: Option<String>,
    pub origin: String,
}

#[derive(Serialize)]
struct Answer {
    program: Option<String>,
    file: String,
    file_read: bool,
    options: Vec<Value>,
    warnings: Vec<String>,
}

pub fn show(file: Option<PathBuf>, program: Option<OsString>, as_json: bool) -> Outcome {
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let file = file.map_or_else(|| ConfigFile::of(&environment), ConfigFile::named);
    let name = program.clone().unwrap_or_default();
    let effective = Effective::read(&environment, file, name.as_bytes());
    let answer = Answer {
        program: program.map(|name| name.shown().printed()),
        file: effective.file.shown().to_string(),
        file_read: effective.file_read,
        options: values(&effective, &Automatic::here()),
        warnings: effective.warnings,
    };
    if as_json {
        return json(&answer);
    }
    answer.warnings.iter().for_each(|warning| say::line(warning));
    let whose = answer.program.as_deref().map_or("every program".to_string(), |name| format!("'{name}'"));
    let read = if answer.file_read { "" } else { " (not read)" };
    let head = format!("Values for {whose} from {}{read} and this environment\n\n", answer.file);
    say::result(&(head + &table(&answer.options)))
}

pub fn values(effective: &Effective, automatic: &Automatic) -> Vec<Value> {
    let value = |id: OptionId| Value {
        name: spec(id).name,
        value: Some(effective.value(id)),
        comes_to: automatic.of_option(effective, id),
        origin: effective.options.origin(id).name().into(),
    };
    OptionId::ALL.into_iter().map(value).collect()
}

/// As `values`, for a process whose environment does not show: a variable outweighs default and file.
pub fn values_without_environment(effective: &Effective, automatic: &Automatic) -> Vec<Value> {
    let as_far_as_known = |(id, value): (OptionId, Value)| match effective.options.origin(id) {
        Origin::Default => Value { value: None, comes_to: None, origin: NOT_KNOWN.into(), ..value },
        _ => Value { origin: format!("{}{UNLESS_SET}", value.origin), ..value },
    };
    OptionId::ALL.into_iter().zip(values(effective, automatic)).map(as_far_as_known).collect()
}

pub fn table(values: &[Value]) -> String {
    let name_width = values.iter().map(|value| value.name.len()).max().unwrap_or(0);
    let shown = |set: &Value| {
        let value = set.value.as_ref();
        value.map_or(String::new(), |value| automatic::shown(value, set.comes_to.as_deref()))
    };
    let value_width = values.iter().map(|value| shown(value).len()).max().unwrap_or(0);
    let mut text = String::new();
    for set in values {
        let (name, origin) = (set.name, &set.origin);
        // Writing to a String cannot fail.
        let _ = match set.value {
            Some(_) => writeln!(text, "{name:name_width$} = {:value_width$}  {origin}", shown(set)),
            None => writeln!(text, "{name:name_width$} = {NOT_KNOWN}"),
        };
    }
    text
}
