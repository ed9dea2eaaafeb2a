//! A unit's filter of system calls that ends a daemon for what vcmalloc asks.

use crate::sandbox;
use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;

pub const CHECK: Check = Check {
    id: "unit-filter",
    severity: Severity::Problem,
    looks_for: "a daemon on vcmalloc whose unit's SystemCallFilter= kills it, or fails, for a call that vcmalloc \
     makes with these options",
    test: Test::Each(every, test),
    why: "A unit's filter precedes the library and is not readable from inside, so the first such call kills the \
     daemon, maybe days later. 'vcm enable' sets the options that fit the filter.",
    source: Source { name: "docs/reference/system-calls.md", url: "docs/reference/system-calls.md" },
};

fn test(daemon: &Daemon, survey: &Survey) -> Verdict {
    let Some(unit) = &daemon.unit else { return Verdict::Fine };
    if !daemon.allocator.kind().is_some_and(|kind| kind.is_ours()) {
        return Verdict::Fine;
    }
    let variables = daemon.environment.iter().flatten();
    let given: Vec<(String, String)> =
        variables.map(|(name, value)| (name.shown().printed(), value.shown().printed())).collect();
    match sandbox::fit(&survey.root, unit, &given) {
        Err(refusal) => Verdict::found(refusal.message, &[]),
        Ok(fitted) if fitted.variables.is_empty() => Verdict::Fine,
        Ok(fitted) => {
            let without = |(name, value): &(String, String)| format!("{name}={value}");
            let missing: Vec<String> = fitted.variables.iter().map(without).collect();
            let what = format!(
                "its unit's SystemCallFilter= kills it for calls that it makes without {}",
                missing.join(" ")
            );
            Verdict::found(what, &daemon.enabling())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    fn with_filter(lines: &str, variables: &[(&str, &str)]) -> Fake {
        let fake = Fake::new();
        fake.brick().load(OURS, "ours").environment(&[&[("LD_PRELOAD", OURS)], variables].concat());
        fake.write(
            "/lib/systemd/system/glusterd.service",
            &format!("[Service]\nExecStart=/usr/sbin/glusterd\n{lines}\n"),
        );
        fake
    }

    #[test]
    fn a_filter_that_ends_it_is_found_until_the_option_is_set() {
        for (lines, option) in [
            ("SystemCallFilter=@system-service\nSystemCallFilter=~close_range", ("VCM_SYSTEM_CALLS", "few")),
            ("SystemCallFilter=~membarrier", ("VCM_FRONT", "locked")),
        ] {
            let found = with_filter(lines, &[]).finding(&CHECK);
            assert!(found.contains(&format!("without {}={}", option.0, option.1)), "{found}");
            with_filter(lines, &[option]).assert_fine(&CHECK);
        }
        with_filter("SystemCallFilter=@system-service", &[]).assert_fine(&CHECK);
    }

    #[test]
    fn a_filter_that_no_option_helps_with_names_the_calls() {
        let found = with_filter("SystemCallFilter=~madvise", &[]).finding(&CHECK);
        assert!(found.contains("kills it for madvise"), "{found}");
    }
}
