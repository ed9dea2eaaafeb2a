//! How an exchange of two words is told, by every front.

/// What `Front::exchange` answers where it did nothing: no address of a block.
pub const NOT_EXCHANGED: usize = 1;

/// The word that counts exchanges: where it is in its shard, what it is, and what it is to be.
#[derive(Clone, Copy)]
pub struct Turn {
    pub at: usize,
    pub now: usize,
    pub next: usize,
}
