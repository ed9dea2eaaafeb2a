//! From rows to what can be said: medians of a cell, ratios to the best peer, geometric means.

use super::plan::{Cell, Kind};
use super::session::Row;
use crate::report::Calls;
use std::collections::BTreeMap;
use vcm_measure::allocators::{self, ALLOCATORS};
use vcm_measure::statistics::{geometric_mean, maximum, median, minimum, ratio, spread};

/// The result of the finished runs of one allocator in one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Result {
    /// CPU nanoseconds per operation, or nanoseconds per pair. None for a footprint.
    pub cost_ns: Option<f64>,
    pub peak_rss_kib: Option<f64>,
    /// Of single calls: by the clock and by CPU time, in the order of `Calls`.
    pub wall_ns: [Option<f64>; 5],
    pub cpu_ns: [Option<f64>; 5],
    /// Of the cost, over the runs: the noise.
    pub spread: Option<f64>,
    pub runs: usize,
    pub unfinished: usize,
}

/// The figure that results are compared by. Less is better in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Cost,
    PeakRss,
    /// Of single calls, by its place in `Calls`.
    Wall(usize),
    Cpu(usize),
}

/// All results of a session.
pub struct Summary {
    /// Cells in the order they ran.
    pub cells: Vec<Cell>,
    /// Allocators in the order of the columns.
    pub allocators: Vec<&'static str>,
    results: BTreeMap<(Cell, &'static str), Result>,
}

/// The least value of the peers in a cell, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    pub allocator: &'static str,
    pub value: f64,
}

impl Summary {
    pub fn of(rows: &[Row]) -> Self {
        let mut cells: Vec<Cell> = Vec::new();
        let mut groups: BTreeMap<(Cell, &'static str), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            let known = allocators::known(&row.allocator);
            // `session` makes no others.
            let (Some(cell), Some(known)) = (row.cell(), known) else { continue };
            if !cells.contains(&cell) {
                cells.push(cell.clone());
            }
            groups.entry((cell, known.name)).or_default().push(row);
        }
        let present = |name: &&str| groups.keys().any(|(_, allocator)| allocator == name);
        let allocators = ALLOCATORS.iter().map(|known| known.name).filter(present).collect();
        let results =
            groups.into_iter().map(|(key, rows)| (key.clone(), result_of(key.0.kind(), &rows))).collect();
        Self { cells, allocators, results }
    }

    /// Whether the runs of the cell did the same work, but for one or the other that took too long; where others
    /// run for the same time.
    fn is_by_work(rows: &[Row], cell: &Cell) -> bool {
        let done = rows.iter().filter(|row| row.is_finished() && row.cell().as_ref() == Some(cell));
        let counts: Vec<f64> = done.map(|row| row.operations as f64).collect();
        match (median(&counts), maximum(&counts)) {
            (Some(middle), Some(most)) => counts.len() > 1 && most <= 1.001 * middle,
            _ => false,
        }
    }

    /// The cells that ran by work and not by the clock.
    pub fn by_work<'a>(&'a self, rows: &'a [Row]) -> impl Iterator<Item = &'a Cell> {
        self.cells_of(Kind::Load).filter(move |cell| Self::is_by_work(rows, cell))
    }

    pub fn result(&self, cell: &Cell, allocator: &'static str) -> Option<&Result> {
        self.results.get(&(cell.clone(), allocator))
    }

    pub fn value(&self, cell: &Cell, allocator: &'static str, measure: Measure) -> Option<f64> {
        let result = self.result(cell, allocator)?;
        match measure {
            Measure::Cost => result.cost_ns,
            Measure::PeakRss => result.peak_rss_kib,
            Measure::Wall(place) => result.wall_ns.get(place).copied().flatten(),
            Measure::Cpu(place) => result.cpu_ns.get(place).copied().flatten(),
        }
    }

    pub fn cells_of(&self, kind: Kind) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.kind() == kind)
    }

    /// The best of the peers: of every allocator that is not ours and has no settings of its own.
    pub fn best_peer(&self, cell: &Cell, measure: Measure) -> Option<Best> {
        let peers = ALLOCATORS.iter().filter(|known| !known.is_ours() && known.is_peer);
        let values = peers.filter_map(|peer| {
            Some(Best { allocator: peer.name, value: self.value(cell, peer.name, measure)? })
        });
        values.min_by(|one, other| one.value.total_cmp(&other.value))
    }

    /// An allocator's value in terms of the best peer's: 1 is as good, 2 twice as much.
    pub fn ratio_to_best(&self, cell: &Cell, allocator: &'static str, measure: Measure) -> Option<f64> {
        ratio(self.value(cell, allocator, measure)?, self.best_peer(cell, measure)?.value)
    }

    /// The geometric mean of the ratios over cells, and the worst of them. None unless every cell has one: a
    /// mean over the cells that an allocator survived would praise it for failing.
    pub fn mean_and_worst<'a>(
        &self,
        cells: impl Iterator<Item = &'a Cell>,
        allocator: &'static str,
        measure: Measure,
    ) -> Option<(f64, f64)> {
        let ratios: Option<Vec<f64>> =
            cells.map(|cell| self.ratio_to_best(cell, allocator, measure)).collect();
        let ratios = ratios?;
        Some((geometric_mean(&ratios)?, maximum(&ratios)?))
    }

    /// The middle of all spreads: how noisy this session was.
    pub fn typical_spread(&self) -> Option<f64> {
        median(&self.results.values().filter_map(|result| result.spread).collect::<Vec<_>>())
    }
}

fn result_of(kind: Kind, rows: &[&Row]) -> Result {
    let finished: Vec<&&Row> = rows.iter().filter(|row| row.is_finished()).collect();
    let costs: Vec<f64> = finished
        .iter()
        .filter_map(|row| match kind {
            Kind::FastPath | Kind::Pairs => row.pair_ns_minimum,
            Kind::Load => ratio(1e9, row.operations_per_cpu_second),
            Kind::Footprint | Kind::Calls => None,
        })
        .collect();
    let calls: Vec<Calls> =
        finished.iter().filter_map(|row| serde_json::from_str(row.calls.as_deref()?).ok()).collect();
    let middle = |of: fn(&Calls) -> &[u64; 5], place: usize| {
        median(&calls.iter().map(|calls| of(calls)[place] as f64).collect::<Vec<_>>())
    };
    let peaks: Vec<f64> = finished.iter().map(|row| row.peak_rss_kib as f64).collect();
    Result {
        cost_ns: median(&costs),
        peak_rss_kib: if kind == Kind::Footprint { minimum(&peaks) } else { median(&peaks) },
        wall_ns: [0, 1, 2, 3, 4].map(|place| middle(|calls| &calls.wall_ns, place)),
        cpu_ns: [0, 1, 2, 3, 4].map(|place| middle(|calls| &calls.cpu_ns, place)),
        spread: spread(&costs),
        runs: finished.len(),
        unfinished: rows.len() - finished.len(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::harness::session::FINISHED;

    pub fn row(allocator: &str, program: &str, nanoseconds: f64, peak_rss_kib: u64) -> Row {
        let json = serde_json::json!({
            "pass": 0, "allocator": allocator, "program": program, "threads": 1, "bytes": null, "outcome": FINISHED,
            "operations": 1, "wall_seconds": 1.0, "cpu_user_seconds": 1.0, "cpu_system_seconds": 0.0,
            "operations_per_cpu_second": 1e9 / nanoseconds, "pair_ns_minimum": nanoseconds,
            "pair_ns_median": nanoseconds, "start_rss_kib": 0, "end_rss_kib": 0, "peak_rss_kib": peak_rss_kib,
            "after_rss_kib": 0, "machine_ns": 1.0, "load_before": 0.0, "malloc_object": "",
        });
        serde_json::from_value(json).unwrap()
    }

    fn ratios(rows: &[Row], allocator: &'static str) -> (f64, f64) {
        let summary = Summary::of(rows);
        let cell = summary.cells[0].clone();
        let of = |measure| summary.ratio_to_best(&cell, allocator, measure).unwrap();
        (of(Measure::Cost), of(Measure::PeakRss))
    }

    #[test]
    fn a_cell_is_the_median_of_its_runs_and_its_ratio_is_to_the_best_peer() {
        let rows = [
            row("vcmalloc", "larson", 10.0, 50),
            row("vcmalloc", "larson", 90.0, 50),
            row("vcmalloc", "larson", 20.0, 50),
            row("glibc", "larson", 80.0, 100),
            row("jemalloc", "larson", 40.0, 200),
        ];
        assert_eq!(ratios(&rows, "vcmalloc"), (0.5, 0.5));
        assert_eq!(ratios(&rows, "glibc"), (2.0, 1.0));
    }

    #[test]
    fn neither_ours_nor_a_variant_is_the_best_peer() {
        let rows = [
            row("tcmalloc-1M", "starve", 1.0, 1),
            row("vcmalloc", "starve", 2.0, 2),
            row("glibc", "starve", 4.0, 4),
        ];
        assert_eq!(ratios(&rows, "glibc"), (1.0, 1.0));
        assert_eq!(ratios(&rows, "tcmalloc-1M"), (0.25, 0.25));
    }

    #[test]
    fn an_allocator_that_did_not_finish_a_cell_has_no_mean() {
        let mut failed = row("jemalloc", "larson", 1.0, 1);
        failed.outcome = "timed out".to_owned();
        let rows = [row("glibc", "larson", 1.0, 1), failed];
        let summary = Summary::of(&rows);
        let mean = |name| summary.mean_and_worst(summary.cells_of(Kind::Load), name, Measure::Cost);
        assert_eq!(mean("glibc"), Some((1.0, 1.0)));
        assert_eq!(mean("jemalloc"), None);
        assert_eq!(summary.result(&summary.cells[0], "jemalloc").unwrap().unfinished, 1);
    }
}
