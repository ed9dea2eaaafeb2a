//! The Ceph lab: real monitors and OSDs on this machine, each OSD under the allocator it is given.
//!
//! ```text
//! experiments/   one declaration a file; existing: a cluster by itself, and clusters that are not ours
//! journal_test   what a device is worth as a journal
//! paired         a round: the same load on all OSDs, what each used for its own operations
//! load/          clients: rados bench, fio, S3
//! counters  latency  sampling  written  held   looking at an OSD: perf dump, its histograms, perf, what it wrote, holds
//! gateway        object gateways of a cluster
//! found          the OSDs of any cluster on this machine
//! cluster        bringing one up; pool, osd, monitor, configuration, shape
//! settings       the lab's flags
//! other_system   Debian 11 and 13 in directories of their own; release
//! ```
//!
//! A module uses those below it, but for cluster, osd and pool, which know each other.

pub mod cluster;
pub mod existing;
pub mod experiments;
pub mod gateway;
pub mod held;
pub mod journal_test;
pub mod load;
pub mod look;
pub mod paired;
pub mod settings;
pub mod written;

use crate::engine::lab::Lab;

pub static LAB: Lab = Lab {
    name: "ceph",
    what: "real Ceph clusters, an OSD for each allocator",
    experiments: experiments::ALL,
    settings: settings::SETTINGS,
    check: settings::check,
    lives_here: existing::lives_here,
    up: existing::up,
    run: existing::run,
};
