//! The page for a browser.

use super::advice::advised;
use super::apply;
use super::report::DETAILS;
use super::verdict;
use crate::html::compared::Compared;
use crate::html::origin;
use crate::table::Table;
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::say;
use vcm_measure::trial::{Job, Ready};
use vcm_report::{Page, Part};

/// The measures that the chart of differences shows besides the judged ones.
const OF_MEMORY_AND_TIME: [&str; 5] = ["CPU time", "peak RSS", "steady RSS", "idle RSS", "minor faults"];

pub fn page(table: &Table, job: &Job, is_stopped: bool) -> Page {
    let compared = Compared::new(table);
    let judged = verdict::judged(table);
    let advised = advised(table, |runs| apply::applied(runs, &job.command));
    let program = job.command.first().and_then(|word| Path::new(word).file_name()).unwrap_or_default();
    let mut outcome: Vec<String> = Vec::new();
    if let Some(advised) = &advised {
        outcome.push(advised.sentence.clone());
        outcome.extend(advised.remarks.iter().cloned());
    } else {
        outcome.push("Nothing to compare.".to_owned());
    }
    if is_stopped {
        outcome.push("Stopped by a signal; these are the finished rounds.".to_owned());
    }
    let mut parts = Vec::new();
    if let Some((snippet, proof)) = advised.and_then(|advised| advised.change) {
        parts.push(Part::Folded {
            head: "How to apply and verify it".to_owned(),
            parts: vec![
                Part::Code { what: String::new(), text: snippet.trim_end().to_owned() },
                Part::Code { what: "The proof:".to_owned(), text: proof },
            ],
        });
    }
    if let Some((speed, memory)) =
        judged.as_ref().and_then(|judged| Some((&judged.speed, judged.memory.as_ref()?)))
    {
        parts.extend(compared.scatter(speed, memory));
    }
    let mut names: Vec<&str> = judged.iter().map(|judged| judged.speed.name.as_str()).collect();
    names.extend(OF_MEMORY_AND_TIME.iter().filter(|name| !names.contains(name)).copied().collect::<Vec<_>>());
    parts.extend(compared.differences(&names));
    parts.push(compared.medians("Measurements", |measure| !DETAILS.contains(&measure.name.as_str())));
    parts.push(Part::Note(
        "Medians. Below each: the mean of its differences from the first allocator, round by round (not the \
         difference of the medians), the 99 % confidence interval, and the smallest difference found in 4 of 5 such comparisons. About one line in a hundred is \
         significant by chance."
            .to_owned(),
    ));
    parts.push(Part::Folded {
        head: "More measures".to_owned(),
        parts: vec![compared.medians("", |measure| DETAILS.contains(&measure.name.as_str()))],
    });
    parts.push(compared.every_round());
    parts.extend(compared.over_time());
    parts.extend(compared.stamps());
    parts.extend(origin());
    parts.extend(runs(&compared, job));
    let rounds = compared.finished.first().map_or(0, |runs| runs.trials.len());
    Page {
        title: format!("Which allocator for {}", program.shown().printed()),
        about: format!(
            "{rounds} rounds; each ran every allocator once, {} of them.",
            compared.finished.len()
        ),
        outcome: outcome.join("\n"),
        parts,
    }
}

/// The command as it was started on each allocator, and the load.
fn runs(compared: &Compared, job: &Job) -> Vec<Part> {
    let command = || job.command.iter().map(|word| word.shown().printed());
    let line = |environment: Vec<(String, String)>| {
        let set = environment.into_iter().map(|(name, value)| format!("{name}={value}"));
        let set: Vec<String> = set.collect();
        let before = if set.is_empty() { Vec::new() } else { vec!["env".to_owned()] };
        say::typed(before.into_iter().chain(set).chain(command()))
    };
    let lines: Vec<String> = compared.finished.iter().map(|runs| line(runs.arm.environment())).collect();
    let mut parts = vec![Part::Code {
        what: "Command, run without the shell's allocator settings:".to_owned(),
        text: lines.join("\n"),
    }];
    if let Some(service) = &job.service {
        let ready = match &service.ready {
            Ready::Port(port) => format!("it listened at port {port}"),
            Ready::Says(regex) => format!("it had printed {}", regex.as_str()),
        };
        parts.push(Part::Code {
            what: format!("The load, when {ready}; then it idled for {:?}:", service.idle),
            text: service.load.clone(),
        });
    }
    parts
}
