//! The transfer arrays: one for each class, in each domain of CPUs that share a cache.
//!
//! The arrays of the domain that is used first lie in the heap, those of a further one in a mapping that is made when a
//! thread of it comes here. A process that stays in one domain has no others, whichever it is.

use super::places;
use super::transfer::Transfer;
use crate::base::round_up;
use crate::base::sync::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::base::ticks::Ticks;
use crate::class::{SizeClass, TABLE_LEN};
use crate::os::{MOST_DOMAINS, Mutex, Os, Purpose};

/// The memory of an empty transfer array went back to the system.
pub const FORGOTTEN: u32 = u32::MAX;

/// The transfer array of a class in a domain, and what is known of it without its lock. May be all zero at first.
#[repr(align(128))]
pub struct Array<O: Os> {
    pub transfer: Mutex<Transfer, O>,
    /// A copy of the array's length, read without the lock to avoid it.
    pub cached: AtomicU32,
    /// A copy of its capacity.
    pub capacity: AtomicU32,
    /// For how many ticks the array was empty, or FORGOTTEN.
    pub empty_for: AtomicU32,
    /// The number of the domain whose array had blocks when this one was empty last.
    pub donor: AtomicU8,
}

impl<O: Os> Array<O> {
    pub const fn new() -> Self {
        Array {
            transfer: Mutex::new(Transfer::new()),
            cached: AtomicU32::new(0),
            capacity: AtomicU32::new(0),
            empty_for: AtomicU32::new(FORGOTTEN),
            donor: AtomicU8::new(0),
        }
    }

    /// Copies what is read without the lock; the caller holds it.
    pub fn note(&self, transfer: &Transfer) {
        self.cached.store(transfer.len() as u32, Ordering::Relaxed);
        self.capacity.store(transfer.capacity() as u32, Ordering::Relaxed);
        self.empty_for.store(0, Ordering::Relaxed);
    }

    /// Whether nothing is in it, as far as the copies tell.
    pub fn is_empty(&self) -> bool {
        self.cached.load(Ordering::Relaxed) == 0
    }

    /// Whether the array has no place, as far as the copies tell.
    pub fn is_full(&self) -> bool {
        self.cached.load(Ordering::Relaxed) >= self.capacity.load(Ordering::Relaxed)
    }

    /// Fills `out` from an array, unless its lock is another's; how many.
    pub fn take(&self, out: &mut [usize]) -> usize {
        if self.is_empty() || out.is_empty() {
            return 0;
        }
        // A holder without a CPU is not waited for: there are the spans.
        let Some(mut transfer) = self.transfer.lock_soon() else { return 0 };
        let count = transfer.take(out);
        self.note(&transfer);
        count
    }

    /// Releases the memory of an array that nobody has used for so many ticks.
    pub fn forget(&self, os: &O, ticks: Ticks) {
        let empty_for = self.empty_for.load(Ordering::Relaxed);
        if empty_for == FORGOTTEN || !self.is_empty() {
            return;
        }
        if empty_for < ticks.0 {
            return self.empty_for.store(empty_for + 1, Ordering::Relaxed);
        }
        let unused = self.transfer.lock().forget();
        if let Some((address, used)) = unused {
            // Without the lock: nothing is put there meanwhile.
            os.release(address, round_up(used, os.page_bytes()));
        }
        let mut transfer = self.transfer.lock();
        if unused.is_some() {
            transfer.come_back();
        }
        if transfer.len() == 0 {
            self.empty_for.store(FORGOTTEN, Ordering::Relaxed);
        }
    }

    /// Puts right what a thread that stayed in the parent of this process was changing.
    ///
    /// # Safety
    /// All threads that could hold the lock, but this one, stayed in the parent process.
    pub unsafe fn repair(&self, outermost: bool) {
        // SAFETY: by the caller's promise; released by the thread that seized it.
        unsafe {
            if self.transfer.seize(outermost) {
                // Blocks count once they are there, and count no more before they are taken: nothing to put right.
                self.note(self.transfer.seized());
                self.transfer.release();
            }
        }
        if outermost && let Some(mut transfer) = self.transfer.try_lock() {
            transfer.come_back();
        }
    }
}

/// The arrays of a further domain, followed by the memory of their entries.
type Row<O> = [Array<O>; TABLE_LEN];

/// The domains that are used, and the places of their arrays.
pub struct Domains {
    /// A domain's number here, plus 1, in the order of their first use; 0 before.
    numbers: [AtomicU8; MOST_DOMAINS],
    count: AtomicUsize,
    /// The start of the arrays of each further domain, by its number here; 0 while it has none.
    pub rows: [AtomicUsize; MOST_DOMAINS],
}

impl Domains {
    pub const fn new() -> Self {
        Domains {
            numbers: [const { AtomicU8::new(0) }; MOST_DOMAINS],
            count: AtomicUsize::new(0),
            rows: [const { AtomicUsize::new(0) }; MOST_DOMAINS],
        }
    }

    pub const fn row_bytes<O: Os>() -> usize {
        round_up(size_of::<Row<O>>(), 1 << 16)
    }

    /// The number here of the domain that this thread runs in.
    pub fn current<O: Os>(&self, os: &O) -> usize {
        let domain = os.domain();
        let number = self.numbers.get(domain).map_or(1, |number| number.load(Ordering::Relaxed));
        if number == 0 { self.meet(os, domain) } else { usize::from(number) - 1 }
    }

    /// How many there are, at least 1.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed).clamp(1, MOST_DOMAINS)
    }

    /// Whether there are arrays of a further domain, or are about to be.
    pub fn are_several(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 1
    }

    #[cold]
    #[inline(never)]
    fn meet<O: Os>(&self, os: &O, domain: usize) -> usize {
        let number = self.count.fetch_add(1, Ordering::Relaxed).min(MOST_DOMAINS - 1);
        // A domain without memory for its own arrays uses the first ones.
        let number = if number == 0 || self.make_row(os, number) { number } else { 0 };
        let Some(place) = self.numbers.get(domain) else { return 0 };
        // Two threads may be here for one domain: the number of the slower one stays unused.
        match place.compare_exchange(0, number as u8 + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => number,
            Err(first) => usize::from(first) - 1,
        }
    }

    fn make_row<O: Os>(&self, os: &O, number: usize) -> bool {
        let (head, all) = (Self::row_bytes::<O>(), Self::row_bytes::<O>() + places::ALL_BYTES);
        let Some(base) = os.reserve(all) else { return false };
        if !os.commit(base, head) {
            os.unmap(base, all);
            return false;
        }
        os.name_pages(base, all, Purpose::Tables);
        // Release pairs with the Acquire in `row`.
        self.rows.iter().skip(number).take(1).for_each(|row| row.store(base, Ordering::Release));
        true
    }

    /// The array of a class in the domain of this number; none where that is the first, or has none.
    pub fn array<O: Os>(&self, number: usize, class: SizeClass) -> Option<&Array<O>> {
        let row = self.rows.get(number)?.load(Ordering::Acquire);
        if row == 0 {
            return None;
        }
        // SAFETY: a row begins there, which stays as long as the heap, and is made of atomics.
        let row: &Row<O> = unsafe { &*core::ptr::with_exposed_provenance(row) };
        row.get(class.index())
    }

    pub fn each_row(&self, take: impl FnMut(usize)) {
        let starts = self.rows.iter().map(|row| row.load(Ordering::Acquire));
        starts.filter(|start| *start != 0).for_each(take);
    }

    /// The start of the arrays' memory for the domain of this number; `first` is that of the first domain.
    pub fn memory<O: Os>(&self, number: usize, first: usize) -> usize {
        match self.rows.get(number).map_or(0, |row| row.load(Ordering::Acquire)) {
            0 => first,
            row => row + Self::row_bytes::<O>(),
        }
    }
}
