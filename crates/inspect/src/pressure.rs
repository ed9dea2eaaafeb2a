//! How scarce memory is for a process: its control group's use and limit, and the time that tasks wait for memory (PSI).

use super::process::Process;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pressure {
    pub used: Option<u64>,
    /// Of the group or one above it.
    pub limit: Option<u64>,
    /// Per cent of the last 10 and 60 seconds in which some task waited for memory.
    pub stalled: Option<(f64, f64)>,
    /// Times that the kernel killed somebody of the group for memory.
    pub kills: Option<u64>,
}

impl Process {
    pub fn memory_pressure(&self) -> Pressure {
        let group = self.control_group();
        let inside = group.as_deref().and_then(|group| group.strip_prefix("/").ok());
        let unified = inside.map(|group| Path::new("/sys/fs/cgroup").join(group));
        let file = |name: &str| unified.as_ref().map(|folder: &PathBuf| folder.join(name));
        let text = |name: &str| self.root().text(file(name)?);
        Pressure {
            used: text("memory.current").and_then(|text| text.parse().ok()),
            limit: self.memory_limit(),
            // The root group has no file of its own; the machine's says the same.
            stalled: text("memory.pressure")
                .or_else(|| self.root().text("/proc/pressure/memory"))
                .and_then(|text| stalled(&text)),
            kills: text("memory.events")
                .and_then(|text| text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.parse().ok()),
        }
    }
}

/// `some avg10=0.00 avg60=1.50 ...`
fn stalled(text: &str) -> Option<(f64, f64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let word = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name))?.parse().ok();
    Some((word("avg10=")?, word("avg60=")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;

    #[test]
    fn pressure_is_the_groups_and_without_one_the_machines() {
        let (_folder, root) = Root::with_files(&[
            ("/proc/7/cgroup", "0::/a.slice/b.service\n"),
            ("/proc/pressure/memory", "some avg10=0.50 avg60=0.25 avg300=0.00 total=1\nfull avg10=0.00\n"),
        ]);
        let process = Process::in_root(&root, 7);
        assert_eq!(process.memory_pressure(), Pressure { stalled: Some((0.5, 0.25)), ..Pressure::default() });
        for (name, text) in [
            ("memory.current", "8192\n"),
            ("memory.max", "9000\n"),
            ("memory.pressure", "some avg10=12.00 avg60=1.50 avg300=0.10 total=9\n"),
            ("memory.events", "low 0\nhigh 3\noom 2\noom_kill 2\n"),
        ] {
            root.write(&format!("/sys/fs/cgroup/a.slice/b.service/{name}"), text);
        }
        let found = process.memory_pressure();
        assert_eq!((found.used, found.limit, found.kills), (Some(8192), Some(9000), Some(2)));
        assert_eq!(found.stalled, Some((12.0, 1.5)));
    }
}
