//! Partitions by type: heaps for the tokens that a compiler gives to allocations (LLVM's AllocToken).
//!
//! A block never has the address of a freed one of another partition's type beside or in the place of it, as long as spans of both
//! are in use: each partition has spans of its own.

use super::Hardened;
use crate::base::sync::{AtomicU64, Ordering};
use crate::heap::{HeapId, Made};
use crate::os::Os;

/// As many as two hashes and the bit for types with pointers tell apart.
pub const PARTITIONS: usize = 16;
const PARTS: u64 = PARTITIONS as u64;
/// A token below this is counted, not hashed over all words.
const COUNTED: u64 = 1 << 32;

pub struct Partitions {
    heaps: [AtomicU64; PARTITIONS],
}

impl Partitions {
    pub const fn new() -> Self {
        Partitions { heaps: [const { AtomicU64::new(0) }; PARTITIONS] }
    }
}

/// The partition of a token. Hashes have types with pointers in the upper half of all words.
fn number_of(token: u64) -> usize {
    let number = match token {
        ..COUNTED => token % PARTS,
        hash => (hash >> 63) * (PARTS / 2) + hash % (PARTS / 2),
    };
    number as usize
}

impl<O: Os> Hardened<O> {
    /// The heap for blocks of a token: the thread's own where a tenant's serves it; the process's where there is no memory.
    pub(super) fn partition_of(&self, token: u64) -> HeapId {
        let scope = self.heap.scope();
        let number = number_of(token);
        let Some(place) = self.partitions.heaps.get(number).filter(|_| scope == HeapId::OWN) else {
            return scope;
        };
        let known = HeapId(place.load(Ordering::Acquire));
        if self.heap.is_heap(known) { known } else { self.new_partition(place, known, number) }
    }

    #[cold]
    #[inline(never)]
    fn new_partition(&self, place: &AtomicU64, known: HeapId, number: usize) -> HeapId {
        let mut name = *b"tokens 00";
        let digits = [number / 10, number % 10].map(|digit| b'0' + digit as u8);
        name.iter_mut().skip(7).zip(digits).for_each(|(place, digit)| *place = digit);
        let made = Made { name: &name, parent: HeapId::OWN, limit: None, on_limit: None, argument: 0 };
        let Ok(id) = self.heap.make_heap(made) else { return HeapId::OWN };
        match place.compare_exchange(known.0, id.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => id,
            Err(others) => {
                let _ = self.heap.end_heap(id, crate::heap::Ending::FreeAll);
                HeapId(others)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_pointers_and_without_are_never_together() {
        for hash in [COUNTED, 12345 << 40, 1 << 62, u64::MAX >> 1] {
            assert_ne!(number_of(hash), number_of(hash | 1 << 63));
            assert!(number_of(hash) < PARTITIONS / 2);
        }
        let few: Vec<usize> = (0..PARTS).map(number_of).collect();
        assert!(few.into_iter().eq(0..PARTITIONS));
    }
}
