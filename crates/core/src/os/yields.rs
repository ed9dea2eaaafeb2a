//! Models of loom: a thread that waits lets the others go on.

use super::Wait;
use crate::base::sync::AtomicU32;

pub struct Yield;

impl Wait for Yield {
    fn wait(_: &AtomicU32, _: u32) {
        loom::thread::yield_now();
    }
    fn wake_one(_: &AtomicU32) {}
    fn mark() -> usize {
        2
    }
}
