//! The results as one picture: the fast path as bars, and time against memory for each thread count.

use super::plan::{Cell, Kind};
use super::summary::{Measure, Summary};
use super::surroundings::named;
use vcm_report::chart::{Axis, Bar, Better, Chart, Extent, Form, Group, Point};
use vcm_report::standing_alone;

/// Ratios beyond these are drawn at the edge, so that one outlier does not squeeze the rest together.
const LEAST_RATIO: f64 = 0.5;
const GREATEST_RATIO: f64 = 32.0;

/// The parts of the summary as SVG; none if it has neither.
pub fn draw(summary: &Summary) -> Option<String> {
    let scatters = scatters(summary);
    // The same in all, so that they can be compared.
    let all = scatters.iter().flat_map(|(_, points)| points);
    let most = all.fold((2.0, 2.0), |(cost, memory), point| (point.across.max(cost), point.up.max(memory)));
    let scatters = scatters.into_iter().map(|(threads, points)| scatter(threads, points, most));
    let charts: Vec<Chart> = bars(fast_path(summary)).into_iter().chain(scatters).collect();
    (!charts.is_empty()).then(|| standing_alone(&charts, 2))
}

fn bars(means: Vec<(&'static str, f64)>) -> Option<Chart> {
    let bar = |(_, mean): &(&str, f64)| Bar::of(Some(*mean), &[], None);
    let group = Group { name: "ratio to the best peer".to_owned(), bars: means.iter().map(bar).collect() };
    (!means.is_empty()).then(|| Chart {
        title: "Fast path: time per malloc and free, geometric mean".to_owned(),
        note: String::new(),
        form: Form::Bars {
            names: means.iter().map(|(name, _)| named(name)).collect(),
            groups: vec![group],
            unit: String::new(),
        },
    })
}

fn scatter(threads: usize, points: Vec<Point>, most: (f64, f64)) -> Chart {
    let noun = if threads == 1 { "thread" } else { "threads" };
    let axis = |name: &str| Axis::new(name, "", Better::Less);
    let (across, up) = (axis("CPU time per operation"), axis("peak RSS"));
    Chart {
        title: format!("{threads} {noun}: 1 is the best peer, lower left is better"),
        note: String::new(),
        form: Form::Points { points, across, up, extent: Extent::Doublings { least: LEAST_RATIO, most } },
    }
}

/// Geometric means of the fast path, best first.
fn fast_path(summary: &Summary) -> Vec<(&'static str, f64)> {
    let cells: Vec<&Cell> = summary.cells_of(Kind::FastPath).collect();
    let mean = |&allocator: &&'static str| {
        let (mean, _) = summary.mean_and_worst(cells.iter().copied(), allocator, Measure::Cost)?;
        Some((allocator, mean))
    };
    let mut bars: Vec<_> = summary.allocators.iter().filter_map(mean).collect();
    bars.sort_by(|one, other| one.1.total_cmp(&other.1));
    bars
}

/// For each thread count the allocators that finished all its cells.
fn scatters(summary: &Summary) -> Vec<(usize, Vec<Point>)> {
    let mut counts: Vec<usize> = summary.cells_of(Kind::Load).map(|cell| cell.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    let several =
        |threads: &usize| summary.cells_of(Kind::Load).filter(|cell| cell.threads == *threads).count() > 1;
    let points = |threads: usize| {
        let mean = |allocator, measure| {
            let cells = summary.cells_of(Kind::Load).filter(|cell| cell.threads == threads);
            Some(summary.mean_and_worst(cells, allocator, measure)?.0.clamp(LEAST_RATIO, GREATEST_RATIO))
        };
        let point = |&allocator: &&'static str| {
            let (across, up) = (mean(allocator, Measure::Cost)?, mean(allocator, Measure::PeakRss)?);
            Some(Point { name: named(allocator), across, up, rounds: Vec::new() })
        };
        summary.allocators.iter().filter_map(point).collect()
    };
    counts.into_iter().filter(several).map(|threads| (threads, points(threads))).collect()
}
