//! A profile as lines for a terminal: the largest call site first.

use super::calls::{Call, Chain};
use std::collections::{HashMap, HashSet};
use vcm_report::unit;

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Columns of the terminal.
    pub width: usize,
    /// Call sites at most.
    pub rows: usize,
    /// With all calls of each stack.
    pub stacks: bool,
}

/// All stacks whose innermost own call is the same function.
struct Row<'a> {
    call: Option<&'a Call>,
    chains: Vec<&'a Chain>,
    bytes: f64,
    objects: f64,
    variance: f64,
}

/// Columns before the name of the function.
const FIGURES: usize = 51;
/// A name is not cut to less.
const LEAST_NAME: usize = 24;
/// Stacks of one call site that are shown, the largest first.
const STACKS: usize = 5;

/// A heading and a line for each call site. The chains are in order, the largest first.
pub fn table(chains: &[Chain], shape: Shape) -> String {
    let rows = rows(chains);
    let total: f64 = chains.iter().map(|chain| chain.amount.bytes).sum();
    // Of growth, what shrank must not make shares of more than all.
    let whole: f64 = chains.iter().map(|chain| chain.amount.bytes.max(0.0)).sum();
    let cumulative = cumulative(chains);
    let mut text = format!(
        "{:>10} {:>7} {:>8} {:>10} {:>10}  {}\n",
        "bytes", "error", "share", "with calls", "objects", "call site"
    );
    for row in rows.iter().take(shape.rows) {
        let below =
            row.call.and_then(|call| cumulative.get(call.function.as_str())).copied().unwrap_or(row.bytes);
        text += &format!(
            "{:>10} {:>7} {:>8} {:>10} {:>10}  {}\n",
            unit::bytes(row.bytes),
            error(row),
            if row.bytes < 0.0 { String::new() } else { unit::share(row.bytes, whole) },
            unit::bytes(below),
            format!("{:.0}", row.objects),
            name(row.call, shape.width)
        );
        if shape.stacks {
            text += &stacks(row);
        }
    }
    if let Some(rest) = rows.get(shape.rows..).filter(|rest| !rest.is_empty()) {
        let bytes: f64 = rest.iter().map(|row| row.bytes).sum();
        let share = unit::share(bytes, whole);
        text += &format!("{:>10} {:>7} {share:>8} {:>21}  {} more\n", unit::bytes(bytes), "", "", rest.len());
    }
    text + &format!("{:>10} {:>7} {:>8} {:>21}  in all\n", unit::bytes(total), "", "", "")
}

fn rows(chains: &[Chain]) -> Vec<Row<'_>> {
    let mut places: HashMap<Option<&str>, usize> = HashMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for chain in chains {
        let call = chain.own();
        let place = *places.entry(call.map(|call| call.function.as_str())).or_insert_with(|| {
            rows.push(Row { call, chains: Vec::new(), bytes: 0.0, objects: 0.0, variance: 0.0 });
            rows.len() - 1
        });
        if let Some(row) = rows.get_mut(place) {
            row.chains.push(chain);
            row.bytes += chain.amount.bytes;
            row.objects += chain.amount.objects;
            row.variance += chain.amount.variance;
        }
    }
    rows.sort_by(|left, right| right.bytes.total_cmp(&left.bytes));
    rows
}

/// By function: of all stacks that it is in.
fn cumulative(chains: &[Chain]) -> HashMap<&str, f64> {
    let mut sums = HashMap::new();
    for chain in chains {
        let functions: HashSet<&str> = chain.calls.iter().map(|call| call.function.as_str()).collect();
        functions.into_iter().for_each(|function| *sums.entry(function).or_insert(0.0) += chain.amount.bytes);
    }
    sums
}

fn error(row: &Row) -> String {
    let percent = row.variance.max(0.0).sqrt() / row.bytes.abs().max(1.0) * 100.0;
    match percent {
        percent if percent >= 999.5 => "± more".into(),
        percent if percent >= 9.95 => format!("± {percent:.0} %"),
        percent => format!("± {percent:.1} %"),
    }
}

fn name(call: Option<&Call>, width: usize) -> String {
    let Some(call) = call else { return "no stack".into() };
    let room = width.saturating_sub(FIGURES).max(LEAST_NAME);
    let place = if call.place.is_empty() { String::new() } else { format!("  {}", call.place) };
    let length = call.function.chars().count();
    let place = if length + place.chars().count() <= room { place } else { String::new() };
    format!("{}{place}", shortened(&call.function, room))
}

/// Without arguments where it is too long, and then cut in the middle, where templates say least.
fn shortened(function: &str, room: usize) -> String {
    let function: String =
        function.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    if function.chars().count() <= room {
        return function;
    }
    let head = without_arguments(&function);
    let letters: Vec<char> = head.chars().collect();
    if letters.len() <= room {
        return head.to_string();
    }
    let (begin, end) = (room / 3, room - room / 3 - 1);
    let part = |letters: Option<&[char]>| letters.unwrap_or_default().iter().collect::<String>();
    format!("{}…{}", part(letters.get(..begin)), part(letters.get(letters.len() - end..)))
}

fn without_arguments(function: &str) -> &str {
    let operator = function.find("operator()").map_or(0, |at| at + "operator()".len());
    let begin = function.get(operator..).and_then(|rest| rest.find('(')).map(|at| at + operator);
    begin.filter(|at| *at > 0).and_then(|at| function.get(..at)).unwrap_or(function)
}

fn stacks(row: &Row) -> String {
    let mut text = String::new();
    for chain in row.chains.iter().take(STACKS) {
        if row.chains.len() > 1 {
            text += &format!("{:>14} of this:\n", unit::bytes(chain.amount.bytes));
        }
        for call in &chain.calls {
            let function = shortened(&call.function, usize::MAX);
            let place = if call.place.is_empty() { String::new() } else { format!("  {}", call.place) };
            text += &format!("{:15}{function}{place}\n", "");
        }
    }
    if row.chains.len() > STACKS {
        text += &format!("{:15}and {} more stacks\n", "", row.chains.len() - STACKS);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Amount;

    fn call(function: &str, is_own: bool) -> Call {
        Call { function: function.into(), place: "a.c:3".into(), is_own }
    }

    fn chain(calls: &[(&str, bool)], bytes: f64) -> Chain {
        let amount = Amount { objects: bytes / 8.0, bytes, variance: (bytes / 10.0).powi(2) };
        Chain { calls: calls.iter().map(|(name, own)| call(name, *own)).collect(), amount }
    }

    const SHAPE: Shape = Shape { width: 100, rows: 10, stacks: false };

    #[test]
    fn the_largest_call_site_of_the_program_stands_first() {
        let chains = [
            chain(&[("operator new(unsigned long)", false), ("take", true), ("main", true)], 800.0),
            chain(&[("malloc", false), ("keep", true), ("serve", true), ("main", true)], 700.0),
            chain(
                &[("std::vector<int>::f()", false), ("keep", true), ("other", true), ("main", true)],
                500.0,
            ),
            chain(&[("malloc", false), ("main", true)], 48.0),
        ];
        let text = table(&chains, SHAPE);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let shown = |line: usize| lines.get(line).cloned().unwrap_or_default().join(" ");
        assert_eq!(shown(1), "1.17 KiB ± 7.2 % 58.6 % 1.17 KiB 150 keep a.c:3", "{text}");
        assert!(shown(2).ends_with("take a.c:3"), "{text}");
        assert_eq!(shown(3), "48 B ± 10 % 2.3 % 2.00 KiB 6 main a.c:3", "{text}");
        assert_eq!(shown(4), "2.00 KiB in all");
    }

    #[test]
    fn rows_beyond_the_wanted_are_summed_and_stacks_are_whole_when_asked_for() {
        let chains: Vec<Chain> = (0..5)
            .map(|at| chain(&[("malloc", false), (&format!("f{at}"), true)], 100.0 - at as f64))
            .collect();
        let text = table(&chains, Shape { rows: 2, stacks: true, ..SHAPE });
        assert!(text.contains("291 B") && text.contains("3 more"), "{text}");
        assert!(text.contains("malloc  a.c:3\n               f1  a.c:3"), "{text}");
        assert!(!text.contains("f2"), "{text}");
    }

    #[test]
    fn long_names_lose_their_arguments_and_then_their_middle() {
        assert_eq!(shortened("short(int)", 20), "short(int)");
        assert_eq!(shortened("Class::function(std::vector<int> const&)", 20), "Class::function");
        assert_eq!(shortened("A::operator()(std::vector<int> const&)", 20), "A::operator()");
        assert_eq!(shortened(&"x".repeat(50), 10), "xxx…xxxxxx");
        assert_eq!(shortened("a\u{1b}[2J", 20), "a?[2J");
    }
}
