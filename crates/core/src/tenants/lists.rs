//! The lists of spans that a heap has for each class which it uses: most heaps use a few.

use super::{Registry, Rooms, Tenants};
use crate::base::sync::Ordering;
use crate::central::SpanLists;
use crate::class::SizeClass;
use crate::os::Os;

/// The lists of one class of one heap. An unused one names the next.
pub(super) struct Lists {
    pub spans: SpanLists,
    next: u32,
    /// The heap that it was made for.
    heap: u32,
}

impl<O: Os> Tenants<O> {
    /// Those of a class. They belong to the holder of the rooms.
    #[allow(clippy::mut_from_ref, reason = "the entry belongs to the rooms, which the caller has for itself")]
    pub(super) fn spans<'a>(&'a self, rooms: &'a mut Rooms, class: SizeClass) -> Option<&'a mut SpanLists> {
        let number = rooms.number_for(class);
        // SAFETY: the entry is in the table since it was made, and only the holder of the rooms that name it reaches it.
        (number != 0).then(|| unsafe { &mut (*self.lists.at(number as usize)).spans })
    }

    /// The same for a look.
    pub(super) fn spans_seen<'a>(&'a self, rooms: &'a Rooms, class: SizeClass) -> Option<&'a SpanLists> {
        let number = rooms.number_for(class);
        // SAFETY: as in `spans`.
        (number != 0).then(|| unsafe { &(*self.lists.at(number as usize)).spans })
    }

    /// An entry for the lists of a heap; 0 where there is no memory. Called without rooms: the system may be asked.
    pub(super) fn make_lists(&self, os: &O, heap: u32) -> u32 {
        let mut registry = self.registry.lock();
        let number = match registry.unused_lists {
            0 => {
                let next = registry.lists + 1;
                if next as usize >= self.lists.capacity() || !self.lists.ensure(os, next as usize + 1) {
                    return 0;
                }
                registry.lists = next;
                next
            }
            unused => {
                // SAFETY: an unused entry belongs to the holder of the registry.
                registry.unused_lists = unsafe { (*self.lists.at(unused as usize)).next };
                unused
            }
        };
        // SAFETY: nobody else knows the entry.
        unsafe { self.lists.at(number as usize).write(Lists { spans: SpanLists::of(heap), next: 0, heap }) };
        number
    }

    /// Takes entries back that no rooms name any more.
    pub(super) fn unmake_lists(&self, numbers: impl Iterator<Item = u32>) {
        let mut registry = self.registry.lock();
        for number in numbers.filter(|number| *number != 0) {
            // SAFETY: the caller had it, and nobody else knows it.
            unsafe { (*self.lists.at(number as usize)).next = registry.unused_lists };
            registry.unused_lists = number;
        }
    }

    /// Finds the unused entries anew: those that no rooms name. For a child, where nobody else is at them.
    pub(super) fn find_unused_lists(&self, registry: &mut Registry) {
        registry.unused_lists = 0;
        for number in 1..=registry.lists {
            // SAFETY: the entry is in the table, and nobody else is at the unused ones.
            let entry = unsafe { &mut *self.lists.at(number as usize) };
            let is_named = self.tenant(entry.heap).is_some_and(|tenant| {
                // SAFETY: numbers, which only this thread may change.
                unsafe { (*tenant.rooms.as_ptr()).lists }.contains(&number)
            });
            if !is_named {
                entry.next = registry.unused_lists;
                registry.unused_lists = number;
            }
        }
    }

    /// Calls `take` with address and bytes of what both tables have.
    pub fn each_mapping(&self, take: &mut dyn FnMut(usize, usize)) {
        for (start, bytes) in [self.table.range(), self.lists.range(), self.slots.range()] {
            if bytes > 0 {
                take(start, bytes);
            }
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_reservation(&self, take: &mut dyn FnMut(usize, usize)) {
        for (start, bytes) in [self.table.reservation(), self.lists.reservation(), self.slots.reservation()] {
            take(start, bytes);
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub(super) fn lists_in_use(&self) -> u32 {
        let registry = self.registry.lock();
        let (mut unused, mut at) = (0, registry.unused_lists);
        while at != 0 {
            unused += 1;
            // SAFETY: an unused entry belongs to the holder of the registry.
            at = unsafe { (*self.lists.at(at as usize)).next };
        }
        registry.lists - unused
    }

    pub(super) fn note_count(&self, count: u32) {
        // Release pairs with the Acquire in `tenant`: an entry that counts is there.
        self.count.store(count, Ordering::Release);
    }
}
