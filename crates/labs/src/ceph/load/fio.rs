//! fio on a block image (`ioengine=rbd`) or on a file or device.
//!
//! Owns how a job is said and how fio's `json+` answer is read; the whole latency histogram comes with it.

use super::Load;
use crate::ceph::cluster::monitor::Client;
use crate::engine::process::Program;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use vcm_inspect::ceph::latency::Histogram;

#[derive(Clone, Debug)]
pub struct Job {
    /// As fio names it: randwrite, randread, randrw, write, read.
    pub mode: &'static str,
    /// Of `randrw`, in percent.
    pub reads: u64,
    pub bytes: u64,
    pub depth: u64,
    pub jobs: u64,
    /// None: once over the whole image.
    pub seconds: Option<u64>,
    pub size_mib: u64,
    /// Of a zipf distribution; none: every block is as likely as another.
    pub zipf: Option<f64>,
}

/// fio's figures of one direction.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    pub load: Load,
    pub p99_ms: f64,
    pub latencies: Histogram,
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub read: Direction,
    pub write: Direction,
}

impl Answer {
    pub fn operations(&self) -> f64 {
        self.read.load.operations + self.write.load.operations
    }

    pub fn per_second(&self) -> f64 {
        self.read.load.per_second() + self.write.load.per_second()
    }

    pub fn together(&self) -> Load {
        Load {
            operations: self.operations(),
            seconds: self.read.load.seconds.max(self.write.load.seconds),
            mean_ms: self.mean_ms(),
            maximum_ms: self.read.load.maximum_ms.max(self.write.load.maximum_ms),
        }
    }

    /// Both directions together.
    pub fn mean_ms(&self) -> f64 {
        let sum = |direction: &Direction| direction.load.mean_ms * direction.load.operations;
        (sum(&self.read) + sum(&self.write)) / self.operations().max(1.0)
    }

    pub fn latencies(&self) -> Histogram {
        self.read.latencies.plus(&self.write.latencies)
    }
}

impl Job {
    /// 4 KiB blocks at random for so many seconds.
    pub fn random(mode: &'static str, depth: u64, seconds: u64, size_mib: u64) -> Job {
        Job { mode, reads: 0, bytes: 4096, depth, jobs: 1, seconds: Some(seconds), size_mib, zipf: None }
    }

    /// Writes every block of the image once: reads of what was never written do not reach a disk.
    pub fn fill(size_mib: u64) -> Job {
        let bytes = 1 << 20;
        Job { mode: "write", reads: 0, bytes, depth: 16, jobs: 1, seconds: None, size_mib, zipf: None }
    }

    pub fn on_image(&self, session: &Session, client: &Client, pool: &str, image: &str) -> Result<Answer> {
        let fio = session.command("fio").env("CEPH_CONF", &client.conf);
        let fio = fio.arg("--ioengine=rbd").arg(format!("--clientname={}", client.name));
        let fio = fio.arg(format!("--pool={pool}")).arg(format!("--rbdname={image}"));
        self.run(fio)
    }

    /// Every write goes to the medium before the next: what a journal does. Each job has a part of the place
    /// to itself.
    pub fn synchronous(&self, session: &Session, place: &Path) -> Result<Answer> {
        let fio = session.command("fio").arg("--ioengine=psync").arg("--direct=1").arg("--sync=1");
        let fio = fio.arg(format!("--offset_increment={}M", self.size_mib));
        self.run(fio.arg(format!("--filename={}", place.display())))
    }

    fn run(&self, fio: Program) -> Result<Answer> {
        let mut fio =
            fio.arg("--name=job").arg(format!("--rw={}", self.mode)).arg(format!("--bs={}", self.bytes));
        fio = fio.arg(format!("--iodepth={}", self.depth)).arg(format!("--size={}M", self.size_mib));
        fio = fio.args(["--output-format=json+", "--randrepeat=0", "--percentile_list=99"]);
        if self.mode == "randrw" {
            fio = fio.arg(format!("--rwmixread={}", self.reads));
        }
        if self.jobs > 1 {
            fio = fio.arg(format!("--numjobs={}", self.jobs)).args(["--thread", "--group_reporting"]);
        }
        if let Some(seconds) = self.seconds {
            fio = fio.arg(format!("--runtime={seconds}")).args(["--time_based", "--norandommap"]);
        }
        if let Some(zipf) = self.zipf {
            fio = fio.arg(format!("--random_distribution=zipf:{zipf}"));
        }
        let limit = Duration::from_secs(self.seconds.map_or(1800, |seconds| seconds * 4 + 600));
        let output = fio.limit(limit).run()?;
        parse(&output.stdout).with_context(|| {
            let begin: String = output.stdout.chars().take(500).collect();
            format!("what fio printed:\n{begin}")
        })
    }
}

fn parse(text: &str) -> Result<Answer> {
    // Warnings of the libraries come first.
    let begin = text
        .find("\n{")
        .map(|at| at + 1)
        .or_else(|| text.starts_with('{').then_some(0))
        .context("no JSON")?;
    let answer: Value = serde_json::from_str(&text[begin..])?;
    let job = answer["jobs"].get(0).context("no job in it")?;
    Ok(Answer { read: direction(&job["read"]), write: direction(&job["write"]) })
}

fn direction(said: &Value) -> Direction {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let latency = &said["clat_ns"];
    Direction {
        load: Load {
            operations: number(&said["total_ios"]),
            seconds: number(&said["runtime"]) / 1000.0,
            mean_ms: number(&latency["mean"]) / 1e6,
            maximum_ms: number(&latency["max"]) / 1e6,
        },
        p99_ms: number(&latency["percentile"]["99.000000"]) / 1e6,
        latencies: histogram(&latency["bins"]),
    }
}

/// fio names a bin by a nanosecond in it; bins are narrow, so that is taken for its end.
fn histogram(bins: &Value) -> Histogram {
    let none = serde_json::Map::new();
    let bins = bins.as_object().unwrap_or(&none);
    let mut bins: Vec<(f64, f64)> =
        bins.iter().filter_map(|(edge, count)| Some((edge.parse().ok()?, count.as_f64()?))).collect();
    bins.sort_by(|one, other| one.0.total_cmp(&other.0));
    // A bin's operations must not be spread down to the bin before, which may be far away.
    let edges = bins.iter().flat_map(|(edge, _)| [edge - 1.0, *edge]).collect();
    let counts = bins.iter().flat_map(|(_, count)| [0.0, *count]).collect();
    Histogram::new(edges, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_and_their_histograms_are_read() {
        let text = "2026 -1 WARNING: all dangerous features\n{\n \"jobs\": [{ \"read\": { \"total_ios\": 100, \"runtime\": 2000, \
            \"clat_ns\": { \"mean\": 3000000, \"max\": 9000000, \"percentile\": { \"99.000000\": 8000000 }, \
            \"bins\": { \"900000\": 25, \"4000000\": 75 } } }, \
            \"write\": { \"total_ios\": 0, \"runtime\": 0, \"clat_ns\": { \"mean\": 0 } } }] }";
        let answer = parse(text).unwrap();
        assert_eq!(answer.per_second(), 50.0);
        assert_eq!(answer.mean_ms(), 3.0);
        assert_eq!(answer.read.p99_ms, 8.0);
        assert_eq!(answer.read.latencies.share_within(1.0), Some(25.0));
        assert_eq!(answer.read.latencies.share_within(2.0), Some(25.0));
        assert_eq!(answer.latencies().share_within(5.0), Some(100.0));
        assert_eq!(answer.write.latencies.share_within(5.0), None);
    }

    #[test]
    fn an_answer_without_json_is_an_error() {
        assert!(parse("fio: engine rbd not loadable").is_err());
    }
}
