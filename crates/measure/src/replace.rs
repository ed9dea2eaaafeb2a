//! A file that is replaced whole or not at all: also on a full disk and after a power failure.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A new file beside the one that it replaces when it is whole; dropped before, it is removed.
pub struct Replacement {
    beside: PathBuf,
    target: PathBuf,
    is_done: bool,
}

impl Replacement {
    /// The replacement and its file, which `mode` says who may read. One that a killed process of this number left is overwritten.
    pub fn begin(target: &Path, mode: u32) -> io::Result<(Replacement, File)> {
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".new-{}", std::process::id()));
        let beside = target.with_file_name(hidden);
        // Never through a link that somebody put there.
        let _ = fs::remove_file(&beside);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        Ok((Replacement { beside, target: target.to_owned(), is_done: false }, file))
    }

    /// Gives the file its name.
    pub fn end(mut self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        fs::rename(&self.beside, &self.target)?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

/// Replaces a file's content; the old one stays where that fails.
pub fn replace(target: &Path, content: &[u8]) -> io::Result<()> {
    replace_with_mode(target, content, 0o644)
}

pub fn replace_with_mode(target: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let (replacement, mut file) = Replacement::begin(target, mode)?;
    file.write_all(content)?;
    replacement.end(&file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_content_stays_until_the_new_is_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("page.md");
        replace(&target, b"old").unwrap();
        let (replacement, mut file) = Replacement::begin(&target, 0o600).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        drop(replacement);
        assert_eq!(
            (fs::read(&target).unwrap(), fs::read_dir(folder.path()).unwrap().count()),
            (b"old".to_vec(), 1)
        );
        replace(&target, b"new").unwrap();
        assert_eq!(
            (fs::read(&target).unwrap(), fs::read_dir(folder.path()).unwrap().count()),
            (b"new".to_vec(), 1)
        );
        assert!(replace(&folder.path().join("no/such/folder"), b"").is_err());
    }

    #[test]
    fn a_link_that_lies_in_the_way_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (target, other) = (folder.path().join("a"), folder.path().join("other"));
        fs::write(&other, "other").unwrap();
        let beside = folder.path().join(format!(".a.new-{}", std::process::id()));
        std::os::unix::fs::symlink(&other, &beside).unwrap();
        replace(&target, b"new").unwrap();
        assert_eq!(
            (fs::read(&other).unwrap(), fs::read(&target).unwrap()),
            (b"other".to_vec(), b"new".to_vec())
        );
    }
}
