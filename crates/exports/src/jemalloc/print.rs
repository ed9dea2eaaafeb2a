//! malloc_stats_print: the statistics as text and as JSON, whose keys are jemalloc's. One walk writes both.
//!
//! A figure without a true value is left out, never zero.

use super::arenas::{self, ALL};
use super::figures::Figure;
use super::io::{Numbers, Value};
use super::names::{Act, ROWS};
use super::say::{self, Message};
use super::sizes::{self, BINS, LENGTHS};
use super::{figures, rows, settings};
use crate::c::Name;
use core::ffi::{CStr, c_void};
use vcmalloc_core::base::text::{Sink, put_decimal, put_str};

/// Text in pieces that end with a zero, for the caller's function.
struct Writer {
    callback: Option<Message>,
    argument: *mut c_void,
    buffer: [u8; 4096],
    used: usize,
}

impl Writer {
    fn flush(&mut self) {
        if let Some(end) = self.buffer.get_mut(self.used) {
            *end = 0;
        }
        if let Ok(text) = CStr::from_bytes_until_nul(&self.buffer) {
            say::hand_on(self.callback, self.argument, text);
        }
        self.used = 0;
    }
}

impl Sink for Writer {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.used + 1 >= self.buffer.len() {
                self.flush();
            }
            if let Some(place) = self.buffer.get_mut(self.used) {
                *place = *byte;
                self.used += 1;
            }
        }
    }
}

/// The walk's output in either form.
struct Emitter<'a> {
    sink: &'a mut dyn Sink,
    is_json: bool,
    depth: usize,
    is_first: bool,
}

impl Emitter<'_> {
    fn indent(&mut self) {
        (0..self.depth).for_each(|_| put_str(self.sink, if self.is_json { "\t" } else { "  " }));
    }

    fn next(&mut self, name: Option<&str>) {
        if self.is_json {
            put_str(self.sink, if self.is_first { "\n" } else { ",\n" });
        }
        self.is_first = false;
        self.indent();
        if let Some(name) = name {
            put_str(self.sink, if self.is_json { "\"" } else { "" });
            put_str(self.sink, name);
            put_str(self.sink, if self.is_json { "\": " } else { ": " });
        }
    }

    fn open(&mut self, name: Option<&str>, bracket: &str) {
        self.next(name);
        put_str(self.sink, if self.is_json { bracket } else { "\n" });
        self.depth += 1;
        self.is_first = true;
    }

    fn close(&mut self, bracket: &str) {
        self.depth = self.depth.saturating_sub(1);
        if self.is_json {
            put_str(self.sink, "\n");
            self.indent();
            put_str(self.sink, bracket);
        }
        self.is_first = false;
    }

    fn value(&mut self, name: &str, value: Value, is_signed: bool) {
        self.next(Some(name));
        match value {
            Value::Bool(value) => put_str(self.sink, if value { "true" } else { "false" }),
            Value::U32(value) => put_decimal(self.sink, value.into()),
            Value::Word(value) if is_signed && (value as i64) < 0 => {
                put_str(self.sink, "-");
                put_decimal(self.sink, (value as i64).unsigned_abs());
            }
            Value::Word(value) => put_decimal(self.sink, value),
            Value::Text(text) => self.text(text.to_bytes()),
        }
        if !self.is_json {
            put_str(self.sink, "\n");
        }
    }

    fn text(&mut self, text: &[u8]) {
        put_str(self.sink, "\"");
        for byte in text {
            match byte {
                b'"' | b'\\' => self.sink.put(&[b'\\', *byte]),
                ..b' ' | 0x7f.. => put_str(self.sink, "?"),
                _ => self.sink.put(&[*byte]),
            }
        }
        put_str(self.sink, "\"");
    }

    fn number(&mut self, name: &str, number: u64) {
        self.value(name, Value::Word(number), false);
    }

    /// All rows with this beginning that are read only and have a value, without those that have more parts.
    fn rows(&mut self, beginning: &str, at: &Numbers) {
        for row in &ROWS {
            let Some(name) = row.name.strip_prefix(beginning).filter(|name| !name.as_bytes().contains(&b'.'))
            else {
                continue;
            };
            let value = match row.act {
                Act::Get(get) => get(at),
                Act::Opt(option) => rows::option(option),
                _ => continue,
            };
            // Programs know these as numbers that may be below zero.
            let is_signed = name.ends_with("_ms")
                || name.ends_with("interval")
                || name.starts_with("lg_")
                || name.ends_with("_max");
            if let Ok(value) = value {
                // There the output has another name than the tree.
                self.value(if name == "uptime" { "uptime_ns" } else { name }, value, is_signed);
            }
        }
    }

    fn group(&mut self, name: &str, beginning: &str, at: &Numbers) {
        self.open(Some(name), "{");
        self.rows(beginning, at);
        self.close("}");
    }
}

/// The parts that letters leave out.
struct Wanted {
    json: bool,
    general: bool,
    merged: bool,
    arenas: bool,
    bins: bool,
    large: bool,
}

impl Wanted {
    fn of(letters: &[u8]) -> Wanted {
        let has = |letter: u8| letters.contains(&letter);
        Wanted {
            json: has(b'J'),
            general: !has(b'g'),
            merged: !has(b'm'),
            arenas: !has(b'a'),
            bins: !has(b'b'),
            large: !has(b'l'),
        }
    }
}

fn print(sink: &mut dyn Sink, letters: &[u8]) {
    let wanted = Wanted::of(letters);
    // Figures of this moment.
    if !figures::refresh() {
        return put_str(sink, if wanted.json { "{}\n" } else { "No statistics in this signal handler\n" });
    }
    if !wanted.json {
        put_str(sink, "___ Begin jemalloc statistics ___\n");
    }
    let mut emitter = Emitter { sink, is_json: wanted.json, depth: 0, is_first: true };
    if wanted.json {
        put_str(emitter.sink, "{");
        emitter.depth = 1;
    }
    emitter.open(Some("jemalloc"), "{");
    if wanted.general {
        put_general(&mut emitter);
    }
    put_stats(&mut emitter, &wanted);
    emitter.close("}");
    put_str(emitter.sink, if wanted.json { "\n}\n" } else { "--- End jemalloc statistics ---\n" });
}

fn put_general(emitter: &mut Emitter<'_>) {
    let none = Numbers::default();
    emitter.value("version", Value::Text(rows::VERSION), false);
    emitter.group("config", "config.", &none);
    emitter.open(Some("opt"), "{");
    emitter.rows("opt.", &none);
    emitter.close("}");
    emitter.open(Some("arenas"), "{");
    emitter.rows("arenas.", &none);
    for (name, is_dirty) in [("dirty_decay_ms", true), ("muzzy_decay_ms", false)] {
        emitter.value(name, Value::Word(super::decay::of_new(is_dirty) as u64), true);
    }
    emitter.open(Some("bin"), "[");
    (0..BINS).for_each(|first| put_object(emitter, "arenas.bin.#.", &Numbers { first, second: 0 }));
    emitter.close("]");
    emitter.open(Some("lextent"), "[");
    (0..LENGTHS).for_each(|first| put_object(emitter, "arenas.lextent.#.", &Numbers { first, second: 0 }));
    emitter.close("]");
    emitter.close("}");
    if settings::is_on("prof") {
        emitter.open(Some("prof"), "{");
        emitter.value("thread_active_init", Value::Bool(true), false);
        emitter.value("active", Value::Bool(super::prof::is_active()), false);
        emitter.value("gdump", Value::Bool(super::prof::is_gdump()), false);
        emitter.rows("prof.", &none);
        emitter.close("}");
    }
}

fn put_object(emitter: &mut Emitter<'_>, beginning: &str, at: &Numbers) {
    emitter.open(None, "{");
    emitter.rows(beginning, at);
    emitter.close("}");
}

/// The sums on one line, as readers of jemalloc's text look for them.
fn put_sums(emitter: &mut Emitter<'_>) {
    emitter.indent();
    let sums = [
        ("Allocated: ", Figure::Allocated),
        (", active: ", Figure::Active),
        (", metadata: ", Figure::Metadata),
        (" (n_thp 0), resident: ", Figure::Resident),
        (", mapped: ", Figure::Mapped),
        (", retained: ", Figure::Retained),
    ];
    for (name, figure) in sums {
        put_str(emitter.sink, name);
        put_decimal(emitter.sink, figures::get(figure).unwrap_or(0));
    }
    put_str(emitter.sink, "\n");
}

fn put_stats(emitter: &mut Emitter<'_>, wanted: &Wanted) {
    let none = Numbers::default();
    if !emitter.is_json {
        put_sums(emitter);
    }
    emitter.open(Some("stats"), "{");
    emitter.rows("stats.", &none);
    emitter.group("background_thread", "stats.background_thread.", &none);
    emitter.close("}");
    emitter.open(Some("stats.arenas"), "{");
    if wanted.merged {
        put_arena(emitter, "merged", ALL, wanted);
    }
    if wanted.arenas {
        for (number, _) in arenas::all() {
            let mut digits = [0u8; 8];
            let mut name = vcmalloc_core::base::text::Buffer::new(&mut digits);
            put_decimal(&mut name, number as u64);
            put_arena(emitter, core::str::from_utf8(name.as_bytes()).unwrap_or("?"), number, wanted);
        }
    }
    emitter.close("}");
}

fn put_arena(emitter: &mut Emitter<'_>, name: &str, first: usize, wanted: &Wanted) {
    let at = Numbers { first, second: 0 };
    emitter.open(Some(name), "{");
    emitter.value("initialized", Value::Bool(true), false);
    emitter.rows("stats.arenas.#.", &at);
    emitter.group("small", "stats.arenas.#.small.", &at);
    emitter.group("large", "stats.arenas.#.large.", &at);
    // Each heap's blocks are counted in one walk.
    let tally = figures::tally(first);
    if wanted.bins {
        emitter.open(Some("bins"), "[");
        for (bin, count) in tally.bins.iter().enumerate() {
            emitter.open(None, "{");
            if !emitter.is_json
                && let Some(class) = sizes::bin(bin)
            {
                emitter.number("size", class.block_bytes() as u64);
            }
            emitter.number("curregs", *count);
            if let Some(spans) = figures::spans_of_bin(first, bin) {
                emitter.number("curslabs", spans);
            }
            emitter.close("}");
        }
        emitter.close("]");
    }
    if wanted.large {
        emitter.open(Some("lextents"), "[");
        for count in &tally.lengths {
            emitter.open(None, "{");
            emitter.number("curlextents", *count);
            emitter.close("}");
        }
        emitter.close("]");
    }
    emitter.close("}");
}

fn print_to(callback: Option<Message>, argument: *mut c_void, letters: &[u8]) {
    let mut writer = Writer { callback, argument, buffer: [0; 4096], used: 0 };
    print(&mut writer, letters);
    writer.flush();
}

/// # Safety
/// `letters` is a C string or null; `callback` may be called with `argument`.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_stats_print(callback: Option<Message>, argument: *mut c_void, letters: Name) {
    // SAFETY: by the caller's promise.
    let letters = if letters.is_null() { &[][..] } else { unsafe { CStr::from_ptr(letters) }.to_bytes() };
    print_to(callback, argument, letters);
}

/// For a program that was started with `stats_print:true`.
pub fn at_end() {
    if settings::is_on("stats_print") {
        print_to(None, core::ptr::null_mut(), settings::STATS_PRINT_OPTS.get().to_bytes());
    }
}

/// For one that was started with `stats_interval`.
pub fn at_interval() {
    print_to(None, core::ptr::null_mut(), settings::STATS_INTERVAL_OPTS.get().to_bytes());
}
