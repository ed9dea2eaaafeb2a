//! `vcm bounds`: how little memory a trace could have taken.
//!
//! The rules are `vcm-bounds`'; here are files, progress and the table. `report` is the page.

mod report;

use crate::cli::bounds::Bounds as Arguments;
use crate::html;
use crate::trace_file::{self, wrong};
use std::fmt::Write;
use std::io::{IsTerminal, Write as _, stderr};
use vcm_bounds::{Bounds, Figures, RULES, bounds as follow};
use vcm_foreign::Shown;
use vcm_front::say::{self, FAILURE, Outcome, line};

pub fn bounds(arguments: &Arguments) -> Outcome {
    // A fault of the file itself is told with its reason.
    let reader = trace_file::open(&arguments.file)?;
    html::look(arguments.html.as_deref(), Some(&arguments.file))?;
    let shows = stderr().is_terminal();
    let progress = |events| {
        if shows {
            _ = write!(stderr(), "\r{:.1} million events ", events as f64 / 1e6);
        }
    };
    let file = &arguments.file;
    let open = || trace_file::again(file);
    let found = follow(open, progress);
    if shows {
        _ = write!(stderr(), "\r\x1b[K");
    }
    let found = found.map_err(|error| wrong(file, &error))?;
    let text = match arguments.json {
        true => format!("{:#}\n", serde_json::json!(found)),
        false => as_text(&found),
    };
    let written = html::write(arguments.html.as_deref(), || report::page(file, reader.header(), &found));
    let shown = say::result(&text)?;
    written?;
    match &found.cut_off {
        Some(why) => {
            line(&format!("vcm: {}: {why}; the figures cover the readable part", file.shown()));
            Ok(FAILURE)
        }
        None => Ok(shown),
    }
}

fn as_text(found: &Bounds) -> String {
    let mut text = String::new();
    _ = writeln!(
        text,
        "{:<30}{:>12}{:>8}{:>12}{:>8}{:>12}{:>8}",
        "MiB", "mean", "", "peak", "", "at the end", ""
    );
    let mut row = |name: &str, figures: &Figures| {
        let times =
            |value: f64, live: f64| if live > 0.0 { format!("x{:.2}", value / live) } else { "-".into() };
        _ = writeln!(
            text,
            "{name:<30}{:>12.1}{:>8}{:>12.1}{:>8}{:>12.1}{:>8}",
            mib(figures.mean),
            times(figures.mean, found.live.mean),
            mib(figures.peak as f64),
            times(figures.peak as f64, found.live.peak as f64),
            mib(figures.end as f64),
            times(figures.end as f64, found.live.end as f64),
        );
    };
    row("live bytes", &found.live);
    for (rule, figures) in RULES.iter().zip(&found.pages) {
        row(rule.name(), figures);
    }
    if let Some(figures) = resident(found) {
        row("RSS when it was recorded", &figures);
    }
    text + "\n4 KiB pages with a live block in them, and their ratio to the live bytes. The mean is over events, \
     not\nover time. docs/design/bounds.md describes each rule and its limits.\n"
}

/// The bytes that the process held when it was recorded, where that is known.
fn resident(found: &Bounds) -> Option<Figures> {
    let resident = || found.course.iter().map(|moment| moment.resident).filter(|bytes| *bytes > 0);
    let mean = resident().sum::<u64>() as f64 / resident().count() as f64;
    Some(Figures { mean, peak: resident().max()?, end: resident().next_back()? })
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
