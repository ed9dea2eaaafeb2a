//! FileStore's journal: on the data's disk, on a turning disk, or in memory.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, osd};
use crate::verbs::doctor::survey::{Daemon, OSD_DATA, Survey};
use std::path::PathBuf;
use vcm_foreign::Shown;
use vcm_front::say;
use vcm_inspect::block::{self, Place};

pub const CHECK: Check = Check {
    id: "journal-place",
    severity: Severity::Problem,
    looks_for: "a FileStore journal on the disk of the data, on a spinning disk, or in memory",
    test: Test::Each(osd, test),
    why: "Every write goes to the journal first, in small synchronous pieces, and then to the data. On one disk \
     the two halve each other's throughput, and a spinning disk seeks between them; a journal in memory is lost \
     in a power cut, and the OSD with it.",
    source: Source {
        name: "Ceph, Journal Config Reference",
        url: "https://docs.ceph.com/en/pacific/rados/configuration/journal-ref/",
    },
};

pub fn is_filestore(daemon: &Daemon) -> bool {
    daemon.object_store().is_some_and(|kind| kind == "filestore")
}

pub fn journal_file(daemon: &Daemon) -> PathBuf {
    daemon.ceph_path("osd_journal", &format!("{OSD_DATA}/journal"))
}

pub fn journal_place(daemon: &Daemon, survey: &Survey) -> Place {
    block::place_of(&survey.root, &daemon.process, &journal_file(daemon))
}

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    if !is_filestore(daemon) {
        return Verdict::Fine;
    }
    let journal = journal_place(daemon, survey);
    let data = block::place_of(&survey.root, &daemon.process, &daemon.data_folder());
    let shown = journal_file(daemon).shown().to_string();
    if journal.in_memory {
        let what = format!("the journal {shown} is in memory: after a power cut the OSD cannot start");
        return Verdict::Found(vec![Seen::new(what, &mend(daemon)).with_severity(Severity::Danger)]);
    }
    if journal.disks.is_empty() {
        return Verdict::NotSeen(format!("the disk of {shown}"));
    }
    let disks = journal.disks.iter().cloned().collect::<Vec<_>>().join(", ");
    let shared = journal.disks.intersection(&data.disks).next();
    match (shared, journal.rotational) {
        (Some(disk), turns) => {
            let turns = if turns == Some(true) { ", a spinning disk" } else { "" };
            Verdict::found(format!("the journal {shown} and the data share {disk}{turns}"), &mend(daemon))
        }
        (None, Some(true)) => {
            Verdict::found(format!("the journal {shown} is on {disks}, a spinning disk"), &mend(daemon))
        }
        _ => Verdict::Fine,
    }
}

fn mend(daemon: &Daemon) -> Vec<String> {
    let id = say::typed([daemon.ceph_id()]);
    let journal = say::typed([journal_file(daemon).shown().printed()]);
    vec![
        "# measure the new device first: vcm lab journal-test DEVICE-OR-DIR".into(),
        daemon.stopping(),
        format!("sudo ceph-osd -i {id} --flush-journal"),
        format!("sudo ln -sf /dev/disk/by-partuuid/NEW {journal} && sudo ceph-osd -i {id} --mkjournal"),
        daemon.starting(),
        "# FileStore has ended with Ceph 18: plan for BlueStore".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    fn filestore() -> Fake {
        let fake = Fake::new();
        fake.osd();
        fake.write("/var/lib/ceph/osd/ceph-3/type", "filestore\n");
        fake
    }

    #[test]
    fn a_journal_on_the_datas_disk_is_found() {
        let fake = filestore();
        let what = fake.finding(&CHECK);
        assert!(
            what.ends_with("/var/lib/ceph/osd/ceph-3/journal and the data share sda, a spinning disk"),
            "{what}"
        );
    }

    #[test]
    fn a_journal_on_another_turning_disk_is_found() {
        let fake = filestore();
        fake.write("/sys/devices/sdb/queue/rotational", "1\n");
        fake.link("/sys/devices/sdb", "/sys/class/block/sdb");
        fake.link("/dev/sdb", "/var/lib/ceph/osd/ceph-3/journal");
        assert!(fake.finding(&CHECK).contains("is on sdb, a spinning disk"));
    }

    #[test]
    fn a_journal_in_memory_is_a_danger() {
        let fake = filestore();
        fake.write("/etc/ceph/ceph.conf", "[osd]\nosd journal = /dev/shm/$id\n");
        fake.write(
            "/proc/103/mountinfo",
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /tmpfs rw - tmpfs tmpfs rw\n",
        );
        fake.write("/etc/ceph/ceph.conf", "[osd]\nosd journal = /tmpfs/$id\n");
        assert!(fake.finding(&CHECK).contains("/tmpfs/3 is in memory"));
    }

    #[test]
    fn a_journal_on_flash_and_a_bluestore_are_fine() {
        let fake = filestore();
        fake.link("/dev/nvme0n1", "/var/lib/ceph/osd/ceph-3/journal");
        fake.assert_fine(&CHECK);
        fake.write("/var/lib/ceph/osd/ceph-3/type", "bluestore\n");
        fake.remove("/var/lib/ceph/osd/ceph-3/journal");
        fake.assert_fine(&CHECK);
    }
}
