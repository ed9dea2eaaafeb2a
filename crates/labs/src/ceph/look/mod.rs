//! Looking at one daemon from outside, of any cluster on this machine: `counters` (perf dump), their histograms
//! (`latency`), perf (`sampling`), and which process is which OSD (`found`).

pub mod counters;
pub mod found;
pub mod latency;
pub mod sampling;
