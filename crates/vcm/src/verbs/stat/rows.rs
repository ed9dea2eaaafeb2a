//! A line for each look, as `vmstat` has it.

use super::amount::{amount, change};
use std::time::Duration;
use vcm_inspect::window::Snapshot;

/// Lines under a heading.
const LINES: u64 = 20;

pub struct Rows {
    lines: u64,
    /// What had been given back before.
    given_back: Option<u64>,
}

impl Rows {
    pub fn new() -> Self {
        Rows { lines: 0, given_back: None }
    }

    pub fn row(&mut self, snapshot: &Snapshot, interval: Duration) -> String {
        let stats = &snapshot.stats;
        let mut text = String::new();
        if self.lines.is_multiple_of(LINES) {
            let every = format!("back in {}", humantime::format_duration(interval));
            text += &line(["live", "waste", "caches", "in spans", "dirty", "heap", "RSS"], &every);
        }
        self.lines += 1;
        let gone = self.given_back.map_or(0, |before| stats.given_back.saturating_sub(before));
        self.given_back = Some(stats.given_back);
        let tail = change(gone) + if snapshot.torn.is_some() { "  torn" } else { "" };
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

fn line(cells: [&str; 7], tail: &str) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>8} ")).collect();
    format!("{cells} {tail}\n")
}
