//! docs/guides/labs.md says of each experiment how long it takes; the declarations say it too.

use vcm_labs::LABS;

#[test]
fn the_guide_gives_the_times_of_the_declarations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/labs.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    for experiment in LABS.iter().flat_map(|lab| lab.experiments) {
        let begin = format!("| `{}` |", experiment.name);
        let row = guide.lines().find(|line| line.starts_with(&begin));
        let row = row.unwrap_or_else(|| panic!("the guide has no row of {}", experiment.name));
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{}: name, question, --quick, --full", experiment.name);
        for (cell, plan) in cells[2..].iter().zip([&experiment.quick, &experiment.full]) {
            let about = plan.about.replace("minutes", "min").replace("hours", "h");
            assert!(cell.starts_with(&about), "{}: '{cell}', but {about}", experiment.name);
        }
    }
}
