//! One OSD: its process, its allocator, and the proof that it runs on it.
//!
//! Owns which library an OSD of each release is given. `cluster` starts and ends OSDs; `counters` looks at
//! them.

use super::Cluster;
use crate::ceph::look::sampling::Looked;
use crate::engine::process::Process;
use crate::engine::session::Session;
use crate::engine::understood;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use vcm_inspect::ceph::socket::{LONG, Question, ask};
use vcm_measure::allocators::Ready;

pub struct Osd {
    pub number: usize,
    pub process: Process,
    pub allocator: Ready,
    pub socket: PathBuf,
}

impl Osd {
    pub fn is_active(&self) -> bool {
        ask(&self.socket, Question::Status, LONG).is_ok_and(|status| status["state"] == "active")
    }

    /// For perf: whose library counts as the allocator.
    pub fn looked_at(&self, root: Option<&Path>) -> Looked {
        let library = self.allocator.library.as_ref().filter(|path| !path.to_string_lossy().contains(':'));
        let name = library.map(|path| real_name(path, root).trim_start_matches('/').to_owned());
        Looked { pid: self.process.pid(), library: name }
    }

    /// What was preloaded is mapped; a loader that could not take it says so only in its log and goes on
    /// without.
    pub fn prove_allocator(&self, root: Option<&Path>) -> Result<()> {
        let Some(library) = &self.allocator.library else { return Ok(()) };
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process.pid()))?;
        for path in library.to_string_lossy().split(':') {
            if !maps.contains(path) && !maps.contains(&real_name(Path::new(path), root)) {
                let log = fs::read_to_string(&self.process.log).unwrap_or_default();
                let said =
                    log.lines().find(|line| line.contains("ld.so")).unwrap_or("its log does not say why");
                bail!("osd.{} does not run on {}: {said}", self.number, self.allocator.name());
            }
        }
        Ok(())
    }
}

/// The name of the file that a path leads to, below `root` if the daemon lives there: /proc/PID/maps shows
/// that one.
fn real_name(path: &Path, root: Option<&Path>) -> String {
    let outside = match root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    };
    let real = outside.canonicalize().unwrap_or(outside);
    format!("/{}", real.file_name().unwrap_or_default().to_string_lossy())
}

/// An allocator for this cluster's OSDs.
pub fn allocator(session: &Session, cluster: &Cluster, name: &str) -> Result<Ready> {
    let Some(root) = cluster.root.as_deref() else { return session.allocator(name) };
    let ours = match understood::allocator(name)?.is_ours() {
        true => Some(bring_in(session, cluster)?),
        false => None,
    };
    let allocator = session.allocator_in(name, Some(root), ours.as_deref())?;
    if allocator.library.is_none() && cluster.shape.release.links_tcmalloc() {
        return glibc_before_tcmalloc(root, allocator);
    }
    Ok(allocator)
}

/// Puts our library where the other system sees it.
fn bring_in(session: &Session, cluster: &Cluster) -> Result<PathBuf> {
    let source = match cluster.shape.release.links_tcmalloc() {
        true => session.stand_in()?,
        false => session.library()?,
    };
    let inside = cluster.directory.join("lib").join(source.file_name().unwrap_or_default());
    if !inside.exists() {
        fs::copy(source, &inside).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok(inside)
}

/// The daemon is linked with TCMalloc; whoever comes first in the search order is called, so the system's own
/// libraries are put first.
fn glibc_before_tcmalloc(root: &Path, glibc: Ready) -> Result<Ready> {
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let find = |name: &str| {
        let places = [format!("/lib/{multiarch}/{name}"), format!("/usr/lib/{multiarch}/{name}")];
        places.into_iter().find(|path| root.join(&path[1..]).exists()).with_context(|| format!("no {name}"))
    };
    let both = format!("{}:{}", find("libstdc++.so.6")?, find("libc.so.6")?);
    Ok(Ready { library: Some(PathBuf::from(both)), ..glibc })
}
