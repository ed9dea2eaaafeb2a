//! The release of Ceph: the system's own, or that of another Debian in a directory of its own.
//!
//! Owns what is known of each release. `engine::other_system` makes the directories, `configuration` and `cluster`
//! ask for the differences.

use super::store::Store;
use crate::engine::experiment::Package;
use crate::engine::other_system::own_suite;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 14.2 of Debian 11: linked with TCMalloc; still has the messenger with two threads a connection.
    Nautilus,
    /// 16.2 of Debian 12: linked with no allocator.
    Pacific,
    /// 18.2 of Debian 13: linked with TCMalloc; no FileStore.
    Reef,
    /// 20.2 of Debian sid, the release that Debian is working on: linked with TCMalloc; neither FileStore nor KStore.
    Tentacle,
}

impl Release {
    pub const NUMBERS: [&str; 4] = ["14.2", "16.2", "18.2", "20.2"];
    const ALL: [Release; 4] = [Release::Nautilus, Release::Pacific, Release::Reef, Release::Tentacle];

    pub fn of(number: &str) -> Option<Release> {
        Self::ALL.into_iter().find(|release| release.number() == number)
    }

    /// This machine's own; Debian 12's where the machine is none of these.
    pub fn own() -> Release {
        Self::of_suite(own_suite().as_deref())
    }

    fn of_suite(suite: Option<&str>) -> Release {
        Self::ALL.into_iter().find(|release| Some(release.suite()) == suite).unwrap_or(Release::Pacific)
    }

    pub fn number(self) -> &'static str {
        Self::NUMBERS[self as usize]
    }

    /// The Debian release that has it.
    pub fn suite(self) -> &'static str {
        ["bullseye", "bookworm", "trixie", "sid"][self as usize]
    }

    /// Whether its daemons are linked with libtcmalloc.so.4.
    pub fn links_tcmalloc(self) -> bool {
        self != Release::Pacific
    }

    pub fn has(self, store: Store) -> bool {
        match store {
            Store::Memstore | Store::Bluestore => true,
            Store::Filestore => matches!(self, Release::Nautilus | Release::Pacific),
            Store::Kstore => self != Release::Tentacle,
        }
    }

    /// 14.2 takes a pool of one copy without being told twice, and refuses the words that say so.
    pub fn asks_twice_for_one_copy(self) -> bool {
        self != Release::Nautilus
    }

    /// The packages that are installed below another system's directory.
    pub fn packages(self) -> Vec<&'static str> {
        let always = ["ceph-mon", "ceph-mgr", "ceph-osd", "ceph-common", "libjemalloc2"];
        // Debian 11 has none.
        let mimalloc = match self {
            Release::Nautilus => None,
            Release::Pacific => Some("libmimalloc2.0"),
            Release::Reef | Release::Tentacle => Some("libmimalloc3"),
        };
        always.into_iter().chain(mimalloc).collect()
    }
}

/// The packages that every experiment on this system's Ceph needs.
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

pub const FILE_SYSTEM_PACKAGES: [Package; 5] = [
    CLUSTER_PACKAGES[0],
    CLUSTER_PACKAGES[1],
    CLUSTER_PACKAGES[2],
    Package { name: "ceph-mds", why: "the metadata server" },
    Package { name: "python3-cephfs", why: "the client of CephFS" },
];

pub const METADATA_PACKAGES: [Package; 7] = [
    FILE_SYSTEM_PACKAGES[0],
    FILE_SYSTEM_PACKAGES[1],
    FILE_SYSTEM_PACKAGES[2],
    FILE_SYSTEM_PACKAGES[3],
    FILE_SYSTEM_PACKAGES[4],
    GATEWAY_PACKAGES[4],
    GATEWAY_PACKAGES[5],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_a_number_a_debian_and_an_answer_for_every_store() {
        for (release, number, suite, stores) in [
            (Release::Nautilus, "14.2", "bullseye", 4),
            (Release::Pacific, "16.2", "bookworm", 4),
            (Release::Reef, "18.2", "trixie", 3),
            (Release::Tentacle, "20.2", "sid", 2),
        ] {
            assert_eq!((release.number(), release.suite()), (number, suite));
            assert_eq!((Release::of(number), Release::of_suite(Some(suite))), (Some(release), release));
            let has = Store::NAMES.iter().filter(|name| release.has(Store::of(name).unwrap()));
            assert_eq!(has.count(), stores, "{number}");
        }
        assert_eq!(Release::of("15.2"), None);
        assert_eq!(Release::of_suite(Some("noble")), Release::Pacific);
    }
}
