//! The arena of guarded samples: how many slots it may have, and its memory.

use super::{Guards, NOBODY, WIDE_BYTES, WIDE_SLOTS};
use crate::base::ceilings::GUARDED_SAMPLES;
use crate::base::stack::Trace;
use crate::base::sync::Ordering;
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
use crate::os::{Os, Purpose};
use crate::sources::slot::LIVE;

/// Slots where nothing is known about the system's limit on mappings.
const FEW_SLOTS: usize = 32;
/// At most this part of a process's mappings; a slot can cost two.
const MAPPINGS_SHARE: usize = 10;
const MAPPINGS_PER_SLOT: usize = 2;

impl<O: Os> Guards<O> {
    /// Makes the arena where there is none; true where there is one.
    pub fn prepare(&self, os: &O) -> bool {
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
    .min(GUARDED_SAMPLES)
}

impl<O: Os> Guards<O> {
    /// Takes the lock over from a thread that is not in this process. The data that it was changing is not
    /// trusted: blocks that are live can be freed, and their slots used again, all others are left alone.
    ///
    /// # Safety
    /// All threads that could hold the lock, but this one, stayed in the parent process.
    pub unsafe fn repair(&self, outermost: bool) {
        // SAFETY: by the caller's promise; released by the thread that seized it.
        unsafe {
            if self.state.seize(outermost) {
                let state = self.state.seized();
                (state.first, state.last) = (NOBODY, NOBODY);
                state.used = self.slot_count.load(Ordering::Relaxed);
                self.wide.store(WIDE_SLOTS, Ordering::Relaxed);
                let live = (0..(state.used + WIDE_SLOTS) as usize).filter_map(|number| self.slot(number));
                let live = live.filter(|slot| slot.state() == LIVE);
                self.live.store(live.count() as u32, Ordering::Relaxed);
                self.state.release();
            }
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_lock(&self, take: &mut dyn FnMut(&dyn AnyLock)) {
        take(&self.state);
    }
}

/// A block is large from here on. A short-lived process hardly has one, so it does not pay for the arena.
const WIDE_FROM: usize = 128 << 10;

impl<O: Os> Guards<O> {
    /// Whether a block of so many bytes may become one of the first large ones.
    #[inline]
    pub fn may_be_first(&self, bytes: usize) -> bool {
        (WIDE_FROM..=WIDE_BYTES).contains(&bytes) && self.wide.load(Ordering::Relaxed) < WIDE_SLOTS
    }

    /// A guarded block of `bytes` at a multiple of `align`, both at most a page; none where the system
    /// refuses or all slots hold live blocks.
    pub fn allocate(&self, os: &O, bytes: usize, align: usize, trace: Trace) -> Option<usize> {
        if bytes > self.page_bytes() {
            return self.allocate_wide(os, bytes, align, trace);
        }
        self.allocate_page(os, bytes, align, trace)
    }

    /// One of the first large blocks, at the end of a wide slot, for which nobody waited before.
    fn allocate_wide(&self, os: &O, bytes: usize, align: usize, trace: Trace) -> Option<usize> {
        let index = self.wide.fetch_add(1, Ordering::Relaxed);
        let number = self.slot_count.load(Ordering::Relaxed) + index;
        if index >= WIDE_SLOTS || !self.slots.ensure(os, number as usize + 1) {
            return None;
        }
        let page_bytes = self.page_bytes();
        let end = self.end_of_wide(number);
        let address = (end - bytes) & !(align - 1);
        let page = address & !(page_bytes - 1);
        let mut state = self.state.lock();
        if !os.commit(page, end - page) {
            return None;
        }
        state.samples += 1;
        state.requested += bytes as u64;
        state.open += (end - page) as u64;
        self.slot_mut(&state, number).open(page, end - page, address, bytes, trace);
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(address)
    }
}
