//! Guard pages in the heap: marked ones where the kernel has them, else mappings of their own.
//!
//! Marked pages (`MADV_GUARD_INSTALL`, Linux 6.13) split no mapping, are had under a shared lock of the address space, and are
//! inherited by fork. They lose their contents, so a run that waits with its memory is closed by a mapping all the same.

use crate::base::sync::{AtomicBool, Ordering};
use crate::os::Os;

/// The kind of guards that a block has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    None,
    Mapped,
    Marked,
}

impl Fence {
    /// Closes pages whose contents are nobody's.
    pub fn close<O: Os>(self, os: &O, address: usize, bytes: usize) -> bool {
        match self {
            Fence::None => false,
            Fence::Mapped => os.close_pages(address, bytes),
            // Refused half way, where a part is locked, it would leave marks that nobody takes away.
            Fence::Marked => {
                let is_marked = os.mark_pages(address, bytes);
                if !is_marked {
                    os.unmark_pages(address, bytes);
                }
                is_marked
            }
        }
    }

    /// Opens a range of which pages are closed so.
    pub fn open<O: Os>(self, os: &O, address: usize, bytes: usize) -> bool {
        match self {
            Fence::None => true,
            Fence::Mapped => os.commit(address, bytes),
            Fence::Marked => os.unmark_pages(address, bytes),
        }
    }
}

/// The kind that new guards have.
pub struct Fences {
    has_no_marks: AtomicBool,
    had_marks: AtomicBool,
}

impl Fences {
    pub const fn new() -> Self {
        Fences { has_no_marks: AtomicBool::new(false), had_marks: AtomicBool::new(false) }
    }

    pub fn kind(&self) -> Fence {
        if self.has_no_marks.load(Ordering::Relaxed) { Fence::Mapped } else { Fence::Marked }
    }

    /// Notes that pages were marked; whether any ever were.
    pub fn note_marks(&self) {
        if !self.had_marks.load(Ordering::Relaxed) {
            self.had_marks.store(true, Ordering::Relaxed);
        }
    }

    pub fn had_marks(&self) -> bool {
        self.had_marks.load(Ordering::Relaxed)
    }

    /// An old kernel refuses marks, a filter may, and memory that the program locks has none.
    pub fn forgo_marks(&self) {
        self.has_no_marks.store(true, Ordering::Relaxed);
    }
}

/// A freed run with guards, as one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed {
    pub run: usize,
    pub fence: Fence,
    /// A mapping closes it from end to end.
    pub whole: bool,
}

const MARKED: usize = 2;
const WHOLE: usize = 4;

impl Closed {
    /// Never 0 or 1: no run starts there, and runs are aligned to pages.
    pub fn word(self) -> usize {
        let marked = if self.fence == Fence::Marked { MARKED } else { 0 };
        self.run | marked | if self.whole { WHOLE } else { 0 }
    }

    pub fn of_word(word: usize) -> Closed {
        let fence = if word & MARKED == 0 { Fence::Mapped } else { Fence::Marked };
        Closed { run: word & !(MARKED | WHOLE), fence, whole: word & WHOLE != 0 }
    }

    /// Gives access back; false where the system refuses even that.
    pub fn open<O: Os>(self, os: &O, bytes: usize) -> bool {
        // A mapping may be refused at any time, so it comes first: then nothing has changed.
        (!self.whole || Fence::Mapped.open(os, self.run, bytes)) && self.fence.open(os, self.run, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Linux;
    use core::ptr::with_exposed_provenance_mut as at_mut;

    #[test]
    fn a_range_of_which_a_part_is_locked_keeps_no_marks() {
        let (os, page) = (Linux::new(), Linux::new().page_bytes());
        let range = os.map(2 * page).unwrap();
        // SAFETY: pages of our own.
        let is_locked = unsafe { libc::mlock(at_mut(range + page), page) == 0 };
        if !is_locked {
            vcmalloc_tests::skip!("this user may lock no memory");
            return;
        }
        assert!(!Fence::Marked.close(&os, range, 2 * page));
        for address in [range, range + page] {
            // SAFETY: mapped above; a mark would end the process here.
            unsafe { at_mut::<u8>(address).write(1) };
        }
        os.unmap(range, 2 * page);
    }

    #[test]
    fn a_closed_run_is_told_by_its_word() {
        for (fence, whole) in
            [(Fence::Mapped, false), (Fence::Mapped, true), (Fence::Marked, false), (Fence::Marked, true)]
        {
            let closed = Closed { run: 0x5000_0000_4000, fence, whole };
            assert_eq!(Closed::of_word(closed.word()), closed);
        }
    }
}
