//! A TCMALLOC_* variable in the distribution's file that the process did not get.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, ceph};
use crate::verbs::doctor::survey::{Daemon, Survey};
use std::path::Path;
use vcm_foreign::Shown;
use vcm_inspect::systemd::file::environment_file;

pub const CHECK: Check = Check {
    id: "variable-lost",
    severity: Severity::Problem,
    looks_for: "TCMALLOC_* and VCM_* variables in /etc/default/ceph or /etc/sysconfig/ceph that a daemon \
                did not get",
    test: Test::Each(ceph, test),
    why: "Only systemd units of packages read that file. Daemons in containers (ceph-container, cephadm, rook) \
     do not have the tuning, nor do daemons started before an edit.",
    source: Source {
        name: "Ceph pull request 41805 (cephadm daemons lost the thread cache setting)",
        url: "https://github.com/ceph/ceph/pull/41805",
    },
};

const FILES: [&str; 2] = ["/etc/default/ceph", "/etc/sysconfig/ceph"];

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let Some(_) = &daemon.environment else { return Verdict::NotSeen("its environment".into()) };
    let mut seen = Vec::new();
    for file in FILES {
        for (name, value) in environment_file(&survey.root, Path::new(file)) {
            let has = daemon.variable(&name).map(|has| has.shown().printed());
            if !would_matter(daemon, &name) || has.as_deref() == Some(value.as_str()) {
                continue;
            }
            let has = has.map_or("it does not have it".into(), |has| format!("it was started with {has}"));
            let what = format!("{file} sets {name}={value}, but {has}");
            seen.push(Seen::new(what, &mend(daemon, &name, &value)));
        }
    }
    Verdict::of(seen)
}

/// True where the allocator that serves the daemon would read it.
fn would_matter(daemon: &Daemon, name: &str) -> bool {
    let Some(kind) = daemon.allocator.kind() else { return false };
    (name.starts_with("TCMALLOC_") && (kind.is_gperftools() || kind.is_ours()))
        || (name.starts_with("VCM_") && kind.is_ours())
}

fn mend(daemon: &Daemon, name: &str, value: &str) -> Vec<String> {
    if daemon.is_contained {
        let lines = "# in the service's specification: extra_container_args: [\"-e\", \"NAME=VALUE\"]; here:";
        return vec![lines.into(), format!("#   {name}={value}    (docs/guides/ceph.md, 'Containers')")];
    }
    if daemon.unit.is_none() {
        return vec![format!("# not started by systemd: start it with {name}={value} in its environment")];
    }
    daemon.restarting()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn a_variable_that_did_not_arrive_is_found() {
        let fake = Fake::new();
        fake.osd();
        fake.write("/etc/default/ceph", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=134217728\nCLUSTER=ceph\n");
        assert!(fake.finding(&CHECK).contains("it does not have it"));
        fake.osd().environment(&[("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "1")]);
        assert!(fake.finding(&CHECK).contains("started with 1"));
    }

    #[test]
    fn what_its_allocator_would_not_read_is_not_missed() {
        let fake = Fake::new();
        fake.plain_osd();
        fake.write("/etc/default/ceph", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=134217728\nVCM_RETAIN=1M\n");
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn the_same_value_or_no_file_is_fine() {
        let fake = Fake::new();
        fake.osd().environment(&[("TCMALLOC_RELEASE_RATE", "2")]);
        fake.assert_fine(&CHECK);
        fake.write("/etc/sysconfig/ceph", "TCMALLOC_RELEASE_RATE=2\n");
        fake.assert_fine(&CHECK);
    }
}
