//! The loads of a cluster: real clients, the ones that operators and the reports use.
//!
//! Each module owns one client: how it is called, and how what it prints is read.

pub mod files;
pub mod fio;
pub mod rados_bench;
pub mod s3;

/// The result of one load, as its client saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    pub operations: f64,
    pub seconds: f64,
    pub mean_ms: f64,
    pub maximum_ms: f64,
}

impl Load {
    pub fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.operations / self.seconds } else { 0.0 }
    }
}
