//! The contents of a trace, as a page.

use super::origin::origin;
use std::collections::BTreeMap;
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::say;
use vcm_report::chart::{Axis, Better, Bin, Chart, Form, Name, Series};
use vcm_report::unit::amount;
use vcm_report::{Cell, Colour, Column, Page, Part, Row, Table, unit};
use vcm_trace::{Header, PROCESS, Summary};

const MOST_THREADS: usize = 20;
/// Shorter lives are told together: times between two that were recorded are estimates.
const LEAST_LIFE: u32 = 10;
/// Steps of a histogram of lives: fourfold.
const LIFE_STEP: u32 = 2;

pub fn page(file: &Path, header: &Header, summary: &Summary) -> Page {
    let program = header
        .command
        .first()
        .map(|word| Path::new(word).file_name().map_or(word.clone(), |name| name.shown().printed()));
    let of = program.unwrap_or_else(|| file.file_name().unwrap_or_default().shown().printed());
    let mut parts = Vec::new();
    parts.extend(over_time(summary));
    parts.extend(blocks(summary));
    parts.extend(threads(summary));
    parts.push(Part::Heading("The trace".to_owned()));
    parts.push(Part::Facts(facts(file, header, summary)));
    parts.extend(origin());
    Page { title: format!("What {of} allocates"), about: String::new(), outcome: outcome(summary), parts }
}

fn outcome(summary: &Summary) -> String {
    let seconds = summary.nanoseconds as f64 / 1e9;
    let rate = summary.events as f64 / seconds.max(1e-9);
    let mut text = format!(
        "{} events of {} threads in {seconds:.1} s, {} a second. {} allocated; {} live at most, {} at the end.",
        unit::grouped(summary.events as f64),
        summary.threads,
        unit::grouped(rate),
        amount(summary.allocated_bytes),
        amount(summary.peak_live_bytes),
        amount(summary.live_bytes_at_end),
    );
    if summary.peak_resident_bytes > 0 {
        let times = summary.peak_resident_bytes as f64 / summary.peak_live_bytes.max(1) as f64;
        text += &format!(
            " Peak resident memory was {}, {times:.2} times the peak of live bytes.",
            amount(summary.peak_resident_bytes)
        );
    }
    match &summary.cut_off {
        Some(why) => format!("{text}\n{why}: the figures cover the readable part."),
        None => text,
    }
}

/// The owners of freed blocks, how large they are and how long they live: what decides what a replay costs.
pub fn blocks(summary: &Summary) -> Vec<Part> {
    std::iter::once(cross_threads(summary)).chain(sizes(summary)).chain(lifetimes(summary)).collect()
}

fn over_time(summary: &Summary) -> Option<Part> {
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let live = summary.course.iter().map(|at| (seconds(at.nanoseconds), at.live_bytes as f64)).collect();
    let resident: Vec<(f64, f64)> = summary
        .course
        .iter()
        .filter_map(|at| Some((seconds(at.nanoseconds), at.resident_bytes? as f64)))
        .collect();
    if summary.course.len() < 2 {
        return None;
    }
    let mut series =
        vec![Series { name: Name::new("live bytes", Colour::of_place(0)), points: live, is_area: true }];
    if !resident.is_empty() {
        let name = Name::new("RSS of the process", Colour::of_place(1));
        series.push(Series { name, points: resident, is_area: false });
    }
    let note = match series.len() {
        1 => "The trace has no samples of the process's memory. ",
        _ => "RSS includes the program's code and data. ",
    };
    Some(Part::Chart(Chart {
        title: "Memory over time".to_owned(),
        note: format!("{note}The graph has some thousand points and may miss the peak."),
        form: Form::Lines {
            series,
            across: Axis::new("since the trace began", "s", Better::Neither),
            up: Axis::new("memory", "B", Better::Neither),
        },
    }))
}

fn cross_threads(summary: &Summary) -> Part {
    let known = (summary.frees + summary.reallocations).saturating_sub(summary.of_other_threads);
    let own = known.saturating_sub(summary.unknown);
    let all = [
        ("blocks of the same thread", own, Colour::of_place(0)),
        ("blocks of another thread", summary.of_other_threads, Colour::of_place(1)),
        ("blocks from before the trace", summary.unknown, Colour(140, 146, 156)),
    ];
    let there = all.into_iter().filter(|(_, count, _)| *count > 0);
    let parts = there.map(|(name, count, colour)| (Name::new(name, colour), count as f64)).collect();
    Part::Chart(Chart {
        title: "Owner of freed blocks".to_owned(),
        note: "Frees and reallocations. Blocks freed by another thread cost per-thread caches most."
            .to_owned(),
        form: Form::Shares { parts, unit: "times".to_owned() },
    })
}

fn histogram(title: &str, note: &str, across: &str, name: &str, bins: Vec<Bin>) -> Option<Part> {
    let form = Form::Histogram { bins, across: across.to_owned(), up: Axis::new(name, "", Better::Neither) };
    let Form::Histogram { bins, .. } = &form else { return None };
    (!bins.is_empty()).then(|| Part::Chart(Chart { title: title.to_owned(), note: note.to_owned(), form }))
}

fn sizes(summary: &Summary) -> Option<Part> {
    let bins = filled(&summary.by_size, 1)
        .into_iter()
        .map(|(power, count)| Bin { label: format!("≤{}", bytes(power)), value: count as f64 });
    let note = "Requested bytes; each bar covers sizes up to twice that of the previous bar.";
    histogram("Sizes", note, "bytes", "allocations", bins.collect())
}

fn lifetimes(summary: &Summary) -> Option<Part> {
    let mut merged: BTreeMap<u32, u64> = BTreeMap::new();
    for (power, count) in &summary.by_lifetime {
        let power = power.max(&LEAST_LIFE).next_multiple_of(LIFE_STEP);
        *merged.entry(power).or_insert(0) += count;
    }
    let mut bins: Vec<Bin> = filled(&merged, LIFE_STEP)
        .into_iter()
        .map(|(power, count)| Bin { label: format!("≤{}", time(power)), value: count as f64 })
        .collect();
    if summary.live_blocks_at_end > 0 {
        bins.push(Bin { label: "to the end".to_owned(), value: summary.live_blocks_at_end as f64 });
    }
    let note = "Time from allocation to free; each bar covers up to four times that of the previous bar. Every \
     32nd event has a recorded time; the others are estimates.";
    histogram("Lifetimes of blocks", note, "lived", "blocks", bins)
}

/// Every bin from the first to the last, those without any too.
fn filled(counts: &BTreeMap<u32, u64>, step: u32) -> Vec<(u32, u64)> {
    let (Some((first, _)), Some((last, _))) = (counts.first_key_value(), counts.last_key_value()) else {
        return Vec::new();
    };
    let of = |power: u32| (power, counts.get(&power).copied().unwrap_or(0));
    (*first..=*last).step_by(step as usize).map(of).collect()
}

fn bytes(power: u32) -> String {
    let (unit, below) = match power {
        0..10 => ("", 0),
        10..20 => ("K", 10),
        20..30 => ("M", 20),
        30..40 => ("G", 30),
        _ => ("T", 40),
    };
    format!("{}{unit}", 1u64 << (power - below).min(63))
}

/// Of a power of two of nanoseconds.
fn time(power: u32) -> String {
    let nanoseconds = 2f64.powi(power as i32);
    let (unit, value) = match nanoseconds {
        value if value < 1e3 => ("ns", value),
        value if value < 1e6 => ("us", value / 1e3),
        value if value < 1e9 => ("ms", value / 1e6),
        value => ("s", value / 1e9),
    };
    if value < 9.5 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

fn threads(summary: &Summary) -> Vec<Part> {
    let mut all: Vec<_> = summary.by_thread.iter().filter(|(stream, _)| **stream != PROCESS).collect();
    all.sort_by_key(|(stream, of)| (std::cmp::Reverse(of.allocations + of.ends), **stream));
    let row = |(stream, of): &(&u32, &vcm_trace::OfThread)| {
        let share = 100.0 * of.of_other_threads as f64 / of.ends.max(1) as f64;
        let name = if of.name.is_empty() { stream.to_string() } else { format!("{stream} {}", of.name) };
        let count = |number: u64| Cell::number(number as f64, unit::grouped(number as f64));
        Row::of(vec![
            Cell::text(name),
            count(of.allocations),
            Cell::number(of.allocated_bytes as f64, amount(of.allocated_bytes)),
            count(of.ends),
            Cell::number(share, format!("{share:.1} %")),
        ])
    };
    let columns = ["allocations", "allocated", "frees", "of another thread's blocks"].map(Column::number);
    let table = Table {
        title: String::new(),
        columns: std::iter::once(Column::text("thread")).chain(columns).collect(),
        rows: all.iter().take(MOST_THREADS).map(row).collect(),
    };
    let mut parts = vec![Part::Heading("Threads".to_owned()), Part::Table(table)];
    if let Some(more) = all.len().checked_sub(MOST_THREADS).filter(|more| *more > 0) {
        parts.push(Part::Note(format!("{more} more threads allocated and freed less.")));
    }
    if all.is_empty() { Vec::new() } else { parts }
}

fn facts(file: &Path, header: &Header, summary: &Summary) -> Vec<(String, String)> {
    let sampled = header.sampled_one_in.filter(|one_in| *one_in > 1);
    let count = |number: u64| unit::grouped(number as f64);
    let facts = [
        ("file", file.shown().to_string()),
        ("command", say::typed(header.command.iter())),
        ("allocator", header.allocator.clone().unwrap_or_default()),
        ("recorded on", header.machine.clone().unwrap_or_default()),
        ("recorded", header.recorded_at.clone().unwrap_or_default()),
        ("imported from", header.imported_from.clone().unwrap_or_default()),
        ("recorded are", sampled.map_or(String::new(), |one_in| format!("one in {one_in} addresses"))),
        ("allocations", count(summary.allocations)),
        ("reallocations", count(summary.reallocations)),
        ("frees", count(summary.frees)),
        ("lost events", count(summary.lost)),
        ("out of order", count(summary.reordered)),
        (
            "live at the end",
            format!("{} in {} blocks", amount(summary.live_bytes_at_end), count(summary.live_blocks_at_end)),
        ),
    ];
    let told = facts.into_iter().filter(|(_, value)| !value.is_empty());
    told.map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_bins_are_short_and_exact() {
        assert_eq!([0, 9, 10, 16, 21, 32].map(bytes), ["1", "512", "1K", "64K", "2M", "4G"]);
        assert_eq!([6, 10, 14, 20, 30, 36].map(time), ["64ns", "1.0us", "16us", "1.0ms", "1.1s", "69s"]);
    }

    #[test]
    fn bins_that_are_empty_stand_between_those_that_are_not() {
        let counts = BTreeMap::from([(4, 1), (8, 3)]);
        assert_eq!(filled(&counts, 2), [(4, 1), (6, 0), (8, 3)]);
        assert!(filled(&BTreeMap::new(), 1).is_empty());
    }
}
