//! Programs that say what each of their functions took and holds, and what `vcm profile` says of it: every function above
//! one hundredth of the bytes within three standard errors.
//!
//! Samples are drawn where a Poisson process over the bytes asked for has its points, so a block of `r` bytes is one with the
//! chance `p = 1 - exp(-r / interval)`, independently of all others, and stands for `1 / p` blocks. A sum of `r / p` over the
//! samples then has the expectation of the bytes of all blocks, and the variance `Σ r² (1 - p) / p` over all of them (the
//! estimator of Horvitz and Thompson, "A generalization of sampling without replacement from a finite universe", Journal of
//! the American Statistical Association 47, 1952, with independent draws). Sizes and counts are the program's own, so that
//! nothing which the library or the tool computes is in the error that they are measured by.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use vcm_profile::{Measure, Profile, chains};
use vcmalloc_tests::{Ground, compile, library, machine};

const PROGRAMS: [&str; 10] = [
    "sizes.c",
    "churn.c",
    "threads.c",
    "reallocs.c",
    "aligned.c",
    "news.cc",
    "callocs.c",
    "crew.c",
    "lifetimes.cc",
    "intervals.c",
];
/// Mean bytes between samples.
const INTERVAL: u64 = 16 << 10;
/// Of all bytes; functions with less are not looked at.
const SMALLEST_SHARE: f64 = 0.01;
const MOST_ERRORS: f64 = 3.0;

/// Bytes of a function, and the variance of what samples say of them.
#[derive(Clone, Copy, Default)]
struct Sum {
    bytes: f64,
    variance: f64,
    blocks: f64,
}

impl Sum {
    fn add(&mut self, bytes: f64, blocks: f64) {
        let chance = -(-bytes / INTERVAL as f64).exp_m1();
        self.bytes += bytes * blocks;
        self.variance += blocks * bytes * bytes * (1.0 - chance) / chance;
        self.blocks += blocks;
    }

    /// Each weight is rounded to a whole byte.
    fn allowed(&self) -> f64 {
        MOST_ERRORS * self.variance.sqrt() + 0.5 * self.blocks
    }

    /// In standard errors; none where chance has no part in it.
    fn errors(&self, found: f64) -> Option<f64> {
        let error = self.variance.sqrt();
        (error > self.bytes / 1000.0).then(|| (found - self.bytes) / error)
    }
}

/// A program's own account of its functions: all that was taken, and what of it is held.
struct Truth {
    allocated: BTreeMap<String, Sum>,
    live: BTreeMap<String, Sum>,
}

impl Truth {
    fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Truth {
        let (mut allocated, mut live) = (BTreeMap::new(), BTreeMap::new());
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, numbers @ ..] = words.as_slice() else { panic!("an empty line") };
            let numbers: Vec<f64> = numbers.iter().map(|word| word.parse().expect("a number")).collect();
            let [bytes, taken, held] = numbers[..] else { panic!("{line}") };
            for (sums, blocks) in [(&mut allocated, taken), (&mut live, held)] {
                sums.entry(name.to_string()).or_insert_with(Sum::default).add(bytes, blocks);
            }
        }
        assert!(!allocated.is_empty(), "the program said nothing");
        Truth { allocated, live }
    }

    fn of_measure(&self, measure: Measure) -> &BTreeMap<String, Sum> {
        if measure == Measure::Allocated { &self.allocated } else { &self.live }
    }
}

/// Bytes by function, as a saved profile has them.
fn found(file: &Path, measure: Measure) -> BTreeMap<String, f64> {
    let bytes = std::fs::read(file).expect("it was written");
    let profile = Profile::from_pprof(&bytes).expect("a profile");
    assert_eq!(profile.interval, INTERVAL);
    let mut by_function = BTreeMap::new();
    for chain in chains(&profile, measure) {
        let name = chain.own().map_or("", |own| own.function.split('(').next().unwrap_or_default());
        *by_function.entry(name.to_string()).or_insert(0.0) += chain.amount.bytes;
    }
    by_function
}

/// A function that is off by more than chance does once in 370 times.
struct Wrong {
    /// Whose bytes, of which measure, and to which side: chance is not twice on the same one.
    site: String,
    says: String,
}

/// The functions that a profile has wrong; and how far each function's bytes are off, in standard errors.
fn compared(truth: &BTreeMap<String, Sum>, found: &BTreeMap<String, f64>) -> (Vec<Wrong>, Vec<f64>) {
    let all: f64 = truth.values().map(|sum| sum.bytes).sum();
    let (mut wrong, mut errors) = (Vec::new(), Vec::new());
    for (name, sum) in truth.iter().filter(|(_, sum)| sum.bytes > SMALLEST_SHARE * all) {
        let bytes = found.get(name).copied().unwrap_or(0.0);
        errors.extend(sum.errors(bytes));
        if (bytes - sum.bytes).abs() > sum.allowed() {
            let side = if bytes > sum.bytes { "above" } else { "below" };
            let says = format!("{name}: {bytes}, not {} ± {:.0}", sum.bytes, sum.variance.sqrt());
            wrong.push(Wrong { site: format!("{name} {side}"), says });
        }
    }
    for (name, bytes) in found {
        let sum = truth.get(name).copied().unwrap_or_default();
        if *bytes > SMALLEST_SHARE * all + sum.bytes + sum.allowed() {
            let says = format!("{name}: {bytes}, of which the program knows {}", sum.bytes);
            wrong.push(Wrong { site: format!("{name} above"), says });
        }
    }
    (wrong, errors)
}

/// Looks, and where a function is more than three errors off, once more: a fault is there again, in the same function and to the
/// same side. (These tests look at hundreds of functions: chance puts one off in many a run.) Returns how far
/// off the functions were.
fn looked_at(what: &str, mut look: impl FnMut() -> (Vec<Wrong>, Vec<f64>)) -> Vec<f64> {
    let (wrong, errors) = look();
    if !wrong.is_empty() {
        let (again, _) = look();
        let same =
            again.iter().filter_map(|now| Some((now, wrong.iter().find(|then| then.site == now.site)?)));
        let lines: Vec<String> =
            same.map(|(now, then)| format!("{}; before: {}", now.says, then.says)).collect();
        assert!(lines.is_empty(), "{what}: {}", lines.join("\n"));
    }
    errors
}

/// The errors that are said are those that occur: their squares have the mean 1.
fn are_standard_errors(errors: &[f64]) {
    let count = errors.len() as f64;
    assert!(count > 40.0, "{count} functions");
    let mean = errors.iter().map(|error| error * error).sum::<f64>() / count;
    // Of squares of normal deviates, whose variance is 2.
    let allowed = 5.0 * (2.0 / count).sqrt();
    assert!((mean - 1.0).abs() < allowed, "{mean} ± {allowed}: {errors:.1?}");
}

fn program(name: &str, ground: Ground) -> PathBuf {
    let source = library::repository().join("tests/truth").join(name);
    let flags = [format!("-DINTERVAL={INTERVAL}")];
    compile::program(&source, ground, &flags).unwrap_or_else(|error| panic!("{error}"))
}

fn vcm(arguments: &[&str]) -> Output {
    let mut command = Command::new(library::tool().unwrap_or_else(|error| panic!("{error}")));
    Ground::Glibc.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
    let output = command.arg("profile").args(arguments).output().expect("vcm starts");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaints}");
    assert!(!complaints.contains("vcm: note"), "{arguments:?}: {complaints}");
    output
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

fn what_is_told(output: &str) -> impl Iterator<Item = &str> {
    output.lines().take_while(|line| *line != "told")
}

/// A program from its start to its end, by `vcm profile`: what it said, the file, and the table.
fn profiled(name: &str, option: &str) -> (Truth, tempfile::TempDir, PathBuf, String) {
    let program = program(name, Ground::Preload);
    // The library lies beside the tool, and is found there.
    library::shared().unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("profile");
    let interval = INTERVAL.to_string();
    let arguments = [option, "--interval", &interval, "-o", text(&file), "--", text(&program)];
    let shown = String::from_utf8(vcm(&arguments).stdout).expect("text");
    let truth = Truth::of(what_is_told(&shown));
    (truth, folder, file, shown)
}

#[test]
fn every_site_of_ten_programs_allocates_and_holds_what_it_says() {
    let mut errors = Vec::new();
    for name in PROGRAMS {
        for (option, measure) in [("--allocated", Measure::Allocated), ("--live", Measure::Live)] {
            errors.extend(looked_at(&format!("{name} {option}"), || {
                let (truth, _folder, file, _) = profiled(name, option);
                compared(truth.of_measure(measure), &found(&file, measure))
            }));
        }
    }
    are_standard_errors(&errors);
}

/// A program that has said what it did, and waits; ended with the test.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn waiting(name: &str, ground: Ground) -> (Waiting, Truth) {
    let program = program(name, ground);
    let mut command = machine::command(&program);
    ground.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
    let interval = INTERVAL.to_string();
    command.envs([("VCM_PROFILE", "on"), ("VCM_SAMPLE_INTERVAL", &*interval), ("WAITS", "")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut output = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    while !output.ends_with("told\n") && reader.read_line(&mut output).expect("it says what it did") > 0 {}
    assert!(output.ends_with("told\n"), "{name} ended");
    (Waiting(child), Truth::of(what_is_told(&output)))
}

fn are_right_on(ground: Ground) {
    library::tool().unwrap_or_else(|error| panic!("{error}"));
    let mut errors = Vec::new();
    for name in PROGRAMS {
        errors.extend(looked_at(&format!("{name} on {}", ground.name()), || {
            let (running, truth) = waiting(name, ground);
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("profile");
            vcm(&[&running.0.id().to_string(), "-o", text(&file)]);
            let mut all = (Vec::new(), Vec::new());
            for measure in [Measure::Allocated, Measure::Live] {
                let (wrong, errors) = compared(truth.of_measure(measure), &found(&file, measure));
                all.0.extend(
                    wrong
                        .into_iter()
                        .map(|wrong| Wrong { site: format!("{measure:?} {}", wrong.site), ..wrong }),
                );
                all.1.extend(errors);
            }
            all
        }));
    }
    // The held blocks were drawn with those allocated: the mean of both has the variance of one, or less than twice.
    are_standard_errors(&errors);
}

#[test]
fn so_it_is_on_caches_under_locks() {
    are_right_on(Ground::Locked);
}

#[test]
fn so_it_is_in_programs_that_are_linked_with_the_archive() {
    are_right_on(Ground::Static);
}

#[test]
fn so_it_is_in_the_hardened_library() {
    are_right_on(Ground::Hardened);
}

/// The call sites of a table, in order, without the sum.
fn rows(table: &str) -> Vec<String> {
    let heading = table.lines().position(|line| line.ends_with("call site")).expect("a heading");
    let lines = table.lines().skip(heading + 1).filter(|line| !line.ends_with("in all"));
    let name = |line: &str| line.chars().skip(51).collect::<String>();
    lines.map(|line| name(line).split_whitespace().next().unwrap_or_default().to_string()).collect()
}

#[test]
fn the_peak_is_what_was_in_use_when_most_was_and_neither_before_nor_afterwards() {
    looked_at("peak.c", || {
        let (truth, _folder, file, shown) = profiled("peak.c", "--peak");
        let mut rows = rows(&shown);
        rows.truncate(3);
        assert_eq!(rows, ["at_the_second", "always", "at_both"], "{shown}");
        assert!(shown.lines().next().is_some(), "{shown}");
        // A peak counts from one in 64 above the last on, so that much of the last phase may be missing.
        let mut truth = truth.live;
        let all: f64 = truth.values().map(|sum| sum.bytes).sum();
        let last = truth.get_mut("at_the_second").expect("told");
        last.bytes -= all / 128.0;
        last.variance += (all / 128.0).powi(2);
        compared(&truth, &found(&file, Measure::Peak))
    });
}
