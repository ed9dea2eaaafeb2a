//! A descriptor as a place for text.

use super::heap;
use core::ffi::c_int;
use vcmalloc_core::base::text::Sink;
use vcmalloc_core::os::Os;

/// A descriptor as a place for text, in pieces of a few kilobytes.
pub struct DescriptorSink {
    descriptor: c_int,
    buffer: [u8; 2048],
    used: usize,
}

impl DescriptorSink {
    pub fn new(descriptor: c_int) -> Self {
        DescriptorSink { descriptor, buffer: [0; 2048], used: 0 }
    }

    pub fn flush(&mut self) {
        heap().os().write(self.descriptor, self.buffer.get(..self.used).unwrap_or(&[]));
        self.used = 0;
    }
}

impl Sink for DescriptorSink {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.used == self.buffer.len() {
                self.flush();
            }
            if let Some(place) = self.buffer.get_mut(self.used) {
                *place = *byte;
                self.used += 1;
            }
        }
    }
}
