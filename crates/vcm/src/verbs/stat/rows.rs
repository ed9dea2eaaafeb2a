//! A line for each look, as `vmstat` has it.

use std::time::Duration;
use vcm_inspect::window::Snapshot;
use vcm_report::unit::{amount, change};

/// Lines under a heading.
const LINES: u64 = 20;

pub struct Rows {
    lines: u64,
    /// The bytes that had been given back before.
    given_back: Option<u64>,
}

impl Rows {
    pub fn new() -> Self {
        Rows { lines: 0, given_back: None }
    }

    pub fn row(&mut self, snapshot: &Snapshot) -> String {
        let stats = &snapshot.stats;
        let mut text = String::new();
        if self.lines.is_multiple_of(LINES) {
            text += &line(["live", "waste", "caches", "in spans", "dirty", "heap", "RSS"], "back      pages");
        }
        self.lines += 1;
        let gone = self.given_back.map_or(0, |before| stats.given_back.saturating_sub(before));
        self.given_back = Some(stats.given_back);
        let pages = match (&snapshot.torn, snapshot.pages_apart) {
            (Some(_), _) => "torn".to_string(),
            (None, true) => "apart".to_string(),
            (None, false) => age(snapshot.pages_age),
        };
        let tail = format!("{:<10}{pages}", change(gone));
        let cells = [
            stats.live_requested,
            stats.waste(),
            stats.vcpu_caches + stats.transfer,
            stats.free_in_spans,
            stats.dirty_free,
            stats.resident,
            snapshot.process.map_or(0, |all| all.rss),
        ];
        let cells = cells.map(amount);
        let [live, waste, caches, spans, dirty, heap, rss] = &cells;
        text + &line([live, waste, caches, spans, dirty, heap, rss], &tail)
    }
}

/// How long ago the pages were counted.
fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => "now".into(),
        seconds @ 1..600 => format!("-{seconds}s"),
        seconds => format!("-{}m", seconds / 60),
    }
}

fn line(cells: [&str; 7], tail: &str) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>8} ")).collect();
    format!("{cells} {tail}\n")
}
