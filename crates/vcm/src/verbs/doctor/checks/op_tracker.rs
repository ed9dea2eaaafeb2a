//! Ceph's op tracker.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, osd};
use crate::verbs::doctor::survey::{Daemon, Survey};

pub const CHECK: Check = Check {
    id: "op-tracker",
    severity: Severity::Note,
    looks_for: "osd_enable_op_tracker on",
    test: Test::Each(osd, test),
    why: "The op tracker records the steps of every operation, with allocations. Slow requests and \
     dump_historic_ops need it; the tuning reports for flash turn it off.",
    source: Source {
        name: "Ceph wiki, Tuning for All Flash Deployments",
        url: "https://tracker.ceph.com/projects/ceph/wiki/Tuning_for_All_Flash_Deployments",
    },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let Some(settings) = &daemon.ceph else { return Verdict::Fine };
    if settings.is_on("osd_enable_op_tracker") == Some(false) {
        return Verdict::Fine;
    }
    let origin = settings.get("osd_enable_op_tracker").map_or("default".into(), |set| set.origin);
    Verdict::found(
        format!("osd_enable_op_tracker is on ({origin})"),
        &["ceph config set osd osd_enable_op_tracker false    # then restart the OSDs".into()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;
    use serde_json::json;

    #[test]
    fn on_is_noted_and_off_is_fine() {
        let fake = Fake::new();
        fake.osd().socket(json!({ "osd_enable_op_tracker": "true" }), &["osd_enable_op_tracker"]);
        assert_eq!(fake.finding(&CHECK), "osd_enable_op_tracker is on (mon)");
        let fake = Fake::new();
        fake.osd();
        fake.write("/etc/ceph/ceph.conf", "[osd]\nosd enable op tracker = false\n");
        fake.assert_fine(&CHECK);
    }
}
