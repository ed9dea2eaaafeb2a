//! The output of load programs, as numbers: fio, redis-benchmark, wrk, db_bench, pgbench and rados bench by their form,
//! and whatever else a regular expression finds.
//!
//! Owns those formats. A form that is not recognised yields nothing; it is no error, because a program may print
//! anything.

mod fio;
mod lines;

pub use regex_lite::Regex;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    More,
    Less,
}

/// A number with its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    pub name: String,
    pub unit: &'static str,
    pub better: Better,
    pub value: f64,
}

impl Reading {
    pub fn new(name: impl Into<String>, unit: &'static str, better: Better, value: f64) -> Self {
        Reading { name: name.into(), unit, better, value }
    }

    fn more(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self::new(name, unit, Better::More, value)
    }

    fn less(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self::new(name, unit, Better::Less, value)
    }
}

/// The readings of an output in the first form that fits.
pub fn understood(output: &str) -> Vec<Reading> {
    let forms =
        [fio::json, fio::terse, lines::redis, lines::db_bench, lines::wrk, lines::pgbench, lines::rados];
    let said = forms.into_iter().map(|form| form(output)).find(|readings| !readings.is_empty());
    let is_number = |reading: &Reading| reading.value.is_finite() && reading.value > 0.0;
    said.unwrap_or_default().into_iter().filter(is_number).collect()
}

/// A regular expression of the user's, for a number.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub regex: Regex,
    pub better: Better,
}

impl Pattern {
    pub fn new(text: &str, better: Better) -> Result<Pattern, String> {
        let regex =
            Regex::new(text).map_err(|error| format!("'{text}' is no regular expression: {error}"))?;
        match regex.captures_len() {
            2 => Ok(Pattern { regex, better }),
            _ => Err(format!("'{text}' must have one group, the number, as in 'rate: ([0-9.]+)'")),
        }
    }

    /// The name of its group, or the words around it.
    pub fn name(&self) -> String {
        let named = self.regex.capture_names().flatten().next();
        let words = |text: &str| {
            let text = text.split('(').next().unwrap_or(text);
            text.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned()
        };
        let name = named.map_or_else(|| words(self.regex.as_str()), str::to_owned);
        if name.is_empty() { "metric".to_owned() } else { name }
    }

    /// The last that fits: progress comes before results.
    pub fn read(&self, output: &str) -> Option<Reading> {
        let found = self.regex.captures_iter(output).last()?;
        let value = found.get(1)?.as_str().replace(',', "").parse().ok()?;
        Some(Reading::new(self.name(), "", self.better, value))
    }
}

#[cfg(test)]
mod tests;
