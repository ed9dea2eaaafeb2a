//! One OSD: its process, its allocator, and the proof that it runs on it.
//!
//! `up` starts OSDs; `counters` looks at them.

use crate::ceph::look::sampling::Looked;
use crate::engine::process::Process;
use anyhow::{Result, bail};
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

    /// Proves that the preloaded library is mapped; a loader that could not take it says so only in its log and
    /// goes on without.
    pub fn prove_allocator(&self, root: Option<&Path>) -> Result<()> {
        prove_allocator(&format!("osd.{}", self.number), &self.process, &self.allocator, root)
    }
}

/// Of any daemon.
pub fn prove_allocator(who: &str, process: &Process, allocator: &Ready, root: Option<&Path>) -> Result<()> {
    let Some(library) = &allocator.library else { return Ok(()) };
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid()))?;
    for path in library.to_string_lossy().split(':') {
        if !maps.contains(path) && !maps.contains(&real_name(Path::new(path), root)) {
            let log = fs::read_to_string(&process.log).unwrap_or_default();
            let said = log.lines().find(|line| line.contains("ld.so")).unwrap_or("its log does not say why");
            bail!("{who} does not run on {}: {said}", allocator.name());
        }
    }
    Ok(())
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
