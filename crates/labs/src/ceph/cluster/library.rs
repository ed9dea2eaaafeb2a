//! The library that an OSD of each release is given.

use super::Cluster;
use crate::engine::session::Session;
use crate::engine::understood;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use vcm_measure::allocators::Ready;

impl Cluster {
    /// An allocator as this cluster's daemons see it.
    pub fn allocator(&self, session: &Session, name: &str) -> Result<Ready> {
        allocator(session, self, name)
    }
}

/// An allocator for this cluster's OSDs.
fn allocator(session: &Session, cluster: &Cluster, name: &str) -> Result<Ready> {
    let Some(root) = cluster.root.as_deref() else { return session.allocator(name) };
    let ours = match understood::allocator(name)?.is_ours() {
        true => Some(bring_in(session, cluster)?),
        false => None,
    };
    let allocator = session.allocator_in(name, Some(root), ours.as_deref())?;
    if allocator.library.is_none() && cluster.release.links_tcmalloc() {
        return glibc_before_tcmalloc(root, allocator);
    }
    Ok(allocator)
}

/// Puts our library where the other system sees it.
fn bring_in(session: &Session, cluster: &Cluster) -> Result<PathBuf> {
    let source = match cluster.release.links_tcmalloc() {
        true => session.stand_in()?,
        false => session.library()?,
    };
    let inside = cluster.directory.join("lib").join(source.file_name().unwrap_or_default());
    if !inside.exists() {
        fs::copy(source, &inside).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok(inside)
}

/// The daemon is linked with TCMalloc; the library that comes first in the search order is called, so the
/// system's own libraries are put first.
fn glibc_before_tcmalloc(root: &Path, glibc: Ready) -> Result<Ready> {
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let find = |name: &str| {
        let places = [format!("/lib/{multiarch}/{name}"), format!("/usr/lib/{multiarch}/{name}")];
        places.into_iter().find(|path| root.join(&path[1..]).exists()).with_context(|| format!("no {name}"))
    };
    let both = format!("{}:{}", find("libstdc++.so.6")?, find("libc.so.6")?);
    Ok(Ready { library: Some(PathBuf::from(both)), ..glibc })
}
