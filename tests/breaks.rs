//! The breaks of `make breaks` fit the tree as it is; that each is noticed takes longer (`breaks/run.rs`).

#[path = "breaks/core_breaks.rs"]
mod core_breaks;
#[path = "breaks/hardened_breaks.rs"]
mod hardened_breaks;
#[path = "breaks/outer_breaks.rs"]
mod outer_breaks;
#[path = "breaks/planted.rs"]
mod planted;
#[path = "breaks/process_breaks.rs"]
mod process_breaks;
#[path = "breaks/tenant_breaks.rs"]
mod tenant_breaks;
#[path = "breaks/tree.rs"]
mod tree;

use std::collections::BTreeSet;
use std::fs;

use planted::Test;
use vcmalloc_tests::library::repository;

#[test]
fn the_words_of_every_break_stand_in_the_tree_once() {
    let lost: Vec<String> = planted::all()
        .filter_map(|planted| Some(format!("{}: {}", planted.name, tree::find(repository(), planted).err()?)))
        .collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    assert!(planted::all().all(|planted| planted.before != planted.after));
}

#[test]
fn the_test_that_must_notice_a_break_exists() {
    let files = tree::rust_files(&repository().join("crates"));
    let sources: String = files.iter().map(|file| fs::read_to_string(file).expect("a source file")).collect();
    let lost: Vec<&str> = planted::all()
        .filter(|planted| match planted.noticed_by {
            Test::Core(word) | Test::Loom(word) | Test::Of(_, word) | Test::Tool(_, word) => {
                !sources.contains(word)
            }
            Test::On(..) => false,
        })
        .map(|planted| planted.name)
        .collect();
    assert!(
        lost.is_empty(),
        "no test has the word of {lost:?}; mend it where the break stands, in tests/breaks"
    );
}

#[test]
fn no_two_breaks_have_one_name() {
    let names: BTreeSet<&str> = planted::all().map(|planted| planted.name).collect();
    assert_eq!(names.len(), planted::all().count());
}
