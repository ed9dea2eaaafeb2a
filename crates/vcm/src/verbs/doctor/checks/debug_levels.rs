//! Ceph's debug levels: logging that was left on, and what is gathered in memory.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, ceph};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_inspect::ceph::{Settings, Source as SettingsSource};

pub const CHECK: Check = Check {
    id: "debug-levels",
    severity: Severity::Problem,
    looks_for: "debug levels above 5 for the log, or levels gathered in memory on the path of every \
                operation",
    test: Test::Each(ceph, test),
    why: "Each line is formatted and allocated, even if it is never read. Levels above 5 write gigabytes per \
     hour; the second number keeps lines in memory for a crash. All tuning reports for flash begin with 0/0, at \
     the price of less information after a crash.",
    source: Source {
        name: "Ceph, Logging and Debugging; Tuning for All Flash Deployments",
        url: "https://docs.ceph.com/en/latest/rados/troubleshooting/log-and-debug/",
    },
};

/// No default writes more than this to the log.
const MOST_FOR_THE_LOG: u32 = 5;
/// The subsystems that every operation of an OSD passes.
const ON_THE_PATH: [&str; 9] = [
    "debug_ms",
    "debug_osd",
    "debug_bluestore",
    "debug_bdev",
    "debug_bluefs",
    "debug_rocksdb",
    "debug_filestore",
    "debug_journal",
    "debug_optracker",
];

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let Some(settings) = &daemon.ceph else { return Verdict::Fine };
    let levels: Vec<(&str, u32, u32)> = settings
        .beginning("debug_")
        .filter_map(|(name, set)| levels(&set.value).map(|(log, memory)| (name, log, memory)))
        .collect();
    let loud: Vec<&str> =
        levels.iter().filter(|(_, log, _)| *log > MOST_FOR_THE_LOG).map(|(name, _, _)| *name).collect();
    let mut seen = Vec::new();
    if !loud.is_empty() {
        let shown: Vec<String> =
            loud.iter().filter_map(|name| Some(format!("{name} = {}", settings.get(name)?.value))).collect();
        let mend: Vec<String> = loud.iter().flat_map(|name| reset(daemon, settings, name)).collect();
        seen.push(Seen::new(format!("logging was left on: {}", shown.join(", ")), &mend));
    }
    // Without the socket the levels that nobody set are not known.
    let gathered: Vec<&str> = levels
        .iter()
        .filter(|(name, log, memory)| ON_THE_PATH.contains(name) && *memory > 0 && *log <= MOST_FOR_THE_LOG)
        .map(|(name, _, _)| *name)
        .collect();
    if !gathered.is_empty() && matches!(settings.source, SettingsSource::Socket(_)) {
        let what = format!("lines are gathered in memory on every operation's path: {}", gathered.join(", "));
        let mend: Vec<String> = gathered
            .iter()
            .map(|name| format!("ceph config set {} {name} 0/0", daemon.role.ceph_kind()))
            .collect();
        seen.push(Seen::new(what, &mend).with_severity(Severity::Note));
    }
    Verdict::of(seen)
}

/// The place where it was set decides how it goes.
fn reset(daemon: &Daemon, settings: &Settings, name: &str) -> Vec<String> {
    let (label, kind) = (&daemon.label, daemon.role.ceph_kind());
    match settings.get(name).map(|set| set.origin).as_deref() {
        Some("mon") => vec![format!("ceph config rm {kind} {name}; ceph config rm {label} {name}")],
        Some("override") => vec![format!("ceph tell {label} config unset {name}")],
        _ => vec![
            format!("# take '{name}' out of ceph.conf or the command line; until the next start:"),
            format!("ceph tell {label} config set {name} 1/5"),
        ],
    }
}

/// `1/5`, or one number for both.
fn levels(text: &str) -> Option<(u32, u32)> {
    match text.split_once('/') {
        Some((log, memory)) => Some((log.trim().parse().ok()?, memory.trim().parse().ok()?)),
        None => text.trim().parse().ok().map(|both| (both, both)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;
    use serde_json::json;

    #[test]
    fn logging_that_was_left_on_is_found_and_gathering_is_noted() {
        let fake = Fake::new();
        let shown =
            json!({ "debug_osd": "20/20", "debug_ms": "0/5", "debug_rocksdb": "4/0", "debug_mgr": "2/5" });
        fake.osd().socket(shown, &["debug_osd"]);
        let found = fake.findings(&CHECK);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|what| what.ends_with("left on: debug_osd = 20/20")), "{found:?}");
        assert!(found.iter().any(|what| what.ends_with("path: debug_ms")), "{found:?}");
    }

    #[test]
    fn silent_daemons_are_fine() {
        let fake = Fake::new();
        fake.osd().socket(json!({ "debug_osd": "0/0", "debug_ms": "0/0", "debug_none_hour": "x" }), &[]);
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn without_the_socket_only_the_file_is_judged() {
        let fake = Fake::new();
        fake.osd();
        fake.write("/etc/ceph/ceph.conf", "[osd]\ndebug osd = 10\ndebug ms = 1/5\n");
        assert!(fake.finding(&CHECK).contains("debug_osd = 10"));
    }
}
