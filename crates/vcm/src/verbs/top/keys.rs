//! The effects of keys.

use super::table::View;
use crate::cli::top::Column;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    List,
    Detail,
    Help,
}

pub struct State {
    pub view: View,
    pub page: Page,
    /// The process that is marked.
    pub chosen: Option<i32>,
    pub is_typing: bool,
    pub has_colour: bool,
}

/// Letters by which the list is sorted.
pub const SORTS: [(char, Column, &str); 9] = [
    ('p', Column::Pid, "number"),
    ('n', Column::Name, "name"),
    ('r', Column::Rss, "RSS: resident memory of the process"),
    ('l', Column::Live, "live: bytes requested by the program and in use"),
    ('c', Column::Cached, "cached: free blocks in caches and transfer arrays"),
    ('f', Column::Free, "free: free blocks in spans, and resident free pages"),
    ('o', Column::Overhead, "overhead: resident heap beyond live bytes, in percent of live"),
    ('t', Column::Threads, "threads"),
    ('b', Column::Back, "back: bytes released to the system so far"),
];

impl State {
    pub fn new(view: View) -> Self {
        let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        State { view, page: Page::List, chosen: None, is_typing: false, has_colour }
    }

    /// True where it ends. `ids` are the processes shown, from the top.
    pub fn press(&mut self, key: KeyEvent, ids: &[i32]) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return key.code == KeyCode::Char('c');
        }
        if self.is_typing {
            self.type_key(key.code);
            return false;
        }
        match (self.page, key.code) {
            (_, KeyCode::Char('q')) => return true,
            (Page::Help | Page::Detail, KeyCode::Esc | KeyCode::Enter) => self.page = Page::List,
            (Page::List, KeyCode::Esc) => self.view.filter.clear(),
            (_, KeyCode::Char('h' | '?')) => self.page = Page::Help,
            (_, KeyCode::Up | KeyCode::Char('k')) => self.step(ids, -1),
            (_, KeyCode::Down | KeyCode::Char('j')) => self.step(ids, 1),
            (Page::List, KeyCode::PageUp) => self.step(ids, -10),
            (Page::List, KeyCode::PageDown) => self.step(ids, 10),
            (Page::List, KeyCode::Enter) => self.page = Page::Detail,
            (Page::List, KeyCode::Char('/')) => self.is_typing = true,
            (Page::List, KeyCode::Char(letter)) => self.sort(letter),
            _ => {}
        }
        false
    }

    fn sort(&mut self, letter: char) {
        if let Some((_, column, _)) = SORTS.iter().find(|(of, _, _)| *of == letter) {
            self.view.is_reversed = self.view.sort == *column && !self.view.is_reversed;
            self.view.sort = *column;
        }
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.view.filter.push(letter),
            KeyCode::Backspace => drop(self.view.filter.pop()),
            KeyCode::Esc => {
                self.view.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Enter => self.is_typing = false,
            _ => {}
        }
    }

    fn step(&mut self, ids: &[i32], by: isize) {
        let at = self.chosen.and_then(|id| ids.iter().position(|other| *other == id)).unwrap_or(0);
        let to = at.saturating_add_signed(by).min(ids.len().saturating_sub(1));
        self.chosen = ids.get(to).copied();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(state: &mut State, code: KeyCode) -> bool {
        state.press(KeyEvent::new(code, KeyModifiers::NONE), &[10, 20, 30])
    }

    #[test]
    fn keys_sort_filter_mark_open_and_end() {
        let view = View { sort: Column::Rss, is_reversed: false, filter: String::new() };
        let mut state = State::new(view);
        press(&mut state, KeyCode::Char('l'));
        assert_eq!((state.view.sort, state.view.is_reversed), (Column::Live, false));
        press(&mut state, KeyCode::Char('l'));
        assert!(state.view.is_reversed);
        for letter in ['/', 'q', 'l'] {
            assert!(!press(&mut state, KeyCode::Char(letter)), "q is text while typing");
        }
        press(&mut state, KeyCode::Enter);
        assert_eq!((state.view.filter.as_str(), state.is_typing), ("ql", false));
        press(&mut state, KeyCode::Esc);
        assert_eq!(state.view.filter, "");
        press(&mut state, KeyCode::Down);
        assert_eq!(state.chosen, Some(20));
        press(&mut state, KeyCode::PageDown);
        assert_eq!(state.chosen, Some(30));
        press(&mut state, KeyCode::Enter);
        assert_eq!(state.page, Page::Detail);
        press(&mut state, KeyCode::Esc);
        assert_eq!(state.page, Page::List);
        assert!(press(&mut state, KeyCode::Char('q')));
        assert!(state.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), &[]));
    }
}
