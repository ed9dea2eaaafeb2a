//! Programs that print lines for people.

use super::Reading;

/// `redis-benchmark --csv`, and valkey's: before 6.2 name and rate, since then a header and latencies.
pub fn redis(output: &str) -> Vec<Reading> {
    let mut readings = Vec::new();
    for line in output.lines() {
        let Some(inner) = line.trim().strip_prefix('"').and_then(|line| line.strip_suffix('"')) else {
            continue;
        };
        let fields: Vec<&str> = inner.split("\",\"").collect();
        let number = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
        let (Some(name), Some(rate)) = (fields.first(), number(1)) else { continue };
        // "LRANGE_100 (first 100 elements)".
        let name = name.split(" (").next().unwrap_or(name).to_lowercase();
        readings.push(Reading::more(name.clone(), "ops/s", rate));
        readings.extend(number(6).map(|tail| Reading::less(format!("{name} p99"), "us", tail * 1e3)));
    }
    readings
}

/// `fillrandom   :       3.456 micros/op 289351 ops/sec ...`, and with --histogram `Percentiles: ... P99: 5.60 ...`.
pub fn db_bench(output: &str) -> Vec<Reading> {
    let mut readings: Vec<Reading> = Vec::new();
    let mut name = String::new();
    for line in output.lines() {
        if let Some((title, rest)) = line.split_once(" micros/op") {
            let Some((title, _)) = title.split_once(" : ") else { continue };
            name = title.trim().to_owned();
            let rate = before(rest, " ops/sec").and_then(number);
            readings.extend(rate.map(|rate| Reading::more(name.clone(), "ops/s", rate)));
        } else if line.starts_with("Percentiles:") && !name.is_empty() {
            for percentile in ["P99", "P99.9"] {
                let tail = after(line, &format!("{percentile}: ")).and_then(number);
                let name = format!("{name} {}", percentile.to_lowercase());
                readings.extend(tail.map(|tail| Reading::less(name, "us", tail)));
            }
        }
    }
    readings
}

/// wrk and wrk2, with --latency for the tail.
pub fn wrk(output: &str) -> Vec<Reading> {
    let Some(rate) = after(output, "Requests/sec:").and_then(number) else { return Vec::new() };
    let mut readings = vec![Reading::more("requests", "ops/s", rate)];
    for line in output.lines().map(str::trim) {
        let Some((percentile, time)) = line.split_once('%') else { continue };
        let name = match percentile.parse::<f64>() {
            Ok(99.0) => "p99",
            Ok(99.9) => "p99.9",
            _ => continue,
        };
        readings.extend(microseconds(time.trim()).map(|tail| Reading::less(name, "us", tail)));
    }
    readings
}

pub fn pgbench(output: &str) -> Vec<Reading> {
    let line = |name: &str| output.lines().find_map(|line| number(line.strip_prefix(name)?));
    // With --progress lines of other numbers come first.
    let Some(rate) = line("tps = ") else { return Vec::new() };
    let mut readings = vec![Reading::more("transactions", "ops/s", rate)];
    readings.extend(line("latency average = ").map(|mean| Reading::less("mean latency", "us", mean * 1e3)));
    readings
}

pub fn rados(output: &str) -> Vec<Reading> {
    let line = |name: &str| output.lines().find_map(|line| number(line.strip_prefix(name)?));
    let Some(rate) = line("Average IOPS:") else { return Vec::new() };
    let mut readings = vec![Reading::more("objects", "ops/s", rate)];
    let latencies = [("mean latency", "Average Latency(s):"), ("longest latency", "Max latency(s):")];
    for (name, title) in latencies {
        readings.extend(line(title).map(|seconds| Reading::less(name, "us", seconds * 1e6)));
    }
    readings
}

/// The number that a text begins with.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_once(name).map(|(_, after)| after)
}

/// The word before a name.
fn before<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_once(name)?.0.split_whitespace().last()
}

/// `1.23ms`, as wrk writes times.
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7)];
    let (unit, factor) = units.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor)
}
