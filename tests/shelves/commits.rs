//! The library that a result names is a commit of this repository, or the page says that it is none.

use std::path::Path;
use std::process::Command;

use vcmalloc_tests::library::repository;
use vcmalloc_tests::skip;

use super::{RESULTS, files, is_front, pages, read};

#[test]
fn the_library_of_a_result_is_a_commit_or_marked_as_none() {
    if git(&["rev-parse", "--is-shallow-repository"]).as_deref() != Some("false") {
        skip!("no git, or no whole history: libraries of results are not looked up");
        return;
    }
    let mut unknown = Vec::new();
    for page in pages(&files()).filter(|page| page.parent() == Some(Path::new(RESULTS)) && !is_front(page)) {
        let said = read(&page);
        let measured = said.lines().find(|line| line.starts_with("**Measured.**")).unwrap_or_default();
        for (library, is_marked) in libraries(measured) {
            if !is_marked && git(&["cat-file", "-e", &format!("{library}^{{commit}}")]).is_none() {
                unknown.push(format!("{}: {library}", page.display()));
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "no commits of this repository; write `+changes` or `(not in git)` behind them:\n{}",
        unknown.join("\n")
    );
}

#[test]
fn libraries_are_found_behind_the_word_and_with_their_mark() {
    let line = "**Measured.** 1234567; library 0.1.0+abc1234+changes, deadbeef9 (not in git), 1024719, fade and defaced; more.";
    assert_eq!(libraries(line), [("abc1234", true), ("deadbeef9", true), ("1024719", false)]);
    assert_eq!(libraries("**Measured.** run 1234567"), []);
}

/// The commits behind the word "library", as `scripts/figures-age` finds them: hexadecimal numbers of seven digits or more;
/// and whether each is marked.
fn libraries(measured: &str) -> Vec<(&str, bool)> {
    let Some((_, named)) = ["library ", "libraries "].iter().find_map(|word| measured.split_once(word))
    else {
        return Vec::new();
    };
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_commit = |word: &str| {
        let digits = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
        (7..=40).contains(&word.len())
            && word.chars().all(digits)
            && word.contains(|c: char| c.is_ascii_digit())
    };
    let words = named.split(|letter| !is_of_word(letter)).filter(|word| is_commit(word));
    let is_marked = |word: &str| {
        let behind = named.split_once(word).map_or("", |(_, behind)| behind);
        ["+changes", " (not in git"].iter().any(|mark| behind.starts_with(mark))
    };
    words.map(|word| (word, is_marked(word))).collect()
}

/// The output of a git that succeeds.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).current_dir(repository()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
