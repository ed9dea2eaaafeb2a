//! Runs one tape on one heap and says what was counted, as a line of JSON. `vcm-bench model` starts it: a heap lives as long
//! as its process.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::path::Path;
use vcm_model::drive::{self, Mode};
use vcm_model::tape::Tape;
use vcm_model::pair;

/// Steps of a copied pattern, at most.
const MOST_STEPS: usize = 4_000_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, trace, cpus, copies, rest @ ..] = arguments.as_slice() else {
        bail!("vcm-model MODE TRACE CPUS COPIES [STEPS]: `vcm-bench model` is the one to run");
    };
    let number = |text: &str| text.parse::<usize>().with_context(|| format!("`{text}` is no number"));
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
        "size" => say(&tape()?.steps.len()),
        "walk" => say(&drive::walk(&tape()?, cpus, stepped)?),
        "pair" => say(&pair::run(&tape()?, stepped)?),
        other => bail!("there is no mode `{other}`"),
    }
}

fn say(what: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(what)?);
    Ok(())
}
