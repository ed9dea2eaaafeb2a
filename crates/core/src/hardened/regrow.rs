//! Resizing a block that has a run for itself, its guard with it.

use super::fences::Fence;
use super::frame::{self, Frame};
use super::{Hardened, Live};
use crate::heap::HeapId;
use crate::os::Os;
use core::ptr::with_exposed_provenance_mut as at_mut;

impl<O: Os> Hardened<O> {
    /// Lets a live block end earlier, its guard with it.
    pub(super) fn shrink_guarded(&self, live: &Live, bytes: usize) {
        let before = self.guard_of(live);
        let shorter = Live { frame: Frame { bytes, ..live.frame }, ..*live };
        let guard = self.guard_of(&shorter);
        let end = live.user + bytes;
        // SAFETY: these bytes are the owner's, who does not want them any more.
        unsafe { at_mut::<u8>(end).write_bytes(0, guard.min(before) - end) };
        if guard < before {
            // Not by writing zeros: pages that nobody has touched take no memory for that.
            let is_gone = self.wipe(guard, before - guard);
            if live.frame.fenced != Fence::None {
                live.frame.fenced.close(&self.heap.os, guard, before - guard);
                self.note_gone(live, guard, before, is_gone);
            }
        }
    }

    /// Notes that a part of a live block's run holds no memory, or that it may.
    fn note_gone(&self, live: &Live, start: usize, end: usize, gone: bool) {
        let (run, _) = self.run_of(live);
        self.heap.inside(|_| self.heap.pages.note_gone(run, start - run, end - run, gone));
    }

    /// Lets a live block end later, where its run is long enough or the memory behind it is free; its guard
    /// moves. The block ends less than a page before its guard then, and what lies between is looked at when
    /// it is freed.
    pub(super) fn grow_guarded(&self, live: &Live, bytes: usize) -> bool {
        let (os, (run, _)) = (&self.heap.os, self.run_of(live));
        let before = self.guard_of(live);
        let longer = Live { frame: Frame { bytes, ..live.frame }, ..*live };
        let guard = self.guard_of(&longer);
        let (total, had) = (guard + os.page_bytes() - run, self.run_bytes(run));
        if total > had {
            let extend = || match self.heap_of_block(run) {
                HeapId::OWN => self.heap.large.resize_in_place(os, &self.heap.pages, run, total) == Ok(true),
                _ => self.heap.tenants.resize_in_place(&self.heap.store, run, total),
            };
            if self.heap.in_slow_path(|_| extend()) != Some(true) {
                return false;
            }
            // If the system refuses, the canary remains.
            live.frame.fenced.close(os, guard, run + self.run_bytes(run) - guard);
        }
        if guard > before {
            if !live.frame.fenced.open(os, before, guard - before) {
                return false;
            }
            if live.frame.fenced != Fence::None {
                self.note_gone(live, before, guard, false);
            }
            self.wipe(before, guard - before);
        }
        let end = live.user + live.frame.bytes;
        // SAFETY: between the block and its guard, where only the canary is.
        unsafe { at_mut::<u8>(end).write_bytes(0, (before - end).min(frame::TAIL_MOST)) };
        true
    }
}
