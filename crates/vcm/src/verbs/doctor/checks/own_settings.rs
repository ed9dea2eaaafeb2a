//! Options of vcmalloc that the library would not take.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};

pub const CHECK: Check = Check {
    id: "own-settings",
    severity: Severity::Problem,
    looks_for: "options of vcmalloc with a wrong name or value, in the environment or the config file",
    test: Test::Each(every, test),
    why: "The library says so once on stderr at the start and goes on with the default.",
    source: Source { name: "docs/reference/options.md", url: "docs/reference/options.md" },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let mend = [format!("vcm config {}    # value and origin of every option", daemon.process.id)];
    Verdict::of(daemon.setting_warnings.iter().map(|warning| Seen::new(warning.clone(), &mend)).collect())
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
}
