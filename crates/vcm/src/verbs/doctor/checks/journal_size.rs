//! FileStore's journal against the rule for its size.

use super::journal_place::{is_filestore, journal_file, journal_place};
use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, osd};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_front::say;

pub const CHECK: Check = Check {
    id: "journal-size",
    severity: Severity::Problem,
    looks_for: "a FileStore journal smaller than 2 x expected throughput x filestore_max_sync_interval",
    test: Test::Each(osd, test),
    why: "Between two synchronisations the journal takes all writes. When it is full the OSD stops writes until \
     the data disk has caught up: throughput in bursts.",
    source: Source {
        name: "Ceph, Journal Config Reference: osd journal size = 2 x (expected throughput x max sync interval)",
        url: "https://docs.ceph.com/en/pacific/rados/configuration/journal-ref/",
    },
};

/// Sustained megabytes a second that the rule is worked out with: the documentation's for a turning disk, a
/// SATA device's for flash.
const TURNING: f64 = 100.0;
const FLASH: f64 = 500.0;

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let Some(ceph) = daemon.ceph.as_ref().filter(|_| is_filestore(daemon)) else {
        return Verdict::Fine;
    };
    let place = journal_place(daemon, survey);
    let path = daemon.process.as_seen_by_it(&journal_file(daemon));
    let of_file = || std::fs::metadata(&path).ok().filter(|file| file.is_file()).map(|file| file.len());
    let set = || ceph.number("osd_journal_size").map(|megabytes| (megabytes as u64) << 20);
    let Some(bytes) = place.device_bytes.or_else(of_file).or_else(set).filter(|bytes| *bytes > 0) else {
        return Verdict::NotSeen("the size of its journal".into());
    };
    let interval = ceph.number("filestore_max_sync_interval").unwrap_or(5.0);
    let throughput = if place.rotational == Some(false) { FLASH } else { TURNING };
    let wanted = 2.0 * throughput * interval;
    let has = (bytes >> 20) as f64;
    if has >= wanted {
        return Verdict::Fine;
    }
    let what = format!(
        "the journal has {has} MB; 2 x {throughput} MB/s x {interval} s (filestore_max_sync_interval) is {wanted} MB"
    );
    let id = say::typed([daemon.ceph_id()]);
    Verdict::found(
        what,
        &[
            format!("# [osd] osd journal size = {wanted} in ceph.conf, or a larger partition; then:"),
            daemon.stopping(),
            format!("sudo ceph-osd -i {id} --flush-journal && sudo ceph-osd -i {id} --mkjournal"),
            daemon.starting(),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    fn filestore(conf: &str) -> Fake {
        let fake = Fake::new();
        fake.osd();
        fake.write("/var/lib/ceph/osd/ceph-3/type", "filestore\n");
        fake.write("/etc/ceph/ceph.conf", conf);
        fake
    }

    #[test]
    fn a_journal_below_the_rule_is_found() {
        let fake = filestore("[osd]\nosd journal size = 512\n");
        assert!(fake.finding(&CHECK).contains("512 MB; 2 x 100 MB/s x 5 s"));
        let fake = filestore("[osd]\nosd journal size = 1024\nfilestore max sync interval = 30\n");
        assert!(fake.finding(&CHECK).contains("is 6000 MB"));
    }

    #[test]
    fn a_journal_by_the_rule_is_fine() {
        filestore("").assert_fine(&CHECK);
        let fake = filestore("[osd]\nosd journal size = 1\n");
        fake.link("/dev/nvme0n1", "/var/lib/ceph/osd/ceph-3/journal");
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn bluestore_has_no_such_journal() {
        let fake = filestore("[osd]\nosd journal size = 1\n");
        fake.write("/var/lib/ceph/osd/ceph-3/type", "bluestore\n");
        fake.assert_fine(&CHECK);
    }
}
