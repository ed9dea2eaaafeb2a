//! Experience with the growth of the heap: whether it fills what it takes, and what huge pages cost (`begun`).

use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// After a slow huge page, or a refusal, so many blocks go by: ever more while none goes well. A slow one costs as much as the page
/// faults of several blocks.
const LEAST_PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 256;
pub const NONE: u32 = u32::MAX;

/// Experience with one kind of growth.
pub struct Ground {
    /// The block that tells next whether what is taken is filled.
    pub probe: AtomicU32,
    /// The one after it, of which the last blocks may still wait in a cache to be written.
    pub next: AtomicU32,
    /// Blocks that may become huge pages until then.
    pub credit: AtomicU32,
}

impl Ground {
    const fn new() -> Self {
        Ground { probe: AtomicU32::new(NONE), next: AtomicU32::new(NONE), credit: AtomicU32::new(0) }
    }
}

/// How the heap grows. Nothing here is exact: two threads at once cost a huge page at most.
pub struct Ahead {
    /// The first block that began and was not looked at yet, below how many there are; 0: none.
    pub begun: AtomicU64,
    /// Blocks that begin alone; and those that begin several at a time, for one large block.
    pub alone: Ground,
    pub several: Ground,
    /// The block that became a huge page last.
    pub newest: AtomicU32,
    /// Blocks that go by, and how many did the last time.
    pause: AtomicU32,
    last_pause: AtomicU32,
    /// By option.
    pub is_allowed: AtomicBool,
    pub nanoseconds: AtomicU64,
}

impl Ahead {
    pub const fn new() -> Self {
        Ahead {
            begun: AtomicU64::new(0),
            alone: Ground::new(),
            several: Ground::new(),
            newest: AtomicU32::new(NONE),
            pause: AtomicU32::new(0),
            last_pause: AtomicU32::new(0),
            is_allowed: AtomicBool::new(false),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// Whether there is a pause, which one more block shortens.
    pub fn is_paused(&self) -> bool {
        let left = self.pause.load(Ordering::Relaxed);
        self.pause.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    /// The system refused or was slow, or it was not.
    pub fn learn(&self, went_well: bool) {
        let last = self.last_pause.load(Ordering::Relaxed);
        let next = if went_well { 0 } else { (2 * last).clamp(LEAST_PAUSE, LONGEST_PAUSE) };
        self.last_pause.store(next, Ordering::Relaxed);
        if !went_well {
            self.pause.store(next, Ordering::Relaxed);
        }
    }
}
