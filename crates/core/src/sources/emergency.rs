//! Memory for the two moments when the heap itself must not be touched: a signal handler that interrupted a
//! slow path of its own thread, and a process that aborts for a misuse and runs its crash handler.
//!
//! Blocks are cut one after the other from a few arenas; an arena begins anew when none of its blocks is in
//! use. Then freeing does nothing, and the crash handler comes first: other threads are served ever
//! more slowly, from a part of the memory, and then not at all.

use super::Source;
use crate::base::ceilings::EMERGENCY_ARENAS;
use crate::base::fault::{Fault, Misuse};
use crate::base::round_up;
use crate::base::stack::Trace;
use crate::base::sync::{AtomicUsize, Ordering, update};
use crate::class::MIN_ALIGN;
use crate::os::{Os, Purpose};

const ARENA_BYTES: usize = 4 << 20;
/// Before a block stand its size and, while it is in use, its address.
const HEADER: usize = MIN_ALIGN;
const WORD: usize = size_of::<usize>();

/// The use of an arena. Both change together, so that the last block to be freed can begin the arena anew.
#[derive(Clone, Copy, Default)]
struct Use {
    blocks: u32,
    bytes: u32,
}

impl Use {
    fn of(word: usize) -> Use {
        Use { blocks: (word >> 32) as u32, bytes: word as u32 }
    }

    fn word(self) -> usize {
        (self.blocks as usize) << 32 | self.bytes as usize
    }

    /// With one more block of `bytes`; none where the arena has no room for it.
    fn with(self, bytes: usize) -> Option<Use> {
        let after = self.bytes as usize + bytes;
        (after <= ARENA_BYTES).then_some(Use { blocks: self.blocks + 1, bytes: after as u32 })
    }

    fn without_one(self) -> Use {
        if self.blocks <= 1 { Use::default() } else { Use { blocks: self.blocks - 1, ..self } }
    }
}

fn word_at(address: usize) -> *mut usize {
    core::ptr::with_exposed_provenance_mut(address)
}

/// The bytes that threads other than the one that aborts may take meanwhile, together.
const OTHERS_BYTES: usize = EMERGENCY_ARENAS / 2 * ARENA_BYTES;
/// Their calls take a millisecond at first, and twice as long after each such part.
const OTHERS_STEP: usize = OTHERS_BYTES / 8;
const MILLISECOND: u64 = 1_000_000;

/// Arenas are made when first needed.
pub struct Emergency {
    bases: [AtomicUsize; EMERGENCY_ARENAS],
    uses: [AtomicUsize; EMERGENCY_ARENAS],
    /// Bytes that other threads took in a process that aborts.
    by_others: AtomicUsize,
}

impl Emergency {
    pub const fn new() -> Self {
        Emergency {
            bases: [const { AtomicUsize::new(0) }; EMERGENCY_ARENAS],
            uses: [const { AtomicUsize::new(0) }; EMERGENCY_ARENAS],
            by_others: AtomicUsize::new(0),
        }
    }

    /// How long a thread that does not abort itself has to wait before it is served; none where its kind had
    /// enough.
    pub fn wait_of_others(&self, bytes: usize) -> Option<u64> {
        let before = self.by_others.fetch_add(bytes.min(OTHERS_BYTES), Ordering::Relaxed);
        if before < OTHERS_BYTES { Some(MILLISECOND << (before / OTHERS_STEP)) } else { None }
    }

    /// A block at a multiple of `align`. Async-signal-safe; 0 where nothing is left.
    pub fn allocate<O: Os>(&self, os: &O, bytes: usize, align: usize) -> usize {
        let align = align.max(MIN_ALIGN);
        let Some(wanted) = bytes.checked_add(HEADER + align).filter(|wanted| *wanted <= ARENA_BYTES) else {
            return 0;
        };
        let wanted = round_up(wanted, MIN_ALIGN);
        for (base, in_use) in self.bases.iter().zip(&self.uses) {
            let Some(arena) = arena(os, base) else { return 0 };
            let with = |word| Use::of(word).with(wanted).map(Use::word);
            if let Ok(before) = update(in_use, Ordering::AcqRel, Ordering::Acquire, with) {
                let block = round_up(arena + Use::of(before).bytes as usize + HEADER, align);
                // SAFETY: these bytes were cut off for this block alone.
                unsafe {
                    word_at(block - HEADER).write(bytes);
                    word_at(block - WORD).write(block);
                }
                return block;
            }
        }
        0
    }

    /// Takes back what `allocate` gave; anything else, and a second free, is left alone.
    pub fn take_back(&self, block: usize) {
        for (base, in_use) in self.bases.iter().zip(&self.uses) {
            let offset = block.wrapping_sub(base.load(Ordering::Acquire));
            if !(HEADER..ARENA_BYTES).contains(&offset) || !block.is_multiple_of(MIN_ALIGN) {
                continue;
            }
            // SAFETY: the word lies in the arena; nobody but the block's owner uses the one before his block.
            let live = unsafe { AtomicUsize::from_ptr(word_at(block - WORD)) };
            if live.compare_exchange(block, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // An arena that begins anew is as zero as a fresh one.
                // SAFETY: the block was in use until this line and is nobody's now.
                unsafe {
                    let bytes = word_at(block - HEADER).replace(0);
                    word_at(block).cast::<u8>().write_bytes(0, bytes);
                }
                let without = |word| Some(Use::of(word).without_one().word());
                let _ = update(in_use, Ordering::AcqRel, Ordering::Acquire, without);
            }
            return;
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_mapping(&self, mut take: impl FnMut(usize, usize)) {
        self.bases.iter().for_each(|base| take(base.load(Ordering::Relaxed), ARENA_BYTES));
    }

    /// Bytes of the block at `address`, if it is one of these.
    pub fn bytes_of(&self, address: usize) -> Option<usize> {
        let ours = |base: &AtomicUsize| {
            let base = base.load(Ordering::Acquire);
            base != 0 && (HEADER..ARENA_BYTES).contains(&address.wrapping_sub(base))
        };
        if !address.is_multiple_of(MIN_ALIGN) || !self.bases.iter().any(ours) {
            return None;
        }
        // SAFETY: aligned, and inside the arena with the size that blocks have before them.
        Some(unsafe { core::ptr::with_exposed_provenance::<usize>(address - HEADER).read() })
    }
}

/// The arena's address; made here if nobody has.
fn arena<O: Os>(os: &O, base: &AtomicUsize) -> Option<usize> {
    let known = base.load(Ordering::Acquire);
    if known != 0 {
        return Some(known);
    }
    let (fresh, _) = os.reserve_with_head(ARENA_BYTES, ARENA_BYTES)?;
    os.name_pages(fresh, ARENA_BYTES, Purpose::Emergency);
    match base.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(other) => {
            os.unmap(fresh, ARENA_BYTES);
            Some(other)
        }
    }
}

impl<O: Os> Source<O> for Emergency {
    fn bytes_at(&self, address: usize) -> Result<usize, Misuse> {
        self.bytes_of(address).ok_or_else(|| Misuse::at(Fault::ForeignPointer, address))
    }

    fn free(&self, _: &O, address: usize, _: &dyn Fn() -> Trace) -> Result<(), Misuse> {
        self.take_back(address);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;
    use crate::os::fake::{Fake, Request};

    #[test]
    fn emergency_blocks_are_apart_aligned_and_know_their_size() {
        let (os, emergency) = (Fake::default(), Emergency::new());
        assert_eq!(emergency.bytes_of(0x1000), None);
        let first = emergency.allocate(&os, 100, 16);
        let second = emergency.allocate(&os, 50, 4096);
        assert!(second >= first + 100 && second % 4096 == 0);
        assert_eq!((emergency.bytes_of(first), emergency.bytes_of(second)), (Some(100), Some(50)));
        assert_eq!(emergency.allocate(&os, ARENA_BYTES, 16), 0);
        let many = (0..40).filter(|_| emergency.allocate(&os, ARENA_BYTES / 2, 16) != 0).count();
        assert_eq!(many, EMERGENCY_ARENAS, "one in each arena, then nothing");
    }

    #[test]
    fn handlers_that_free_what_they_took_never_use_the_arenas_up() {
        let (os, emergency) = (Fake::default(), Emergency::new());
        let kept: Vec<usize> = (0..3).map(|_| emergency.allocate(&os, ARENA_BYTES / 2, 16)).collect();
        for _ in 0..1000 {
            let blocks: Vec<usize> = (0..8).map(|_| emergency.allocate(&os, 500_000, 64)).collect();
            assert!(!blocks.contains(&0));
            blocks.into_iter().for_each(|block| emergency.take_back(block));
        }
        assert!(kept.iter().all(|block| emergency.bytes_of(*block) == Some(ARENA_BYTES / 2)));
        emergency.take_back(kept[0]);
        emergency.take_back(kept[0]);
        emergency.take_back(kept[0] + 16);
        assert_eq!(Use::of(emergency.uses[1].load(Ordering::Relaxed)).blocks, 1, "freed once");
    }

    #[test]
    fn without_memory_there_is_none_in_an_emergency_either() {
        for request in [Request::Reserve, Request::Commit] {
            let (os, emergency) = (Fake::default(), Emergency::new());
            os.refuse_after(request, 0);
            assert_ne!(emergency.allocate(&os, 1, 16), 0, "mapped as any program maps");
            let emergency = Emergency::new();
            os.refuse_after(Request::Map, 0);
            assert_eq!(emergency.allocate(&os, 1, 16), 0);
        }
    }

    #[test]
    fn in_a_process_that_aborts_other_threads_leave_half_of_the_memory_to_the_crash_handler() {
        let emergency = Emergency::new();
        assert_eq!(emergency.wait_of_others(1), Some(MILLISECOND));
        let waits: Vec<u64> = core::iter::from_fn(|| emergency.wait_of_others(1 << 20)).take(1000).collect();
        assert_eq!(waits.len(), OTHERS_BYTES >> 20, "so much and no more");
        assert!(waits.is_sorted() && waits.last() == Some(&(128 * MILLISECOND)), "ever more slowly");
        assert_eq!(emergency.wait_of_others(1), None);
    }

    #[test]
    fn a_handler_inside_a_slow_path_is_served_and_what_it_frees_is_freed_later() {
        let heap = Box::new(Heap::new(Fake::default()));
        let (small, large) = (heap.allocate(100), heap.allocate(1 << 20));
        let entry = heap.enter_for_test();
        let block = heap.allocate(5000);
        assert_eq!(heap.usable_bytes(block), 5000);
        let grown = heap.reallocate(block, 6000);
        assert_ne!(grown, 0);
        heap.free(grown);
        heap.free(large);
        heap.free(small);
        assert_eq!(heap.pages.stats().large.blocks, 1, "left for later");
        assert_eq!(heap.stats().mapped, 0, "the picture needs locks that this thread may hold");
        drop(entry);
        heap.free(heap.allocate(3 << 20));
        assert_eq!(heap.stats().large_blocks, 0);
        heap.free(block);
    }
}
