//! The rows in the order asked for, as lines of a width and as JSON.

use super::host::{Host, Row};
use crate::cli::top::Column;
use serde_json::json;
use std::cmp::Ordering;
use vcm_report::unit::amount;

pub struct View {
    pub sort: Column,
    pub is_reversed: bool,
    pub filter: String,
}

impl View {
    pub fn rows<'a>(&self, host: &'a Host) -> Vec<&'a Row> {
        let wanted = self.filter.to_lowercase();
        let fits = |row: &&Row| {
            [&row.name, &row.command].iter().any(|name| name.to_lowercase().contains(&wanted))
                || row.id().to_string().contains(&wanted)
        };
        let mut rows: Vec<&Row> = host.rows().filter(fits).collect();
        rows.sort_by(|one, other| {
            let order = order(self.sort, one, other);
            let order = if self.is_reversed { order.reverse() } else { order };
            order.then(one.id().cmp(&other.id()))
        });
        rows
    }
}

/// Figures begin with the greatest, names and numbers with the least.
fn order(column: Column, one: &Row, other: &Row) -> Ordering {
    let by = |figure: fn(&Row) -> u64| figure(other).cmp(&figure(one));
    match column {
        Column::Pid => one.id().cmp(&other.id()),
        Column::Name => one.name.cmp(&other.name),
        Column::Rss => by(Row::rss),
        Column::Live => by(Row::requested),
        Column::Cached => by(Row::cached),
        Column::Free => by(Row::free),
        Column::Overhead => other.overhead().total_cmp(&one.overhead()),
        Column::Threads => by(|row| row.threads),
        Column::Back => by(|row| row.snapshot.stats.given_back),
    }
}

/// A line of the table; columns at the end are left out where they do not fit.
pub fn line(row: &Row, width: usize) -> String {
    let limit = row.limit().map_or("none".into(), amount);
    let wait = row.pressure.stalled.map_or("-".into(), |(short, _)| format!("{short:.1}%"));
    let overhead = row.overhead().min(9999.0);
    let cells = [
        row.id().to_string(),
        amount(row.rss()),
        amount(row.requested()),
        amount(row.cached()),
        amount(row.free()),
        format!("{overhead:.0}%"),
        row.threads.to_string(),
        row.kind.into(),
        limit,
        wait,
        amount(row.snapshot.stats.given_back),
    ];
    joined(&row.name, &cells, width)
}

pub fn heading(width: usize) -> String {
    let cells = ["PID", "RSS", "LIVE", "CACHED", "FREE", "OVER", "THR", "KIND", "LIMIT", "WAIT", "BACK"];
    joined("NAME", &cells.map(String::from), width)
}

const WIDTHS: [usize; 11] = [7, 8, 8, 8, 8, 5, 4, 8, 8, 5, 8];
const LEAST_NAME: usize = 12;
const MOST_NAME: usize = 40;

fn joined(name: &str, cells: &[String; 11], width: usize) -> String {
    // The number, the blank behind the name, and the columns that fit behind them.
    let (mut used, mut shown) = (WIDTHS[0] + 1 + LEAST_NAME, 1);
    for wide in WIDTHS.iter().skip(1) {
        if used + 1 + wide > width {
            break;
        }
        (used, shown) = (used + 1 + wide, shown + 1);
    }
    let room = (LEAST_NAME + width.saturating_sub(used)).min(MOST_NAME);
    let name: String = name.chars().take(room).collect();
    let mut text = format!("{:>wide$} {name:<room$}", cells[0], wide = WIDTHS[0]);
    for (cell, wide) in cells.iter().zip(WIDTHS).take(shown).skip(1) {
        text += &format!(" {cell:>wide$}");
    }
    text.chars().take(width).collect()
}

/// The processes that are not in the rows; nothing where all are.
pub fn beyond(host: &Host) -> Vec<String> {
    let mut lines = host.unread.clone();
    let who = if nix::unistd::geteuid().is_root() { "root may not see here" } else { "only root can see" };
    match host.hidden {
        0 => {}
        1 => lines.push(format!("1 more process that {who}")),
        count => lines.push(format!("{count} more processes that {who}")),
    }
    lines
}

pub fn json(host: &Host, rows: &[&Row]) -> String {
    let object = |row: &&Row| {
        json!({
            "pid": row.id(), "name": row.name, "kind": row.kind, "build": row.snapshot.build,
            "rss": row.rss(), "live_requested": row.requested(), "cached": row.cached(), "free": row.free(),
            "resident": row.snapshot.stats.resident, "overhead_percent": row.overhead(),
            "threads": row.threads, "limit": row.limit(),
            "stalled_10s": row.pressure.stalled.map(|(short, _)| short),
            "given_back": row.snapshot.stats.given_back, "torn": row.snapshot.torn,
            "one_moment": row.snapshot.is_whole(),
        })
    };
    let rows: Vec<_> = rows.iter().map(object).collect();
    json!({ "version": 1, "processes": rows, "hidden": host.hidden, "unread": host.unread }).to_string()
        + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_never_wider_than_the_terminal_and_wide_ones_have_all_columns() {
        for width in 1..200 {
            assert!(heading(width).chars().count() <= width, "{width}");
        }
        assert!(heading(80).ends_with("KIND"), "{}", heading(80));
        assert!(heading(120).ends_with("BACK"));
    }
}
