//! Names and places in the tree of jemalloc's names.
//!
//! A place (MIB) has for each part of a name the row of the first name that begins alike, and for `#` the number: so the last part leads to its
//! row, and the others are compared.

use super::arenas::{self, ALL, DESTROYED};
use super::io::Numbers;
use super::names::{ROWS, Row, TABLE};
use super::sizes::{BINS, LENGTHS};

/// As many parts as a name has at most.
pub const DEPTH: usize = 7;

/// Whether two names have their parts in common up to one of them.
const fn is_alike(one: &str, other: &str, parts: usize) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (mut at, mut left) = (0, parts);
    loop {
        let ends = (at == one.len() || one[at] == b'.', at == other.len() || other[at] == b'.');
        if ends.0 && ends.1 {
            left -= 1;
            if left == 0 {
                return true;
            }
            if at == one.len() || at == other.len() {
                return false;
            }
        } else if ends.0 || ends.1 || one[at] != other[at] {
            return false;
        }
        at += 1;
    }
}

/// For each row and part the first row that begins alike.
static FIRST: [[u16; DEPTH]; TABLE.len()] = {
    let rows = &TABLE;
    let mut first = [[0u16; DEPTH]; TABLE.len()];
    let mut row = 0;
    while row < first.len() {
        let mut part = 0;
        while part < DEPTH {
            first[row][part] = if row > 0 && is_alike(rows[row - 1].name, rows[row].name, part + 1) {
                first[row - 1][part]
            } else {
                row as u16
            };
            part += 1;
        }
        row += 1;
    }
    first
};

/// Bytes: to split a text is code that could panic.
fn parts(name: &'static str) -> impl Iterator<Item = &'static [u8]> {
    name.as_bytes().split(|byte| *byte == b'.')
}

fn first(row: usize, part: usize) -> Option<usize> {
    FIRST.get(row)?.get(part).map(|first| usize::from(*first))
}

/// Whether a number can stand behind the parts before it.
fn is_in_bounds(name: &str, number: usize, is_second: bool) -> bool {
    if is_second {
        let is_bin = name.starts_with("stats.arenas.#.bins.");
        return number < if is_bin { BINS } else { LENGTHS };
    }
    if name.starts_with("arena.") {
        number <= arenas::count() || number == ALL || number == DESTROYED
    } else if name.starts_with("stats.arenas.") || name.starts_with("experimental.arenas.") {
        number == ALL || arenas::heap_of(number).is_some()
    } else {
        let is_bin = name.starts_with("arenas.bin.") || name.starts_with("prof.stats.bins.");
        number < if is_bin { BINS } else { LENGTHS }
    }
}

/// A row, as far as a name or a place leads: how many of its parts, and the numbers in them.
pub struct Place {
    pub row: usize,
    pub parts: usize,
    pub numbers: Numbers,
}

impl Place {
    /// The row, where the name is a whole one.
    pub fn whole(&self) -> Option<&'static Row> {
        ROWS.get(self.row).filter(|row| parts(row.name).count() == self.parts)
    }

    /// The places of the parts.
    pub fn put(&self, mib: &mut dyn FnMut(usize, usize)) {
        let Some(row) = ROWS.get(self.row) else { return };
        let mut numbers = [self.numbers.first, self.numbers.second].into_iter();
        for (part, text) in parts(row.name).take(self.parts).enumerate() {
            let place = match text {
                b"#" => numbers.next().unwrap_or(0),
                _ => first(self.row, part).unwrap_or(0),
            };
            mib(part, place);
        }
    }
}

/// Follows a name; none where there is no such name or number.
pub fn find(name: &[u8]) -> Option<Place> {
    if name.len() > 255 {
        return None;
    }
    let mut row = 0;
    while row < ROWS.len() {
        match matches(row, name) {
            Ok(found) => return Some(found),
            // All names that begin so are passed over.
            Err(part) => {
                let begins = first(row, part);
                row += 1;
                while row < ROWS.len() && first(row, part) == begins {
                    row += 1;
                }
            }
        }
    }
    None
}

/// A row that a name leads to; the part in which they differ where it does not.
fn matches(row: usize, name: &[u8]) -> Result<Place, usize> {
    let own = ROWS.get(row).map_or("", |row| row.name);
    let (mut known, mut found) = (parts(own), Place { row, parts: 0, numbers: Numbers::default() });
    let mut is_second = false;
    for part in name.split(|byte| *byte == b'.') {
        let differ = found.parts.min(DEPTH - 1);
        match known.next().ok_or(differ)? {
            b"#" => {
                let number = decimal(part).filter(|number| is_in_bounds(own, *number, is_second));
                let number = number.ok_or(differ)?;
                *(if is_second { &mut found.numbers.second } else { &mut found.numbers.first }) = number;
                is_second = true;
            }
            own if own == part => {}
            _ => return Err(differ),
        }
        found.parts += 1;
    }
    Ok(found)
}

fn decimal(text: &[u8]) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    text.iter().try_fold(0usize, |sum, byte| sum.checked_mul(10)?.checked_add(digit(byte)?))
}

/// Follows a place, which must be a whole one.
pub fn at(mib: &[usize]) -> Option<Place> {
    let row = *mib.last()?;
    let own = ROWS.get(row)?.name;
    if parts(own).count() != mib.len() {
        return None;
    }
    let mut found = Place { row, parts: mib.len(), numbers: Numbers::default() };
    let mut is_second = false;
    for (part, (text, place)) in parts(own).zip(mib).enumerate() {
        if text == b"#" {
            if !is_in_bounds(own, *place, is_second) {
                return None;
            }
            *(if is_second { &mut found.numbers.second } else { &mut found.numbers.first }) = *place;
            is_second = true;
        } else if first(row, part) != Some(*place) {
            return None;
        }
    }
    Some(found)
}
