//! Replays a trace on an allocator, in a process of its own.
//!
//! ```text
//!   tenants   the blocks that end together, by a thread that came for them
//!   survey    what a trace holds; every byte is checked before anything is started
//!   numbers   which slot an object has      script   an epoch as words to replay
//!   cuts      slices of an epoch that can be replayed one after the other
//!   director  starts a replayer, hands it slices, looks at its memory in between
//!      ║ memory: words, slots and states that both map
//!   replayer  a thread for each stream; its own memory is none of the allocator's
//!   heaps     a heap of vcmalloc for each tenant
//!   fit       how much of large blocks is touched; how near a replay comes to what was recorded
//! ```
//!
//! docs/design/replay.md says why it is so.

mod cuts;
pub mod director;
pub mod fit;
mod futex;
mod heap;
mod heaps;
mod memory;
mod numbers;
pub mod replayer;
mod script;
pub mod survey;
pub mod tenants;
