//! The CPUs' frequency governor.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict};
use crate::verbs::doctor::survey::Survey;
use vcm_inspect::machine;

pub const CHECK: Check = Check {
    id: "cpu-governor",
    severity: Severity::Problem,
    looks_for: "CPUs whose frequency governor is not 'performance'",
    test: Test::Once(test),
    why: "Storage daemons sleep and wake thousands of times a second. A governor that follows the load lowers \
     the clock in between, so each operation begins on a slow CPU, and every measurement includes the governor.",
    source: Source {
        name: "Linux, CPU Performance Scaling; Ceph, Hardware Recommendations",
        url: "https://docs.kernel.org/admin-guide/pm/cpufreq.html",
    },
};

fn test(survey: &Survey) -> Verdict {
    let slow: Vec<String> = machine::governors(&survey.root)
        .into_iter()
        .filter(|(governor, _)| governor != "performance")
        .map(|(governor, count)| format!("{governor} on {count} CPUs"))
        .collect();
    if slow.is_empty() {
        return Verdict::Fine;
    }
    Verdict::found(
        format!("the frequency governor is {}", slow.join(", ")),
        &["sudo cpupower frequency-set --governor performance    # package linux-cpupower".into()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn a_governor_that_follows_the_load_is_found() {
        let fake = Fake::new();
        fake.assert_fine(&CHECK);
        fake.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
        assert_eq!(fake.finding(&CHECK), "the frequency governor is powersave on 1 CPUs");
    }

    #[test]
    fn a_machine_that_does_not_steer_frequencies_is_fine() {
        let fake = Fake::new();
        fake.remove("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        fake.assert_fine(&CHECK);
    }
}
