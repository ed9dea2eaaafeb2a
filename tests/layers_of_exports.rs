//! The order of the files of crates/exports, as the picture at the head of each folder's root shows it: a file names only
//! files in rows below its own. And the two ways to the heap are kept apart.

use std::fs;
use std::path::Path;

use vcmalloc_tests::library::repository;

/// The rows of the picture in a root's head, from the top, and the files of the folder with their code.
struct Folder {
    rows: Vec<Vec<String>>,
    files: Vec<(String, String)>,
}

fn folder(path: &Path, root: &str) -> Folder {
    let head = fs::read_to_string(path.join(root)).expect("the folder has a root");
    let rows = head.lines().skip_while(|line| *line != "//! ```text").skip(1);
    let names = |line: &str| {
        let names = line.trim_start_matches("//! ").split("  ").next().unwrap_or("");
        names.split(' ').map(str::to_string).collect()
    };
    let rows = rows.take_while(|line| *line != "//! ```").map(names).collect();
    let entries = fs::read_dir(path).expect("a folder of sources").flatten().map(|entry| entry.path());
    let files = entries.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    let read = |file: std::path::PathBuf| {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, code_of(&fs::read_to_string(file).expect("a source file can be read")))
    };
    Folder { rows, files: files.map(read).filter(|(name, _)| !root.starts_with(name.as_str())).collect() }
}

fn code_of(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("").to_string() + "\n").collect()
}

/// The words of each path behind `prefix`, up to the end of its group or its first name.
fn named<'a>(code: &'a str, prefix: &str) -> Vec<&'a str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let paths = code.match_indices(prefix).filter(|(at, _)| !code[..*at].ends_with(is_word));
    let words = paths.flat_map(|(at, _)| {
        let rest = &code[at + prefix.len()..];
        let end = if rest.starts_with('{') { rest.find(';') } else { rest.find(|c| !is_word(c)) };
        rest[..end.unwrap_or(rest.len())].split(|c| !is_word(c))
    });
    words.filter(|word| !word.is_empty()).collect()
}

impl Folder {
    fn row(&self, name: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.iter().any(|known| known == name))
    }

    /// The names in a file that are not below its row.
    fn upward(&self, prefixes: &[&str]) -> Vec<String> {
        let steps = self.files.iter().flat_map(|(name, code)| {
            let own = self.row(name);
            let used = prefixes.iter().flat_map(|prefix| named(code, prefix));
            let upward =
                used.filter(move |used| self.row(used).is_some_and(|row| own.is_none_or(|own| row <= own)));
            upward.map(move |used| format!("{name}.rs names {used}"))
        });
        let places = self.files.iter().filter(|(name, _)| self.row(name).is_none());
        let missing = places.map(|(name, _)| format!("{name}.rs is not in the picture"));
        steps.chain(missing).collect()
    }
}

fn exports() -> Folder {
    folder(&repository().join("crates/exports/src"), "lib.rs")
}

/// The folder of a stand-in.
fn stand_in(name: &str) -> Folder {
    folder(&repository().join("crates/exports/src").join(name), "mod.rs")
}

#[test]
fn a_file_of_the_exports_names_only_files_below_it() {
    let exports = exports();
    let upward = exports.upward(&["super::", "crate::"]);
    assert!(exports.files.len() > 20 && upward.is_empty(), "see the head of lib.rs\n{}", upward.join("\n"));
}

#[test]
fn a_file_of_a_stand_in_names_only_files_below_it() {
    ["gperftools", "jemalloc"].into_iter().for_each(names_only_files_below);
}

fn names_only_files_below(folder: &str) {
    let (inside, outside) = (stand_in(folder), exports());
    let mut upward = inside.upward(&["super::"]);
    let stand_in = outside.row(folder);
    for (name, code) in &inside.files {
        let used = named(code, "crate::").into_iter().filter(|used| outside.row(used).is_some());
        upward.extend(
            used.filter(|used| outside.row(used) <= stand_in).map(|used| format!("{name}.rs names {used}")),
        );
    }
    assert!(inside.files.len() > 10 && upward.is_empty(), "see the head of mod.rs\n{}", upward.join("\n"));
}

#[test]
fn blocks_are_had_by_the_policy_alone() {
    let text = fs::read_to_string(repository().join("crates/core/src/heap/blocks.rs")).expect("the trait");
    let (_, methods) = text.split_once("pub trait Blocks").expect("the trait");
    let methods = named(methods.split("\n}\n").next().unwrap_or(""), "fn ");
    let mut past = Vec::new();
    for (name, code) in
        exports().files.iter().chain(&stand_in("gperftools").files).chain(&stand_in("jemalloc").files)
    {
        let used = named(code, "heap().").into_iter().filter(|used| methods.contains(used));
        past.extend(used.map(|used| format!("{name}.rs: heap().{used} goes past the policy; say blocks()")));
        // fast.rs is the policy of a heap whose blocks nobody checks, in assembly.
        if name != "fast" && code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "HEAP")
        {
            past.push(format!("{name}.rs names HEAP"));
        }
    }
    assert!(methods.len() > 20 && past.is_empty(), "{}", past.join("\n"));
}

#[test]
fn names_are_found_in_every_form() {
    let code = code_of(
        "use super::{heap, next::Next};\nuse super::c::{Name};\n// super::up\nlet x = my_super::z + crate::fast::f();\n",
    );
    assert_eq!(named(&code, "super::"), ["heap", "next", "Next", "c"]);
    assert_eq!(named(&code, "crate::"), ["fast"]);
}
