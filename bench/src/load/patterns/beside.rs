//! A great deal of memory that comes and goes beside what is measured.

use crate::load::c_heap::{self, Block};
use std::time::Duration;

pub const BYTES: usize = 10 << 30;
const BLOCK: usize = 256 << 10;
/// For what was freed to go back to the system.
const REST: Duration = Duration::from_secs(2);

/// Starts a thread that takes so many bytes and frees them, until the process ends. Returns when they are there for the first time.
pub fn start(bytes: usize) {
    let mut blocks: Vec<usize> = Vec::with_capacity(bytes.div_ceil(BLOCK));
    fill(&mut blocks);
    std::thread::spawn(move || {
        loop {
            for block in blocks.drain(..) {
                // SAFETY: a live block of ours.
                unsafe { c_heap::release(block as Block) };
            }
            std::thread::sleep(REST);
            fill(&mut blocks);
        }
    });
}

fn fill(blocks: &mut Vec<usize>) {
    while blocks.len() < blocks.capacity() {
        let block = c_heap::allocate(BLOCK);
        // SAFETY: the block is so long.
        unsafe { c_heap::touch_pages(block, BLOCK) };
        blocks.push(block as usize);
    }
}
