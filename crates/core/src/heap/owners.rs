//! Whose a block is, and who serves a thread: heaps of tenants, or the process's own.

use crate::base::sync::Ordering;
use crate::heap::Heap;
use crate::os::Os;
use crate::tenants::HeapId;

impl<O: Os> Heap<O> {
    /// The heap that the block at an address belongs to; none where it is not one of a tenant's heap.
    pub fn owner_heap(&self, address: usize) -> Option<HeapId> {
        if self.tenants.has_any() { self.tenants.heap_of(&self.pages, address) } else { None }
    }

    /// Whether there is such a heap, and it gives blocks.
    pub fn is_heap(&self, id: HeapId) -> bool {
        id == HeapId::OWN || self.tenants.is_live(id)
    }

    /// The heap that serves this thread; the process's own also where it is inside, or its heap has ended.
    pub fn scope(&self) -> HeapId {
        let word = if self.tenants.has_any() { O::heap_in_use().load(Ordering::Relaxed) } else { 0 };
        let id = HeapId(word as u64);
        if word == 0 || self.is_inside() || !self.tenants.is_live(id) { HeapId::OWN } else { id }
    }
}
