//! The report's part about the daemons: what serves each, how that is known, and what somebody set.
//!
//! Owns what a block holds. Defaults are left out, and daemons whose blocks are the same share one.

use super::names::names;
use super::settings::{AllocatorSetting, TCMALLOC_BOUND};
use super::survey::Daemon;
use crate::automatic;
use crate::settings::NOT_KNOWN;
use vcm_foreign::Shown;
use vcm_front::page::Page;
use vcm_inspect::allocator::{Allocator, Certainty, Kind};
use vcm_inspect::ceph::Source;
use vcm_inspect::daemon::Role;
use vcmalloc_core::options::{OptionId, spec};

const LABEL: usize = 11;
const DEFAULT: &str = "default";

/// The settings of an OSD that decide about memory and speed.
const SHOWN: [&str; 6] = [
    "osd_objectstore",
    "osd_memory_target",
    "bluestore_cache_autotune",
    "osd_enable_op_tracker",
    "ms_type",
    "debug_osd",
];

type Lines = Vec<(&'static str, String)>;

pub fn put_daemons(text: &mut Page, daemons: &[Daemon]) {
    for group in alike(daemons) {
        text.line("");
        put_group(text, &group);
    }
}

/// A labelled paragraph, wrapped under itself.
pub fn put(text: &mut Page, label: &str, paragraph: &str) {
    text.paragraph(&head(label), paragraph);
}

pub fn head(label: &str) -> String {
    format!("  {label:LABEL$}")
}

pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Daemons of one role whose blocks are the same, in the order of the first of each.
fn alike(daemons: &[Daemon]) -> Vec<Vec<&Daemon>> {
    let mut groups: Vec<(Lines, Vec<&Daemon>)> = Vec::new();
    for daemon in daemons {
        let lines = block(daemon, false);
        let same = |(of_it, group): &&mut (Lines, Vec<&Daemon>)| {
            let is_role = group
                .first()
                .is_some_and(|first| first.role == daemon.role && first.is_contained == daemon.is_contained);
            daemon.role != Role::Other && is_role && *of_it == lines
        };
        match groups.iter_mut().find(same) {
            Some((_, group)) => group.push(daemon),
            None => groups.push((lines, vec![daemon])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Few with their ids; of more the JSON has them.
pub fn titles(daemons: &[&Daemon]) -> String {
    const FEW: usize = 3;
    match daemons.len() > FEW {
        true => names(daemons.iter().map(|daemon| daemon.label.as_str())),
        false => daemons.iter().map(|daemon| daemon.title()).collect::<Vec<_>>().join(", "),
    }
}

fn put_group(text: &mut Page, group: &[&Daemon]) {
    let Some(first) = group.first() else { return };
    let same = if group.len() > 1 { ": the same" } else { "" };
    let contained = if first.is_contained { ", in a container or chroot" } else { "" };
    text.paragraph("", &format!("{}{contained}{same}", titles(group)));
    let mut before = "";
    let is_common = |line: &&String| group.iter().all(|daemon| daemon.not_seen.contains(line));
    for (label, line) in block(first, group.len() == 1) {
        if label == "not seen" && group.len() > 1 {
            let common: Vec<String> = first.not_seen.iter().filter(is_common).cloned().collect();
            let line = if common.len() == first.not_seen.len() {
                common.join("; ")
            } else {
                format!("{line}: --json")
            };
            put(text, label, &line);
            continue;
        }
        put(text, if label == before { "" } else { label }, &line);
        before = label;
    }
    let uses = uses(group);
    if !uses.is_empty() {
        put(text, "uses", &uses);
    }
}

/// All but what it uses; with paths of its own where it stands alone.
fn block(daemon: &Daemon, alone: bool) -> Lines {
    let answer = &daemon.allocator;
    let serving = answer.serving.as_ref().map_or("not known".into(), shown);
    let certainty = if answer.certainty == Certainty::Probable { ", probably" } else { "" };
    let mut lines = vec![("allocator", format!("{serving}{certainty}"))];
    lines.extend(answer.evidence.iter().map(|step| ("allocator", step.clone())));
    let others = answer.others.iter().filter(|other| other.kind != Kind::Glibc).map(shown);
    let others = others.collect::<Vec<_>>().join("; ");
    lines.extend((!others.is_empty()).then_some(("loaded too", others)));
    lines.extend(settings(&daemon.settings).into_iter().map(|line| ("settings", line)));
    if daemon.is_environment_of_now {
        let words = "variables as its memory has them now: it wrote its title over those of its start";
        lines.push(("settings", words.into()));
    }
    lines.extend(ceph(daemon, alone).into_iter().map(|line| ("ceph", line)));
    // Of several it is told below, because paths and numbers in it differ.
    match daemon.not_seen.len() {
        0 => {}
        _ if alone => lines.extend(daemon.not_seen.iter().map(|line| ("not seen", line.clone()))),
        count => lines.push(("not seen", counted(count as u64, "thing"))),
    }
    lines
}

/// The bound of the caches, what is not the default, and what is not known.
fn settings(settings: &[AllocatorSetting]) -> Vec<String> {
    let is_bound = |name: &str| name == spec(OptionId::cache_limit).name || name == TCMALLOC_BOUND;
    let (unknown, known): (Vec<_>, Vec<_>) = settings.iter().partition(|set| set.value == NOT_KNOWN);
    let (told, usual): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|set: &&AllocatorSetting| set.origin != DEFAULT || is_bound(&set.name));
    let line = |set: &AllocatorSetting| {
        let value = automatic::shown(&set.value, set.comes_to.as_deref());
        format!("{} = {value} ({})", set.name, set.origin)
    };
    let mut lines: Vec<String> = told.into_iter().map(line).collect();
    if !usual.is_empty() {
        lines.push(format!("and {} by default ('vcm config' lists them)", usual.len()));
    }
    // They are not known for one reason.
    if let Some(first) = unknown.first() {
        let names: Vec<&str> = unknown.iter().map(|set| set.name.as_str()).collect();
        lines.push(format!("not known, because {}: {}", first.origin, names.join(", ")));
    }
    lines
}

fn shown(allocator: &Allocator) -> String {
    let version = allocator.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    format!("{}{version}, {}", allocator.kind.name(), allocator.object.shown())
}

fn ceph(daemon: &Daemon, alone: bool) -> Vec<String> {
    let Some(settings) = &daemon.ceph else { return Vec::new() };
    let mut lines = vec![match &settings.source {
        Source::Socket(path) if alone => format!("by its socket {}", path.shown()),
        Source::Socket(_) => "by their sockets".into(),
        Source::File(path) => format!("by {}", path.shown()),
        Source::Nothing => "defaults; neither its socket nor ceph.conf can be read".into(),
    }];
    if daemon.role == Role::CephOsd {
        let set = SHOWN.into_iter().filter_map(|name| Some((name, settings.get(name)?)));
        let set = set.filter(|(_, set)| set.origin != DEFAULT);
        lines.extend(set.map(|(name, set)| format!("{name} = {} ({})", set.value, set.origin)));
    }
    lines
}

/// Their use of resources: of several the least and the most.
fn uses(group: &[&Daemon]) -> String {
    type Figure = (fn(&Daemon) -> Option<u64>, fn(&str, bool) -> String);
    fn things(number: &str, is_one: bool, thing: &str) -> String {
        format!("{number} {thing}{}", if is_one { "" } else { "s" })
    }
    const FIGURES: [Figure; 7] = [
        (
            |of| of.process.status_bytes("VmRSS").map(|bytes| bytes >> 20),
            |of, _| format!("{of} MiB resident"),
        ),
        (
            |of| of.process.status_bytes("VmSwap").filter(|bytes| *bytes > 0).map(|bytes| bytes >> 20),
            |of, _| format!("{of} MiB swapped"),
        ),
        (|of| of.process.memory_limit().map(|bytes| bytes >> 20), |of, _| format!("limit {of} MiB")),
        (|of| of.process.threads(), |of, is_one| things(of, is_one, "thread")),
        (|of| of.process.mappings(), |of, is_one| things(of, is_one, "mapping")),
        (|of| of.process.open_files(), |of, is_one| things(of, is_one, "open file")),
        (|of| of.bricks, |of, is_one| things(of, is_one, "brick")),
    ];
    let parts = FIGURES.iter().filter_map(|(figure, words)| {
        let values: Vec<u64> = group.iter().filter_map(|daemon| figure(daemon)).collect();
        let (least, most) = (values.iter().min()?, values.iter().max()?);
        let number = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Some(words(&number, *most == 1))
    });
    parts.collect::<Vec<_>>().join(", ")
}
