//! A real S3 client, boto3, against several gateways at the same time.

use super::Load;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use serde_json::Value;
use std::time::Duration;

/// Run by the system's Python; beside this file.
const SCRIPT: &str = include_str!("s3.py");

pub struct S3<'a> {
    pub ports: &'a [u16],
    pub key: &'a str,
    pub secret: &'a str,
    pub seconds: u64,
    /// For each gateway.
    pub threads: u64,
    pub bytes: u64,
}

impl S3<'_> {
    /// `put` or `get`; what each gateway answered, in the order of the ports.
    pub fn run(&self, session: &Session, phase: &str) -> Result<Vec<Load>> {
        let script = session.directory().join("s3.py");
        std::fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
        let notes = session.directory().join("s3-objects");
        let python = session.command("/usr/bin/python3").arg(&script).arg(phase).arg(notes);
        let python = python.args([self.seconds, self.threads, self.bytes].map(|number| number.to_string()));
        let python = python.args([self.key, self.secret]).args(self.ports.iter().map(u16::to_string));
        let output = python.limit(Duration::from_secs(self.seconds * 4 + 120)).run()?;
        parse(&output.stdout, self.ports, self.seconds).context("what the S3 client printed")
    }
}

fn parse(text: &str, ports: &[u16], seconds: u64) -> Result<Vec<Load>> {
    let answer: Value = serde_json::from_str(text)?;
    let load = |port: &u16| {
        let said = &answer[port.to_string()];
        let number = |name: &str| said[name].as_f64().with_context(|| format!("no {name} of port {port}"));
        Ok(Load {
            operations: number("count")?,
            seconds: seconds as f64,
            mean_ms: number("mean_ms")?,
            maximum_ms: number("max_ms")?,
        })
    };
    ports.iter().map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gateways_answers_are_its_own() {
        let text = r#"{"8001": {"count": 50, "mean_ms": 4.5, "max_ms": 9}, "8002": {"count": 30, "mean_ms": 7, "max_ms": 8}}"#;
        let loads = parse(text, &[8002, 8001], 10).unwrap();
        assert_eq!(loads[0].operations, 30.0);
        assert_eq!(loads[1].per_second(), 5.0);
        assert!(parse(text, &[9], 10).is_err());
    }
}
