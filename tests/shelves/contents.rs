//! Indexes that are written by hand name each page and each folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{DECISIONS, files, is_front, links, pages, read};

#[test]
fn each_page_of_docs_is_linked_by_its_index() {
    let index = Path::new("docs/README.md");
    let linked: BTreeSet<PathBuf> =
        links(index, &read(index)).into_iter().map(|(target, _)| target).collect();
    let all = files();
    let missing: Vec<PathBuf> = pages(&all)
        .filter(|page| page.starts_with("docs") && page != index && !linked.contains(page))
        // Decisions have an index that is made.
        .filter(|page| !page.starts_with(DECISIONS) || is_front(page))
        .collect();
    assert!(missing.is_empty(), "docs/README.md has no link to {missing:?}");
}

#[test]
fn each_folder_of_tests_and_bench_is_named_by_its_index() {
    let all = files();
    for folder in ["tests", "bench"] {
        let index = read(&Path::new(folder).join("README.md"));
        let named: BTreeSet<&str> =
            index.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/')).collect();
        let folders: BTreeSet<&str> = all
            .iter()
            .filter_map(|file| {
                let mut parts = file.strip_prefix(folder).ok()?.iter();
                let first = parts.next()?.to_str()?;
                parts.next().map(|_| first)
            })
            .collect();
        let missing: Vec<&&str> = folders.difference(&named).collect();
        assert!(missing.is_empty(), "{folder}/README.md does not name {missing:?}");
    }
}
