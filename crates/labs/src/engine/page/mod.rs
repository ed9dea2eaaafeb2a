//! Results for readers: a table at the terminal, and with `--out` JSON, a web page, a Markdown page and pictures.
//!
//! ```text
//! tables     rows, summed up: medians beside the report's numbers      picture   one SVG for each picture
//! html       one file that needs no other                             markdown  for docs/results and the terminal
//! ```
//!
//! Promises files that need no network, and no number of a void run anywhere but in the JSON. `run` calls `publish`.

mod html;
mod markdown;
mod picture;
mod tables;

use super::experiment::Experiment;
use super::request::Request;
use super::results::Results;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

pub fn publish(request: &Request, experiment: &Experiment, results: &Results) -> Result<()> {
    let json = serde_json::to_string_pretty(results)? + "\n";
    if request.json {
        print!("{json}");
    } else {
        print!("{}", markdown::for_terminal(experiment, results));
    }
    let Some(out) = &request.out else { return Ok(()) };
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let name = format!("{}-{}", results.lab, results.experiment);
    let pictures = pictures(experiment, results)?;
    write(out, &format!("{name}.json"), &json)?;
    write(out, &format!("{name}.html"), &html::page(experiment, results, &pictures))?;
    write(out, &format!("{name}.md"), &markdown::page(experiment, results, &name, pictures.len()))?;
    for (index, picture) in pictures.iter().enumerate() {
        write(out, &picture_name(&name, index), &picture::standing_alone(&picture.svg))?;
    }
    eprintln!("written: {0}/{name}.html, .md, .json", out.display());
    Ok(())
}

fn picture_name(name: &str, index: usize) -> String {
    format!("{name}-{}.svg", index + 1)
}

/// None of a void run: a picture is numbers too.
fn pictures(experiment: &Experiment, results: &Results) -> Result<Vec<picture::Drawn>> {
    if !results.verdict.void.is_empty() {
        return Ok(Vec::new());
    }
    let drawn = experiment.pictures.iter().map(|picture| picture::draw(experiment, results, picture));
    Ok(drawn.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn write(out: &Path, name: &str, text: &str) -> Result<()> {
    let path = out.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
