//! The options of jemalloc 5.3, and what each means on this heap. Our libjemalloc.so.2 obeys this table, and `vcm doctor` tells
//! operators what would change by it.

/// The meaning of an option here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// It does what it does in jemalloc.
    Same,
    /// It sets something of ours; what.
    Becomes(&'static str),
    /// Its value is kept and read back, and changes nothing; why.
    Kept(&'static str),
    /// It can have no value but this one; why, and what to set instead.
    Only(&'static str, &'static str),
    /// It has no value at all here; why.
    Absent(&'static str),
}
use Meaning::{Absent, Becomes, Kept, Only, Same};

const CACHES: &str =
    "caches belong to virtual CPUs and fit themselves to their misses; VCM_CACHE_LIMIT bounds them all";
const ONE_HEAP: &str =
    "one heap serves all threads, whose caches belong to virtual CPUs; it needs no more arenas";
const PAGES: &str = "pages come from one map of huge pages; VCM_HUGE_PAGES=off keeps small ones";
const SPANS: &str = "each class has its length of spans";
const GUARDS: &str = "VCM_GUARDED_RATE has allocations between guard pages, libvcmalloc-hardened.so more";
const CHECKS: &str = "libvcmalloc-hardened.so checks and fills blocks";
const RECORDS: &str = "'vcm record' writes every allocation of a running process";
const MAPS: &str = "memory comes from mmap; addresses stay, their memory goes";
const NOT_BUILT: &str = "Debian's jemalloc is built without it, too";

/// In the order of jemalloc's tree; behind them those that it only takes.
pub static MEANINGS: [(&str, Meaning); 76] = [
    (
        "abort",
        Only("false", "a misuse stops the process in any case; abort_conf:true does so for bad options"),
    ),
    ("abort_conf", Same),
    ("cache_oblivious", Only("false", "large blocks begin at units")),
    ("trust_madvise", Kept("pages are released whole, and new ones are zero")),
    ("confirm_conf", Same),
    ("hpa", Only("false", PAGES)),
    ("hpa_slab_max_alloc", Absent(PAGES)),
    ("hpa_hugification_threshold", Absent(PAGES)),
    ("hpa_hugify_delay_ms", Absent(PAGES)),
    ("hpa_min_purge_interval_ms", Absent(PAGES)),
    ("hpa_dirty_mult", Absent(PAGES)),
    ("hpa_sec_nshards", Absent(PAGES)),
    ("hpa_sec_max_alloc", Absent(PAGES)),
    ("hpa_sec_max_bytes", Absent(PAGES)),
    ("hpa_sec_bytes_after_flush", Absent(PAGES)),
    ("hpa_sec_batch_fill_extra", Absent(PAGES)),
    ("metadata_thp", Only("disabled", "tables are small and lie on small pages")),
    ("retain", Only("true", MAPS)),
    ("dss", Only("disabled", MAPS)),
    ("narenas", Only("1", ONE_HEAP)),
    ("percpu_arena", Only("disabled", ONE_HEAP)),
    ("oversize_threshold", Only("0", ONE_HEAP)),
    ("mutex_max_spin", Absent("locks spin as long as it helps")),
    ("background_thread", Becomes("janitor: 'on' for true, 'off' for false")),
    ("max_background_threads", Only("4", "one thread suffices; background_thread:false is none")),
    ("dirty_decay_ms", Becomes("release_delay (10 ms to 1 h); -1 sets retain=1T too, 0 sets retain=0")),
    ("muzzy_decay_ms", Kept("pages are released whole")),
    ("stats_print", Same),
    ("stats_print_opts", Same),
    ("stats_interval", Same),
    ("stats_interval_opts", Same),
    ("junk", Only("false", CHECKS)),
    ("zero", Only("false", CHECKS)),
    ("utrace", Absent(RECORDS)),
    ("xmalloc", Absent(NOT_BUILT)),
    ("experimental_infallible_new", Same),
    ("tcache", Only("true", CACHES)),
    ("tcache_max", Only("262144", CACHES)),
    ("tcache_nslots_small_min", Absent(CACHES)),
    ("tcache_nslots_small_max", Absent(CACHES)),
    ("tcache_nslots_large", Absent(CACHES)),
    ("lg_tcache_nslots_mul", Absent(CACHES)),
    ("tcache_gc_incr_bytes", Absent(CACHES)),
    ("tcache_gc_delay_bytes", Absent(CACHES)),
    ("lg_tcache_flush_small_div", Absent(CACHES)),
    ("lg_tcache_flush_large_div", Absent(CACHES)),
    ("thp", Becomes("huge_pages: 'off' for never, 'on' for always")),
    ("lg_extent_max_active_fit", Absent(PAGES)),
    ("prof", Same),
    ("prof_prefix", Same),
    ("prof_active", Same),
    ("prof_thread_active_init", Only("true", "every thread is sampled; prof.active stops all")),
    ("lg_prof_sample", Same),
    ("lg_prof_interval", Same),
    ("prof_gdump", Same),
    ("prof_final", Same),
    ("prof_leak", Same),
    ("prof_leak_error", Same),
    (
        "prof_accum",
        Only("false", "profiles have what lives; 'vcm profile --allocated' has what was ever allocated"),
    ),
    ("prof_recent_alloc_max", Only("0", RECORDS)),
    ("prof_stats", Only("false", "'vcm stat' has the classes")),
    ("prof_sys_thread_name", Only("false", "profiles do not tell threads apart")),
    ("prof_time_resolution", Only("default", RECORDS)),
    ("lg_san_uaf_align", Only("-1", CHECKS)),
    ("zero_realloc", Same),
    // Without a row in the tree.
    ("narenas_ratio", Absent(ONE_HEAP)),
    ("bin_shards", Absent(ONE_HEAP)),
    ("slab_sizes", Absent(SPANS)),
    ("lg_tcache_max", Absent(CACHES)),
    ("hpa_hugification_threshold_ratio", Absent(PAGES)),
    ("prof_log", Absent(RECORDS)),
    ("prof_unbias", Absent("profiles have bytes as they were asked for; readers weigh them")),
    ("log", Absent(NOT_BUILT)),
    ("san_guard_small", Absent(GUARDS)),
    ("san_guard_large", Absent(GUARDS)),
    ("prof_recent_alloc", Absent(RECORDS)),
];

/// None: jemalloc 5.3 has no option of this name.
pub const fn meaning(name: &str) -> Option<Meaning> {
    let mut rest: &[(&str, Meaning)] = &MEANINGS;
    while let Some(((known, meaning), others)) = rest.split_first() {
        if is_same(known.as_bytes(), name.as_bytes()) {
            return Some(*meaning);
        }
        rest = others;
    }
    None
}

/// `==` is no constant function.
const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    loop {
        match (one.split_first(), other.split_first()) {
            (None, None) => return true,
            (Some((first, rest)), Some((second, others))) if *first == *second => {
                (one, other) = (rest, others)
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_by_its_whole_name() {
        assert_eq!(meaning("prof"), Some(Same));
        assert_eq!(meaning("prof_final"), Some(Same));
        assert!(matches!(meaning("narenas"), Some(Only("1", _))));
        assert_eq!((meaning("prof_fin"), meaning(""), meaning("narenas_")), (None, None, None));
    }

    #[test]
    fn every_name_is_there_once() {
        for (at, (name, _)) in MEANINGS.iter().enumerate() {
            assert!(MEANINGS.iter().skip(at + 1).all(|(other, _)| other != name), "{name}");
        }
    }
}
