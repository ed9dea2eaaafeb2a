//! The kinds of value that an option can have, and their one way to be read and written.

use super::path::PATH_BYTES;
use crate::base::text::{self, Sink};

/// "Left to the allocator".
pub const AUTO: u64 = u64::MAX;
const PERCENT: u64 = 1 << 63;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A count of bytes, or `auto`.
    Bytes,
    /// A count of bytes.
    Size,
    /// A bare number.
    Count,
    /// A count of bytes, a share such as `80%`, or `auto`.
    Amount,
    /// Nanoseconds.
    Duration,
    /// `on` or `off`.
    Flag,
    /// `off`, `on` or `always`.
    Janitor,
    /// `auto` or `locked`.
    Front,
    /// `auto` or `few`.
    Calls,
    /// `off`, or a path of which 1 stands for any: the text is kept beside the values.
    Path,
}

impl Kind {
    pub const fn allows_auto(self) -> bool {
        matches!(self, Kind::Bytes | Kind::Amount)
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Bytes | Kind::Size => "bytes",
            Kind::Count => "number",
            Kind::Amount => "bytes or percent",
            Kind::Duration => "duration",
            Kind::Flag => "flag",
            Kind::Janitor | Kind::Front | Kind::Calls => "choice",
            Kind::Path => "path",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadValue {
    NotOfKind,
    OutOfRange,
}

impl BadValue {
    pub fn text(self) -> &'static str {
        match self {
            BadValue::NotOfKind => "cannot be read",
            BadValue::OutOfRange => "is out of range",
        }
    }
}

/// A share of something, as an `Amount` stores it.
pub const fn encode_percent(percent: u64) -> u64 {
    PERCENT | percent
}

/// The percentage in an `Amount`, if it is one.
pub const fn percent_of(amount: u64) -> Option<u64> {
    if amount != AUTO && amount & PERCENT != 0 { Some(amount & !PERCENT) } else { None }
}

/// A literal of the declaration; a bad one does not compile.
pub(super) const fn literal(kind: Kind, text: &str) -> u64 {
    match parse(kind, text.as_bytes()) {
        Ok(value) => value,
        Err(_) => panic!("an option's default or bound cannot be read"),
    }
}

pub(super) const fn within(kind: Kind, value: u64, least: u64, greatest: u64) -> bool {
    match (kind, percent_of(value)) {
        (Kind::Amount, Some(percent)) => percent <= 100,
        _ => least <= value && value <= greatest,
    }
}

pub(super) const fn parse(kind: Kind, text: &[u8]) -> Result<u64, BadValue> {
    match kind {
        Kind::Bytes | Kind::Amount if is(text, b"auto") => Ok(AUTO),
        Kind::Bytes | Kind::Size => parse_bytes(text),
        Kind::Count => parse_count(text),
        Kind::Amount => parse_amount(text),
        Kind::Duration => parse_duration(text),
        Kind::Flag => parse_flag(text),
        Kind::Janitor if is(text, b"always") => Ok(2),
        Kind::Janitor => parse_flag(text),
        Kind::Front => parse_choice(text, b"locked"),
        Kind::Calls => parse_choice(text, b"few"),
        Kind::Path => parse_path(text),
    }
}

const fn is(text: &[u8], word: &[u8]) -> bool {
    if text.len() != word.len() {
        return false;
    }
    let mut index = 0;
    while index < word.len() {
        if !text[index].eq_ignore_ascii_case(&word[index]) {
            return false;
        }
        index += 1;
    }
    true
}

/// The leading decimal number and what follows it.
const fn split_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number: u64 = 0;
    let mut rest = text;
    let mut digits = 0;
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        number = match number.checked_mul(10) {
            Some(tens) => match tens.checked_add((*digit - b'0') as u64) {
                Some(sum) => sum,
                None => return None,
            },
            None => return None,
        };
        rest = tail;
        digits += 1;
    }
    if digits == 0 { None } else { Some((number, rest)) }
}

const fn scaled(number: u64, unit: u64) -> Result<u64, BadValue> {
    match number.checked_mul(unit) {
        Some(value) if value < PERCENT => Ok(value),
        _ => Err(BadValue::OutOfRange),
    }
}

/// `K`, `KB` and `KiB` all mean 1,024, as in the peers' variables and in systemd.
const fn parse_bytes(text: &[u8]) -> Result<u64, BadValue> {
    let Some((number, unit)) = split_number(text) else { return Err(BadValue::NotOfKind) };
    let (letter, rest) = match unit {
        [] => return scaled(number, 1),
        [letter, rest @ ..] => (letter.to_ascii_uppercase(), rest),
    };
    if !(rest.is_empty() || is(rest, b"b") || is(rest, b"ib")) {
        return Err(BadValue::NotOfKind);
    }
    match letter {
        b'B' if rest.is_empty() => scaled(number, 1),
        b'K' => scaled(number, 1 << 10),
        b'M' => scaled(number, 1 << 20),
        b'G' => scaled(number, 1 << 30),
        b'T' => scaled(number, 1 << 40),
        _ => Err(BadValue::NotOfKind),
    }
}

const fn parse_count(text: &[u8]) -> Result<u64, BadValue> {
    match split_number(text) {
        Some((number, [])) => scaled(number, 1),
        _ => Err(BadValue::NotOfKind),
    }
}

const fn parse_amount(text: &[u8]) -> Result<u64, BadValue> {
    match split_number(text) {
        Some((percent, [b'%'])) if percent <= 100 => Ok(encode_percent(percent)),
        Some((_, [b'%'])) => Err(BadValue::OutOfRange),
        _ => parse_bytes(text),
    }
}

/// A bare number counts seconds.
const fn parse_duration(text: &[u8]) -> Result<u64, BadValue> {
    let Some((number, unit)) = split_number(text) else { return Err(BadValue::NotOfKind) };
    if unit.is_empty() || is(unit, b"s") {
        scaled(number, 1_000_000_000)
    } else if is(unit, b"ms") {
        scaled(number, 1_000_000)
    } else if is(unit, b"us") {
        scaled(number, 1_000)
    } else if is(unit, b"min") || is(unit, b"m") {
        scaled(number, 60_000_000_000)
    } else if is(unit, b"h") {
        scaled(number, 3_600_000_000_000)
    } else {
        Err(BadValue::NotOfKind)
    }
}

const fn parse_flag(text: &[u8]) -> Result<u64, BadValue> {
    if is(text, b"1") || is(text, b"on") || is(text, b"true") || is(text, b"yes") {
        Ok(1)
    } else if is(text, b"0") || is(text, b"off") || is(text, b"false") || is(text, b"no") {
        Ok(0)
    } else {
        Err(BadValue::NotOfKind)
    }
}

const fn parse_choice(text: &[u8], other: &[u8]) -> Result<u64, BadValue> {
    if is(text, b"auto") || is(text, b"0") {
        Ok(0)
    } else if is(text, other) || is(text, b"1") {
        Ok(1)
    } else {
        Err(BadValue::NotOfKind)
    }
}

/// From the root on, whatever folder the process is in then; the letter behind a `%` is known. Without control bytes, since
/// it is printed on a line with other things.
const fn parse_path(text: &[u8]) -> Result<u64, BadValue> {
    if is(text, b"off") {
        return Ok(0);
    }
    let mut rest = match text {
        [b'/', rest @ ..] if !rest.is_empty() => rest,
        _ => return Err(BadValue::NotOfKind),
    };
    while let [byte, tail @ ..] = rest {
        rest = match (*byte, tail) {
            (b'%', [b'p' | b'e' | b'%', tail @ ..]) => tail,
            (b'%' | 0..b' ' | 0x7f, _) => return Err(BadValue::NotOfKind),
            _ => tail,
        };
    }
    if text.len() < PATH_BYTES { Ok(1) } else { Err(BadValue::OutOfRange) }
}

fn put_scaled(sink: &mut dyn Sink, value: u64, units: &[(u64, &str)]) {
    for (unit, name) in units {
        if value != 0 && value.is_multiple_of(*unit) {
            text::put_decimal(sink, value / unit);
            return text::put_str(sink, name);
        }
    }
    text::put_decimal(sink, value);
}

const BYTE_UNITS: [(u64, &str); 4] = [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
const TIME_UNITS: [(u64, &str); 4] =
    [(3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];

pub(super) fn put(sink: &mut dyn Sink, kind: Kind, value: u64) {
    match (kind, percent_of(value)) {
        (Kind::Bytes | Kind::Amount, _) if value == AUTO => text::put_str(sink, "auto"),
        (Kind::Amount, Some(percent)) => {
            text::put_decimal(sink, percent);
            text::put_str(sink, "%");
        }
        (Kind::Bytes | Kind::Amount | Kind::Size, _) => put_scaled(sink, value, &BYTE_UNITS),
        (Kind::Count, _) => text::put_decimal(sink, value),
        (Kind::Duration, _) => put_scaled(sink, value, &TIME_UNITS),
        (Kind::Janitor, _) if value == 2 => text::put_str(sink, "always"),
        (Kind::Flag | Kind::Janitor, _) => text::put_str(sink, if value == 1 { "on" } else { "off" }),
        (Kind::Front, _) => text::put_str(sink, if value == 1 { "locked" } else { "auto" }),
        (Kind::Calls, _) => text::put_str(sink, if value == 1 { "few" } else { "auto" }),
        (Kind::Path, _) => text::put_str(sink, if value == 0 { "off" } else { "a path" }),
    }
}

pub(super) fn put_expected(sink: &mut dyn Sink, kind: Kind, least: u64, greatest: u64) {
    match kind {
        Kind::Flag => return text::put_str(sink, "on or off"),
        Kind::Janitor => return text::put_str(sink, "on, off or always"),
        Kind::Front => return text::put_str(sink, "auto or locked"),
        Kind::Calls => return text::put_str(sink, "auto or few"),
        Kind::Path => {
            return text::put_str(
                sink,
                "off, or a path such as /var/log/%e.%p (/ first, then at most 254 bytes, no control characters; \
                 %p: the process's number, %e: its name, %%: a %)",
            );
        }
        Kind::Bytes => text::put_str(sink, "bytes such as 32M, or auto"),
        Kind::Size => text::put_str(sink, "bytes such as 512K"),
        Kind::Count => text::put_str(sink, "a number such as 20"),
        Kind::Amount => text::put_str(sink, "bytes such as 32M, a share such as 80%, or auto"),
        Kind::Duration => text::put_str(sink, "a time such as 500ms or 2s"),
    }
    text::put_str(sink, ", from ");
    put(sink, kind, least);
    text::put_str(sink, " to ");
    put(sink, kind, greatest);
}
