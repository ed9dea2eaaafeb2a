//! The page for a browser.

use super::resident;
use crate::html::{self, origin};
use std::path::Path;
use vcm_bounds::{Bounds, Figures, RULES, Rule};
use vcm_foreign::Shown;
use vcm_front::say;
use vcm_report::chart::{Axis, Bar, Better, Chart, Form, Group, Name, Series};
use vcm_report::unit::amount;
use vcm_report::{Cell, Colour, Column, Page, Part, Row, Table};
use vcm_trace::Header;

const LIVE: &str = "live bytes";
const RECORDED: &str = "RSS when it was recorded";

pub fn page(file: &Path, header: &Header, found: &Bounds) -> Page {
    let mut parts = vec![table(found), over_time(found), above_live(found)];
    let facts = [("file", file.shown().to_string()), ("command", say::typed(header.command.iter()))];
    let told = facts.into_iter().filter(|(_, value)| !value.is_empty());
    parts.push(Part::Heading("The trace".to_owned()));
    parts.push(Part::Facts(told.map(|(name, value)| (name.to_owned(), value)).collect()));
    parts.extend(origin());
    let file = file.file_name().unwrap_or_default().shown().printed();
    Page {
        title: format!("Least memory for the blocks of {file}"),
        about:
            "4 KiB pages with a live block in them, by placement rule: the memory of an ideal allocator that \
         follows the rule and releases everything else at once. Nothing was run."
                .to_owned(),
        outcome: outcome(found),
        parts,
    }
}

fn outcome(found: &Bounds) -> String {
    let least = RULES.iter().zip(&found.pages).min_by(|(_, one), (_, other)| one.mean.total_cmp(&other.mean));
    let mut text =
        format!("{} live at most, {} on average.", amount(found.live.peak), amount(found.live.mean as u64));
    if let Some((rule, figures)) = least {
        text += &format!(" The best rule is `{}`: {} on average", rule.name(), amount(figures.mean as u64));
        text += &match found.live.mean {
            live if live > 0.0 => format!(", {:.2} times the live bytes.", figures.mean / live),
            _ => ".".to_owned(),
        };
    }
    if let Some(resident) = resident(found) {
        text += &format!(" The recorded process held {} at most.", amount(resident.peak));
    }
    match &found.cut_off {
        Some(why) => format!("{text}\n{why}: the figures cover the readable part."),
        None => text,
    }
}

/// The rules that are of an allocator have its colour.
fn named(place: usize, rule: Rule) -> Name {
    let colour = match rule {
        Rule::Classes => html::name("vcmalloc", 0).colour,
        Rule::BestFit => html::name("glibc", 0).colour,
        _ => Colour::of_place(place),
    };
    Name::new(rule.name(), colour)
}

fn rules() -> impl Iterator<Item = (usize, Name)> {
    RULES.iter().enumerate().map(|(place, rule)| (place, named(place, *rule)))
}

fn over_time(found: &Bounds) -> Part {
    let begin = found.course.first().map_or(0.0, |moment| moment.seconds);
    let line = |name, is_area, of: &dyn Fn(&vcm_bounds::Moment) -> u64| {
        let points = found.course.iter().map(|moment| (moment.seconds - begin, of(moment) as f64));
        // No live byte and no page is none; no resident byte is none that is known.
        let points =
            if is_area { points.collect() } else { points.filter(|(_, bytes)| *bytes > 0.0).collect() };
        Series { name, points, is_area }
    };
    let mut series = vec![line(Name::new(LIVE, Colour::of_place(0)), true, &|moment| moment.live)];
    for (place, name) in rules() {
        series.push(line(name, false, &|moment| moment.pages.get(place).copied().unwrap_or(0)));
    }
    if resident(found).is_some() {
        series.push(line(Name::new(RECORDED, Colour::of_place(5)), false, &|moment| moment.resident));
    }
    Part::Chart(Chart {
        title: "Memory over time".to_owned(),
        note: "About a thousand points at equal numbers of events; the peak may lie between two.".to_owned(),
        form: Form::Lines {
            series,
            across: Axis::new("since the trace began", "s", Better::Neither),
            up: Axis::new("memory", "B", Better::Less),
        },
    })
}

/// Everything that has figures, with the live bytes first.
fn all(found: &Bounds) -> Vec<(Name, Figures)> {
    let mut all = vec![(Name::new(LIVE, Colour::of_place(0)), found.live)];
    all.extend(rules().map(|(_, name)| name).zip(found.pages));
    all.extend(resident(found).map(|figures| (Name::new(RECORDED, Colour::of_place(5)), figures)));
    all
}

fn above_live(found: &Bounds) -> Part {
    let all = all(found);
    let times = |of: f64, live: f64| (live > 0.0).then(|| of / live);
    let group = |name: &str, of: &dyn Fn(&Figures) -> f64| Group {
        name: name.to_owned(),
        bars: all
            .iter()
            .skip(1)
            .map(|(_, figures)| Bar::of(times(of(figures), of(&found.live)), &[], None))
            .collect(),
    };
    let groups = vec![group("mean", &|figures| figures.mean), group("peak", &|figures| figures.peak as f64)];
    let names = all.iter().skip(1).map(|(name, _)| name.clone()).collect();
    Part::Chart(Chart {
        title: "Memory over live bytes".to_owned(),
        note: "1: no more than the live bytes. The mean is over events, not over time.".to_owned(),
        form: Form::Bars { names, groups, unit: "times".to_owned() },
    })
}

fn table(found: &Bounds) -> Part {
    let cell = |bytes: f64, live: f64| Cell {
        aside: if live > 0.0 { format!("x{:.2}", bytes / live) } else { String::new() },
        ..Cell::number(bytes, amount(bytes as u64))
    };
    let row = |(name, figures): &(Name, Figures)| {
        Row::of(vec![
            Cell::text(&name.name),
            cell(figures.mean, found.live.mean),
            cell(figures.peak as f64, found.live.peak as f64),
            cell(figures.end as f64, found.live.end as f64),
        ])
    };
    let columns = ["mean", "peak", "at the end"].map(Column::number);
    Part::Table(Table {
        title: String::new(),
        columns: std::iter::once(Column::text("by the rule")).chain(columns).collect(),
        rows: all(found).iter().map(row).collect(),
    })
}
