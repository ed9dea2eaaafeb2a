//! Looking at a running process through /proc.
//!
//! Owns the paths and formats of procfs. Every answer may be refused (another user's process) or outdated a
//! moment later.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub struct Process {
    pub id: i32,
}

impl Process {
    pub fn new(id: i32) -> Self {
        Process { id }
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.id))
    }

    /// The name by which the kernel knows it, at most 15 bytes.
    pub fn name(&self) -> io::Result<Vec<u8>> {
        Ok(fs::read(self.file("comm"))?.trim_ascii_end().to_vec())
    }

    /// The environment it was started with; a program may have overwritten it since.
    pub fn environment(&self) -> io::Result<Vec<(OsString, OsString)>> {
        let bytes = fs::read(self.file("environ"))?;
        let pair = |entry: &[u8]| {
            let at = entry.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (entry.get(..at)?, entry.get(at + 1..)?);
            Some((OsStr::from_bytes(name).to_os_string(), OsStr::from_bytes(value).to_os_string()))
        };
        Ok(bytes.split(|byte| *byte == 0).filter_map(pair).collect())
    }

    /// The program; none for a kernel thread.
    pub fn program(&self) -> io::Result<PathBuf> {
        fs::read_link(self.file("exe"))
    }

    /// The files that are mapped, each once. A file that was replaced since has " (deleted)" at its end.
    pub fn mapped_files(&self) -> io::Result<Vec<PathBuf>> {
        let maps = fs::read(self.file("maps"))?;
        let mut files: Vec<PathBuf> = Vec::new();
        for line in maps.split(|byte| *byte == b'\n') {
            let Some(at) = line.iter().position(|byte| *byte == b'/') else { continue };
            let path = PathBuf::from(OsStr::from_bytes(line.get(at..).unwrap_or_default()));
            if !files.contains(&path) {
                files.push(path);
            }
        }
        Ok(files)
    }

    /// Where we find the file that the process finds at `path`: in a container its root is not ours.
    pub fn as_seen_by_it(&self, path: &Path) -> PathBuf {
        let mounts = |file: &str| fs::read_link(file).ok();
        let same_mounts = mounts(&format!("/proc/{}/ns/mnt", self.id)) == mounts("/proc/self/ns/mnt");
        let root = self.file("root");
        if same_mounts && fs::read_link(&root).is_ok_and(|root| root == Path::new("/")) {
            return path.to_path_buf();
        }
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// When it was started.
    pub fn started(&self) -> Option<SystemTime> {
        let ticks = self.status_field(START_TIME)?;
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let boot: u64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        // USER_HZ is 100 on every architecture that Linux supports.
        Some(UNIX_EPOCH + Duration::from_secs(boot) + Duration::from_millis(ticks * 10))
    }

    fn parent(&self) -> Option<i32> {
        self.status_field(PARENT).and_then(|id| i32::try_from(id).ok())
    }

    /// A numeric field of /proc/PID/stat by its number after the name (proc_pid_stat(5)).
    fn status_field(&self, field: usize) -> Option<u64> {
        let status = fs::read(self.file("stat")).ok()?;
        // The name may contain blanks and parentheses; the last one ends it.
        let end = status.iter().rposition(|byte| *byte == b')')?;
        let rest = String::from_utf8_lossy(status.get(end + 1..)?).into_owned();
        rest.split_ascii_whitespace().nth(field)?.parse().ok()
    }
}

const PARENT: usize = 1;
const START_TIME: usize = 19;

/// All living descendants of a process, at this moment.
pub fn descendants(ancestor: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let family: Vec<(i32, i32)> =
        ids.filter_map(|id| Process::new(id).parent().map(|parent| (id, parent))).collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(family.iter().filter(|(_, of)| *of == parent).map(|(id, _)| *id));
        next += 1;
    }
    found.remove(0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Process {
        Process::new(std::process::id() as i32)
    }

    #[test]
    fn a_process_sees_itself() {
        let program = own().program().unwrap();
        assert_eq!(program, std::env::current_exe().unwrap().canonicalize().unwrap());
        assert!(own().mapped_files().unwrap().contains(&program));
        assert!(!own().name().unwrap().is_empty());
    }

    #[test]
    fn the_start_lies_in_the_past_and_not_long_ago() {
        let age = SystemTime::now().duration_since(own().started().unwrap()).unwrap_or_default();
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }

    #[test]
    fn a_child_is_a_descendant() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let found = descendants(std::process::id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&(child.id() as i32)));
    }
}
