//! Options of vcmalloc that the library would not take.

use crate::config_file::MAY_NOT_READ;
use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};

pub const CHECK: Check = Check {
    id: "own-settings",
    severity: Severity::Problem,
    looks_for: "options of vcmalloc with a wrong name or value, in the environment or the config file, and a \
                config file that the process may not read",
    test: Test::Each(every, test),
    why: "The library reports it once on stderr at start and uses the default.",
    source: Source { name: "docs/reference/options.md", url: "docs/reference/options.md" },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let warnings = &daemon.setting_warnings;
    // Values in effect are known from its memory too, a wrong name is not.
    let is_start_known = daemon.environment.is_some() || daemon.process.was_privileged();
    if warnings.is_empty() && !is_start_known && daemon.settings.iter().any(|set| set.own.is_some()) {
        return Verdict::NotSeen("its environment".into());
    }
    // One restart for all of them, behind the last.
    let seen = warnings.iter().enumerate().map(|(at, warning)| {
        let mut mend = vec![place(daemon, warning)];
        if at + 1 == warnings.len() {
            mend.extend(daemon.reloading());
            mend.push(format!("vcm config {}    # value and origin of every option", daemon.process.id));
        }
        Seen::new(warning, &mend)
    });
    Verdict::of(seen.collect())
}

/// The place where it is mended, before the restart that follows.
fn place(daemon: &Daemon, warning: &str) -> String {
    let variable = warning.strip_prefix("vcmalloc: ").and_then(|words| words.split(':').next());
    match variable {
        Some(name) => {
            let file = daemon.settings_file_of(name).unwrap_or_else(|| "the place that sets it".into());
            format!("# correct {name} in {file}, then:")
        }
        None if warning.ends_with(MAY_NOT_READ) => {
            "# let its user read that file, and enter the folders above it, then:".into()
        }
        None => "# correct that line of the config file, then:".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    #[test]
    fn a_misspelt_option_is_found_and_a_right_one_is_fine() {
        let fake = Fake::new();
        let osd = fake.plain_osd();
        osd.load(OURS, "ours").environment(&[("LD_PRELOAD", OURS), ("VCM_CACHE_LIMT", "1M")]);
        assert!(fake.finding(&CHECK).contains("did you mean"));
        osd.environment(&[("LD_PRELOAD", OURS), ("VCM_CACHE_LIMIT", "1M")]);
        fake.assert_fine(&CHECK);
        fake.write("/etc/vcmalloc.conf", "nonsense\n");
        assert!(fake.finding(&CHECK).contains("vcmalloc.conf:1"));
    }

    #[test]
    fn a_config_file_that_the_process_may_not_read_is_found() {
        let fake = Fake::new();
        fake.write("/etc/vcmalloc.conf", "cache_limit = 1M\n");
        let file = fake.root.path("/etc/vcmalloc.conf");
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let other = nix::unistd::geteuid().as_raw() + 1;
        let osd = fake.plain_osd();
        osd.load(OURS, "ours").environment(&[("LD_PRELOAD", OURS)]);
        fake.assert_fine(&CHECK);
        let ids = format!("{other} {other} {other} {other}");
        osd.status(&format!("Uid:\t{ids}\nGid:\t{ids}\nCapEff:\t0\nCapBnd:\t0\n"));
        assert!(fake.finding(&CHECK).contains("the process may not read it"));
        let survey = fake.survey();
        let daemon = &survey.daemons[0];
        assert!(daemon.settings.iter().all(|set| set.origin == "default"), "{:?}", daemon.settings);
        assert!(place(daemon, &daemon.setting_warnings[0]).contains("let its user read that file"));
    }

    #[test]
    fn the_mend_names_the_file_that_sets_it() {
        let fake = Fake::new();
        fake.write("/etc/default/ceph", "VCM_CACHE_LIMT=1M\n");
        let osd = fake.plain_osd();
        osd.load(OURS, "ours").environment(&[("LD_PRELOAD", OURS), ("VCM_CACHE_LIMT", "1M")]);
        let mend = fake.mend(&CHECK);
        assert_eq!(mend[0], "# correct VCM_CACHE_LIMT in /etc/default/ceph, then:");
        assert!(mend[1].ends_with("systemctl restart ceph-osd@3"), "{mend:?}");
    }

    #[test]
    fn two_wrong_variables_are_both_corrected_before_the_one_restart() {
        let fake = Fake::new();
        let osd = fake.plain_osd();
        let pairs = [("LD_PRELOAD", OURS), ("VCM_CACHE_LIMT", "1M"), ("VCM_JANITOR", "maybe")];
        osd.load(OURS, "ours").environment(&pairs);
        let mend = fake.mend(&CHECK);
        let correct = |line: &&String| line.starts_with("# correct VCM_");
        assert_eq!(mend.iter().take_while(correct).count(), 2, "{mend:?}");
        assert_eq!(mend.iter().filter(|line| line.contains("systemctl restart")).count(), 1, "{mend:?}");
        assert!(mend.last().unwrap().starts_with("vcm config 103"), "{mend:?}");
    }

    #[test]
    fn behind_a_lost_environment_nothing_is_said_to_be_right() {
        let fake = Fake::new();
        fake.plain_osd().load(OURS, "ours").environment(&[]);
        for check in [&CHECK, &super::super::cache_limit::CHECK] {
            assert_eq!(fake.not_seen(check), [format!("osd.3 (pid 103): {}: its environment", check.id)]);
        }
    }
}
