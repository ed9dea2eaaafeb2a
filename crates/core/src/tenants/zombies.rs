//! Heaps that have ended although blocks of theirs are with the program, which promised to do nothing with them but free them.
//!
//! A policy that can tell a late access closes their memory; then no block comes back to a span, no span is closed, and the heap
//! goes with the last late free. States go from `NO` to `CLOSING` and on to `CLOSED`, or back.

use super::{DRAINING, HeapId, Tenant, Tenants};
use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::central::Store;
use crate::os::Os;

const NO: u32 = 0;
/// A thread closes its memory: others who free wait.
const CLOSING: u32 = 1;
const CLOSED: u32 = 2;

/// A thread ends it.
const CLAIMED: u64 = 3 << 62;
/// More blocks than there are: until the program ends it, it stays.
const UNKNOWN: u64 = 1 << 62;

/// Whether frees of a heap's blocks change their marks only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zombie {
    No,
    /// That is about to be known.
    Soon,
    Yes,
}

impl<O: Os> Tenants<O> {
    pub fn zombie(&self, id: HeapId) -> Zombie {
        match self.find(id).map_or(NO, |tenant| tenant.zombie.load(Ordering::SeqCst)) {
            NO => Zombie::No,
            CLOSING => Zombie::Soon,
            _ => Zombie::Yes,
        }
    }

    /// Has those who free a block of a heap that drains wait. False where it is gone. From then on no span of it is closed or loses
    /// pages, and no thread is at one.
    pub fn begin_condemning(&self, store: &Store<O>, id: HeapId) -> Result<bool, Misuse> {
        let Some(tenant) = self.find(id) else { return Ok(false) };
        // Under the lock: an entry is another heap's only after its rooms were made anew.
        let rooms = tenant.rooms.lock();
        if self.find(id).is_none() || tenant.state.load(Ordering::Acquire) != DRAINING {
            return Ok(false);
        }
        // SeqCst: the policy looks after this for those who are in its blocks, and they look here after they said so.
        tenant.zombie.store(CLOSING, Ordering::SeqCst);
        drop(rooms);
        drop(self.alone(store, tenant));
        Ok(true)
    }

    /// Goes on as a zombie with so many blocks; none: as a heap that drains.
    pub fn end_condemning(&self, store: &Store<O>, id: HeapId, blocks: Option<u64>) {
        let Some(tenant) = self.find(id) else { return };
        if let Some(blocks) = blocks {
            tenant.left.store(blocks, Ordering::Relaxed);
        }
        tenant.zombie.store(if blocks.is_some() { CLOSED } else { NO }, Ordering::SeqCst);
        if blocks.is_none() {
            self.finish_if_drained(store, tenant, id);
        }
    }

    /// Takes the end of a zombie over whose last block was freed; false where another thread did.
    pub fn claim_last(&self, id: HeapId) -> bool {
        self.find(id).is_some_and(|tenant| {
            tenant.left.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// The same, whatever of it is left.
    pub fn claim(&self, id: HeapId) -> bool {
        let claimed = |left: u64| (left < CLAIMED / 2).then_some(CLAIMED);
        // Not while another thread closes its memory.
        self.find(id).filter(|tenant| tenant.zombie.load(Ordering::SeqCst) == CLOSED).is_some_and(|tenant| {
            tenant.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, claimed).is_ok()
        })
    }

    /// Leaves a zombie that was claimed as it is: another call may end it.
    pub fn unclaim(&self, id: HeapId) {
        if let Some(tenant) = self.find(id) {
            tenant.left.store(0, Ordering::Release);
        }
    }

    /// Counts a late free of a zombie's block; true where it was the last.
    pub fn note_late(&self, id: HeapId) -> bool {
        self.find(id).is_some_and(|tenant| {
            tenant.late.fetch_add(1, Ordering::Relaxed);
            tenant.left.fetch_sub(1, Ordering::AcqRel) == 1
        })
    }

    /// In a child: the thread that closed the memory of a zombie, or opened it, stayed behind half way.
    pub(super) fn take_zombies_over(&self) {
        for (_, tenant) in self.all() {
            if tenant.zombie.load(Ordering::Relaxed) == CLOSING {
                tenant.left.store(UNKNOWN, Ordering::Relaxed);
                tenant.zombie.store(CLOSED, Ordering::Relaxed);
            }
            if tenant.left.load(Ordering::Relaxed) >= CLAIMED / 2 {
                tenant.left.store(UNKNOWN, Ordering::Relaxed);
            }
        }
    }
}

impl<O: Os> Tenant<O> {
    /// Whether no span of it may be closed, or lose pages.
    pub(super) fn is_zombie(&self) -> bool {
        self.zombie.load(Ordering::Acquire) != NO
    }

    /// How many blocks of a zombie were not freed yet, where that is known.
    pub(super) fn left_of_zombie(&self) -> Option<u64> {
        let left = self.left.load(Ordering::Relaxed);
        (self.zombie.load(Ordering::Relaxed) == CLOSED && left < UNKNOWN / 2).then_some(left)
    }
}
