//! The contents of unit files and environment files: sections, settings over several lines, quoted words.

use crate::root::Root;
use std::path::{Path, PathBuf};

/// A variable that a file gives to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub name: String,
    pub value: String,
    /// The file that says so.
    pub file: PathBuf,
    /// By `EnvironmentFile=`, which is stronger than `Environment=` wherever it stands.
    pub is_from_environment_file: bool,
}

/// The values of a setting, in order. An empty value drops those before it.
pub fn settings_of<'a>(
    root: &Root,
    files: impl Iterator<Item = &'a PathBuf>,
    section: &str,
    name: &str,
) -> Vec<String> {
    located(root, files, section, name).into_iter().map(|(value, _)| value).collect()
}

fn located<'a>(
    root: &Root,
    files: impl Iterator<Item = &'a PathBuf>,
    section: &str,
    name: &str,
) -> Vec<(String, PathBuf)> {
    let mut values = Vec::new();
    for file in files {
        let text = vcm_foreign::file::text(&root.path(file)).unwrap_or_default();
        let mut current = String::new();
        for line in lines(&text) {
            if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                current = header.to_string();
            } else if let Some((key, value)) = line.split_once('=')
                && current == section
                && key.trim() == name
            {
                match value.trim() {
                    "" => values.clear(),
                    value => values.push((value.to_string(), file.clone())),
                }
            }
        }
    }
    values
}

/// Lines without comments; a backslash at the end joins the next one.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut continues = false;
    for line in text.lines() {
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        let (part, more) = match line.trim_end().strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some(last) if continues => {
                last.push(' ');
                last.push_str(part.trim());
            }
            _ => lines.push(part.trim().to_string()),
        }
        continues = more;
    }
    lines
}

pub fn environment_of<'a>(root: &Root, files: impl Iterator<Item = &'a PathBuf> + Clone) -> Vec<Assignment> {
    let mut all = Vec::new();
    for (value, file) in located(root, files.clone(), "Service", "Environment") {
        for word in words(&value) {
            if let Some((name, value)) = word.split_once('=') {
                let value = value.replace("%%", "%");
                let (name, file) = (name.to_string(), file.clone());
                all.push(Assignment { name, value, file, is_from_environment_file: false });
            }
        }
    }
    for (value, _) in located(root, files, "Service", "EnvironmentFile") {
        let file = PathBuf::from(value.trim_start_matches('-').trim_matches('"'));
        for (name, value) in environment_file(root, &file) {
            all.push(Assignment { name, value, file: file.clone(), is_from_environment_file: true });
        }
    }
    all
}

/// The variables in an environment file.
pub fn environment_file(root: &Root, file: &Path) -> Vec<(String, String)> {
    let text = vcm_foreign::file::text(&root.path(file)).unwrap_or_default();
    let pair = |line: String| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim().trim_start_matches("export ").to_string();
        let value = value.trim();
        let unquoted = ['"', '\'']
            .into_iter()
            .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
            .unwrap_or(value);
        Some((name, unquoted.to_string()))
    };
    lines(&text).into_iter().filter_map(pair).collect()
}

/// The words of a value, without their quotes.
pub fn words(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut started, mut escaped) = (None, false, false);
    for c in value.chars() {
        match (quote, c) {
            _ if escaped => {
                word.push(c);
                escaped = false;
            }
            (_, '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => (quote, started) = (Some(c), true),
            (None, c) if c.is_whitespace() => {
                if started || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            (_, c) => word.push(c),
        }
    }
    if started || !word.is_empty() {
        words.push(word);
    }
    words
}

/// A word as it has to be written so that systemd reads it back: quoted, percent signs doubled.
pub fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}
