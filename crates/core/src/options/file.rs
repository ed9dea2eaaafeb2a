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

/// One setting of the file that holds for this program, or a line that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Setting<'a> {
    Value { name: &'a [u8], text: &'a [u8], origin: Origin },
    BadLine { number: usize },
}

impl Setting<'_> {
    /// The library has room for so many bytes of the file; one that fills it is said to be longer.
    pub const FILE_ROOM: usize = 8192;
}

/// Calls `take` for each setting in `content` that holds for `program`.
pub fn each_setting<'a>(content: &'a [u8], program: &[u8], mut take: impl FnMut(Setting<'a>)) {
    let mut section = Some(Origin::File);
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = trimmed(line.split(|byte| *byte == b'#').next().unwrap_or(line));
        match line {
            [] => {}
            [b'[', name @ .., b']'] => section = section_for(trimmed(name), program),
            _ => match split_once(line) {
                Some((name, text)) => {
                    if let Some(origin) = section {
                        take(Setting::Value { name, text, origin });
                    }
                }
                None => take(Setting::BadLine { number: index + 1 }),
            },
        }
    }
}

fn section_for(name: &[u8], program: &[u8]) -> Option<Origin> {
    // The kernel cuts a program's name to 15 bytes; a section may give the whole name.
    let cut = name.get(..15).unwrap_or(name);
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
