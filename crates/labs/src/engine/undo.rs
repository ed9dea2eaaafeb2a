//! The things that a lab made, each as the step that gets rid of it.
//!
//! Promises that undoing what is not there, or was never made, does nothing and is no failure, so a step may be noted
//! before its thing exists. The journal calls it.

use super::marked;
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub enum Undo {
    /// Ends every process that carries this mark or a part of it.
    EndMarked(String),
    /// Mounts are the run's own: what is still used goes with its last user.
    Unmount(PathBuf),
    /// The device goes when nobody has it open any more.
    CloseLoop(File),
    Remove(Lasting),
}

/// The things that outlive the processes and the namespaces of a run: nothing but files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasting {
    /// A directory that did not exist before, with all that is in it.
    Directory(PathBuf),
    /// A directory that did not exist before, unless somebody has put something into it.
    EmptyDirectory(PathBuf),
    File(PathBuf),
}

impl Undo {
    pub fn act(&self) -> Result<()> {
        match self {
            Undo::EndMarked(mark) => marked::end(mark),
            Undo::Unmount(path) => match umount2(path, MntFlags::MNT_DETACH) {
                Ok(()) | Err(Errno::EINVAL | Errno::ENOENT | Errno::EPERM) => Ok(()),
                Err(error) => Err(error).with_context(|| format!("cannot unmount {}", path.display())),
            },
            Undo::CloseLoop(_) => Ok(()),
            Undo::Remove(lasting) => lasting.remove(),
        }
    }
}

impl Lasting {
    pub fn path(&self) -> &Path {
        match self {
            Lasting::Directory(path) | Lasting::EmptyDirectory(path) | Lasting::File(path) => path,
        }
    }

    pub fn remove(&self) -> Result<()> {
        let done = match self {
            Lasting::Directory(path) => remove_directory(path)?,
            // Another run may be in it, or what an operator has put there.
            Lasting::EmptyDirectory(path) => match fs::remove_dir(path) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
                done => done,
            },
            Lasting::File(path) => fs::remove_file(path),
        };
        absent_is_fine(done).with_context(|| format!("cannot remove {}", self.path().display()))
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Never crosses into another file system: a mount below is not ours to delete.
fn remove_directory(path: &Path) -> Result<io::Result<()>> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(Ok(())) };
    if path.components().count() < 3 || !metadata.is_dir() {
        bail!("{} is not a directory of a lab", path.display());
    }
    remove_below(path, metadata.dev())?;
    Ok(fs::remove_dir(path))
}

fn remove_below(path: &Path, device: u64) -> Result<()> {
    let show = || format!("cannot empty {}", path.display());
    for entry in fs::read_dir(path).with_context(show)? {
        let entry = entry.with_context(show)?.path();
        let Ok(metadata) = fs::symlink_metadata(&entry) else { continue };
        let removed = match metadata.is_dir() {
            true if metadata.dev() != device => {
                bail!("{} stays: it is on another file system", entry.display())
            }
            true => remove_below(&entry, device).map(|()| fs::remove_dir(&entry))?,
            false => fs::remove_file(&entry),
        };
        absent_is_fine(removed).with_context(|| format!("cannot remove {}", entry.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undoing_what_is_not_there_does_nothing() {
        let nowhere = PathBuf::from("/tmp/vcm-labs/not/there");
        for undo in [
            Undo::EndMarked("nobody has this".into()),
            Undo::Unmount(nowhere.clone()),
            Undo::Remove(Lasting::Directory(nowhere.clone())),
            Undo::Remove(Lasting::EmptyDirectory(nowhere.clone())),
            Undo::Remove(Lasting::File(nowhere)),
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
        Lasting::Directory(made.clone()).remove().unwrap();
        assert!(!made.exists());
        assert!(kept.join("file").exists());
    }

    #[test]
    fn a_directory_that_others_use_stays() {
        let ground = tempfile::tempdir().unwrap();
        let (shared, others) = (ground.path().join("shared"), ground.path().join("shared/others"));
        fs::create_dir_all(&others).unwrap();
        let lasting = Lasting::EmptyDirectory(shared.clone());
        lasting.remove().unwrap();
        assert!(others.exists());
        fs::remove_dir(&others).unwrap();
        lasting.remove().unwrap();
        assert!(!shared.exists());
    }

    #[test]
    fn a_directory_near_the_root_is_refused() {
        assert!(Lasting::Directory("/".into()).remove().is_err());
        assert!(Lasting::Directory("/usr".into()).remove().is_err());
        assert!(Path::new("/usr/bin").exists());
    }
}
