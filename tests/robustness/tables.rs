//! Both suites on every allocator of this machine, as Markdown.
//!
//! ```text
//!   cargo run -p vcmalloc-tests --example hard_to_break -- misuse|robustness
//!       [--repetitions N] [--only WORD] [--allocators NAME,NAME] [--tries N] [--thorough]
//! ```

#[path = "../misuse/allocators.rs"]
mod allocators;
#[path = "attempt.rs"]
mod attempt;
#[path = "../misuse/suite.rs"]
mod misuse;
#[path = "suite.rs"]
mod suite;

use std::collections::BTreeMap;
use std::process::ExitCode;

use allocators::Allocator;
use attempt::{Effort, Outcome};
use suite::Fails;

const USAGE: &str = "hard_to_break misuse|robustness [--repetitions N] [--only WORD] [--allocators NAME,NAME] \
                     [--tries N] [--thorough]";

struct Wishes {
    suite: String,
    repetitions: u32,
    only: String,
    allocators: Option<Vec<String>>,
    tries: u64,
    effort: Effort,
}

fn wishes() -> Result<Wishes, String> {
    let mut words = std::env::args().skip(1);
    let suite = words.next().filter(|word| word == "misuse" || word == "robustness").ok_or(USAGE)?;
    let only = String::new();
    let mut wishes =
        Wishes { suite, repetitions: 1, only, allocators: None, tries: 200_000, effort: Effort::Daily };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{word} {text}: give a number"));
        match word.as_str() {
            "--repetitions" => wishes.repetitions = number(value()?)? as u32,
            "--only" => wishes.only = value()?,
            "--allocators" => wishes.allocators = Some(value()?.split(',').map(String::from).collect()),
            "--tries" => wishes.tries = number(value()?)?,
            "--thorough" => wishes.effort = Effort::Thorough,
            _ => return Err(format!("{word} is not known\n{USAGE}")),
        }
    }
    Ok(wishes)
}

fn main() -> ExitCode {
    match wishes().and_then(|wishes| print(&wishes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What the repetitions of one cell led to, and how often.
type Cell = BTreeMap<String, u32>;

fn shown(cell: &Cell) -> String {
    match cell.len() {
        1 => cell.keys().next().cloned().unwrap_or_default(),
        _ => cell.iter().map(|(word, count)| format!("{word} {count}x")).collect::<Vec<_>>().join(", "),
    }
}

fn print(wishes: &Wishes) -> Result<(), String> {
    let mut allocators = Allocator::all()?;
    if let Some(names) = &wishes.allocators {
        allocators.retain(|allocator| names.iter().any(|name| name == allocator.name));
    }
    let names: Vec<&str> = allocators.iter().map(|allocator| allocator.name).collect();
    println!("| case | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    match wishes.suite.as_str() {
        "misuse" => print_misuse(wishes, &allocators),
        _ => print_robustness(wishes, &allocators),
    }
}

fn print_row(name: &str, cells: &[String]) {
    println!("| {name} | {} |", cells.join(" | "));
}

fn print_misuse(wishes: &Wishes, allocators: &[Allocator]) -> Result<(), String> {
    let (mut messages, mut silent) = (vec![0; allocators.len()], vec![0; allocators.len()]);
    let mut details = Vec::new();
    for (program, crime, _) in misuse::CRIMES.iter().filter(|(_, crime, _)| crime.contains(&wishes.only)) {
        let mut row = Vec::new();
        for (place, allocator) in allocators.iter().enumerate() {
            let mut cell = Cell::new();
            let mut all_messages = true;
            let mut any_silent = false;
            // One long run of the randomised crime says as much as many.
            let repetitions = if *crime == "steer_at_random" { 1 } else { wishes.repetitions };
            for _ in 0..repetitions {
                let verdict = misuse::commit(allocator, program, crime, wishes.tries)?;
                all_messages &= verdict.is_message();
                any_silent |= verdict.is_silent_damage();
                if let misuse::Verdict::WentOn { detail, .. } = &verdict
                    && *crime == "steer_at_random"
                {
                    details.push(format!("- {crime}, {}: {detail}", allocator.name));
                }
                *cell.entry(verdict.to_string()).or_default() += 1;
            }
            messages[place] += u32::from(all_messages);
            silent[place] += u32::from(any_silent);
            row.push(shown(&cell));
        }
        print_row(crime, &row);
    }
    let texts = |counts: &[u32]| counts.iter().map(|count| format!("**{count}**")).collect::<Vec<_>>();
    print_row("**stopped with a message**", &texts(&messages));
    print_row("**silent damage to the heap**", &texts(&silent));
    println!("\n{}", details.join("\n"));
    println!("\nOpen in the default build:\n");
    misuse::KNOWN_OPEN.iter().for_each(|(crime, reason)| println!("- `{crime}`: {reason}"));
    Ok(())
}

fn print_robustness(wishes: &Wishes, allocators: &[Allocator]) -> Result<(), String> {
    let (mut passed, mut meant) = (vec![0; allocators.len()], vec![0; allocators.len()]);
    for case in suite::CASES.iter().filter(|case| case.name.contains(&wishes.only)) {
        let mut row = Vec::new();
        for (place, allocator) in allocators.iter().enumerate() {
            let mut cell = Cell::new();
            let mut hangs = 0;
            for _ in 0..wishes.repetitions {
                let outcome = attempt::attempt(allocator, case, wishes.effort)?;
                if let Outcome::Failed { how, said } = &outcome {
                    eprintln!(
                        "{} {}: {how}: {}",
                        case.name,
                        allocator.name,
                        said.lines().next().unwrap_or("")
                    );
                    hangs += u32::from(how == "hangs");
                }
                *cell.entry(outcome.to_string()).or_default() += 1;
                // A hang costs its whole time limit; three say enough.
                if hangs == 3 {
                    break;
                }
            }
            let runs = !cell.contains_key("-") && !cell.contains_key("skipped");
            meant[place] += u32::from(runs);
            passed[place] += u32::from(runs && cell.len() == 1 && cell.contains_key("passed"));
            row.push(shown(&cell));
        }
        print_row(case.name, &row);
    }
    let texts: Vec<String> =
        passed.iter().zip(&meant).map(|(passed, meant)| format!("**{passed} of {meant}**")).collect();
    print_row("**passed**", &texts);
    println!("\nOpen in vcmalloc:\n");
    for (name, fails, reason) in suite::KNOWN_OPEN {
        println!("- `{name}` ({}): {reason}", if *fails == Fails::Always { "always" } else { "sometimes" });
    }
    Ok(())
}
