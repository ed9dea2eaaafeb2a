//! Columns of numbers.

use crate::base::text::{self, Sink};

/// Writes a number at the right end of a column.
#[inline(never)]
pub(super) fn put_right(sink: &mut dyn Sink, number: u64, width: usize) {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    (digits..width).for_each(|_| sink.put(b" "));
    text::put_decimal(sink, number);
}
