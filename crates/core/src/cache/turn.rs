//! How an exchange of two words is told, by every front.

/// The answer of `Front::exchange` if it did nothing: no address of a block.
pub const NOT_EXCHANGED: usize = 1;

/// The word that counts exchanges: its place in its shard, its value, and its next one.
#[derive(Clone, Copy)]
pub struct Turn {
    pub at: usize,
    pub now: usize,
    pub next: usize,
}
