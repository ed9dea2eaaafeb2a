//! The release rate, and releases that the program asks for.
//!
//! gperftools releases one page for every 1000 / rate pages that are freed. Here memory goes back by age:
//! rate 1, the default of both, is a `release_delay` of one second, rate 10 a tenth of that, rate 0 never.

use super::properties;
use crate::HEAP;
use core::sync::atomic::{AtomicU64, Ordering};
use vcmalloc_core::options::OptionId;
use vcmalloc_core::os::Os;

const SECOND: u64 = 1_000_000_000;
/// Bounds of the option `release_delay`, in milliseconds.
const LEAST_DELAY: f64 = 10.0;
const MOST_DELAY: f64 = 3_600_000.0;
/// Below this gperftools never releases either.
const LEAST_RATE: f64 = 1e-6;

/// The bits of the rate that was set; NOT_SET while the option says it.
static RATE: AtomicU64 = AtomicU64::new(NOT_SET);
/// No number has these bits unless somebody made it so.
const NOT_SET: u64 = u64::MAX;

pub fn get() -> f64 {
    match RATE.load(Ordering::Relaxed) {
        NOT_SET => SECOND as f64 / HEAP.options.get(OptionId::release_delay).max(1) as f64,
        bits => f64::from_bits(bits),
    }
}

/// What was set is remembered as it was said, also where the delay has no such value.
pub fn set(rate: f64) {
    RATE.store(rate.to_bits(), Ordering::Relaxed);
    let milliseconds = if rate > LEAST_RATE { 1000.0 / rate } else { MOST_DELAY };
    properties::set_option("release_delay", milliseconds.clamp(LEAST_DELAY, MOST_DELAY) as u64, "ms");
    let never = rate.is_nan() || rate <= LEAST_RATE;
    if never {
        properties::set_option("retain", 1, "T");
    } else if HEAP.options.get(OptionId::retain) == 1 << 40 {
        // What rate 0 had set; any other value is the operator's.
        properties::set_aggressive(1);
        properties::set_aggressive(0);
    }
}

/// The last time that everything was released, in nanoseconds.
static LAST: AtomicU64 = AtomicU64::new(0);
/// The thread that asks every now and then: not the operator's.
static REGULAR: AtomicU64 = AtomicU64::new(0);
/// Within this time of a release, the next does the cheap part alone.
const SOON: u64 = 10 * SECOND;

/// Gives back up to `most` bytes.
///
/// An OSD asks for this every second while it works, and its operator once, when he wants memory back. So
/// free memory outside spans always goes; caches are emptied and spans searched when nobody has asked for
/// some time. The janitor gives back what stays idle in spans and caches anyway. Where the heap has found
/// that the program keeps needing what goes, the thread that asks every second gets nothing at once; but free
/// memory is kept small then, as the program decides by what is mapped how much it may hold.
pub fn release(most: usize) {
    let (now, last) = (HEAP.os().now(), LAST.load(Ordering::Relaxed));
    let soon = last != 0 && now.saturating_sub(last) < SOON;
    let thread = HEAP.os().thread_number();
    let regular = soon && REGULAR.load(Ordering::Relaxed) == thread;
    if !soon || regular {
        REGULAR.store(thread, Ordering::Relaxed);
        LAST.store(now, Ordering::Relaxed);
    }
    if regular {
        HEAP.note_steered();
        if HEAP.is_patient() {
            return;
        }
    }
    let given = HEAP.release_free(most);
    if given < most && !soon {
        // What is kept is counted in free memory outside spans, of which there is none left.
        HEAP.release(0);
    }
}
