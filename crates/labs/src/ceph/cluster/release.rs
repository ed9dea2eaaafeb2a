//! Which Ceph: the system's own, or that of another Debian in a directory of its own.
//!
//! Owns what is known of each release. `other_system` makes the directories, `configuration` and `cluster`
//! ask for the differences.

use crate::engine::experiment::Package;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 16.2, this system's (Debian 12): linked with no allocator.
    Pacific,
    /// 14.2 of Debian 11: linked with TCMalloc; still has the messenger with two threads a connection.
    Nautilus,
    /// 18.2 of Debian 13: linked with TCMalloc; no FileStore.
    Reef,
}

impl Release {
    pub const NUMBERS: [&str; 3] = ["14.2", "16.2", "18.2"];

    pub fn of(number: &str) -> Option<Release> {
        match number {
            "16.2" => Some(Release::Pacific),
            "14.2" => Some(Release::Nautilus),
            "18.2" => Some(Release::Reef),
            _ => None,
        }
    }

    pub fn number(self) -> &'static str {
        match self {
            Release::Pacific => "16.2",
            Release::Nautilus => "14.2",
            Release::Reef => "18.2",
        }
    }

    /// The Debian release that has it; none: this system's own.
    pub fn suite(self) -> Option<&'static str> {
        match self {
            Release::Pacific => None,
            Release::Nautilus => Some("bullseye"),
            Release::Reef => Some("trixie"),
        }
    }

    /// Whether its daemons are linked with libtcmalloc.so.4.
    pub fn links_tcmalloc(self) -> bool {
        self != Release::Pacific
    }

    /// 14.2 takes a pool of one copy without being told twice, and refuses the words that say so.
    pub fn asks_twice_for_one_copy(self) -> bool {
        self != Release::Nautilus
    }
}

/// What every experiment on this system's Ceph needs.
pub const CLUSTER_PACKAGES: [Package; 4] = [
    Package { name: "ceph-mon", why: "the cluster's monitor" },
    Package { name: "ceph-osd", why: "the daemon that is measured" },
    Package { name: "ceph-common", why: "ceph and rados, which steer and load the cluster" },
    Package { name: "linux-perf", why: "where the daemon's processor time goes" },
];

pub const FIO: Package =
    Package { name: "fio", why: "random reads and writes of an image, a file or a device" };

pub const CLUSTER_PACKAGES_AND_FIO: [Package; 5] =
    [CLUSTER_PACKAGES[0], CLUSTER_PACKAGES[1], CLUSTER_PACKAGES[2], CLUSTER_PACKAGES[3], FIO];

pub const GATEWAY_PACKAGES: [Package; 6] = [
    CLUSTER_PACKAGES[0],
    CLUSTER_PACKAGES[1],
    CLUSTER_PACKAGES[2],
    CLUSTER_PACKAGES[3],
    Package { name: "radosgw", why: "the object gateway" },
    Package { name: "python3-boto3", why: "the S3 client" },
];

/// What is installed below another system's directory.
pub const OTHER_SYSTEM_PACKAGES: [&str; 5] =
    ["ceph-mon", "ceph-mgr", "ceph-osd", "ceph-common", "libjemalloc2"];
