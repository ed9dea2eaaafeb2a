//! Copies that the C library is asked for: looked at before a byte of a small block is written.
//!
//! A large block has guards, or its canary when it is freed; memory that is no block's is not looked at.

use super::Hardened;
use super::frame;
use super::inspect::place_of;
use super::states::State;
use crate::base::fault::{Access, Fault, Misuse};
use crate::class::{MIN_ALIGN, SizeClass};
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// The misuse in a write of `bytes` from `address` on, if that is among small blocks.
    #[inline]
    pub(super) fn look_at_copy(&self, address: usize, bytes: usize) -> Result<(), Misuse> {
        let class = self.heap.pages.class_of_block(address);
        if !class.is_small() || bytes == 0 || self.is_zombies(address) || self.heap.is_aborting() {
            return Ok(());
        }
        // Most copies begin where their block does.
        let state = self.state_of(address);
        if address.is_multiple_of(MIN_ALIGN) && state.is_live() {
            // SAFETY: a live block has a frame.
            if let Ok(frame) = unsafe { frame::read(self.secret(), address, place_of(address, class, state)) }
            {
                let fits = bytes <= frame.bytes;
                return if fits { Ok(()) } else { Err(outside(address, (address, frame.bytes))) };
            }
        }
        self.look_inside(address, bytes, class)
    }

    #[inline(never)]
    fn look_inside(&self, address: usize, bytes: usize, class: SizeClass) -> Result<(), Misuse> {
        let Some((start, length)) = self.heap.block_of(address) else { return Ok(()) };
        if let Some((user, had)) = self.around(address, class) {
            return match address >= user && address + bytes <= user + had {
                true => Ok(()),
                false => Err(outside(address, (user, had))),
            };
        }
        // A block whose frame is damaged is told when it is freed; a block that a slow path holds is none yet.
        let mut users = (start..start + length).step_by(MIN_ALIGN);
        let state = |user: usize| self.state_of(user);
        if users.clone().any(|user| state(user).is_live()) {
            return Ok(());
        }
        let was_somebodys = users.any(|user| state(user) == State::Freed);
        let fault = if was_somebodys { Fault::AfterFree } else { Fault::NoBlock };
        Err(Misuse::at(fault(Access::Write), address))
    }
}

/// A write that begins before a block or ends behind it.
fn outside(address: usize, block: (usize, usize)) -> Misuse {
    let (user, bytes) = block;
    let (fault, at) = match address < user {
        true => (Fault::BeforeStart(Access::Write), address),
        // Its first byte behind the block.
        false => (Fault::PastEnd(Access::Write), address.max(user + bytes)),
    };
    Misuse { block: Some(block), ..Misuse::at(fault, at) }
}
