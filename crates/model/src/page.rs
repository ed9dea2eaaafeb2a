//! The results of the model, as a page and a picture.

use crate::laws::{Centre, Counted, HandOver, Model};
use crate::machine::{LINES, OfMachine};
use crate::patterns::Row;
use crate::seen::Seen;
use std::fmt::Write;
use vcm_report::chart::{Axis, Better, Chart, Form, Name, Series};
use vcm_report::{Colour, standing_alone};

/// A line from a core of the same L3 cache, and from another one; an eighth for a line that comes with others (`machine` shows less).
pub const NEAR: HandOver = HandOver { alone: 40.0, among_many: 5.0 };
pub const FAR: HandOver = HandOver { alone: 120.0, among_many: 15.0 };
/// The rows that tell of each lock are of so many CPUs.
const DETAILS_AT: usize = 64;
const WORTH_A_ROW: f64 = 100_000.0;

impl Row {
    fn model(&self, hand_over: HandOver) -> Model {
        let (counted, timed, nothing) = (&self.counted, &self.timed, &self.nothing);
        Model::of(&Counted { counted, timed, nothing, seen: self.seen.as_ref() }, hand_over)
    }
}

/// A pattern with two threads, measured: calls a second with both on one CPU, and on two.
pub struct Check {
    pub pattern: String,
    pub on_one: f64,
    pub on_two: f64,
}

/// The checks, and the hand-over between the two CPUs.
pub struct Checks {
    pub machine: OfMachine,
    pub each: Vec<Check>,
}

/// The lines that two threads wrote, by allocator.
pub struct Peer {
    pub allocator: String,
    pub pattern: String,
    pub seen: Seen,
}

fn names(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.pattern.as_str()) {
            names.push(&row.pattern);
        }
    }
    names
}

fn counts(rows: &[Row]) -> Vec<usize> {
    let mut counts: Vec<usize> = rows.iter().map(|row| row.cpus).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn of<'a>(rows: &'a [Row], name: &str, cpus: usize) -> Option<&'a Row> {
    rows.iter().find(|row| row.pattern == name && row.cpus == cpus)
}

/// With three digits that tell something.
fn short(value: f64) -> String {
    match value {
        value if value >= 9_999.5 => format!("{:.0},{:03.0}", (value / 1000.0).floor(), value % 1000.0),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

fn saturation(near: f64, far: f64) -> String {
    let of =
        |cpus: f64| if cpus >= 1024.0 { "over 1,024".to_owned() } else { format!("{:.0}", cpus.max(1.0)) };
    format!("{} / {}", of(near), of(far))
}

fn what(centre: &Centre) -> String {
    match (centre.instances, centre.bytes) {
        (1, _) | (_, 0) => centre.name.clone(),
        (_, bytes) => format!("{} ({bytes} B)", centre.name),
    }
}

/// The tables: bounds, then each lock at `DETAILS_AT` CPUs.
pub fn markdown(rows: &[Row], checks: Option<&Checks>, peers: &[Peer]) -> String {
    let mut page = String::new();
    bounds(rows, &mut page);
    details(rows, &mut page);
    if let Some(checks) = checks {
        compared(rows, checks, &mut page);
    }
    if !peers.is_empty() {
        locked(rows, peers, &mut page);
    }
    page
}

fn bounds(rows: &[Row], page: &mut String) {
    let counts: Vec<usize> = counts(rows).into_iter().filter(|cpus| *cpus >= 8).collect();
    let heads: Vec<String> = counts.iter().map(|cpus| format!("{cpus} CPUs")).collect();
    let _ = writeln!(page, "## At most so many million calls a second, near / far\n");
    let _ = writeln!(page, "| pattern | {} | saturates first | at CPUs |", heads.join(" | "));
    let _ = writeln!(page, "|---|{}---|--:|", "--:|".repeat(counts.len()));
    for name in names(rows) {
        let bound = |cpus: &usize| {
            let Some(row) = of(rows, name, *cpus) else { return "-".to_owned() };
            let [near, far] = [NEAR, FAR].map(|hand_over| row.model(hand_over).bound(*cpus) / 1e6);
            format!("{} / {}", short(near), short(far))
        };
        let bounds: Vec<String> = counts.iter().map(bound).collect();
        let Some(row) = of(rows, name, DETAILS_AT).or_else(|| rows.iter().find(|row| row.pattern == name))
        else {
            continue;
        };
        let (near, far) = (row.model(NEAR), row.model(FAR));
        // The lock that is first where lines come from far; where they are near, another one may be.
        let first = far.centres.first();
        let at = |model: &Model| {
            let same =
                model.centres.iter().find(|centre| first.is_some_and(|first| first.name == centre.name));
            same.map_or(f64::INFINITY, |centre| model.saturates_at(centre))
        };
        let both = saturation(at(&near), at(&far));
        let first = first.map_or_else(|| "none".to_owned(), what);
        let _ = writeln!(page, "| {name} | {} | {first} | {both} |", bounds.join(" | "));
    }
}

fn details(rows: &[Row], page: &mut String) {
    let _ = writeln!(page, "\n## What a call wants, with {DETAILS_AT} CPUs\n");
    let _ = writeln!(
        page,
        "Acquisitions and lines by 1,000 calls, holds in nanoseconds; of locks of a class the busiest one.\n"
    );
    let _ = writeln!(
        page,
        "| pattern | lock | acquisitions, all | busiest | a hold | of it in the system | lines a hold | demand, ns | saturates at CPUs |"
    );
    let _ = writeln!(page, "|---|---|--:|--:|--:|--:|--:|--:|--:|");
    for name in names(rows) {
        let Some(row) = of(rows, name, DETAILS_AT) else { continue };
        let (near, far) = (row.model(NEAR), row.model(FAR));
        let _ = writeln!(
            page,
            "| **{name}** | a call: {} / {} ns | | | | | {} outside | | {} faults |",
            short(near.call),
            short(far.call),
            short(near.lines_outside * 1e3),
            short(near.faults * 1e3)
        );
        for centre in &near.centres {
            let Some(other) = far.centres.iter().find(|other| other.name == centre.name) else { continue };
            let (first, second) = (near.saturates_at(centre), far.saturates_at(other));
            if second > WORTH_A_ROW {
                continue;
            }
            let _ = writeln!(
                page,
                "| | {} | {} | {} | {} | {} | {} | {} / {} | {} |",
                what(centre),
                short(centre.taken * 1e3),
                short(centre.taken_busiest * 1e3),
                short(centre.hold),
                short(centre.asking),
                short(centre.lines),
                short(centre.demand),
                short(other.demand),
                saturation(first, second)
            );
        }
    }
}

fn compared(rows: &[Row], checks: &Checks, page: &mut String) {
    let OfMachine { alone, among_many } = checks.machine;
    let _ = writeln!(page, "\n## Held against two CPUs\n");
    let _ = writeln!(
        page,
        "Two threads, both on one CPU and then on two; a line between these takes {alone:.0} ns, one of {LINES} at once {among_many:.1}. The program's own work is what a call takes on one CPU beyond the model's.\n"
    );
    let _ = writeln!(
        page,
        "| pattern | own work, ns a call | two CPUs do so many times what one does, predicted | measured | of the prediction |"
    );
    let _ = writeln!(page, "|---|--:|--:|--:|--:|");
    for check in &checks.each {
        let Some(row) = of(rows, &check.pattern, 2) else { continue };
        let work = (1e9 / check.on_one - row.model(HandOver::NONE).call).max(0.0);
        let predicted = row.model(HandOver { alone, among_many }).bound_beside(2, work) / check.on_one;
        let measured = check.on_two / check.on_one.max(1.0);
        let _ = writeln!(
            page,
            "| {} | {} | {predicted:.2} | {measured:.2} | {:.2} |",
            check.pattern,
            short(work),
            measured / predicted
        );
    }
}

fn locked(rows: &[Row], peers: &[Peer], page: &mut String) {
    let _ = writeln!(page, "\n## Locked instructions on lines that two threads wrote\n");
    let _ = writeln!(
        page,
        "By 1,000 calls of two threads that take turns call by call; behind it all locked instructions. Those of vcmalloc are of the run with two CPUs.\n"
    );
    let mut patterns: Vec<&str> = peers.iter().map(|peer| peer.pattern.as_str()).collect();
    patterns.sort_unstable();
    patterns.dedup();
    let _ = writeln!(page, "| allocator | {} |", patterns.join(" | "));
    let _ = writeln!(page, "|---|{}", "--:|".repeat(patterns.len()));
    let mut line = |allocator: &str, seen: &dyn Fn(&str) -> Option<Seen>| {
        let cell = |pattern: &&str| {
            let Some(seen) = seen(pattern).filter(|seen| seen.calls > 0) else { return "-".to_owned() };
            let each = 1e3 / seen.calls as f64;
            format!("{} of {}", short(seen.locked_on_shared as f64 * each), short(seen.locked as f64 * each))
        };
        let cells: Vec<String> = patterns.iter().map(cell).collect();
        let _ = writeln!(page, "| {allocator} | {} |", cells.join(" | "));
    };
    line("vcmalloc", &|pattern| of(rows, pattern, 2).and_then(|row| row.seen.clone()));
    let mut allocators: Vec<&str> = Vec::new();
    for peer in peers {
        if !allocators.contains(&peer.allocator.as_str()) {
            allocators.push(&peer.allocator);
        }
    }
    for allocator in allocators {
        let found = |pattern: &str| {
            peers
                .iter()
                .find(|peer| peer.allocator == allocator && peer.pattern == pattern)
                .map(|peer| peer.seen.clone())
        };
        line(allocator, &found);
    }
}

/// The bound against CPUs, a chart for each pattern.
pub fn draw(rows: &[Row]) -> String {
    let chart = |name: &&str| {
        let line = |label: &str, colour: Colour, hand_over: HandOver| Series {
            name: Name::new(label, colour),
            points: counts(rows)
                .iter()
                .filter_map(|&cpus| Some((cpus as f64, of(rows, name, cpus)?.model(hand_over).bound(cpus))))
                .collect(),
            is_area: false,
        };
        Chart {
            title: format!("{name}: calls a second, at most"),
            note: String::new(),
            form: Form::Lines {
                series: vec![
                    line("lines from 40 ns away", Colour(222, 66, 56), NEAR),
                    line("lines from 120 ns away", Colour(240, 150, 130), FAR),
                ],
                across: Axis::new("CPUs", "", Better::Neither),
                up: Axis::new("calls", "/s", Better::More),
            },
        }
    };
    standing_alone(&names(rows).iter().map(chart).collect::<Vec<_>>(), 2)
}

/// The counts, without those of each lock of a class.
#[derive(serde::Serialize)]
pub struct Raw<'a> {
    pattern: &'a str,
    cpus: usize,
    calls: u64,
    call_ns: f64,
    faults: f64,
    lines_outside: f64,
    centres: Vec<RawCentre>,
}

#[derive(serde::Serialize)]
struct RawCentre {
    name: String,
    bytes: u64,
    instances: usize,
    taken: f64,
    taken_busiest: f64,
    hold_ns: f64,
    asking_ns: f64,
    lines: f64,
}

/// By call, with no hand-over in it.
pub fn raw(rows: &[Row]) -> Vec<Raw<'_>> {
    let of = |row: &'_ Row| {
        let model = row.model(HandOver::NONE);
        let centre = |centre: Centre| RawCentre {
            name: centre.name,
            bytes: centre.bytes,
            instances: centre.instances,
            taken: centre.taken,
            taken_busiest: centre.taken_busiest,
            hold_ns: centre.hold,
            asking_ns: centre.asking,
            lines: centre.lines,
        };
        (model.call, model.faults, model.lines_outside, model.centres.into_iter().map(centre).collect())
    };
    rows.iter()
        .map(|row| {
            let (call_ns, faults, lines_outside, centres) = of(row);
            Raw {
                pattern: &row.pattern,
                cpus: row.cpus,
                calls: row.counted.calls,
                call_ns,
                faults,
                lines_outside,
                centres,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Lock, Ran};

    /// Held long and seldom, and held shortly and often: which one is first depends on how far lines come.
    #[test]
    fn both_numbers_of_a_row_are_of_the_lock_that_it_names() {
        let lock = |name: &str, taken: u64, nanoseconds: f64| Lock {
            name: name.to_owned(),
            bytes: 0,
            address: taken,
            taken,
            nanoseconds,
            asked: 0.0,
            asked_nanoseconds: 0.0,
            aside: 0,
            aside_nanoseconds: 0.0,
        };
        let ran = |nanoseconds| Ran { calls: 1000, nanoseconds, ..Ran::default() };
        let counted = Ran { locks: vec![lock("long", 10, 6000.0), lock("often", 100, 1000.0)], ..ran(0.0) };
        let (timed, nothing) = (ran(100_000.0), ran(0.0));
        let row = Row { pattern: "p".to_owned(), cpus: DETAILS_AT, counted, timed, nothing, seen: None };
        let (near, far) = (row.model(NEAR), row.model(FAR));
        assert_eq!((near.centres[0].name.as_str(), far.centres[0].name.as_str()), ("long", "often"));
        let expected = saturation(near.saturates_at(&near.centres[1]), far.saturates_at(&far.centres[0]));
        let page = markdown(&[row], None, &[]);
        assert!(page.contains(&format!("| often | {expected} |")), "{page}");
    }
}
