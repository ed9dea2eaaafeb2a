//! An OSD that was built without TCMalloc: osd_memory_target does nothing.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, osd};
use crate::verbs::doctor::survey::{Daemon, Survey};

pub const CHECK: Check = Check {
    id: "no-memory-target",
    severity: Severity::Problem,
    looks_for: "an OSD whose program was built without TCMalloc, so that osd_memory_target has no effect",
    test: Test::Each(osd, test),
    why: "Ceph decides at build time whether it can read the allocator's memory use. Without \
          it the BlueStore caches keep a fixed size, 'heap stats' answers \"not using tcmalloc!\", and \
          plain glibc malloc serves the daemon. Debian 12's packages are built so, as were several of Ubuntu's, \
          unnoticed for a while.",
    source: Source {
        name: "Launchpad bug 2016845 (Ceph packages without TCMalloc, 20 to 30 % slower)",
        url: "https://bugs.launchpad.net/bugs/2016845",
    },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let answer = &daemon.allocator;
    let Some(serving) = &answer.serving else { return Verdict::NotSeen("its allocator is not known".into()) };
    let store = daemon.object_store();
    if answer.asks_malloc_extension || store.is_some_and(|store| store != "bluestore") {
        return Verdict::Fine;
    }
    let target = daemon.ceph.as_ref().and_then(|ceph| ceph.get("osd_memory_target"));
    let target = target.map_or(String::new(), |set| format!(" ({}, {})", set.value, set.origin));
    let what =
        format!("its program reads no allocator's memory use, so osd_memory_target{target} has no effect");
    let mut mend = vec![
        "ceph config set osd bluestore_cache_autotune false".to_string(),
        "ceph config set osd bluestore_cache_size 1073741824    # by hand; then restart the OSDs".to_string(),
    ];
    if !serving.kind.is_ours() {
        mend.push(
            "# glibc's malloc costs most here; vcmalloc may be preloaded safely into this build:".into(),
        );
        mend.extend(daemon.enabling());
    }
    Verdict::found(what, &mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn a_build_without_tcmalloc_is_found_whatever_is_preloaded() {
        let fake = Fake::new();
        fake.plain_osd();
        assert!(fake.finding(&CHECK).contains("osd_memory_target (4294967296, default)"));
        fake.plain_osd()
            .load("/usr/lib/libvcmalloc.so", "ours")
            .environment(&[("LD_PRELOAD", "/usr/lib/libvcmalloc.so")]);
        assert_eq!(fake.findings(&CHECK).len(), 1);
    }

    #[test]
    fn only_bluestore_steers_by_the_target() {
        let fake = Fake::new();
        fake.plain_osd();
        fake.write("/etc/ceph/ceph.conf", "[osd]\nosd objectstore = memstore\n");
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn a_build_with_tcmalloc_is_fine() {
        let fake = Fake::new();
        fake.osd();
        fake.assert_fine(&CHECK);
    }
}
