//! The smallest lab: one experiment that makes and starts one of everything, and measures `sleep`.
//!
//! Shows what a declaration looks like, and is what the end-to-end tests of the engine run:
//! `toy-lab [--state DIR] [--work DIR] [--out DIR] [--json] ACTION`.

use anyhow::{Result, bail};
use std::time::Duration;
use vcm_inspect::usage::Usage;
use vcm_labs::engine::cell::Cell;
use vcm_labs::engine::experiment::*;
use vcm_labs::engine::lab::{For, Lab, Setting, Values, no_other_debian, nothing_to_check};
use vcm_labs::engine::process::{Process, Program};
use vcm_labs::engine::request::Request;
use vcm_labs::engine::results::Row;
use vcm_labs::engine::run::{Ending, act};
use vcm_labs::engine::session::Session;
use vcm_labs::engine::understood::is_not_understood;
use vcm_measure::stop::is_stopped;
use vcm_measure::tell;

const SMALL: Point =
    Point { allocator: "glibc", axes: &[("bytes", "100000")], step: "full", measure: "bytes" };
const LARGE: Point =
    Point { allocator: "glibc", axes: &[("bytes", "300000")], step: "full", measure: "bytes" };

static NAP: Experiment = Experiment {
    name: "nap",
    title: "A process that sleeps",
    question: "Does a file of three times the bytes hold three times the bytes?",
    reports: &[Report { who: "nobody", year: "1970", found: "it does", source: "" }],
    then: "Disks were smaller.",
    allocators: &["glibc"],
    axes: &[Axis {
        name: "bytes",
        what: "what is written",
        quick: &["100000", "300000"],
        full: &["100000", "300000", "900000"],
        setup: true,
    }],
    pairing: Pairing::Turns,
    quick: Plan { repetitions: 2, about: "a second" },
    full: Plan { repetitions: 4, about: "two seconds" },
    steps: &[
        Step { name: "empty", what: "before the file is written" },
        Step { name: "full", what: "after it was written" },
    ],
    measures: &[
        Measure {
            name: "bytes",
            unit: "bytes",
            what: "what the file holds",
            digits: 0,
            shown: true,
            whole: false,
        },
        Measure {
            name: "rss",
            unit: "MiB",
            what: "resident memory of sleep",
            digits: 1,
            shown: true,
            whole: false,
        },
    ],
    controls: &[Control { what: "a larger file is larger", higher: LARGE, lower: SMALL, at_least: 2.0 }],
    claims: &[Claim {
        what: "a file of 300,000 bytes holds no more",
        point: LARGE,
        over: None,
        at_most: 300_000.0,
    }],
    answer: &[],
    figures: &[Figure { report: 0, point: LARGE, value: 300_000.0 }],
    pictures: &[
        Picture::Steps { title: "Bytes by step", measure: "bytes" },
        Picture::Lines { title: "Bytes by bytes", measure: "bytes", axis: "bytes", step: "full" },
    ],
    packages: &[],
    prepare,
    skip: nothing_to_skip,
    cell: nap,
};

/// A package that is missing, if a test says so.
fn prepare(session: &Session) -> Result<()> {
    match std::env::var("TOY_NEEDS") {
        Ok(name) => session.packages(&[(name, "a test asks for it".to_owned())]),
        Err(_) => Ok(()),
    }
}

fn nap(session: &Session, cell: &Cell) -> Result<Vec<Row>> {
    let cluster = session.fixture(cell.text("bytes"), |session| Cluster::up(session, cell))?;
    session.step("measuring")?;
    if std::env::var("TOY_FAILS").is_ok_and(|fails| fails == cell.tell()) {
        bail!("as asked for");
    }
    let file = session.directory().join(format!("ground-{}/file", cell.text("bytes")));
    let row = |step: &str, bytes: u64| -> Result<Row> {
        let rss = Usage::of(cluster.sleeper.pid())?.rss_mib;
        Ok(Row::of(cell, cell.allocator()).step(step).value("bytes", bytes as f64).value("rss", rss))
    };
    let empty = row("empty", 0)?;
    std::fs::write(&file, vec![b'x'; cell.number("bytes") as usize])?;
    session.sleep(Duration::from_millis(20))?;
    Ok(vec![empty, row("full", std::fs::metadata(&file)?.len())?])
}

/// Two processes, of which one puts itself into the background, on a ground of their own.
struct Cluster {
    sleeper: Process,
}

impl Cluster {
    fn up(session: &Session, cell: &Cell) -> Result<Cluster> {
        let ground = session.directory().join(format!("ground-{}", cell.text("bytes")));
        session.make_directory(&ground)?;
        if session.outside().is_some() {
            session.mount_tmpfs(&ground, "size=8m")?;
            let image = session.directory().join(format!("image-{}", cell.text("bytes")));
            session.make_file(&image, 1 << 20)?;
            session.loop_device(&image)?;
        }
        session.step("starting")?;
        let program =
            started_on(session, "sleep").arg("1000").allocator(&session.allocator(cell.allocator())?);
        let sleeper = program.start("sleeper")?;
        started_on(session, "sh").args(["-c", "setsid sleep 1001 & exit 0"]).start("background")?;
        session.command("true").run()?;
        sleeper.check()?;
        Ok(Cluster { sleeper })
    }
}

/// A program that tests can find again by the folder of their run.
fn started_on<'a>(session: &'a Session, program: &str) -> Program<'a> {
    session.command(program).env("TOY_GROUND", &session.request().work)
}

static LAB: Lab = Lab {
    name: "toy",
    what: "nothing of use",
    experiments: &[&NAP],
    settings: &[Setting {
        name: "length",
        value: "SECONDS",
        values: Values::Number(1..=60),
        of: For::Only("run"),
        default: Some("1"),
        help: "run: how long to sleep",
    }],
    check: nothing_to_check,
    debians: no_other_debian,
    lives_here: || std::env::var("TOY_LIVES_HERE").ok(),
    elsewhere: None,
    up: |session| {
        started_on(session, "sleep").arg("1002").start("kept")?;
        session.keep(&session.directory())
    },
    run: |session| {
        let directory: Option<std::path::PathBuf> = session.kept()?;
        tell::result(&format!("up: {}\n", directory.is_some_and(|directory| directory.exists())))
    },
};

fn main() {
    let mut request = Request { command: "toy_lab".into(), ..Request::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value").into();
        match word.as_str() {
            "--state" => request.state = value(),
            "--work" => request.work = value(),
            "--out" => request.out = Some(value()),
            "--json" => request.json = true,
            "--from" => request.from = Some(value()),
            "--length" => drop(request.settings.insert("length".into(), words.next().expect("a value"))),
            _ => request.action = word,
        }
    }
    let code = match act(&LAB, request) {
        Ok(Ending::Done) => 0,
        Ok(Ending::Void) => 3,
        Err(error) => {
            eprintln!("{error:#}");
            match () {
                () if is_stopped(&error) => 130,
                () if is_not_understood(&error) => 2,
                () => 1,
            }
        }
    };
    std::process::exit(code);
}
