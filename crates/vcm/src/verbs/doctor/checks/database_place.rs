//! BlueStore's database on a turning disk.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, osd};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;
use vcm_front::say;
use vcm_inspect::block;

pub const CHECK: Check = Check {
    id: "database-place",
    severity: Severity::Note,
    looks_for: "a BlueStore OSD on a spinning disk without block.db on flash",
    test: Test::Each(osd, test),
    why: "BlueStore's metadata and small writes go through RocksDB. On a spinning disk they compete with the \
     data; on flash they cost little.",
    source: Source {
        name: "Ceph, BlueStore Config Reference, Devices",
        url: "https://docs.ceph.com/en/latest/rados/configuration/bluestore-config-ref/#devices",
    },
};

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let folder = daemon.data_folder();
    let is_there = |name: &str| daemon.process.as_seen_by_it(&folder.join(name)).symlink_metadata().is_ok();
    if !is_there("block") {
        return Verdict::Fine;
    }
    let name = if is_there("block.db") { "block.db" } else { "block" };
    let place = block::place_of(&survey.root, &daemon.process, &folder.join(name));
    let path = folder.join(name).shown().to_string();
    match place.rotational {
        Some(true) if name == "block" => Verdict::found(
            format!("{path} and with it the database is on a spinning disk"),
            &mend(daemon, "data", Some("new-db")),
        ),
        Some(true) => Verdict::found(format!("{path} is on a spinning disk"), &mend(daemon, "db", None)),
        None if !place.disks.is_empty() => {
            let disks = place.disks.into_iter().collect::<Vec<_>>().join(", ");
            Verdict::NotSeen(format!("a virtual disk does not report whether it spins ({disks})"))
        }
        _ => Verdict::Fine,
    }
}

/// ceph-volume attaches a place for the database, and moves it there in a step of its own.
fn mend(daemon: &Daemon, from: &str, attach: Option<&str>) -> Vec<String> {
    let note = daemon.process.as_seen_by_it(&daemon.data_folder().join("fsid"));
    let fsid = vcm_foreign::file::text(&note).map_or("FSID".into(), |text| say::typed([text.trim()]));
    let names = format!("--osd-id {} --osd-fsid {fsid}", say::typed([daemon.ceph_id()]));
    let inside = if daemon.is_contained { ", in 'cephadm shell'" } else { "" };
    let mut lines = vec![
        format!(
            "# VG/LV is a logical volume on flash that you make before{inside}; 1 to 4 % of the data's size"
        ),
        daemon.stopping(),
    ];
    lines.extend(attach.map(|verb| format!("sudo ceph-volume lvm {verb} {names} --target VG/LV")));
    lines.push(format!("sudo ceph-volume lvm migrate {names} --from {from} --target VG/LV"));
    lines.push(daemon.starting());
    lines
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

    #[test]
    fn the_database_is_moved_and_the_osd_started_again() {
        let fake = Fake::new();
        fake.osd();
        fake.write("/var/lib/ceph/osd/ceph-3/fsid", "2b1f\n");
        fake.link("/dev/sda", "/var/lib/ceph/osd/ceph-3/block");
        let lines = fake.mend(&CHECK);
        let commands: Vec<&str> = lines.iter().skip(1).map(String::as_str).collect();
        assert_eq!(
            commands,
            [
                "ceph osd ok-to-stop 3 && sudo systemctl stop ceph-osd@3",
                "sudo ceph-volume lvm new-db --osd-id 3 --osd-fsid 2b1f --target VG/LV",
                "sudo ceph-volume lvm migrate --osd-id 3 --osd-fsid 2b1f --from data --target VG/LV",
                "sudo systemctl start ceph-osd@3",
            ]
        );
        fake.link("/dev/sda1", "/var/lib/ceph/osd/ceph-3/block.db");
        fake.link("/sys/devices/sda", "/sys/class/block/sda1");
        let lines = fake.mend(&CHECK).join("\n");
        assert!(lines.contains("--from db") && !lines.contains("new-db"), "{lines}");
    }

    #[test]
    fn a_virtual_disk_is_not_taken_for_a_turning_one() {
        let fake = Fake::new();
        fake.osd();
        fake.write("/sys/devices/virtio1/vda/queue/rotational", "1\n");
        fake.link("/sys/devices/virtio1/vda", "/sys/class/block/vda");
        fake.link("/dev/vda", "/var/lib/ceph/osd/ceph-3/block");
        let not_seen = fake.not_seen(&CHECK);
        assert!(
            not_seen[0].ends_with("a virtual disk does not report whether it spins (vda)"),
            "{not_seen:?}"
        );
    }
}
