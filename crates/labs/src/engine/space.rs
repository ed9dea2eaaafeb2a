//! Room on a disk: looked at before it is needed, and named where it ran out.
//!
//! A daemon on a full disk waits, or ends with a message in a log that goes with the run; nobody else says why.

use anyhow::{Result, bail};
use nix::sys::statvfs::statvfs;
use std::path::Path;

/// Ceph's monitor ends itself below one percent, and says so only in its log.
const LEAST_PERCENT: f64 = 1.5;
/// Less than this is as good as nothing: a daemon that wants to write more stands still.
const FULL_MIB: u64 = 16;

/// The room of an unprivileged writer on the disk of a path, in MiB and in percent; the path need not be there
/// yet.
fn free(path: &Path) -> Option<(u64, f64)> {
    let there = path.ancestors().find(|above| above.exists())?;
    let disk = statvfs(there).ok()?;
    let free = disk.blocks_available() as u64;
    let percent = 100.0 * free as f64 / (disk.blocks() as f64).max(1.0);
    Some(((free * disk.fragment_size() as u64) >> 20, percent))
}

pub fn free_mib(path: &Path) -> Option<u64> {
    free(path).map(|(mib, _)| mib)
}

/// That there is so much room for what is named in the run's directory.
pub fn check(path: &Path, needed_mib: u64, what: &str) -> Result<()> {
    check_place(path, needed_mib, what, "--work DIR")
}

/// That there is so much room in a place that this flag names.
pub fn check_place(path: &Path, needed_mib: u64, what: &str, flag: &str) -> Result<()> {
    let Some((mib, percent)) = free(path) else { return Ok(()) };
    if mib < needed_mib || percent < LEAST_PERCENT {
        let least = if mib < needed_mib { String::new() } else { format!(" ({percent:.1} % of the disk)") };
        bail!(
            "{what} needs about {needed_mib} MiB in {}, and {mib} MiB{least} are free there; free space, or \
             choose another folder with {flag}",
            path.display()
        );
    }
    Ok(())
}

/// A sentence if the disk of this path is full.
pub fn fullness(path: &Path) -> Option<String> {
    let (mib, percent) = free(path)?;
    let left = match (mib < FULL_MIB, percent < LEAST_PERCENT) {
        (true, _) => format!("{mib} MiB"),
        (_, true) => format!("{percent:.1} %"),
        _ => return None,
    };
    Some(format!("the disk of {} is full: {left} free", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_refused_with_both_numbers_and_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("not/made/yet");
        assert!(check(&place, 0, "a cluster").is_ok());
        let refused = check(&place, 1 << 40, "a cluster").unwrap_err().to_string();
        assert!(refused.contains("a cluster needs about 1099511627776 MiB"), "{refused}");
        assert!(refused.contains("--work DIR"), "{refused}");
        assert_eq!(fullness(&place), None);
    }
}
