//! The config file: `name = value` lines; lines before the first `[program]` hold for every program.
//!
//! ```text
//! # /etc/vcmalloc.conf
//! cache_limit = 64M
//!
//! [ceph-osd]
//! cache_limit = 256M
//! ```

use super::Origin;

/// One setting of the file that holds for this program, or a line that cannot be read; with the number of its
/// line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub enum Setting<'a> {
    Value { name: &'a [u8], text: &'a [u8], origin: Origin, number: usize },
    BadLine { number: usize },
}

/// The room for the file; a file that fills it is said to be longer.
pub const FILE_ROOM: usize = 8192;

/// The kernel cuts a program's name to so many bytes.
pub const NAME_BYTES: usize = 15;

/// The part of a file that is read, and whether it is cut: whole lines only, for half a number is another
/// one.
pub fn part_to_read(content: &[u8]) -> (&[u8], bool) {
    let Some(full) = content.get(..FILE_ROOM) else { return (content, false) };
    let end = full.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    (full.get(..end).unwrap_or(full), true)
}

/// Calls `take` for each setting in `content` that holds for `program`.
pub fn each_setting<'a>(content: &'a [u8], program: &[u8], mut take: impl FnMut(Setting<'a>)) {
    let mut section = Some(Origin::File);
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = trimmed(line.split(|byte| *byte == b'#').next().unwrap_or(line));
        match line {
            [] => {}
            [b'[', name @ .., b']'] if is_program(trimmed(name)) => {
                section = section_for(trimmed(name), program)
            }
            [b'[', ..] => {
                // The lines that follow belong to the program that was meant, whichever that is.
                section = None;
                take(Setting::BadLine { number: index + 1 });
            }
            _ => match split_once(line) {
                Some((name, text)) => {
                    if let Some(origin) = section {
                        take(Setting::Value { name, text, origin, number: index + 1 });
                    }
                }
                None => take(Setting::BadLine { number: index + 1 }),
            },
        }
    }
}

/// Whether a program can have this name, or it means all of them.
fn is_program(name: &[u8]) -> bool {
    name == b"*" || !name.is_empty() && !name.iter().any(|byte| b"/*[]".contains(byte))
}

fn section_for(name: &[u8], program: &[u8]) -> Option<Origin> {
    // A section may give the whole name.
    let cut = name.get(..NAME_BYTES).unwrap_or(name);
    match name {
        b"*" => Some(Origin::File),
        _ if name == program || cut == program => Some(Origin::FileSection),
        _ => None,
    }
}

fn split_once(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|byte| *byte == b'=')?;
    let name = trimmed(line.get(..at)?);
    let text = trimmed(line.get(at + 1..)?);
    if name.is_empty() || text.is_empty() { None } else { Some((name, text)) }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}
