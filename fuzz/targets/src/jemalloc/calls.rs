//! Single calls, each between bytes that must stay as they are.

use std::ffi::{CString, c_char, c_int, c_void};

use arbitrary::Arbitrary;
use libc::{EINVAL, ENOENT};
use tikv_jemalloc_sys as sys;

/// The place for the old value.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Old {
    Right,
    Null,
    NullPlace(u8),
    NullLength,
    Length(u8),
    Odd(u8),
}

/// The new value.
#[derive(Arbitrary, Clone, Debug)]
pub enum New {
    None,
    /// No value, and a length all the same.
    NullOf(u8),
    Bool(bool),
    U32(u32),
    Small(u8),
    Word(u64),
    Signed(i16),
    Text(Vec<u8>),
    LongText(u8),
    /// So many bytes.
    Bytes(u8, u64),
    Empty,
}

impl New {
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            New::U32(value) => Some(*value),
            New::Small(value) => Some(u32::from(*value)),
            New::Bytes(length, value) if length % 17 == 4 => Some(*value as u32),
            _ => None,
        }
    }

    fn is_none(&self) -> bool {
        matches!(self, New::None)
    }
}

/// The way of a call.
pub enum Way {
    Name(Vec<u8>),
    /// A place; at an odd address?
    Place(Vec<usize>, bool),
}

pub struct Answer {
    pub error: c_int,
    pub length: usize,
    pub value: [u8; 8],
}

impl Answer {
    pub fn number(&self) -> u64 {
        let length = self.length.min(8);
        self.value[..length].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

const GUARD: u8 = 0xC5;
const ROOM: usize = 24;

/// Names whose new value is the address of a C string that is read.
fn takes_text(name: &str) -> bool {
    ["thread.prof.name", "prof.dump", "prof.prefix", "arena.#.dss"].contains(&name)
}

/// The length of a value of a name.
fn right_length(way: &Way) -> usize {
    let mut length = 0;
    for wanted in [1usize, 4, 8] {
        let mut room = [0u64; 2];
        length = wanted;
        let old = room.as_mut_ptr().cast();
        let error = match way {
            // SAFETY: the places are so long.
            Way::Name(name) => unsafe {
                sys::mallctl(c(name).as_ptr(), old, &raw mut length, std::ptr::null_mut(), 0)
            },
            // SAFETY: the same.
            Way::Place(place, _) => unsafe {
                sys::mallctlbymib(place.as_ptr(), place.len(), old, &raw mut length, std::ptr::null_mut(), 0)
            },
        };
        if error == 0 {
            return wanted;
        }
    }
    length.clamp(4, 8)
}

fn c(text: &[u8]) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Texts that name no file that could be written.
fn text_for(name: &str, text: &[u8]) -> CString {
    let without = |text: &[u8]| text.iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>();
    match name {
        "thread.prof.name" | "arena.#.dss" => {
            let text = match text.first().map_or(0, |first| first % 4) {
                0 => b"disabled".to_vec(),
                1 => b"primary".to_vec(),
                _ => without(text),
            };
            c(&text)
        }
        "prof.dump" if text.first().is_some_and(|first| first % 2 == 0) => c(b"/dev/null"),
        _ => c(&[b"/nonexistent/", &without(text)[..]].concat()),
    }
}

/// One call. The bytes around its places stay as they are.
pub fn ctl(way: &Way, name: &str, old: &Old, new: &New) -> Answer {
    // A call that could make an arena is not made to find a length.
    let right = match name {
        "arenas.create" | "tcache.create" => 4,
        _ if matches!(old, Old::Right) && !name.is_empty() && is_a_question(name, &New::None) => {
            right_length(way)
        }
        _ => 8,
    };
    let mut room = [GUARD; ROOM];
    let mut length = match old {
        Old::Right => right,
        Old::Length(bytes) | Old::Odd(bytes) | Old::NullPlace(bytes) => usize::from(bytes % 17),
        Old::Null | Old::NullLength => 0,
    };
    let given = if matches!(old, Old::NullLength) { 8 } else { length };
    let begin = if matches!(old, Old::Odd(_)) { 5 } else { 8 };
    let place: *mut c_void = match old {
        Old::Null | Old::NullPlace(_) => std::ptr::null_mut(),
        // SAFETY: within the room.
        _ => unsafe { room.as_mut_ptr().add(begin) }.cast(),
    };
    let length_place: *mut usize =
        if matches!(old, Old::Null | Old::NullLength) { std::ptr::null_mut() } else { &raw mut length };
    // The value itself at an odd place: any is allowed.
    let mut bytes = [0u8; 32];
    let text;
    let (mut value, mut new_length) = match new {
        New::None => (None, 0),
        New::NullOf(bytes) => (None, usize::from(*bytes)),
        New::Bool(value) => (Some(u64::from(*value)), 1),
        New::U32(value) => (Some(u64::from(*value)), 4),
        New::Small(value) => (Some(u64::from(*value)), 4),
        New::Word(value) => (Some(*value), 8),
        New::Signed(value) => (Some(i64::from(*value) as u64), 8),
        New::Bytes(length, value) => (Some(*value), usize::from(length % 17)),
        New::Empty => (Some(0), 8),
        New::Text(_) | New::LongText(_) => (Some(1), 8),
    };
    if takes_text(name) && value.is_some_and(|value| value != 0) && new_length == 8 {
        text = match new {
            New::Text(text) => text_for(name, text),
            New::LongText(length) => text_for(name, &vec![b'z'; usize::from(*length) * 20]),
            _ => text_for(name, &[b'x']),
        };
        value = Some(text.as_ptr().expose_provenance() as u64);
    }
    // The janitor's thread would be begun and ended by half of all inputs.
    if ["background_thread", "max_background_threads"].contains(&name) && !new.is_none() {
        new_length = new_length.min(if name.starts_with('b') { 0 } else { 8 });
    }
    bytes[3..11].copy_from_slice(&value.unwrap_or(0).to_ne_bytes());
    let new_place: *mut c_void =
        if value.is_some() { bytes[3..].as_mut_ptr().cast() } else { std::ptr::null_mut() };
    let error = match way {
        // SAFETY: each place is as long as is said, or null.
        Way::Name(name) => unsafe {
            sys::mallctl(c(name).as_ptr(), place, length_place, new_place, new_length)
        },
        Way::Place(mib, is_odd) => {
            let mut odd = vec![0u8; mib.len() * 8 + 1];
            for (at, word) in mib.iter().enumerate() {
                odd[at * 8 + 1..at * 8 + 9].copy_from_slice(&word.to_ne_bytes());
            }
            let mib_place = if *is_odd { odd[1..].as_ptr().cast() } else { mib.as_ptr() };
            // SAFETY: each place is as long as is said, or null; the library reads numbers at any address.
            unsafe { sys::mallctlbymib(mib_place, mib.len(), place, length_place, new_place, new_length) }
        }
    };
    let written = given.min(8);
    let is_untouched = |part: &[u8]| part.iter().all(|byte| *byte == GUARD);
    assert!(is_untouched(&room[..begin]) && is_untouched(&room[begin + written..]), "{name}: {room:?}");
    assert!(!place.is_null() || is_untouched(&room), "{name}");
    assert!(length <= given, "{name}: {length} of {given}");
    let mut value = [0; 8];
    value.copy_from_slice(&room[begin..begin + 8]);
    Answer { error, length: if length_place.is_null() { 0 } else { length }, value }
}

/// Whether a call changes nothing, so that it can be made twice.
pub fn is_a_question(name: &str, new: &New) -> bool {
    const DONE: [&str; 13] = [
        "",
        "thread.tcache.flush",
        "thread.peak.reset",
        "thread.idle",
        "tcache.create",
        "arenas.create",
        "prof.dump",
        "prof.reset",
        "arena.#.decay",
        "arena.#.purge",
        "arena.#.reset",
        "arena.#.destroy",
        "prof.prefix",
    ];
    new.is_none() && !DONE.contains(&name)
}

/// The same by a name and by its place.
pub fn compare(name: &[u8], known: &str, place: &[usize], old: &Old, new: &New) {
    let by_name = ctl(&Way::Name(name.to_vec()), known, old, new);
    let by_place = ctl(&Way::Place(place.to_vec(), false), known, old, new);
    assert_eq!(by_name.error, by_place.error, "{known}");
    assert_eq!(by_name.length, by_place.length, "{known}");
    let is_steady = !known.starts_with("stats.") && !known.contains("peak");
    assert!(!is_steady || by_name.value == by_place.value, "{known}");
}

/// The whole place of a name.
pub fn mib_of(name: &[u8]) -> Option<Vec<usize>> {
    let mut mib = [usize::MAX; 9];
    let mut parts = 8;
    // SAFETY: there is room for so many.
    let error = unsafe { sys::mallctlnametomib(c(name).as_ptr(), mib.as_mut_ptr(), &raw mut parts) };
    assert!(error == 0 || error == ENOENT, "{error}");
    assert!(parts <= 8 && mib[8] == usize::MAX);
    let found = &mib[..parts];
    (error == 0 && sys::trial::name_at(found).is_some()).then(|| found.to_vec())
}

/// With room for so many parts no more are written.
pub fn find(name: &[u8], room: usize) {
    const GUARD: usize = 0x5A5A_5A5A_5A5A_5A5A;
    let mut mib = [GUARD; 13];
    let mut parts = room;
    // SAFETY: there is room for so many.
    let error = unsafe { sys::mallctlnametomib(c(name).as_ptr(), mib.as_mut_ptr(), &raw mut parts) };
    assert!(error == 0 || error == ENOENT || error == EINVAL, "{error}");
    assert!(parts <= room && mib[room..].iter().all(|word| *word == GUARD), "{parts} in {room}");
    assert!(error != 0 || room < 8 || parts <= 7);
    // SAFETY: an error comes before any place is used.
    unsafe {
        assert_eq!(sys::mallctlnametomib(c(name).as_ptr(), std::ptr::null_mut(), &raw mut parts), EINVAL);
        assert_eq!(sys::mallctlnametomib(c(name).as_ptr(), mib.as_mut_ptr(), std::ptr::null_mut()), EINVAL);
    }
}

pub fn read<T: Copy + Default>(name: &str) -> T {
    let (mut value, mut length) = (T::default(), size_of::<T>());
    let (name, place) = (c(name.as_bytes()), (&raw mut value).cast());
    // SAFETY: the place has the type's size.
    let error = unsafe { sys::mallctl(name.as_ptr(), place, &raw mut length, std::ptr::null_mut(), 0) };
    assert_eq!((error, length), (0, size_of::<T>()), "{name:?}");
    value
}

pub fn set<T>(name: &str, mut value: T) -> c_int {
    let (name, place) = (c(name.as_bytes()), (&raw mut value).cast());
    // SAFETY: the value has the type's size.
    unsafe { sys::mallctl(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), place, size_of::<T>()) }
}

pub fn do_it(name: &str) -> c_int {
    let null = std::ptr::null_mut;
    // SAFETY: nothing is passed.
    unsafe { sys::mallctl(c(name.as_bytes()).as_ptr(), null(), std::ptr::null_mut(), null(), 0) }
}

pub fn count(name: &str) -> u64 {
    read(name)
}

/// The arena of an address, by `arenas.lookup`.
pub fn arena_of(address: usize) -> Result<u32, c_int> {
    let (mut arena, mut length, mut address) = (0u32, 4usize, address);
    let (place, block) = ((&raw mut arena).cast(), (&raw mut address).cast());
    // SAFETY: the places have these sizes.
    match unsafe { sys::mallctl(c"arenas.lookup".as_ptr(), place, &raw mut length, block, 8) } {
        0 => Ok(arena),
        error => Err(error),
    }
}

/// MALLOCX_TCACHE_NONE, or a cache that may exist.
pub fn cache_flags(flags: u8) -> c_int {
    match flags >> 4 {
        0..8 => 0,
        8..12 => sys::MALLOCX_TCACHE_NONE,
        cache => sys::MALLOCX_TCACHE(usize::from(cache)),
    }
}

/// Sets all that inputs can have set as it was at the start.
pub fn restore() {
    let prefix = c"/nonexistent/x";
    assert_eq!(set("prof.prefix", prefix.as_ptr()), 0);
    assert_eq!(set("thread.prof.name", c"".as_ptr()), 0);
    assert_eq!(set("max_background_threads", 4usize), 0);
    assert_eq!(set("arena.0.dirty_decay_ms", 1000i64), 0);
    assert_eq!(set("arenas.dirty_decay_ms", 1000i64), 0);
    assert_eq!(set("arenas.muzzy_decay_ms", 0i64), 0);
    assert_eq!(set("prof.active", true), 0);
    assert_eq!(set("prof.gdump", false), 0);
    assert_eq!(set("thread.tcache.enabled", true), 0);
    assert_eq!(set("prof.reset", 12usize), 0);
}

/// Options as the variable has them; each can be read back.
pub fn options(which: u16, text: &[u8]) {
    let names: Vec<&str> =
        (0..).map_while(sys::trial::name).filter_map(|name| name.strip_prefix("opt.")).collect();
    let name = names[usize::from(which) % names.len()];
    let text = match which >> 15 {
        0 => [name.as_bytes(), b":", text].concat(),
        _ => text.to_vec(),
    };
    let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let before: Vec<Answer> = names.iter().map(|name| value_of(name)).collect();
    sys::trial::with_options(text, |_| {
        for name in &names {
            let answer = value_of(name);
            assert!([0, EINVAL, ENOENT].contains(&answer.error), "opt.{name}: {}", answer.error);
        }
    });
    for (name, before) in names.iter().zip(before) {
        let after = value_of(name);
        assert_eq!((before.error, before.value), (after.error, after.value), "opt.{name}");
    }
}

/// With the longest value's length: a shorter one is copied all the same.
fn value_of(option: &str) -> Answer {
    let name = format!("opt.{option}");
    ctl(&Way::Name(name.clone().into_bytes()), &name, &Old::Length(8), &New::None)
}

/// The statistics with any letters: texts that end.
pub fn print(letters: u8) {
    unsafe extern "C" fn take(bytes: *mut c_void, text: *const c_char) {
        // SAFETY: the counter below, and a C string.
        unsafe { *bytes.cast::<usize>() += std::ffi::CStr::from_ptr(text).to_bytes().len() };
    }
    let all = *b"Jgmdablxeh";
    let chosen: Vec<u8> = all
        .iter()
        .enumerate()
        .filter(|(at, _)| letters >> (at % 8) & 1 != 0)
        .map(|(_, letter)| *letter)
        .collect();
    let mut bytes = 0usize;
    // SAFETY: the function takes what it is passed.
    unsafe { sys::malloc_stats_print(Some(take), (&raw mut bytes).cast(), c(&chosen).as_ptr()) };
    assert!(bytes > 0 && bytes < 1 << 22, "{bytes}");
}
