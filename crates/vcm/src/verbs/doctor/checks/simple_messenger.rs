//! Ceph's first messenger: two threads a connection.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, ceph};
use crate::verbs::doctor::survey::{Daemon, Survey};

pub const CHECK: Check = Check {
    id: "simple-messenger",
    severity: Severity::Problem,
    looks_for: "ms_type = simple, the messenger with two threads for each connection",
    test: Test::Each(ceph, test),
    why: "Hundreds of connections are hundreds of threads, and an allocator that caches by thread starves \
          them: it is the setting under which the slowdown of 2015 was seen. The async messenger has a \
          few threads for all.",
    source: Source {
        name: "Ceph, Messenger (ms_type), removed in 15",
        url: "https://docs.ceph.com/en/nautilus/rados/configuration/ms-ref/",
    },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let set = daemon.ceph.as_ref().and_then(|settings| settings.get("ms_type"));
    match set {
        Some(set) if set.value == "simple" => Verdict::found(
            format!("ms_type = simple ({}), {} threads", set.origin, daemon.process.threads().unwrap_or(0)),
            &mend(daemon),
        ),
        _ => Verdict::Fine,
    }
}

fn mend(daemon: &Daemon) -> Vec<String> {
    let set = format!("ceph config set {} ms_type async+posix", daemon.role.ceph_kind());
    std::iter::once(set).chain(daemon.restarting()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn the_simple_messenger_is_found_and_the_default_is_fine() {
        let fake = Fake::new();
        fake.osd();
        fake.assert_fine(&CHECK);
        fake.write("/etc/ceph/ceph.conf", "[global]\nms type = simple\n");
        assert_eq!(fake.finding(&CHECK), "ms_type = simple (/etc/ceph/ceph.conf), 40 threads");
        assert!(fake.mend(&CHECK)[1].ends_with("sudo systemctl restart ceph-osd@3"));
        fake.write("/proc/103/cgroup", "0::/user.slice\n");
        assert!(fake.mend(&CHECK)[1].starts_with("# not started by systemd: "));
    }
}
