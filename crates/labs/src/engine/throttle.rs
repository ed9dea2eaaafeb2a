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
use vcm_measure::group::{Place, Version};

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
    let group = control.folder.join(name);
    session.make_group(&group)?;
    for (file, line) in limits(control.version, &disk, operations) {
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

fn limits(version: Version, disk: &str, operations: u64) -> Vec<(&'static str, String)> {
    match version {
        Version::One => ["blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"]
            .map(|file| (file, format!("{disk} {operations}\n")))
            .to_vec(),
        Version::Two => vec![("io.max", format!("{disk} riops={operations} wiops={operations}\n"))],
    }
}

fn control() -> Result<Place> {
    Place::all(["blkio", "io"])?.into_iter().next().context(MISSING)
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
    fn a_limit_is_told_to_either_version_in_its_own_words() {
        let lines = limits(Version::One, "254:0", 120);
        assert_eq!(lines[1], ("blkio.throttle.write_iops_device", "254:0 120\n".to_owned()));
        assert_eq!(limits(Version::Two, "8:0", 120), [("io.max", "8:0 riops=120 wiops=120\n".to_owned())]);
    }
}
