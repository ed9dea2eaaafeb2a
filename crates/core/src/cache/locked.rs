//! A cache under a lock: for threads that have no restartable sequences.
//!
//! Nobody waits for the lock: a cache that is locked is empty and full. So a signal handler that interrupts its own
//! thread here goes on to the layers below.

use super::slab::{Slab, Word};
use super::tray::Tray;
use crate::class::SizeClass;
use crate::os::{Mutex, Os};
use core::sync::atomic::{Ordering, compiler_fence};

/// One slab and its lock.
pub struct Locked<'a, O: Os> {
    pub slab: Slab,
    pub lock: &'a Mutex<(), O>,
}

const ENTRY: usize = size_of::<usize>();

impl<O: Os> Locked<'_, O> {
    fn load(&self, offset: usize) -> usize {
        // SAFETY: the offset comes from a word of this slab, whose lock is held.
        unsafe { self.slab.entry(offset).read() }
    }

    fn store(&self, offset: usize, block: usize) {
        // SAFETY: as in `load`.
        unsafe { self.slab.entry(offset).write(block) };
    }

    fn set(&self, class: SizeClass, word: Word) {
        // A child process may be made here: what the word counts is there already.
        compiler_fence(Ordering::Release);
        // SAFETY: the lock is held.
        unsafe { self.slab.word(class).write_volatile(word.0) };
    }
}

impl<O: Os> Tray for Locked<'_, O> {
    fn slab(&self) -> Slab {
        self.slab
    }

    fn pop(&self, class: SizeClass) -> usize {
        let mut out = [0];
        self.pop_batch(class, &mut out);
        let [block] = out;
        block
    }

    fn push(&self, class: SizeClass, block: usize) -> bool {
        self.push_batch(class, &[block]) == 1
    }

    fn pop_batch(&self, class: SizeClass, out: &mut [usize]) -> usize {
        let Some(_held) = self.lock.try_lock() else { return 0 };
        let word = self.slab.read(class);
        let mut top = word.top();
        let mut count = 0;
        for place in out {
            let block = self.load(top);
            if block == 0 {
                break;
            }
            *place = block;
            top -= ENTRY;
            count += 1;
        }
        self.set(class, Word::new(top, word.end()));
        count
    }

    fn push_batch(&self, class: SizeClass, blocks: &[usize]) -> usize {
        let Some(_held) = self.lock.try_lock() else { return 0 };
        let word = self.slab.read(class);
        let mut top = word.top();
        let mut count = 0;
        for block in blocks {
            if top >= word.end() {
                break;
            }
            top += ENTRY;
            self.store(top, *block);
            count += 1;
        }
        self.set(class, Word::new(top, word.end()));
        count
    }

    fn replace(&self, class: SizeClass, expected: Word, new: Word) -> bool {
        let Some(_held) = self.lock.try_lock() else { return false };
        let same = self.slab.read(class) == expected;
        if same {
            self.set(class, new);
        }
        same
    }
}
