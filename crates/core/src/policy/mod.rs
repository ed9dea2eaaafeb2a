//! The default policy: what happens to a block that leaves for the program, and to one that arrives from it.
//!
//! A cached block carries a key (`keys`), and a block of the engine is `Leaving` until the policy has made an address of it: no
//! way out can forget the key. `heap` asks at each way in and out. The hardened policy (`crate::hardened`) is no part of it: it
//! changes sizes, alignments and what realloc does, so it is a floor above the heap (docs/decisions/0116).

mod keys;

pub use keys::{KEYED_BYTES, Keys};

/// A block on its way to the program, or none. Only a policy turns it into an address.
#[must_use]
#[derive(Clone, Copy)]
pub struct Leaving(usize);

impl Leaving {
    /// 0 is no block.
    #[inline(always)]
    pub fn new(block: usize) -> Self {
        Leaving(block)
    }

    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}
