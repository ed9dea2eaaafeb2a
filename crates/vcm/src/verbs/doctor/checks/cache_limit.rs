//! Our own bound, against the CPUs and the memory that the process may use.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_inspect::machine;
use vcmalloc_core::options::{AUTO, OptionId};

pub const CHECK: Check = Check {
    id: "cache-limit",
    severity: Severity::Note,
    looks_for: "vcmalloc's cache_limit: less than 1 MiB a CPU, or more than a quarter of the memory limit",
    test: Test::Each(every, test),
    why: "cache_limit bounds all caches of the process, at any number of threads. Below about 1 MiB for \
          each CPU large blocks go to the central lists (4 to 64 KiB blocks ran at a small part of the rate \
          with 1 MiB in all); a bound near the memory limit leaves no room for what the program keeps.",
    source: Source {
        name: "docs/reference/options.md and results/speed.md",
        url: "docs/reference/options.md#cache_limit",
    },
};

const LEAST_FOR_A_CPU: u64 = 1 << 20;

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let Some((set, bytes)) = daemon.own_setting(OptionId::cache_limit) else { return Verdict::Fine };
    let Some(bytes) = bytes else { return Verdict::NotSeen("its environment".into()) };
    // It follows the CPUs by itself.
    if bytes == AUTO {
        return Verdict::Fine;
    }
    let cpus = machine::cpus(&survey.root).unwrap_or(1);
    let mend = |value: &str| daemon.setting(&set.name, value);
    if bytes < cpus * LEAST_FOR_A_CPU {
        let what = format!("cache_limit = {} ({}) for {cpus} CPUs", set.value, set.origin);
        return Verdict::found(what, &mend("auto"));
    }
    match daemon.process.memory_limit() {
        Some(limit) if bytes > limit / 4 => {
            let what = format!(
                "cache_limit = {} ({}), and its memory limit is {} MiB",
                set.value,
                set.origin,
                limit >> 20
            );
            Verdict::found(what, &mend(&format!("{}M", (limit >> 24).max(1))))
        }
        _ => Verdict::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    fn with(limit: &str) -> Fake {
        let fake = Fake::new();
        let pairs = [("LD_PRELOAD", OURS), ("VCM_CACHE_LIMIT", limit)];
        fake.plain_osd().load(OURS, "ours").environment(&pairs);
        fake
    }

    #[test]
    fn a_bound_below_a_mebibyte_for_each_cpu_is_noted() {
        assert!(with("1M").finding(&CHECK).contains("cache_limit = 1M (environment) for 4 CPUs"));
        with("64M").assert_fine(&CHECK);
        with("auto").assert_fine(&CHECK);
    }

    #[test]
    fn a_bound_near_the_memory_limit_is_noted() {
        let fake = with("256M");
        fake.write("/sys/fs/cgroup/system.slice/ceph-osd@3.service/memory.max", "536870912\n");
        assert!(fake.finding(&CHECK).contains("memory limit is 512 MiB"));
        fake.write("/sys/fs/cgroup/system.slice/ceph-osd@3.service/memory.max", "4294967296\n");
        fake.assert_fine(&CHECK);
    }
}
