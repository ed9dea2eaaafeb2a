//! Two allocators in one process.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;
use vcm_inspect::allocator::{Allocator, Kind};
use vcm_inspect::loaded::BroughtBy;

pub const CHECK: Check = Check {
    id: "mixed-allocators",
    severity: Severity::Problem,
    looks_for: "jemalloc loaded beside the allocator that serves the process, or an allocator that was \
                opened later",
    test: Test::Each(every, test),
    why: "RocksDB uses jemalloc's own functions if it finds them, while malloc goes elsewhere: blocks are then \
     freed by another allocator than their own. Ceph dropped its support of jemalloc for that reason.",
    source: Source { name: "Ceph tracker 20557", url: "https://tracker.ceph.com/issues/20557" },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let Some(serving) = &daemon.allocator.serving else { return Verdict::Fine };
    let mixes = |other: &&Allocator| match other.kind {
        Kind::Glibc | Kind::Musl => false,
        // Linked and never called; 'preload-over-tcmalloc' says when it is asked.
        kind if kind.is_gperftools() => other.brought_by == BroughtBy::Later,
        _ if is_idle(daemon, other) => false,
        kind => kind == Kind::Jemalloc || other.brought_by == BroughtBy::Later,
    };
    let Some(other) = daemon.allocator.others.iter().find(mixes) else { return Verdict::Fine };
    let what = format!(
        "malloc is {} ({}), and {} ({}) is loaded too",
        serving.kind.name(),
        serving.object.shown(),
        other.kind.name(),
        other.object.shown()
    );
    Verdict::found(what, &["# run on one of them: take the other's preload or plugin away".into()])
}

/// The program is linked with it, and nothing in it prefers it to malloc as Ceph's RocksDB does.
pub fn is_idle(daemon: &Daemon, other: &Allocator) -> bool {
    let is_linked = other.brought_by == BroughtBy::Linked;
    is_linked && other.kind == Kind::Jemalloc && !daemon.role.is_ceph()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, JEMALLOC, OURS};

    #[test]
    fn jemalloc_behind_another_preload_is_found() {
        let fake = Fake::new();
        let both = format!("{OURS}:{JEMALLOC}");
        fake.plain_osd().load(OURS, "ours").load(JEMALLOC, "jemalloc").environment(&[("LD_PRELOAD", &both)]);
        assert!(fake.finding(&CHECK).contains("jemalloc (/usr/lib/libjemalloc.so.2) is loaded too"));
    }

    #[test]
    fn an_allocator_that_a_plugin_brought_is_found() {
        let fake = Fake::new();
        fake.plain_osd().load(OURS, "ours");
        let what = fake.finding(&CHECK);
        assert!(
            what.contains("malloc is glibc malloc") && what.contains("libvcmalloc.so) is loaded too"),
            "{what}"
        );
    }

    #[test]
    fn a_jemalloc_that_a_ceph_daemon_is_linked_with_is_found() {
        let fake = Fake::new();
        let osd = fake.process(103, "/usr/bin/ceph-osd --id 3", "linked-jemalloc");
        osd.load(OURS, "ours").load(JEMALLOC, "jemalloc").environment(&[("LD_PRELOAD", OURS)]);
        assert!(fake.finding(&CHECK).contains("is loaded too"));
    }

    #[test]
    fn one_allocator_over_libc_is_fine() {
        let fake = Fake::new();
        fake.plain_osd().load(JEMALLOC, "jemalloc").environment(&[("LD_PRELOAD", JEMALLOC)]);
        fake.assert_fine(&CHECK);
        fake.osd().environment(&[]);
        fake.osd();
        fake.assert_fine(&CHECK);
    }
}
