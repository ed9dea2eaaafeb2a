//! Sources of blocks that lie in no span and no run: guarded samples, blocks of no bytes, emergency memory.
//!
//! Each owns addresses of its own, by which `owner_of` knows its blocks. `engine` and `heap` call them; they sit on `os`, and
//! on `pages` for their tables. docs/design/watch.md tells of the guards.

mod emergency;
mod empty;
mod guards;
mod modules;
mod report;
mod slot;

pub use emergency::Emergency;
pub use empty::{Empties, Empty};
pub use guards::{GuardStats, Guards};
pub use report::{put_line, put_stack};

use crate::base::fault::Misuse;
use crate::base::stack::Trace;
use crate::os::Os;

pub trait Source<O: Os> {
    /// The bytes of the live block that starts at an address of this source.
    fn bytes_at(&self, address: usize) -> Result<usize, Misuse>;
    /// Whether the block there can have been asked for with `bytes`, where its block in a class would have `whole(bytes)`.
    fn fits(&self, _address: usize, _bytes: usize, _whole: &dyn Fn(usize) -> usize) -> bool {
        true
    }
    /// Start and bytes of the block at an address, where a report names them.
    fn block_at(&self, _address: usize) -> Option<(usize, usize)> {
        None
    }
    /// Takes the block back; `trace` tells of the call.
    fn free(&self, os: &O, address: usize, trace: &dyn Fn() -> Trace) -> Result<(), Misuse>;
}

pub struct Sources<O: Os> {
    pub guards: Guards<O>,
    /// Blocks of no bytes.
    pub empties: Empties,
    pub emergency: Emergency,
}

impl<O: Os> Sources<O> {
    pub const fn new() -> Self {
        Sources { guards: Guards::new(), empties: Empties::new(), emergency: Emergency::new() }
    }

    /// The source whose block starts at an address, or that alone has such addresses.
    pub fn owner_of(&self, address: usize) -> Option<&dyn Source<O>> {
        if self.empties.owns(address) {
            Some(&self.empties)
        } else if self.guards.owns(address) {
            Some(&self.guards)
        } else if self.emergency.bytes_of(address).is_some() {
            Some(&self.emergency)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod guard_tests;
