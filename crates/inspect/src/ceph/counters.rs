//! The work of an OSD and its cost: its own counters and what the kernel knows of it.
//!
//! Owns the reading of `perf dump` and the difference between two moments. Promises that processor time is
//! that of the whole process, in nanoseconds, threads that ended included. Works on OSDs of any cluster on
//! this machine.

use super::latency::Histogram;
use super::socket::{LONG, Question, ask};
use crate::usage::Usage;
use anyhow::{Context, Result};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;

/// One OSD at one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    cpu_seconds: f64,
    usage: Usage,
    perf: Value,
    writes: Histogram,
    reads: Histogram,
}

/// The work between two moments.
#[derive(Clone, Debug)]
pub struct Work {
    /// Writes, reads and copies' writes of its own.
    pub operations: f64,
    pub cpu_seconds: f64,
    pub page_faults: f64,
    /// At its end.
    pub usage: Usage,
    /// How much it grew.
    pub rss_grown_mib: f64,
    pub writes: Histogram,
    pub reads: Histogram,
    before: Value,
    after: Value,
}

/// The counters that are an operation of this OSD.
const OPERATIONS: [&str; 4] = ["op_w", "op_r", "op_rw", "subop_w"];

impl Moment {
    pub fn of(socket: &Path, pid: i32) -> Result<Moment> {
        let histograms = ask(socket, Question::PerfHistogramDump, LONG).unwrap_or_default();
        let histogram = |name: &str| Histogram::of_osd(&histograms["osd"][name]).unwrap_or_default();
        Ok(Moment {
            perf: ask(socket, Question::PerfDump, LONG)?,
            writes: histogram("op_w_latency_in_bytes_histogram"),
            reads: histogram("op_r_latency_out_bytes_histogram"),
            usage: Usage::of(pid)?,
            cpu_seconds: cpu_seconds(pid)?,
        })
    }

    pub fn until(&self, later: &Moment) -> Work {
        let counted = |moment: &Moment| -> f64 {
            OPERATIONS.iter().filter_map(|name| moment.perf["osd"][name].as_f64()).sum()
        };
        Work {
            operations: counted(later) - counted(self),
            cpu_seconds: later.cpu_seconds - self.cpu_seconds,
            page_faults: later.usage.minor_faults as f64 - self.usage.minor_faults as f64,
            usage: later.usage,
            rss_grown_mib: later.usage.rss_mib - self.usage.rss_mib,
            writes: later.writes.since(&self.writes),
            reads: later.reads.since(&self.reads),
            before: self.perf.clone(),
            after: later.perf.clone(),
        }
    }
}

impl Work {
    pub fn cpu_ms_per_operation(&self) -> Option<f64> {
        (self.operations > 0.0).then(|| 1000.0 * self.cpu_seconds / self.operations)
    }

    pub fn faults_per_operation(&self) -> Option<f64> {
        (self.operations > 0.0).then(|| self.page_faults / self.operations)
    }

    /// RSS when it had done so many operations: it grew evenly with them.
    pub fn rss_at(&self, operations: f64) -> f64 {
        let share = if self.operations > 0.0 { (operations / self.operations).min(1.0) } else { 1.0 };
        self.usage.rss_mib - self.rss_grown_mib * (1.0 - share)
    }

    /// How much a counter went up. `section` as in `perf dump`: osd, bluestore, rocksdb, filestore.
    pub fn counter(&self, section: &str, name: &str) -> Option<f64> {
        let value = |dump: &Value| dump[section][name].as_f64();
        Some(value(&self.after)? - value(&self.before).unwrap_or(0.0))
    }

    /// The mean of a latency over the time between, in milliseconds.
    pub fn latency_ms(&self, section: &str, name: &str) -> Option<f64> {
        let part = |dump: &Value, part: &str| dump[section][name][part].as_f64();
        let since = |key: &str| Some(part(&self.after, key)? - part(&self.before, key).unwrap_or(0.0));
        let (count, sum) = (since("avgcount")?, since("sum")?);
        (count > 0.0).then(|| 1000.0 * sum / count)
    }
}

pub fn cpu_seconds(pid: i32) -> Result<f64> {
    let time = clock_getcpuclockid(Pid::from_raw(pid)).and_then(ClockId::now);
    let time = time.with_context(|| format!("cannot read the processor time of process {pid}"))?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn moment(operations: f64, rss: f64, latency: (f64, f64)) -> Moment {
        Moment {
            cpu_seconds: operations / 1000.0,
            usage: Usage { rss_mib: rss, ..Usage::default() },
            perf: json!({ "osd": { "op_w": operations, "op_w_latency": { "avgcount": latency.0, "sum": latency.1 } } }),
            writes: Histogram::default(),
            reads: Histogram::default(),
        }
    }

    #[test]
    fn work_is_what_lies_between() {
        let work = moment(100.0, 50.0, (100.0, 1.0)).until(&moment(300.0, 90.0, (300.0, 2.0)));
        assert_eq!(work.operations, 200.0);
        assert!((work.cpu_ms_per_operation().unwrap() - 1.0).abs() < 1e-9);
        assert!((work.latency_ms("osd", "op_w_latency").unwrap() - 5.0).abs() < 1e-9);
        assert_eq!(work.rss_at(100.0), 70.0);
        assert_eq!(work.rss_at(200.0), 90.0);
        assert_eq!(work.counter("osd", "op_nothing"), None);
    }

    #[test]
    fn an_idle_osd_has_no_time_per_operation() {
        let idle = moment(100.0, 50.0, (1.0, 1.0));
        assert_eq!(idle.until(&idle).cpu_ms_per_operation(), None);
        assert_eq!(idle.until(&idle).latency_ms("osd", "op_w_latency"), None);
    }

    #[test]
    fn the_processor_time_of_this_process_can_be_read() {
        assert!(cpu_seconds(std::process::id() as i32).unwrap() > 0.0);
    }
}
