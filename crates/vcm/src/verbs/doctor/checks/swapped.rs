//! Daemons that are partly swapped out.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_inspect::machine;

pub const CHECK: Check = Check {
    id: "swapped",
    severity: Severity::Problem,
    looks_for: "more than 16 MiB of a daemon swapped out",
    test: Test::Each(every, test),
    why: "One page that returns from disk costs more than an operation. Heartbeats that wait for swap make OSDs \
     look dead, and recovery adds load.",
    source: Source {
        name: "Ceph, Hardware Recommendations, Memory",
        url: "https://docs.ceph.com/en/latest/start/hardware-recommendations/#memory",
    },
};

const WORTH_SAYING: u64 = 16 << 20;

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let swapped = daemon.process.status_bytes("VmSwap").unwrap_or(0);
    if swapped <= WORTH_SAYING {
        return Verdict::Fine;
    }
    let inclined =
        machine::swappiness(&survey.root).map_or(String::new(), |value| format!(", vm.swappiness = {value}"));
    let all = machine::swap(&survey.root).unwrap_or(0) >> 20;
    Verdict::found(
        format!("{} MiB are swapped out ({all} MiB of swap on this machine{inclined})", swapped >> 20),
        &mend(daemon),
    )
}

fn mend(daemon: &Daemon) -> Vec<String> {
    let less = "echo vm.swappiness=1 | sudo tee /etc/sysctl.d/60-swappiness.conf && sudo sysctl --system";
    let lines = [less, "# a restart brings swapped pages back:"].map(str::to_string);
    lines.into_iter().chain(daemon.restarting()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn a_swapped_daemon_is_found() {
        let fake = Fake::new();
        let osd = fake.osd();
        fake.assert_fine(&CHECK);
        osd.status("VmSwap:\t 204800 kB\n");
        fake.write("/proc/sys/vm/swappiness", "60\n");
        assert_eq!(
            fake.finding(&CHECK),
            "200 MiB are swapped out (0 MiB of swap on this machine, vm.swappiness = 60)"
        );
    }
}
