//! The line of JSON that the load program prints and the harness reads.

use serde::{Deserialize, Serialize};

/// The figures of one run of one pattern. Fields that a pattern does not measure are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub pattern: String,
    /// The file that `malloc` was resolved to: the proof that a preload took.
    pub malloc_object: String,
    pub threads: usize,
    /// The fixed block size, where the pattern has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    pub operations: u64,
    pub wall_seconds: f64,
    pub cpu_user_seconds: f64,
    pub cpu_system_seconds: f64,
    pub operations_per_cpu_second: f64,
    /// Resident memory before the pattern's first call, while it ran just before its end, at its highest, and
    /// when everything had been freed again.
    pub start_rss_kib: u64,
    pub end_rss_kib: u64,
    pub peak_rss_kib: u64,
    pub after_rss_kib: u64,
    /// Fast-path patterns: the least and the median of the repetitions inside the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_ns_minimum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_ns_median: Option<f64>,
    /// Patterns that time each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
    /// How long a fixed arithmetic loop took, best of a few before and after: it says how fast the machine
    /// was.
    pub machine_ns: f64,
}

/// How long single calls took: the median, 99 %, 99.9 %, 99.99 % and the longest, in nanoseconds, with what an empty one
/// takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    pub wall_ns: [u64; 5],
    /// CPU time of the thread.
    pub cpu_ns: [u64; 5],
    pub empty_wall_ns: u64,
    pub empty_cpu_ns: u64,
}

impl Report {
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_user_seconds + self.cpu_system_seconds
    }
}
