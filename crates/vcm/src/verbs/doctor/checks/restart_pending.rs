//! A unit that preloads vcmalloc, and a process that was started before it did.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;

pub const CHECK: Check = Check {
    id: "restart-pending",
    severity: Severity::Problem,
    looks_for: "a unit whose files set another LD_PRELOAD than that of its process",
    test: Test::Each(every, test),
    why: "A drop-in takes effect at the next start.",
    source: Source { name: "docs/guides/ceph.md", url: "docs/guides/ceph.md" },
};

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let (Some(unit), Some(_)) = (&daemon.unit, &daemon.environment) else { return Verdict::Fine };
    let assignments = unit.assignments(&survey.root);
    let wanted = assignments.iter().rev().find(|set| set.name == "LD_PRELOAD");
    let has = daemon.variable("LD_PRELOAD").map(|value| value.shown().printed());
    match (wanted, has) {
        (Some(wanted), has) if has.as_deref() != Some(wanted.value.as_str()) => {
            let has = has.map_or("none".into(), |has| format!("'{has}'"));
            let what = format!(
                "{} sets LD_PRELOAD={}; the process was started with {has}",
                wanted.file.shown(),
                wanted.value
            );
            Verdict::found(what, &daemon.reloading())
        }
        (None, Some(has)) if has.contains("vcmalloc") => {
            let what =
                format!("LD_PRELOAD={has} is no longer in the unit's files, and the process still has it");
            Verdict::found(what, &daemon.reloading())
        }
        _ => Verdict::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    const DROP_IN: &str = "/etc/systemd/system/ceph-osd@3.service.d/vcmalloc.conf";

    #[test]
    fn a_drop_in_that_is_newer_than_the_process_is_found() {
        let fake = Fake::new();
        let osd = fake.plain_osd();
        fake.write(DROP_IN, &format!("[Service]\nEnvironment=LD_PRELOAD={OURS}\n"));
        assert!(fake.finding(&CHECK).contains("started with none"));
        osd.environment(&[("LD_PRELOAD", OURS)]);
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn a_drop_in_that_was_taken_away_is_found() {
        let fake = Fake::new();
        fake.plain_osd().environment(&[("LD_PRELOAD", OURS)]);
        assert!(fake.finding(&CHECK).contains("no longer in the unit's files"));
    }
}
