//! The blocks of a heap of a tenant that are in use.

use super::Hardened;
use crate::heap::HeapId;
use crate::os::Os;
use crate::tenants::Zombie;

impl<O: Os> Hardened<O> {
    /// Calls `take` with each block of a heap that is in use, and its bytes.
    pub(super) fn each_live_of(&self, id: HeapId, mut take: impl FnMut(usize, usize)) {
        let is_zombie = self.heap.tenants.zombie(id) != Zombie::No;
        self.heap.each_block_of(id, |start, bytes| {
            let Some(user) = self.live_between(start, start + bytes) else { return };
            if self.heap.owner_heap(user) != Some(id) {
            } else if is_zombie || !self.heap.pages.class_of_block(start).is_small() {
                // A run may be closed by now, and its frame with it.
                take(user, start + bytes - user);
            } else if let Ok(live) = self.inspect(user) {
                take(user, live.frame.bytes);
            } else if self.state_of(user).is_live() {
                // Its frame is lost: the next free says so.
                take(user, 0);
            }
        });
    }
}
