//! Text without an allocator and without `core::fmt` (whose padding code can panic).
//!
//! Owns nothing; promises that writing never fails and never allocates (what does not fit is cut and
//! counted); any layer may call it; sits on nothing.

/// A destination for text.
pub trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

/// A fixed buffer that keeps what fits and counts what was offered.
pub struct Buffer<'a> {
    bytes: &'a mut [u8],
    offered: usize,
}

impl<'a> Buffer<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Buffer { bytes, offered: 0 }
    }

    /// Bytes that were offered so far: more than the buffer's length means that the text was cut.
    pub fn offered(&self) -> usize {
        self.offered
    }

    pub fn as_bytes(&self) -> &[u8] {
        let used = self.offered.min(self.bytes.len());
        self.bytes.get(..used).unwrap_or(&[])
    }
}

impl Sink for Buffer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.offered..) {
            for (to, from) in room.iter_mut().zip(bytes) {
                *to = *from;
            }
        }
        self.offered += bytes.len();
    }
}

pub fn put_str(sink: &mut dyn Sink, text: &str) {
    sink.put(text.as_bytes());
}

/// A number in decimal.
#[inline(never)]
pub fn put_decimal(sink: &mut dyn Sink, number: u64) {
    let mut digits = [0u8; 20];
    let mut rest = number;
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    let start = digits.len() - count;
    sink.put(digits.get(start..).unwrap_or(&[]));
}

/// An address or a mask, with `0x`.
#[inline(never)]
pub fn put_hex(sink: &mut dyn Sink, number: u64) {
    sink.put(b"0x");
    let significant = (64 - number.leading_zeros()).div_ceil(4).max(1);
    for nibble in (0..significant).rev() {
        let digit = ((number >> (nibble * 4)) & 15) as u8;
        sink.put(&[if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut dyn Sink)) -> String {
        let mut bytes = [0u8; 64];
        let mut buffer = Buffer::new(&mut bytes);
        write(&mut buffer);
        String::from_utf8(buffer.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn numbers_come_out_as_a_reader_writes_them() {
        assert_eq!(written(|s| put_decimal(s, 0)), "0");
        assert_eq!(written(|s| put_decimal(s, u64::MAX)), "18446744073709551615");
        assert_eq!(written(|s| put_hex(s, 0)), "0x0");
        assert_eq!(written(|s| put_hex(s, 0xdead_beef)), "0xdeadbeef");
    }

    #[test]
    fn a_full_buffer_cuts_and_says_how_much_was_offered() {
        let mut bytes = [0u8; 4];
        let mut buffer = Buffer::new(&mut bytes);
        put_str(&mut buffer, "abcdef");
        assert_eq!(buffer.as_bytes(), b"abcd");
        assert_eq!(buffer.offered(), 6);
    }
}
