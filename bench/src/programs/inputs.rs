//! What programs read: written before the first round, the same bytes in every session.

use super::ground::{Ground, finished};
use crate::load::random::Random;
use anyhow::{Result, bail};
use std::fmt::Write;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Writes the input of this name into the folder.
pub fn make(name: &str, ground: &Ground) -> Result<()> {
    let file = ground.folder().join(name);
    let text = match name {
        "tree.py" => include_str!("../../programs/inputs/tree.py").to_owned(),
        "rows.cc" => include_str!("../../programs/inputs/rows.cc").to_owned(),
        "arrays.py" => include_str!("../../programs/inputs/arrays.py").to_owned(),
        "objects.py" => include_str!("../../programs/inputs/objects.py").to_owned(),
        "application.py" => include_str!("../../programs/inputs/application.py").to_owned(),
        "rows.php" => include_str!("../../programs/inputs/rows.php").to_owned(),
        "php.conf" => format!(
            "[global]\nerror_log = /dev/null\n[idle]\nlisten = 127.0.0.1:{}\npm = static\npm.max_children = 4\n",
            ground.port
        ),
        "rows.json" => objects(60_000),
        "text" => prose(&mut Random::seeded(1), 6 << 20),
        "repository" => return repository(ground),
        "data" => return database(ground),
        _ => bail!("there is no input '{name}'"),
    };
    Ok(fs::write(file, text)?)
}

/// Objects as Python's `json` prints them.
fn objects(count: usize) -> String {
    let object = |i: usize| {
        let at = i as f64 / 3.0;
        format!(
            r#"{{"id": {i}, "name": "name {i}", "tags": ["a{}", "b"], "at": {{"x": {at:?}, "y": null}}}}"#,
            i % 7
        )
    };
    format!("[{}]\n", (0..count).map(object).collect::<Vec<_>>().join(", "))
}

/// Lines of words, few of them common and most rare, of so many bytes.
fn prose(random: &mut Random, bytes: usize) -> String {
    const SYLLABLES: [&str; 16] =
        ["a", "the", "re", "in", "con", "ti", "on", "er", "ma", "lo", "sp", "ing", "est", "ur", "pa", "ge"];
    let mut text = String::with_capacity(bytes + 64);
    while text.len() < bytes {
        for _ in 0..6 + random.below(10) {
            let (most, mut word) = (1 + random.below(12_000), 0);
            word += random.below(most);
            loop {
                text += SYLLABLES[word % SYLLABLES.len()];
                word /= SYLLABLES.len();
                if word == 0 {
                    break;
                }
            }
            text.push(' ');
        }
        text.pop();
        text.push('\n');
    }
    text.truncate(bytes);
    text
}

/// 240 commits, each of which rewrites eight of 200 files.
fn repository(ground: &Ground) -> Result<()> {
    let (mut random, mut stream) = (Random::seeded(2), String::new());
    for commit in 0..240 {
        let message = prose(&mut random, 60);
        write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@example.org> {} +0000\n",
            1_700_000_000 + commit * 3600
        )?;
        write!(stream, "data {}\n{message}\n", message.len())?;
        let files: Vec<usize> =
            if commit == 0 { (0..200).collect() } else { (0..8).map(|_| random.below(200)).collect() };
        for file in files {
            // The same lines as before, with some of this commit between them.
            let (mut old, mut new) =
                (Random::seeded(1000 + file as u64), Random::seeded(5000 + commit * 200 + file as u64));
            let parts = (0..12)
                .map(|part| prose(if part % 12 == commit as usize % 12 { &mut new } else { &mut old }, 1000));
            let text: String = parts.collect::<Vec<_>>().join("\n");
            write!(stream, "M 100644 inline folder{}/file{file}\ndata {}\n{text}\n", file % 10, text.len())?;
        }
    }
    let file = ground.folder().join("repository.import");
    fs::write(&file, stream)?;
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "safe.directory=*"]).args(words).current_dir(ground.folder());
        command
    };
    finished(&mut git(&["init", "-q", "--bare", "-b", "main", "repository"]))?;
    finished(git(&["-C", "repository", "fast-import", "--quiet"]).stdin(fs::File::open(file)?))
}

/// A new PostgreSQL.
fn database(ground: &Ground) -> Result<()> {
    let mut command = Command::new(ground.found("initdb").map_err(anyhow::Error::msg)?);
    command
        .args(["-D", "data", "-U", "idle", "-A", "trust", "--no-sync", "--locale=C"])
        .current_dir(ground.folder());
    if let Some((user, group)) = ground.unprivileged() {
        command.uid(user).gid(group);
    }
    finished(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_those_of_python() {
        assert_eq!(
            objects(2),
            "[{\"id\": 0, \"name\": \"name 0\", \"tags\": [\"a0\", \"b\"], \"at\": {\"x\": 0.0, \"y\": null}}, \
             {\"id\": 1, \"name\": \"name 1\", \"tags\": [\"a1\", \"b\"], \"at\": {\"x\": 0.3333333333333333, \"y\": null}}]\n"
        );
    }

    #[test]
    fn the_text_is_the_same_each_time_and_as_long_as_it_should_be() {
        let text = || prose(&mut Random::seeded(1), 100_000);
        assert_eq!(text(), text());
        assert_eq!(text().len(), 100_000);
        assert!(text().lines().count() > 1000, "lines of words");
    }
}
