//! Finding the words of a break, and the copy of the tree in which it is planted.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::planted::Break;

/// The file under `root` that has the words of a break, and its text.
pub fn find(root: &Path, planted: &Break) -> Result<(PathBuf, String), String> {
    let mut found = Vec::new();
    let mut times = 0;
    for path in rust_files(&root.join(planted.within)) {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let here = text.matches(planted.before).count();
        times += here;
        if here > 0 {
            found.push((path, text));
        }
    }
    match (times, found.pop()) {
        (1, Some(found)) => Ok(found),
        _ => Err(format!(
            "its words stand {times} times in {}, not once; mend them where the break stands, in tests/breaks:\n{}",
            planted.within, planted.before
        )),
    }
}

pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut files = Vec::new();
    for path in entries.into_iter().flatten() {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Makes `copy` the same as `root` in all that git knows or would: only what differs is written, so that little is
/// built anew.
#[allow(dead_code)] // of the runner
pub fn copy(root: &Path, copy: &Path) -> Result<(), String> {
    let wanted = known_to_git(root)?;
    let wrong = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for path in wanted.iter().filter(|path| root.join(path).is_file()) {
        let (from, to) = (root.join(path), copy.join(path));
        let bytes = fs::read(&from).map_err(|error| wrong(&from, error))?;
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        let folder = to.parent().expect("a file lies in a folder");
        fs::create_dir_all(folder).and_then(|()| fs::copy(&from, &to)).map_err(|error| wrong(&to, error))?;
    }
    // A file that was moved or removed would still be built.
    for path in rust_files(copy) {
        if path.strip_prefix(copy).is_ok_and(|path| !wanted.contains(path)) {
            fs::remove_file(&path).map_err(|error| wrong(&path, error))?;
        }
    }
    Ok(())
}

fn known_to_git(root: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}
