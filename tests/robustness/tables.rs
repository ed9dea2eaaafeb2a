//! Both suites on every allocator of this machine, as Markdown that says by which command it was made, when
//! and where.
//!
//! ```text
//!   cargo run -p vcmalloc-tests --example hard_to_break -- misuse|robustness
//!       [--repetitions N] [--minutes N] [--patience N] [--only WORD] [--allocators NAME,NAME] [--tries N] [--thorough]
//! ```
//!
//! With `--minutes` the cells that took least time so far are run next, so that quick cases have all their
//! repetitions and slow ones some; a cell with fewer says how many. Limits of time are for a machine
//! that has nothing else to do; `--patience` multiplies them.

#[path = "../misuse/allocators.rs"]
mod allocators;
#[path = "attempt.rs"]
mod attempt;
#[path = "../misuse/suite.rs"]
mod misuse;
#[path = "suite.rs"]
mod suite;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use allocators::Allocator;
use attempt::{Effort, Outcome};
use suite::Fails;

const USAGE: &str = "hard_to_break misuse|robustness [--repetitions N] [--minutes N] [--patience N] [--only WORD] \
                     [--allocators NAME,NAME] [--tries N] [--thorough]";

/// A hang costs its whole time limit; three say enough.
const MOST_HANGS: u32 = 3;

struct Wishes {
    suite: String,
    repetitions: u32,
    only: String,
    allocators: Option<Vec<String>>,
    tries: u64,
    effort: Effort,
    until: Option<Instant>,
    patience: u32,
}

impl Wishes {
    /// Whether another run is wanted after so many. At least one is.
    fn another(&self, runs: u32) -> bool {
        let in_time = self.until.is_none_or(|until| Instant::now() < until);
        runs == 0 || (runs < self.repetitions && in_time)
    }
}

fn wishes() -> Result<Wishes, String> {
    let mut words = std::env::args().skip(1);
    let suite = words.next().filter(|word| word == "misuse" || word == "robustness").ok_or(USAGE)?;
    let only = String::new();
    let mut wishes = Wishes {
        suite,
        repetitions: 1,
        only,
        allocators: None,
        tries: 200_000,
        effort: Effort::Daily,
        until: None,
        patience: 1,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{word} {text}: give a number"));
        match word.as_str() {
            "--repetitions" => wishes.repetitions = number(value()?)? as u32,
            "--minutes" => {
                let minutes = Duration::from_secs(60 * number(value()?)?);
                wishes.until = Some(Instant::now() + minutes);
            }
            "--patience" => wishes.patience = number(value()?)? as u32,
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

/// The outcomes of the repetitions of one cell, and how often each came.
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
        let known: Vec<&str> = allocators.iter().map(|allocator| allocator.name).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("--allocators: {name} is not here; there are {}", known.join(", ")));
        }
        allocators.retain(|allocator| names.iter().any(|name| name == allocator.name));
    }
    println!("{}\n", provenance());
    match wishes.suite.as_str() {
        "misuse" => print_misuse(wishes, &allocators),
        _ => print_robustness(wishes, &allocators),
    }
}

/// By which command, when, on which machine and at what load.
fn provenance() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let load = read("/proc/loadavg");
    format!(
        "`cargo run --release -p vcmalloc-tests --example hard_to_break -- {}`, {}, {} CPUs ({}), Linux {}, load at the start {}",
        words.join(" "),
        said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        std::thread::available_parallelism().map_or(1, usize::from),
        model.trim_start_matches([' ', '\t', ':']),
        said("uname", &["-r"]),
        load.split(' ').next().unwrap_or("")
    )
}

fn print_head(allocators: &[Allocator], rounds: u32) {
    let names: Vec<&str> = allocators.iter().map(|allocator| allocator.name).collect();
    println!("{rounds} runs a cell.\n");
    println!("| case | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
}

fn print_row(name: &str, cells: &[String]) {
    println!("| {name} | {} |", cells.join(" | "));
}

fn bold(counts: &[u32]) -> Vec<String> {
    counts.iter().map(|count| format!("**{count}**")).collect()
}

/// The outcomes of one crime's runs on one allocator.
#[derive(Default, Clone)]
struct Crimes {
    cell: Cell,
    not_stopped: bool,
    silent: bool,
}

fn print_misuse(wishes: &Wishes, allocators: &[Allocator]) -> Result<(), String> {
    let crimes: Vec<_> = misuse::CRIMES.iter().filter(|(_, crime, _)| crime.contains(&wishes.only)).collect();
    let mut table = vec![vec![Crimes::default(); allocators.len()]; crimes.len()];
    let (mut rounds, mut details) = (0, Vec::new());
    while wishes.another(rounds) {
        for ((program, crime, _), row) in crimes.iter().zip(&mut table) {
            // One long run of the randomised crime says as much as many.
            if *crime == "steer_at_random" && rounds > 0 {
                continue;
            }
            for (allocator, place) in allocators.iter().zip(row) {
                let verdict = misuse::commit(allocator, program, crime, wishes.tries)?;
                place.not_stopped |= !verdict.is_message();
                place.silent |= verdict.is_silent_damage();
                if let misuse::Verdict::WentOn { detail, .. } = &verdict
                    && *crime == "steer_at_random"
                {
                    details.push(format!("- {crime}, {}: {detail}", allocator.name));
                }
                *place.cell.entry(verdict.to_string()).or_default() += 1;
            }
        }
        rounds += 1;
    }
    print_head(allocators, rounds);
    for ((_, crime, _), row) in crimes.iter().zip(&table) {
        print_row(crime, &row.iter().map(|place| shown(&place.cell)).collect::<Vec<_>>());
    }
    let count = |of: &dyn Fn(&Crimes) -> bool| -> Vec<u32> {
        (0..allocators.len())
            .map(|column| table.iter().filter(|row| of(&row[column])).count() as u32)
            .collect()
    };
    print_row("**stopped with a message**", &bold(&count(&|place| !place.not_stopped)));
    print_row("**silent damage to the heap**", &bold(&count(&|place| place.silent)));
    println!("\n{}", details.join("\n"));
    println!("\nOpen in the default build:\n");
    misuse::KNOWN_OPEN.iter().for_each(|(crime, reason)| println!("- `{crime}`: {reason}"));
    Ok(())
}

/// The runs of one case on one allocator.
#[derive(Default, Clone)]
struct Runs {
    cell: Cell,
    count: u32,
    spent: Duration,
}

impl Runs {
    fn is_wanted(&self, wishes: &Wishes) -> bool {
        let hangs = self.cell.get("**hangs**").is_some_and(|hangs| *hangs >= MOST_HANGS);
        let says_nothing = self.cell.contains_key("-") || self.cell.contains_key("skipped");
        wishes.another(self.count) && !hangs && !says_nothing
    }

    fn shown(&self, wishes: &Wishes) -> String {
        let says_nothing = self.cell.contains_key("-") || self.cell.contains_key("skipped");
        match shown(&self.cell) {
            text if self.count < wishes.repetitions && self.cell.len() == 1 && !says_nothing => {
                format!("{text} {}x", self.count)
            }
            text => text,
        }
    }
}

/// The cell that had least time, of those that are to be run.
fn next_cell(table: &[Vec<Runs>], wishes: &Wishes) -> Option<(usize, usize)> {
    let cells =
        table.iter().enumerate().flat_map(|(row, cells)| (0..cells.len()).map(move |column| (row, column)));
    cells
        .filter(|(row, column)| table[*row][*column].is_wanted(wishes))
        .min_by_key(|(row, column)| table[*row][*column].spent)
}

fn print_robustness(wishes: &Wishes, allocators: &[Allocator]) -> Result<(), String> {
    let cases: Vec<_> = suite::CASES.iter().filter(|case| case.name.contains(&wishes.only)).collect();
    let mut table = vec![vec![Runs::default(); allocators.len()]; cases.len()];
    while let Some((row, column)) = next_cell(&table, wishes) {
        let (case, allocator, runs) = (cases[row], &allocators[column], &mut table[row][column]);
        let began = Instant::now();
        let outcome = attempt::attempt(allocator, case, wishes.effort, wishes.patience)?;
        if let Outcome::Failed { how, said } = &outcome {
            let line = said.lines().next().unwrap_or("");
            eprintln!("{} {} in run {}: {how}: {line}", case.name, allocator.name, runs.count + 1);
        }
        *runs.cell.entry(outcome.to_string()).or_default() += 1;
        runs.count += 1;
        runs.spent += began.elapsed();
    }
    print_head(allocators, wishes.repetitions);
    let (mut passed, mut meant) = (vec![0; allocators.len()], vec![0; allocators.len()]);
    for (case, row) in cases.iter().zip(&table) {
        for (place, Runs { cell, .. }) in row.iter().enumerate() {
            let runs = !cell.contains_key("-") && !cell.contains_key("skipped");
            meant[place] += u32::from(runs);
            passed[place] += u32::from(runs && cell.len() == 1 && cell.contains_key("passed"));
        }
        print_row(case.name, &row.iter().map(|runs| runs.shown(wishes)).collect::<Vec<_>>());
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
