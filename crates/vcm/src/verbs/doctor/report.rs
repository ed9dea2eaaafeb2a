//! The report as text: what runs, then what is wrong, worst first.
//!
//! Owns the layout. Daemons that look the same are shown once, and a check's findings stand together, so that
//! a machine with twenty OSDs is read as fast as one with two.

use super::check::{Check, Finding, Findings, Severity};
use super::settings::AllocatorSetting;
use super::survey::{Daemon, Survey};
use crate::automatic;
use crate::inspect::allocator::{Allocator, Certainty};
use crate::inspect::ceph::Source as SettingsSource;
use crate::inspect::daemon::Role;
use crate::page::Page;
use crate::settings::NOT_KNOWN;

const LABEL: usize = 11;

/// The settings of an OSD that decide about memory and speed.
const SHOWN: [&str; 6] = [
    "osd_objectstore",
    "osd_memory_target",
    "bluestore_cache_autotune",
    "osd_enable_op_tracker",
    "ms_type",
    "debug_osd",
];

pub fn list(checks: &[&Check]) -> String {
    let width = checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    let mut page = Page::of_entries();
    for check in checks {
        page.paragraph(&format!("{:width$}  {:7}  ", check.id, check.severity.name()), check.looks_for);
    }
    page.into_text()
}

pub fn text(survey: &Survey, findings: &Findings, mut page: Page) -> String {
    let text = &mut page;
    if survey.daemons.is_empty() {
        text.line("No Ceph or GlusterFS daemon runs here. For another process: vcm doctor PID\n");
    }
    for group in alike(&survey.daemons) {
        put_daemons(text, &group);
    }
    put_summary(text, survey, findings);
    let mut rest: &[Finding] = &findings.found;
    while let Some(first) = rest.first() {
        let same =
            |finding: &&Finding| finding.check.id == first.check.id && finding.severity == first.severity;
        let (these, others): (Vec<&Finding>, Vec<&Finding>) = rest.iter().partition(same);
        put_finding(text, survey, &these);
        // The findings are sorted by severity and stand by check, so the others begin behind these.
        rest = rest.get(rest.len() - others.len()..).unwrap_or_default();
    }
    if !findings.not_seen.is_empty() {
        text.line("\nCould not be checked:");
        findings.not_seen.iter().for_each(|line| put(text, "", line));
    }
    page.into_text()
}

/// Daemons with the same role, allocator and settings, in the order of the first of each.
fn alike(daemons: &[Daemon]) -> Vec<Vec<&Daemon>> {
    let mut groups: Vec<Vec<&Daemon>> = Vec::new();
    let object = |daemon: &Daemon| daemon.allocator.serving.as_ref().map(|found| found.object.clone());
    for daemon in daemons {
        let same = |group: &&mut Vec<&Daemon>| {
            group.first().is_some_and(|first| {
                first.role == daemon.role
                    && first.role != Role::Other
                    && object(first) == object(daemon)
                    && first.allocator.certainty == daemon.allocator.certainty
                    && first.settings == daemon.settings
                    && first.not_seen.len() == daemon.not_seen.len()
            })
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(daemon),
            None => groups.push(vec![daemon]),
        }
    }
    groups
}

fn put_daemons(text: &mut Page, group: &[&Daemon]) {
    let Some(first) = group.first() else { return };
    let titles: Vec<String> = group.iter().map(|daemon| daemon.title()).collect();
    let contained = if first.is_contained { ", in a container or chroot" } else { "" };
    text.paragraph("", &format!("{}{contained}", titles.join(", ")));
    let answer = &first.allocator;
    let serving = answer.serving.as_ref().map_or("not known".into(), shown);
    let certainty = if answer.certainty == Certainty::Probable { ", probably" } else { "" };
    put(text, "allocator", &format!("{serving}{certainty}"));
    answer.evidence.iter().for_each(|step| put(text, "", step));
    let own: Vec<String> = answer
        .others
        .iter()
        .filter(|other| other.kind != crate::inspect::allocator::Kind::Glibc)
        .map(shown)
        .collect();
    if !own.is_empty() {
        put(text, "loaded too", &own.join("; "));
    }
    put_settings(text, &first.settings);
    for daemon in group {
        let name = if group.len() > 1 { format!("{}: ", daemon.label) } else { String::new() };
        put(
            text,
            if std::ptr::eq(*daemon, *first) { "uses" } else { "" },
            &format!("{name}{}", uses(daemon)),
        );
    }
    put_ceph(text, first);
    first.not_seen.iter().for_each(|line| put(text, "not seen", line));
    text.line("");
}

fn put_settings(text: &mut Page, settings: &[AllocatorSetting]) {
    let (unknown, known): (Vec<_>, Vec<_>) = settings.iter().partition(|set| set.value == NOT_KNOWN);
    let mut lines: Vec<String> = known
        .into_iter()
        .map(|set| {
            let value = automatic::shown(&set.value, set.comes_to.as_deref());
            format!("{} = {value} ({})", set.name, set.origin)
        })
        .collect();
    // They are not known for one reason.
    if let Some(first) = unknown.first() {
        let names: Vec<&str> = unknown.iter().map(|set| set.name.as_str()).collect();
        lines.push(format!("not known, because {}: {}", first.origin, names.join(", ")));
    }
    for (at, line) in lines.iter().enumerate() {
        put(text, if at == 0 { "settings" } else { "" }, line);
    }
}

fn shown(allocator: &Allocator) -> String {
    let version = allocator.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    format!("{}{version}, {}", allocator.kind.name(), allocator.object.display())
}

fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn uses(daemon: &Daemon) -> String {
    let process = &daemon.process;
    let mut parts = Vec::new();
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    parts.extend(process.status_bytes("VmRSS").map(|bytes| format!("{} resident", mebibytes(bytes))));
    let swapped = process.status_bytes("VmSwap").filter(|bytes| *bytes > 0);
    parts.extend(swapped.map(|bytes| format!("{} swapped", mebibytes(bytes))));
    parts.extend(process.memory_limit().map(|bytes| format!("limit {}", mebibytes(bytes))));
    parts.extend(process.threads().map(|count| counted(count, "thread")));
    parts.extend(process.mappings().map(|count| counted(count, "mapping")));
    parts.extend(process.open_files().map(|count| counted(count, "open file")));
    parts.extend(daemon.bricks.map(|count| counted(count, "brick")));
    parts.join(", ")
}

fn put_ceph(text: &mut Page, daemon: &Daemon) {
    let Some(settings) = &daemon.ceph else { return };
    let from = match &settings.source {
        SettingsSource::Socket(path) => format!("by its socket {}", path.display()),
        SettingsSource::File(path) => format!("by {}", path.display()),
        SettingsSource::Nothing => "defaults; neither its socket nor ceph.conf can be read".into(),
    };
    put(text, "ceph", &from);
    if daemon.role != Role::CephOsd {
        return;
    }
    for name in SHOWN {
        if let Some(set) = settings.get(name) {
            put(text, "", &format!("{name} = {} ({})", set.value, set.origin));
        }
    }
}

fn put_summary(text: &mut Page, survey: &Survey, findings: &Findings) {
    let unknown: Vec<String> = survey.without_allocator().map(|daemon| daemon.title()).collect();
    // A check's findings stand together, so they count as one.
    let count = |severity: Severity| {
        let mut checks: Vec<&str> = findings
            .found
            .iter()
            .filter(|finding| finding.severity == severity)
            .map(|finding| finding.check.id)
            .collect();
        checks.dedup();
        checks.len() as u64
    };
    let parts: Vec<String> = [Severity::Danger, Severity::Problem, Severity::Note]
        .into_iter()
        .filter(|severity| count(*severity) > 0)
        .map(|severity| counted(count(severity), severity.name()))
        .collect();
    if !unknown.is_empty() {
        text.paragraph("", &format!("Not known which allocator serves {}.", unknown.join(", ")));
    }
    if !parts.is_empty() {
        text.line(&parts.join(", "));
    } else if unknown.is_empty() {
        text.line("Nothing to report.");
    }
}

/// All findings of one check, of one severity.
fn put_finding(text: &mut Page, survey: &Survey, findings: &[&Finding]) {
    let Some(first) = findings.first() else { return };
    text.line(&format!("\n{} {}", first.severity.name().to_uppercase(), first.check.id));
    let name = |finding: &Finding| {
        let daemon = finding.daemon.and_then(|at| survey.daemons.get(at));
        daemon.map_or(String::new(), |daemon| daemon.label.clone())
    };
    let mut said: Vec<(&str, Vec<String>)> = Vec::new();
    for finding in findings {
        match said.iter_mut().find(|(what, _)| *what == finding.what) {
            Some((_, names)) => names.push(name(finding)),
            None => said.push((&finding.what, vec![name(finding)])),
        }
    }
    for (at, (what, names)) in said.iter().enumerate() {
        let names = names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { names } else { format!("{names}: ") };
        put(text, if at == 0 { "what" } else { "" }, &format!("{names}{what}"));
    }
    put(text, "why", first.check.why);
    put(text, "source", &format!("{} <{}>", first.check.source.name, first.check.source.url));
    let mut lines: Vec<&String> = Vec::new();
    for line in findings.iter().flat_map(|finding| &finding.mend) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    const MOST: usize = 8;
    for (at, line) in lines.iter().take(MOST).enumerate() {
        let head = format!("  {:LABEL$}", if at == 0 { "mend" } else { "" });
        match line.strip_prefix("# ") {
            Some(words) => text.wrapped(&format!("{head}# "), &format!("  {:LABEL$}# ", ""), words),
            // A command stays on one line, to be copied.
            None => text.line(&format!("{head}{line}")),
        }
    }
    if lines.len() > MOST {
        put(text, "", &format!("# and so on for the others; all {} lines are in --json", lines.len()));
    }
}

/// A labelled paragraph, wrapped under itself.
fn put(text: &mut Page, label: &str, paragraph: &str) {
    text.paragraph(&format!("  {label:LABEL$}"), paragraph);
}

#[cfg(test)]
mod tests {
    use super::super::{check, checks};
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn the_report_names_allocator_settings_and_findings() {
        let fake = Fake::new();
        fake.osd().threads(215);
        fake.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        for words in [
            "osd.3 (pid 103)\n  allocator  TCMalloc (gperftools, full) 2.10, /usr/lib/libtcmalloc.so.4\n",
            "libtcmalloc.so.4; the first of 3 objects in lookup order\n             that exports malloc (number 2)",
            "settings   TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES = 33554432 (default)",
            "osd_memory_target = 4294967296 (default)",
            "\n2 problems, 1 note\n",
            "\nPROBLEM thread-cache-share\n  what       osd.3: 32 MiB (the default) for 215 threads: 152 KiB each\n",
            "\nPROBLEM cpu-governor\n  what       the frequency governor is powersave",
            "  mend       sudo cpupower",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        let longest = text.lines().filter(|line| !line.contains("mend")).map(str::len).max().unwrap();
        assert!(longest < 140, "{longest}");
    }

    #[test]
    fn the_report_fits_a_narrow_terminal_and_commands_stay_whole() {
        let fake = Fake::new();
        fake.osd().threads(215);
        fake.process(105, "/usr/bin/ceph-osd -f --cluster ceph --id 4", "osd-linked")
            .load(crate::verbs::doctor::fake::TCMALLOC, "tcmalloc")
            .status("Threads:\t1\n");
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(60));
        let is_whole = |line: &&str| line.contains("sudo ") || line.contains("ceph ") || line.contains('<');
        for line in text.lines().filter(|line| !is_whole(line)) {
            // A word that is longer than the column has a line to itself.
            assert!(line.len() <= 60 || line.rfind(' ').is_some_and(|at| at <= 15), "{line}\n{text}");
        }
        assert!(text.contains("1 thread") && !text.contains("1 threads"), "{text}");
    }

    #[test]
    fn what_two_daemons_have_in_common_is_said_once() {
        let fake = Fake::new();
        fake.osd().threads(215);
        let other = fake.process(105, "/usr/bin/ceph-osd -f --cluster ceph --id 4", "osd-linked");
        other.load(crate::verbs::doctor::fake::TCMALLOC, "tcmalloc").threads(215);
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        assert!(text.starts_with("osd.3 (pid 103), osd.4 (pid 105)\n"), "{text}");
        assert!(text.contains("osd.3, osd.4: osd_enable_op_tracker is on (default)"), "{text}");
        assert_eq!(text.matches("The op tracker notes").count(), 1);
        assert_eq!(text.matches("\nPROBLEM ").count(), 1, "{text}");
        assert!(text.contains("\n1 problem, 1 note\n"), "a heading counts as one: {text}");
    }

    #[test]
    fn settings_that_a_lost_environment_hides_are_not_told_as_defaults() {
        let fake = Fake::new();
        fake.plain_osd().load(crate::verbs::doctor::fake::OURS, "ours").environment(&[]);
        fake.write("/etc/vcmalloc.conf", "retain = 1M\n");
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        for words in [
            "settings   retain = 1M (config file, /etc/vcmalloc.conf, unless a variable says otherwise)\n",
            "not known, because its environment cannot be read: cache_limit, front,",
            "not seen   its environment: it is empty",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(!text.contains("(default)\n             front"), "{text}");
    }

    #[test]
    fn the_automatic_cache_limit_is_told_in_bytes() {
        let fake = Fake::new();
        let osd = fake.plain_osd();
        osd.load(crate::verbs::doctor::fake::OURS, "ours");
        osd.environment(&[("LD_PRELOAD", crate::verbs::doctor::fake::OURS)]).status("Cpus_allowed:\tff\n");
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        assert!(text.contains("settings   cache_limit = auto (128M for 8 CPUs) (default)\n"), "{text}");
    }

    #[test]
    fn a_machine_without_daemons_says_so() {
        let fake = Fake::new();
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        assert!(text.starts_with("No Ceph or GlusterFS daemon runs here."), "{text}");
        assert!(text.ends_with("Nothing to report.\n"), "{text}");
    }
}
