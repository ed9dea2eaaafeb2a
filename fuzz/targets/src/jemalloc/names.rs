//! Names of the tree, right ones and nearly right ones.

use std::sync::OnceLock;

use arbitrary::Arbitrary;
use tikv_jemalloc_sys::trial;

/// A change of a name.
#[derive(Arbitrary, Clone, Debug)]
enum Change {
    None,
    /// A byte instead of another; with the highest bit, more than one.
    Byte(u8, u8),
    Without(u8),
    With(u8, u8),
    /// The name ends there.
    Cut(u8),
    /// More behind it.
    And(Vec<u8>),
    /// So many times itself.
    Long(u8),
    /// No name of the table.
    Other(Vec<u8>),
}

#[derive(Arbitrary, Clone, Debug)]
pub struct Named {
    row: u16,
    first: u8,
    second: Number,
    change: Change,
}

/// A number behind an arena's.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Small(u8),
    Any(u64),
}

/// All names, and those that have no answer left out: they are many and alike.
fn rows() -> &'static (Vec<&'static str>, Vec<&'static str>) {
    static ROWS: OnceLock<(Vec<&str>, Vec<&str>)> = OnceLock::new();
    ROWS.get_or_init(|| {
        let all: Vec<&str> = (0..).map_while(trial::name).collect();
        let is_alike = |name: &&&str| name.contains("mutex") || name.contains("hpa");
        (all.clone(), all.iter().filter(|name| !is_alike(name)).copied().collect())
    })
}

fn row(which: u16) -> &'static str {
    let (all, few) = rows();
    let rows = if which < 0xF000 { few } else { all };
    rows[usize::from(which) % rows.len()]
}

impl Named {
    /// The bytes of the name and its first number. `arena` chooses an arena's number.
    pub fn resolve(&self, arena: impl Fn(u8) -> usize) -> (Vec<u8>, usize) {
        let pattern = row(self.row);
        let is_arena = pattern.contains("arena.#") || pattern.contains("arenas.#");
        let first = match self.first {
            255 => 4096,
            254 => 4097,
            253 => usize::MAX,
            which if is_arena => arena(which),
            which => usize::from(which),
        };
        let second = match self.second {
            Number::Small(number) => u64::from(number),
            Number::Any(number) => number,
        };
        let text = pattern.replacen('#', &first.to_string(), 1).replacen('#', &second.to_string(), 1);
        let mut text = text.into_bytes();
        let length = text.len();
        let at = |which: u8| usize::from(which & 127) % length;
        match &self.change {
            Change::None => {}
            Change::Byte(which, byte) => text[at(*which)] = *byte,
            Change::Without(which) => _ = text.remove(at(*which)),
            Change::With(which, byte) => text.insert(at(*which), *byte),
            Change::Cut(which) => text.truncate(at(*which)),
            Change::And(more) => text.extend_from_slice(more),
            Change::Long(times) => text = text.repeat(usize::from(*times)),
            Change::Other(other) => text.clone_from(other),
        }
        // C's strings end there.
        if let Some(end) = text.iter().position(|byte| *byte == 0) {
            text.truncate(end);
        }
        let number = numbers(&text).next().unwrap_or(0);
        (text, number)
    }
}

/// The parts that are numbers.
fn numbers(name: &[u8]) -> impl Iterator<Item = usize> {
    let parts = name.split(|byte| *byte == b'.').filter_map(|part| std::str::from_utf8(part).ok());
    parts.filter(|part| !part.starts_with('+')).filter_map(|part| part.parse().ok())
}

/// The whole name of the table that a name is of: found by its place.
pub fn pattern(name: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(name).ok()?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split('.').collect();
    let matches = |row: &&'static str| {
        let own: Vec<&str> = row.split('.').collect();
        own.len() == parts.len()
            && own.iter().zip(&parts).all(|(own, part)| own == part || *own == "#" && is_number(part))
    };
    let found = rows().0.iter().copied().find(matches)?;
    // A number may be out of bounds.
    super::mib_of(name).map(|_| found)
}
