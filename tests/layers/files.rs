//! The files of one folder in an order: each may call methods of, and name, only those below it.
//!
//! A type whose methods are spread over many files has no imports between them, so a circle of calls is seen only
//! here: `self.name(` and `Self::name` are looked up among the methods of the type whose `impl` they stand in.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A folder's files, without `.rs`, from the bottom to the top, with spaces between. A folder in it stands for all of its files. Its root,
/// `mod`, may name the types of all others: it puts them together.
pub struct Order {
    pub folder: &'static str,
    /// How the crate names the folder.
    pub module: &'static str,
    pub files: &'static str,
}

/// A file's place in the folder and its text, as far as it is not for tests.
pub struct Source {
    pub name: String,
    pub text: String,
}

/// Something that a file takes from the folder.
#[derive(Debug, PartialEq)]
struct Taken {
    line: usize,
    what: String,
    /// The files that may be meant.
    from: Vec<String>,
}

pub fn sources(files: &[std::path::PathBuf], folder: &Path) -> Vec<Source> {
    let read = |file: &std::path::PathBuf| {
        let name = file.strip_prefix(folder).ok()?.with_extension("").to_str()?.to_string();
        let is_test = name.split('/').any(|part| part == "tests" || part.ends_with("_tests"));
        (!is_test).then(|| Source { name, text: code_of(&fs::read_to_string(file).unwrap()) })
    };
    files.iter().filter_map(read).collect()
}

/// The faults of the order, a line each: a file without a place, a place without a file, a step upward.
pub fn problems(order: &Order, sources: &[Source]) -> Vec<String> {
    let place = |name: &str| {
        let mut files = order.files.split_whitespace();
        files.clone().position(|file| name == file).or_else(|| files.position(|file| is_in(name, file)))
    };
    let mut found: Vec<String> = order
        .files
        .split_whitespace()
        .filter(|file| !sources.iter().any(|source| is_in(&source.name, file)))
        .map(|file| format!("{}: there is no {file}", order.folder))
        .collect();
    let methods = methods_of(sources);
    let exports = exports_of(sources);
    for source in sources {
        let mut taken = calls_in(source, &methods);
        if !is_root(&source.name) {
            taken.extend(names_in(source, order, &exports, sources));
        }
        let Some(own) = place(&source.name) else {
            if !taken.is_empty() || methods.values().flatten().any(|(name, _)| *name == source.name) {
                found.push(format!("{}/{}.rs has no place in the order", order.folder, source.name));
            }
            continue;
        };
        taken.sort_by_key(|taken| taken.line);
        for Taken { line, what, from } in taken {
            let is_upward = |name: &String| place(name).is_some_and(|other| other > own);
            if from.iter().all(is_upward) {
                let from = from.join(" or ");
                let name = &source.name;
                found.push(format!("{}/{name}.rs:{line}: {what} is of {from}, above it", order.folder));
            }
        }
    }
    found
}

fn is_in(name: &str, file: &str) -> bool {
    name == file || name.strip_prefix(file).is_some_and(|rest| rest.starts_with('/') && file != "mod")
}

fn is_root(name: &str) -> bool {
    name == "mod" || name.ends_with("/mod")
}

/// The text with as many lines, but without comments and without what is compiled for tests only.
fn code_of(text: &str) -> String {
    let (mut code, mut skipped, mut of_tests) = (String::new(), false, false);
    for line in text.lines() {
        let opens = of_tests && line.contains('{') && !line.ends_with("}");
        skipped |= opens && line.starts_with("mod ");
        of_tests = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(loom)]");
        if !skipped {
            code.push_str(line.split("//").next().unwrap_or(""));
        }
        skipped &= line != "}";
        code.push('\n');
    }
    code
}

/// The `impl` blocks of a file: the type, and where its body begins and ends.
fn impls_in(text: &str) -> Vec<(String, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(head) = line.strip_prefix("unsafe ").unwrap_or(line).strip_prefix("impl") else { continue };
        if !head.starts_with(['<', ' ']) {
            continue;
        }
        let end = text[start..].find("\n}").map_or(text.len(), |end| start + end);
        let head = text[start..end].split('{').next().unwrap_or("");
        found.push((type_of(head), start + head.len()..end.max(start + head.len())));
    }
    found
}

/// The name of the type that an `impl` is for.
fn type_of(head: &str) -> String {
    let rest = &head[head.find("impl").map_or(0, |at| at + 4)..];
    let mut depth = 0;
    let mut words = String::new();
    for (at, character) in rest.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if !rest[..at].ends_with('-') => depth -= 1,
            _ if depth == 0 => words.push(character),
            _ => {}
        }
    }
    let named = words.split(" for ").last().unwrap_or("").trim();
    let named = named.split_whitespace().next().unwrap_or("");
    named.rsplit("::").next().unwrap_or("").trim_start_matches('&').to_string()
}

/// Each method, by its type and name: the files that have one.
type Methods = HashMap<(String, String), Vec<(String, usize)>>;

fn methods_of(sources: &[Source]) -> Methods {
    let mut methods = Methods::new();
    for source in sources {
        for (of, body) in impls_in(&source.text) {
            for (at, _) in source.text[body.clone()].match_indices("fn ") {
                let name = word(&source.text[body.start + at + 3..]);
                if !name.is_empty() {
                    let place = (source.name.clone(), at);
                    methods.entry((of.clone(), name)).or_default().push(place);
                }
            }
        }
    }
    methods
}

/// The methods of the same type in other files that a file calls.
fn calls_in(source: &Source, methods: &Methods) -> Vec<Taken> {
    let mut taken = Vec::new();
    for (of, body) in impls_in(&source.text) {
        let text = &source.text[body.clone()];
        let after = |start: &'static str| text.match_indices(start).map(move |(at, _)| at + start.len());
        let by_value = after("self").filter_map(|at| {
            let rest = text[at..].trim_start().strip_prefix('.')?;
            let name = word(rest.trim_start());
            let is_call = rest.trim_start()[name.len()..].starts_with(['(', ':']);
            is_call.then_some((at, name))
        });
        let by_type = after("Self::").map(|at| (at, word(&text[at..])));
        for (at, name) in by_value.chain(by_type) {
            let Some(places) = methods.get(&(of.clone(), name.clone())) else { continue };
            let from: Vec<String> = places.iter().map(|(file, _)| file.clone()).collect();
            if !from.contains(&source.name) {
                let line = line_of(&source.text, body.start + at);
                taken.push(Taken { line, what: format!("{of}::{name}"), from });
            }
        }
    }
    taken
}

/// The names that the roots of folders hand on: the folder, the name, and the file under it that has it.
fn exports_of(sources: &[Source]) -> HashMap<(String, String), String> {
    let mut exports = HashMap::new();
    for root in sources.iter().filter(|source| is_root(&source.name)) {
        let folder = root.name.strip_suffix("mod").unwrap_or("").to_string();
        for (at, _) in root.text.match_indices("use ") {
            let rest = root.text[at + 4..].split(';').next().unwrap_or("");
            for path in paths_in(rest) {
                let (name, under) =
                    (path.last().cloned().unwrap_or_default(), path[..path.len() - 1].join("/"));
                if !under.is_empty() {
                    exports.insert((folder.clone(), name), format!("{folder}{under}"));
                }
            }
        }
    }
    exports
}

/// The parts of the folder that a file names by a path, in a `use` or elsewhere.
fn names_in(
    source: &Source,
    order: &Order,
    exports: &HashMap<(String, String), String>,
    sources: &[Source],
) -> Vec<Taken> {
    let parent = source.name.rsplit_once('/').map_or("", |(parent, _)| parent);
    let grandparent = parent.rsplit_once('/').map_or("", |(parent, _)| parent);
    let starts = [
        ("super::super::".to_string(), grandparent),
        ("super::".to_string(), parent),
        (format!("{}::", order.module), ""),
    ];
    let mut taken = Vec::new();
    for (start, folder) in &starts {
        for (at, _) in source.text.match_indices(start.as_str()) {
            let rest = &source.text[at + start.len()..];
            if rest.starts_with("super::")
                || source.text[..at].ends_with("super::")
                || source.text[..at].ends_with("::")
            {
                continue;
            }
            for path in paths_in(rest) {
                if let Some(from) =
                    resolve(folder, &path, exports, sources).filter(|from| *from != source.name)
                {
                    let line = line_of(&source.text, at);
                    taken.push(Taken { line, what: path.join("::"), from: vec![from] });
                }
            }
        }
    }
    taken
}

/// The file that a path from a folder leads to.
fn resolve(
    folder: &str,
    path: &[String],
    exports: &HashMap<(String, String), String>,
    sources: &[Source],
) -> Option<String> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let (first, rest) = path.split_first()?;
    let name = format!("{prefix}{first}");
    if sources.iter().any(|source| source.name == name) {
        return Some(name);
    }
    if sources.iter().any(|source| source.name == format!("{name}/mod")) {
        return resolve(&name, rest, exports, sources).or(Some(format!("{name}/mod")));
    }
    let under = exports.get(&(prefix, first.clone()))?;
    let mut parts: Vec<String> = under.split('/').map(str::to_string).collect();
    parts.push(first.clone());
    resolve("", &parts, exports, sources)
}

/// The paths at the beginning of a text: one, or those of a group.
fn paths_in(text: &str) -> Vec<Vec<String>> {
    let first = word(text);
    let rest = &text[first.len()..];
    if let Some(group) = text.strip_prefix('{') {
        return members(group).iter().flat_map(|member| paths_in(member)).collect();
    }
    if first.is_empty() {
        return Vec::new();
    }
    let mut paths: Vec<Vec<String>> = rest.strip_prefix("::").map(paths_in).unwrap_or_default();
    if paths.is_empty() {
        paths.push(Vec::new());
    }
    paths.iter_mut().for_each(|path| path.insert(0, first.clone()));
    paths
}

/// The members of a `{...}` group, of which the first brace is gone.
fn members(group: &str) -> Vec<String> {
    let (mut depth, mut member, mut all) = (0, String::new(), Vec::new());
    for character in group.chars() {
        match character {
            '}' if depth == 0 => break,
            ',' if depth == 0 => all.push(std::mem::take(&mut member)),
            _ => member.push(character),
        }
        depth += i32::from(character == '{') - i32::from(character == '}');
    }
    all.push(member);
    all.iter().map(|member| member.trim().to_string()).collect()
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

#[test]
fn upward_calls_and_names_are_found_in_every_form() {
    let source = |name: &str, text: &str| Source { name: name.to_string(), text: code_of(text) };
    let all = [
        source(
            "mod",
            "mod low;\npub use high::Kind;\npub struct Both { high: high::Kind }\nimpl Both {\n    fn root(&self) {}\n}\n",
        ),
        source(
            "low",
            "impl<O: Fn() -> u8> Both<O> {\n    fn low(&self) {\n        self.root();\n        self.high();\n        self\n            .high();\n        Self::high(self);\n        // self.high()\n        self.own();\n    }\n    fn own(&self) {}\n}\n#[cfg(test)]\nmod tests {\n    fn f() { self.high() }\n}\n",
        ),
        source(
            "high",
            "use super::low::Thing;\nimpl Drop for Both {\n    fn high(&self) {\n        self.low()\n    }\n    fn own(&self) {}\n}\n",
        ),
        source(
            "names",
            "use super::Kind;\nuse crate::part::{Both, high::{Kind}};\nlet x = super::high::f();\nuse crate::other::high;\n",
        ),
        source("stray", "impl Both {\n    fn stray(&self) {}\n}\n"),
    ];
    let order = |files| Order { folder: "part", module: "crate::part", files };
    let upward = |from: &str, lines: &[(usize, &str)]| -> Vec<String> {
        lines
            .iter()
            .map(|(line, what)| format!("part/{from}.rs:{line}: {what} is of high, above it"))
            .collect()
    };
    let mut expected = vec!["part: there is no gone".to_string()];
    expected.extend(upward("low", &[(4, "Both::high"), (5, "Both::high"), (7, "Both::high")]));
    expected.extend(upward("names", &[(1, "Kind"), (2, "high::Kind"), (3, "high::f")]));
    expected.push("part/stray.rs has no place in the order".to_string());
    assert_eq!(problems(&order("mod gone low names high"), &all), expected);
    assert_eq!(
        problems(&order("mod high low names stray"), &all),
        ["part/high.rs:1: low::Thing is of low, above it", "part/high.rs:4: Both::low is of low, above it"]
    );
}
