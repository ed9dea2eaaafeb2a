//! Taking a block back, and giving it to another family of functions.

use super::frame::{self, FRONT, Frame};
use super::states::State;
use super::visits::Visit;
use super::zeros;
use super::{Hardened, Live};
use crate::base::fault::{Maker, Misuse};
use crate::os::Os;

impl<O: Os> Hardened<O> {
    pub(super) fn take_back(&self, address: usize, by: Maker) -> Result<(), Misuse> {
        if self.heap.sources.empties.owns(address) {
            let empty = self.heap.sources.empties.inspect(address)?;
            self.check_empty_maker(empty, by)?;
            return self.heap.sources.empties.take_back(empty);
        }
        let visit = self.visit(address);
        if let Visit::Zombie(id) = visit {
            return self.take_late(id, address);
        }
        let live = self.inspect(address)?;
        self.check_maker(&live, by)?;
        self.take(&live)
    }

    /// Takes a live block back, whatever made it.
    pub(super) fn take(&self, live: &Live) -> Result<(), Misuse> {
        let address = live.user;
        // Of two threads that free a block at the same time one comes too late here.
        let taken = self.mark_of(address).map_or(Err(State::Never), |mark| mark.take_back(live.state()));
        taken.map_err(|state| self.no_block(address, state))?;
        self.heap.note_taken_back(address);
        if live.class.is_small() { self.retire(live) } else { self.retire_guarded(live, || self.is_short()) }
    }

    /// Clears a small block and puts it into quarantine; the block that leaves for it goes back to the heap.
    fn retire(&self, live: &Live) -> Result<(), Misuse> {
        let start = live.user - live.frame.front();
        let tail = self.room(live).min(frame::TAIL_MOST);
        if live.frame.behind {
            let place = live.frame.place(live.user, self.room(live));
            // SAFETY: the block is the heap's again; nothing else of it was ever written. Without its frame it is at
            // least as long as that.
            unsafe {
                zeros::clear(live.user, live.frame.bytes + tail);
                zeros::clear(place, FRONT);
            }
        } else {
            // SAFETY: as above.
            unsafe { zeros::clear(live.user - FRONT, FRONT + live.frame.bytes + tail) };
        }
        match self.heap.pages.class_of(start).is_small() {
            true => self.let_wait(start, live.class),
            false => self.let_wait_of_tenant(start, live.class),
        }
    }

    pub(super) fn change_maker(&self, address: usize, from: Maker, to: Maker) {
        if self.is_outside(address) {
            return;
        }
        if self.heap.sources.empties.owns(address) {
            let empty = self.heap.obeyed(self.heap.sources.empties.inspect(address));
            self.heap.obeyed(self.check_empty_maker(empty, from));
            return self.heap.sources.empties.set_maker(empty, to);
        }
        let visit = self.visit(address);
        if matches!(visit, Visit::Zombie(_)) {
            // Its frame is gone.
            return;
        }
        let live = self.heap.obeyed(self.inspect(address));
        self.heap.obeyed(self.check_maker(&live, from));
        self.reframe(&live, Frame { maker: to, ..live.frame });
    }

    /// Writes another frame around a live block.
    pub(super) fn reframe(&self, live: &Live, frame: Frame) {
        let room = self.room(&Live { frame, ..*live });
        // SAFETY: the block is its owner's, who called us, and is so long.
        unsafe { frame::write(self.secret(), live.user, frame, room) };
    }
}
