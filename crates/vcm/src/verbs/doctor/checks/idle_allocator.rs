//! An allocator that the program is linked with and that another takes the place of.

use super::mixed_allocators::is_idle;
use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;

pub const CHECK: Check = Check {
    id: "idle-allocator",
    severity: Severity::Note,
    looks_for: "a jemalloc that a program, no Ceph daemon, is linked with, and another malloc in its place",
    test: Test::Each(every, test),
    why: "malloc and free go to the preload, and with vcmalloc jemalloc's calls from mallocx to sdallocx \
          too, so nothing is mixed; but mallctl and MALLOC_CONF reach an idle jemalloc: its statistics, and \
          what the program does by them, mean nothing.",
    source: Source {
        name: "docs/guides/vcm.md, When it does not take effect",
        url: "docs/guides/vcm.md#when-it-does-not-take-effect",
    },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let answer = &daemon.allocator;
    let Some(serving) = &answer.serving else { return Verdict::Fine };
    let Some(idle) = answer.others.iter().find(|other| is_idle(daemon, other)) else { return Verdict::Fine };
    let what = format!(
        "it is linked with {} ({}), and malloc is {}",
        idle.kind.name(),
        idle.object.shown(),
        serving.kind.name()
    );
    if !serving.kind.is_ours() {
        let instead = "# read the other allocator's statistics instead, or use a build without jemalloc";
        return Verdict::found(what, &[instead.into()]);
    }
    // The verbs choose the stand-in, if it is there.
    let mut mend =
        vec!["# start it on vcmalloc's libjemalloc.so.2, which answers mallctl and MALLOC_CONF:".into()];
    mend.extend(daemon.enabling());
    Verdict::found(what, &mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::checks::mixed_allocators;
    use crate::verbs::doctor::fake::{Fake, JEMALLOC, JEMALLOC_STAND_IN, OURS};
    use vcm_inspect::allocator::Kind;

    fn redis() -> Fake {
        let fake = Fake::new();
        let redis = fake.process(103, "/usr/bin/redis-server", "linked-jemalloc");
        redis.load(JEMALLOC, "jemalloc");
        fake
    }

    #[test]
    fn a_linked_jemalloc_behind_a_preload_is_a_note_and_no_mixture() {
        let fake = redis();
        let redis = fake.process(103, "/usr/bin/redis-server", "linked-jemalloc");
        redis.load(OURS, "ours").load(JEMALLOC, "jemalloc").environment(&[("LD_PRELOAD", OURS)]);
        let what = fake.finding(&CHECK);
        assert!(what.contains("linked with jemalloc") && what.ends_with("malloc is vcmalloc"), "{what}");
        fake.assert_fine(&mixed_allocators::CHECK);
        // As redis leaves it: its title stands where the environment was.
        redis.environment(&[]);
        assert!(fake.finding(&CHECK).ends_with("malloc is vcmalloc"));
    }

    #[test]
    fn a_linked_jemalloc_that_serves_or_whose_place_ours_takes_is_fine() {
        redis().assert_fine(&CHECK);
        let fake = Fake::new();
        let redis = fake.process(103, "/usr/bin/redis-server", "linked-jemalloc");
        redis.load(JEMALLOC_STAND_IN, "jemalloc-stand-in").environment(&[("LD_PRELOAD", JEMALLOC_STAND_IN)]);
        fake.assert_fine(&CHECK);
        fake.assert_fine(&mixed_allocators::CHECK);
        let survey = fake.survey();
        let allocator = &survey.daemons[0].allocator;
        assert_eq!(allocator.kind(), Some(Kind::JemallocStandIn));
        assert_eq!(allocator.answers_mallctl.as_deref(), Some(std::path::Path::new(JEMALLOC_STAND_IN)));
    }
}
