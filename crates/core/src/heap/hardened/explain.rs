//! The meaning of an access that the system refused.

use super::frame::FRONT;
use super::states::State;
use super::{Hardened, Live};
use crate::base::fault::{Access, Fault, Misuse};
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// `Blocks::explain`.
    pub(super) fn meaning_of(&self, address: usize, access: Access) -> Option<Misuse> {
        if self.heap.empties.owns(address) {
            return Some(self.heap.empties.meaning_of(address, access));
        }
        if access == Access::Execute {
            let is_ours = self.offset_of(address) < self.heap.pages.mapped_bytes();
            let block = self.around(address, self.heap.pages.class_of(address));
            return is_ours.then(|| Misuse { block, ..Misuse::at(Fault::Jump, address) });
        }
        let Some(live) = self.live_in_run(address)? else {
            return Some(Misuse::at(Fault::UseAfterFree, address));
        };
        let fault = if address < live.user { Fault::BeforeStart(access) } else { Fault::PastEnd(access) };
        Some(Misuse { address, ..self.about(fault, &live) })
    }

    /// The live block in the run that an address lies in, if that is a run of a large block.
    pub(super) fn live_in_run(&self, address: usize) -> Option<Option<Live>> {
        let (run, bytes) = self.run_around(address)?;
        // Small alignments leave few places for the block.
        let places = (run..run + bytes).step_by(FRONT).take(1 << 20);
        let mut live = places.filter(|user| self.state_of(*user) == State::Live);
        Some(live.find_map(|user| self.inspect(user).ok()))
    }

    /// Start and bytes of the run that an address lies in.
    fn run_around(&self, address: usize) -> Option<(usize, usize)> {
        let pages = &self.heap.pages;
        if pages.class_of(address) != SizeClass::LARGE {
            return None;
        }
        let mut start = pages.address_of(pages.unit_of(address));
        // Only the first unit of a run is a place where a large block starts.
        while pages.class_of(start) == SizeClass::LARGE {
            match self.heap.large.usable(pages, start) {
                Ok(bytes) if address < start + bytes => return Some((start, bytes)),
                _ => start -= UNIT_BYTES,
            }
        }
        None
    }
}
