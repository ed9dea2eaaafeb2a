//! The arena of guarded samples: how many slots it may have, and its memory.

use super::{Guards, WIDE_BYTES, WIDE_SLOTS};
use crate::base::sync::Ordering;
use crate::os::{Os, Purpose};

const MOST_SLOTS: usize = 256;
/// Slots where nothing is known about the system's limit on mappings.
const FEW_SLOTS: usize = 32;
/// At most this part of a process's mappings; a slot can cost two.
const MAPPINGS_SHARE: usize = 10;
const MAPPINGS_PER_SLOT: usize = 2;

impl<O: Os> Guards<O> {
    /// True where there is an arena; `made` is called when this call made it.
    pub fn prepare(&self, os: &O, made: impl FnOnce()) -> bool {
        if self.base.load(Ordering::Acquire) != 0 {
            return true;
        }
        let mut state = self.state.lock();
        if self.base.load(Ordering::Relaxed) == 0 {
            if state.failed || !self.reserve(os) {
                state.failed = true;
                return false;
            }
            state.random = self.base.load(Ordering::Relaxed) as u64 ^ os.now();
            drop(state);
            made();
        }
        true
    }

    /// Asks for how many slots the system has room, once: before a file that is open for an instant can be in the way.
    pub fn learn(&self, os: &O) {
        if self.slots_allowed.load(Ordering::Relaxed) == 0 {
            self.slots_allowed.store(slots_allowed(os) + 1, Ordering::Relaxed);
        }
    }

    fn reserve(&self, os: &O) -> bool {
        let page = os.page_bytes();
        self.learn(os);
        let slots = self.slots_allowed.load(Ordering::Relaxed).saturating_sub(1);
        let bytes = (2 * slots + 1) * page + WIDE_SLOTS as usize * (WIDE_BYTES + page);
        if slots == 0 || !self.slots.start(os, slots + WIDE_SLOTS as usize) {
            return false;
        }
        let Some(base) = os.reserve_apart(bytes) else {
            self.slots.stop(os);
            return false;
        };
        os.name_pages(base, bytes, Purpose::Guards);
        self.page.store(page, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.slot_count.store(slots as u32, Ordering::Relaxed);
        // Release pairs with the Acquire in `prepare` and `owns`.
        self.base.store(base, Ordering::Release);
        true
    }

    /// Address and bytes of the arena, and of the slots' descriptors; bytes 0 where there is none yet.
    pub fn mappings(&self) -> [(usize, usize); 2] {
        [(self.base.load(Ordering::Acquire), self.bytes.load(Ordering::Relaxed)), self.slots.range()]
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_reservation(&self, mut take: impl FnMut(usize, usize)) {
        let [arena, _] = self.mappings();
        [arena, self.slots.reservation()].into_iter().for_each(|(start, bytes)| take(start, bytes));
    }
}

/// Slots that the system's limit on mappings leaves room for.
fn slots_allowed<O: Os>(os: &O) -> usize {
    let mut text = [0u8; 24];
    let length = os.read_file(c"/proc/sys/vm/max_map_count", &mut text).unwrap_or(0);
    let digits = text.get(..length).unwrap_or(&[]).trim_ascii();
    match str::from_utf8(digits).ok().and_then(|digits| digits.parse::<usize>().ok()) {
        Some(most) => (most / MAPPINGS_SHARE).saturating_sub(1) / MAPPINGS_PER_SLOT,
        None => FEW_SLOTS,
    }
    .min(MOST_SLOTS)
}
