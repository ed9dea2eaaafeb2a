//! Every case of `robustness/` on our library: what works must go on working, and what is known to be open
//! must still be open. `ROBUSTNESS_REPETITIONS` runs each case more than once.

#[path = "misuse/allocators.rs"]
mod allocators;
#[path = "robustness/attempt.rs"]
mod attempt;
#[path = "robustness/suite.rs"]
mod suite;

use std::process::ExitCode;

use allocators::Allocator;
use attempt::{Effort, Outcome, attempt};
use libtest_mimic::{Arguments, Trial};
use suite::{CASES, Case, Fails, KNOWN_OPEN};

/// Blocks that are bound otherwise are freed by functions that the hardened library tells apart, and a handler may
/// interrupt the paths that it alone has.
const ON_HARDENED_TOO: [&str; 2] = ["deeply_bound_plugin", "malloc_in_a_handler"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let [ours, _] = match Allocator::ours() {
        Ok(ours) => ours,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = vec![Trial::test("the_open_list_names_cases", || Ok(every_open_case_exists()?))];
    trials.extend(CASES.iter().map(|case| {
        let ours = ours.clone();
        Trial::test(case.name, move || Ok(prove(&ours, case)?))
    }));
    trials.extend(CASES.iter().filter(|case| ON_HARDENED_TOO.contains(&case.name)).map(|case| {
        Trial::test(format!("{}::hardened", case.name), || Ok(prove(&Allocator::hardened()?, case)?))
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn every_open_case_exists() -> Result<(), String> {
    let unknown = KNOWN_OPEN.iter().find(|(open, ..)| !CASES.iter().any(|case| case.name == *open));
    unknown.map_or(Ok(()), |(open, ..)| {
        Err(format!("KNOWN_OPEN of robustness/suite.rs names {open}, which is no case"))
    })
}

/// A number that cannot be read, or none at all, would pass for a suite that was run.
fn repetitions() -> Result<u32, String> {
    let Ok(text) = std::env::var("ROBUSTNESS_REPETITIONS") else { return Ok(1) };
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("ROBUSTNESS_REPETITIONS={text}: give a number from 1"))
}

/// How many times the time of an idle machine a case may take: its limit ends a hang and measures nothing.
const PATIENCE: u32 = 4;

fn prove(allocator: &Allocator, case: &Case) -> Result<(), String> {
    let open = KNOWN_OPEN.iter().find(|(open, ..)| *open == case.name).map(|(_, fails, _)| *fails);
    let repetitions = repetitions()?;
    for _ in 0..if open == Some(Fails::Sometimes) { 0 } else { repetitions } {
        match (attempt(allocator, case, Effort::Daily, PATIENCE)?, open) {
            (Outcome::Skipped(reason), _) => vcmalloc_tests::skip!("{}: {reason}", case.name),
            (Outcome::Failed { how, said }, None) => return Err(format!("{how}\n{said}")),
            (Outcome::Passed, Some(_)) => {
                return Err("it works now; take it off KNOWN_OPEN in robustness/suite.rs".into());
            }
            _ => {}
        }
    }
    Ok(())
}
