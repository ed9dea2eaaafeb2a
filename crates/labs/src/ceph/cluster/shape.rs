//! The kind of cluster that an experiment wants.
//!
//! Owns the words for it and their defaults. Experiments fill it in; `cluster` and `configuration` read it.

use super::release::Release;
pub use super::store::Store;
use anyhow::{Result, bail};

/// The place of the OSDs' journals (FileStore), or of their databases (BlueStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalPlace {
    /// Beside the data.
    Same,
    /// In memory: as good as a journal device can get.
    Memory,
    /// A block device of its own on the same disk.
    Loop,
}

impl JournalPlace {
    pub fn of(name: &str) -> Result<JournalPlace> {
        match name {
            "same" => Ok(JournalPlace::Same),
            "tmpfs" => Ok(JournalPlace::Memory),
            "loop" => Ok(JournalPlace::Loop),
            _ => bail!("no journal place '{name}'; use same, tmpfs or loop"),
        }
    }
}

const LEAST_GROUPS: usize = 64;
/// One placement group more or less is 2.5 percent, if not every OSD can have as many as the next.
const MANY_GROUPS: usize = 40;

#[derive(Clone, Debug)]
pub struct Shape {
    /// None: the one that was asked for, which is this machine's own unless something else was.
    pub release: Option<Release>,
    /// Packages of the release that it needs beside those of monitor and OSDs.
    pub programs: &'static [&'static str],
    pub store: Store,
    pub osds: usize,
    /// Copies of an object.
    pub copies: usize,
    /// A power of two, as otherwise some have twice the objects of others.
    pub placement_groups: usize,
    /// Gives every OSD as good as the same number of placement groups. Left to itself, one of eight has twice the
    /// operations of another, and the busier one looks cheaper by a tenth: half of what a BlueStore OSD under load
    /// takes does not grow with its operations.
    pub level: bool,
    pub journal: JournalPlace,
    pub journal_mib: u64,
    pub disk_gib: u64,
    /// The last so many OSDs have their stores in memory, as on a faster device (BlueStore). Other pools than that of
    /// the load then lie on the OSDs that their contents ask for: `pool::rule`.
    pub in_memory: usize,
    /// Pools of metadata lie on those, not beside the data.
    pub metadata_in_memory: bool,
    /// OSDs whose stores are on disk read and write at most so often a second each, as slower disks would let them.
    pub disk_operations: Option<u64>,
    /// A block image of this size in the pool; 0: none.
    pub image_mib: u64,
    /// With keys, as the object gateway needs.
    pub keys: bool,
    /// Daemons log as they do by default; otherwise not at all.
    pub default_debug: bool,
    /// Lines for `[global]` and `[osd]`.
    pub global_settings: Vec<String>,
    pub osd_settings: Vec<String>,
}

impl Shape {
    pub fn of(store: Store, osds: usize) -> Shape {
        Shape {
            release: None,
            programs: &[],
            store,
            osds,
            copies: 1,
            placement_groups: LEAST_GROUPS,
            level: false,
            journal: JournalPlace::Same,
            journal_mib: 512,
            disk_gib: 8,
            in_memory: 0,
            metadata_in_memory: false,
            disk_operations: None,
            image_mib: 0,
            keys: false,
            default_debug: false,
            global_settings: Vec::new(),
            osd_settings: Vec::new(),
        }
    }

    pub fn release(self, release: Release) -> Shape {
        Shape { release: Some(release), ..self }
    }

    pub fn programs(self, programs: &'static [&'static str]) -> Shape {
        Shape { programs, ..self }
    }

    pub fn copies(self, copies: usize) -> Shape {
        Shape { copies, ..self }
    }

    pub fn level(self) -> Shape {
        let groups = (LEAST_GROUPS..).filter(|groups| groups.is_power_of_two());
        let mut level = groups.filter(|groups| groups % self.osds == 0 || groups / self.osds >= MANY_GROUPS);
        Shape { level: true, placement_groups: level.next().unwrap_or(LEAST_GROUPS), ..self }
    }

    pub fn image(self, mib: u64) -> Shape {
        Shape { image_mib: mib, ..self }
    }

    pub fn journal(self, place: JournalPlace, mib: u64) -> Shape {
        Shape { journal: place, journal_mib: mib, ..self }
    }

    pub fn in_memory(self, osds: usize, metadata: bool) -> Shape {
        Shape { in_memory: osds, metadata_in_memory: metadata, ..self }
    }

    pub fn slow_disks(self, operations: u64) -> Shape {
        Shape { disk_operations: Some(operations), ..self }
    }

    pub fn keys(self) -> Shape {
        Shape { keys: true, ..self }
    }

    /// About what it writes to the disk of the run's directory: the monitor's store, and for each OSD what a lab's
    /// loads leave in its store.
    pub fn disk_mib(&self) -> u64 {
        const MONITOR: u64 = 150;
        const LOGS: u64 = 4;
        let (osds, copies) = ((self.osds - self.in_memory) as u64, self.copies as u64);
        let journals = match self.journal {
            JournalPlace::Memory => 0,
            _ => self.journal_mib,
        };
        let each = match self.store {
            Store::Memstore => LOGS,
            Store::Bluestore if self.journal == JournalPlace::Loop => LOGS + 200 + journals,
            Store::Bluestore | Store::Kstore => LOGS + 300,
            Store::Filestore => LOGS + 200 + journals,
        };
        let image = if self.store == Store::Memstore { 0 } else { self.image_mib * copies };
        MONITOR + osds * each + image
    }

    pub fn global(mut self, line: &str) -> Shape {
        self.global_settings.push(line.to_owned());
        self
    }

    pub fn osd(mut self, line: &str) -> Shape {
        self.osd_settings.push(line.to_owned());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_osds_differ_by_at_most_one_placement_group_in_forty() {
        let groups = [1, 3, 4, 5, 6, 8, 10, 32].map(|osds| {
            let groups = Shape::of(Store::Memstore, osds).level().placement_groups;
            assert!(groups.is_power_of_two(), "{groups}");
            groups
        });
        assert_eq!(groups, [64, 128, 64, 256, 256, 64, 512, 64]);
    }
}
