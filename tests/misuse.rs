//! Every crime of `misuse/` against our library, with and without restartable sequences, with every free
//! checked, and the hardened one: what is promised must happen, and what is known to be open must still be
//! open.

#[path = "misuse/allocators.rs"]
mod allocators;
#[path = "misuse/suite.rs"]
mod suite;

use std::process::ExitCode;

use allocators::Allocator;
use libtest_mimic::{Arguments, Trial};
use suite::{CRIMES, KNOWN_OPEN, OPEN_ACROSS_CPUS, Promise};

const TRIES: u64 = 200_000;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let ours = match every_build_of_ours() {
        Ok(ours) => ours,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = vec![Trial::test("the_open_list_names_crimes", || Ok(every_open_crime_exists()?))];
    for allocator in ours {
        for (program, crime, promise) in CRIMES {
            let allocator = allocator.clone();
            let promise =
                if allocator.is_hardened() { suite::hardened_promise(crime, promise) } else { promise };
            let name = format!("{crime}::{}", allocator.name);
            trials.push(Trial::test(name, move || Ok(prove(&allocator, program, crime, promise)?)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn every_build_of_ours() -> Result<Vec<Allocator>, String> {
    let mut ours = Vec::from(Allocator::ours()?);
    ours.push(Allocator::checked()?);
    ours.push(Allocator { name: "checked-locked", locked: true, ..Allocator::checked()? });
    ours.push(Allocator::hardened()?);
    Ok(ours)
}

fn every_open_crime_exists() -> Result<(), String> {
    let unknown = KNOWN_OPEN.iter().find(|(open, _)| !CRIMES.iter().any(|(_, crime, _)| crime == open));
    unknown.map_or(Ok(()), |(open, _)| {
        Err(format!("KNOWN_OPEN of misuse/suite.rs names {open}, which is no crime"))
    })
}

fn prove(allocator: &Allocator, program: &str, crime: &str, promise: Promise) -> Result<(), String> {
    let verdict = suite::commit(allocator, program, crime, TRIES)?;
    let knows_every_copy = allocator.is_hardened() || allocator.checked;
    let open = KNOWN_OPEN.iter().find(|(open, _)| *open == crime && !knows_every_copy);
    if OPEN_ACROSS_CPUS.contains(&crime) && !knows_every_copy && !verdict.is_silent_damage() {
        return Ok(());
    }
    match (verdict.keeps(promise), open) {
        (true, None) | (false, Some(_)) => Ok(()),
        (false, None) => Err(format!("{promise:?} is promised, not {verdict:?}")),
        (true, Some(_)) => {
            Err(format!("{verdict:?}: it is kept now; take it off KNOWN_OPEN in misuse/suite.rs"))
        }
    }
}
