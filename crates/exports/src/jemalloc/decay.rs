//! Times of decay: how long pages stay that nobody uses. For the process's own heap that is `release_delay`, for an arena its
//! heap's delay; -1 is for ever, 0 at once, which is the least delay and nothing retained.
//!
//! Pages go to the system whole here; none is muzzy. Times for muzzy pages are kept and change nothing.

use super::arenas::{self, NOT_SET};
use super::io::Outcome;
use super::settings::LONGEST_DECAY;
use crate::heap;
use core::sync::atomic::{AtomicI64, Ordering};
use libc::EFAULT;
use vcmalloc_core::base::text::{Buffer, put_decimal, put_str};
use vcmalloc_core::options::{OptionId, Origin, spec};

const MILLISECOND: u64 = 1_000_000;
/// Bounds of `release_delay`, in milliseconds.
const LEAST: u64 = 10;
const MOST: u64 = 3_600_000;

/// The times of arenas that are made from now on.
static NEW_DIRTY: AtomicI64 = AtomicI64::new(NOT_SET);
static NEW_MUZZY: AtomicI64 = AtomicI64::new(0);

pub fn is_time(milliseconds: i64) -> bool {
    (-1..=LONGEST_DECAY).contains(&milliseconds)
}

fn own_delay() -> i64 {
    (heap().options.get(OptionId::release_delay) / MILLISECOND) as i64
}

/// The time of an arena that there is.
pub fn of(number: usize, is_dirty: bool) -> i64 {
    match arenas::time(number, is_dirty) {
        NOT_SET if is_dirty => own_delay(),
        NOT_SET => 0,
        time => time,
    }
}

pub fn of_new(is_dirty: bool) -> i64 {
    let time = if is_dirty { &NEW_DIRTY } else { &NEW_MUZZY };
    match time.load(Ordering::Relaxed) {
        NOT_SET => own_delay(),
        time => time,
    }
}

pub fn set_of_new(is_dirty: bool, milliseconds: i64) -> Outcome {
    if !is_time(milliseconds) {
        return Err(EFAULT);
    }
    let time = if is_dirty { &NEW_DIRTY } else { &NEW_MUZZY };
    time.store(milliseconds, Ordering::Relaxed);
    Ok(())
}

pub fn set(number: usize, is_dirty: bool, milliseconds: i64) -> Outcome {
    if !is_time(milliseconds) {
        return Err(EFAULT);
    }
    let Some(id) = arenas::heap_of(number) else { return Err(EFAULT) };
    if is_dirty && number == 0 {
        set_own(milliseconds, Origin::Api);
    } else if is_dirty {
        let delay = match milliseconds {
            -1 => u64::MAX - 1,
            time => (time as u64).saturating_mul(MILLISECOND),
        };
        heap().set_heap_delay(id, Some(delay)).map_err(|_| EFAULT)?;
    }
    arenas::set_time(number, is_dirty, milliseconds);
    Ok(())
}

/// An arena was made.
pub fn begin(number: usize) {
    for (time, is_dirty) in [(&NEW_DIRTY, true), (&NEW_MUZZY, false)] {
        let time = time.load(Ordering::Relaxed);
        if time != NOT_SET {
            _ = set(number, is_dirty, time);
        }
    }
}

/// The settings of the process's own heap. What keeps all memory, or none, is undone by the next time that does neither.
pub fn set_own(milliseconds: i64, origin: Origin) {
    let mut text = [0u8; 32];
    let mut delay = Buffer::new(&mut text);
    match milliseconds {
        -1 => put_decimal(&mut delay, MOST),
        time => put_decimal(&mut delay, (time as u64).clamp(LEAST, MOST)),
    }
    put_str(&mut delay, "ms");
    _ = heap().set_option_by(origin, spec(OptionId::release_delay).name.as_bytes(), delay.as_bytes());
    let before = arenas::time(0, true);
    let retain = match milliseconds {
        -1 => "1T",
        0 => "0",
        _ if before == -1 || before == 0 => spec(OptionId::retain).default,
        _ => return,
    };
    _ = heap().set_option_by(origin, spec(OptionId::retain).name.as_bytes(), retain.as_bytes());
}
