//! The meaning of an access that the system refused.

use super::Hardened;
use crate::base::fault::{Access, Fault, Misuse};
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// `Blocks::explain`.
    pub(super) fn meaning_of(&self, address: usize, access: Access) -> Option<Misuse> {
        if self.heap.sources.empties.owns(address) {
            return Some(self.heap.sources.empties.meaning_of(address, access));
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
}
