//! The Ceph lab: real monitors and OSDs on this machine, each OSD under the allocator it is given.
//!
//! ```text
//! experiments/   one declaration a file
//! paired         a round: the same load on all OSDs, what each used for its own operations
//! load/          clients: rados bench, fio
//! counters  latency  sampling      looking at an OSD: perf dump, its histograms, perf
//! cluster        bringing one up; pool, osd, monitor, admin_socket, configuration, shape
//! other_system   Debian 11 and 13 in directories of their own; release
//! ```
//!
//! A module uses those below it.

pub mod admin_socket;
pub mod cluster;
pub mod configuration;
pub mod counters;
pub mod experiments;
pub mod gateway;
pub mod journal_test;
pub mod latency;
pub mod load;
pub mod monitor;
pub mod osd;
pub mod other_system;
pub mod paired;
pub mod pool;
pub mod release;
pub mod sampling;
pub mod shape;
pub mod written;

use crate::engine::lab::{Lab, Setting};
use crate::engine::session::Session;
use anyhow::{Result, bail};

pub static LAB: Lab = Lab {
    name: "ceph",
    what: "real Ceph clusters, an OSD for each allocator",
    experiments: experiments::ALL,
    settings: &[] as &[Setting],
    up,
    run,
};

fn up(_: &Session) -> Result<()> {
    bail!("not yet: run an experiment")
}

fn run(_: &Session) -> Result<()> {
    bail!("not yet: run an experiment")
}
