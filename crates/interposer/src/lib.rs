//! libvcm_interposer.so: stands before any allocator and writes down what the program asks of it.
//!
//! Owns no block and no header in one: each call goes on to the allocator behind it, found by RTLD_NEXT. Promises that a call
//! that is not recorded costs three loads; that nothing here allocates, opens a descriptor that stays, or changes errno; that a
//! child of fork is not recorded. docs/design/record.md says how.
//!
//! ```text
//! malloc operators     the functions that the program calls
//! start                when the first of them is called: the allocator behind, the memory that the tool shares
//! record               an event into the ring of this CPU
//! sequence             the same without locked instructions
//! next                 the allocator behind; a few blocks for the time before it is known
//! layout               what is shared with the tool, compiled into both and into the core, where it lies
//! ```
// As in the libraries (crates/exports/src/lib.rs).
#![cfg_attr(panic = "abort", no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

#[path = "../../core/src/observe/recording/layout.rs"]
#[allow(dead_code, reason = "the tool and the core use the rest")]
mod layout;
mod malloc;
mod next;
mod operators;
mod record;
mod sequence;
mod start;

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: abort has no condition.
    unsafe { libc::abort() }
}
