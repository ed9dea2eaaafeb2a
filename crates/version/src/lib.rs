//! The version that a build has: the package's, the commit of the sources, and whether they were changed since.
//!
//! For the build scripts of the libraries and of vcm. Reads .git by itself, so neither git nor a repository
//! is needed: a build from an archive has the package's version alone. No time is in it, so that one
//! commit always makes the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Enough to tell commits apart, whatever the repository's own length is.
const SHOWN_DIGITS: usize = 10;
/// The files that every package is made from, beside its own folder.
const COMMON: [&str; 2] = ["Cargo.toml", "Cargo.lock"];

/// Sets `VCMALLOC_VERSION` for the crate: `0.1.0`, `0.1.0+d5f9679b8f` or `0.1.0+d5f9679b8f+changes`, where one of these
/// folders of crates/ is not as the commit has it.
pub fn tell(packages: &[&str]) {
    // All packages have one, but for the crate that takes the place of another, with that one's.
    let version = env!("CARGO_PKG_VERSION");
    let workspace = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Among the packages of another program, vendored, the folder above is that program's.
    let is_ours = workspace.join("crates/version/Cargo.toml").exists();
    let folder = folder_of(workspace).filter(|_| is_ours);
    let commit = folder.and_then(|folder| commit(&folder));
    let build = commit.map_or(String::new(), |commit| {
        let folders = packages.iter().map(|package| format!("crates/{package}"));
        let sources: Vec<String> = folders.chain(COMMON.map(str::to_string)).collect();
        // A change makes the script run again; changed files are compiled anyway.
        sources.iter().for_each(|source| watch(&workspace.join(source)));
        format!("+{commit}{}", if are_changed(&sources, workspace) { "+changes" } else { "" })
    });
    println!("cargo:rustc-env=VCMALLOC_VERSION={version}{build}");
}

/// Git's folder for these sources, and for nothing around them; in a worktree a file names it.
fn folder_of(workspace: &Path) -> Option<PathBuf> {
    let place = workspace.join(".git");
    if place.is_dir() {
        return Some(place);
    }
    let text = fs::read_to_string(&place).ok()?;
    Some(workspace.join(text.strip_prefix("gitdir:")?.trim()))
}

/// The commit that is checked out, cut; asks to be run again when it is another.
fn commit(folder: &Path) -> Option<String> {
    let head = fs::read_to_string(folder.join("HEAD")).ok()?;
    // The log grows with every commit, also where the branch itself is packed and HEAD still names it.
    watch(&folder.join("HEAD"));
    watch(&folder.join("logs/HEAD"));
    let hash = match head.strip_prefix("ref:") {
        Some(name) => of_branch(folder, name.trim())?,
        None => head.trim().to_string(),
    };
    let is_hash = hash.len() >= SHOWN_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    hash.get(..SHOWN_DIGITS).filter(|_| is_hash).map(str::to_string)
}

fn of_branch(folder: &Path, name: &str) -> Option<String> {
    let common = fs::read_to_string(folder.join("commondir")).ok();
    let common = common.map_or_else(|| folder.to_path_buf(), |path| folder.join(path.trim()));
    let file = common.join(name);
    if let Ok(hash) = fs::read_to_string(&file) {
        watch(&file);
        return Some(hash.trim().to_string());
    }
    let packed = common.join("packed-refs");
    watch(&packed);
    let text = fs::read_to_string(packed).ok()?;
    text.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' ')).map(str::to_string)
}

/// A file that is not there would make the script run at every build.
fn watch(file: &Path) {
    if file.exists() {
        println!("cargo:rerun-if-changed={}", file.display());
    }
}

/// Whether the sources differ from the commit; git alone knows that, and without it nothing is said.
fn are_changed(sources: &[String], workspace: &Path) -> bool {
    let mut git = Command::new("git");
    // Without the lock: a build must not come between somebody and their own git.
    git.args(["--no-optional-locks", "status", "--porcelain", "--"]).args(sources).current_dir(workspace);
    git.output().is_ok_and(|answer| answer.status.success() && !answer.stdout.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "d5f9679ad60f3b0f1a5f0f2e2c3d4b5a69788796";

    fn git_folder(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let path = folder.path().join(".git");
        (folder, path)
    }

    fn shown(files: &[(&str, &str)]) -> Option<String> {
        let (folder, _) = git_folder(files);
        folder_of(folder.path()).and_then(|git| commit(&git))
    }

    #[test]
    fn the_commit_is_found_wherever_git_keeps_it() {
        let branch = (".git/HEAD", "ref: refs/heads/main\n");
        let loose = format!("{HASH}\n");
        let packed = format!("# pack-refs with: peeled\n0000 refs/heads/other\n{HASH} refs/heads/main\n");
        for files in [
            vec![(".git/HEAD", loose.as_str())],
            vec![branch, (".git/refs/heads/main", &loose)],
            vec![branch, (".git/packed-refs", &packed)],
            vec![
                (".git", "gitdir: kept/worktrees/a\n"),
                ("kept/worktrees/a/HEAD", branch.1),
                ("kept/worktrees/a/commondir", "../..\n"),
                ("kept/refs/heads/main", &loose),
            ],
        ] {
            assert_eq!(shown(&files).as_deref(), Some("d5f9679ad6"), "{files:?}");
        }
    }

    #[test]
    fn without_a_repository_or_in_a_broken_one_there_is_no_commit() {
        for files in [
            vec![("README.md", "")],
            vec![(".git/config", "")],
            vec![(".git/HEAD", "ref: refs/heads/main\n")],
            vec![(".git/HEAD", "what is this, a hash?\n")],
            vec![(".git", "not a folder\n")],
        ] {
            assert_eq!(shown(&files), None, "{files:?}");
        }
    }
}
