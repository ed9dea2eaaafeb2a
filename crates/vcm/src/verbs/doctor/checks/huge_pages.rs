//! Transparent huge pages against the allocator that a process runs on.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_inspect::machine;

pub const CHECK: Check = Check {
    id: "huge-pages",
    severity: Severity::Problem,
    looks_for: "transparent huge pages 'always' under an allocator that does not expect them, or 'never' \
                under vcmalloc",
    test: Test::Each(every, test),
    why: "With 'always' the kernel fills 2 MiB for a few touched pages, and pages that an allocator releases one \
     by one return as huge pages: memory grows by up to the fragmentation. Ceph's daemons switch it off for that \
     reason. vcmalloc advises only dense, warm blocks, for which 'madvise' suffices.",
    source: Source {
        name: "Ceph pull request 31582 (prctl PR_SET_THP_DISABLE)",
        url: "https://github.com/ceph/ceph/pull/31582",
    },
};

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let Some(mode) = machine::huge_pages(&survey.root) else { return Verdict::Fine };
    let Some(kind) = daemon.allocator.kind() else { return Verdict::Fine };
    // The daemon has forbidden them to itself, or the kernel is too old to say.
    if daemon.process.may_use_huge_pages() != Some(true) {
        return Verdict::Fine;
    }
    let madvise = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled    # until the next boot; \
                   for good: transparent_hugepage=madvise on the kernel's command line";
    match mode.as_str() {
        "always" if !kind.is_ours() => Verdict::found(
            format!("huge pages are 'always', and {} does not steer them", kind.name()),
            &[madvise.into()],
        ),
        "never" if kind.is_ours() => {
            let what = "huge pages are 'never', so vcmalloc's option huge_pages has no effect";
            Verdict::Found(vec![Seen::new(what, &[madvise.into()]).with_severity(Severity::Note)])
        }
        _ => Verdict::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    const MODE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

    #[test]
    fn always_is_found_unless_the_daemon_forbids_them_to_itself() {
        let fake = Fake::new();
        let osd = fake.osd();
        fake.assert_fine(&CHECK);
        fake.write(MODE, "[always] madvise never\n");
        assert!(fake.finding(&CHECK).contains("TCMalloc (gperftools, full) does not steer them"));
        osd.status("THP_enabled:\t0\n");
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn ours_is_fine_with_always_and_has_a_use_for_madvise() {
        let fake = Fake::new();
        fake.plain_osd().load(OURS, "ours").environment(&[("LD_PRELOAD", OURS)]);
        fake.write(MODE, "[always] madvise never\n");
        fake.assert_fine(&CHECK);
        fake.write(MODE, "always madvise [never]\n");
        assert!(fake.finding(&CHECK).contains("huge_pages has no effect"));
    }
}
