//! The files that a unit's sandbox (systemd.exec(5)) shows to its processes, and those that they may execute.
//!
//! Owns the settings with paths in them. Of several that hold for a path the one that names most of it wins.

use super::{Unit, file};
use crate::root::Root;
use std::path::{Path, PathBuf};

/// The setting that keeps a service from a file, as it is written.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    pub by: String,
    /// It can be read, and nothing in it be executed.
    pub is_shown: bool,
}

/// Settings whose values are paths, and whether what they name is there: with a second path behind a colon the service sees
/// the first there.
const HIDING: [(&str, bool); 4] = [
    ("InaccessiblePaths", false),
    ("TemporaryFileSystem", false),
    ("BindPaths", true),
    ("BindReadOnlyPaths", true),
];
const EXECUTING: [(&str, bool); 2] = [("NoExecPaths", false), ("ExecPaths", true)];

impl Unit {
    /// The setting that keeps the service from loading a file, by its path or by the one behind its links.
    pub fn keeps_from(&self, root: &Root, path: &Path) -> Option<Kept> {
        let hidden = self.strongest(root, &HIDING, path);
        let is_elsewhere = || self.strongest(root, &EXECUTING, &root.resolve(path));
        match hidden {
            Some((by, false)) => Some(Kept { by, is_shown: false }),
            _ => match is_elsewhere() {
                Some((by, false)) => Some(Kept { by, is_shown: true }),
                _ => None,
            },
        }
    }

    /// The setting that names most of a path, and whether it gives or takes.
    fn strongest(
        &self,
        root: &Root,
        settings: &[(&'static str, bool)],
        path: &Path,
    ) -> Option<(String, bool)> {
        let mut strongest: Option<(usize, String, bool)> = None;
        for (name, gives) in settings {
            for value in self.service_settings(root, name) {
                for place in file::words(&value).iter().map(|word| place(word, name.starts_with("Bind"))) {
                    let depth = place.components().count();
                    let is_stronger = strongest.as_ref().is_none_or(|(known, ..)| depth >= *known);
                    if path.starts_with(&place) && is_stronger {
                        strongest = Some((depth, format!("{name}={}", place.display()), *gives));
                    }
                }
            }
        }
        strongest.map(|(_, by, gives)| (by, gives))
    }

    /// The folder or the image that is the root of what it starts.
    pub fn own_root(&self, root: &Root) -> Option<(&'static str, PathBuf)> {
        let set = |name| {
            let value = self.service_setting(root, name)?;
            let path = PathBuf::from(value.trim_start_matches('-'));
            (path != Path::new("/") && !path.as_os_str().is_empty()).then_some((name, path))
        };
        set("RootImage").or_else(|| set("RootDirectory"))
    }

    /// Those of these variables that it takes away again from what it starts.
    pub fn unset(&self, root: &Root, names: &[&str]) -> Vec<String> {
        let values = self.service_settings(root, "UnsetEnvironment");
        let words = values.iter().flat_map(|value| file::words(value));
        let name = |word: String| word.split('=').next().unwrap_or_default().to_string();
        words.map(name).filter(|name| names.contains(&name.as_str())).collect()
    }
}

/// The place that a word of such a setting means: `-` allows it to be missing, `+` counts from the unit's own root.
fn place(word: &str, is_bound: bool) -> PathBuf {
    let word = word.trim_start_matches(['-', '+']);
    let mut parts = word.split(':');
    let first = parts.next().unwrap_or_default();
    PathBuf::from(if is_bound {
        parts.next().filter(|to| to.starts_with('/')).unwrap_or(first)
    } else {
        first
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(settings: &str, path: &str) -> Option<Kept> {
        let text = format!("[Service]\n{settings}\n");
        let (_folder, root) = Root::with_files(&[("/etc/systemd/system/a.service", text.as_str())]);
        super::super::find(&root, "a").unwrap().keeps_from(&root, Path::new(path))
    }

    #[test]
    fn of_the_paths_that_hold_the_longest_wins() {
        let redis = "NoExecPaths=/\nExecPaths=/usr/bin/redis-server /usr/lib /lib";
        assert_eq!(kept(redis, "/usr/lib/x86_64-linux-gnu/a.so"), None);
        let elsewhere = kept(redis, "/usr/local/lib/a.so").unwrap();
        assert_eq!((elsewhere.by.as_str(), elsewhere.is_shown), ("NoExecPaths=/", true));
        let hidden = kept("TemporaryFileSystem=/usr/local:ro", "/usr/local/lib/a.so").unwrap();
        assert_eq!((hidden.by.as_str(), hidden.is_shown), ("TemporaryFileSystem=/usr/local", false));
        assert_eq!(
            kept(
                "TemporaryFileSystem=/usr/local\nBindReadOnlyPaths=/opt/x:/usr/local/lib",
                "/usr/local/lib/a.so"
            ),
            None
        );
        assert!(kept("InaccessiblePaths=-/usr/local/lib", "/usr/local/lib/a.so").is_some());
        assert_eq!(kept("InaccessiblePaths=/usr/local/lib\nInaccessiblePaths=", "/usr/local/lib/a.so"), None);
    }
}
