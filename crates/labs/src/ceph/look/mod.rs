//! Looking at one daemon from outside, of any cluster on this machine: perf (`sampling`), and which process is which OSD
//! (`found`). Its own counters and their histograms are `vcm-inspect`'s.

pub mod found;
pub mod sampling;
