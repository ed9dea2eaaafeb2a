//! Text that fits the terminal.
//!
//! Owns the width and the wrapping: words stay whole, so that paths and commands can be copied.

use textwrap::{Options, WordSeparator, WordSplitter};

/// The width if nobody tells it, and the most that is read with ease.
const WIDTH: usize = 100;
/// A narrower one would leave a column of single words.
const LEAST_WIDTH: usize = 40;

pub struct Page {
    text: String,
    width: usize,
}

impl Page {
    pub fn of_terminal() -> Self {
        Self::of_width(terminal_width().unwrap_or(WIDTH))
    }

    /// Entries stay on a line each, for `grep`, unless a terminal shows them.
    pub fn of_entries() -> Self {
        terminal_width().map_or(Page { text: String::new(), width: usize::MAX }, Self::of_width)
    }

    pub fn of_width(width: usize) -> Self {
        Page { text: String::new(), width: width.clamp(LEAST_WIDTH, WIDTH) }
    }

    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A paragraph, wrapped under itself, behind `head`.
    pub fn paragraph(&mut self, head: &str, paragraph: &str) {
        self.wrapped(head, &" ".repeat(head.chars().count()), paragraph);
    }

    /// A paragraph whose first line begins with `head` and every other with `next`.
    pub fn wrapped(&mut self, head: &str, next: &str, paragraph: &str) {
        let options = Options::new(self.width)
            .initial_indent(head)
            .subsequent_indent(next)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .break_words(false);
        for line in textwrap::wrap(paragraph, options) {
            self.line(line.trim_end());
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

pub fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_width_and_words_stay_whole() {
        let mut page = Page::of_width(40);
        let path = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2-and-more";
        page.paragraph("  what  ", &format!("one two three four five six seven {path} end"));
        let text = page.into_text();
        let expected =
            format!("  what  one two three four five six\n        seven\n        {path}\n        end\n");
        assert_eq!(text, expected);
    }
}
