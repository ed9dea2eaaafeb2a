//! Explicit caches (`tcache.create`): numbers only. Caches belong to virtual CPUs here, so a block that goes through such a number
//! goes through them.

use core::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 64;
/// As many as flags can name.
const MOST: u32 = (1 << 12) - 3;
static USED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// A number that no other has; none where all are used.
pub fn create() -> Option<u32> {
    for (number, word) in (0..).step_by(64).zip(&USED) {
        let mut used = word.load(Ordering::Relaxed);
        while used != u64::MAX {
            let bit = used.trailing_ones();
            if number + bit >= MOST {
                return None;
            }
            match word.compare_exchange(used, used | 1 << bit, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(number + bit),
                Err(now) => used = now,
            }
        }
    }
    None
}

pub fn exists(number: u32) -> bool {
    let word = USED.get((number / 64) as usize);
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (number % 64) & 1 != 0)
}

/// False where there is none of this number.
pub fn destroy(number: u32) -> bool {
    let bit = 1 << (number % 64);
    let word = USED.get((number / 64) as usize);
    word.is_some_and(|word| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
}
