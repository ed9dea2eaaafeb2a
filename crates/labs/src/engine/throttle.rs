//! A slower disk: how many operations a second a process may have at the one that is there.
//!
//! Owns the way to the kernel's limits, by either kind of control groups. A group goes when the run is undone, after the
//! processes in it.

use super::session::Session;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use vcm_inspect::block::place_of;
use vcm_inspect::process::Process;
use vcm_inspect::root::Root;

/// The folder in which groups are made, and how a limit is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Control {
    First(PathBuf),
    Second(PathBuf),
}

const MISSING: &str = "disks cannot be slowed down here: no control group has blkio.throttle.write_iops_device or io.max; \
                       on a system with one hierarchy 'echo +io > /sys/fs/cgroup/cgroup.subtree_control' helps";

/// Refuses where no disk can be slowed down.
pub fn prepare(session: &Session) -> Result<()> {
    session.check()?;
    control()?;
    disk_of(session.directory()).map(drop)
}

/// A group whose processes have at most so many reads and so many writes a second at the disk of `place`.
pub fn group(session: &Session, name: &str, place: &Path, operations: u64) -> Result<PathBuf> {
    let (control, disk) = (control()?, disk_of(place)?);
    let (Control::First(parent) | Control::Second(parent)) = &control;
    let group = parent.join(name);
    session.make_group(&group)?;
    for (file, line) in limits(&control, &disk, operations) {
        let path = group.join(file);
        fs::write(&path, line).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(group)
}

pub fn enter(group: &Path, pid: i32) -> Result<()> {
    let path = group.join("cgroup.procs");
    fs::write(&path, pid.to_string())
        .with_context(|| format!("cannot put process {pid} into {}", group.display()))
}

fn limits(control: &Control, disk: &str, operations: u64) -> Vec<(&'static str, String)> {
    match control {
        Control::First(_) => ["blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"]
            .map(|file| (file, format!("{disk} {operations}\n")))
            .to_vec(),
        Control::Second(_) => vec![("io.max", format!("{disk} riops={operations} wiops={operations}\n"))],
    }
}

fn control() -> Result<Control> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
    let has_io = |point: &Path| {
        let said = fs::read_to_string(point.join("cgroup.subtree_control")).unwrap_or_default();
        said.split_whitespace().any(|controller| controller == "io")
    };
    control_of(&mounts, has_io).context(MISSING)
}

fn control_of(mounts: &str, has_io: impl Fn(&Path) -> bool) -> Option<Control> {
    let found = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind, options) = (PathBuf::from(words.next()?), words.next()?, words.next()?);
        match kind {
            "cgroup" if options.split(',').any(|option| option == "blkio") => Some(Control::First(point)),
            "cgroup2" if has_io(&point) => Some(Control::Second(point)),
            _ => None,
        }
    });
    found.min_by_key(|control| matches!(control, Control::Second(_)))
}

/// The number of the one disk that a path lies on.
fn disk_of(path: &Path) -> Result<String> {
    let root = Root::real();
    let process = Process::new(std::process::id() as i32);
    let place = place_of(&root, &process, path);
    let mut disks = place.disks.iter();
    let (Some(disk), None) = (disks.next(), disks.next()) else {
        bail!("{} is not on a single disk; choose another folder with --work DIR", path.display());
    };
    let file = format!("/sys/class/block/{disk}/dev");
    let number = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    Ok(number.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_kind_of_groups_is_found_and_told_in_its_own_words() {
        let first = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let (old, new) =
            (Control::First("/sys/fs/cgroup/blkio".into()), Control::Second("/sys/fs/cgroup".into()));
        assert_eq!(control_of(first, |_| true), Some(old.clone()));
        assert_eq!(control_of(second, |_| true), Some(new.clone()));
        assert_eq!(control_of(second, |_| false), None);
        let lines = limits(&old, "254:0", 120);
        assert_eq!(lines[1], ("blkio.throttle.write_iops_device", "254:0 120\n".to_owned()));
        assert_eq!(limits(&new, "8:0", 120), [("io.max", "8:0 riops=120 wiops=120\n".to_owned())]);
    }
}
