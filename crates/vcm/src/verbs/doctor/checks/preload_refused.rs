//! A preload that was asked for and is not in the process.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_inspect::loaded;

pub const CHECK: Check = Check {
    id: "preload-refused",
    severity: Severity::Problem,
    looks_for: "an LD_PRELOAD in a process's environment that the loader did not load",
    test: Test::Each(every, test),
    why: "The loader prints one line on stderr and continues without the library: a wrong path, a path that \
          the unit's sandbox hides (ProtectHome, PrivateTmp), another architecture, or a program that \
          gains privileges.",
    source: Source {
        name: "ld.so(8), LD_PRELOAD",
        url: "https://man7.org/linux/man-pages/man8/ld.so.8.html",
    },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    if daemon.allocator.serving.is_none() {
        return Verdict::Fine;
    }
    let seen = daemon.refused_preloads.iter().map(|entry| {
        let why = loaded::why_refused(&daemon.process, entry);
        let mend = [loaders_reason(daemon)];
        Seen::new(format!("LD_PRELOAD names {entry}, {why}; it is not in the process"), &mend)
    });
    Verdict::of(seen.collect())
}

fn loaders_reason(daemon: &Daemon) -> String {
    match daemon.service() {
        Some(service) => {
            format!("journalctl -u {service} | grep 'from LD_PRELOAD'    # the loader's own reason")
        }
        None if daemon.is_contained => {
            "# the container's log has the loader's own reason, behind 'from LD_PRELOAD'".into()
        }
        None => {
            "# start it in a terminal: the loader gives its reason on stderr, behind 'from LD_PRELOAD'".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    #[test]
    fn a_preload_that_is_not_mapped_is_found() {
        let fake = Fake::new();
        fake.plain_osd().environment(&[("LD_PRELOAD", "/opt/none.so")]);
        assert!(fake.finding(&CHECK).contains("/opt/none.so, which does not exist"));
    }

    #[test]
    fn the_loaders_reason_is_where_the_daemon_says_it() {
        let fake = Fake::new();
        fake.plain_osd().environment(&[("LD_PRELOAD", "/opt/none.so")]);
        assert!(fake.mend(&CHECK)[0].starts_with("journalctl -u ceph-osd@3 | grep"));
        fake.write("/proc/103/cgroup", "0::/user.slice\n");
        assert!(fake.mend(&CHECK)[0].starts_with("# start it in a terminal"));
        fake.remove("/proc/103/cmdline");
        let other = fake.process(105, "/usr/bin/other", "osd-plain");
        other.environment(&[("LD_PRELOAD", "/opt/none.so")]);
        fake.write("/proc/105/cgroup", "0::/user.slice\n");
        assert!(!fake.mend(&CHECK).concat().contains("UNIT"));
    }

    #[test]
    fn a_preload_that_is_there_is_fine_by_path_and_by_name() {
        for name in [OURS, "libvcmalloc.so"] {
            let fake = Fake::new();
            fake.plain_osd().load(OURS, "ours").environment(&[("LD_PRELOAD", name)]);
            fake.assert_fine(&CHECK);
        }
    }
}
