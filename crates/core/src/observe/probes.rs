//! The probes: a tracer outside the process is told of samples, without any of our code being asked to
//! (docs/design/probes.md).
//!
//! Two functions of the library do nothing; a tracer stops at them and reads their arguments. `free` is told of
//! announced blocks only, so that these are remembered: their addresses, in buckets of a cache line.

use crate::base::ceilings::ANNOUNCED_SAMPLES;
use crate::base::chance::sampled_chance;
use crate::base::place::Places;
use crate::base::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::os::{Os, Purpose};
use core::mem::offset_of;
use core::sync::atomic::AtomicU16;

const BUCKETS: usize = ANNOUNCED_SAMPLES / BUCKET_PLACES;
/// Places that an address may be in.
const BUCKET_PLACES: usize = 8;
const BYTES: usize = ANNOUNCED_SAMPLES * size_of::<AtomicUsize>();

/// The parts of a library that tracers use.
#[derive(Clone, Copy)]
pub struct Probes {
    /// Not 0 while one is attached: the system counts there.
    pub semaphore: &'static AtomicU16,
    /// Called with a block, the bytes that were asked for, and the bytes of the heap that it stands for.
    pub allocated: extern "C" fn(usize, usize, u64),
    /// Called with a block that `allocated` was called with, before it can be handed out again.
    pub freed: extern "C" fn(usize),
}

/// The probes of a heap. Zeroed: none. Any thread may call, without a lock.
pub struct Probing {
    probes: Option<Probes>,
    /// As somebody saw it last.
    attached: AtomicBool,
    /// The table of announced blocks, 0 before the first one; and its length.
    table: AtomicUsize,
    bytes: AtomicUsize,
    /// Blocks in it.
    announced: AtomicUsize,
}

#[repr(C, align(64))]
struct Bucket([AtomicUsize; BUCKET_PLACES]);

impl Probing {
    pub const fn new() -> Self {
        Probing {
            probes: None,
            attached: AtomicBool::new(false),
            table: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            announced: AtomicUsize::new(0),
        }
    }

    pub const fn of(probes: Probes) -> Self {
        Probing { probes: Some(probes), ..Self::new() }
    }

    pub(crate) const fn places(list: Places, at: usize) -> Places {
        list.mapping("announced", at + offset_of!(Self, table), at + offset_of!(Self, bytes))
    }

    /// Whether a tracer is attached, by the word that the system writes.
    #[inline]
    fn is_wanted(&self) -> bool {
        self.probes.is_some_and(|probes| probes.semaphore.load(Ordering::Relaxed) != 0)
    }

    /// Whether what was noted is no more so.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.is_wanted() != self.is_attached()
    }

    /// Notes whether a tracer is attached now.
    pub fn look(&self) {
        self.attached.store(self.is_wanted(), Ordering::Relaxed);
    }

    #[inline]
    pub fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Relaxed)
    }

    /// Tells of a sample. A block that finds no place is not told of at all, so that nobody takes it for live for ever.
    pub fn allocated<O: Os>(&self, os: &O, address: usize, bytes: usize, mean: u64) {
        let Some(probes) = self.probes.filter(|_| self.is_attached()) else { return };
        if self.remember(os, address) {
            // A request of none counts as one byte where samples are drawn, and here.
            let bytes = bytes.max(1);
            let weight = bytes as f64 / sampled_chance(bytes as u64, mean) + 0.5;
            (probes.allocated)(address, bytes, weight as u64);
        }
    }

    /// Whether any block was told of whose free was not.
    #[inline]
    pub fn has_announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed) != 0
    }

    /// Tells of the free of a block, if it was told of before.
    #[inline]
    pub fn freed(&self, address: usize) {
        // The caller owns the block: the thread that announced it did so before.
        if self.announced.load(Ordering::Relaxed) != 0 && self.forget(address) {
            self.tell_freed(address);
        }
    }

    #[cold]
    fn tell_freed(&self, address: usize) {
        if let Some(probes) = self.probes {
            (probes.freed)(address);
        }
    }

    fn remember<O: Os>(&self, os: &O, address: usize) -> bool {
        let Some(bucket) = self.made(os) else { return false };
        // Counted before it can be found.
        self.announced.fetch_add(1, Ordering::Relaxed);
        let taken = bucket_of(bucket, address)
            .0
            .iter()
            .any(|place| place.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        if !taken {
            self.announced.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    fn forget(&self, address: usize) -> bool {
        let table = self.table.load(Ordering::Acquire);
        if table == 0 {
            return false;
        }
        let is_here = |place: &&AtomicUsize| place.load(Ordering::Relaxed) == address;
        let Some(place) = bucket_of(table, address).0.iter().find(is_here) else { return false };
        place.store(0, Ordering::Relaxed);
        self.announced.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// The table, made if there is none; none where the system gives no memory.
    fn made<O: Os>(&self, os: &O) -> Option<usize> {
        match self.table.load(Ordering::Acquire) {
            0 => self.make(os),
            table => Some(table),
        }
    }

    #[cold]
    fn make<O: Os>(&self, os: &O) -> Option<usize> {
        let fresh = os.map(BYTES)?;
        os.name_pages(fresh, BYTES, Purpose::Tables);
        match self.table.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.bytes.store(BYTES, Ordering::Relaxed);
                Some(fresh)
            }
            Err(other) => {
                os.unmap(fresh, BYTES);
                Some(other)
            }
        }
    }

    /// Address and bytes of the table.
    pub fn mapping(&self) -> (usize, usize) {
        (self.table.load(Ordering::Acquire), BYTES)
    }
}

fn bucket_of(table: usize, address: usize) -> &'static Bucket {
    // Fibonacci hashing, as in `Profile::record_head`; the divisor is a power of two.
    let hash = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
    let bucket = table + hash % BUCKETS * size_of::<Bucket>();
    // SAFETY: inside the table, which has memory, is zero at first and stays mapped.
    unsafe { &*core::ptr::with_exposed_provenance::<Bucket>(bucket) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Request};
    use std::sync::Mutex;

    static SEMAPHORE: AtomicU16 = AtomicU16::new(1);
    static TOLD: Mutex<Vec<(usize, usize, u64)>> = Mutex::new(Vec::new());
    /// One test at a time looks at what was told.
    static TURN: Mutex<()> = Mutex::new(());

    static PROBES: Probes = Probes { semaphore: &SEMAPHORE, allocated: note_allocated, freed: note_freed };

    extern "C" fn note_allocated(address: usize, bytes: usize, weight: u64) {
        TOLD.lock().unwrap().push((address, bytes, weight));
    }

    extern "C" fn note_freed(address: usize) {
        TOLD.lock().unwrap().push((address, 0, 0));
    }

    fn told() -> Vec<(usize, usize, u64)> {
        std::mem::take(&mut *TOLD.lock().unwrap())
    }

    fn attached() -> Probing {
        let probing = Probing::of(PROBES);
        assert!(probing.has_changed());
        probing.look();
        assert!(probing.is_attached() && !probing.has_changed());
        told();
        probing
    }

    #[test]
    fn a_free_is_told_of_once_and_only_where_the_block_was() {
        let _turn = TURN.lock();
        let (probing, os) = (attached(), Fake::default());
        probing.freed(0x1000);
        probing.allocated(&os, 0x1000, 1000, 1 << 19);
        probing.freed(0x2000);
        probing.freed(0x1000);
        probing.freed(0x1000);
        assert_eq!(told(), [(0x1000, 1000, 524_788), (0x1000, 0, 0)]);
    }

    #[test]
    fn the_weight_is_that_of_the_formula() {
        let _turn = TURN.lock();
        let (probing, os) = (attached(), Fake::default());
        for (number, bytes) in [0, 1, 4096, 1 << 19, 1 << 30].into_iter().enumerate() {
            probing.allocated(&os, (1 + number) << 4, bytes, 1 << 19);
            let size = bytes.max(1) as f64;
            let weight = size / -(-size / 524_288.0).exp_m1();
            assert_eq!(told(), [((1 + number) << 4, bytes.max(1), (weight + 0.5) as u64)]);
        }
    }

    #[test]
    fn what_finds_no_place_is_not_told_of() {
        let _turn = TURN.lock();
        let (probing, os) = (attached(), Fake::default());
        os.refuse_after(Request::Map, 0);
        probing.allocated(&os, 0x1000, 1000, 1 << 19);
        assert_eq!(told(), [], "no table");
        os.grant(Request::Map);
        for number in 1..=ANNOUNCED_SAMPLES + 1 {
            probing.allocated(&os, number << 4, 1, 1);
        }
        let placed = told();
        assert!((ANNOUNCED_SAMPLES / 2..=ANNOUNCED_SAMPLES).contains(&placed.len()), "{}", placed.len());
        (1..=ANNOUNCED_SAMPLES + 1).for_each(|number| probing.freed(number << 4));
        assert_eq!(told().len(), placed.len());
        assert_eq!(probing.announced.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn threads_that_announce_and_free_lose_nothing() {
        let _turn = TURN.lock();
        let (probing, os) = (attached(), Fake::default());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (probing, os) = (&probing, &os);
                scope.spawn(move || {
                    for number in 1..2000 {
                        let address = (thread * 2000 + number) << 4;
                        probing.allocated(os, address, 64, 1 << 19);
                        probing.freed(address);
                    }
                });
            }
        });
        assert_eq!((told().len(), probing.announced.load(Ordering::Relaxed)), (4 * 1999 * 2, 0));
    }
}
