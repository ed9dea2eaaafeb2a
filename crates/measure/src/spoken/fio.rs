//! fio: `--output-format=json` (or json+), and terse version 3.

use super::Reading;
use serde_json::Value;

const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

pub fn json(output: &str) -> Vec<Reading> {
    // Warnings may come first.
    let begin = if output.starts_with('{') { Some(0) } else { output.find("\n{").map(|at| at + 1) };
    let Some(answer) = begin.and_then(|begin| {
        // Something may follow too.
        serde_json::Deserializer::from_str(&output[begin..]).into_iter::<Value>().next()?.ok()
    }) else {
        return Vec::new();
    };
    let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
    DIRECTIONS.iter().flat_map(|direction| of_direction(&jobs, direction)).collect()
}

/// All jobs together: operations a second are added up, of the tail the worst is told.
fn of_direction(jobs: &[Value], direction: &str) -> Vec<Reading> {
    let operations: f64 = jobs.iter().filter_map(|job| job[direction]["iops"].as_f64()).sum();
    if operations <= 0.0 {
        return Vec::new();
    }
    let tail = |percentile: &str| {
        let of = |job: &Value| job[direction]["clat_ns"]["percentile"][percentile].as_f64();
        jobs.iter().filter_map(of).fold(0.0, f64::max) / 1e3
    };
    vec![
        Reading::more(direction, "ops/s", operations),
        Reading::less(format!("{direction} p99"), "us", tail("99.000000")),
        Reading::less(format!("{direction} p99.9"), "us", tail("99.900000")),
    ]
}

/// Fields as in fio's manual, "terse output": five of the job, then 41 for each direction.
pub fn terse(output: &str) -> Vec<Reading> {
    let jobs: Vec<Vec<&str>> = output
        .lines()
        .filter(|line| line.starts_with("3;fio-"))
        .map(|line| line.split(';').collect())
        .collect();
    let direction = |(number, name): (usize, &&str)| {
        let begin = 5 + 41 * number;
        let parts: Vec<&[&str]> = jobs.iter().filter_map(|job| job.get(begin..begin + 41)).collect();
        let operations: f64 = parts.iter().filter_map(|part| part[2].parse::<f64>().ok()).sum();
        let tail = |percentile: &str| {
            let of = |part: &&[&str]| {
                let field = part.iter().find_map(|field| field.strip_prefix(percentile)?.strip_prefix("%="));
                field?.parse::<f64>().ok()
            };
            parts.iter().filter_map(of).fold(0.0, f64::max)
        };
        vec![
            Reading::more(*name, "ops/s", operations),
            Reading::less(format!("{name} p99"), "us", tail("99.000000")),
            Reading::less(format!("{name} p99.9"), "us", tail("99.900000")),
        ]
    };
    DIRECTIONS.iter().enumerate().flat_map(direction).filter(|reading| reading.value > 0.0).collect()
}
