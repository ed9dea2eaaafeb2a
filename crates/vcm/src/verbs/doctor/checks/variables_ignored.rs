//! TCMALLOC_* variables and MALLOC_CONF, if nothing in the process reads them.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::settings::TCMALLOC_BOUND;
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;
use vcm_inspect::allocator::Kind;
use vcmalloc_core::options::set_by;

pub const CHECK: Check = Check {
    id: "variables-ignored",
    severity: Severity::Problem,
    looks_for: "TCMALLOC_* variables that have no effect: no TCMalloc serves the process, or its version \
                ignores them; MALLOC_CONF where no jemalloc and no stand-in for it serves",
    test: Test::Each(every, test),
    why: "A setting without effect misleads. gperftools ignored TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES before \
     2.2, so 4 KiB writes ran at a quarter of their speed in 2015 although it was set; it silently cuts values \
     above 1 GiB.",
    source: Source {
        name: "The Ceph and TCMalloc performance story (2015); gperftools issues 588 and 1367",
        url: "https://ceph.io/en/news/blog/2015/the-ceph-and-tcmalloc-performance-story",
    },
};

/// gperftools takes no more, whatever the variable says.
const MOST: u64 = 1 << 30;

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let Some(environment) = &daemon.environment else { return Verdict::NotSeen("its environment".into()) };
    let Some(serving) = &daemon.allocator.serving else { return Verdict::NotSeen("its allocator".into()) };
    let mut seen = Vec::new();
    for (name, value) in environment {
        let (name, value) = (name.shown().printed(), value.shown().printed());
        let kind = serving.kind;
        if name == "MALLOC_CONF" {
            // A copy under names of its own may have been built to read it.
            let is_read = matches!(kind, Kind::Jemalloc | Kind::JemallocStandIn | Kind::Unknown)
                || daemon.allocator.private_copy.is_some();
            if !is_read {
                let what = format!("{name}={value} has no effect: {} serves this process", kind.name());
                seen.push(Seen::new(what, &mend_absent(daemon, &name)));
            }
            continue;
        }
        if !name.starts_with("TCMALLOC_") {
            continue;
        }
        if kind.is_ours() && set_by(name.as_bytes()).next().is_some() {
            continue;
        }
        let version = serving.version.as_deref().unwrap_or_default();
        if !kind.is_gperftools() {
            let what = format!("{name}={value} has no effect: {} serves this process", kind.name());
            seen.push(Seen::new(what, &mend_absent(daemon, &name)));
        } else if name == TCMALLOC_BOUND && is_before_2_2(version) {
            let what = format!("{name}={value} has no effect: gperftools {version} ignores it");
            seen.push(Seen::new(what, &daemon.enabling()));
        } else if name == TCMALLOC_BOUND && value.parse::<u64>().is_ok_and(|bytes| bytes > MOST) {
            seen.push(Seen::new(
                format!("{name}={value} is cut to 1 GiB by gperftools, silently"),
                &daemon.enabling(),
            ));
        }
    }
    Verdict::of(seen)
}

fn mend_absent(daemon: &Daemon, name: &str) -> Vec<String> {
    let set = daemon.settings_file_of(name).unwrap_or_else(|| "the place that sets it".into());
    let mut mend = vec![format!("# take {name} out of {set}, or use an allocator that reads it:")];
    mend.extend(daemon.enabling());
    mend
}

fn is_before_2_2(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(u32::MAX));
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => (major, minor) < (2, 2),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, JEMALLOC, JEMALLOC_STAND_IN, OURS, STAND_IN, TCMALLOC};

    const SET: &[(&str, &str)] = &[(TCMALLOC_BOUND, "134217728")];

    #[test]
    fn without_tcmalloc_the_variable_does_nothing() {
        let fake = Fake::new();
        fake.plain_osd().environment(SET);
        let what = fake.finding(&CHECK);
        assert!(what.contains("no effect: glibc malloc serves"), "{what}");
    }

    #[test]
    fn jemallocs_variable_is_ignored_unless_jemalloc_or_its_stand_in_serves() {
        let conf = ("MALLOC_CONF", "narenas:2");
        let fake = Fake::new();
        fake.plain_osd().load(OURS, "ours").environment(&[("LD_PRELOAD", OURS), conf]);
        let what = fake.finding(&CHECK);
        assert!(what.contains("MALLOC_CONF=narenas:2 has no effect: vcmalloc serves"), "{what}");
        for (library, kit) in [(JEMALLOC, "jemalloc"), (JEMALLOC_STAND_IN, "jemalloc-stand-in")] {
            let fake = Fake::new();
            fake.plain_osd().load(library, kit).environment(&[("LD_PRELOAD", library), conf]);
            fake.assert_fine(&CHECK);
        }
    }

    #[test]
    fn gperftools_before_2_2_ignores_it() {
        let fake = Fake::new();
        let osd = fake.process(103, "/usr/bin/ceph-osd --id 3", "osd-linked");
        osd.load(TCMALLOC, "tcmalloc-2.1").environment(SET);
        assert!(fake.finding(&CHECK).contains("gperftools 2.1 ignores it"));
        assert!(is_before_2_2("2.1") && !is_before_2_2("2.10") && !is_before_2_2(""));
    }

    #[test]
    fn more_than_the_silent_maximum_is_told() {
        let fake = Fake::new();
        fake.osd().environment(&[(TCMALLOC_BOUND, "2147483648")]);
        assert!(fake.finding(&CHECK).contains("cut to 1 GiB"));
    }

    #[test]
    fn a_tcmalloc_that_reads_it_and_the_stand_in_are_fine() {
        let fake = Fake::new();
        fake.osd().environment(SET);
        fake.assert_fine(&CHECK);
        let fake = Fake::new();
        let osd = fake.process(103, "/usr/bin/ceph-osd --id 3", "osd-linked");
        osd.load(STAND_IN, "stand-in").environment(&[("LD_PRELOAD", STAND_IN), SET[0]]);
        fake.assert_fine(&CHECK);
    }
}
