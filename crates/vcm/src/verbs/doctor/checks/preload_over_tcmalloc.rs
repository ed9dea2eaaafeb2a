//! Another allocator in front of a TCMalloc that the daemon asks about its memory.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;
use vcm_inspect::allocator::Kind;

pub const CHECK: Check = Check {
    id: "preload-over-tcmalloc",
    severity: Severity::Danger,
    looks_for: "another malloc in front of a TCMalloc whose MallocExtension the daemon uses",
    test: Test::Each(every, test),
    why: "ceph-osd steers its caches by generic.heap_size - tcmalloc.pageheap_unmapped_bytes. Another malloc \
     leaves TCMalloc's heap empty, so the daemon sees no memory use and its caches grow far beyond \
     osd_memory_target.",
    source: Source {
        name: "Ceph pull request 46062: 32 GB with libc's malloc, 9 GB with TCMalloc, at a target of 8 GB",
        url: "https://github.com/ceph/ceph/pull/46062",
    },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let answer = &daemon.allocator;
    let Some(serving) = answer.serving.as_ref().filter(|_| answer.asks_malloc_extension) else {
        return Verdict::Fine;
    };
    let answers = |kind| matches!(kind, Kind::Tcmalloc | Kind::TcmallocMinimal | Kind::StandIn);
    let linked = answer.others.iter().find(|other| answers(other.kind));
    match linked {
        Some(linked) if !answers(serving.kind) => Verdict::found(
            format!(
                "malloc is {} ({}), but MallocExtension is answered by {} ({}), whose heap is empty",
                serving.kind.name(),
                serving.object.shown(),
                linked.kind.name(),
                linked.object.shown()
            ),
            &mend(daemon),
        ),
        _ => Verdict::Fine,
    }
}

fn mend(daemon: &Daemon) -> Vec<String> {
    let mut mend = vec!["# remove the preload, or replace it by vcmalloc's libtcmalloc.so.4:".into()];
    mend.extend(daemon.enabling());
    mend
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, JEMALLOC, OURS, STAND_IN};

    #[test]
    fn a_preload_before_tcmalloc_is_a_danger() {
        for (library, kit) in [(JEMALLOC, "jemalloc"), (OURS, "ours")] {
            let fake = Fake::new();
            fake.osd().load(library, kit).environment(&[("LD_PRELOAD", library)]);
            let what = fake.finding(&CHECK);
            assert!(what.contains(library) && what.contains("MallocExtension"), "{what}");
        }
    }

    #[test]
    fn tcmalloc_alone_and_the_stand_in_are_fine() {
        let fake = Fake::new();
        fake.osd();
        fake.assert_fine(&CHECK);
        let fake = Fake::new();
        let osd = fake.process(103, "/usr/bin/ceph-osd --id 3", "osd-linked");
        osd.load(STAND_IN, "stand-in").environment(&[("LD_PRELOAD", STAND_IN)]);
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn a_daemon_that_never_asks_is_fine() {
        let fake = Fake::new();
        fake.plain_osd().load(OURS, "ours").environment(&[("LD_PRELOAD", OURS)]);
        fake.assert_fine(&CHECK);
    }
}
