//! A memory cgroup of our own for one child: made below the watcher's own, and removed when the value is
//! dropped.
//!
//! Version 2 where the memory controller is there, else version 1. Swap is forbidden where it can be, so that
//! a full group means a kill and not a slow child.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files that differ between the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

pub struct Cgroup {
    directory: PathBuf,
    version: Version,
}

impl Cgroup {
    pub fn with_limit(name: &str, bytes: u64) -> Result<Self> {
        let (parent, version) = own_memory_cgroup()?;
        remove_stale(&parent);
        let directory = parent.join(format!("{PREFIX}{}-{name}", std::process::id()));
        std::fs::create_dir(&directory)
            .with_context(|| format!("cannot make the cgroup {}; this needs root", directory.display()))?;
        // From here on dropping it removes the directory, also if the limit is refused.
        let group = Self { directory, version };
        match version {
            Version::One => {
                group.write("memory.limit_in_bytes", bytes)?;
                // Only there if the kernel accounts swap.
                let _ = group.write("memory.memsw.limit_in_bytes", bytes);
            }
            Version::Two => {
                let _ = group.write("memory.swap.max", 0);
                group.write("memory.max", bytes)?;
            }
        }
        Ok(group)
    }

    fn write(&self, file: &str, value: u64) -> Result<()> {
        let path = self.directory.join(file);
        std::fs::write(&path, value.to_string()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.directory.join(file)).unwrap_or_default()
    }

    /// Opened before the fork: the child writes `0` to it and is in the group before it runs anything.
    pub fn door(&self) -> Result<File> {
        let path = self.directory.join("cgroup.procs");
        File::options().write(true).open(&path).with_context(|| format!("cannot open {}", path.display()))
    }

    /// Processes that the kernel ended because the group was full.
    pub fn kills(&self) -> u64 {
        let file = if self.version == Version::One { "memory.oom_control" } else { "memory.events" };
        field(&self.read(file), "oom_kill")
    }

    /// How often the limit was reached and the kernel had to reclaim.
    pub fn times_full(&self) -> u64 {
        match self.version {
            // Whichever of the two limits is met first counts it.
            Version::One => ["memory.failcnt", "memory.memsw.failcnt"]
                .map(|file| self.read(file).trim().parse::<u64>().unwrap_or(0))
                .iter()
                .sum(),
            Version::Two => field(&self.read("memory.events"), "max"),
        }
    }

    pub fn peak_bytes(&self) -> u64 {
        let file = if self.version == Version::One { "memory.max_usage_in_bytes" } else { "memory.peak" };
        self.read(file).trim().parse().unwrap_or(0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A killed child is gone from the group a moment after it was waited for.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("the cgroup {} is still busy; remove it with rmdir", self.directory.display());
    }
}

const PREFIX: &str = "vcm-memory-";

/// The number in a line `name number`.
fn field(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name).and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
}

/// Groups of watchers that were killed. A directory in use cannot be removed, so trying does no harm.
fn remove_stale(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The directory of the group that this process is in, as far as memory goes.
fn own_memory_cgroup() -> Result<(PathBuf, Version)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("cannot read the mounts")?;
    let membership = std::fs::read_to_string("/proc/self/cgroup").context("cannot read the own cgroup")?;
    let offers_memory = |directory: &Path| {
        let controllers = std::fs::read_to_string(directory.join("cgroup.subtree_control"));
        controllers.is_ok_and(|text| text.split_whitespace().any(|one| one == "memory"))
    };
    find(&mounts, &membership, offers_memory)
}

fn find(mounts: &str, membership: &str, offers_memory: impl Fn(&Path) -> bool) -> Result<(PathBuf, Version)> {
    let path_in = |controllers: &str| {
        let lines = membership.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        });
        lines.filter(|(names, _)| names.split(',').any(|one| one == controllers)).map(|(_, path)| path).next()
    };
    for mount in mounts.lines() {
        let words: Vec<&str> = mount.split(' ').collect();
        let [_, place, kind, options, ..] = words[..] else { continue };
        let is_memory_v1 = kind == "cgroup" && options.split(',').any(|option| option == "memory");
        let (version, path) = match kind {
            "cgroup" if is_memory_v1 => (Version::One, path_in("memory")),
            "cgroup2" => (Version::Two, path_in("")),
            _ => continue,
        };
        let directory = Path::new(place).join(path.unwrap_or("/").trim_start_matches('/'));
        if version == Version::One || offers_memory(&directory) {
            return Ok((directory, version));
        }
    }
    bail!(
        "no memory cgroup: neither version 1 is mounted nor does version 2 give the memory controller to children of \
         this process's group; run this in a container with one, or as root on a host"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";

    #[test]
    fn version_1_is_taken_where_version_2_has_no_memory_controller() {
        let found = find(HYBRID, "4:memory:/a/b\n1:cpu:/\n0::/\n", |_| false).unwrap();
        assert_eq!(found, (PathBuf::from("/sys/fs/cgroup/memory/a/b"), Version::One));
    }

    #[test]
    fn version_2_is_taken_where_it_hands_memory_down() {
        let found = find("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/user.slice\n", |_| true).unwrap();
        assert_eq!(found, (PathBuf::from("/sys/fs/cgroup/user.slice"), Version::Two));
    }

    #[test]
    fn without_a_memory_cgroup_the_error_says_what_to_do() {
        let error = find("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/\n", |_| false).unwrap_err();
        assert!(error.to_string().contains("as root on a host"), "{error}");
    }

    #[test]
    fn counters_are_read_by_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!((field(text, "oom_kill"), field(text, "max")), (3, 0));
    }
}
