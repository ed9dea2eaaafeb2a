//! Calls and names between the files of one folder, and the circles in them.
//!
//! A type whose methods are spread over many files has no imports between them, so a circle of calls is seen only
//! here: `self.name(` and `Self::name` are looked up among the methods of the type whose `impl` they stand in.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::path::Path;

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
        (!is_test(file)).then(|| Source { name, text: code_of(&fs::read_to_string(file).unwrap()) })
    };
    files.iter().filter_map(read).collect()
}

/// Whether a file is compiled for tests only.
pub fn is_test(file: &Path) -> bool {
    let part = |part: std::path::Component| {
        let part = part.as_os_str().to_string_lossy();
        let name = part.strip_suffix(".rs").unwrap_or(&part);
        name == "tests" || name.ends_with("_tests")
    };
    file.components().skip_while(|part| part.as_os_str() != "src").any(part)
}

/// The circles among the files of a folder, a line each: which file takes what from which, all the way round. The root of a
/// folder may name the types of all others: it puts them together. `module`: how the crate names the folder.
pub fn circles(module: &str, sources: &[Source]) -> Vec<String> {
    let methods = methods_of(sources);
    let exports = exports_of(sources);
    let mut arrows: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    for source in sources {
        let mut taken = calls_in(source, &methods);
        if !is_root(&source.name) {
            taken.extend(names_in(source, module, &exports, sources));
        }
        for Taken { line, what, from } in taken {
            // A method that several files have may be of any of them.
            if let [from] = from.as_slice() {
                let words = format!("{}.rs:{line} takes {what} from {from}.rs", source.name);
                arrows.entry(&source.name).or_default().push((from.clone(), words));
            }
        }
    }
    let mut found = Vec::new();
    for source in sources {
        // A circle is told once, at the first of its files.
        if let Some(way) =
            way_round(&source.name, &arrows).filter(|way| way.iter().all(|(at, _)| *at >= source.name))
        {
            let steps: Vec<String> = way.into_iter().map(|(_, words)| words).collect();
            found.push(format!("{module}: {}", steps.join(", ")));
        }
    }
    found
}

/// The shortest way from a file back to it.
fn way_round(start: &str, arrows: &BTreeMap<&str, Vec<(String, String)>>) -> Option<Vec<(String, String)>> {
    let mut ways: VecDeque<Vec<(String, String)>> = VecDeque::from([vec![]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let at = way.last().map_or(start, |(at, _)| at.as_str());
        for step in arrows.get(at).into_iter().flatten() {
            let longer = way.iter().cloned().chain([step.clone()]).collect();
            if step.0 == start {
                return Some(longer);
            }
            if seen.insert(step.0.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

fn is_root(name: &str) -> bool {
    name == "mod" || name.ends_with("/mod")
}

/// The text with as many lines, but without comments and without what is compiled for tests only.
pub fn code_of(text: &str) -> String {
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
    module: &str,
    exports: &HashMap<(String, String), String>,
    sources: &[Source],
) -> Vec<Taken> {
    let parent = source.name.rsplit_once('/').map_or("", |(parent, _)| parent);
    let grandparent = parent.rsplit_once('/').map_or("", |(parent, _)| parent);
    let starts = [
        ("super::super::".to_string(), grandparent),
        ("super::".to_string(), parent),
        (format!("{module}::"), ""),
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
fn calls_and_names_and_their_circles_are_found_in_every_form() {
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
    ];
    assert_eq!(
        circles("crate::part", &all),
        ["crate::part: high.rs:4 takes Both::low from low.rs, low.rs:4 takes Both::high from high.rs",]
    );
    let taken = |name: &str| {
        let (methods, exports) = (methods_of(&all), exports_of(&all));
        let source = all.iter().find(|source| source.name == name).unwrap();
        let mut taken = calls_in(source, &methods);
        taken.extend(names_in(source, "crate::part", &exports, &all));
        taken.sort_by_key(|taken| taken.line);
        taken.into_iter().map(|taken| (taken.line, taken.what, taken.from.join(" "))).collect::<Vec<_>>()
    };
    let of_high = |lines: &[(usize, &str)]| -> Vec<(usize, String, String)> {
        lines.iter().map(|(line, what)| (*line, what.to_string(), "high".to_string())).collect()
    };
    let mut low = of_high(&[(4, "Both::high"), (5, "Both::high"), (7, "Both::high")]);
    low.insert(0, (3, "Both::root".to_string(), "mod".to_string()));
    assert_eq!(taken("low"), low);
    assert_eq!(taken("names"), of_high(&[(1, "Kind"), (2, "high::Kind"), (3, "high::f")]));
}
