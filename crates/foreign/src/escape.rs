//! The characters that do something to a terminal or to a reader, and how each is written.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Whether a character moves a cursor, ends a line, turns the direction of text, or is not seen at all.
pub fn is_hidden(character: char) -> bool {
    let formats = matches!(
        u32::from(character),
        0xAD | 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
            | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
            | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF
    );
    character.is_control() || formats
}

/// Writes a character as JSON would: an escaped one stays what it was for a reader of JSON.
pub(crate) fn put(out: &mut impl Write, character: char) -> fmt::Result {
    match character {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        _ => character.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}")),
    }
}

/// A text of the tool as it may leave it: its lines and columns stay, all else that is hidden is escaped. The last net:
/// names in it were escaped before, with their ends of lines.
pub fn clean(text: &str) -> Cow<'_, str> {
    let is_ours = |character| matches!(character, '\n' | '\t');
    if !text.chars().any(|character| is_hidden(character) && !is_ours(character)) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) && !is_ours(character) {
            // Writing into a string does not fail.
            let _ = put(&mut clean, character);
        } else {
            clean.push(character);
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_anything_hidden_stays_as_it_is() {
        for text in ["a b\tc\nd", "é ü 漢 🎉 µ", ""] {
            assert!(matches!(clean(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn escapes_bells_directions_and_what_is_not_seen_are_written_out() {
        assert_eq!(clean("\u{1b}[2J\u{7}\r\u{7f}\u{9b}1m"), "\\u001b[2J\\u0007\\r\\u007f\\u009b1m");
        assert_eq!(clean("a\u{202e}b\u{2066}c\u{200b}\u{feff}"), "a\\u202eb\\u2066c\\u200b\\ufeff");
        assert_eq!(clean("\u{e0041}"), "\\udb40\\udc41");
    }

    #[test]
    fn json_says_the_same_before_and_after() {
        let name = "\u{1b}]0;x\u{7}\u{9b}\u{202e}\u{e0041}\n\"\\";
        let json = serde_json::to_string(name).unwrap();
        assert_eq!(serde_json::from_str::<String>(&clean(&json)).unwrap(), name);
    }
}
