//! Lines on stderr, for what a program asks for that is not here.

use crate::heap;
use core::sync::atomic::{AtomicU32, Ordering};
use vcmalloc_core::base::text::{Buffer, put_str};
use vcmalloc_core::os::Os;

/// Something that is said once in a process.
pub struct Once(AtomicU32);

impl Once {
    pub const fn new() -> Self {
        Once(AtomicU32::new(0))
    }

    pub fn say(&self, parts: &[&str]) {
        if self.0.swap(1, Ordering::Relaxed) == 0 {
            say(parts);
        }
    }
}

/// One line on stderr.
pub fn say(parts: &[&str]) {
    let mut line = [0u8; 512];
    let mut buffer = Buffer::new(&mut line);
    put_str(&mut buffer, "vcmalloc: ");
    parts.iter().for_each(|part| put_str(&mut buffer, part));
    put_str(&mut buffer, "\n");
    heap().os().write(2, buffer.as_bytes());
}
