//! The accesses that stepping through calls saw.

use serde::{Deserialize, Serialize};

/// Of the holds of one kind of lock.
#[derive(Serialize, Deserialize, Default, Clone, Debug, PartialEq)]
pub struct OfLock {
    pub name: String,
    pub taken: u64,
    /// Lines that came from another actor while it was held.
    pub moved: u64,
}

#[derive(Serialize, Deserialize, Default, Clone, Debug, PartialEq)]
pub struct Seen {
    pub calls: u64,
    /// The actors that made them, a bit each.
    pub actors: [u64; 4],
    pub instructions: u64,
    /// Locked instructions, and those on lines that two actors wrote.
    pub locked: u64,
    pub locked_on_shared: u64,
    /// Lines that came from another actor who had written them, and of these the ones outside of all holds
    /// that are no line of a lock.
    pub moved: u64,
    pub moved_outside: u64,
    pub locks: Vec<OfLock>,
    /// Places in the program, as distances from its begin, that moved lines outside; the busiest first.
    pub places: Vec<(u64, u64)>,
}
