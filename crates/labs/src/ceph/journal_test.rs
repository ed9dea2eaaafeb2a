//! `vcm lab journal-test`: what a device is worth as a journal.
//!
//! Owns the test of the report: 4 KiB writes with O_DIRECT and O_SYNC, alone and by 32 jobs. Promises to
//! write only to a new file, unless it was said in so many words that a device's content may be lost.

use super::cluster::release::FIO;
use super::load::fio::{Answer, Job};
use crate::engine::lab::{For, Setting, Tool, Values};
use crate::engine::request::Request;
use crate::engine::session::Session;
use anyhow::{Context, Result, bail};
use nix::unistd::{AccessFlags, access};
use serde_json::json;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use vcm_measure::tell;

const SIZE_MIB: u64 = 256;
/// A journal below this holds its OSDs up: the report's reader needs it to judge.
const SLOW_BELOW: f64 = 1000.0;

pub static JOURNAL_TEST: Tool = Tool {
    name: "journal-test",
    what: "Test a device as an OSD's journal, with synchronous 4 KiB writes",
    operand: "DEVICE-OR-DIR",
    operand_help: "Directory for a temporary file, or a block device with --overwrite yes",
    settings: &[
        Setting {
            name: "seconds",
            value: "N",
            values: Values::Number(1..=86_400),
            of: For::All,
            default: Some("10"),
            help: "Duration of each part",
        },
        Setting {
            name: "overwrite",
            value: "yes",
            values: Values::OneOf(&["yes"]),
            of: For::All,
            default: None,
            help: "Allow the test to overwrite the device",
        },
    ],
    check: |request| check(&place(request)?, request.settings.contains_key("overwrite")),
    lab: &super::LAB,
    run,
};

/// The absolute path: programs that are started there have another working directory.
fn place(request: &Request) -> Result<PathBuf> {
    std::path::absolute(&request.action).with_context(|| format!("where is '{}'?", request.action))
}

fn run(session: &Session) -> Result<()> {
    let place = place(session.request())?;
    session.packages(&[(FIO.name.to_owned(), FIO.why.to_owned())])?;
    let seconds = session.number("seconds")?;
    let target = target(session, place.clone())?;
    let mut parts = Vec::new();
    for jobs in [1, 32] {
        session.step(&format!("4 KiB, O_DIRECT and O_SYNC, {jobs} jobs, {seconds} s"))?;
        let job = Job { jobs, ..Job::random("write", 1, seconds, SIZE_MIB / jobs) };
        parts.push((jobs, job.synchronous(session, &target)?));
    }
    session.progress().end();
    tell::result(&match session.request().json {
        true => format!("{:#}\n", as_json(&place, seconds, &parts)),
        false => as_text(&place, &parts),
    })
}

/// That the place can be written to, and may be.
fn check(place: &Path, overwrite: bool) -> Result<()> {
    let Ok(metadata) = std::fs::metadata(place) else {
        bail!("{} does not exist; give a directory on the disk to test, or a block device", place.display());
    };
    if metadata.is_dir() {
        return access(place, AccessFlags::W_OK)
            .with_context(|| format!("cannot write in {}", place.display()));
    }
    if !metadata.file_type().is_block_device() {
        bail!("{} is neither a directory nor a block device", place.display());
    }
    if !overwrite {
        bail!(
            "the test would overwrite the first {SIZE_MIB} MiB of {0}. To allow that: vcm lab journal-test {0} \
             --overwrite yes",
            place.display()
        );
    }
    if in_use(place) {
        bail!("{} is mounted or in use; not overwritten", place.display());
    }
    Ok(())
}

/// The file or device to write to; a file goes when the session ends.
fn target(session: &Session, place: PathBuf) -> Result<PathBuf> {
    // Once more: installing may have taken minutes, in which a device can come into use.
    check(&place, session.setting("overwrite").is_some())?;
    if !place.is_dir() {
        return Ok(place);
    }
    let file = place.join(format!("vcm-{}-journal-test", session.journal().mark()));
    session.make_file(&file, SIZE_MIB << 20)?;
    // A journal's blocks are there before it is used; otherwise the file system's own records are measured.
    session.step("writing the file once")?;
    Job::fill(SIZE_MIB).synchronous(session, &file)?;
    Ok(file)
}

/// The kernel gives an exclusive descriptor only for a device that nobody else has in use.
fn in_use(device: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device).is_err()
}

fn as_json(place: &Path, seconds: u64, parts: &[(u64, Answer)]) -> serde_json::Value {
    let part = |(jobs, answer): &(u64, Answer)| {
        json!({
            "jobs": jobs,
            "writes_per_second": answer.write.load.per_second(),
            "mean_ms": answer.write.load.mean_ms,
            "p99_ms": answer.write.p99_ms,
            "within": answer.write.latencies.shares().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        })
    };
    json!({ "place": place, "seconds": seconds, "parts": parts.iter().map(part).collect::<Vec<_>>() })
}

fn as_text(place: &Path, parts: &[(u64, Answer)]) -> String {
    let mut text = format!("{}: 4 KiB writes with O_DIRECT and O_SYNC\n\n", place.display());
    text += "  jobs   writes/s   MiB/s   mean ms   99 % ms   within 1 ms   within 5 ms\n";
    for (jobs, answer) in parts {
        let (load, latencies) = (&answer.write.load, &answer.write.latencies);
        let within = |bound| latencies.share_within(bound).unwrap_or(0.0);
        text += &format!(
            "  {jobs:4}   {:8.0}   {:5.1}   {:7.2}   {:7.2}   {:9.1} %   {:9.1} %\n",
            load.per_second(),
            load.per_second() / 256.0,
            load.mean_ms,
            answer.write.p99_ms,
            within(1.0),
            within(5.0),
        );
    }
    text + &verdict(parts)
}

/// By the single job, as the report's test: a journal writes one record after the other, and what many jobs reach
/// together no record is done sooner by.
fn verdict(parts: &[(u64, Answer)]) -> String {
    let Some((_, alone)) = parts.iter().find(|(jobs, _)| *jobs == 1) else { return String::new() };
    let per_second = alone.write.load.per_second();
    match per_second < SLOW_BELOW {
        true => format!(
            "\nSlow for a journal: {per_second:.0} writes/s by one job, below {SLOW_BELOW:.0}. Every write of \
             every OSD with this journal waits for one of these.\n"
        ),
        false => format!(
            "\nGood enough for a journal: {per_second:.0} writes/s by one job (minimum {SLOW_BELOW:.0}). A \
             device that ignores O_SYNC gives the same result.\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_is_judged_whatever_many_reach_together() {
        let of = |operations: f64| {
            let mut answer = Answer::default();
            answer.write.load.operations = operations;
            answer.write.load.seconds = 10.0;
            answer
        };
        let slow = as_text(Path::new("/srv"), &[(1, of(1540.0)), (32, of(367_840.0))]);
        assert!(
            slow.contains("     154") && slow.contains("Slow for a journal: 154 writes/s by one job"),
            "{slow}"
        );
        let good = as_text(Path::new("/srv"), &[(1, of(50_000.0)), (32, of(20_000.0))]);
        assert!(good.contains("Good enough"), "{good}");
    }
}
