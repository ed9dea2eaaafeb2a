//! Options: each is declared once, below; environment, config file, C API, `vcm config` and the reference
//! page all derive from that line.
//!
//! Owns the values in effect and where each came from; promises that a bad name or value changes nothing and
//! is reported; the heap and the tools call it; sits on `base`.

pub mod jemalloc;
mod path;
mod value;
pub use path::PATH_BYTES;
pub use value::{AUTO, BadValue, Kind, encode_percent, percent_of};

use crate::base::place::{Places, Within};
use crate::base::text::{self, Sink};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The description of an option, known without asking a running heap.
pub struct Spec {
    /// The name in config files and in the API; the variable is `VCM_` and the name in capitals.
    pub name: &'static str,
    pub kind: Kind,
    /// The default as a user would write it.
    pub default: &'static str,
    /// The least and the greatest value, in the kind's unit.
    pub least: u64,
    pub greatest: u64,
    /// True when a change takes effect in a running process.
    pub live: bool,
    /// Variables of other allocators that mean the same.
    pub alias: Option<&'static str>,
    /// One sentence for `vcm config`.
    pub help: &'static str,
}

macro_rules! options {
    ($( $name:ident: $kind:ident = $default:literal, $least:literal ..= $greatest:literal, $live:ident,
        $( alias $alias:literal, )? $help:literal; )+) => {
        /// The options by name.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum OptionId { $( $name ),+ }

        pub const OPTION_COUNT: usize = [$( stringify!($name) ),+].len();

        impl OptionId {
            pub const ALL: [OptionId; OPTION_COUNT] = [$( OptionId::$name ),+];
        }

        /// All options in the order of their declaration.
        pub static SPECS: [Spec; OPTION_COUNT] = [$( Spec {
            name: stringify!($name),
            kind: Kind::$kind,
            default: $default,
            least: value::literal(Kind::$kind, $least),
            greatest: value::literal(Kind::$kind, $greatest),
            live: live!($live),
            alias: alias!($( $alias )?),
            help: $help,
        } ),+];

        const DEFAULTS: [u64; OPTION_COUNT] = [$( value::literal(Kind::$kind, $default) ),+];
    };
}

macro_rules! live {
    (live) => {
        true
    };
    (start) => {
        false
    };
}

macro_rules! alias {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

options! {
    cache_limit: Bytes = "auto", "0" ..= "1T", live, alias "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
        "bytes that vCPU caches and transfer caches may hold together, at any number of threads; auto: 16 MiB for each CPU that the process may use, updated at run time";
    front: Front = "auto", "0" ..= "1", start,
        "auto: restartable sequences if the system supports them; locked: always the locked caches";
    janitor: Janitor = "on", "off" ..= "always", live,
        "on: a separate thread releases memory once the program has several threads; always: also in a process of one thread, from its start and after fork; off: malloc and free release it";
    release_delay: Duration = "1s", "10ms" ..= "1h", live,
        "how long free memory stays before it is released to the system";
    retain: Amount = "25%", "0" ..= "1T", live,
        "free memory that may stay for release_delay, in bytes or as a share of live bytes, then at least 8M; more is released as soon as it is idle; auto: 25%";
    memory_limit: Amount = "auto", "0" ..= "16T", live,
        "above this the heap releases free memory and calls back; auto: 90% of the cgroup's limit; a share is of that limit, or of the machine's memory; 0: no limit";
    hard_limit: Amount = "auto", "0" ..= "16T", live,
        "maximum memory of all blocks; allocations beyond it fail; the heap's tables take another 1 to 5 MiB; a share is of the cgroup's limit, or of the machine's memory; auto or 0: no limit";
    huge_pages: Flag = "on", "0" ..= "1", live,
        "put dense 2 MiB blocks that stay in use onto huge pages, a few at a time";
    dump_heaps: Flag = "on", "0" ..= "1", start,
        "off: leave the memory of heaps and of jemalloc's arenas out of core files; arenas then take hooks that replace alloc only, and do not call them";
    sample_interval: Size = "512K", "1" ..= "1T", live,
        "mean bytes between two sampled allocations";
    guarded_rate: Count = "20", "0" ..= "1000000000", live,
        "maximum number of allocations per second that get a page between guard pages; 0: none";
    double_free_check: Flag = "off", "0" ..= "1", start,
        "no effect, prints a warning: the library always stops a second free of a block of up to 64 bytes, and of one of the two freed last on the virtual CPU; the hardened library one of any block";
    wrong_function_check: Flag = "on", "0" ..= "1", start,
        "hardened library: stop a free by another family of functions (malloc, new, new[]) than the allocation; off: for a library with its own operator new but not delete";
    wrong_size_check: Flag = "on", "0" ..= "1", start,
        "stop a free with a size or alignment that the block cannot have (hardened library: that was not requested); off: for a program that passes wrong ones";
    guard_budget: Count = "1000", "0" ..= "1000000000", live,
        "hardened library: maximum number of blocks of 32K and more per second that get guard pages; the others have canaries only; 0: none";
    profile: Flag = "off", "0" ..= "1", live,
        "keep a live heap profile: every sampled block in use, with its stack";
    last_words: Path = "off", "off" ..= "/%p", live,
        "file for the bridge from live bytes to resident memory and the live profile, written when the cgroup is 98% full or hard_limit refuses; %p: process id, %e: program name";
    system_calls: Calls = "auto", "0" ..= "1", live,
        "few: after loading, or once set, make only the system calls mmap, munmap, mprotect, madvise, mremap, futex, membarrier and clock_gettime; auto: a few more, such as reads of the cgroup's files, unless a filter of the program refuses them";
    stats_at_exit: Flag = "off", "0" ..= "1", live,
        "print the statistics on stderr when the process ends";
}

/// The origin of a value, weakest first: a stronger origin wins whatever the order of reading.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Origin {
    Default = 0,
    File = 1,
    FileSection = 2,
    Alias = 3,
    Environment = 4,
    Api = 5,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::File => "config file",
            Origin::FileSection => "config file, program section",
            Origin::Alias => "environment, alias",
            Origin::Environment => "environment",
            Origin::Api => "API",
        }
    }
}

/// Why a setting was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    UnknownName,
    BadValue(BadValue),
    /// The option is read once, at start.
    NotLive,
}

/// The values in effect. Any thread may read and set; each value is one atomic word.
pub struct Options {
    values: [AtomicU64; OPTION_COUNT],
    origins: [AtomicU8; OPTION_COUNT],
    paths: path::Paths,
}

impl Options {
    pub const fn new() -> Self {
        let mut values = [const { AtomicU64::new(0) }; OPTION_COUNT];
        let mut index = 0;
        while index < OPTION_COUNT {
            values[index] = AtomicU64::new(DEFAULTS[index]);
            index += 1;
        }
        Options { values, origins: [const { AtomicU8::new(0) }; OPTION_COUNT], paths: path::Paths::new() }
    }

    /// The value in the unit of the option's kind; `AUTO` where it is left to the allocator.
    pub fn get(&self, id: OptionId) -> u64 {
        self.values.get(id as usize).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    pub fn is_on(&self, id: OptionId) -> bool {
        self.get(id) == 1
    }

    pub fn origin(&self, id: OptionId) -> Origin {
        match self.origins.get(id as usize).map_or(0, |origin| origin.load(Ordering::Relaxed)) {
            1 => Origin::File,
            2 => Origin::FileSection,
            3 => Origin::Alias,
            4 => Origin::Environment,
            5 => Origin::Api,
            _ => Origin::Default,
        }
    }

    /// Takes `text` as the value of the option called `name`, unless a stronger origin has spoken.
    pub fn set(&self, name: &[u8], text: &[u8], origin: Origin) -> Result<OptionId, Refused> {
        let id = find(name).ok_or(Refused::UnknownName)?;
        let spec = spec(id);
        if origin == Origin::Api && !spec.live {
            return Err(Refused::NotLive);
        }
        let value = value::parse(spec.kind, text).map_err(Refused::BadValue)?;
        if value != AUTO && !value::within(spec.kind, value, spec.least, spec.greatest) {
            return Err(Refused::BadValue(BadValue::OutOfRange));
        }
        if value == AUTO && !spec.kind.allows_auto() {
            return Err(Refused::BadValue(BadValue::NotOfKind));
        }
        if origin >= self.origin(id) {
            let is_path = spec.kind == Kind::Path && value != 0;
            self.store(id, if is_path { self.paths.keep(text) } else { value }, origin);
        }
        Ok(id)
    }

    /// Copies the path that an option names, with a zero behind it; its length, none where the option is off.
    pub fn path(&self, id: OptionId, room: &mut [u8; PATH_BYTES]) -> Option<usize> {
        let value = self.values.get(id as usize)?;
        loop {
            // Pairs with the Release in `store`: the text is whole.
            let number = value.load(Ordering::Acquire);
            if number == 0 {
                return None;
            }
            if self.paths.copy(number, room) {
                return room.iter().position(|byte| *byte == 0);
            }
        }
    }

    /// Writes the value of an option as a user would write it.
    pub fn put(&self, sink: &mut dyn Sink, id: OptionId) {
        let kind = spec(id).kind;
        let mut room = [0; PATH_BYTES];
        match if kind == Kind::Path { self.path(id, &mut room) } else { None } {
            Some(length) => sink.put(room.get(..length).unwrap_or(&[])),
            None => put_value(sink, kind, if kind == Kind::Path { 0 } else { self.get(id) }),
        }
    }

    fn store(&self, id: OptionId, value: u64, origin: Origin) {
        if let (Some(slot), Some(from)) = (self.values.get(id as usize), self.origins.get(id as usize)) {
            slot.store(value, Ordering::Release);
            from.store(origin as u8, Ordering::Relaxed);
        }
    }
}

pub fn spec(id: OptionId) -> &'static Spec {
    // The enum and the table come from the same declaration, so the index is always in range.
    SPECS.get(id as usize).unwrap_or(&SPECS[0])
}

/// Bytes as a user writes them, such as `512M`.
pub fn bytes(text: &[u8]) -> Option<u64> {
    value::parse(Kind::Size, text).ok()
}

pub fn find(name: &[u8]) -> Option<OptionId> {
    OptionId::ALL.into_iter().find(|id| spec(*id).name.as_bytes() == name)
}

pub fn find_alias(variable: &[u8]) -> Option<OptionId> {
    OptionId::ALL.into_iter().find(|id| spec(*id).alias.is_some_and(|alias| alias.as_bytes() == variable))
}

/// The option whose name is nearest to `name`, if any is near enough to be what was meant.
pub fn nearest(name: &[u8]) -> Option<OptionId> {
    let mut best: Option<(usize, OptionId)> = None;
    for id in OptionId::ALL {
        let distance = edit_distance(name, spec(id).name.as_bytes());
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, id));
        }
    }
    best.filter(|(distance, _)| *distance <= 2 + name.len() / 4).map(|(_, id)| id)
}

/// Levenshtein's distance (Soviet Physics Doklady 10, 1966), on the first 31 bytes.
fn edit_distance(left: &[u8], right: &[u8]) -> usize {
    const WIDTH: usize = 32;
    let mut row = [0usize; WIDTH];
    for (index, cell) in row.iter_mut().enumerate() {
        *cell = index;
    }
    for (line, a) in left.iter().take(WIDTH - 1).enumerate() {
        let mut diagonal = line;
        let mut before = line + 1;
        let mut cells = row.iter_mut();
        if let Some(first) = cells.next() {
            *first = before;
        }
        for (cell, b) in cells.zip(right) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
    }
    row.get(right.len().min(WIDTH - 1)).copied().unwrap_or(WIDTH)
}

/// Writes a value as a user would write it, for example `32M` or `250ms`; of a path, that it is one.
pub fn put_value(sink: &mut dyn Sink, kind: Kind, value: u64) {
    value::put(sink, kind, value);
}

/// How a warning about a bad value ends.
pub const UNCHANGED: &str = "; it stays at the value it had";

/// One line of a warning about a setting that was not taken; it names the setting, the reason and a way out.
pub fn put_refusal(sink: &mut dyn Sink, prefix: &str, name: &[u8], text: &[u8], refused: Refused) {
    text::put_str(sink, "vcmalloc: ");
    put_refusal_after(sink, prefix, name, text, refused);
}

/// A warning about a setting that was not taken, on a line that was begun with the place of the setting.
pub fn put_refusal_after(sink: &mut dyn Sink, prefix: &str, name: &[u8], text: &[u8], refused: Refused) {
    text::put_str(sink, prefix);
    put_name(sink, prefix, name);
    match refused {
        Refused::UnknownName => {
            text::put_str(sink, ": no option of this name");
            if let Some(near) = nearest(name) {
                text::put_str(sink, "; did you mean ");
                text::put_str(sink, prefix);
                put_name(sink, prefix, spec(near).name.as_bytes());
                text::put_str(sink, "?");
            }
            text::put_str(sink, " ('vcm config' lists all)\n");
        }
        Refused::NotLive => {
            text::put_str(sink, ": is read once, at start; set it before the program starts\n")
        }
        Refused::BadValue(reason) => {
            text::put_str(sink, ": '");
            sink.put(text.get(..text.len().min(64)).unwrap_or(text));
            text::put_str(sink, "' ");
            text::put_str(sink, reason.text());
            if let Some(id) = find(name).or_else(|| find_alias(name)) {
                let spec = spec(id);
                text::put_str(sink, "; expected ");
                value::put_expected(sink, spec.kind, spec.least, spec.greatest);
            }
            text::put_str(sink, UNCHANGED);
            text::put_str(sink, "\n");
        }
    }
}

/// A name as it is spelled behind a prefix: capitals in variables.
fn put_name(sink: &mut dyn Sink, prefix: &str, name: &[u8]) {
    let is_variable = prefix == VARIABLE_PREFIX;
    name.iter().for_each(|byte| sink.put(&[if is_variable { byte.to_ascii_uppercase() } else { *byte }]));
}

/// The value of `cache_limit=auto` for each CPU that the process may use.
pub const CACHE_BYTES_PER_CPU: usize = 16 << 20;

/// The beginning of the name of every option's variable.
pub const VARIABLE_PREFIX: &str = "VCM_";

/// The path of the config file unless `VCM_CONFIG` says otherwise.
pub const CONFIG_FILE: &core::ffi::CStr = c"/etc/vcmalloc.conf";

/// Variables with that prefix that are no options.
pub const TOOL_VARIABLES: [&str; 5] =
    ["VCM_CONFIG", "VCM_RUN_PROOF", "VCM_LIBRARY", "VCM_LAB", "VCM_LABS_FAULT"];
/// `Engine::late_options` has a bit for each.
const _: () = assert!(OPTION_COUNT <= u32::BITS as usize);

mod file;
mod foreign;
pub use file::{FILE_ROOM, NAME_BYTES, Setting, each_setting, part_to_read};
pub use foreign::{FOREIGN, Foreign, set_by};

/// The places of the values, for readers outside the process (docs/design/window.md).
impl Options {
    /// Adds each option's value and origin, and the texts of paths, of options that lie so far in the heap.
    pub(crate) const fn places(mut list: Places, at: usize) -> Places {
        let (values, origins) = (at + offset_of!(Self, values), at + offset_of!(Self, origins));
        let mut index = 0;
        while index < OPTION_COUNT {
            let name = SPECS[index].name;
            list = list.put("option.", name, Within::Heap, 8, values + 8 * index, (0, 1));
            list = list.put("origin.", name, Within::Heap, 1, origins + index, (0, 1));
            if matches!(SPECS[index].kind, Kind::Path) {
                list = path::Paths::places(list, name, at + offset_of!(Self, paths));
            }
            index += 1;
        }
        list
    }
}

#[cfg(test)]
mod tests;
