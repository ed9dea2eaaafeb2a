//! docs/reference/glossary.md and the code agree; texts for users do without the words that CONTRIBUTING.md replaces; a test that is
//! skipped is in the list that `make test` prints.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use vcmalloc_tests::library::repository;

const PAGE: &str = "docs/reference/glossary.md";

/// The code in a column of the page's table, with the word that it explains.
fn column(number: usize) -> Vec<(String, String)> {
    let page = fs::read_to_string(repository().join(PAGE)).expect("the glossary can be read");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| word "));
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let code = cells[number].split('`').skip(1).step_by(2).map(str::to_string);
        code.map(|code| (cells[1].to_string(), code)).collect::<Vec<_>>()
    })
    .collect()
}

/// The words of code under a folder that could be names; comments are prose.
fn add_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        if entry.path().is_dir() {
            add_names(&entry.path(), names);
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(entry.path()).expect("a source file");
            let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
            let is_of_names = |letter: char| letter.is_alphanumeric() || letter == '_';
            names.extend(code.flat_map(|line| line.split(|letter| !is_of_names(letter))).map(str::to_string));
        }
    }
}

fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    ["crates/core/src", "crates/exports/src"].iter().for_each(|folder| {
        add_names(&repository().join(folder), &mut names);
    });
    names
}

#[test]
fn every_name_in_the_glossary_is_in_the_code() {
    let (names, columns) = (names(), column(3));
    let is_known = |code: &str| code.split("::").all(|part| names.contains(part));
    let lost: Vec<_> = columns.iter().filter(|(_, code)| !is_known(code)).collect();
    assert!(columns.len() > 20 && lost.is_empty(), "in {PAGE}, but nowhere in the code: {lost:?}");
}

#[test]
fn a_word_that_the_glossary_replaced_is_in_no_name() {
    let (names, replaced) = (names(), column(4));
    let back: Vec<_> = replaced.iter().filter(|(_, old)| names.contains(old)).collect();
    assert!(!replaced.is_empty() && back.is_empty(), "(word, what it replaced): {back:?}");
}

/// The phrases in the first column of CONTRIBUTING.md's table of words.
fn avoided() -> Vec<String> {
    let page = fs::read_to_string(repository().join("CONTRIBUTING.md")).expect("the page can be read");
    let words = page.split("\n## Words\n").nth(1).expect("CONTRIBUTING.md has a heading Words");
    let words = words.split("\n## ").next().unwrap_or_default();
    let cells =
        words.lines().filter_map(|line| line.strip_prefix("| *")).filter_map(|row| row.split('|').next());
    let phrases = cells.flat_map(|cell| {
        format!("*{cell}").split('*').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    });
    phrases.collect()
}

fn listed(folder: &str, found: &mut Vec<PathBuf>) {
    let folder = repository().join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    found.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()));
}

/// A page without what is between backticks: names stay as they are.
fn prose(page: &str) -> String {
    page.lines().map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("`") + "\n").collect()
}

/// Help texts in a source of a command line: comments for clap, and strings.
fn help(source: &str) -> String {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_help = |line: &&str| !line.trim_start().starts_with("//") || line.trim_start().starts_with("///");
    source.lines().filter(is_help).map(|line| format!("{line}\n")).collect()
}

/// The phrases that a text has, as whole words, also over the end of a line.
fn with<'a>(text: &str, phrases: &'a [String]) -> Vec<&'a str> {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    let mut words: Vec<String> = Vec::new();
    for word in text.split(|letter: char| !is_of_word(letter) && letter != '\'') {
        words.extend((!word.is_empty()).then(|| word.to_lowercase()));
    }
    let text = format!(" {} ", words.join(" "));
    phrases.iter().map(String::as_str).filter(|phrase| text.contains(&format!(" {phrase} "))).collect()
}

#[test]
fn texts_for_users_do_without_the_words_that_contributing_replaces() {
    let phrases = avoided();
    assert!(phrases.len() > 30, "CONTRIBUTING.md has a table of words: {phrases:?}");
    let mut pages = vec![repository().join("README.md")];
    ["docs/guides", "docs/reference", "man"].iter().for_each(|folder| listed(folder, &mut pages));
    let mut sources = ["crates/vcm/src/cli.rs", "crates/labs/src/arguments.rs"]
        .map(|name| repository().join(name))
        .to_vec();
    listed("crates/vcm/src/cli", &mut sources);
    let read =
        |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    pages.retain(|path| path.extension().is_some_and(|kind| kind == "md" || kind == "1"));
    let texts = pages
        .iter()
        .map(|path| (path, prose(&read(path))))
        .chain(sources.iter().map(|path| (path, help(&read(path)))));
    let found: Vec<String> = texts
        .flat_map(|(path, text)| {
            with(&text, &phrases)
                .iter()
                .map(|phrase| format!("{}: {phrase}", path.display()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "CONTRIBUTING.md#words has the words to write instead:\n{}", found.join("\n"));
}

#[test]
fn a_phrase_is_found_as_whole_words_and_over_a_line() {
    let phrases = ["by itself".to_owned(), "lie".to_owned()];
    assert_eq!(with("It starts By\n  itself. A lie-in, alie", &phrases), ["by itself"]);
    assert_eq!(with("they lie, there", &phrases), ["lie"]);
    assert_eq!(prose("a `lie` b\n"), "a ` b\n");
    assert_eq!(help("// a lie\n/// help\nlet x = 1;\n#[cfg(test)]\nlie"), "/// help\nlet x = 1;\n");
}

#[test]
fn a_test_that_is_skipped_is_in_the_list_that_make_test_prints() {
    let mut silent = Vec::new();
    let mut folders =
        vec![repository().join("crates"), repository().join("bench/src"), repository().join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let is_silent = ["skipped: ", "not tested: "]
                    .iter()
                    .any(|begin| text.contains(&format!("eprintln!(\"{begin}")));
                silent.extend(is_silent.then(|| path.display().to_string()));
            }
        }
    }
    assert!(silent.is_empty(), "use skip! of tests/src instead of eprintln!: {}", silent.join(", "));
}
