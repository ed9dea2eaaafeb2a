//! Talking to the cluster through the `ceph` program.
//!
//! Owns how commands are given. Several go into one session of it: each start of it costs half a second of
//! processor time. Works on clusters of the lab and on those it is pointed at.

use crate::engine::process::{Process, Program};
use crate::engine::session::Session;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);

/// A way to a cluster: its ceph.conf, and who we are there.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Client {
    pub conf: PathBuf,
    /// Without `client.`.
    pub name: String,
    /// The monitor, where it is the lab's: a client that waits for its answer need not wait for one that has ended.
    #[serde(skip)]
    pub monitor: Option<Process>,
}

impl Client {
    pub fn of(conf: &Path) -> Client {
        Client { conf: conf.to_owned(), name: "admin".to_owned(), monitor: None }
    }

    /// One of Ceph's programs of this system, pointed at the cluster.
    pub fn program<'a>(&self, session: &'a Session, program: &str) -> Program<'a> {
        session
            .command(program)
            .arg("-c")
            .arg(&self.conf)
            .args(["--id", &self.name])
            .env("CEPH_CONF", &self.conf)
            .needs(self.monitor.as_ref())
    }

    /// A question to the monitors, answered in JSON.
    pub fn ask(&self, session: &Session, words: &[&str]) -> Result<Value> {
        let program = self.program(session, "ceph").args(["--connect-timeout", "30", "--format", "json"]);
        let output = program.args(words).limit(LIMIT).run()?;
        serde_json::from_str(output.stdout.trim())
            .with_context(|| format!("ceph {}: no JSON", words.join(" ")))
    }

    /// Commands, one after the other.
    pub fn command(&self, session: &Session, lines: &[String]) -> Result<()> {
        self.command_side_by_side(session, &[lines.to_vec()])
    }

    /// Lists of commands, the lists at the same time: the monitor then decides on several at once.
    pub fn command_side_by_side(&self, session: &Session, lists: &[Vec<String>]) -> Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut files = Vec::new();
        for list in lists.iter().filter(|list| !list.is_empty()) {
            let file =
                session.directory().join(format!("commands-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
            fs::write(&file, list.join("\n") + "\n")
                .with_context(|| format!("cannot write {}", file.display()))?;
            files.push(file);
        }
        let each = r#"ceph -c "$CEPH_CONF" --id "$WHO" --connect-timeout 30 <"$file" >"$file.out" 2>&1"#;
        let script = format!("for file in \"$@\"; do {each} & done; wait");
        let shell = session.command("sh").args(["-c", &script, "ceph"]).args(&files);
        let count: usize = lists.iter().map(Vec::len).sum();
        let shell = shell.called(told(count, lists)).needs(self.monitor.as_ref());
        shell.env("CEPH_CONF", &self.conf).env("WHO", &self.name).limit(LIMIT).run()?;
        for file in files {
            let answers = file.with_extension("out");
            let said = fs::read_to_string(&answers).unwrap_or_default();
            let refused = refusals(&said);
            if let Some(first) = refused.first() {
                bail!("the cluster refused {} of the commands in {}: {first}", refused.len(), file.display());
            }
            let _ = fs::remove_file(&file);
            let _ = fs::remove_file(&answers);
        }
        Ok(())
    }
}

/// The commands in messages.
fn told(count: usize, lists: &[Vec<String>]) -> String {
    let first = lists.iter().flatten().next().map_or("", String::as_str);
    if count == 1 { format!("ceph {first}") } else { format!("ceph {first}, and {} more", count - 1) }
}

/// The session's exit status is that of its last command, so failures are looked for in what it said.
fn refusals(said: &str) -> Vec<String> {
    let bad = |line: &&str| {
        let line = line.trim_start_matches("ceph> ");
        line.starts_with("Error")
            || line.contains("nvalid command")
            || line.contains("no valid command")
            || line.contains("ObjectNotFound")
            || line.contains("error connecting")
    };
    said.lines().filter(bad).map(|line| line.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_command_is_found_among_the_answers() {
        let said =
            "pool 'bench' created\nError EPERM: configuring pool size as 1 is disabled by default.\nset\n";
        assert_eq!(refusals(said).len(), 1);
        assert!(refusals("set pool 1 size to 1\nenabled application 'rbd' on pool 'bench'\n").is_empty());
        assert_eq!(refusals("ceph> Error EINVAL: invalid command").len(), 1);
    }
}
