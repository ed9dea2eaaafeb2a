//! A cache bound that leaves each thread too little.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::settings::{TCMALLOC_BOUND, TCMALLOC_DEFAULT_BOUND};
use crate::verbs::doctor::survey::{Daemon, Survey};

pub const CHECK: Check = Check {
    id: "thread-cache-share",
    severity: Severity::Problem,
    looks_for: "TCMalloc's cache bound divided by the threads: less than 512 KiB each",
    test: Test::Each(every, test),
    why: "TCMalloc divides one bound among all threads. With a small share threads use the central lists under \
     locks: 33 % of an OSD's CPU at 1 MiB against 11 % at 32 MiB, \
          and a quarter of the speed in 2015. Newer versions keep at least 512 KiB per thread, so the bound does \
          not hold. vcmalloc's caches belong to CPUs.",
    source: Source {
        name: "The Ceph and TCMalloc performance story (2015); gperftools issue 1511 (2024)",
        url: "https://github.com/gperftools/gperftools/issues/1511",
    },
};

/// The share that newer versions keep for each thread whatever the bound.
const LEAST_SHARE: u64 = 512 << 10;
/// A setting that serves so many threads is worth proposing; more needs another allocator.
const MOST_BOUND: u64 = 1 << 30;

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    if !daemon.allocator.kind().is_some_and(|kind| kind.is_gperftools()) {
        return Verdict::Fine;
    }
    let Some(threads) = daemon.process.threads() else { return Verdict::NotSeen("its threads".into()) };
    let set = daemon.variable(TCMALLOC_BOUND).and_then(|value| value.to_str()?.parse::<u64>().ok());
    let bound = set.unwrap_or(TCMALLOC_DEFAULT_BOUND);
    let share = bound / threads.max(1);
    if share >= LEAST_SHARE {
        return Verdict::Fine;
    }
    let by = if set.is_some() { TCMALLOC_BOUND } else { "the default" };
    let what = format!("{} MiB ({by}) for {threads} threads: {} KiB each", bound >> 20, share >> 10);
    let wanted = (threads * LEAST_SHARE).next_power_of_two();
    let mut mend = Vec::new();
    if wanted <= MOST_BOUND {
        let file = if daemon.role.is_ceph() { "/etc/default/ceph" } else { "its unit" };
        mend.push(format!(
            "# {TCMALLOC_BOUND}={wanted} in {file} and a restart, or caches that do not depend on threads:"
        ));
    }
    mend.extend(daemon.enabling());
    Verdict::found(what, &mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn many_threads_on_the_default_bound_are_found() {
        let fake = Fake::new();
        fake.osd().threads(215);
        assert_eq!(fake.finding(&CHECK), "32 MiB (the default) for 215 threads: 152 KiB each");
    }

    #[test]
    fn a_small_bound_is_found_and_a_large_one_is_fine() {
        let fake = Fake::new();
        let osd = fake.osd();
        osd.environment(&[(TCMALLOC_BOUND, "1048576")]);
        assert!(fake.finding(&CHECK).contains("1 MiB (TCMALLOC"));
        osd.threads(215).environment(&[(TCMALLOC_BOUND, "134217728")]);
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn other_allocators_and_few_threads_are_fine() {
        let fake = Fake::new();
        fake.osd().threads(64);
        fake.assert_fine(&CHECK);
        fake.plain_osd().threads(5000);
        fake.remove("/usr/lib/libtcmalloc.so.4");
        fake.assert_fine(&CHECK);
    }
}
