//! Blocks as a program uses them, for tests: an address is written to and read.

use core::ptr::{with_exposed_provenance as at, with_exposed_provenance_mut as at_mut};

/// Writes `mark` into every byte of a block that the test owns.
pub fn fill(address: usize, bytes: usize, mark: u8) {
    // SAFETY: the block is the test's, and at least so long: if it is not, that is what the test is to find.
    unsafe { at_mut::<u8>(address).write_bytes(mark, bytes) };
}

/// Whether every byte of a block that the test owns is `mark`.
pub fn holds(address: usize, bytes: usize, mark: u8) -> bool {
    // SAFETY: as in `fill`.
    unsafe { core::slice::from_raw_parts(at::<u8>(address), bytes) }.iter().all(|byte| *byte == mark)
}
