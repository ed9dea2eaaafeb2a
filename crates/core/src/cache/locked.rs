//! A cache under a lock: for threads that have no restartable sequences.
//!
//! Nobody waits for the lock: a cache that is locked is empty and full. So a signal handler that interrupts
//! its own thread here goes on to the layers below.

use super::slab::{Slab, Word};
use super::slab_cache::SlabCache;
use crate::base::locks as lock;
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::os::{Mutex, Os};

/// One slab and its lock.
pub struct Locked<'a, O: Os> {
    pub slab: Slab,
    pub lock: &'a Mutex<lock::Slab, O>,
}

const ENTRY: usize = size_of::<usize>();

impl<O: Os> SlabCache for Locked<'_, O> {
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
            let block = self.slab.entry(top).load(Ordering::Relaxed);
            if block == 0 {
                break;
            }
            *place = block;
            top -= ENTRY;
            count += 1;
        }
        self.slab.write(class, Word::new(top, word.end()));
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
            self.slab.entry(top).store(*block, Ordering::Relaxed);
            count += 1;
        }
        self.slab.write(class, Word::new(top, word.end()));
        count
    }

    fn replace(&self, class: SizeClass, expected: Word, new: Word) -> bool {
        let Some(_held) = self.lock.try_lock() else { return false };
        let same = self.slab.read(class) == expected;
        if same {
            self.slab.write(class, new);
        }
        same
    }
}
