//! Lines that go from one actor to another. An actor is a virtual CPU of a run, or a thread. A line is with
//! all who read it since it was last written, or with who wrote it: an access that finds it elsewhere moves
//! it.

use rustc_hash::FxHashMap;

const BYTES: u64 = 64;
const WORDS: usize = 4;

#[derive(Clone, Copy, Default)]
struct Line {
    holders: [u64; WORDS],
    first_writer: Option<u16>,
    /// Two actors wrote it.
    is_shared: bool,
}

/// The effect of an access on its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Met {
    /// It came from another actor.
    pub is_moved: bool,
    /// Two actors wrote it, this access included.
    pub is_shared: bool,
    /// Nobody had it before, or nobody has written it.
    pub is_new: bool,
    pub was_written: bool,
}

#[derive(Default)]
pub struct Lines(FxHashMap<u64, Line>);

impl Lines {
    pub fn line(address: u64) -> u64 {
        address / BYTES
    }

    pub fn access(&mut self, address: u64, actor: u16, writes: bool) -> Met {
        let line = self.0.entry(Lines::line(address)).or_default();
        let (word, bit) = (usize::from(actor) / 64 % WORDS, 1 << (actor % 64));
        let is_mine = line.holders[word] & bit != 0;
        let held = line.holders.iter().map(|holders| holders.count_ones()).sum::<u32>();
        let others = held - u32::from(is_mine);
        let was_written = line.first_writer.is_some();
        if writes {
            line.holders = [0; WORDS];
            let first = *line.first_writer.get_or_insert(actor);
            line.is_shared |= first != actor;
        }
        line.holders[word] |= bit;
        Met {
            is_moved: others > 0 && (writes || !is_mine),
            is_shared: line.is_shared,
            is_new: held == 0,
            was_written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_moves_to_who_writes_what_others_have_and_to_who_reads_what_others_wrote() {
        let mut lines = Lines::default();
        let mut moved = |actor, writes| lines.access(100, actor, writes).is_moved;
        assert!(!moved(0, true) && !moved(0, false) && !moved(0, true), "its own");
        assert!(moved(200, false) && !moved(200, false), "read once, it is here");
        assert!(moved(0, true) && moved(200, true) && !moved(200, true));
        assert!(moved(0, false) && moved(200, true));
    }

    #[test]
    fn a_line_is_shared_once_two_wrote_it_and_new_where_nobody_had_it() {
        let mut lines = Lines::default();
        assert!(lines.access(0, 1, true).is_new && !lines.access(63, 2, false).is_new);
        assert!(!lines.access(0, 1, true).is_shared && lines.access(0, 2, true).is_shared);
        assert!(lines.access(0, 1, false).is_shared && lines.access(64, 1, false).is_new);
    }
}
