//! docs/guides/benchmarks.md has a row for each pattern.

use clap::ValueEnum;
use vcmalloc_bench::load::Pattern;

#[test]
fn every_pattern_has_a_row_in_the_guide() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/benchmarks.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    let from = guide.find("\n## The patterns\n").expect("a section of the patterns");
    let section = guide[from + 1..].split("\n## ").next().unwrap_or_default();
    // The first cell of a row has names of patterns.
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let named: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let shown = Pattern::value_variants().iter().filter_map(|one| one.to_possible_value());
    let shown: Vec<String> =
        shown.filter(|one| !one.is_hide_set()).map(|one| one.get_name().to_owned()).collect();
    let missing: Vec<_> = shown.iter().filter(|name| !named.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "docs/guides/benchmarks.md, The patterns: no row of {missing:?}");
    let gone: Vec<_> =
        named.iter().filter(|name| **name != "true" && !shown.iter().any(|one| one == *name)).collect();
    assert!(gone.is_empty(), "docs/guides/benchmarks.md, The patterns: {gone:?} are no patterns");
}
