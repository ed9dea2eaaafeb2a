//! Results for readers: a table at the terminal, and with `--out` JSON, a web page, a Markdown page and
//! pictures.
//!
//! ```text
//! tables     rows, summed up: medians beside the report's numbers      picture   one SVG for each picture
//! answer     what the rows say to the question      said      claims and sizes, in sentences
//! html       one file that needs no other                             markdown  for results and the terminal
//! ```
//!
//! Promises files that need no network, and no number of a void run anywhere but in the JSON. `run` calls
//! `keep` after each cell and `publish` at the end.

mod answer;
mod html;
mod markdown;
mod picture;
mod said;
mod tables;

use super::experiment::Experiment;
use super::request::Request;
use super::results::Results;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use vcm_measure::tell;
use vcm_report::{Chart, standing_alone};

/// The folders of rows and pictures beside the pages.
const DATA: &str = "data";
const PICTURES: &str = "pictures";

pub fn publish(request: &Request, experiment: &Experiment, results: &Results) -> Result<()> {
    let json = json(results)?;
    // Files first: stdout may be a full disk, and the run may have taken hours.
    let written = match &request.out {
        Some(out) => write_pages(out, experiment, results, &json),
        None => Ok(()),
    };
    let text = if request.json { json.clone() } else { markdown::for_terminal(experiment, results, width()) };
    let told = tell::result(&text);
    let kept_elsewhere = request.out.is_some() || request.from.is_some();
    let told =
        told.map_err(|error| if kept_elsewhere { error } else { rescue(request, results, &json, error) });
    written.and(told)
}

/// Of the terminal that shows it; text into a file or a pipe is as wide as it is.
fn width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .map_or(usize::MAX, |size| usize::from(size.ws_col).max(40))
}

fn write_pages(out: &Path, experiment: &Experiment, results: &Results, json: &str) -> Result<()> {
    for folder in [out.to_owned(), out.join(DATA), out.join(PICTURES)] {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let name = name(results);
    // The rows before all that is made of them.
    replace(&out.join(DATA), &format!("{name}.json"), json)?;
    let _ = fs::remove_file(out.join(partial_name(results)));
    let pictures = pictures(experiment, results);
    replace(out, &format!("{name}.html"), &html::page(experiment, results, &pictures))?;
    replace(out, &format!("{name}.md"), &markdown::page(experiment, results, &name, &pictures))?;
    for (index, picture) in pictures.iter().enumerate() {
        // The page has the title.
        let bare = Chart { title: String::new(), ..picture.chart.clone() };
        replace(&out.join(PICTURES), &picture_name(&name, index), &standing_alone(&[bare], 1))?;
    }
    tell::line(&format!("written: {0}/{name}.html, .md, and {0}/{DATA}/{name}.json", out.display()));
    Ok(())
}

/// The rows of a run that nobody could be told, beside the journals.
fn rescue(request: &Request, results: &Results, json: &str, error: anyhow::Error) -> anyhow::Error {
    let file = format!("{}.json", name(results));
    match replace(&request.state, &file, json) {
        Ok(()) => error.context(format!("the results are in {}", request.state.join(file).display())),
        Err(_) => error,
    }
}

/// Keeps what was measured so far, for `--from` should the run be killed; `publish` takes it away again.
pub fn keep(out: &Path, results: &Results) -> Result<()> {
    replace(out, &partial_name(results), &json(results)?)
}

/// That files can be made there, before hours are spent on what they shall hold.
pub fn check_place(out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let probe = out.join(format!(".vcm-lab-{}", std::process::id()));
    let made = fs::write(&probe, "\n");
    let _ = fs::remove_file(&probe);
    made.with_context(|| format!("cannot write to {}; name another place with --out DIR", out.display()))
}

fn json(results: &Results) -> Result<String> {
    Ok(serde_json::to_string_pretty(results)? + "\n")
}

fn name(results: &Results) -> String {
    let release = if results.release.is_empty() { String::new() } else { format!("-{}", results.release) };
    format!("{}-{}{release}", results.lab, results.experiment)
}

fn partial_name(results: &Results) -> String {
    format!("{}.partial.json", name(results))
}

fn picture_name(name: &str, index: usize) -> String {
    format!("{name}-{}.svg", index + 1)
}

/// None of a void run: a picture is numbers too.
fn pictures(experiment: &Experiment, results: &Results) -> Vec<picture::Drawn> {
    if !results.verdict.void.is_empty() {
        return Vec::new();
    }
    experiment.pictures.iter().flat_map(|picture| picture::draw(experiment, results, picture)).collect()
}

/// The old text stays until the new text is whole.
fn replace(out: &Path, name: &str, text: &str) -> Result<()> {
    let path = out.join(name);
    vcm_measure::replace::replace(&path, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
