//! The order of the layers, and the test that keeps it: a layer uses only those below it.

use std::fs;
use std::path::{Path, PathBuf};

use vcmalloc_tests::library::repository;

#[path = "layers/files.rs"]
mod files;
use files::{circles, sources};

/// From the bottom to the top. This is the one place that holds the order: a folder of the core is a layer.
const LAYERS: [&str; 16] = [
    "base", "os", "options", "class", "pages", "large", "central", "cache", "tenants", "upkeep", "sources",
    "policy", "engine", "observe", "heap", "hardened",
];

/// Layers that are lower than their neighbours' order says: they may use these and nothing else.
const NARROWER: [(&str, &[&str]); 5] = [
    ("os", &["base"]),
    ("options", &["base"]),
    ("class", &["base"]),
    ("policy", &["base", "class"]),
    ("observe", &["base", "os", "pages"]),
];

/// Inside a layer files may call each other in one direction only. A call between files of one type is no import, so the
/// circles are looked for in the calls themselves.
#[test]
fn no_files_of_a_layer_call_each_other_in_a_circle() {
    let core = repository().join("crates/core/src");
    let found = LAYERS.iter().flat_map(|layer| {
        // The system's calls stand in a folder of their own.
        let (folder, module) = match *layer {
            "os" => (core.join("os/linux"), "crate::os::linux".to_string()),
            layer => (core.join(layer), format!("crate::{layer}")),
        };
        circles(&module, &sources(&rust_files(&folder), &folder))
    });
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The engine is what policies and observers are for, and knows neither.
#[test]
fn the_engine_knows_neither_keys_nor_observers() {
    for file in rust_files(&repository().join("crates/core/src/engine")) {
        let text = fs::read_to_string(&file).expect("a source file can be read");
        let code = files::code_of(&text);
        for word in ["observe", "profile", "probing", "recording", "is_watched", "keys", "Keys"] {
            assert!(!code.contains(word), "{}: {word}", file.display());
        }
    }
}

#[test]
fn no_layer_uses_one_above_it() {
    let source = repository().join("crates/core/src");
    let mut upward = Vec::new();
    let mut files = 0;
    for file in rust_files(&source) {
        let Some(layer) = layer_of(&source, &file) else { continue };
        files += 1;
        // Tests of a layer may use those above it.
        if files::is_test(&file) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file can be read");
        for (line, used) in uses(&files::code_of(&text)) {
            if let Err(reason) = may_use(&layer, &used) {
                let place = file.strip_prefix(repository()).expect("inside the repository");
                upward.push(format!("{}:{line}: {reason}", place.display()));
            }
        }
    }
    assert!(files > 0, "no layer found in {}", source.display());
    assert!(upward.is_empty(), "the order from the bottom is {}\n{}", LAYERS.join(", "), upward.join("\n"));
}

#[test]
fn every_module_of_the_core_is_a_layer() {
    let root = fs::read_to_string(repository().join("crates/core/src/lib.rs")).expect("the core has a root");
    // Indented ones belong to the cut-down tree that loom explores.
    let modules = root.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| {
        let line = line.trim().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    let strangers: Vec<&str> = modules.filter(|module| !LAYERS.contains(module)).collect();
    assert!(strangers.is_empty(), "give {strangers:?} a place in LAYERS of tests/layers.rs");
}

#[test]
fn pages_and_the_picture_of_the_core_list_the_layers_in_their_order() {
    let read = |name: &str| {
        fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let between = |text: String, from: &str, to: &str| {
        let part = text.split_once(from).and_then(|(_, rest)| rest.split_once(to));
        part.map(|(part, _)| part.to_owned()).unwrap_or_else(|| panic!("no list between {from:?} and {to:?}"))
    };
    let sentence = between(read("CONTRIBUTING.md"), "from the bottom:", ". `tests/layers.rs`");
    let named: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, LAYERS, "CONTRIBUTING.md");
    let table = between(read("docs/design/README.md"), "From the bottom to the top:", "\n\nAbove the core");
    let rows: Vec<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(rows, LAYERS, "docs/design/README.md");
    let picture = between(read("crates/core/src/lib.rs"), "//! ```text\n", "//! ```\n");
    let mut drawn: Vec<&str> = picture.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    drawn.reverse();
    assert_eq!(drawn, LAYERS, "crates/core/src/lib.rs");
}

#[test]
fn upward_lines_are_found_in_every_form() {
    let text = "use crate::heap::Heap;\npub use crate::{base::Bytes, cache::{self, Slab}, options};\n\
                // use crate::heap;\nlet x = crate::central::Central::new();\n\
                use crate::{\n    large,\n    watch::Event,\n};\npub(crate) fn f() {}\n";
    let found: Vec<(usize, String)> = uses(text);
    let expected =
        [(1, "heap"), (2, "base"), (2, "cache"), (2, "options"), (4, "central"), (5, "large"), (5, "watch")];
    assert_eq!(found, expected.map(|(line, layer)| (line, layer.to_string())));
    assert!(may_use("cache", "central").is_ok() && may_use("cache", "cache").is_ok());
    assert!(may_use("central", "cache").is_err() && may_use("options", "os").is_err());
}

/// The list of locks (`base/locks.rs`) would not know a second lock of one rank, and a child might not have it right.
#[test]
fn each_rank_of_the_list_of_locks_has_one_mutex() {
    let source = repository().join("crates/core/src");
    let list = fs::read_to_string(source.join("base/locks.rs")).expect("the list can be read");
    let list =
        list.split("\nlocks! {\n").nth(1).and_then(|rest| rest.split("\n}").next()).expect("it has a list");
    let mut guarded = Vec::new();
    for file in rust_files(&source) {
        let text = fs::read_to_string(&file).expect("a source file can be read");
        for guards in text.lines().filter_map(guarded_by_field) {
            // Types of one name may be different ones where a file has its own.
            let own = text.contains(&format!("struct {guards} {{"));
            guarded.push((own.then(|| file.clone()), guards.to_string()));
        }
    }
    guarded.sort();
    let different = guarded.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1;
    assert_eq!((guarded.len(), different), (list.lines().count(), list.lines().count()), "{guarded:#?}");
    for file in rust_files(&repository().join("crates/exports/src")) {
        let text = fs::read_to_string(&file).expect("a source file can be read");
        assert!(!text.contains("Mutex<"), "{}: Heap::export is for this", file.display());
    }
}

/// `State` in the line `    state: Mutex<State, O>,` of a struct.
fn guarded_by_field(line: &str) -> Option<&str> {
    let (name, kind) = line.strip_prefix("    ")?.split_once(": ")?;
    let is_field =
        !name.starts_with(' ') && name.split(' ').next_back()?.chars().all(|c| c.is_lowercase() || c == '_');
    let guarded = kind.trim_start_matches("&'a ").strip_prefix("Mutex<")?.split_once(',')?.0;
    (is_field && guarded != "T").then_some(guarded)
}

fn may_use(layer: &str, used: &str) -> Result<(), String> {
    let place = |name| LAYERS.iter().position(|known| *known == name);
    let (Some(own), Some(other)) = (place(layer), place(used)) else { return Ok(()) };
    let narrower = NARROWER.iter().find(|(name, _)| *name == layer);
    match narrower {
        _ if own == other => Ok(()),
        Some((_, allowed)) if !allowed.contains(&used) => {
            Err(format!("{layer} may use only {allowed:?}, not {used}"))
        }
        _ if other < own => Ok(()),
        _ => Err(format!("{layer} uses {used}, which is above it")),
    }
}

/// The modules of the crate that the text names as `crate::...`, with their lines.
fn uses(text: &str) -> Vec<(usize, String)> {
    let uncommented: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let code = uncommented.join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let line = 1 + code[..at].matches('\n').count();
        let rest = &code[at + "crate::".len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => top_level_names(group),
            None => vec![leading_word(rest)],
        };
        found.extend(names.into_iter().filter(|name| !name.is_empty()).map(|name| (line, name)));
    }
    found
}

/// The first word of each member of a `{...}` group.
fn top_level_names(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut member = String::new();
    let mut names = Vec::new();
    for character in group.chars() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(leading_word(&std::mem::take(&mut member))),
            _ if depth == 0 => member.push(character),
            _ => {}
        }
    }
    names.push(leading_word(&member));
    names
}

fn leading_word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The layer a file belongs to: the folder or file right under the crate's source.
fn layer_of(source: &Path, file: &Path) -> Option<String> {
    let inside = file.strip_prefix(source).ok()?;
    let first = inside.components().next()?.as_os_str().to_string_lossy();
    let name = first.strip_suffix(".rs").unwrap_or(&first);
    LAYERS.contains(&name).then(|| name.to_string())
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
