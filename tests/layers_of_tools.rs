//! The order of the files of the tools' crates, and the test that keeps it: a file uses only those on floors below its
//! own.

use std::fs;
use std::path::{Path, PathBuf};

use vcmalloc_tests::library::repository;

/// Floors from the bottom to the top. A name stands for a file, or for a folder whose files are not told apart.
type Floors = &'static [&'static [&'static str]];

const CRATES: [(&str, Floors); 13] = [
    ("crates/foreign/src", FOREIGN),
    ("crates/bounds/src", BOUNDS),
    ("crates/inspect/src", INSPECT),
    ("crates/front/src", FRONT),
    ("crates/measure/src", MEASURE),
    ("crates/model/src", MODEL),
    ("crates/profile/src", PROFILE),
    ("crates/replay/src", REPLAY),
    ("crates/report/src", REPORT),
    ("bench/src", BENCH),
    ("crates/labs/src", LABS),
    ("crates/record/src", RECORD),
    ("crates/vcm/src", VCM),
];

const FOREIGN: Floors = &[&["escape", "file", "room"], &["elf", "text"], &["lib"]];

const BOUNDS: Floors = &[&["pages"], &["best_fit", "lifetimes", "pools"], &["bounds"], &["lib"]];

const RECORD: Floors =
    &[&["clock", "layout"], &["rings"], &["remote"], &["memory"], &["drain"], &["ages"], &["lib"]];

const FRONT: Floors = &[&["manual", "page", "say"], &["library"], &["lib"]];

const INSPECT: Floors = &[
    &["root", "elf", "privileges", "testing"],
    &["process", "machine", "command", "dependencies", "systemd"],
    &["block", "condition", "pressure", "readable", "resources", "start", "variables"],
    &["link_map"],
    &["loaded"],
    &["allocator", "daemon", "ceph"],
    &["window::memory"],
    &["window::layout"],
    &["window::counters"],
    &["window::residence", "window::heaps"],
    &["window::pages"],
    &["window::snapshot"],
    &["window::seen"],
    &["window::orders", "window::samples"],
    &["window::watched", "window::recording"],
    &["window"],
    &["ceph::latency", "usage"],
    &["ceph::counters"],
    &["lib"],
];

const PROFILE: Floors = &[
    &["message", "profile"],
    &["calls", "mappings", "pinned", "pprof", "symbols", "switch"],
    &["growth", "flame", "gperftools", "table", "read"],
    &["lib"],
];

const MEASURE: Floors = &[
    &["child", "machine", "nearest", "replace", "statistics", "stop", "tell", "turns"],
    &["allocators", "group", "paired", "progress", "spoken", "tree"],
    &["arm", "crossover"],
    &["stamp"],
    &["witness"],
    &["trial"],
    &["lib"],
];

const MODEL: Floors = &[
    &["ticks", "seen", "lines", "machine"],
    &["counts"],
    &["system", "tape"],
    &["stepper", "no_stepper"],
    &["drive", "pair"],
    &["laws", "patterns"],
    &["page"],
    &["lib"],
    &["bin"],
];

const REPLAY: Floors = &[
    &["fit", "futex", "heap", "heaps", "memory", "numbers", "tenants"],
    &["script"],
    &["cuts", "survey", "replayer"],
    &["director"],
    &["lib"],
];

const REPORT: Floors = &[
    &["colour", "scale", "unit"],
    &["sheet", "table"],
    &["chart::axis"],
    &["chart::axes"],
    &["chart::bars", "chart::histogram", "chart::lines", "chart::points"],
    &["chart"],
    &["page"],
    &["lib"],
];

const BENCH: Floors = &[
    &["report", "memory::shared", "memory::smaps", "memory::pages"],
    &["load"],
    &["harness::busy", "harness::plan", "harness::surroundings", "harness::tracing"],
    &["harness::shelf"],
    &["harness::execute", "harness::instructions", "harness::peers", "harness::demo"],
    &["harness::session"],
    &["harness::summary"],
    &["harness::origin", "harness::picture", "harness::tables"],
    &["programs::choice", "programs::program", "programs::tracer"],
    &["programs::servers", "programs::untuned"],
    &["programs::table"],
    &["programs::columns", "programs::ground", "programs::row"],
    &["programs::inputs", "programs::report"],
    &["programs"],
    &["memory::board", "memory::trace"],
    &["memory::load"],
    &["memory::watch"],
    &["harness", "memory"],
    &["lib"],
    &["bin"],
];

const LABS: Floors = &[
    // The parts of a run, and how it is undone.
    &["engine::beside", "engine::space", "engine::understood"],
    &["engine::identity", "engine::request"],
    &["engine::marked"],
    &["engine::undo"],
    &["engine::journal"],
    &["engine::namespaces"],
    &["engine::session", "engine::neighbours"],
    &["engine::process", "engine::ground"],
    &["engine::packages", "engine::throttle"],
    &["engine::other_system"],
    // The words of an experiment, and what is made of its rows.
    &["engine::cell"],
    &["engine::results"],
    &["engine::experiment"],
    &["engine::lab", "engine::plan", "engine::statistics"],
    &["engine::verdict"],
    &["engine::page"],
    &["engine::dry_run"],
    &["engine::run"],
    &["engine"],
    &["ceph::look::sampling", "ceph::look::found"],
    &["ceph::look"],
    &["ceph::cluster::store"],
    &["ceph::cluster::release", "ceph::cluster::monitor", "ceph::cluster::osd"],
    &["ceph::cluster::shape"],
    &["ceph::cluster::configuration"],
    &["ceph::cluster"],
    &["ceph::cluster::pool", "ceph::cluster::library"],
    &["ceph::cluster::up"],
    &["ceph::load", "ceph::held", "ceph::gateway", "ceph::file_system", "ceph::settings"],
    &["ceph::paired"],
    &["ceph::written"],
    &["ceph::existing", "ceph::experiments"],
    &["ceph"],
    &["ceph::journal_test"],
    &["gluster::helpers", "gluster::release", "gluster::reports"],
    &["gluster::cluster"],
    &["gluster"],
    &["gluster::detach", "gluster::multiplex", "gluster::pools"],
    &["lib"],
    &["arguments", "list"],
    &["main"],
];

const VCM: Floors = &[
    &["config_file", "proof", "reference_page", "signals"],
    &["child"],
    &["whole_file"],
    &["settings", "restart", "trace_file", "drop_in"],
    &["automatic", "cli", "table"],
    &["findings", "arms", "sandbox", "words"],
    &["unit_plan"],
    &["html::origin"],
    &["html::compared", "html::traced"],
    &["html"],
    // No verb uses another one.
    &["verbs::doctor::jemalloc"],
    &["verbs::doctor::settings", "verbs::doctor::names"],
    &["verbs::doctor::survey"],
    &["verbs::doctor::check", "verbs::doctor::commands", "verbs::doctor::blocks"],
    &["verbs::doctor::checks", "verbs::doctor::json", "verbs::doctor::report"],
    &["verbs::doctor::markdown"],
    &["verbs::profile::traced"],
    &["verbs::profile::command", "verbs::profile::process"],
    &["verbs::compare::apply", "verbs::compare::verdict"],
    &["verbs::record::before", "verbs::record::output", "verbs::record::session"],
    &["verbs::record::running"],
    &["verbs::compare::advice", "verbs::compare::arms", "verbs::compare::linked"],
    &["verbs::compare::json", "verbs::compare::report"],
    &["verbs::compare::page"],
    &["verbs::compare::crossover::manager", "verbs::compare::crossover::schedule"],
    &["verbs::compare::crossover::state", "verbs::compare::crossover::units"],
    &["verbs::compare::crossover::arms", "verbs::compare::crossover::health"],
    &["verbs::compare::crossover::daemons"],
    &["verbs::compare::crossover::look"],
    &["verbs::compare::crossover::change", "verbs::compare::crossover::report"],
    &["verbs::compare::crossover::course"],
    &["verbs::compare::crossover"],
    &["verbs::replay::rounds"],
    &["verbs::replay::report"],
    &["verbs::replay::page"],
    &[
        "verbs::bounds",
        "verbs::check",
        "verbs::compare",
        "verbs::completions",
        "verbs::config",
        "verbs::doctor",
        "verbs::enable",
        "verbs::lab",
        "verbs::man",
        "verbs::orders",
        "verbs::profile",
        "verbs::record",
        "verbs::replay",
        "verbs::run",
        "verbs::serve",
        "verbs::stat",
        "verbs::top",
        "verbs::trace",
    ],
    &["verbs"],
    &["main"],
];

#[test]
fn no_file_of_a_tool_uses_one_above_it() {
    let mut wrong = Vec::new();
    for (folder, floors) in CRATES {
        let tree = Tree::read(&repository().join(folder));
        wrong.extend(tree.wrong(floors).into_iter().map(|line| format!("{folder}: {line}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_upward_use_is_found_in_every_form() {
    let files = [
        ("lib", "pub mod low;\npub mod high;\n"),
        ("low", "use crate::high::Tower;\n// use crate::high::Comment;\nfn f() { crate::high::tower() }\n"),
        ("high", "use crate::low;\npub mod wing;\nuse wing::Feather;\n"),
        (
            "high::wing",
            "use crate::{low::Deep, other};\nuse super::Tower;\n#[cfg(test)]\npub mod tests {\nuse super::*; }\n",
        ),
    ];
    let tree = Tree { files: files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec() };
    let wrong = tree.wrong(&[&["low"], &["high::wing"], &["high"], &["lib"]]);
    assert_eq!(
        wrong,
        [
            "low, line 1: uses high, which is not below it",
            "low, line 3: uses high, which is not below it",
            "high::wing, line 2: uses high, which is not below it",
        ]
    );
    assert!(tree.wrong(&[&["low"], &["high"], &["lib"]]).iter().all(|line| line.starts_with("low")));
    let homeless = tree.wrong(&[&["high"], &["lib"]]);
    assert_eq!(homeless, ["low has no floor: give it one in tests/layers_of_tools.rs"]);
    let level = tree.wrong(&[&["low", "high"], &["lib"]]);
    assert_eq!(level.last().unwrap(), "high::wing, line 1: uses low, which is not below it");
}

/// The files of a crate, as modules.
struct Tree {
    files: Vec<(String, String)>,
}

impl Tree {
    fn read(source: &Path) -> Tree {
        let mut files: Vec<(String, String)> = Vec::new();
        for path in rust_files(source) {
            let inside = path.strip_prefix(source).expect("inside the crate").with_extension("");
            let words: Vec<_> = inside.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let words = words.strip_suffix(&["mod".to_owned()]).unwrap_or(&words);
            files.push((words.join("::"), fs::read_to_string(&path).expect("a source file can be read")));
        }
        assert!(!files.is_empty(), "no files in {}", source.display());
        Tree { files }
    }

    fn wrong(&self, floors: &[&[&str]]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, text) in self.files.iter().filter(|(name, _)| !name.ends_with("tests")) {
            let Some((unit, floor)) = place(name, floors) else {
                wrong.push(format!("{name} has no floor: give it one in tests/layers_of_tools.rs"));
                continue;
            };
            for (line, used) in self.uses(name, text) {
                let below = place(&used, floors).is_none_or(|(other, on)| on < floor || other == unit);
                if !below {
                    wrong.push(format!("{name}, line {line}: uses {used}, which is not below it"));
                }
            }
        }
        wrong
    }

    /// The modules that a file names, with their lines, each as exactly as it is named. Its tests may use anything.
    fn uses(&self, name: &str, text: &str) -> Vec<(usize, String)> {
        let uncommented: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
        let code = uncommented.join("\n");
        let is_tests = |(at, _): &(usize, &str)| {
            code[*at..].lines().nth(1).is_some_and(|line| line.ends_with("mod tests {"))
        };
        let end = code.match_indices("#[cfg(test)]").find(is_tests).map_or(code.len(), |(at, _)| at);
        let code = &code[..end];
        let own: Vec<&str> = name.split("::").filter(|word| *word != "lib" && *word != "main").collect();
        let mut found = Vec::new();
        let starts = ["crate::", "super::", "use "].into_iter().flat_map(|start| code.match_indices(start));
        for (at, start) in starts {
            let line = 1 + code[..at].matches('\n').count();
            for mut words in paths(&code[at + start.len()..]) {
                let (mut base, least) = match start {
                    // Those behind the first are its words.
                    "super::" if code[..at].ends_with("super::") => continue,
                    "super::" => (own.iter().rev().skip(1).rev().copied().collect(), 0),
                    "use " => (own.clone(), own.len() + 1),
                    _ => (Vec::new(), 1),
                };
                let more = words.iter().take_while(|word| *word == "super").count();
                if start == "super::" {
                    base.truncate(base.len().saturating_sub(more));
                    words.drain(..more);
                }
                found.extend(self.module(&base, &words, least).map(|module| (line, module)));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// The file that a path leads to: as many of its words as name one, `least` words in all.
    fn module(&self, base: &[&str], words: &[String], least: usize) -> Option<String> {
        let whole: Vec<&str> = base.iter().copied().chain(words.iter().map(String::as_str)).collect();
        let named = (least.max(base.len())..=whole.len()).rev().map(|end| whole[..end].join("::"));
        named.into_iter().find(|name| self.files.iter().any(|(file, _)| file == name))
    }
}

/// The unit that a module belongs to, and its floor.
fn place<'a>(name: &str, floors: &[&[&'a str]]) -> Option<(&'a str, usize)> {
    let units =
        floors.iter().enumerate().flat_map(|(floor, units)| units.iter().map(move |unit| (*unit, floor)));
    let holds =
        |unit: &str| name == unit || name.strip_prefix(unit).is_some_and(|rest| rest.starts_with("::"));
    units.filter(|(unit, _)| holds(unit)).max_by_key(|(unit, _)| unit.len())
}

/// The paths that begin here, `a::{b, c::d}` as two.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            let members = members(group).into_iter().flat_map(|member| paths(member.trim_start()));
            return members.map(|tail| words.iter().cloned().chain(tail).collect()).collect();
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        words.push(rest[..end].to_owned());
        match rest[end..].strip_prefix("::") {
            Some(more) => rest = more,
            None => return vec![words],
        }
    }
}

/// The parts between the commas of a group that was opened.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut members) = (0, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&group[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    members
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let below = |path: PathBuf| if path.is_dir() { rust_files(&path) } else { vec![path] };
    let all = files.into_iter().flat_map(below);
    all.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}
