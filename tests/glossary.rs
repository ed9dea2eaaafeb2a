//! docs/reference/glossary.md and the code say the same words.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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
