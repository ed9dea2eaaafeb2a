//! A place for last words that will not get any, which would be noticed when they are wanted.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::say;
use vcmalloc_core::options::OptionId;

pub const CHECK: Check = Check {
    id: "last-words",
    severity: Severity::Note,
    looks_for: "last_words with a missing folder or one that the process may not write, or without profile",
    test: Test::Each(every, test),
    why: "The report is written once, just before an out-of-memory kill: too late to notice a missing or \
     unwritable folder. Without profile=on it names no call sites.",
    source: Source { name: "docs/design/last-words.md", url: "docs/reference/options.md#last_words" },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let Some((set, value)) = daemon.own_setting(OptionId::last_words) else { return Verdict::Fine };
    match value {
        None => return Verdict::NotSeen("its environment".into()),
        Some(0) => return Verdict::Fine,
        Some(_) => (),
    }
    let folder = Path::new(&set.value).parent().unwrap_or(Path::new("/"));
    // A name with a number or a name in it is another one for each process.
    let is_plain = !folder.shown().printed().contains('%');
    if is_plain && daemon.process.can_make_files_in(folder) == Some(false) {
        let what = format!(
            "last_words = {} ({}): it cannot make a file in {}",
            set.value,
            set.origin,
            folder.shown()
        );
        let mend = format!(
            "sudo install -d -m 750 -o THE_USER_IT_RUNS_AS {}",
            say::typed([folder.shown().printed()])
        );
        return Verdict::found(what, &[mend]);
    }
    match daemon.own_setting(OptionId::profile) {
        Some((_, Some(0))) => {
            let what = format!(
                "last_words = {} ({}), and profile is off: it will name no call site",
                set.value, set.origin
            );
            Verdict::found(what, &daemon.setting("profile", "on"))
        }
        _ => Verdict::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    fn with(path: &str, profile: &str) -> Fake {
        let fake = Fake::new();
        let pairs = [("LD_PRELOAD", OURS), ("VCM_LAST_WORDS", path), ("VCM_PROFILE", profile)];
        let osd = fake.plain_osd();
        osd.load(OURS, "ours").environment(&pairs);
        // Nobody's: others' bits hold.
        osd.status("Uid:\t1\t1\t1\t65533\nGid:\t1\t1\t1\t65533\nCapEff:\t0\n");
        fake.write("/var/log/open/x", "");
        fake
    }

    fn open_up(fake: &Fake, folder: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        let path = fake.survey().root.path(folder);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_is_missing_or_closed_is_noted() {
        assert!(with("/nowhere/words", "on").finding(&CHECK).contains("it cannot make a file in /nowhere"));
        let fake = with("/var/log/open/%p.words", "on");
        open_up(&fake, "/var/log/open", 0o755);
        assert!(fake.finding(&CHECK).contains("it cannot make a file in /var/log/open"));
        open_up(&fake, "/var/log/open", 0o777);
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn words_without_a_profile_are_noted() {
        let fake = with("/var/log/open/words", "off");
        open_up(&fake, "/var/log/open", 0o777);
        assert!(fake.finding(&CHECK).contains("it will name no call site"));
        with("off", "off").assert_fine(&CHECK);
    }
}
