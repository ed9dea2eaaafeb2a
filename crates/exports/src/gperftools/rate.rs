//! The release rate, and releases that the program asks for.
//!
//! gperftools releases one page for every 1000 / rate pages that are freed. Here memory goes back by age:
//! rate 1, the default of both, is a `release_delay` of one second, rate 10 a tenth of that, rate 0 never.

use super::properties;
use crate::{Blocks, blocks, heap};
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
        NOT_SET => SECOND as f64 / heap().options.get(OptionId::release_delay).max(1) as f64,
        bits => f64::from_bits(bits),
    }
}

/// Sets the rate, which is remembered as it was said, also where the delay has no such value.
pub fn set(rate: f64) {
    RATE.store(rate.to_bits(), Ordering::Relaxed);
    let milliseconds = if rate > LEAST_RATE { 1000.0 / rate } else { MOST_DELAY };
    properties::set_option("release_delay", milliseconds.clamp(LEAST_DELAY, MOST_DELAY) as u64, "ms");
    let never = rate.is_nan() || rate <= LEAST_RATE;
    if never {
        properties::set_option("retain", 1, "T");
    } else if heap().options.get(OptionId::retain) == 1 << 40 {
        // Set by rate 0; any other value is the operator's.
        properties::set_aggressive(1);
        properties::set_aggressive(0);
    }
}

/// The last time that a release was asked for, in nanoseconds.
static LAST: AtomicU64 = AtomicU64::new(0);
/// A program that asks again within this time asks regularly, as an OSD does each second.
const SOON: u64 = 10 * SECOND;
/// Free bytes in caches and spans that the last search left there.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// Free memory in caches and spans that may stay for one who asks regularly: a part of what lives, and these bytes.
/// gperftools' call leaves its caches of threads alone, whatever is in them: 32 MiB, and what their spans hold.
const LIVE_PART: u64 = 4;
const LEAST_LEFT: u64 = 8 << 20;

/// Gives back up to `most` bytes.
///
/// An OSD asks for this every second while it works, and its operator once, when he wants memory back. Free
/// memory outside spans goes each time, as with gperftools. Emptying the caches and searching the spans costs
/// more and hurts a running program: that happens where nobody asked for some time, and else where more is free
/// there than may stay, and more than the last search could not give back.
pub fn release(most: usize) {
    let (now, last) = (heap().os().now(), LAST.load(Ordering::Relaxed));
    LAST.store(now, Ordering::Relaxed);
    let is_regular = last != 0 && now.saturating_sub(last) < SOON;
    let given = heap().release_free(most);
    if given >= most || (is_regular && !is_worth_a_search()) {
        return;
    }
    if most == usize::MAX {
        blocks().release(0);
    } else {
        // Not more than was asked for: only what the caches held together goes in whole runs.
        blocks().audit();
        heap().release_free(most - given);
    }
    let (_, left) = below_pages();
    LEFT.store(left, Ordering::Relaxed);
}

fn is_worth_a_search() -> bool {
    let committed = heap().committed();
    // All spans together do not hold as much: nothing has to be counted.
    if committed.in_spans.saturating_sub(committed.given_back_in_spans) <= LEAST_LEFT {
        return false;
    }
    let (live, free) = below_pages();
    // Memory that was in use meanwhile may be given back when it is free again.
    free > LEFT.fetch_min(free, Ordering::Relaxed) + live / LIVE_PART + LEAST_LEFT
}

/// Bytes in use, and those in memory that are free in caches, transfer arrays and spans.
fn below_pages() -> (u64, u64) {
    let (tiers, given_back) = (heap().tiers(), heap().committed().given_back_in_spans);
    let in_spans = (tiers.free_in_spans + tiers.span_tails).saturating_sub(given_back);
    (tiers.live, tiers.vcpu_caches + tiers.transfer + in_spans)
}
