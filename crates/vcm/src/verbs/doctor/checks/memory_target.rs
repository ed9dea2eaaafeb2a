//! osd_memory_target against what there is: the control group's limit, the machine's memory, the OSD's use.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_inspect::daemon::Role;
use vcm_inspect::machine;

pub const CHECK: Check = Check {
    id: "memory-target",
    severity: Severity::Problem,
    looks_for: "osd_memory_target above 80 % of a memory limit, all targets together above 80 % of the \
                machine's memory, or an OSD more than 15 % above its target",
    test: Test::Once(test),
    why: "The target is an aim, not a limit: an OSD overshoots it, most in recovery. Without room above it the \
     kernel kills the OSD when the cluster needs it.",
    source: Source {
        name: "Ceph, Hardware Recommendations, Memory; osd_memory_target_cgroup_limit_ratio (0.8)",
        url: "https://docs.ceph.com/en/latest/start/hardware-recommendations/#memory",
    },
};

const SHARE_OF_A_LIMIT: f64 = 0.8;
const OVERSHOOT: f64 = 1.15;

fn test(survey: &Survey) -> Verdict {
    let osds: Vec<(&Daemon, f64)> = survey
        .with_role(Role::CephOsd)
        // Elsewhere the target has no effect: only BlueStore's caches follow it, and without TCMalloc's interface
        // they do not either ('no-memory-target' says so).
        .filter(|osd| osd.allocator.asks_malloc_extension)
        .filter(|osd| osd.object_store().is_none_or(|store| store == "bluestore"))
        .filter_map(|osd| Some((osd, osd.ceph.as_ref()?.number("osd_memory_target")?)))
        .collect();
    let mut seen: Vec<Seen> = osds.iter().flat_map(|(osd, target)| of_one(osd, *target)).collect();
    let together: f64 = osds.iter().map(|(_, target)| target).sum();
    if let Some(memory) = machine::memory(&survey.root)
        && together > memory as f64 * SHARE_OF_A_LIMIT
    {
        let what = format!(
            "{} with targets of {} GiB together on a machine with {} GiB",
            if osds.len() == 1 { "1 OSD".into() } else { format!("{} OSDs", osds.len()) },
            gib(together),
            gib(memory as f64)
        );
        let each = (memory as f64 * SHARE_OF_A_LIMIT / osds.len().max(1) as f64) as u64;
        seen.push(Seen::new(what, &[format!("ceph config set osd osd_memory_target {each}")]));
    }
    Verdict::of(seen)
}

fn of_one(osd: &Daemon, target: f64) -> Vec<Seen> {
    let mut seen = Vec::new();
    let origin = osd
        .ceph
        .as_ref()
        .and_then(|ceph| ceph.get("osd_memory_target"))
        .map_or(String::new(), |set| set.origin);
    if let Some(limit) = osd.process.memory_limit()
        && target > limit as f64 * SHARE_OF_A_LIMIT
    {
        let what = format!(
            "{}: osd_memory_target {} GiB ({origin}) with a memory limit of {} GiB",
            osd.label,
            gib(target),
            gib(limit as f64)
        );
        let fitting = (limit as f64 * SHARE_OF_A_LIMIT) as u64;
        seen.push(Seen::new(what, &[format!("ceph config set {} osd_memory_target {fitting}", osd.label)]));
    }
    let resident = osd.process.status_bytes("VmRSS").unwrap_or(0) as f64;
    if resident > target * OVERSHOOT {
        let what = format!(
            "{} holds {} GiB, its target is {} GiB ({origin})",
            osd.label,
            gib(resident),
            gib(target)
        );
        let mend = [
            format!(
                "ceph tell {} heap stats    # memory of the allocator, and how much it could release",
                osd.label
            ),
            format!("ceph tell {} dump_mempools    # what Ceph holds", osd.label),
        ];
        seen.push(Seen::new(what, &mend));
    }
    seen
}

fn gib(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;
    use serde_json::json;

    #[test]
    fn a_target_above_the_limit_of_the_control_group_is_found() {
        let fake = Fake::new();
        fake.osd();
        fake.write("/sys/fs/cgroup/system.slice/ceph-osd@3.service/memory.max", "4294967296\n");
        assert!(fake.finding(&CHECK).contains("4.0 GiB (default) with a memory limit of 4.0 GiB"));
        fake.write("/sys/fs/cgroup/system.slice/ceph-osd@3.service/memory.max", "8589934592\n");
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn targets_that_do_not_fit_the_machine_are_found() {
        let fake = Fake::new();
        fake.osd();
        fake.write("/proc/meminfo", "MemTotal: 4194304 kB\n");
        assert!(
            fake.finding(&CHECK).contains("1 OSD with targets of 4.0 GiB together on a machine with 4.0 GiB")
        );
    }

    #[test]
    fn a_store_in_memory_has_no_target() {
        let fake = Fake::new();
        fake.osd();
        fake.write("/proc/meminfo", "MemTotal: 4194304 kB\n");
        fake.write("/etc/ceph/ceph.conf", "[osd]\nosd objectstore = memstore\n");
        fake.assert_fine(&CHECK);
        // The data's own note is stronger than a setting for OSDs to come.
        fake.write("/var/lib/ceph/osd/ceph-3/type", "bluestore\n");
        assert_eq!(fake.findings(&CHECK).len(), 1);
    }

    #[test]
    fn an_osd_above_its_target_is_found() {
        let fake = Fake::new();
        let osd = fake.osd();
        osd.socket(json!({ "osd_memory_target": "1073741824" }), &["osd_memory_target"]);
        fake.assert_fine(&CHECK);
        osd.status("VmRSS:\t 2097152 kB\n");
        assert!(fake.finding(&CHECK).contains("osd.3 holds 2.0 GiB, its target is 1.0 GiB (mon)"));
    }
}
