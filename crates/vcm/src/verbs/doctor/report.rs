//! The report as text: totals, what is wrong, worst first, then what runs.
//!
//! Owns the layout. A check's findings stand together, and what several daemons have in common is said once, so
//! that a machine with twenty OSDs is read as fast as one with two.

use super::blocks::{counted, head, put, put_daemons, titles};
use super::check::{Check, Finding, Findings, Severity, Unseen};
use super::names::names;
use super::survey::{Daemon, Survey};
use vcm_front::page::Page;
use vcm_inspect::daemon::Role;

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
    put_totals(text, survey, findings);
    let mut rest: &[Finding] = &findings.found;
    while let Some(first) = rest.first() {
        let same =
            |finding: &&Finding| finding.check.id == first.check.id && finding.severity == first.severity;
        let (these, others): (Vec<&Finding>, Vec<&Finding>) = rest.iter().partition(same);
        put_finding(text, survey, &these);
        // The findings are sorted by severity and stand by check, so the others begin behind these.
        rest = rest.get(rest.len() - others.len()..).unwrap_or_default();
    }
    put_not_seen(text, survey, &findings.not_seen);
    put_daemons(text, &survey.daemons);
    page.into_text()
}

/// Writes what was looked at, and what that came to.
fn put_totals(text: &mut Page, survey: &Survey, findings: &Findings) {
    if survey.daemons.is_empty() {
        text.line("No Ceph or GlusterFS daemon runs here. For another process: vcm doctor PID");
    }
    let unknown: Vec<&Daemon> = survey.without_allocator().collect();
    // A check's findings stand together, so they count as one.
    let count = |severity: Severity| {
        let of_it = findings.found.iter().filter(|finding| finding.severity == severity);
        let mut checks: Vec<&str> = of_it.map(|finding| finding.check.id).collect();
        checks.dedup();
        checks.len() as u64
    };
    let mut parts: Vec<String> = [Severity::Danger, Severity::Problem, Severity::Note]
        .into_iter()
        .filter(|severity| count(*severity) > 0)
        .map(|severity| counted(count(severity), severity.name()))
        .collect();
    if parts.is_empty() && unknown.is_empty() {
        parts
            .push(if survey.daemons.is_empty() { "Nothing to report." } else { "nothing to report." }.into());
    }
    let looked_at = looked_at(survey);
    let looked_at = if looked_at.is_empty() { looked_at } else { format!("{looked_at}: ") };
    if !parts.is_empty() {
        text.paragraph("", &format!("{looked_at}{}", parts.join(", ")));
    }
    if !unknown.is_empty() {
        text.paragraph("", &format!("Not known which allocator serves {}.", titles(&unknown)));
    }
}

/// `24 ceph-osd, 1 ceph-mon`.
fn looked_at(survey: &Survey) -> String {
    let mut kinds: Vec<(Role, u64)> = Vec::new();
    for daemon in &survey.daemons {
        match kinds.iter_mut().find(|(role, _)| *role == daemon.role) {
            Some((_, count)) => *count += 1,
            None => kinds.push((daemon.role, 1)),
        }
    }
    let words = kinds.into_iter().map(|(role, count)| match (role, count) {
        (Role::Other, 1) => "1 process".into(),
        (Role::Other, _) => format!("{count} processes"),
        _ => format!("{count} {}", role.name()),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Checks that could not be made, each reason once with the daemons that it is about.
fn put_not_seen(text: &mut Page, survey: &Survey, not_seen: &[Unseen]) {
    if not_seen.is_empty() {
        return;
    }
    text.line("\nCould not be checked:");
    let said = by_words(survey, not_seen.iter().map(|unseen| (unseen.what.as_str(), unseen.daemon)));
    said.iter().for_each(|line| put(text, "", line));
}

/// Of what a check says in other words about each daemon only the first are told.
const MOST_SAID: usize = 4;

/// Each text once, behind the names of the daemons that it is about.
fn by_words<'a>(survey: &Survey, all: impl Iterator<Item = (&'a str, Option<usize>)>) -> Vec<String> {
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for (what, daemon) in all {
        let name = daemon.and_then(|at| survey.daemons.get(at)).map(|daemon| daemon.label.as_str());
        match said.iter_mut().find(|(known, _)| *known == what) {
            Some((_, names)) => names.extend(name),
            None => said.push((what, name.into_iter().collect())),
        }
    }
    let line = |(what, of): &(&str, Vec<&str>)| match names(of.iter().copied()) {
        names if names.is_empty() => (*what).to_string(),
        names => format!("{names}: {what}"),
    };
    let mut lines: Vec<String> = said.iter().take(MOST_SAID).map(line).collect();
    let rest = names(said.iter().skip(MOST_SAID).flat_map(|(_, of)| of.iter().copied()));
    if !rest.is_empty() {
        lines.push(format!("and with other numbers {rest} (--json has all)"));
    }
    lines
}

/// All findings of one check, of one severity.
fn put_finding(text: &mut Page, survey: &Survey, findings: &[&Finding]) {
    let Some(first) = findings.first() else { return };
    text.line(&format!("\n{} {}", first.severity.name().to_uppercase(), first.check.id));
    let said = by_words(survey, findings.iter().map(|finding| (finding.what.as_str(), finding.daemon)));
    for (at, line) in said.iter().enumerate() {
        put(text, if at == 0 { "what" } else { "" }, line);
    }
    put(text, "why", first.check.why);
    put(text, "source", &format!("{} <{}>", first.check.source.name, first.check.source.url));
    put_mend(text, findings);
}

/// The lines that mend it, each once. If they are many, the first daemons' stand for all; those of one are never
/// cut, since the last may start again what the first has stopped.
fn put_mend(text: &mut Page, findings: &[&Finding]) {
    const MOST: usize = 8;
    let mut lines: Vec<&String> = Vec::new();
    let mut shown = None;
    for finding in findings {
        let before = lines.len();
        let new = finding.mend.iter().filter(|line| !lines.contains(line)).collect::<Vec<_>>();
        lines.extend(new);
        if shown.is_none() && before > 0 && lines.len() > MOST {
            shown = Some(before);
        }
    }
    for (at, line) in lines.iter().take(shown.unwrap_or(lines.len())).enumerate() {
        let first = head(if at == 0 { "mend" } else { "" });
        match line.strip_prefix("# ") {
            Some(words) => text.wrapped(&format!("{first}# "), &format!("{}# ", head("")), words),
            // A command stays on one line, to be copied.
            None => text.line(&format!("{first}{line}")),
        }
    }
    if shown.is_some() {
        put(text, "", &format!("# and so on for the others; all {} lines are in --json", lines.len()));
    }
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
            "1 ceph-osd: 2 problems, 1 note\n\nPROBLEM thread-cache-share\n  what       osd.3: 32 MiB",
            "\n\nosd.3 (pid 103)\n  allocator  TCMalloc (gperftools, full) 2.10, /usr/lib/libtcmalloc.so.4\n",
            "libtcmalloc.so.4; the first of 3 objects in lookup order\n             that exports malloc (number 2)",
            "settings   TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES = 33554432 (default)",
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
            .threads(1);
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(60));
        let is_whole = |line: &&str| line.contains("sudo ") || line.contains("ceph ") || line.contains('<');
        for line in text.lines().filter(|line| !is_whole(line)) {
            // A word that is longer than the column has a line to itself.
            assert!(line.len() <= 60 || line.rfind(' ').is_some_and(|at| at <= 15), "{line}\n{text}");
        }
        assert!(text.contains("1 to 215 threads"), "{text}");
    }

    #[test]
    fn what_two_daemons_have_in_common_is_said_once() {
        let fake = Fake::new();
        fake.osd().threads(215);
        let other = fake.process(105, "/usr/bin/ceph-osd -f --cluster ceph --id 4", "osd-linked");
        other.load(crate::verbs::doctor::fake::TCMALLOC, "tcmalloc").threads(215);
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        assert!(text.starts_with("2 ceph-osd: 1 problem, 1 note\n"), "a heading counts as one: {text}");
        assert!(text.contains("\n\nosd.3 (pid 103), osd.4 (pid 105): the same\n"), "{text}");
        assert!(text.contains("osd.3, osd.4: osd_enable_op_tracker is on (default)"), "{text}");
        assert_eq!(text.matches("The op tracker records").count(), 1);
        assert_eq!(text.matches("\nPROBLEM ").count(), 1, "{text}");
    }

    #[test]
    fn of_many_daemons_the_report_is_as_long_as_of_one() {
        let fake = Fake::new();
        fake.write("/proc/meminfo", "MemTotal: 268435456 kB\n");
        for number in 0..24 {
            let command = format!("/usr/bin/ceph-osd -f --cluster ceph --id {number}");
            let osd = fake.process(200 + number, &command, "osd-linked");
            osd.load(crate::verbs::doctor::fake::TCMALLOC, "tcmalloc").threads(200 + number as u64);
        }
        let survey = fake.survey();
        let findings = check::run(&checks::ALL, &survey);
        for width in [40, 80] {
            let text = text(&survey, &findings, Page::of_width(width));
            let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}\n{text}"));
            assert!(text.starts_with("24 ceph-osd: 1 problem, 1 note\n"), "{text}");
            assert!(at("PROBLEM thread-cache-share") < at("NOTE op-tracker"));
            assert!(at("NOTE op-tracker") < at("\n\nosd.0 to osd.23: the same\n"));
            let what = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(what.contains("200 to 223 threads"), "{text}");
            assert!(what.contains("osd.3: 32 MiB (the default) for 203 threads: 161 KiB each"), "{text}");
            assert!(what.contains("and with other numbers osd.4 to osd.23"), "{text}");
            assert!(text.lines().count() < 60 * 80 / width, "{text}");
        }
    }

    #[test]
    fn what_was_stopped_is_started_again_also_where_the_rest_is_left_out() {
        let fake = Fake::new();
        for number in 0..5 {
            let command = format!("/usr/bin/ceph-osd -f --cluster ceph --id {number}");
            let osd = fake.process(200 + number, &command, "osd-linked");
            osd.load(crate::verbs::doctor::fake::TCMALLOC, "tcmalloc");
            fake.link("/dev/sda", &format!("/var/lib/ceph/osd/ceph-{number}/block"));
        }
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        let count = |words: &str| text.matches(words).count();
        assert!(count("systemctl stop ceph-osd@") > 0 && text.contains("# and so on"), "{text}");
        assert_eq!(count("systemctl stop ceph-osd@"), count("systemctl start ceph-osd@"), "{text}");
    }

    #[test]
    fn of_settings_only_what_is_not_the_default_is_shown() {
        let fake = Fake::new();
        let osd = fake.plain_osd();
        osd.load(crate::verbs::doctor::fake::OURS, "ours");
        osd.environment(&[("LD_PRELOAD", crate::verbs::doctor::fake::OURS), ("VCM_RETAIN", "1M")]);
        fake.write("/etc/ceph/ceph.conf", "[osd]\nosd memory target = 2G\n");
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        for words in [
            "settings   cache_limit = auto",
            "retain = 1M (environment)",
            "osd_memory_target = 2G (/etc/ceph/ceph.conf)",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        for words in ["osd_objectstore", "double_free_check", "bluestore_cache_autotune = "] {
            assert!(!text.contains(words), "{words}\n{text}");
        }
    }

    #[test]
    fn settings_that_a_lost_environment_hides_are_not_told_as_defaults() {
        let fake = Fake::new();
        fake.plain_osd().load(crate::verbs::doctor::fake::OURS, "ours").environment(&[]);
        fake.write("/etc/vcmalloc.conf", "retain = 1M\n");
        let survey = fake.survey();
        let text = text(&survey, &check::run(&checks::ALL, &survey), Page::of_width(100));
        for words in [
            "settings   retain = 1M (config file, /etc/vcmalloc.conf, unless a variable overrides it)\n",
            "not known, because its environment cannot be read: cache_limit, front,",
            "not seen   its environment: it is empty, in its memory too",
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
