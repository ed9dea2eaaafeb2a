//! Manual pages, made from the description of a command line.

use clap::Command;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

/// The page of a command, with more sections before its version.
pub fn page(command: Command, more: &[String]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut page = String::new();
    for section in text.split_inclusive('\n').fold(Vec::<String>::new(), by_section) {
        match section.lines().next() {
            // clap_mangen's own leaves out `--` and the names of values.
            Some(".SH SYNOPSIS") => page += &synopsis(command.clone()),
            Some(".SH SUBCOMMANDS") if command.get_name() != "vcm" => page += &subcommands(&command),
            // Lines of examples and exit codes stay lines.
            Some(".SH EXTRA") => page += &(section.replacen('\n', "\n.nf\n", 1) + ".fi\n"),
            Some(".SH VERSION") => {
                page.extend(more.iter().map(String::as_str));
                page += &section;
            }
            _ => page += &section,
        }
    }
    Ok(page.into_bytes())
}

fn by_section(mut sections: Vec<String>, line: &str) -> Vec<String> {
    match sections.last_mut() {
        Some(last) if !line.starts_with(".SH ") => last.push_str(line),
        _ => sections.push(line.to_string()),
    }
    sections
}

fn synopsis(mut command: Command) -> String {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_string();
    Roff::new().control("SH", ["SYNOPSIS"]).text([bold(usage)]).to_roff()
}

/// Subcommands that have no pages of their own.
fn subcommands(command: &Command) -> String {
    let entries: Vec<(String, String)> = command
        .get_subcommands()
        .filter(|entry| !entry.is_hide_set())
        .map(|entry| {
            let name = format!("{} {}", command.get_bin_name().unwrap_or_default(), entry.get_name());
            (name, entry.get_about().map(ToString::to_string).unwrap_or_default())
        })
        .collect();
    let example = entries.last().map_or("", |(name, _)| name);
    section("SUBCOMMANDS", &entries) + &paragraph(&format!("'{example} --help' lists the arguments of one."))
}

pub fn section(title: &str, entries: &[(impl AsRef<str>, impl AsRef<str>)]) -> String {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (term, meaning) in entries {
        roff.control("TP", []).text([bold(term.as_ref())]).text([roman(meaning.as_ref())]);
    }
    roff.to_roff()
}

fn paragraph(text: &str) -> String {
    Roff::new().control("PP", []).text([roman(text)]).to_roff()
}

/// A section that is one paragraph.
pub fn note(title: &str, text: &str) -> String {
    Roff::new().control("SH", [title]).text([roman(text)]).to_roff()
}
