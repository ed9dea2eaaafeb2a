//! The options of jemalloc 5.3: their types and the values in effect. `conf` sets them, `opt.*` reads them; the core has what each
//! means here.

use super::io::Value;
use core::ffi::CStr;
use core::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use vcmalloc_core::class::LARGEST_BYTES;
pub use vcmalloc_core::options::jemalloc::Meaning;
use vcmalloc_core::options::jemalloc::meaning;

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

    /// A longer text is cut.
    pub fn set(&self, text: &[u8]) {
        for (place, byte) in
            self.bytes.iter().take(Text::ROOM - 1).zip(text.iter().chain(core::iter::repeat(&0)))
        {
            place.store(*byte, Ordering::Relaxed);
        }
    }

    /// Behind what is there.
    fn add(&self, text: &[u8]) {
        let bytes = self.bytes.iter().take(Text::ROOM - 1);
        let free = bytes.skip_while(|byte| byte.load(Ordering::Relaxed) != 0);
        free.zip(text).for_each(|(place, byte)| place.store(*byte, Ordering::Relaxed));
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

/// Switches that nobody set, and that are on or off then.
const NOT_GIVEN_ON: i64 = -1;
const NOT_GIVEN_OFF: i64 = -2;

/// `max_background_threads` at first, and at most.
pub const MOST_JANITORS: usize = 4;

/// The longest time of decay, in milliseconds: whole seconds, of which one more still fits into 64 bits as nanoseconds.
pub const LONGEST_DECAY: i64 = (u64::MAX / 1_000_000_000 - 1) as i64 * 1000;

const BOTH: i64 = i64::MAX;
const DISABLED: &[&CStr] = &[c"disabled"];
pub const ZERO_REALLOC: &[&CStr] = &[c"free", c"alloc", c"abort"];

const fn setting(name: &'static str, form: Form, value: i64) -> Setting {
    let Some(meaning) = meaning(name) else { panic!("the table of meanings has every option") };
    Setting { name, form, meaning, value: AtomicI64::new(value) }
}

use Form::{Bool, Other, Signed, Size, U32, Word};

/// In the order of jemalloc's tree; behind them those that it only takes.
pub static SETTINGS: [Setting; 76] = [
    setting("abort", Bool, 0),
    setting("abort_conf", Bool, 0),
    setting("cache_oblivious", Bool, 0),
    setting("trust_madvise", Bool, 0),
    setting("confirm_conf", Bool, 0),
    setting("hpa", Bool, 0),
    setting("hpa_slab_max_alloc", Other, 0),
    setting("hpa_hugification_threshold", Other, 0),
    setting("hpa_hugify_delay_ms", Other, 0),
    setting("hpa_min_purge_interval_ms", Other, 0),
    setting("hpa_dirty_mult", Other, 0),
    setting("hpa_sec_nshards", Other, 0),
    setting("hpa_sec_max_alloc", Other, 0),
    setting("hpa_sec_max_bytes", Other, 0),
    setting("hpa_sec_bytes_after_flush", Other, 0),
    setting("hpa_sec_batch_fill_extra", Other, 0),
    setting("metadata_thp", Word(DISABLED), 0),
    setting("retain", Bool, 1),
    setting("dss", Word(DISABLED), 0),
    setting("narenas", U32(1, u32::MAX as i64), 1),
    setting("percpu_arena", Word(DISABLED), 0),
    setting("oversize_threshold", Size(0, BOTH), 0),
    setting("mutex_max_spin", Other, 0),
    // Not 0 or 1: nobody gave it.
    setting("background_thread", Bool, if cfg!(tikv) { NOT_GIVEN_OFF } else { NOT_GIVEN_ON }),
    setting("max_background_threads", Size(0, BOTH), MOST_JANITORS as i64),
    setting("dirty_decay_ms", Signed(-1, LONGEST_DECAY), -2),
    setting("muzzy_decay_ms", Signed(-1, LONGEST_DECAY), 0),
    setting("stats_print", Bool, 0),
    setting("stats_print_opts", Form::Text(&STATS_PRINT_OPTS), 0),
    setting("stats_interval", Signed(-1, BOTH), -1),
    setting("stats_interval_opts", Form::Text(&STATS_INTERVAL_OPTS), 0),
    setting("junk", Word(&[c"false"]), 0),
    setting("zero", Bool, 0),
    setting("utrace", Other, 0),
    setting("xmalloc", Other, 0),
    setting("experimental_infallible_new", Bool, 0),
    setting("tcache", Bool, 1),
    setting("tcache_max", Size(0, BOTH), LARGEST_BYTES as i64),
    setting("tcache_nslots_small_min", Other, 0),
    setting("tcache_nslots_small_max", Other, 0),
    setting("tcache_nslots_large", Other, 0),
    setting("lg_tcache_nslots_mul", Other, 0),
    setting("tcache_gc_incr_bytes", Other, 0),
    setting("tcache_gc_delay_bytes", Other, 0),
    setting("lg_tcache_flush_small_div", Other, 0),
    setting("lg_tcache_flush_large_div", Other, 0),
    setting("thp", Word(&[c"default", c"always", c"never"]), 0),
    setting("lg_extent_max_active_fit", Other, 0),
    setting("prof", Bool, 0),
    setting("prof_prefix", Form::Text(&PROF_PREFIX), 0),
    setting("prof_active", Bool, 1),
    setting("prof_thread_active_init", Bool, 1),
    setting("lg_prof_sample", Size(0, 63), 19),
    setting("lg_prof_interval", Signed(-1, 63), -1),
    setting("prof_gdump", Bool, 0),
    setting("prof_final", Bool, 0),
    setting("prof_leak", Bool, 0),
    setting("prof_leak_error", Bool, 0),
    setting("prof_accum", Bool, 0),
    setting("prof_recent_alloc_max", Signed(-1, BOTH), 0),
    setting("prof_stats", Bool, 0),
    setting("prof_sys_thread_name", Bool, 0),
    setting("prof_time_resolution", Word(&[c"default"]), 0),
    setting("lg_san_uaf_align", Signed(-1, 63), -1),
    setting("zero_realloc", Word(ZERO_REALLOC), 0),
    // Without a row in the tree.
    setting("narenas_ratio", Other, 0),
    setting("bin_shards", Other, 0),
    setting("slab_sizes", Other, 0),
    setting("lg_tcache_max", Other, 0),
    setting("hpa_hugification_threshold_ratio", Other, 0),
    setting("prof_log", Other, 0),
    setting("prof_unbias", Other, 0),
    setting("log", Other, 0),
    setting("san_guard_small", Other, 0),
    setting("san_guard_large", Other, 0),
    setting("prof_recent_alloc", Other, 0),
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
    /// Letters of the statistics add up; another text is in the place of the one before.
    pub fn take_text(&self, text: &Text, value: &[u8]) {
        if self.name.ends_with("_opts") { text.add(value) } else { text.set(value) }
    }

    pub fn number(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    pub fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// As `opt.*` tells it; none where there is no value here.
    pub fn value(&self) -> Option<Value> {
        if matches!(self.meaning, Meaning::Absent(_)) {
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
