//! The shelves: a kept run or result is one that a page cites, links lead somewhere, decisions have their form, and the
//! indexes of results and of decisions are what their pages say of themselves. RENEW_GOLDEN=1 writes both indexes.
//! The other indexes name each page and folder, and libraries of results are commits.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use vcmalloc_tests::library::repository;

#[path = "shelves/commits.rs"]
mod commits;
#[path = "shelves/contents.rs"]
mod contents;

const INDEX: &str = "results/README.md";
const RESULTS: &str = "results";
const RUNS: &str = "results/runs";
const DECISIONS: &str = "docs/decisions";
/// Above this line the index of decisions is written by hand, below it is made.
const MADE: &str =
    "<!-- Below: made by `RENEW_GOLDEN=1 cargo test -p vcmalloc-tests --test shelves`; do not edit. -->\n";

#[test]
fn every_link_leads_to_a_file_and_to_a_heading() {
    let mut broken = Vec::new();
    let all = files();
    for page in pages(&all) {
        for (target, heading) in links(&page, &read(&page)) {
            // The site has no page for a folder.
            let exists = repository().join(&target).is_file();
            let has_heading = |heading: &str| headings(&read(&target)).contains(heading);
            let leads =
                exists && heading.as_deref().is_none_or(|heading| !is_page(&target) || has_heading(heading));
            if !leads {
                let heading = heading.map_or_else(String::new, |heading| format!("#{heading}"));
                broken.push(format!("{}: {}{heading}", page.display(), target.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_kept_run_and_result_is_cited() {
    let all = files();
    // The index names everything, and so says nothing of use.
    let citing = pages(&all).filter(|page| page != Path::new(INDEX));
    let cited: BTreeSet<(PathBuf, PathBuf)> = citing
        .flat_map(|page| {
            let targets = links(&page, &read(&page));
            targets.into_iter().map(move |(target, _)| (page.clone(), target))
        })
        .collect();
    let is_cited = |file: &Path| {
        let from_outside = |page: &Path| page.parent() != file.parent();
        match (file.starts_with(RUNS), is_front(file)) {
            // A run is kept for a page that is not its own.
            (true, true) => cited.iter().any(|(page, target)| {
                from_outside(page) && (target == file || Some(target.as_path()) == file.parent())
            }),
            _ => cited.iter().any(|(page, target)| target == file && page != file),
        }
    };
    let kept = all.iter().filter(|file| file.starts_with(RUNS) || file.starts_with(RESULTS));
    let lonely: Vec<String> = kept
        .filter(|file| *file != Path::new(INDEX) && !is_cited(file))
        .map(|file| file.display().to_string())
        .collect();
    assert!(lonely.is_empty(), "no page cites these; cite them or delete them:\n{}", lonely.join("\n"));
}

#[test]
fn the_index_of_results_is_what_the_pages_say() {
    renew_or_compare(INDEX, &index(&files()));
}

#[test]
fn the_index_of_decisions_is_what_the_records_say() {
    let path = format!("{DECISIONS}/README.md");
    let found = read(Path::new(&path));
    let (by_hand, _) = found.split_once(MADE).unwrap_or_else(|| panic!("{path}: this line is gone: {MADE}"));
    renew_or_compare(&path, &format!("{by_hand}{MADE}\n{}", index_of_decisions(&decisions(&files()))));
}

#[test]
fn a_record_that_is_superseded_and_its_successor_link_to_each_other() {
    let all = decisions(&files());
    let mut lonely = Vec::new();
    for record in &all {
        for number in record.successors() {
            let links_back = |next: &Decision| {
                next.number == number
                    && next.status.contains(&format!("[{}]({})", record.number, record.file))
            };
            if !all.iter().any(links_back) {
                lonely.push(format!("{} names {number}, whose second line does not name it", record.file));
            }
        }
    }
    assert!(lonely.is_empty(), "{}", lonely.join("\n"));
}

#[test]
fn a_decision_is_read_in_every_form() {
    let whole = "# 0007: A title\n\n2026-11-21. Superseded in part\nby [0009](0009-b.md): why.\n\n**Question.** A?\n\n\
                 **Options** (tried). B.\n\n**Choice.** It is\n`a.b` so. And more.\n";
    let record = Decision::of("0007-a.md", whole);
    assert_eq!(
        (record.title.as_str(), record.successors(), record.line().as_str()),
        ("A title", vec!["0009".to_owned()], "It is `a.b` so. Partly superseded: [0009](0009-b.md).")
    );
    let old = Decision::of(
        "0008-c.md",
        "# 0008: Old\n\n2026-11-22. Superseded by [0009](0009-b.md): why.\n\nIt was so.\n",
    );
    assert_eq!(old.line(), "superseded by [0009](0009-b.md).");
    assert_eq!(
        index_of_decisions(&[record, old]).lines().next_back(),
        Some("No record has these numbers: 0001, 0002, 0003, 0004, 0005, 0006.")
    );
}

fn renew_or_compare(name: &str, index: &str) {
    let path = repository().join(name);
    if std::env::var_os("RENEW_GOLDEN").is_some() {
        fs::write(&path, index).expect("the index can be written");
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == index,
        "{name} is outdated; renew it: RENEW_GOLDEN=1 cargo test -p vcmalloc-tests --test shelves"
    );
}

#[test]
fn the_library_of_a_result_is_found_wherever_it_is_named() {
    let found = [
        "2026; 2 CPUs; library abc1234.",
        "x; library 0.1.0+abc; a run each: b. More.",
        "library a1, its own code",
    ];
    assert_eq!(found.map(library_of), [Some("abc1234"), Some("0.1.0+abc"), Some("a1, its own code")]);
    assert_eq!(library_of("2026; glibc 2.36."), None);
}

#[test]
fn links_and_headings_are_found_in_every_form() {
    let text = "# A `b`: c\n[x](y.md) ![p](../q/r.svg)\n[web](https://a.b) [own](#a-b-c) [deep](y.md#z) `[no](code.md)`\n\
                ```text\n[no](block.md)\n# no\n```\n";
    let found: Vec<String> = links(Path::new("docs/p/page.md"), text)
        .into_iter()
        .map(|(target, heading)| format!("{} {}", target.display(), heading.unwrap_or_default()))
        .collect();
    assert_eq!(found, ["docs/p/y.md ", "docs/q/r.svg ", "docs/p/page.md a-b-c", "docs/p/y.md z"]);
    assert_eq!(headings(text), BTreeSet::from(["a-b-c".to_owned()]));
}

fn read(page: &Path) -> String {
    fs::read_to_string(repository().join(page)).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// The files that git keeps, and those of docs that it would take in; all files of the tree if there is no git.
fn files() -> BTreeSet<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(repository()).output();
    let listed = listed.ok().filter(|output| output.status.success() && !output.stdout.is_empty());
    let names: Vec<PathBuf> = match listed {
        Some(output) => {
            String::from_utf8_lossy(&output.stdout).split_terminator('\0').map(PathBuf::from).collect()
        }
        None => {
            let mut found = Vec::new();
            ["bench", "crates", "docs", "results", "tests"]
                .iter()
                .for_each(|folder| walk(Path::new(folder), &mut found));
            found.extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(PathBuf::from));
            found
        }
    };
    names.into_iter().filter(|name| repository().join(name).exists()).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(repository().join(folder)).expect("a folder can be read").flatten() {
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

fn is_front(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "README.md")
}

fn pages(all: &BTreeSet<PathBuf>) -> impl Iterator<Item = PathBuf> {
    all.iter().filter(|file| is_page(file)).cloned()
}

/// Text outside of code.
fn prose(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// Files that a page links to, from the repository's root, with the heading in them.
fn links(page: &Path, text: &str) -> Vec<(PathBuf, Option<String>)> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for line in prose(text) {
        let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in outside.split("](").skip(1) {
            let Some(link) = part.split(')').next().filter(|link| !link.contains(' ')) else { continue };
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) =
                link.split_once('#').map_or((link, None), |(file, rest)| (file, Some(rest)));
            let target = if file.is_empty() { page.to_owned() } else { plain(&folder.join(file)) };
            found.push((target, heading.map(str::to_owned)));
        }
    }
    found
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The names under which GitHub links to headings.
fn headings(text: &str) -> BTreeSet<String> {
    let heads = prose(text).into_iter().filter(|line| line.starts_with('#'));
    let name = |head: String| {
        let words = head.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    heads.map(name).collect()
}

fn index(all: &BTreeSet<PathBuf>) -> String {
    let mut text = "# Results\n\n\
        <!-- Made by `RENEW_GOLDEN=1 cargo test -p vcmalloc-tests --test shelves`; do not edit. -->\n\n\
        Each page has a question, the answer, the machine and the library. The pages of speed, memory and daemons, and the one of \
        where it is behind, sum up the others. `vcm-bench` and `vcm-memory` are built by `cargo build --release -p vcmalloc-bench` \
        ([how](../docs/guides/benchmarks.md)).\n\n\
        | page | question | answer, in short | date | machine | library |\n|---|---|---|---|---|---|\n"
        .to_owned();
    let results = pages(all).filter(|page| page.parent() == Some(Path::new(RESULTS)) && !is_front(page));
    for page in results {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let said = read(&page);
        let part = |head: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(&format!("**{head}.** ")));
            line.unwrap_or_else(|| panic!("{}: no line begins with **{head}.**", page.display())).to_owned()
        };
        let measured = part("Measured");
        let mut places = measured.trim_end_matches('.').split(';').map(str::trim);
        let (date, machine) = (places.next().unwrap_or_default(), places.next().unwrap_or_default());
        let library = library_of(&measured).unwrap_or_else(|| places.next_back().unwrap_or_default());
        let row = [&part("Question"), &in_short(&part("Answer")), date, machine, library];
        let _ = writeln!(text, "| [{}]({name}) | {} |", name.trim_end_matches(".md"), row.join(" | "));
    }
    text += "\n## Runs of the benchmarks\n\n\
        A folder each, with the tables and the packed rows: date, machine, commit of the library, kind. Runs that no page cites are \
        not kept; those before 2026-11-25 that were taken away are in git at d8332c3, under `bench/raw` and `bench/results`.\n\n\
        | run | cited by |\n|---|---|\n";
    for run in pages(all).filter(|page| page.starts_with(RUNS) && is_front(page)) {
        let folder = run.parent().expect("a run has a folder");
        let from: Vec<String> = pages(all)
            .filter(|page| !page.starts_with(RUNS) && page != Path::new(INDEX))
            .filter(|page| links(page, &read(page)).iter().any(|(target, _)| target.starts_with(folder)))
            .map(|page| {
                format!("[{}](../{})", page.file_stem().unwrap_or_default().to_string_lossy(), page.display())
            })
            .collect();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(text, "| [{name}](../{}) | {} |", run.display(), from.join(", "));
    }
    text
}

/// The first sentence, and the one that counts claims: a full stop that ends a sentence is followed by a blank.
/// The words behind the first "library", up to where the sentence or its part ends.
fn library_of(measured: &str) -> Option<&str> {
    let words = ["library ", "libraries "].iter().find_map(|word| Some(measured.split_once(word)?.1))?;
    let named = words.split(';').next()?.split(". ").next()?.trim_end_matches('.');
    // A sentence that goes on is none of its name.
    if named.len() <= 90 { Some(named) } else { named.split(',').next() }
}

fn in_short(answer: &str) -> String {
    let mut sentences = answer.trim_end_matches('.').split(". ");
    let first = sentences.next().unwrap_or_default();
    let claims =
        sentences.find(|sentence| sentence.starts_with("Of ") && sentence.contains(" of this project"));
    claims.map_or_else(|| format!("{first}."), |claims| format!("{first}. {claims}."))
}

/// A record of docs/decisions.
struct Decision {
    file: String,
    number: String,
    title: String,
    /// The text behind the date.
    status: String,
    /// The first sentence of the choice; empty in a record that another one replaced.
    choice: String,
}

impl Decision {
    /// Panics where the record has not the form that docs/decisions/README.md asks for.
    fn of(file: &str, text: &str) -> Self {
        let mut parts = text.split("\n\n").map(|part| part.replace('\n', " "));
        let mut part = |name: &str| parts.next().unwrap_or_else(|| panic!("{file}: no {name}"));
        let title = part("title");
        let (number, title) = title
            .strip_prefix("# ")
            .and_then(|title| title.split_once(": "))
            .filter(|(number, _)| file.starts_with(&format!("{number}-")))
            .unwrap_or_else(|| panic!("{file}: its first line is not `# NUMBER: Title`"));
        let dated = part("date");
        let (date, status) = dated.split_at_checked("2026-11-21".len()).unwrap_or_default();
        let is_date = date.len() == 10 && date.chars().all(|letter| letter.is_ascii_digit() || letter == '-');
        assert!(is_date, "{file}: its second line does not begin with a date");
        let status = status.trim_start_matches(['.', ' ']).trim_end().to_owned();
        let choice = if status.starts_with("Superseded by ") {
            String::new()
        } else {
            let places = ["**Question", "**Options", "**Choice.** "].map(|head| {
                text.find(&format!("\n\n{head}")).unwrap_or_else(|| panic!("{file}: no paragraph {head}"))
            });
            assert!(places.is_sorted(), "{file}: question, options and choice are not in this order");
            let said = text[places[2]..].trim_start().trim_start_matches("**Choice.** ");
            let said = said.split("\n\n").next().unwrap_or_default().trim_end().replace('\n', " ");
            format!("{}.", said.split(". ").next().unwrap_or_default().trim_end_matches('.'))
        };
        Self { file: file.to_owned(), number: number.to_owned(), title: title.to_owned(), status, choice }
    }

    /// The records that replaced this one, or a part of it.
    fn successors(&self) -> Vec<String> {
        let named = self.status.split(". ").find(|sentence| sentence.starts_with("Superseded "));
        let links = named.unwrap_or_default().split('[').skip(1);
        links.filter_map(|link| link.split_once(']')).map(|(number, _)| number.to_owned()).collect()
    }

    /// The line of the index about the record.
    fn line(&self) -> String {
        let sentences = self.status.split('[').skip(1).filter_map(|link| link.split_once(')'));
        let links: Vec<String> = sentences
            .map(|(link, _)| format!("[{link})"))
            .filter(|link| self.successors().iter().any(|number| link.starts_with(&format!("[{number}]"))))
            .collect();
        match (self.choice.is_empty(), links.is_empty()) {
            (true, _) => format!("superseded by {}.", links.join(", ")),
            (false, true) => self.choice.clone(),
            (false, false) => format!("{} Partly superseded: {}.", self.choice, links.join(", ")),
        }
    }
}

fn decisions(all: &BTreeSet<PathBuf>) -> Vec<Decision> {
    let records = pages(all).filter(|page| page.parent() == Some(Path::new(DECISIONS)) && !is_front(page));
    let name = |page: &Path| page.file_name().unwrap_or_default().to_string_lossy().into_owned();
    records.map(|page| Decision::of(&name(&page), &read(&page))).collect()
}

fn index_of_decisions(records: &[Decision]) -> String {
    let mut text = String::new();
    for record in records {
        let _ = writeln!(text, "- [{}: {}]({}): {}", record.number, record.title, record.file, record.line());
    }
    let taken: BTreeSet<u32> = records.iter().filter_map(|record| record.number.parse().ok()).collect();
    let last = taken.last().copied().unwrap_or_default();
    let free: Vec<String> =
        (1..last).filter(|number| !taken.contains(number)).map(|number| format!("{number:04}")).collect();
    if !free.is_empty() {
        let _ = writeln!(text, "\nNo record has these numbers: {}.", free.join(", "));
    }
    text
}
