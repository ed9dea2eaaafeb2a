//! The numeric properties, by name, with the meaning that gperftools gives them.
//!
//! `generic.heap_size` less `tcmalloc.pageheap_unmapped_bytes` is what the heap holds in memory: Ceph steers
//! its caches by it, every second, so both come from counters. If we have no such thing the answer is 0, not
//! "unknown": the program asked for an amount, and there is none of it.

use crate::heap;
use core::sync::atomic::{AtomicU64, Ordering};
use vcmalloc_core::base::text::{Buffer, put_decimal, put_str};
use vcmalloc_core::heap::{Committed, Tiers};
use vcmalloc_core::options::{AUTO, OptionId, percent_of};

enum Answer {
    OfPages(fn(Committed) -> u64),
    OfTiers(fn(Committed, Tiers) -> u64),
    Of(fn() -> u64),
}
use Answer::{Of, OfPages, OfTiers};

struct Property {
    name: &'static str,
    get: Answer,
    set: Option<fn(u64) -> bool>,
}

const fn read(name: &'static str, get: Answer) -> Property {
    Property { name, get, set: None }
}

const fn written(name: &'static str, get: Answer, set: fn(u64) -> bool) -> Property {
    Property { name, get, set: Some(set) }
}

static PROPERTIES: [Property; 24] = [
    read("generic.heap_size", OfPages(mapped)),
    read("tcmalloc.pageheap_unmapped_bytes", OfPages(|pages| pages.uncommitted())),
    read("tcmalloc.pageheap_free_bytes", OfPages(|pages| pages.free)),
    read("tcmalloc.pageheap_committed_bytes", OfPages(committed)),
    read("tcmalloc.slack_bytes", OfPages(|pages| pages.free + pages.uncommitted())),
    read("generic.current_allocated_bytes", OfTiers(|_, tiers| tiers.live + heap().guarded_live())),
    read("generic.total_physical_bytes", OfPages(physical)),
    read("tcmalloc.central_cache_free_bytes", OfTiers(central)),
    read("tcmalloc.transfer_cache_free_bytes", OfTiers(|_, tiers| tiers.transfer)),
    read("tcmalloc.thread_cache_free_bytes", OfTiers(|_, tiers| tiers.vcpu_caches)),
    read("tcmalloc.current_total_thread_cache_bytes", OfTiers(|_, tiers| tiers.vcpu_caches)),
    written(
        "tcmalloc.max_total_thread_cache_bytes",
        Of(|| heap().setup().cache_limit as u64),
        set_cache_limit,
    ),
    written("tcmalloc.aggressive_memory_decommit", Of(is_aggressive), set_aggressive),
    written("tcmalloc.heap_limit_mb", Of(heap_limit), set_heap_limit),
    read("tcmalloc.pageheap_scavenge_count", Of(|| heap().maintenance().ticks)),
    read("tcmalloc.pageheap_total_decommit_bytes", Of(|| heap().maintenance().given_back)),
    read("tcmalloc.pageheap_total_reserve_bytes", OfPages(mapped)),
    read("tcmalloc.pageheap_total_commit_bytes", OfPages(total_commit)),
    // Their numbers of system calls are not counted here.
    read("tcmalloc.pageheap_commit_count", Of(|| 0)),
    read("tcmalloc.pageheap_decommit_count", Of(|| 0)),
    read("tcmalloc.pageheap_reserve_count", Of(|| 0)),
    // Newer than 2.10.
    read("tcmalloc.impl.thread_cache_count", Of(|| heap().cache_count())),
    written("tcmalloc.min_per_thread_cache_bytes", Of(least_cache), set_least_cache),
    written("tcmalloc.sample_parameter", Of(super::profile::mean_interval), set_sampling),
];

/// Guarded blocks lie beside the heap's range, and are in use all the same.
fn mapped(pages: Committed) -> u64 {
    pages.mapped + heap().guarded_live()
}

fn committed(pages: Committed) -> u64 {
    pages.bytes() + heap().guarded_live()
}

fn physical(pages: Committed) -> u64 {
    pages.bytes() + heap().guarded_live().max(heap().guarded_bytes()) + heap().metadata_bytes()
}

/// In spans and free, less the pages that were given back: those count as unmapped.
fn central(pages: Committed, tiers: Tiers) -> u64 {
    (tiers.free_in_spans + tiers.span_tails).saturating_sub(pages.given_back_in_spans)
}

fn total_commit(pages: Committed) -> u64 {
    committed(pages) + heap().maintenance().given_back
}

pub fn get(name: &[u8]) -> Option<u64> {
    let property = PROPERTIES.iter().find(|property| property.name.as_bytes() == name)?;
    Some(match property.get {
        OfPages(answer) => answer(heap().committed()),
        OfTiers(answer) => answer(heap().committed(), heap().tiers()),
        Of(answer) => answer(),
    })
}

/// False where the property is unknown or cannot be set.
pub fn set(name: &[u8], value: u64) -> bool {
    let property = PROPERTIES.iter().find(|property| property.name.as_bytes() == name);
    property.and_then(|property| property.set).is_some_and(|set| set(value))
}

/// Sets an option of the heap to a number with a unit.
pub fn set_option(name: &str, number: u64, unit: &str) -> bool {
    let mut text = [0u8; 32];
    let mut buffer = Buffer::new(&mut text);
    put_decimal(&mut buffer, number);
    put_str(&mut buffer, unit);
    heap().set_option(name.as_bytes(), buffer.as_bytes()).is_ok()
}

/// Effective at once: a lowered bound empties the caches before this returns.
fn set_cache_limit(bytes: u64) -> bool {
    set_option("cache_limit", bytes, "")
}

/// The bytes that the program wants a thread's cache to have at least. There are no caches of threads, so it is
/// remembered and changes nothing.
static LEAST_CACHE: AtomicU64 = AtomicU64::new(0);

fn least_cache() -> u64 {
    LEAST_CACHE.load(Ordering::Relaxed)
}

fn set_least_cache(bytes: u64) -> bool {
    LEAST_CACHE.store(bytes, Ordering::Relaxed);
    true
}

/// The mean bytes between two samples of the profile; 0 ends it.
fn set_sampling(bytes: u64) -> bool {
    match bytes {
        0 => {
            heap().stop_profile();
            true
        }
        _ => heap().start_profile(bytes),
    }
}

/// Whether free memory goes back at once: the janitor retains none of it.
fn is_aggressive() -> u64 {
    u64::from(heap().options.get(OptionId::retain) == 0)
}

pub fn set_aggressive(value: u64) -> bool {
    let option = vcmalloc_core::options::spec(OptionId::retain);
    match value {
        0 if is_aggressive() == 0 => true,
        0 => heap().set_option(option.name.as_bytes(), option.default.as_bytes()).is_ok(),
        _ => set_option(option.name, 0, ""),
    }
}

/// 0 says that there is no limit.
fn heap_limit() -> u64 {
    match heap().options.get(OptionId::hard_limit) {
        AUTO => 0,
        amount if percent_of(amount).is_some() => heap().hard_limit().unwrap_or(0) >> 20,
        bytes => bytes >> 20,
    }
}

pub fn set_heap_limit(megabytes: u64) -> bool {
    match megabytes {
        0 => heap().set_option(b"hard_limit", b"auto").is_ok(),
        _ => set_option("hard_limit", megabytes, "M"),
    }
}
