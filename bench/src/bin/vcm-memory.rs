//! Measures how much memory allocators keep. `vcm-memory help` lists what it can do;
//! docs/guides/memory-benchmarks.md explains it.

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::sync::atomic::Ordering;
use vcmalloc_bench::memory::watch::session::INTERRUPTED;
use vcmalloc_bench::memory::watch::verbs::{self, Common};
use vcmalloc_bench::memory::watch::verbs::{
    age, alone, churn, container, cost, idle, scattered, survivors, wakeups,
};

/// Measures how much memory allocators keep: idle, after a peak, under churn, in a container.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Load, stop, no further malloc call: does memory come back?
    Idle(idle::Arguments),
    /// A peak of small blocks with random survivors, against the limit without moving blocks
    Survivors(survivors::Arguments),
    /// One block in twenty stays: who gives back pages inside of used spans?
    Scattered(scattered::Arguments),
    /// One thread: a burst, then silence or light traffic; and what giving back costs
    Alone(alone::Arguments),
    /// Programs that go on after a peak, or replace what they hold for ever
    Age(age::Arguments),
    /// Resident against live bytes under long, fragmenting loads
    Churn(churn::Arguments),
    /// Operations per CPU second with our janitor on and off
    Cost(cost::Arguments),
    /// Context switches of an idle process
    Wakeups(wakeups::Arguments),
    /// Who survives in a cgroup a little larger than the live bytes
    Container(container::Arguments),
}

fn main() -> Result<()> {
    let Arguments { common, verb } = Arguments::parse();
    // The measurement ends at its next look, and its children and cgroups with it.
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))?;
    match verb {
        Verb::Idle(arguments) => verbs::idle::run(&common, &arguments),
        Verb::Survivors(arguments) => verbs::survivors::run(&common, &arguments),
        Verb::Scattered(arguments) => verbs::scattered::run(&common, &arguments),
        Verb::Alone(arguments) => verbs::alone::run(&common, &arguments),
        Verb::Age(arguments) => verbs::age::run(&common, &arguments),
        Verb::Churn(arguments) => verbs::churn::run(&common, &arguments),
        Verb::Cost(arguments) => verbs::cost::run(&common, &arguments),
        Verb::Wakeups(arguments) => verbs::wakeups::run(&common, &arguments),
        Verb::Container(arguments) => verbs::container::run(&common, &arguments),
    }
}
