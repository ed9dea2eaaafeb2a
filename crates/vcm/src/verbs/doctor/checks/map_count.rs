//! Mappings against vm.max_map_count.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_inspect::machine;

pub const CHECK: Check = Check {
    id: "map-count",
    severity: Severity::Problem,
    looks_for: "a process that has used half of vm.max_map_count",
    test: Test::Each(every, test),
    why: "At the limit mmap fails although memory is free: no new threads, no new memory, and an \
          allocator that cannot split a mapping cannot give memory back. Every thread's stack takes two, \
          and allocators that return single pages take many.",
    source: Source {
        name: "Linux, vm.max_map_count; jemalloc issue 1328, mimalloc issue 1309",
        url: "https://docs.kernel.org/admin-guide/sysctl/vm.html#max-map-count",
    },
};

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let Some(most) = machine::most_mappings(&survey.root) else { return Verdict::Fine };
    let Some(has) = daemon.process.mappings() else { return Verdict::NotSeen("its mappings".into()) };
    if has < most / 2 {
        return Verdict::Fine;
    }
    Verdict::found(
        format!("{has} mappings of {most} (vm.max_map_count)"),
        &["echo vm.max_map_count=1048576 | sudo tee /etc/sysctl.d/60-max-map-count.conf && sudo sysctl --system".into()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn half_of_the_limit_is_found() {
        let fake = Fake::new();
        fake.osd();
        fake.assert_fine(&CHECK);
        fake.write("/proc/sys/vm/max_map_count", "5\n");
        assert_eq!(fake.finding(&CHECK), "3 mappings of 5 (vm.max_map_count)");
    }
}
