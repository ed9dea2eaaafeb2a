//! Blocks of tenants' heaps, and of heaps that have ended, misused; and partitions by type.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use vcmalloc_tests::{Ground, compile, library, machine};

use crate::allocators::{Allocator, End, Run, run};

/// A crime, and how the complaint of the hardened library begins; and that of the others, where one is promised.
const CRIMES: [(&str, &str, Option<&str>); 7] = [
    ("overflow_found_at_the_end", "write behind the end of a block", None),
    ("double_free", "double free", Some("double free")),
    ("free_after_the_end", "double free", Some("free of memory that holds no block")),
    ("read_after_the_end", "read of a block whose heap has ended", None),
    ("write_after_the_end", "write to a block whose heap has ended", None),
    ("realloc_after_the_end", "access to a block whose heap has ended", None),
    ("second_late_free", "double free", Some("double free")),
];

/// Crimes that none but the hardened library promises to stop.
const OPEN: [&str; 1] = ["second_late_free"];

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = CRIMES
        .iter()
        .map(|(crime, hardened, plain)| {
            Trial::test(format!("{crime}_in_a_tenants_heap"), || Ok(is_stopped(crime, hardened, *plain)?))
        })
        .collect();
    trials.push(Trial::test("each_of_100_late_frees_is_counted", || Ok(late_frees_are_counted()?)));
    trials.push(Trial::test("the_report_of_a_late_access_says_which_heap_ended_and_where", || {
        Ok(the_report_names_the_end()?)
    }));
    trials.push(Trial::test("a_block_of_one_types_token_never_becomes_one_of_anothers", || {
        Ok(tokens_keep_types_apart()?)
    }));
    trials
}

fn command(program: &str, arguments: &[&str]) -> Result<Command, String> {
    let source = library::repository().join("tests/misuse").join(program);
    let program = compile::program(
        &source,
        Ground::Preload,
        &["-Wno-use-after-free".to_string(), "-Wno-unused-result".to_string()],
    )?;
    let mut command = machine::command(&program);
    command.args(arguments);
    Ok(command)
}

fn committed(allocator: &Allocator, crime: &str) -> Result<Run, String> {
    let mut command = command("tenants.c", &[crime])?;
    allocator.prepare(&mut command)?;
    run(&mut command, Duration::from_secs(100))
}

fn is_stopped(crime: &str, hardened: &str, plain: Option<&str>) -> Result<(), String> {
    let mut meant = vec![(Allocator::hardened()?, hardened)];
    if let Some(plain) = plain.filter(|_| !OPEN.contains(&crime)) {
        meant.extend(Allocator::ours()?.map(|allocator| (allocator, plain)));
    }
    for (allocator, words) in meant {
        let run = committed(&allocator, crime)?;
        if run.end != End::Signal(libc::SIGABRT) || !run.complaints.starts_with(&format!("vcmalloc: {words}"))
        {
            return Err(format!("{}: {:?}\n{}", allocator.name, run.end, run.complaints));
        }
    }
    Ok(())
}

fn late_frees_are_counted() -> Result<(), String> {
    for allocator in Allocator::ours()?.into_iter().chain([Allocator::hardened()?]) {
        let run = committed(&allocator, "late_frees")?;
        if run.end != End::Exit(0) {
            return Err(format!("{}: {:?}\n{}", allocator.name, run.end, run.complaints));
        }
    }
    Ok(())
}

fn the_report_names_the_end() -> Result<(), String> {
    let run = committed(&Allocator::hardened()?, "read_after_the_end")?;
    let lines: Vec<&str> = run.complaints.lines().collect();
    let is_stack = |line: &&str| line.starts_with("    #");
    let of_program =
        |lines: &[&str]| lines.iter().take_while(|line| is_stack(line)).any(|line| line.contains("tenants"));
    let here = lines.iter().position(|line| *line == "  here:");
    let end = lines.iter().position(|line| line.starts_with("  heap 'brick-7' ended by thread "));
    match (here, end) {
        (Some(here), Some(end)) if of_program(&lines[here + 1..]) && of_program(&lines[end + 1..]) => Ok(()),
        _ => Err(run.complaints),
    }
}

/// Without tokens a freed block's address comes back for a block of any type.
fn tokens_keep_types_apart() -> Result<(), String> {
    let came_back = |how: &str| {
        let mut command = command("tokens.c", &[how])?;
        Allocator::hardened()?.prepare(&mut command)?;
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
        text.parse::<u32>().map_err(|_| format!("{how}: {text}{}", String::from_utf8_lossy(&output.stderr)))
    };
    match (came_back("malloc")?, came_back("tokens")?) {
        (100.., 0) => Ok(()),
        other => Err(format!("without tokens and with them so many addresses came back: {other:?}")),
    }
}
