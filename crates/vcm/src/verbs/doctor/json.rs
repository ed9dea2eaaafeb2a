//! The report as JSON. The names of the fields are a promise to readers; docs/reference/doctor.md has them.

use super::check::{Findings, Severity, Unseen};
use super::settings::AllocatorSetting;
use super::survey::{Daemon, Survey};
use serde::Serialize;
use std::collections::BTreeMap;
use vcm_foreign::Shown;
use vcm_inspect::allocator::{Allocator, Certainty};
use vcm_inspect::ceph::{Setting, Source as SettingsSource};
use vcm_inspect::machine;

/// Grows when a field changes its meaning or goes away; not when one is added.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    machine: Machine,
    daemons: Vec<DaemonEntry<'a>>,
    findings: Vec<FindingEntry<'a>>,
    not_seen: Vec<String>,
}

#[derive(Serialize)]
struct Machine {
    cpus: Option<u64>,
    memory_bytes: Option<u64>,
    swap_bytes: Option<u64>,
    huge_pages: Option<String>,
    governors: BTreeMap<String, usize>,
    max_map_count: Option<u64>,
    nr_open: Option<u64>,
}

#[derive(Serialize)]
struct DaemonEntry<'a> {
    pid: i32,
    role: &'static str,
    name: &'a str,
    unit: Option<&'a str>,
    program: Option<String>,
    contained: bool,
    allocator: AllocatorEntry<'a>,
    settings: &'a [AllocatorSetting],
    threads: Option<u64>,
    resident_bytes: Option<u64>,
    swapped_bytes: Option<u64>,
    memory_limit_bytes: Option<u64>,
    mappings: Option<u64>,
    open_files: Option<u64>,
    bricks: Option<u64>,
    ceph: Option<CephEntry<'a>>,
    not_seen: &'a [String],
}

#[derive(Serialize)]
struct AllocatorEntry<'a> {
    name: Option<&'static str>,
    version: Option<&'a str>,
    object: Option<String>,
    certainty: &'static str,
    evidence: &'a [String],
    asks_malloc_extension: bool,
    others: Vec<OtherEntry<'a>>,
}

#[derive(Serialize)]
struct OtherEntry<'a> {
    name: &'static str,
    version: Option<&'a str>,
    object: String,
}

#[derive(Serialize)]
struct CephEntry<'a> {
    /// `socket`, `file` or `none`.
    source: &'static str,
    path: Option<String>,
    /// Settings that somebody changed.
    changed: BTreeMap<&'a str, ValueEntry>,
}

#[derive(Serialize)]
struct ValueEntry {
    value: String,
    origin: String,
}

#[derive(Serialize)]
struct FindingEntry<'a> {
    check: &'static str,
    severity: Severity,
    /// None: about the machine.
    pid: Option<i32>,
    name: Option<&'a str>,
    what: &'a str,
    why: &'static str,
    source: SourceEntry,
    mend: &'a [String],
}

#[derive(Serialize)]
struct SourceEntry {
    name: &'static str,
    url: &'static str,
}

pub fn text(survey: &Survey, findings: &Findings) -> Result<String, serde_json::Error> {
    let document = Document {
        version: VERSION,
        machine: Machine {
            cpus: machine::cpus(&survey.root),
            memory_bytes: machine::memory(&survey.root),
            swap_bytes: machine::swap(&survey.root),
            huge_pages: machine::huge_pages(&survey.root),
            governors: machine::governors(&survey.root),
            max_map_count: machine::most_mappings(&survey.root),
            nr_open: machine::most_open_files(&survey.root),
        },
        daemons: survey.daemons.iter().map(daemon).collect(),
        findings: findings
            .found
            .iter()
            .map(|finding| {
                let about = finding.daemon.and_then(|at| survey.daemons.get(at));
                let source = &finding.check.source;
                FindingEntry {
                    check: finding.check.id,
                    severity: finding.severity,
                    pid: about.map(|daemon| daemon.process.id),
                    name: about.map(|daemon| daemon.label.as_str()),
                    what: &finding.what,
                    why: finding.check.why,
                    source: SourceEntry { name: source.name, url: source.url },
                    mend: &finding.mend,
                }
            })
            .collect(),
        not_seen: findings.not_seen.iter().map(Unseen::line).collect(),
    };
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

fn daemon(daemon: &Daemon) -> DaemonEntry<'_> {
    let process = &daemon.process;
    DaemonEntry {
        pid: process.id,
        role: daemon.role.name(),
        name: &daemon.label,
        unit: daemon.unit_name.as_deref(),
        program: daemon.program.as_ref().map(|path| path.shown().to_string()),
        contained: daemon.is_contained,
        allocator: allocator(daemon),
        settings: &daemon.settings,
        threads: process.threads(),
        resident_bytes: process.status_bytes("VmRSS"),
        swapped_bytes: process.status_bytes("VmSwap"),
        memory_limit_bytes: process.memory_limit(),
        mappings: process.mappings(),
        open_files: process.open_files(),
        bricks: daemon.bricks,
        ceph: daemon.ceph.as_ref().map(|settings| {
            let (source, path) = match &settings.source {
                SettingsSource::Socket(path) => ("socket", Some(path.shown().to_string())),
                SettingsSource::File(path) => ("file", Some(path.shown().to_string())),
                SettingsSource::Nothing => ("none", None),
            };
            let entry =
                |set: &'_ Setting| ValueEntry { value: set.value.clone(), origin: set.origin.clone() };
            CephEntry {
                source,
                path,
                changed: settings.changed().map(|(name, set)| (name, entry(set))).collect(),
            }
        }),
        not_seen: &daemon.not_seen,
    }
}

fn allocator(daemon: &Daemon) -> AllocatorEntry<'_> {
    let answer = &daemon.allocator;
    let serving = answer.serving.as_ref();
    AllocatorEntry {
        name: serving.map(|allocator| allocator.kind.name()),
        version: serving.and_then(|allocator| allocator.version.as_deref()),
        object: serving.map(|allocator| allocator.object.shown().to_string()),
        certainty: match answer.certainty {
            Certainty::Certain => "certain",
            Certainty::Probable => "probable",
            Certainty::Unknown => "unknown",
        },
        evidence: &answer.evidence,
        asks_malloc_extension: answer.asks_malloc_extension,
        others: answer.others.iter().map(other).collect(),
    }
}

fn other(allocator: &Allocator) -> OtherEntry<'_> {
    OtherEntry {
        name: allocator.kind.name(),
        version: allocator.version.as_deref(),
        object: allocator.object.shown().to_string(),
    }
}
