//! A control group with a limit on memory, made for one program and removed when the value is dropped; and the place of a
//! controller's groups.
//!
//! Swap is forbidden where it can be, so that a full group means a kill and not a slow program.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PREFIX: &str = "vcm-group-";
/// A killed process is counted in its group for a moment after it was waited for.
const TO_BE_EMPTY: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    One,
    Two,
}

/// A folder in which groups of a controller can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub version: Version,
    pub folder: PathBuf,
}

impl Place {
    /// The places of a controller by its names in version 1 and in version 2, version 1 first. Below the group of this process
    /// where that is possible.
    pub fn all(names: [&str; 2]) -> Result<Vec<Place>> {
        let read = |file| fs::read_to_string(file).with_context(|| format!("cannot read {file}"));
        let can_have_groups = |version, folder: &Path| match version {
            Version::One => folder.is_dir(),
            Version::Two => {
                let passed_on = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
                passed_on.split_whitespace().any(|name| name == names[1])
            }
        };
        Ok(places(&read("/proc/self/mounts")?, &read("/proc/self/cgroup")?, names, can_have_groups))
    }

    /// Asks the root of version 2 to pass a controller on, which it may refuse.
    pub fn pass_on(name: &str) {
        let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", format!("+{name}"));
    }
}

fn places(
    mounts: &str,
    membership: &str,
    names: [&str; 2],
    can_have_groups: impl Fn(Version, &Path) -> bool,
) -> Vec<Place> {
    let own_path = |wanted: &str| {
        membership.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == wanted).then(|| path.trim_start_matches('/'))
        })
    };
    let place = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (mount, kind, options) = (Path::new(words.next()?), words.next()?, words.next()?);
        let (version, own) = match kind {
            "cgroup" if options.split(',').any(|option| option == names[0]) => {
                (Version::One, own_path(names[0]))
            }
            "cgroup2" => (Version::Two, own_path("")),
            _ => return None,
        };
        // A container may see the path of its group from outside, which is not below its mount.
        let folders = [mount.join(own.unwrap_or_default()), mount.to_owned()];
        let folder = folders.into_iter().find(|folder| can_have_groups(version, folder))?;
        Some(Place { version, folder })
    };
    let mut found: Vec<Place> = mounts.lines().filter_map(place).collect();
    found.sort_by_key(|place| place.version);
    found
}

pub struct Group {
    folder: PathBuf,
    version: Version,
}

impl Group {
    /// A group of the version that is there, the first one where both are.
    pub fn with_limit(bytes: u64) -> Result<Group> {
        match Place::all(["memory", "memory"])?.first() {
            Some(place) => Self::below(place, bytes),
            None => bail!(
                "no memory cgroup: neither version 1 is mounted nor does version 2 give the memory controller to \
                 children of this process's group; run this in a container with one, or as root on a host"
            ),
        }
    }

    pub fn of_version(version: Version, bytes: u64) -> Result<Group> {
        if version == Version::Two {
            Place::pass_on("memory");
        }
        let found = Place::all(["memory", "memory"])?.into_iter().find(|place| place.version == version);
        Self::below(
            &found.with_context(|| format!("version {version:?} has no memory controller here"))?,
            bytes,
        )
    }

    fn below(place: &Place, bytes: u64) -> Result<Group> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        remove_stale(&place.folder);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = place.folder.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder)
            .with_context(|| format!("cannot make the cgroup {}; this needs root", folder.display()))?;
        // From here on dropping it removes the folder, also where the limit is refused.
        let group = Group { folder, version: place.version };
        let (limit, swap, of_swap) = match group.version {
            Version::One => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes),
            Version::Two => ("memory.max", "memory.swap.max", 0),
        };
        let write = |file: &str, value: u64| fs::write(group.folder.join(file), value.to_string());
        write(limit, bytes).with_context(|| format!("cannot write {limit} of {}", group.folder.display()))?;
        // Not everywhere: without accounts of swap, or without swap.
        let _ = write(swap, of_swap);
        Ok(group)
    }

    /// Opened before the fork: a child that writes `0` to it is in the group before it runs anything.
    pub fn door(&self) -> Result<File> {
        let path = self.folder.join("cgroup.procs");
        File::options().write(true).open(&path).with_context(|| format!("cannot open {}", path.display()))
    }

    /// The command starts in the group.
    pub fn hold(&self, command: &mut Command) -> Result<()> {
        let door = self.door()?;
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(move || (&door).write_all(b"0")) };
        Ok(())
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_default()
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

impl Drop for Group {
    fn drop(&mut self) {
        let pause = Duration::from_millis(20);
        for _ in 0..TO_BE_EMPTY.as_millis() / pause.as_millis() {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(pause);
        }
        crate::tell::line(&format!(
            "the cgroup {} is still busy; remove it with rmdir",
            self.folder.display()
        ));
    }
}

/// The number in a line `name number`.
fn field(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name).and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
}

/// Groups of programs that were killed. A folder in use cannot be removed, so trying does no harm.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";

    fn found(mounts: &str, membership: &str, is_able: impl Fn(Version, &Path) -> bool) -> Vec<Place> {
        places(mounts, membership, ["memory", "memory"], is_able)
    }

    fn place(version: Version, folder: &str) -> Place {
        Place { version, folder: folder.into() }
    }

    #[test]
    fn the_first_version_is_taken_where_both_have_the_controller() {
        let all = found(HYBRID, "4:memory:/a/b\n1:cpu:/\n0::/c\n", |_, _| true);
        let (one, two) = ("/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/unified/c");
        assert_eq!(all, [place(Version::One, one), place(Version::Two, two)]);
        let one_only = found(HYBRID, "4:memory:/a/b\n0::/c\n", |version, _| version == Version::One);
        assert_eq!(one_only, [place(Version::One, one)]);
    }

    #[test]
    fn groups_are_made_at_the_mount_where_the_own_one_has_none() {
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let is_mount = |_, folder: &Path| folder == Path::new("/sys/fs/cgroup");
        assert_eq!(found(mounts, "0::/user.slice\n", is_mount), [place(Version::Two, "/sys/fs/cgroup")]);
        assert_eq!(found(mounts, "0::/user.slice\n", |_, _| false), []);
    }

    #[test]
    fn a_controller_has_a_name_in_each_version() {
        let mounts = "cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n";
        let of = |names| places(mounts, "", names, |_, _| true).len();
        assert_eq!((of(["blkio", "io"]), of(["memory", "memory"])), (1, 0));
    }

    #[test]
    fn counters_are_read_by_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!((field(text, "oom_kill"), field(text, "max")), (3, 0));
    }
}
