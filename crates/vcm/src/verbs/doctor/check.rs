//! A check, and the answers that it can give.
//!
//! A check is one declaration: when it applies, what it tests, why that matters and who says so. The text
//! of a finding that depends on what was seen, and the commands that mend it, come from the test.

use super::survey::{Daemon, Survey};
use vcm_inspect::daemon::Role;

pub use crate::cli::doctor::Severity;

/// The report, issue or document that a check was learned from.
pub struct Source {
    pub name: &'static str,
    pub url: &'static str,
}

pub struct Check {
    pub id: &'static str,
    /// Of its findings, unless one says otherwise.
    pub severity: Severity,
    /// The thing that it looks for, as the end of "looks for ...".
    pub looks_for: &'static str,
    pub test: Test,
    pub why: &'static str,
    pub source: Source,
}

pub enum Test {
    /// Asked once for each daemon to which it applies.
    Each(fn(&Daemon) -> bool, fn(&Daemon, &Survey) -> Verdict),
    /// Asked once, about the machine or all daemons together.
    Once(fn(&Survey) -> Verdict),
}

pub enum Verdict {
    Fine,
    /// It could not be looked at; why.
    NotSeen(String),
    Found(Vec<Seen>),
}

/// One thing that is wrong.
pub struct Seen {
    /// None: as the check says.
    pub severity: Option<Severity>,
    pub what: String,
    /// Commands, or words behind a `#`.
    pub mend: Vec<String>,
}

impl Seen {
    pub fn new(what: impl Into<String>, mend: &[String]) -> Self {
        Seen { severity: None, what: what.into(), mend: mend.to_vec() }
    }

    pub fn with_severity(self, severity: Severity) -> Self {
        Seen { severity: Some(severity), ..self }
    }
}

impl Verdict {
    pub fn found(what: impl Into<String>, mend: &[String]) -> Self {
        Verdict::Found(vec![Seen::new(what, mend)])
    }

    /// Fine where nothing was seen.
    pub fn of(seen: Vec<Seen>) -> Self {
        if seen.is_empty() { Verdict::Fine } else { Verdict::Found(seen) }
    }
}

pub fn every(_: &Daemon) -> bool {
    true
}

pub fn ceph(daemon: &Daemon) -> bool {
    daemon.role.is_ceph()
}

pub fn osd(daemon: &Daemon) -> bool {
    daemon.role == Role::CephOsd
}

pub fn bricks(daemon: &Daemon) -> bool {
    daemon.role == Role::Glusterfsd
}

/// A check's finding about one daemon or about the machine.
pub struct Finding {
    pub check: &'static Check,
    pub severity: Severity,
    /// The daemon by its place in the survey; none for the machine.
    pub daemon: Option<usize>,
    pub what: String,
    pub mend: Vec<String>,
}

/// The results of all checks together.
#[derive(Default)]
pub struct Findings {
    pub found: Vec<Finding>,
    pub not_seen: Vec<Unseen>,
}

/// A check that could not be made.
#[derive(Debug)]
pub struct Unseen {
    /// The daemon by its place in the survey; none for the machine.
    pub daemon: Option<usize>,
    /// Its title, empty for the machine.
    title: String,
    /// The check, and why.
    pub what: String,
}

impl Unseen {
    pub fn line(&self) -> String {
        let whose = if self.title.is_empty() { String::new() } else { format!("{}: ", self.title) };
        format!("{whose}{}", self.what)
    }
}

pub fn run(checks: &'static [&'static Check], survey: &Survey) -> Findings {
    let mut findings = Findings::default();
    for check in checks {
        match check.test {
            Test::Once(test) => findings.take(check, None, "", test(survey)),
            Test::Each(applies, test) => {
                for (at, daemon) in survey.daemons.iter().enumerate().filter(|(_, daemon)| applies(daemon)) {
                    findings.take(check, Some(at), &daemon.title(), test(daemon, survey));
                }
            }
        }
    }
    // Worst first; checks keep the order of their declaration.
    findings.found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

impl Findings {
    fn take(&mut self, check: &'static Check, daemon: Option<usize>, title: &str, verdict: Verdict) {
        match verdict {
            Verdict::Fine => {}
            Verdict::NotSeen(why) => {
                let what = format!("{}: {why}", check.id);
                self.not_seen.push(Unseen { daemon, title: title.into(), what });
            }
            Verdict::Found(seen) => self.found.extend(seen.into_iter().map(|seen| Finding {
                check,
                severity: seen.severity.unwrap_or(check.severity),
                daemon,
                what: seen.what,
                mend: seen.mend,
            })),
        }
    }
}
