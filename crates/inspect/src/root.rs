//! The place of the machine's files: the real root, or a folder that holds another machine's /proc, /sys and
//! /etc.
//!
//! Owns the translation of paths. Everything that `vcm doctor` and `vcm enable` look at is asked for
//! through a root, so a folder can stand in for a machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    pub fn real() -> Self {
        Root(PathBuf::from("/"))
    }

    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Root(folder.into())
    }

    /// The machine we run on.
    pub fn is_real(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Our path of what the machine calls `path`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A small text file without the blanks around it; none if it cannot be read.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        vcm_foreign::file::text(&self.path(path)).ok().map(|text| text.trim().to_string())
    }

    pub fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The machine's own path of what `path` leads to: symbolic links are followed inside the root, also
    /// absolute ones. The part behind the first name that is not there stays as it is.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        // As many links as the kernel follows.
        const MOST_LINKS: usize = 40;
        let words = |path: &Path| -> Vec<OsString> {
            let names =
                path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
            names.map(|part| part.as_os_str().to_os_string()).rev().collect()
        };
        let mut open = words(path.as_ref());
        let mut done = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = open.pop() {
            if name == ".." {
                done.pop();
                continue;
            }
            done.push(&name);
            if links < MOST_LINKS
                && let Ok(target) = fs::read_link(self.path(&done))
            {
                links += 1;
                done.pop();
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                open.extend(words(&target));
            }
        }
        done
    }
}

/// For tests: a folder becomes a machine.
#[cfg(any(test, feature = "testing"))]
impl Root {
    /// A machine with these files; it is there as long as the folder is.
    pub fn with_files(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        files.iter().for_each(|(path, text)| root.write(path, text));
        (folder, root)
    }

    pub fn write(&self, path: &str, text: &str) {
        fs::write(self.made(path), text).unwrap();
    }

    /// A symbolic link in the place of what was at `path`.
    pub fn link(&self, target: &str, path: &str) {
        let path = self.made(path);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// The path, in a folder that exists.
    fn made(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_links_stay_inside_the_root() {
        let (_folder, root) = Root::with_files(&[]);
        root.link("/dev/sdb1", "/a/b/journal");
        root.link("b/journal", "/a/short");
        root.link("../a", "/a/b/up");
        assert_eq!(root.resolve("/a/short"), Path::new("/dev/sdb1"));
        assert_eq!(root.resolve("/a/b/up/../none"), Path::new("/a/none"));
        root.link("loop", "/loop");
        assert_eq!(root.resolve("/loop"), Path::new("/loop"));
    }
}
