//! The places of blocks in their memory, as marks and spans say: no frame is read.

use super::Hardened;
use super::frame::FRONT;
use crate::class::{SizeClass, UNIT_BYTES};
use crate::heap::HeapId;
use crate::os::Os;
use crate::tenants::Zombie;

/// How far behind the start of its memory a small block may begin.
pub(super) fn fronts() -> impl Iterator<Item = usize> {
    [0, FRONT].into_iter().chain((5..=12).map(|shift| 1 << shift))
}

impl<O: Os> Hardened<O> {
    /// The heap that a block of it is replaced in.
    pub(super) fn heap_of_block(&self, address: usize) -> HeapId {
        self.heap.owner_heap(address).unwrap_or(HeapId::OWN)
    }

    /// Whether an address lies in a heap whose memory may be closed.
    #[inline]
    pub(super) fn is_zombies(&self, address: usize) -> bool {
        self.heap.owner_heap(address).is_some_and(|id| self.heap.tenants.zombie(id) == Zombie::Yes)
    }

    /// Start and bytes of the run that an address lies in.
    pub(super) fn run_around(&self, address: usize) -> Option<(usize, usize)> {
        let pages = &self.heap.pages;
        if pages.class_of(address) != SizeClass::LARGE {
            return None;
        }
        if let Some((id, _)) = pages.tenant_of(address) {
            let span = pages.span(id);
            let run = (pages.address_of(span.start.get()), span.bytes());
            return (!span.class().is_small()).then_some(run);
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

    /// The live block in the memory of one.
    pub(super) fn live_between(&self, start: usize, end: usize) -> Option<usize> {
        let is_live = |user: &usize| *user < end && self.state_of(*user).is_live();
        if self.heap.pages.class_of_block(start).is_small() {
            return fronts().map(|front| start + front).find(is_live);
        }
        // Small alignments leave few places for the block.
        let far = (24..usize::BITS).map(|shift| start.wrapping_add(1 << shift)).filter(|user| *user > start);
        (start..end).step_by(FRONT).take(1 << 20).find(is_live).or_else(|| far.into_iter().find(is_live))
    }

    /// The live block around an address of a zombie, and the most bytes that it can have had.
    pub(super) fn around_of_zombie(&self, address: usize) -> Option<(usize, usize)> {
        let (start, bytes) = match self.heap.pages.class_of_block(address).is_small() {
            true => self.heap.block_of(address)?,
            false => self.run_around(address)?,
        };
        let user = self.live_between(start, start + bytes)?;
        Some((user, start + bytes - user))
    }

    /// Whether a block's heap waits for its last one.
    pub(super) fn goes_at_once(&self, start: usize) -> bool {
        self.heap.owner_heap(start).is_some_and(|id| !self.heap.tenants.is_live(id))
    }
}
