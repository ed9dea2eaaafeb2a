//! The heap as its engine sees it: what a slow path of the engine asks of policy and observers.

use super::Heap;
use crate::base::fault::Misuse;
use crate::base::locks::Rank;
use crate::engine::{Above, Inside};
use crate::heap::sampling::FORGOTTEN;
use crate::options::OptionId;
use crate::os::Os;

impl<O: Os> Above for Heap<O> {
    unsafe fn repair(&self, rank: Rank, outermost: bool) {
        // SAFETY: by the caller's promise.
        unsafe {
            match rank {
                Rank::Exporting => self.exporting.take_over(outermost),
                Rank::Profile => self.profile.repair(outermost),
                _ => (),
            }
        }
    }

    fn begin_process(&self) {
        self.mailbox.forget();
    }

    fn take_back_deferred(&self, inside: Inside<'_>, block: usize) -> Result<(), Misuse> {
        // A block of the hardened policy begins at a multiple; `put_back` looks at all else that a program frees.
        if self.pages.keeps_marks() && block & FORGOTTEN != 0 {
            self.profile.remove(block & !FORGOTTEN);
            return Ok(());
        }
        self.put_back(inside, block)
    }

    fn apply(&self, id: OptionId) {
        self.apply_option(id);
    }
}
