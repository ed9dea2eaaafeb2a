//! Each metric of a process, declared once: its name, unit, meaning, and where it comes from.

use super::process::Look;
use prometheus_client::registry::Unit;
use vcm_inspect::window::OfName;

/// A label of its own beside those of the process.
pub type Label = Option<(&'static str, String)>;

pub enum Value {
    Whole(u64),
    Real(f64),
}

type Give<'a> = &'a mut dyn FnMut(Label, Value);

pub struct Figure {
    /// Behind it come the unit, and `_total` of a counter.
    pub name: &'static str,
    pub unit: Option<Unit>,
    pub is_counter: bool,
    pub help: &'static str,
    pub of: fn(&Look, Give),
}

const fn gauge(name: &'static str, unit: Option<Unit>, help: &'static str, of: fn(&Look, Give)) -> Figure {
    Figure { name, unit, is_counter: false, help, of }
}

const fn counter(name: &'static str, unit: Option<Unit>, help: &'static str, of: fn(&Look, Give)) -> Figure {
    Figure { name, unit, is_counter: true, help, of }
}

fn one(give: Give, value: u64) {
    give(None, Value::Whole(value));
}

fn several<const N: usize>(give: Give, label: &'static str, values: [(&str, u64); N]) {
    for (word, value) in values {
        give(Some((label, word.to_string())), Value::Whole(value));
    }
}

const BYTES: Option<Unit> = Some(Unit::Bytes);
const SECONDS: Option<Unit> = Some(Unit::Seconds);

/// Those of every process.
pub const FIGURES: &[Figure] = &[
    gauge("vcmalloc_process_start_time", SECONDS, "Start time of the process, since 1970.", |look, give| {
        one(give, look.identity.started);
    }),
    gauge("vcmalloc_live", BYTES, "Blocks in use, including the bytes lost to rounding up.", |look, give| {
        one(give, look.stats.live);
    }),
    gauge("vcmalloc_requested", BYTES, "Requested bytes of the blocks in use.", |look, give| {
        one(give, look.stats.live_requested);
    }),
    gauge("vcmalloc_cached", BYTES, "Free blocks in vCPU caches and transfer arrays.", |look, give| {
        one(give, look.stats.vcpu_caches + look.stats.transfer);
    }),
    gauge(
        "vcmalloc_tier",
        BYTES,
        "Steps from requested to resident bytes: their sum less vcmalloc_not_in_memory_bytes.",
        tiers,
    ),
    gauge(
        "vcmalloc_not_in_memory",
        BYTES,
        "Untouched, released and swapped bytes of spans.",
        |look, give| {
            one(give, look.stats.not_in_memory);
        },
    ),
    gauge(
        "vcmalloc_resident",
        BYTES,
        "Resident memory of the heap. Its age is vcmalloc_pages_age_seconds.",
        |look, give| {
            one(give, look.stats.resident);
        },
    ),
    gauge("vcmalloc_swapped", BYTES, "Swapped bytes of the heap.", |look, give| one(give, look.swapped)),
    gauge(
        "vcmalloc_mapped",
        BYTES,
        "Address space of the heap for blocks, resident or not.",
        |look, give| {
            one(give, look.stats.mapped);
        },
    ),
    gauge("vcmalloc_large", BYTES, "Blocks in use above the largest size class.", |look, give| {
        one(give, look.stats.large);
    }),
    gauge("vcmalloc_huge", BYTES, "2 MiB blocks put onto huge pages.", |look, give| {
        one(give, look.stats.huge);
    }),
    gauge("vcmalloc_released", BYTES, "Idle pages inside spans that are now released.", |look, give| {
        one(give, look.stats.released);
    }),
    gauge("vcmalloc_process_resident", BYTES, "Resident memory of the process (RSS).", |look, give| {
        look.whole.iter().for_each(|whole| one(give, whole.rss));
    }),
    gauge(
        "vcmalloc_process_anonymous",
        BYTES,
        "Resident memory of the process not backed by files.",
        |look, give| look.whole.iter().for_each(|whole| one(give, whole.anonymous)),
    ),
    gauge(
        "vcmalloc_limit",
        BYTES,
        "Limits in effect; memory_limit is soft, cache_limit bounds cached bytes.",
        limits,
    ),
    gauge("vcmalloc_cache_room", BYTES, "Part of cache_limit that caches may use now.", |look, give| {
        one(give, look.stats.cache_room);
    }),
    gauge("vcmalloc_cgroup_used", BYTES, "Memory used by the control group of the process.", |look, give| {
        look.pressure.used.iter().for_each(|used| one(give, *used));
    }),
    gauge(
        "vcmalloc_memory_stalled_ratio",
        None,
        "Share of the last 10 or 60 seconds in which a task of the control group waited for memory.",
        |look, give| {
            let Some((short, long)) = look.pressure.stalled else { return };
            for (word, value) in [("10s", short), ("60s", long)] {
                give(Some(("window", word.to_string())), Value::Real(value / 100.0));
            }
        },
    ),
    counter(
        "vcmalloc_given_back",
        BYTES,
        "Bytes released to the system by the janitor and under memory pressure.",
        |look, give| {
            one(give, look.counts.given_back);
        },
    ),
    counter("vcmalloc_cache_misses", None, "Calls with an empty or full cache.", |look, give| {
        several(give, "call", [("malloc", look.counts.underflows), ("free", look.counts.overflows)]);
    }),
    counter("vcmalloc_janitor_ticks", None, "Ticks of the janitor.", |look, give| {
        one(give, look.counts.ticks)
    }),
    counter("vcmalloc_huge_page_stall", SECONDS, "Time spent creating huge pages.", |look, give| {
        give(None, Value::Real(look.counts.huge_stall as f64 / 1e9));
    }),
    counter(
        "vcmalloc_fences_refused",
        None,
        "Number of times that the kernel refused to empty caches.",
        |look, give| {
            one(give, look.counts.fences_refused);
        },
    ),
    counter("vcmalloc_guarded_samples", None, "Blocks allocated between guard pages.", |look, give| {
        one(give, look.counts.guarded_samples);
    }),
    counter(
        "vcmalloc_cgroup_kills",
        None,
        "Processes of the control group killed for memory.",
        |look, give| {
            one(give, look.counts.kills);
        },
    ),
    counter("vcmalloc_torn_looks", None, "Readings that mixed two moments.", |look, give| {
        one(give, look.counts.torn_looks);
    }),
    gauge("vcmalloc_tenant_heaps", None, "Heaps of tenants with this name.", |look, give| {
        of_names(look, give, |of| of.heaps);
    }),
    gauge(
        "vcmalloc_tenant_live",
        BYTES,
        "By name of tenants' heaps: bytes of blocks that their spans gave out, those in their caches too.",
        |look, give| of_names(look, give, |of| of.figures.live),
    ),
    gauge(
        "vcmalloc_tenant_spans",
        BYTES,
        "By name of tenants' heaps: bytes of their spans and of the heaps below them, which limits count.",
        |look, give| of_names(look, give, |of| of.figures.bytes),
    ),
    gauge(
        "vcmalloc_tenant_refused",
        None,
        "By name of tenants' heaps that exist: requests refused by their limits.",
        |look, give| of_names(look, give, |of| of.figures.refused),
    ),
    gauge("vcmalloc_look_is_torn", None, "1 if these figures mix two moments.", |look, give| {
        one(give, u64::from(look.is_torn));
    }),
    gauge(
        "vcmalloc_pages_are_apart",
        None,
        "1 if resident bytes are from another moment and off by more than 2 %.",
        |look, give| one(give, u64::from(look.pages_apart)),
    ),
    gauge("vcmalloc_pages_age", SECONDS, "Age of the count of resident pages.", |look, give| {
        give(None, Value::Real(look.pages_age));
    }),
];

/// The largest names each, and all others together under none: their number is bounded.
fn of_names(look: &Look, give: Give, value: fn(&OfName) -> u64) {
    for of in &look.heaps.names {
        let name = of.name.clone().unwrap_or_default();
        give(Some(("heap", name)), Value::Whole(value(of)));
    }
}

fn tiers(look: &Look, give: Give) {
    let stats = &look.stats;
    let tiers = [
        ("requested", stats.live_requested),
        ("waste", stats.waste()),
        ("quarantine", stats.quarantined),
        ("vcpu_caches", stats.vcpu_caches),
        ("transfer", stats.transfer),
        ("free_in_spans", stats.free_in_spans),
        ("span_tails", stats.span_tails),
        ("dirty_free", stats.dirty_free),
        ("metadata", stats.metadata),
    ];
    several(give, "tier", tiers);
}

fn limits(look: &Look, give: Give) {
    let some = |bytes: u64| Some(bytes).filter(|bytes| *bytes > 0);
    let limits = [
        ("memory_limit", some(look.stats.memory_limit)),
        ("hard_limit", some(look.stats.hard_limit)),
        ("cache_limit", Some(look.stats.cache_limit)),
        ("cgroup", look.pressure.limit),
    ];
    for (word, bytes) in limits {
        bytes.iter().for_each(|bytes| give(Some(("limit", word.to_string())), Value::Whole(*bytes)));
    }
}
