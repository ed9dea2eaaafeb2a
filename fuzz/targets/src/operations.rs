//! Any sequence of calls by one thread, with refusals of the system in between, against an oracle.

use crate::support::{Oracle, Step, TestHeap, steps};

pub fn run(input: &[u8]) {
    let (heap, mut oracle) = (TestHeap::new(), Oracle::default());
    for step in steps::<Step>(input, 400) {
        oracle.step(&heap, step);
    }
    oracle.end(&heap);
}
