//! `rados bench`: objects of one size written, or the written ones read at random.

use super::Load;
use crate::ceph::cluster::monitor::Client;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Bench<'a> {
    pub pool: &'a str,
    /// Whose objects these are; empty: the pool's usual namespace.
    pub namespace: &'a str,
    /// Reads find what the last write of the same name left.
    pub name: &'a str,
    pub seconds: u64,
    pub in_flight: u64,
    pub bytes: u64,
}

impl Bench<'_> {
    /// Writes new objects and leaves them.
    pub fn write(&self, session: &Session, client: &Client) -> Result<Load> {
        let bytes = self.bytes.to_string();
        self.run(session, client, &["write", "-b", &bytes, "--no-cleanup"])
    }

    /// Reads them in random order, again and again.
    pub fn read(&self, session: &Session, client: &Client) -> Result<Load> {
        self.run(session, client, &["rand"])
    }

    fn run(&self, session: &Session, client: &Client, mode: &[&str]) -> Result<Load> {
        let (seconds, in_flight) = (self.seconds.to_string(), self.in_flight.to_string());
        let mut rados = client.program(session, "rados").args(["--pool", self.pool]);
        if !self.namespace.is_empty() {
            rados = rados.args(["--namespace", self.namespace]);
        }
        let rados = rados.args(["bench", &seconds]).args(mode);
        let rados = rados.args(["-t", &in_flight, "--run-name", self.name]);
        let output = rados.limit(Duration::from_secs(self.seconds * 4 + 120)).run()?;
        parse(&output.stdout).with_context(|| format!("what rados bench printed:\n{}", output.stdout))
    }
}

fn parse(text: &str) -> Result<Load> {
    let number = |name: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(':')?.1.trim().parse().ok()
    };
    let operations = number("Total writes made").or_else(|| number("Total reads made"));
    Ok(Load {
        operations: operations.context("no total")?,
        seconds: number("Total time run").context("no time")?,
        mean_ms: 1000.0 * number("Average Latency(s)").context("no average latency")?,
        maximum_ms: 1000.0 * number("Max latency(s)").context("no greatest latency")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_write_is_read() {
        let text = "hints = 1\n  sec Cur ops   started  finished\nTotal time run:         10.0068\nTotal writes made:      41317\n\
                    Write size:             4096\nBandwidth (MB/sec):     16.1285\nAverage IOPS:           4128\n\
                    Average Latency(s):     0.00774282\nMax latency(s):         0.0864561\n";
        let load = parse(text).unwrap();
        assert_eq!(load.operations, 41317.0);
        assert!((load.per_second() - 4128.9).abs() < 0.1 && (load.mean_ms - 7.74282).abs() < 1e-9);
        assert!(parse("error during benchmark: (2) No such file or directory").is_err());
    }
}
