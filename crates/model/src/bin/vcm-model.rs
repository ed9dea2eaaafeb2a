//! `vcm-model page` counts every pattern and writes the page; the other modes run one tape on one heap, in a
//! process of its own, and say what was counted, as a line of JSON.

use anyhow::{Context, Result, bail, ensure};
use serde::{Serialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};
use std::process::Command;
use vcm_model::drive::{self, Mode};
use vcm_model::machine;
use vcm_model::page::{self, Check, Checks, Peer};
use vcm_model::pair;
use vcm_model::patterns::{self, PATTERNS, Pattern, Places, Row};
use vcm_model::tape::Tape;

/// The program's own memory: while a peer is stepped through it may not ask that peer, which is in the middle of a call.
#[global_allocator]
static OWN: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Steps of a copied pattern, at most.
const MOST_STEPS: usize = 4_000_000;
const CHECKED: [&str; 6] = ["storage", "larson", "prodcons", "starve", "mixedlife", "large"];
const STEPPED_PEERS: [&str; 3] = ["storage", "larson", "prodcons"];
/// Of each run that the prediction is held against.
const SECONDS: &str = "1";
const PAIRS: usize = 5;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("page") => return write_page(&arguments[1..], Missing::Counted),
        Some("show") => return write_page(&arguments[1..], Missing::LeftOut),
        _ => (),
    }
    let [mode, trace, cpus, copies, rest @ ..] = arguments.as_slice() else {
        bail!("vcm-model page|show BUILT KEPT PAGE CPUS TRACES [PATTERN...]; `make model` runs it");
    };
    let (cpus, copies) = (number(cpus)?, number(copies)?);
    let stepped = rest.first().map_or(Ok(0), |steps| number(steps))?;
    let tape = || -> Result<Tape> {
        let tape = Tape::read(Path::new(trace))?;
        Ok(if copies > 1 { tape.copied(copies, MOST_STEPS) } else { tape })
    };
    match mode.as_str() {
        "nothing" => say(&drive::run(&tape()?, cpus, Mode::Nothing)),
        "timed" => say(&drive::run(&tape()?, cpus, Mode::Timed)),
        "counted" => say(&drive::run(&tape()?, cpus, Mode::Counted)),
        "walk" => say(&drive::walk(&tape()?, cpus, stepped)?),
        "pair" => say(&pair::run(&tape()?, stepped)?),
        other => bail!("there is no mode `{other}`"),
    }
}

fn number(text: &str) -> Result<usize> {
    text.parse().with_context(|| format!("`{text}` is no number"))
}

fn say(what: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(what)?);
    Ok(())
}

/// Rows that are not kept from an earlier run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Counted,
    LeftOut,
}

/// BUILT: where the programs are. KEPT: recorded patterns, and rows that are not counted again (take them
/// away for that). PAGE: its tables are replaced, what stands before the first of them stays. CPUS: 2,8,64.
/// TRACES: a folder of daemons' traces.
fn write_page(arguments: &[String], missing: Missing) -> Result<()> {
    let [built, kept, page, cpus, traces, only @ ..] = arguments else {
        bail!("vcm-model page|show BUILT KEPT PAGE CPUS TRACES [PATTERN...]");
    };
    let places = Places { built: built.into(), kept: kept.into() };
    std::fs::create_dir_all(&places.kept)?;
    let cpus = cpus.split(',').map(number).collect::<Result<Vec<usize>>>()?;
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let mut rows = Vec::new();
    let mut take = |name: &str, cpus: usize, count: &dyn Fn() -> Result<Row>| {
        let kept = places.kept.join(format!("{name}-on-{cpus}.json"));
        if missing == Missing::LeftOut && !kept.exists() {
            return;
        }
        eprintln!("{name} on {cpus} CPUs");
        match kept_or(&kept, count) {
            Ok(row) => rows.push(row),
            Err(why) => eprintln!("{name} on {cpus} CPUs is left out: {why:#}"),
        }
    };
    for pattern in PATTERNS.iter().filter(|pattern| is_wanted(pattern.name)) {
        cpus.iter().for_each(|&cpus| take(pattern.name, cpus, &|| pattern.count(&places, cpus)));
    }
    for trace in daemons(Path::new(traces))? {
        let name = trace.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        if is_wanted(&name) {
            cpus.iter()
                .filter(|cpus| **cpus > 2)
                .for_each(|&cpus| take(&name, cpus, &|| patterns::count(&name, &trace, cpus, 1)));
        }
    }
    let checks = checks(&places, &rows);
    let peers = peers(&places, missing, &is_wanted);
    let page = Path::new(page);
    let before = std::fs::read_to_string(page).unwrap_or_default();
    let head = before.split("\n## ").next().unwrap_or_default().trim_end();
    let tables = page::markdown(&rows, checks.as_ref(), &peers);
    std::fs::write(page, format!("{head}\n\n{}", tables))?;
    let beside = |kind: &str, extension| {
        let folder = page.with_file_name(kind);
        std::fs::create_dir_all(&folder)?;
        Ok::<_, std::io::Error>(folder.join(page.file_name().unwrap_or_default()).with_extension(extension))
    };
    std::fs::write(beside("pictures", "svg")?, page::draw(&rows))?;
    std::fs::write(beside("data", "json")?, serde_json::to_string(&page::raw(&rows))? + "\n")?;
    Ok(())
}

fn kept_or<T: Serialize + DeserializeOwned>(file: &Path, count: &dyn Fn() -> Result<T>) -> Result<T> {
    if let Ok(text) = std::fs::read(file) {
        return Ok(serde_json::from_slice(&text)?);
    }
    let row = count()?;
    std::fs::write(file, serde_json::to_string(&row)?)?;
    Ok(row)
}

fn daemons(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut traces: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    traces.retain(|path| path.to_string_lossy().contains(".art"));
    traces.sort();
    Ok(traces)
}

/// Rates on one CPU and on two, of the patterns that were counted with two.
fn checks(places: &Places, rows: &[Row]) -> Option<Checks> {
    let rate = |pattern: &str, mask: &str| -> Result<f64> {
        let mut command = Command::new("taskset");
        command.args(["-c", mask]).arg(places.built.join("vcm-load"));
        command.args([pattern, "--threads", "2", "--seconds", SECONDS]);
        command.env("LD_PRELOAD", places.built.join("libvcmalloc.so"));
        let ended = command.output()?;
        ensure!(ended.status.success(), "{pattern}: {}", String::from_utf8_lossy(&ended.stderr));
        let report: serde_json::Value = serde_json::from_slice(&ended.stdout)?;
        let of = |name: &str| report[name].as_f64().unwrap_or_default();
        Ok(of("operations") / of("wall_seconds"))
    };
    let check = |pattern: &Pattern| -> Result<Check> {
        let row = rows.iter().find(|row| row.pattern == pattern.name && row.cpus == 2);
        let calls = pattern.calls_an_operation(row.context("not counted with two CPUs")?);
        // The machine has better and worse moments: pairs, and the middle one of their ratios.
        let pair = |_| Ok((rate(pattern.name, "0")? * calls, rate(pattern.name, "0,1")? * calls));
        let mut pairs = (0..PAIRS).map(pair).collect::<Result<Vec<(f64, f64)>>>()?;
        pairs.sort_by(|one, other| (one.1 / one.0).total_cmp(&(other.1 / other.0)));
        let (on_one, on_two) = pairs[PAIRS / 2];
        Ok(Check { pattern: pattern.name.to_owned(), on_one, on_two })
    };
    let said = |why: anyhow::Error| eprintln!("not held against two CPUs: {why:#}");
    let machine = machine::measure().map_err(said).ok()?;
    let wanted = PATTERNS.iter().filter(|pattern| CHECKED.contains(&pattern.name));
    let each = wanted.filter_map(|pattern| check(pattern).map_err(said).ok()).collect();
    Some(Checks { machine, each })
}

fn peers(places: &Places, missing: Missing, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Peer> {
    let mut libraries: Vec<(String, Option<PathBuf>)> = vec![("glibc".to_owned(), None)];
    let debian = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let packaged = [
        ("jemalloc", "libjemalloc.so.2"),
        ("tcmalloc", "libtcmalloc_minimal.so.4"),
        ("mimalloc", "libmimalloc.so.2.0"),
    ];
    libraries.extend(packaged.map(|(name, file)| (name.to_owned(), Some(debian.join(file)))));
    if let Ok(entries) = std::fs::read_dir(places.built.join("peers")) {
        let built = entries.filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_stem()?.to_str()?.strip_prefix("libpeer_")?.to_owned();
            (path.extension()? == "so").then_some((format!("{name}, newest"), Some(path)))
        });
        let mut built: Vec<_> = built.collect();
        built.sort();
        libraries.extend(built);
    }
    libraries.retain(|(_, path)| path.as_ref().is_none_or(|path| path.exists()));
    let mut peers = Vec::new();
    for (allocator, library) in &libraries {
        for pattern in PATTERNS.iter().filter(|one| STEPPED_PEERS.contains(&one.name) && is_wanted(one.name))
        {
            eprintln!("two threads of {} on {allocator}", pattern.name);
            let kept = places.kept.join(format!("{}-of-{}.json", pattern.name, allocator.replace(", ", "-")));
            if missing == Missing::LeftOut && !kept.exists() {
                continue;
            }
            match kept_or(&kept, &|| pattern.pair(places, library.as_deref())) {
                Ok(seen) => {
                    peers.push(Peer { allocator: allocator.clone(), pattern: pattern.name.to_owned(), seen });
                }
                Err(why) => eprintln!("left out: {why:#}"),
            }
        }
    }
    peers
}
