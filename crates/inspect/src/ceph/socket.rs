//! Asking a Ceph daemon over its admin socket.
//!
//! Owns the protocol: one JSON object with a zero behind it, then the length of the answer in four bytes, the
//! highest first, then the answer. Only commands that read are known here, so nothing can be changed by it.

use super::Setting;
use crate::process::Process;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(3);
/// `config show` of a large daemon is some 100 KiB.
const LONGEST_ANSWER: usize = 16 << 20;

#[derive(Clone, Copy)]
pub enum Question {
    ConfigShow,
    ConfigDiff,
}

impl Question {
    fn words(self) -> &'static str {
        match self {
            Question::ConfigShow => "config show",
            Question::ConfigDiff => "config diff",
        }
    }
}

/// The admin sockets on which the process listens, as it names them: by the sockets it has open.
pub fn of(process: &Process) -> Vec<PathBuf> {
    let entries = fs::read_dir(process.file("fd")).into_iter().flatten().flatten();
    let open: Vec<String> = entries
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string())
        })
        .collect();
    let table = fs::read_to_string(process.file("net/unix")).unwrap_or_default();
    let bound = table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let inode = words.nth(6)?;
        let path = words.next()?;
        (path.ends_with(".asok") && open.iter().any(|own| own == inode)).then(|| PathBuf::from(path))
    });
    bound.collect()
}

/// One question, one answer.
pub fn ask(socket: &Path, question: Question) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = serde_json::json!({ "prefix": question.words(), "format": "json" });
    stream.write_all(format!("{request}\0").as_bytes())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST_ANSWER {
        return Err(io::Error::other(format!("an answer of {length} bytes")));
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    serde_json::from_slice(&answer).map_err(|error| io::Error::other(format!("not JSON: {error}")))
}

/// The settings in effect, and for those that differ from the default who set them.
pub fn settings(socket: &Path) -> io::Result<BTreeMap<String, Setting>> {
    let shown = ask(socket, Question::ConfigShow)?;
    let differences = ask(socket, Question::ConfigDiff).unwrap_or(Value::Null);
    let values = shown.as_object().into_iter().flatten();
    let settings = values.map(|(name, value)| {
        let origin = origin(&differences, name);
        (name.clone(), Setting { value: plain(value), origin })
    });
    Ok(settings.collect())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// `config diff` has, for each setting that differs, a value by each level that set one; the strongest
/// counts.
fn origin(differences: &Value, name: &str) -> String {
    const BY_STRENGTH: [&str; 7] = ["override", "cmdline", "argv", "env", "mon", "file", "conf"];
    let Some(levels) = differences.get("diff").and_then(|diff| diff.get(name)) else {
        return "default".into();
    };
    BY_STRENGTH.into_iter().find(|level| levels.get(level).is_some()).unwrap_or("daemon").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::serve;

    #[test]
    fn values_come_with_the_level_that_set_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("osd.asok");
        let shown = serde_json::json!({ "debug_osd": "20/20", "osd_memory_target": "1", "debug_ms": "0/0" });
        let levels = serde_json::json!({ "diff": {
            "debug_osd": { "default": "1/5", "file": "10/10", "override": "20/20", "final": "20/20" },
            "osd_memory_target": { "default": "4", "mon": "1", "final": "1" } } });
        serve(&path, shown, levels);
        let settings = settings(&path).unwrap();
        let of = |name: &str| (settings[name].value.clone(), settings[name].origin.clone());
        assert_eq!(of("debug_osd"), ("20/20".into(), "override".into()));
        assert_eq!(of("osd_memory_target"), ("1".into(), "mon".into()));
        assert_eq!(of("debug_ms"), ("0/0".into(), "default".into()));
    }

    #[test]
    fn nobody_listening_is_an_error() {
        assert!(ask(Path::new("/nonexistent.asok"), Question::ConfigShow).is_err());
    }
}
