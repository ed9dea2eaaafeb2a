//! The Ceph lab: real monitors and OSDs on this machine, each OSD under the allocator it is given.
//!
//! ```text
//! experiments/   one declaration a file; existing: a cluster by itself, and clusters that are not ours
//! journal_test   what a device is worth as a journal
//! written  held  what the OSDs of a cluster wrote and hold
//! paired         a round: the same load on all OSDs, what each used for its own operations
//! load/          clients: rados bench, fio, S3, CephFS; gateway, file_system: object gateways and metadata
//!                servers of a cluster
//! settings       the lab's flags
//! cluster/       a cluster, what it is made of, and what brings it up
//! look/          at one daemon of any cluster: counters, latency, sampling; found: the OSDs on this machine
//! ```
//!
//! A module uses those below it; tests/layers_of_tools.rs has the order of the files.

pub mod cluster;
pub mod existing;
pub mod experiments;
pub mod file_system;
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
    debians: settings::debians,
    lives_here: existing::lives_here,
    elsewhere: Some("conf"),
    up: existing::up,
    run: existing::run,
};
