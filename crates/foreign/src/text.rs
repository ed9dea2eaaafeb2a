//! Text from a foreign source: a process's name, arguments and paths, a trace's origin, a container's files.

use crate::escape::{is_hidden, put};
use serde::{Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Its bytes as they are, for who looks something up by them; printed it is one line without anything hidden.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Vec<u8>);

impl Text {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Text(bytes.into())
    }

    /// As it was said: to compare, to look up, to hand to the kernel; not to print.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    pub fn as_path(&self) -> &Path {
        Path::new(self.as_os_str())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As it is printed.
    pub fn printed(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_hidden(character) { put(&mut printed, character)? } else { printed.push(character) }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(printed, "\\x{byte:02x}"))?;
        }
        // With the width that was asked for.
        out.pad(&printed)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{self}\"")
    }
}

/// As it was said: JSON has an escape of its own for what does something to a terminal.
impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&String::from_utf8_lossy(&self.0))
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text(text.into_bytes())
    }
}

impl From<OsString> for Text {
    fn from(text: OsString) -> Self {
        Text(text.into_vec())
    }
}

impl From<PathBuf> for Text {
    fn from(path: PathBuf) -> Self {
        Text(path.into_os_string().into_vec())
    }
}

/// A path or a word as it may be printed: `path.shown()` stands where `path.display()` would.
pub trait Shown {
    fn shown(&self) -> Text;
}

impl Shown for Path {
    fn shown(&self) -> Text {
        Text::new(self.as_os_str().as_bytes())
    }
}

impl Shown for OsStr {
    fn shown(&self) -> Text {
        Text::new(self.as_bytes())
    }
}

impl Shown for str {
    fn shown(&self) -> Text {
        self.into()
    }
}

impl Shown for [u8] {
    fn shown(&self) -> Text {
        Text::new(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printed_on_one_line_and_nothing_in_it_is_hidden() {
        let name = Text::new(*b"\x1b]0;pwned\x07\nline\ttab\xff\xfe\xc2\x9b end");
        assert_eq!(name.to_string(), r"\u001b]0;pwned\u0007\nline\ttab\xff\xfe\u009b end");
        assert_eq!(format!("{name:?}"), format!("\"{name}\""));
        assert_eq!(format!("[{:>6}]", Text::from("ab")), "[    ab]");
    }

    #[test]
    fn every_character_that_is_hidden_is_printed_with_letters() {
        for character in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let printed = character.to_string().as_str().shown().to_string();
            assert!(!printed.chars().any(is_hidden), "{:x}", u32::from(character));
        }
    }

    #[test]
    fn json_has_what_was_said() {
        let json = serde_json::to_string(&Text::from("a\u{1b}\n\"")).unwrap();
        assert_eq!(json, r#""a\u001b\n\"""#);
    }
}
