//! The program's and the operator's options: those of the build, `malloc_conf` in the program, the target of the link
//! /etc/malloc.conf, and the variable MALLOC_CONF, of which the later ones win. Variables VCM_* and the config file say the same more strongly.

use super::arenas;
use super::decay;
use super::say::{self, say};
use super::settings::{self, Form, Meaning, Setting};
use crate::{counted, heap};
use core::ffi::CStr;
use core::sync::atomic::Ordering;
use vcmalloc_core::options::Origin;
use vcmalloc_core::os::Os;

/// Longer ones are cut, as a path is.
const ROOM: usize = 4096;
/// The places and their names; a build whose functions have a prefix has it here, too.
const PLACES: [&str; 4] = if cfg!(prefixed) {
    ["config.malloc_conf", "_rjem_malloc_conf", "/etc/_rjem_malloc.conf", "_RJEM_MALLOC_CONF"]
} else {
    ["config.malloc_conf", "malloc_conf", "/etc/malloc.conf", "MALLOC_CONF"]
};
const LINK: &CStr = if cfg!(prefixed) { c"/etc/_rjem_malloc.conf" } else { c"/etc/malloc.conf" };
const VARIABLE: &CStr = if cfg!(prefixed) { c"_RJEM_MALLOC_CONF" } else { c"MALLOC_CONF" };
/// Options that were set where this was built.
pub const BUILT_IN: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("VCMALLOC_MALLOC_CONF"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    };
const CONFIRM: &[u8] = b"confirm_conf";

/// Reads all four, and does what they say.
pub fn read() {
    say::find_message();
    let mut link = [0u8; ROOM];
    // SAFETY: a C string, and a place of so many bytes.
    let length = unsafe { libc::readlink(LINK.as_ptr(), link.as_mut_ptr().cast(), ROOM - 1) };
    let link = link.get(..length.max(0) as usize).unwrap_or(&[]);
    let texts: [&[u8]; 4] =
        [BUILT_IN.to_bytes(), say::conf_of_program().map_or(&[], CStr::to_bytes), link, of_environment()];
    let sources = || PLACES.into_iter().zip(texts);
    // First: it says whether the rest is told.
    for (_, text) in sources() {
        each(text, |pair| {
            if let Ok((CONFIRM, value)) = pair {
                settings::set("confirm_conf", i64::from(value == b"true"));
            }
        });
    }
    say::IS_VERBOSE.store(settings::is_on("confirm_conf"), Ordering::Relaxed);
    let mut is_bad = false;
    for (source, text) in sources().filter(|(_, text)| !text.is_empty()) {
        confirm(&[source.as_bytes(), b": \"", text, b"\""]);
        is_bad |= !take_all(source, text);
    }
    if is_bad && settings::is_on("abort_conf") {
        say(&[b"aborted, for abort_conf:true and an option that cannot be read"]);
        heap().os().abort();
    }
    apply();
}

fn of_environment() -> &'static [u8] {
    if heap().os().is_privileged() {
        return &[];
    }
    // SAFETY: the library is being loaded: nobody changes the environment.
    unsafe {
        let value = libc::getenv(VARIABLE.as_ptr());
        if value.is_null() { &[] } else { CStr::from_ptr(value).to_bytes() }
    }
}

fn confirm(parts: &[&[u8]]) {
    if say::IS_VERBOSE.load(Ordering::Relaxed) {
        say(parts);
    }
}

type Pair<'a> = Result<(&'a [u8], &'a [u8]), &'a [u8]>;

/// Calls `take` with each name and value of a text NAME:VALUE,NAME:VALUE, and with each part that is none.
fn each<'a>(text: &'a [u8], mut take: impl FnMut(Pair<'a>)) {
    if text.is_empty() {
        return;
    }
    for part in text.split(|byte| *byte == b',') {
        let colon = part.iter().position(|byte| *byte == b':');
        let pair = colon.and_then(|at| Some((part.get(..at)?, part.get(at + 1..)?)));
        let is_name = |name: &[u8]| {
            !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        take(pair.filter(|(name, _)| is_name(name)).ok_or(part));
    }
}

/// False where one of a text's options cannot be understood.
pub fn take_all(source: &str, text: &[u8]) -> bool {
    let mut is_bad = false;
    each(text, |pair| is_bad |= !take(source, pair));
    !is_bad
}

/// False where it cannot be understood.
fn take(source: &str, pair: Pair<'_>) -> bool {
    let source = source.as_bytes();
    let (name, value) = match pair {
        Ok(pair) => pair,
        Err(part) => {
            say(&[source, b": '", part, b"' is no NAME:VALUE; options are separated by commas"]);
            return false;
        }
    };
    let refused = |reason: &[u8]| {
        say(&[source, b": ", name, b":", value, b": ", reason]);
        false
    };
    let Some(setting) = settings::find(name) else {
        return refused(b"jemalloc 5.3 has no option of this name");
    };
    match (setting.meaning, parse(setting, value)) {
        (Meaning::Absent(reason), _) => without_effect(source, name, value, reason),
        (Meaning::Only(..), Parsed::Number(number)) if number == setting.number() => {}
        (Meaning::Only(_, reason), Parsed::Number(_) | Parsed::OtherWord) => {
            without_effect(source, name, value, reason);
        }
        (_, Parsed::Bad | Parsed::OtherWord) => {
            return refused(b"the value cannot be read, or is out of range");
        }
        (_, Parsed::Text) => {}
        (Meaning::Same | Meaning::Becomes(_) | Meaning::Kept(_), Parsed::Number(number)) => {
            setting.set(number);
        }
    }
    confirm(&[b"-- ", name, b":", value]);
    true
}

fn without_effect(source: &[u8], name: &[u8], value: &[u8], reason: &str) {
    say(&[source, b": ", name, b":", value, b" has no effect here: ", reason.as_bytes()]);
}

enum Parsed {
    Number(i64),
    /// A word that jemalloc may know, and that cannot be here.
    OtherWord,
    Text,
    Bad,
}

fn parse(setting: &Setting, value: &[u8]) -> Parsed {
    let bounded = |least: i64, most: i64| match number(value) {
        Some(number) if (least..=most).contains(&number) => Parsed::Number(number),
        _ => Parsed::Bad,
    };
    match setting.form {
        Form::Bool => match value {
            b"true" => Parsed::Number(1),
            b"false" => Parsed::Number(0),
            _ => Parsed::Bad,
        },
        Form::U32(..) if value == b"default" => Parsed::Number(setting.number()),
        // The only one that is obeyed and not refused beyond its bounds there.
        Form::Size(least, most) if setting.name == "lg_prof_sample" => match number(value) {
            Some(number) => Parsed::Number(number.max(least).min(most)),
            None => Parsed::Bad,
        },
        Form::U32(least, most) | Form::Size(least, most) | Form::Signed(least, most) => bounded(least, most),
        Form::Word(words) => match words.iter().position(|word| word.to_bytes() == value) {
            Some(place) => Parsed::Number(place as i64),
            None => Parsed::OtherWord,
        },
        Form::Text(text) => {
            setting.take_text(text, value);
            Parsed::Text
        }
        Form::Other => Parsed::OtherWord,
    }
}

/// A number as C writes it: decimal, with 0x hexadecimal, with 0 octal; with a sign.
fn number(text: &[u8]) -> Option<i64> {
    let (digits, is_negative) = match text {
        [b'-', rest @ ..] => (rest, true),
        [b'+', rest @ ..] => (rest, false),
        _ => (text, false),
    };
    let (digits, base) = match digits {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        [b'0', rest @ ..] if !rest.is_empty() => (rest, 8),
        _ => (digits, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0i64;
    for byte in digits {
        let digit = char::from(*byte).to_digit(base)?;
        number = number.checked_mul(i64::from(base))?.checked_add(i64::from(digit))?;
    }
    Some(if is_negative { -number } else { number })
}

/// Does what follows from the values for the heap.
fn apply() {
    // As there: one brings the other, and they the profile.
    if settings::is_on("prof_leak_error") {
        settings::set("prof_leak", 1);
        if !settings::is_on("prof_final") {
            say(&[b"prof_leak_error has an effect with prof_final:true only"]);
        }
    }
    if settings::is_on("prof_leak") && !settings::is_on("prof") {
        settings::set("prof", 1);
        settings::set("prof_gdump", 0);
    }
    match settings::get("dirty_decay_ms") {
        NOT_GIVEN => {}
        time => {
            decay::set_own(time, Origin::Alias);
            arenas::set_time(0, true, time);
            _ = decay::set_of_new(true, time);
        }
    }
    let muzzy = settings::get("muzzy_decay_ms");
    arenas::set_time(0, false, muzzy);
    _ = decay::set_of_new(false, muzzy);
    let option = |name: &str, value: &[u8]| _ = heap().set_option_by(Origin::Alias, name.as_bytes(), value);
    match settings::get("background_thread") {
        0 => option("janitor", b"off"),
        1 => option("janitor", b"on"),
        _ => {}
    }
    const NEVER: i64 = 2;
    match settings::get("thp") {
        NEVER => option("huge_pages", b"off"),
        1 => option("huge_pages", b"on"),
        _ => {}
    }
    counted::AT_ZERO.store(settings::get("zero_realloc") as u32, Ordering::Relaxed);
    counted::IS_INFALLIBLE
        .store(u32::from(settings::is_on("experimental_infallible_new")), Ordering::Relaxed);
}

/// The value of `dirty_decay_ms` that nobody gave.
pub const NOT_GIVEN: i64 = -2;
