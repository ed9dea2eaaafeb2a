//! The allocators that a daemon can be put on, declared once each.
//!
//! Owns their names, files, packages and settings. `resolve` turns a declaration into what
//! `Program::allocator` sets, or says what to install. Labs name them in their experiments.

use super::nearest;
use super::request::NotUnderstood;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Where an allocator's library comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The C library of the system: nothing is preloaded.
    Glibc,
    /// One of these files, of this Debian package.
    Debian {
        files: &'static [&'static str],
        package: &'static str,
    },
    Ours,
}

#[derive(Debug)]
pub struct Declaration {
    /// As typed after --allocators and as printed.
    pub name: &'static str,
    pub library: Library,
    pub environment: &'static [(&'static str, &'static str)],
    pub what: &'static str,
}

const TCMALLOC: Library = Library::Debian {
    files: &["libtcmalloc.so.4", "libtcmalloc_minimal.so.4"],
    package: "libtcmalloc-minimal4",
};
const JEMALLOC: Library = Library::Debian { files: &["libjemalloc.so.2"], package: "libjemalloc2" };
const MIMALLOC: Library = Library::Debian {
    files: &["libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so.2.1", "libmimalloc.so.3"],
    package: "libmimalloc2.0",
};
const TCMALLOC_BOUND: &str = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES";

pub static ALLOCATORS: &[Declaration] = &[
    Declaration { name: "glibc", library: Library::Glibc, environment: &[], what: "the C library's malloc" },
    Declaration { name: "jemalloc", library: JEMALLOC, environment: &[], what: "jemalloc as packaged" },
    Declaration {
        name: "tcmalloc",
        library: TCMALLOC,
        environment: &[],
        what: "gperftools' TCMalloc with thread caches of 32 MiB together, the library's default",
    },
    Declaration {
        name: "tcmalloc-1M",
        library: TCMALLOC,
        environment: &[(TCMALLOC_BOUND, "1048576")],
        what: "TCMalloc with thread caches of 1 MiB together: starved, as in 2015",
    },
    Declaration {
        name: "tcmalloc-128M",
        library: TCMALLOC,
        environment: &[(TCMALLOC_BOUND, "134217728")],
        what: "TCMalloc with thread caches of 128 MiB together, which Ceph's packages set in /etc/default/ceph",
    },
    Declaration { name: "mimalloc", library: MIMALLOC, environment: &[], what: "mimalloc as packaged" },
    Declaration { name: "vcmalloc", library: Library::Ours, environment: &[], what: "vcmalloc" },
    Declaration {
        name: "vcmalloc-1M",
        library: Library::Ours,
        environment: &[("VCM_CACHE_LIMIT", "1M")],
        what: "vcmalloc with caches of 1 MiB together",
    },
];

/// An allocator on this machine, ready to be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Allocator {
    pub name: &'static str,
    /// As the daemon will see it; none for glibc.
    pub library: Option<PathBuf>,
    pub settings: Vec<(String, String)>,
}

impl Allocator {
    /// What puts a program on it.
    pub fn environment(&self) -> Vec<(String, String)> {
        let preload = self.library.iter().map(|path| ("LD_PRELOAD".to_owned(), path.display().to_string()));
        preload.chain(self.settings.iter().cloned()).collect()
    }
}

/// The declaration of this name, or an error that suggests one.
pub fn named(name: &str) -> Result<&'static Declaration, NotUnderstood> {
    if let Some(found) = ALLOCATORS.iter().find(|allocator| allocator.name == name) {
        return Ok(found);
    }
    let names = ALLOCATORS.iter().map(|allocator| allocator.name);
    Err(NotUnderstood(format!("there is no allocator '{name}'{}", nearest::suggestion(name, names))))
}

/// Finds the library's file below `root` (another system, for a chroot) or on this system. None: its package
/// is missing. `ours` is libvcmalloc.so, or the stand-in for TCMalloc where the daemon links that.
pub fn resolve(declaration: &Declaration, root: Option<&Path>, ours: &Path) -> Option<Allocator> {
    let library = match declaration.library {
        Library::Glibc => None,
        Library::Ours => Some(ours.to_owned()),
        Library::Debian { files, .. } => Some(find(files, root)?),
    };
    let settings = declaration.environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Some(Allocator { name: declaration.name, library, settings: settings.collect() })
}

/// The path as a program inside `root` sees it.
fn find(files: &[&str], root: Option<&Path>) -> Option<PathBuf> {
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
    let folders = [format!("/usr/lib/{multiarch}")].into_iter().chain(folders.map(str::to_owned));
    for folder in folders {
        for file in files {
            let seen = Path::new(&folder).join(file);
            let outside =
                root.map_or_else(|| seen.clone(), |root| root.join(seen.strip_prefix("/").unwrap_or(&seen)));
            if outside.exists() {
                return Some(seen);
            }
        }
    }
    None
}

/// The package that has it.
pub fn package(declaration: &Declaration) -> Option<&'static str> {
    match declaration.library {
        Library::Debian { package, .. } => Some(package),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_allocator_suggests_the_nearest() {
        let error = named("jemaloc").unwrap_err().to_string();
        assert!(error.contains("'jemaloc'") && error.contains("jemalloc"), "{error}");
    }

    #[test]
    fn a_library_in_a_chroot_is_named_as_seen_from_inside() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/lib64");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libjemalloc.so.2"), "").unwrap();
        let jemalloc = resolve(named("jemalloc").unwrap(), Some(root.path()), Path::new("/ours.so")).unwrap();
        assert_eq!(jemalloc.library.as_deref(), Some(Path::new("/usr/lib64/libjemalloc.so.2")));
        assert!(resolve(named("mimalloc").unwrap(), Some(root.path()), Path::new("/ours.so")).is_none());
    }

    #[test]
    fn settings_come_with_the_library() {
        let starved = resolve(named("vcmalloc-1M").unwrap(), None, Path::new("/ours.so")).unwrap();
        let environment = starved.environment();
        assert!(environment.contains(&("LD_PRELOAD".into(), "/ours.so".into())));
        assert!(environment.contains(&("VCM_CACHE_LIMIT".into(), "1M".into())));
    }
}
