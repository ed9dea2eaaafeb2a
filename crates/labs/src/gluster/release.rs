//! The release of GlusterFS: the system's own, or that of another Debian in a directory of its own.
//!
//! Owns what is known of each release, and the directory in which a cluster sees one. `cluster` calls it.

use crate::engine::other_system::{self, Wanted, own_suite};
use crate::engine::request::Request;
use crate::engine::session::Session;
use crate::engine::understood;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use vcm_measure::allocators::Ready;

/// As typed, and the Debian that has it.
const RELEASES: [(&str, &str); 3] = [("10.3", "bookworm"), ("11.1", "trixie"), ("11.2", "sid")];
pub const NUMBERS: [&str; 3] = [RELEASES[0].0, RELEASES[1].0, RELEASES[2].0];

/// The helpers are compiled beside the daemons, with the headers of their version.
const PACKAGES: [&str; 6] =
    ["glusterfs-server", "glusterfs-client", "libglusterfs-dev", "gcc", "libc6-dev", "libjemalloc2"];

/// Peers whose packages have other names in newer Debians.
fn peers(suite: &str) -> [&'static str; 2] {
    match suite {
        "bookworm" => ["libmimalloc2.0", "libtcmalloc-minimal4"],
        _ => ["libmimalloc3", "libtcmalloc-minimal4t64"],
    }
}

/// The other Debian of `--release`.
pub fn debians(request: &Request) -> Vec<&'static str> {
    let asked = request.settings.get("release");
    let suites = RELEASES.iter().filter(|(number, _)| asked.is_some_and(|asked| asked == number));
    suites.map(|(_, suite)| *suite).filter(|suite| own_suite().as_deref() != Some(*suite)).collect()
}

/// The system that the release asked for lives in, made and in the cache; none where it is this machine's own.
pub fn provide(session: &Session) -> Result<Option<PathBuf>> {
    let Some(asked) = session.setting("release") else { return Ok(None) };
    let found = RELEASES.iter().find(|(number, _)| *number == asked);
    let (number, suite) = *found.with_context(|| format!("no release {asked}"))?;
    if own_suite().as_deref() == Some(suite) {
        return Ok(None);
    }
    let packages = [&PACKAGES[..], &peers(suite)].concat();
    let wanted =
        Wanted { product: "GlusterFS", number, suite, daemon: "glusterfs-server", packages: &packages };
    wanted.provide(session).map(Some)
}

/// Shows the system to a cluster in `directory`, which is seen there by the same name.
pub fn enter(session: &Session, system: &Path, directory: &Path) -> Result<PathBuf> {
    let (root, layers) = (directory.with_extension("root"), directory.with_extension("layers"));
    session.make_directory(&root)?;
    session.make_directory(&layers)?;
    other_system::enter(session, system, &root, &layers, directory)?;
    // Only in the overlay: glusterd finds its directories.
    for folder in ["run/gluster", "var/lib/glusterd"] {
        let place = root.join(folder);
        std::fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    }
    Ok(root)
}

/// An allocator for bricks that live below `root`: of that Debian, but for ours, which is brought in.
pub fn allocator(session: &Session, root: &Path, directory: &Path, name: &str) -> Result<Ready> {
    if !understood::allocator(name)?.is_ours() {
        return session.allocator_in(name, Some(root), None);
    }
    let source = session.library()?;
    let inside = directory.join(source.file_name().unwrap_or_default());
    std::fs::copy(source, &inside).with_context(|| format!("cannot copy {}", source.display()))?;
    session.allocator_in(name, Some(root), Some(&inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_that_may_be_typed_has_a_debian() {
        assert_eq!(NUMBERS.len(), RELEASES.len());
        assert!(NUMBERS.iter().zip(RELEASES).all(|(number, (of, suite))| *number == of && !suite.is_empty()));
    }
}
