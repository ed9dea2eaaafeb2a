//! The options of jemalloc 5.3: their types, the values in effect, and what each means here. `conf` sets them, `opt.*` reads them.

use super::io::Value;
use core::ffi::CStr;
use core::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use vcmalloc_core::class::LARGEST_BYTES;

/// How an option is written, and the type of its value.
#[derive(Clone, Copy)]
pub enum Form {
    Bool,
    /// `unsigned`, `size_t`; at least, at most.
    U32(i64, i64),
    Size(i64, i64),
    /// `ssize_t` and `int64_t`.
    Signed(i64, i64),
    /// One of these words; the value is its place.
    Word(&'static [&'static CStr]),
    Text(&'static Text),
    /// A value that `opt.*` does not tell.
    Other,
}

/// What an option means here.
#[derive(Clone, Copy)]
pub enum Meaning {
    /// It is obeyed.
    Obeyed,
    /// It can have no other value than the one that it begins with; otherwise a line says why, and what to set instead.
    Only(&'static str),
    /// It has no value at all here.
    Absent(&'static str),
}
use Meaning::{Absent, Obeyed, Only};

pub struct Setting {
    pub name: &'static str,
    pub form: Form,
    pub meaning: Meaning,
    value: AtomicI64,
}

/// A text of up to 1,023 bytes with a zero behind it, that C may read where it is.
pub struct Text {
    bytes: [AtomicU8; Text::ROOM],
}

impl Text {
    const ROOM: usize = 1024;

    const fn new(text: &str) -> Text {
        let mut bytes = [const { AtomicU8::new(0) }; Text::ROOM];
        let mut index = 0;
        while index < text.len() && index + 1 < Text::ROOM {
            bytes[index] = AtomicU8::new(text.as_bytes()[index]);
            index += 1;
        }
        Text { bytes }
    }

    /// What does not fit is cut.
    pub fn set(&self, text: &[u8]) {
        for (place, byte) in
            self.bytes.iter().take(Text::ROOM - 1).zip(text.iter().chain(core::iter::repeat(&0)))
        {
            place.store(*byte, Ordering::Relaxed);
        }
    }

    /// While it is set it may be read half new; it always ends.
    pub fn get(&'static self) -> &'static CStr {
        // SAFETY: the last byte is zero and never written; atomics of bytes are bytes.
        unsafe { CStr::from_ptr(self.bytes.as_ptr().cast()) }
    }
}

pub static PROF_PREFIX: Text = Text::new("jeprof");
pub static STATS_PRINT_OPTS: Text = Text::new("");
pub static STATS_INTERVAL_OPTS: Text = Text::new("");

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

/// Switches that nobody set, and that are on or off then.
const NOT_GIVEN_ON: i64 = -1;
const NOT_GIVEN_OFF: i64 = -2;

/// What `max_background_threads` is at first, and at most.
pub const MOST_JANITORS: usize = 4;

const BOTH: i64 = i64::MAX;
const DISABLED: &[&CStr] = &[c"disabled"];
pub const ZERO_REALLOC: &[&CStr] = &[c"free", c"alloc", c"abort"];

const fn setting(name: &'static str, form: Form, value: i64, meaning: Meaning) -> Setting {
    Setting { name, form, meaning, value: AtomicI64::new(value) }
}

use Form::{Bool, Other, Signed, Size, U32, Word};

/// In the order of jemalloc's tree; behind them those that it only takes.
pub static SETTINGS: [Setting; 76] = [
    setting(
        "abort",
        Bool,
        0,
        Only("a misuse stops the process in any case; abort_conf:true does so for bad options"),
    ),
    setting("abort_conf", Bool, 0, Obeyed),
    setting("cache_oblivious", Bool, 0, Only("large blocks begin at units")),
    setting("trust_madvise", Bool, 0, Obeyed),
    setting("confirm_conf", Bool, 0, Obeyed),
    setting("hpa", Bool, 0, Only(PAGES)),
    setting("hpa_slab_max_alloc", Other, 0, Absent(PAGES)),
    setting("hpa_hugification_threshold", Other, 0, Absent(PAGES)),
    setting("hpa_hugify_delay_ms", Other, 0, Absent(PAGES)),
    setting("hpa_min_purge_interval_ms", Other, 0, Absent(PAGES)),
    setting("hpa_dirty_mult", Other, 0, Absent(PAGES)),
    setting("hpa_sec_nshards", Other, 0, Absent(PAGES)),
    setting("hpa_sec_max_alloc", Other, 0, Absent(PAGES)),
    setting("hpa_sec_max_bytes", Other, 0, Absent(PAGES)),
    setting("hpa_sec_bytes_after_flush", Other, 0, Absent(PAGES)),
    setting("hpa_sec_batch_fill_extra", Other, 0, Absent(PAGES)),
    setting("metadata_thp", Word(DISABLED), 0, Only("tables are small and lie on small pages")),
    setting("retain", Bool, 1, Only(MAPS)),
    setting("dss", Word(DISABLED), 0, Only(MAPS)),
    setting("narenas", U32(1, u32::MAX as i64), 1, Only(ONE_HEAP)),
    setting("percpu_arena", Word(DISABLED), 0, Only(ONE_HEAP)),
    setting("oversize_threshold", Size(0, BOTH), 0, Only(ONE_HEAP)),
    setting("mutex_max_spin", Other, 0, Absent("locks spin as long as it helps")),
    // Not 0 or 1: nobody gave it.
    setting("background_thread", Bool, if cfg!(tikv) { NOT_GIVEN_OFF } else { NOT_GIVEN_ON }, Obeyed),
    setting(
        "max_background_threads",
        Size(0, BOTH),
        MOST_JANITORS as i64,
        Only("one thread suffices; background_thread:false is none"),
    ),
    setting("dirty_decay_ms", Signed(-1, BOTH), -2, Obeyed),
    setting("muzzy_decay_ms", Signed(-1, BOTH), 0, Obeyed),
    setting("stats_print", Bool, 0, Obeyed),
    setting("stats_print_opts", Form::Text(&STATS_PRINT_OPTS), 0, Obeyed),
    setting("stats_interval", Signed(-1, BOTH), -1, Obeyed),
    setting("stats_interval_opts", Form::Text(&STATS_INTERVAL_OPTS), 0, Obeyed),
    setting("junk", Word(&[c"false"]), 0, Only(CHECKS)),
    setting("zero", Bool, 0, Only(CHECKS)),
    setting("utrace", Other, 0, Absent(RECORDS)),
    setting("xmalloc", Other, 0, Absent(NOT_BUILT)),
    setting("experimental_infallible_new", Bool, 0, Obeyed),
    setting("tcache", Bool, 1, Only(CACHES)),
    setting("tcache_max", Size(0, BOTH), LARGEST_BYTES as i64, Only(CACHES)),
    setting("tcache_nslots_small_min", Other, 0, Absent(CACHES)),
    setting("tcache_nslots_small_max", Other, 0, Absent(CACHES)),
    setting("tcache_nslots_large", Other, 0, Absent(CACHES)),
    setting("lg_tcache_nslots_mul", Other, 0, Absent(CACHES)),
    setting("tcache_gc_incr_bytes", Other, 0, Absent(CACHES)),
    setting("tcache_gc_delay_bytes", Other, 0, Absent(CACHES)),
    setting("lg_tcache_flush_small_div", Other, 0, Absent(CACHES)),
    setting("lg_tcache_flush_large_div", Other, 0, Absent(CACHES)),
    setting("thp", Word(&[c"default", c"always", c"never"]), 0, Obeyed),
    setting("lg_extent_max_active_fit", Other, 0, Absent(PAGES)),
    setting("prof", Bool, 0, Obeyed),
    setting("prof_prefix", Form::Text(&PROF_PREFIX), 0, Obeyed),
    setting("prof_active", Bool, 1, Obeyed),
    setting("prof_thread_active_init", Bool, 1, Only("every thread is sampled; prof.active stops all")),
    setting("lg_prof_sample", Size(0, 63), 19, Obeyed),
    setting("lg_prof_interval", Signed(-1, 63), -1, Obeyed),
    setting("prof_gdump", Bool, 0, Obeyed),
    setting("prof_final", Bool, 0, Obeyed),
    setting("prof_leak", Bool, 0, Obeyed),
    setting("prof_leak_error", Bool, 0, Obeyed),
    setting(
        "prof_accum",
        Bool,
        0,
        Only("profiles have what lives; 'vcm profile --allocated' has what was ever allocated"),
    ),
    setting("prof_recent_alloc_max", Signed(-1, BOTH), 0, Only(RECORDS)),
    setting("prof_stats", Bool, 0, Only("'vcm stat' has the classes")),
    setting("prof_sys_thread_name", Bool, 0, Only("profiles do not tell threads apart")),
    setting("prof_time_resolution", Word(&[c"default"]), 0, Only(RECORDS)),
    setting("lg_san_uaf_align", Signed(-1, 63), -1, Only(CHECKS)),
    setting("zero_realloc", Word(ZERO_REALLOC), 0, Obeyed),
    // Without a row in the tree.
    setting("narenas_ratio", Other, 0, Absent(ONE_HEAP)),
    setting("bin_shards", Other, 0, Absent(ONE_HEAP)),
    setting("slab_sizes", Other, 0, Absent(SPANS)),
    setting("lg_tcache_max", Other, 0, Absent(CACHES)),
    setting("hpa_hugification_threshold_ratio", Other, 0, Absent(PAGES)),
    setting("prof_log", Other, 0, Absent(RECORDS)),
    setting(
        "prof_unbias",
        Other,
        0,
        Absent("profiles have bytes as they were asked for; readers weigh them"),
    ),
    setting("log", Other, 0, Absent(NOT_BUILT)),
    setting("san_guard_small", Other, 0, Absent(GUARDS)),
    setting("san_guard_large", Other, 0, Absent(GUARDS)),
    setting("prof_recent_alloc", Other, 0, Absent(RECORDS)),
];

pub fn find(name: &[u8]) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name.as_bytes() == name)
}

/// The value of an option that is one.
pub fn get(name: &str) -> i64 {
    find(name.as_bytes()).map_or(0, Setting::number)
}

pub fn is_on(name: &str) -> bool {
    get(name) != 0
}

pub fn set(name: &str, value: i64) {
    if let Some(setting) = find(name.as_bytes()) {
        setting.set(value);
    }
}

impl Setting {
    pub fn number(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    pub fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// As `opt.*` tells it; none where there is no value here.
    pub fn value(&self) -> Option<Value> {
        if matches!(self.meaning, Absent(_)) {
            return None;
        }
        Some(match self.form {
            Form::Bool => Value::Bool(![0, NOT_GIVEN_OFF].contains(&self.number())),
            Form::U32(..) => Value::U32(self.number() as u32),
            Form::Size(..) | Form::Signed(..) => Value::Word(self.number() as u64),
            Form::Word(words) => Value::Text(words.get(self.number() as usize).copied().unwrap_or(c"")),
            Form::Text(text) => Value::Text(text.get()),
            Form::Other => return None,
        })
    }
}
