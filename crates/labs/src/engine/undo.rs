//! The things that a lab made, each as the step that gets rid of it.
//!
//! Owns the kinds of things that a lab makes and how each is undone. Promises that undoing what is not there,
//! or was never made, does nothing and is no failure, so an entry may be written before its thing exists. The
//! journal calls it.

use super::identity::{Identity, marked};
use anyhow::{Context, Result, bail};
use nix::mount::{MntFlags, umount2};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Set in the environment of everything that a lab starts, and inherited by what that starts in turn.
pub const MARK_VARIABLE: &str = "VCM_LAB";

/// How long a daemon may take to end by itself before it is killed. The cluster is thrown away anyway.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Ends every process that carries this mark, daemons that went into the background included.
    EndMarked {
        mark: String,
    },
    EndProcess {
        name: String,
        identity: Identity,
    },
    Unmount {
        path: PathBuf,
    },
    /// Detaches every loop device whose backing file this is.
    DetachLoop {
        backing: PathBuf,
    },
    /// Removes a directory that did not exist before, with all that is in it.
    RemoveDirectory {
        path: PathBuf,
    },
    /// Removes a directory that did not exist before, unless somebody has put something into it.
    RemoveEmptyDirectory {
        path: PathBuf,
    },
    RemoveFile {
        path: PathBuf,
    },
}

impl Undo {
    pub fn act(&self) -> Result<()> {
        match self {
            Undo::EndMarked { mark } => end_marked(mark),
            Undo::EndProcess { name, identity } => match identity.end(PATIENCE) {
                true => Ok(()),
                false => bail!("{name} (pid {}) does not end", identity.pid),
            },
            Undo::Unmount { path } => unmount(path),
            Undo::DetachLoop { backing } => detach_loops(backing),
            Undo::RemoveDirectory { path } => remove_directory(path),
            Undo::RemoveEmptyDirectory { path } => {
                remove_empty_directory(path).with_context(|| format!("cannot remove {}", path.display()))
            }
            Undo::RemoveFile { path } => absent_is_fine(fs::remove_file(path))
                .with_context(|| format!("cannot remove {}", path.display())),
        }
    }

    /// Processes and mounts do not.
    pub fn outlives_boot(&self) -> bool {
        matches!(
            self,
            Undo::RemoveDirectory { .. } | Undo::RemoveEmptyDirectory { .. } | Undo::RemoveFile { .. }
        )
    }

    /// For messages: what this will do.
    pub fn tell(&self) -> String {
        match self {
            Undo::EndMarked { mark } => format!("end the processes marked {mark}"),
            Undo::EndProcess { name, identity } => format!("end {name} (pid {})", identity.pid),
            Undo::Unmount { path } => format!("unmount {}", path.display()),
            Undo::DetachLoop { backing } => format!("detach the loop device on {}", backing.display()),
            Undo::RemoveDirectory { path } => format!("remove the directory {}", path.display()),
            Undo::RemoveEmptyDirectory { path } => {
                format!("remove the directory {} if empty", path.display())
            }
            Undo::RemoveFile { path } => format!("remove the file {}", path.display()),
        }
    }
}

fn absent_is_fine(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A daemon may be starting another while it is looked at, so this looks again until nobody is left.
fn end_marked(mark: &str) -> Result<()> {
    for _ in 0..10 {
        let found = marked(MARK_VARIABLE, mark);
        if found.is_empty() {
            return Ok(());
        }
        for identity in &found {
            identity.signal(rustix::process::Signal::TERM);
        }
        for identity in found {
            identity.end(PATIENCE);
        }
    }
    match marked(MARK_VARIABLE, mark).as_slice() {
        [] => Ok(()),
        [first, ..] => bail!("processes of the lab keep coming back, pid {} for one", first.pid),
    }
}

fn unmount(path: &Path) -> Result<()> {
    for attempt in 0.. {
        if !is_mounted(path) {
            return Ok(());
        }
        // A process that has just ended may hold it for a moment; after that it goes when the last user goes.
        let flags = if attempt < 20 { MntFlags::empty() } else { MntFlags::MNT_DETACH };
        match umount2(path, flags) {
            Ok(()) => {}
            Err(error) if attempt > 20 => {
                return Err(error).with_context(|| format!("cannot unmount {}", path.display()));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    Ok(())
}

/// The mount points of this process's view, outermost first.
pub fn mount_points() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let place = |line: &str| line.split(' ').nth(4).map(|place| PathBuf::from(unescape(place)));
    table.lines().filter_map(place).collect()
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescape(place: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(place.to_owned(), |place, (escaped, plain)| place.replace(escaped, plain))
}

pub fn is_mounted(path: &Path) -> bool {
    mount_points().iter().any(|place| place == path)
}

/// The loop devices on a backing file.
pub fn loops_on(backing: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let shown = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        // The kernel adds a remark to the name of a file that was removed.
        let file = shown.trim_end().trim_end_matches(" (deleted)");
        if Path::new(file) == backing {
            found.push(Path::new("/dev").join(device.file_name()));
        }
    }
    found
}

/// A device that somebody else looks at in this moment goes when he has looked.
fn detach_loops(backing: &Path) -> Result<()> {
    for _ in 0..100 {
        let devices = loops_on(backing);
        if devices.is_empty() {
            return Ok(());
        }
        devices.iter().try_for_each(|device| detach_loop(device))?;
        std::thread::sleep(Duration::from_millis(20));
    }
    match loops_on(backing).as_slice() {
        [] => Ok(()),
        [device, ..] => bail!("{} is in use", device.display()),
    }
}

fn detach_loop(device: &Path) -> Result<()> {
    const LOOP_CLR_FD: libc::c_ulong = 0x4c01;
    let file = fs::File::open(device).with_context(|| format!("cannot open {}", device.display()))?;
    // SAFETY: the request takes no argument and `file` is open.
    let done = unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&file), LOOP_CLR_FD, 0) };
    let error = std::io::Error::last_os_error();
    if done != 0 && error.raw_os_error() != Some(libc::ENXIO) {
        return Err(error).with_context(|| format!("cannot detach {}", device.display()));
    }
    Ok(())
}

/// Never crosses into another file system: a mount below is not ours to delete.
fn remove_directory(path: &Path) -> Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if path.components().count() < 3 || !metadata.is_dir() {
        bail!("{} is not a directory that a lab makes", path.display());
    }
    if let Some(place) = mount_points().iter().find(|place| place.starts_with(path)) {
        bail!("{} stays: {} is mounted there", path.display(), place.display());
    }
    remove_below(path, metadata.dev())?;
    absent_is_fine(fs::remove_dir(path)).with_context(|| format!("cannot remove {}", path.display()))
}

/// Another run may be in it, or what an operator has put there.
fn remove_empty_directory(path: &Path) -> std::io::Result<()> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        done => absent_is_fine(done),
    }
}

fn remove_below(path: &Path, device: u64) -> Result<()> {
    let show = || format!("cannot empty {}", path.display());
    for entry in fs::read_dir(path).with_context(show)? {
        let entry = entry.with_context(show)?.path();
        let Ok(metadata) = fs::symlink_metadata(&entry) else { continue };
        if !metadata.is_dir() {
            absent_is_fine(fs::remove_file(&entry))
                .with_context(|| format!("cannot remove {}", entry.display()))?;
            continue;
        }
        if metadata.dev() != device {
            bail!("{} stays: it is on another file system", entry.display());
        }
        remove_below(&entry, device)?;
        absent_is_fine(fs::remove_dir(&entry))
            .with_context(|| format!("cannot remove {}", entry.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undoing_what_is_not_there_does_nothing() {
        let nowhere = PathBuf::from("/tmp/vcm-labs/not/there");
        let gone = Identity { pid: std::process::id() as i32, started: 1 };
        for undo in [
            Undo::EndMarked { mark: "nobody has this".into() },
            Undo::EndProcess { name: "x".into(), identity: gone },
            Undo::Unmount { path: nowhere.clone() },
            Undo::DetachLoop { backing: nowhere.clone() },
            Undo::RemoveDirectory { path: nowhere.clone() },
            Undo::RemoveEmptyDirectory { path: nowhere.clone() },
            Undo::RemoveFile { path: nowhere },
        ] {
            undo.act().unwrap_or_else(|error| panic!("{undo:?}: {error}"));
        }
    }

    #[test]
    fn a_directory_goes_with_its_content_and_links_are_not_followed() {
        let ground = tempfile::tempdir().unwrap();
        let kept = ground.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        let made = ground.path().join("made");
        fs::create_dir_all(made.join("a/b")).unwrap();
        fs::write(made.join("a/b/c"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, made.join("a/link")).unwrap();
        Undo::RemoveDirectory { path: made.clone() }.act().unwrap();
        assert!(!made.exists());
        assert!(kept.join("file").exists());
    }

    #[test]
    fn a_directory_that_others_use_stays() {
        let ground = tempfile::tempdir().unwrap();
        let (shared, others) = (ground.path().join("shared"), ground.path().join("shared/others"));
        fs::create_dir_all(&others).unwrap();
        let undo = Undo::RemoveEmptyDirectory { path: shared.clone() };
        undo.act().unwrap();
        assert!(others.exists());
        fs::remove_dir(&others).unwrap();
        undo.act().unwrap();
        assert!(!shared.exists());
    }

    #[test]
    fn a_directory_near_the_root_is_refused() {
        assert!(Undo::RemoveDirectory { path: "/".into() }.act().is_err());
        assert!(Undo::RemoveDirectory { path: "/usr".into() }.act().is_err());
        assert!(Path::new("/usr/bin").exists());
    }

    #[test]
    fn names_of_mount_points_are_read_with_their_blanks() {
        assert_eq!(unescape("/tmp/a\\040b\\134c"), "/tmp/a b\\c");
    }
}
