//! Files and messages, without buffers of libc's.

use crate::base::text::Sink;
use core::ffi::CStr;

#[inline(never)]
pub(super) fn read(path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    // SAFETY: the path is a C string; each read stays inside the buffer; the descriptor is ours.
    unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return None;
        }
        let mut used = 0;
        while let Some(room) = buffer.get_mut(used..) {
            let count = libc::read(descriptor, room.as_mut_ptr().cast(), room.len());
            if count <= 0 {
                break;
            }
            used += count as usize;
        }
        libc::close(descriptor);
        Some(used)
    }
}

/// Bytes that are read or written in one go.
const PIECE: usize = 1024;

pub(super) fn read_through(path: &CStr, take: &mut dyn FnMut(&[u8])) -> bool {
    let mut piece = [0u8; PIECE];
    // SAFETY: the path is a C string; each read stays inside the buffer; the descriptor is ours.
    unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return false;
        }
        loop {
            let count = libc::read(descriptor, piece.as_mut_ptr().cast(), piece.len());
            match usize::try_from(count).ok().and_then(|count| piece.get(..count)) {
                None | Some([]) => break,
                Some(bytes) => take(bytes),
            }
        }
        libc::close(descriptor);
    }
    true
}

/// A descriptor as a place for text.
struct Writer {
    descriptor: i32,
    piece: [u8; PIECE],
    used: usize,
    failed: bool,
}

impl Writer {
    fn flush(&mut self) {
        let bytes = self.piece.get(..self.used).unwrap_or(&[]);
        self.failed |= !write_all(self.descriptor, bytes);
        self.used = 0;
    }
}

impl Sink for Writer {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.used == PIECE {
                self.flush();
            }
            if let Some(place) = self.piece.get_mut(self.used) {
                *place = *byte;
                self.used += 1;
            }
        }
    }
}

pub(super) fn write_new(path: &CStr, fill: &mut dyn FnMut(&mut dyn Sink)) -> bool {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    if descriptor < 0 {
        return false;
    }
    let mut writer = Writer { descriptor, piece: [0; PIECE], used: 0, failed: false };
    fill(&mut writer);
    writer.flush();
    // SAFETY: the descriptor is ours.
    let closed = unsafe { libc::close(descriptor) } == 0;
    closed && !writer.failed
}

pub(super) fn write(descriptor: i32, bytes: &[u8]) {
    write_all(descriptor, bytes);
}

/// False where not all could be written.
fn write_all(descriptor: i32, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: writes what the slice holds.
        let count = unsafe { libc::write(descriptor, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or(&[]),
            _ => return false,
        }
    }
    true
}
