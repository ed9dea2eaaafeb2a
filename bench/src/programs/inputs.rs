//! Inputs of programs: written before the first round, the same bytes in every session.

use super::ground::{Ground, finished};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

macro_rules! texts {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../programs/inputs/", $name)))),*] };
}

/// The files of bench/programs/inputs.
#[rustfmt::skip]
const TEXTS: &[(&str, &str)] = texts![
    "application.py" "arrays.py" "clients.py" "factorial.bc" "fill.sh" "hash.pl" "keys.awk" "make.py" "objects.py" "objects.rb"
    "php.conf" "rows.cc" "rows.php" "rows.sql" "search.smt2" "servers.py" "sorts.sh" "strings.rb" "tables.lua" "tags.jq" "tree.py" "untuned.py"
];

/// The text of an input that is kept as a file.
pub fn text(name: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The bytes of a standard input: a text, or what was made.
pub fn read(name: &str, ground: &Ground) -> Result<Vec<u8>> {
    match text(name) {
        _ if name.is_empty() => Ok(Vec::new()),
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => fs::read(ground.folder().join(name)).with_context(|| format!("cannot read {name}")),
    }
}

/// The script that makes an input: one of its functions has the name of the file or folder.
fn maker(name: &str) -> Option<&'static str> {
    let function = format!("\ndef {}(", name.replace('.', "_"));
    ["untuned.py", "servers.py"]
        .into_iter()
        .find(|script| text(script).is_some_and(|text| text.contains(&function)))
}

/// Makes an input in the folder: a text, what `make.py` or a [`maker`] generates, or a new PostgreSQL.
pub fn make(name: &str, ground: &Ground) -> Result<()> {
    let found = |need: &str| ground.found(need).map_err(anyhow::Error::msg);
    let mut command = match name {
        "rows.json" | "text" | "repository" => {
            make("make.py", ground)?;
            let mut python = Command::new(found("python3")?);
            python.args(["make.py", name]);
            python
        }
        "data" => {
            let mut initdb = Command::new(found("initdb")?);
            initdb.args(["-D", "data", "-U", "idle", "-A", "trust", "--no-sync", "--locale=C"]);
            initdb
        }
        name => match (maker(name), text(name)) {
            (Some(script), _) => {
                make("make.py", ground)?;
                make(script, ground)?;
                let mut python = Command::new(found("python3")?);
                python.args([script, name, &ground.port.to_string()]);
                python
            }
            (None, Some(text)) => {
                let text = text.replace("{port}", &ground.port.to_string());
                return fs::write(ground.folder().join(name), text).context("cannot write");
            }
            (None, None) => bail!("there is no input '{name}'"),
        },
    };
    if let Some((user, group)) = ground.unprivileged().filter(|_| name == "data") {
        command.uid(user).gid(group);
    }
    finished(command.current_dir(ground.folder()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::table;

    #[test]
    fn every_input_of_a_program_can_be_made() {
        for program in table::all() {
            let scripts =
                program.command.split("{script:").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
            let made = program
                .made
                .split_whitespace()
                .filter(|name| !["rows.json", "text", "repository", "data"].contains(name));
            for name in scripts.chain(made).chain(Some(program.reads).filter(|name| !name.is_empty())) {
                assert!(text(name).is_some() || maker(name).is_some(), "{}: {name}", program.name);
            }
        }
    }
}
