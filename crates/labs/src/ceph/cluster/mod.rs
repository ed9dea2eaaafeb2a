//! A Ceph cluster of our own: one monitor and OSDs, each under the allocator it is given.
//!
//! ```text
//! up            brings one up
//! pool          what the load goes to     library   which library an OSD of each release is given
//! Cluster       (this file) what is up: its directory, its client, its OSDs
//! osd  monitor  configuration  shape  release  store
//! ```
//!
//! A file uses those below it. Everything that is started or made is in the run's journal first, on loopback and below
//! the run's directory; ending it is the journal's work.

pub mod configuration;
pub mod library;
pub mod monitor;
pub mod osd;
pub mod pool;
pub mod release;
pub mod shape;
pub mod store;
pub mod up;

use crate::engine::process::Program;
use crate::engine::session::Session;
use anyhow::Result;
use monitor::Client;
use osd::Osd;
use release::Release;
use rustix::process::Signal;
use shape::Shape;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct Cluster {
    pub shape: Shape,
    pub release: Release,
    pub directory: PathBuf,
    pub client: Client,
    /// The other system that the daemons live in.
    pub root: Option<PathBuf>,
    osds: Mutex<Vec<Osd>>,
    /// Copies in the pool as `up` left it; 0 once something was written to it. See `pool::fresh`.
    pub fresh_copies: AtomicUsize,
    /// Outlives this value.
    kept: bool,
}

impl Cluster {
    /// A program of the cluster's release, in its system.
    pub fn program<'a>(&self, session: &'a Session, program: &str) -> Program<'a> {
        session.command(program).root(self.root.as_deref()).env("CEPH_CONF", &self.client.conf)
    }

    fn daemon<'a>(&self, session: &'a Session, program: &str) -> Program<'a> {
        self.program(session, program).arg("-c").arg(&self.client.conf)
    }

    pub fn socket(&self, daemon: &str) -> PathBuf {
        self.directory.join(format!("run/{daemon}.asok"))
    }

    pub fn osds(&self) -> MutexGuard<'_, Vec<Osd>> {
        self.osds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every OSD is there and still the process that was started.
    pub fn check(&self) -> Result<()> {
        self.osds().iter().try_for_each(|osd| osd.process.check())
    }

    /// From now on it outlives this value.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Ends the OSDs at once: their data is thrown away, so nobody need be asked politely. The rest of the
    /// journal is then quick.
    fn kill(&self) {
        for osd in self.osds().iter() {
            osd.process.identity.signal(Signal::KILL);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.kept {
            self.kill();
        }
    }
}
