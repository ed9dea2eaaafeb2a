//! `wakeups`: an idle process stays idle. Counted from outside, by the context switches of all its threads.

use super::super::subject::Subject;
use super::{Common, arguments as list};
use crate::memory::board::Phase;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 64)]
    pub threads: usize,
    /// How long the switches are counted
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Seconds from the stop to the first count: memory may go back, which takes some wake-ups
    #[arg(long, default_value_t = 15)]
    pub settle: u64,
}

/// Context switches of all threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Switches {
    threads: u64,
    voluntary: u64,
    involuntary: u64,
}

#[derive(Serialize)]
struct Row {
    allocator: &'static str,
    seconds: u64,
    threads: u64,
    voluntary_before: u64,
    voluntary_after: u64,
    involuntary_before: u64,
    involuntary_after: u64,
}

/// All allocators at the same time: idle processes do not disturb each other.
pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    ensure!((1..=10_000).contains(&arguments.threads), "--threads takes 1 to 10000");
    let session = common.session()?;
    let output = common.files("wakeups")?;
    let load = list(&[&"idle", &"--threads", &arguments.threads, &"--load-mib", &128, &"--live-mib", &16]);
    let mut subjects = Vec::new();
    for ready in &session.allocators {
        eprintln!("load on {}", ready.name());
        let mut subject = Subject::start(ready, &session.load_program, &load, None)?;
        wait_until_idle(&mut subject).with_context(|| ready.name())?;
        if let Some(wrong) = subject.wrong_allocator(ready) {
            bail!("{}: {wrong}", ready.name());
        }
        subjects.push((ready, subject));
    }
    pause("settling", arguments.settle)?;
    let count =
        || subjects.iter().map(|(_, subject)| switches(subject.process())).collect::<Result<Vec<_>>>();
    let before = count()?;
    pause("counting", arguments.seconds)?;
    let after = count()?;
    // Of a process that has ended the kernel still shows the last numbers: as quiet as can be.
    for (ready, subject) in &mut subjects {
        if let Some(outcome) = subject.ended()? {
            bail!("{}: {}", ready.name(), outcome.text());
        }
    }

    let mut writer = csv::Writer::from_writer(output.raw_file()?);
    let mut table =
        "| allocator | threads | voluntary switches | involuntary |\n|---|---:|---:|---:|\n".to_owned();
    for (((ready, _), before), after) in subjects.iter().zip(before).zip(after) {
        let name = ready.name();
        let voluntary = after.voluntary.saturating_sub(before.voluntary);
        let involuntary = after.involuntary.saturating_sub(before.involuntary);
        table += &format!("| {name} | {} | {voluntary} | {involuntary} |\n", after.threads);
        writer.serialize(Row {
            allocator: name,
            seconds: arguments.seconds,
            threads: after.threads,
            voluntary_before: before.voluntary,
            voluntary_after: after.voluntary,
            involuntary_before: before.involuntary,
            involuntary_after: after.involuntary,
        })?;
    }
    writer.flush()?;
    let about = format!(
        "Context switches of all threads of a process that has called malloc for the last time {} s before, in {} s. \
         Every wake-up is a switch.",
        arguments.settle, arguments.seconds
    );
    output.write(&about, &table, &[])
}

fn wait_until_idle(subject: &mut Subject) -> Result<()> {
    let start = Instant::now();
    while subject.board.phase() != Phase::Idle {
        if let Some(outcome) = subject.ended()? {
            bail!("{}", outcome.text());
        }
        ensure!(start.elapsed() < Duration::from_secs(60), "the load did not end within 60 s");
        pause("", 0)?;
        subject.wait(Duration::from_millis(50));
    }
    Ok(())
}

fn pause(what: &str, seconds: u64) -> Result<()> {
    for second in 0..seconds {
        if second % 10 == 0 {
            eprintln!("{what}: {} s left", seconds - second);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    let interrupted = super::super::session::INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed);
    ensure!(!interrupted, "interrupted");
    Ok(())
}

fn switches(process: u32) -> Result<Switches> {
    let mut sum = Switches::default();
    let directory = format!("/proc/{process}/task");
    for task in std::fs::read_dir(&directory).with_context(|| format!("cannot read {directory}"))? {
        // A thread that ended meanwhile has no file any more.
        let text = std::fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        let (voluntary, involuntary) = switches_in(&text);
        sum.threads += 1;
        sum.voluntary += voluntary;
        sum.involuntary += involuntary;
    }
    Ok(sum)
}

fn switches_in(status: &str) -> (u64, u64) {
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    (number("voluntary_ctxt_switches"), number("nonvoluntary_ctxt_switches"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_switches_are_told_apart() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches_in(status), (12, 7));
        assert_eq!(switches_in(""), (0, 0));
    }

    #[test]
    fn this_process_has_threads() {
        assert!(switches(std::process::id()).unwrap().threads > 0);
    }
}
