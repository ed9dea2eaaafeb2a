//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use vcm_foreign::Shown;
use vcm_front::say::{FAILURE, Failure};

/// Finds out that a file can be made, before anything is measured for minutes.
pub fn look(path: &Path) -> Result<(), Failure> {
    if is_stream(path) {
        return File::options().write(true).open(path).map(|_| ()).map_err(|error| not_written(path, &error));
    }
    draft(path).map(|_| ()).map_err(|error| not_written(path, &error))
}

/// Writes the file; the old file goes only when the new one is whole.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = || -> io::Result<()> {
        if is_stream(path) {
            return File::options().write(true).open(path)?.write_all(bytes);
        }
        let mut draft = draft(path)?;
        draft.write_all(bytes)?;
        draft.as_file().sync_all()?;
        draft.persist(target(path)).map(|_| ()).map_err(|error| error.error)
    };
    written().map_err(|error| not_written(path, &error))
}

/// A device or a pipe: nothing can take its place.
fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| !file.is_file())
}

/// A link stays one.
fn target(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn draft(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let target = target(path);
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As any program makes a file: the user's mask takes off what it takes off.
    let permissions = fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".vcm-").permissions(permissions).tempfile_in(folder)
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    let why = error.to_string();
    // The name of the draft is of no use to anybody.
    let why = why.split(" at path ").next().unwrap_or_default();
    Failure::new(FAILURE, format!("{}: not written: {why}", path.shown()))
}

/// Refuses to write where something is read, or will be.
pub fn is_other(path: &Path, source: &Path) -> Result<(), Failure> {
    let refusal = || format!("{}: output and input are the same file", path.shown());
    if place(path) == place(source) { Err(Failure::new(FAILURE, refusal())) } else { Ok(()) }
}

/// The same for two names of one file, whether it is there or not.
fn place(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_of_a_file_are_one_place_before_it_is_there_too() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (
            folder.path().join("a"),
            folder.path().join("../").join(folder.path().file_name().unwrap()).join("a"),
        );
        assert!(is_other(&file, &other).is_err());
        std::fs::write(&file, "").unwrap();
        assert!(is_other(&file, &other).is_err());
        std::os::unix::fs::symlink(&file, folder.path().join("link")).unwrap();
        assert!(is_other(&folder.path().join("link"), &file).is_err());
        assert!(is_other(&folder.path().join("b"), &file).is_ok());
    }
}
