//! BlueStore's database on a turning disk.

use super::journal_place::data_folder;
use crate::inspect::block;
use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, osd};
use crate::verbs::doctor::survey::{Daemon, Survey};

pub const CHECK: Check = Check {
    id: "database-place",
    severity: Severity::Note,
    looks_for: "a BlueStore OSD on a turning disk without block.db on flash",
    test: Test::Each(osd, test),
    why: "BlueStore's metadata and small writes go through RocksDB. On a turning disk they seek against \
          the data; on flash they cost next to nothing. It is the journal question of today.",
    source: Source {
        name: "Ceph, BlueStore Config Reference, Devices",
        url: "https://docs.ceph.com/en/latest/rados/configuration/bluestore-config-ref/#devices",
    },
};

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let folder = data_folder(daemon);
    let is_there = |name: &str| daemon.process.as_seen_by_it(&folder.join(name)).symlink_metadata().is_ok();
    if !is_there("block") {
        return Verdict::Fine;
    }
    let turns = |name: &str| block::place_of(&survey.root, &daemon.process, &folder.join(name)).rotational;
    let database = if is_there("block.db") { "block.db" } else { "block" };
    match turns(database) {
        Some(true) => Verdict::found(
            format!("{} and with it the database is on a turning disk", folder.join(database).display()),
            &[
                format!("sudo systemctl stop {}", daemon.service()),
                format!(
                    "sudo ceph-volume lvm new-db --osd-id {} --osd-fsid FSID --target VG/LV",
                    daemon.ceph_id()
                ),
            ],
        ),
        _ => Verdict::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn a_database_on_a_turning_disk_is_noted_until_it_is_on_flash() {
        let fake = Fake::new();
        fake.osd();
        fake.assert_fine(&CHECK);
        fake.link("/dev/sda", "/var/lib/ceph/osd/ceph-3/block");
        assert!(fake.finding(&CHECK).contains("ceph-3/block and with it the database"));
        fake.link("/dev/nvme0n1", "/var/lib/ceph/osd/ceph-3/block.db");
        fake.assert_fine(&CHECK);
    }
}
