//! The consequences when the threads together have taken so many bytes: files of the profile, the statistics.
//!
//! Slow paths tell what their thread took (`counted`), so a mark is passed some blocks late, as in jemalloc.

use super::{print, prof, settings};
use crate::{counted, heap};
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use vcmalloc_core::os::Os;

static TAKEN: AtomicU64 = AtomicU64::new(0);
/// The process in which a thread writes a file, or the statistics; 0: none does. A child of fork is not kept from it by a thread
/// that it does not have.
static BUSY: AtomicI32 = AtomicI32::new(0);
/// A look at what is mapped each mebibyte.
const LOOKS_EACH: u64 = 1 << 20;

/// Has slow paths tell, where something can follow from it.
pub fn watch() {
    let is_watched = prof::is_told() || settings::get("stats_interval") > 0;
    counted::watch(is_watched.then_some(took));
}

/// A thread took so many bytes. Of the threads together one passes each mark.
fn took(bytes: u64) {
    let before = TAKEN.fetch_add(bytes, Ordering::Relaxed);
    let after = before.wrapping_add(bytes);
    let passes = |each: u64| each != 0 && before.checked_div(each) != after.checked_div(each);
    let (profile, statistics) =
        (passes(prof::interval()), passes(settings::get("stats_interval").max(0) as u64));
    let height = prof::is_gdump() && passes(LOOKS_EACH);
    if !(profile || statistics || height) || !begin() {
        return;
    }
    if profile {
        prof::dump_at_interval();
    }
    if height {
        prof::dump_at_height();
    }
    if statistics {
        print::at_interval();
    }
    BUSY.store(0, Ordering::Release);
}

fn begin() -> bool {
    // 0, so that nothing is written, where a filter of system calls keeps us from asking.
    let own = heap().os().process_number() as i32;
    let before = BUSY.load(Ordering::Relaxed);
    before != own && BUSY.compare_exchange(before, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
}
