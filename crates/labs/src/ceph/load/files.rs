//! Real clients of CephFS, libcephfs by Python, one for each of several file systems at the same time.

use super::Load;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Run by the system's Python; beside this file.
const SCRIPT: &str = include_str!("files.py");
/// Six clients at once did 37 each on a machine at a load of 100; a limit is there to end what hangs.
const FILES_A_SECOND: u64 = 5;

/// The same tree in each of these file systems.
pub struct Files<'a> {
    pub conf: &'a Path,
    pub file_systems: &'a [String],
    pub files: u64,
}

impl Files<'_> {
    /// `create`, `walk` or `remove`; what each client did, in the order of the file systems.
    pub fn run(&self, session: &Session, phase: &str) -> Result<Vec<Load>> {
        let script = session.directory().join("files.py");
        std::fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
        let python = session.command("/usr/bin/python3").arg(&script).arg(self.conf).arg(phase);
        let python = python.arg(self.files.to_string()).args(self.file_systems);
        let limit = Duration::from_secs(120 + self.files / FILES_A_SECOND);
        let output = python.limit(limit).called(format!("the clients that {phase}")).run()?;
        parse(&output.stdout, self.file_systems).context("what the clients printed")
    }
}

fn parse(text: &str, file_systems: &[String]) -> Result<Vec<Load>> {
    let answer: Value = serde_json::from_str(text)?;
    let load = |name: &String| {
        let said = &answer[name];
        let number = |field: &str| said[field].as_f64().with_context(|| format!("no {field} of {name}"));
        let (operations, seconds) = (number("count")?, number("seconds")?);
        let mean_ms = if operations > 0.0 { 1000.0 * seconds / operations } else { 0.0 };
        Ok(Load { operations, seconds, mean_ms, ..Load::default() })
    };
    file_systems.iter().map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn each_file_systems_answers_are_its_own() {
        let names = ["fs1".to_owned(), "fs0".to_owned()];
        let text = r#"{"fs0": {"count": 50, "seconds": 4}, "fs1": {"count": 30, "seconds": 3.0}}"#;
        let loads = parse(text, &names).unwrap();
        assert_eq!((loads[0].operations, loads[1].mean_ms), (30.0, 80.0));
        assert!(parse(text, &["fs2".to_owned()]).is_err());
    }

    /// A module in place of Ceph's, on a directory: what is created is found, and all of it is removed.
    const FAKE: &str = r#"
import os
ROOT = os.environ["FAKE_ROOT"]
class Entry:
    def __init__(self, name): self.d_name = name.encode()
class LibCephFS:
    def __init__(self, conffile, auth_id): assert (conffile, auth_id) == ("/c.conf", "admin")
    def mount(self, mount_root, filesystem_name):
        self.root = ROOT + "/" + filesystem_name.decode()
        os.makedirs(self.root, exist_ok=True)
    def mkdir(self, path, mode): os.mkdir(self.root + path, mode)
    def open(self, path, how, mode): return os.open(self.root + path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    def close(self, descriptor): os.close(descriptor)
    def opendir(self, path): return iter([Entry("."), Entry("..")] + [Entry(n) for n in os.listdir(self.root + path)])
    def readdir(self, handle): return next(handle, None)
    def closedir(self, handle): pass
    def stat(self, path): os.stat(self.root + path)
    def unlink(self, path): os.unlink(self.root + path)
    def rmdir(self, path): os.rmdir(self.root + path)
    def shutdown(self): pass
"#;

    #[test]
    fn what_clients_create_they_find_and_remove() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("files.py");
        std::fs::write(&script, SCRIPT).unwrap();
        std::fs::write(folder.path().join("cephfs.py"), FAKE).unwrap();
        let names = ["fs0".to_owned(), "fs1".to_owned()];
        let run = |phase: &str| {
            let mut python = Command::new("python3");
            python.arg(&script).args(["/c.conf", phase, "2500"]).args(&names).env("FAKE_ROOT", folder.path());
            python.output().unwrap()
        };
        let said = |phase: &str| {
            let output = run(phase);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            parse(&String::from_utf8_lossy(&output.stdout), &names).unwrap()
        };
        let directories = || std::fs::read_dir(folder.path().join("fs1")).unwrap().count();
        for phase in ["create", "walk"] {
            assert!(said(phase).iter().all(|load| load.operations == 2500.0), "{phase}");
            assert_eq!(directories(), 5);
        }
        assert!(said("remove").iter().all(|load| load.operations == 2500.0));
        assert_eq!(directories(), 0);
        let failed = run("remove");
        let error = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(
            !failed.status.success() && error.contains("no answer from the client of fs0, fs1"),
            "{error}"
        );
    }
}
