//! Spans: runs of units that hold blocks of one class, or one large allocation.
//!
//! A span's free blocks are bits here, outside the blocks: a page without a live block holds nothing of ours,
//! and nobody who writes to a freed block can change what the heap believes.

use crate::base::PAGE_BYTES;
use crate::base::fault::Fault;
use crate::base::relaxed::RelaxedCell;
use crate::base::ticks::{Tick, Ticks};
use crate::class::{LARGEST_BYTES, MOST_BLOCKS, SizeClass, UNIT_BYTES};

const WORDS: usize = MOST_BLOCKS / 64;

/// The index of a span in the table of spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanId(pub(crate) u32);

impl SpanId {
    pub const NONE: SpanId = SpanId(u32::MAX);
}

/// In place of the number of a list: a thread has opened the span, and its class does not know it yet.
pub const OPENED: u8 = u8::MAX;
/// A thread gives pages of the span back, and its class knows it.
pub const SUBRELEASING: u8 = OPENED - 1;
/// The span is empty, its class does not know it any more, and the page heap is about to take its units.
pub const CLOSED: u8 = OPENED - 2;

/// A span whose idle pages are all gone.
pub const SUBRELEASED: Tick = Tick(u32::MAX);

/// Whether a span has idle pages to give back, as far as time goes: nobody touched it for `ticks`.
pub fn is_idle(touched_at: Tick, now: Tick, ticks: Ticks) -> bool {
    touched_at != SUBRELEASED && now.since(touched_at) >= ticks
}

/// One span. Its numbers belong to the lock of its class, those of a large or unused span to the lock of the
/// pages; any thread may look at them. All may be zero at first.
#[repr(C, align(64))]
pub struct Span {
    /// Neighbours in the class's list, or in the list of unused spans.
    next: RelaxedCell<u32>,
    previous: RelaxedCell<u32>,
    /// First unit of the run, counted from the heap's base.
    pub start: RelaxedCell<u32>,
    pub units: RelaxedCell<u32>,
    /// NONE while unused.
    class: RelaxedCell<u8>,
    /// The list of its class that it is in, or why it is in none.
    pub list: RelaxedCell<u8>,
    /// The class whose bytes its large block has for the program, which does not see that it is a sample; NONE: it has the whole
    /// run.
    told: RelaxedCell<u8>,
    /// Free blocks: the ones in `free_bits`.
    pub free: RelaxedCell<u32>,
    /// The tick when a block was last taken or put, or SUBRELEASED.
    pub touched_at: RelaxedCell<Tick>,
    /// Blocks at the end that were never taken, in memory that read as zeros when the span was opened.
    fresh: RelaxedCell<u32>,
    /// Bytes that the caller of a large allocation asked for when it had its units last.
    pub requested: RelaxedCell<usize>,
    /// The tick when pages of it were given back last.
    pub released_at: RelaxedCell<Tick>,
    /// The tenant's heap that it belongs to; 0: the process's own.
    pub heap: RelaxedCell<u32>,
    /// Pages that hold no live block and were given back: 4 KiB each, from the start of the span; the low
    /// half first.
    released: [RelaxedCell<u64>; 2],
    free_bits: [RelaxedCell<u64>; WORDS],
}

/// The offsets of what `cache::fast_path` reads.
impl Span {
    pub const CLASS: usize = core::mem::offset_of!(Span, class);
    pub const HEAP: usize = core::mem::offset_of!(Span, heap);
}

impl Span {
    /// Makes this the span of a run of units, all blocks free; `zeroed`: its memory reads as zeros.
    pub fn open(&self, class: SizeClass, start: u32, units: u32, zeroed: bool) {
        self.set_next(SpanId::NONE);
        self.set_previous(SpanId::NONE);
        self.start.set(start);
        self.units.set(units);
        self.set_class(class);
        self.list.set(OPENED);
        self.requested.set(0);
        self.tell_whole_run();
        self.heap.set(0);
        self.set_released(0);
        let mut left = class.shape().blocks;
        self.free.set(left);
        self.fresh.set(if zeroed { left } else { 0 });
        for word in &self.free_bits {
            word.set(if left >= 64 { u64::MAX } else { (1u64 << left) - 1 });
            left = left.saturating_sub(64);
        }
    }

    /// Writes what is there already, for the memory to be there.
    pub fn touch_memory(&self) {
        self.start.touch();
    }

    pub fn class(&self) -> SizeClass {
        SizeClass::from_byte(self.class.get())
    }

    pub fn set_class(&self, class: SizeClass) {
        self.class.set(class.byte());
    }

    /// Has its large block the bytes of a block of a class for the program, from before that knows it until it is free.
    pub fn tell(&self, class: SizeClass) {
        self.told.set(class.byte());
    }

    pub fn tell_whole_run(&self) {
        self.tell(SizeClass::NONE);
    }

    pub fn tells_whole_run(&self) -> bool {
        self.told.get() == SizeClass::NONE.byte()
    }

    /// The bytes of its large block that the program may use.
    pub fn usable(&self) -> usize {
        if self.tells_whole_run() {
            self.bytes()
        } else {
            SizeClass::from_byte(self.told.get()).block_bytes()
        }
    }

    /// The bytes of its run.
    pub fn bytes(&self) -> usize {
        self.units.get() as usize * UNIT_BYTES
    }

    /// The bytes that its large block needs for so many that are requested of it: a sample those of a class.
    pub fn bytes_for(&self, requested: usize) -> usize {
        let is_whole = self.tells_whole_run() || requested > LARGEST_BYTES;
        if is_whole { requested } else { SizeClass::for_small(requested.max(1)).block_bytes() }
    }

    /// A large block of the span was resized where it lies, to so many bytes: a sample stays one that nobody sees.
    pub fn note_resized(&self, requested: usize) {
        self.requested.set(requested);
        if !self.tells_whole_run() {
            let is_small = requested <= LARGEST_BYTES;
            self.tell(if is_small { SizeClass::for_small(requested.max(1)) } else { SizeClass::NONE });
        }
    }

    /// The class that the page map shows. Blocks of a tenant's heap look like large ones there: caches have no place for
    /// them, so each comes to the slow path, which asks the span.
    pub fn shown_class(&self) -> SizeClass {
        if self.heap.get() == 0 { self.class() } else { SizeClass::LARGE }
    }

    pub fn next(&self) -> SpanId {
        SpanId(self.next.get())
    }

    pub fn set_next(&self, next: SpanId) {
        self.next.set(next.0);
    }

    pub fn previous(&self) -> SpanId {
        SpanId(self.previous.get())
    }

    pub fn set_previous(&self, previous: SpanId) {
        self.previous.set(previous.0);
    }

    fn released(&self) -> u128 {
        let [low, high] = &self.released;
        low.get() as u128 | (high.get() as u128) << 64
    }

    fn set_released(&self, pages: u128) {
        let [low, high] = &self.released;
        low.set(pages as u64);
        high.set((pages >> 64) as u64);
    }

    pub fn blocks(&self) -> u32 {
        self.class().shape().blocks
    }

    /// Blocks at the end that nobody had since their memory was new.
    pub fn fresh(&self) -> u32 {
        self.fresh.get()
    }

    pub fn is_empty(&self) -> bool {
        self.free.get() == self.blocks()
    }

    /// Takes up to `wanted` free blocks in address order and gives the index of each.
    pub fn take(&self, wanted: usize, mut block: impl FnMut(usize)) -> usize {
        let (class, released) = (self.class(), self.released());
        let (mut taken, mut last, mut gone) = (0, 0, released);
        for (word_index, word) in self.free_bits.iter().enumerate() {
            let mut bits = word.get();
            while bits != 0 && taken < wanted {
                let index = word_index * 64 + bits.trailing_zeros() as usize;
                block(index);
                bits &= bits - 1;
                // At once: a forked child sees a block either free or told of.
                word.set(bits);
                taken += 1;
                last = index as u32;
                if gone != 0 {
                    gone &= !pages_of_block(class, index);
                }
            }
            if taken == wanted {
                break;
            }
        }
        if gone != released {
            self.set_released(gone);
        }
        if taken > 0 {
            self.free.set(self.free.get() - taken as u32);
            self.fresh.set(self.fresh.get().min(class.shape().blocks - 1 - last));
        }
        taken
    }

    /// Whether the block that is taken next reads as zeros: nobody ever had it, or its pages were given back
    /// since.
    pub fn next_reads_zero(&self) -> bool {
        let next = self.free_bits.iter().map(RelaxedCell::get).enumerate().find(|(_, word)| *word != 0);
        next.is_some_and(|(word_index, word)| {
            let index = word_index * 64 + word.trailing_zeros() as usize;
            let pages = pages_of_block(self.class(), index);
            index as u32 >= self.blocks() - self.fresh.get() || pages & self.released() == pages
        })
    }

    /// The pages that hold no live block and are not known to be gone.
    pub fn idle_pages(&self) -> u128 {
        let (shape, blocks) = (self.class().shape(), self.blocks() as usize);
        let pages = self.bytes() / PAGE_BYTES;
        let mut idle = 0;
        for page in 0..pages.min(128) {
            let first = shape.block_at(page * PAGE_BYTES);
            let last = shape.block_at((page + 1) * PAGE_BYTES - 1);
            // Behind the last block there is nobody.
            if first >= blocks || self.are_free(first, last.min(blocks - 1)) {
                idle |= 1 << page;
            }
        }
        idle & !self.released()
    }

    /// Whether all blocks from `first` to `last` are free.
    fn are_free(&self, first: usize, last: usize) -> bool {
        (first / 64..=last / 64).all(|index| {
            let from = u64::MAX << if index == first / 64 { first % 64 } else { 0 };
            let upto = u64::MAX >> if index == last / 64 { 63 - last % 64 } else { 0 };
            self.free_bits.get(index).is_some_and(|word| !word.get() & from & upto == 0)
        })
    }

    /// Whether a page may be idle, as far as counts tell: fewer free bytes than a page are no page.
    pub fn may_have_idle_pages(&self) -> bool {
        let used = (self.blocks() - self.free.get()) as usize * self.class().block_bytes();
        self.bytes() >= used + self.released_bytes() + PAGE_BYTES
    }

    /// Notes that pages were given back.
    pub fn add_released(&self, pages: u128) {
        self.set_released(self.released() | pages);
    }

    /// Notes for the pages from `first` to before `end` that they hold no memory, or that they may.
    pub fn note_gone(&self, first: usize, end: usize, gone: bool) {
        let below = |page: usize| if page >= 128 { u128::MAX } else { (1 << page) - 1 };
        let pages = below(end) & !below(first);
        self.set_released(if gone { self.released() | pages } else { self.released() & !pages });
    }

    pub fn released_bytes(&self) -> usize {
        self.released().count_ones() as usize * PAGE_BYTES
    }

    /// Makes block `index` free.
    pub fn put(&self, index: usize) -> Result<(), Fault> {
        let Some(word) = self.free_bits.get(index / 64) else { return Err(Fault::FreeMemory) };
        let bit = 1u64 << (index % 64);
        if word.get() & bit != 0 {
            return Err(Fault::DoubleFree);
        }
        word.set(word.get() | bit);
        self.free.set(self.free.get() + 1);
        Ok(())
    }

    /// Counts the free blocks anew.
    pub fn recount(&self) {
        self.free.set(self.free_bits.iter().map(|word| word.get().count_ones()).sum());
    }

    pub fn is_free(&self, index: usize) -> bool {
        self.free_bits.get(index / 64).is_some_and(|word| word.get() >> (index % 64) & 1 == 1)
    }
}

/// The pages of its span that a block lies on.
fn pages_of_block(class: SizeClass, index: usize) -> u128 {
    let bytes = class.block_bytes();
    let first = index * bytes / PAGE_BYTES;
    let last = (index * bytes + bytes - 1) / PAGE_BYTES;
    let upto = if last >= 127 { u128::MAX } else { (1 << (last + 1)) - 1 };
    upto & (u128::MAX << first.min(127))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(class: SizeClass) -> Span {
        // SAFETY: a span is numbers, valid when zeroed.
        let span: Span = unsafe { core::mem::zeroed() };
        span.open(class, 7, class.shape().span_units, true);
        span
    }

    #[test]
    fn a_new_span_hands_out_every_block_once_and_in_order() {
        for class in SizeClass::all() {
            let span = span(class);
            let mut seen = Vec::new();
            assert_eq!(span.take(MOST_BLOCKS, |index| seen.push(index)), class.shape().blocks as usize);
            assert_eq!(seen, (0..class.shape().blocks as usize).collect::<Vec<_>>());
            assert_eq!((span.free.get(), span.take(1, |_| ())), (0, 0));
        }
    }

    #[test]
    fn a_block_that_is_free_cannot_become_free_again() {
        let span = span(SizeClass::for_small(100));
        span.take(3, |_| ());
        assert_eq!(span.put(1), Ok(()));
        assert_eq!(span.put(1), Err(Fault::DoubleFree));
        assert_eq!(span.put(5000), Err(Fault::FreeMemory));
        assert!(span.is_free(1) && !span.is_free(0) && !span.is_empty());
        let mut next = usize::MAX;
        span.take(1, |index| next = index);
        assert_eq!(next, 1, "the lowest address first");
    }

    #[test]
    fn a_block_reads_as_zeros_until_it_was_taken_once_and_again_when_its_pages_went_back() {
        let class = SizeClass::for_small(64 << 10);
        let span = span(class);
        assert!(span.next_reads_zero());
        span.take(1, |_| ());
        assert!(span.next_reads_zero(), "the second block is as new as it was");
        span.put(0).unwrap();
        assert!(!span.next_reads_zero(), "somebody wrote to the first one");
        span.add_released(pages_of_block(class, 0));
        assert!(span.next_reads_zero());
        span.take(2, |_| ());
        span.put(0).unwrap();
        assert!(!span.next_reads_zero());
        span.open(class, 7, class.shape().span_units, false);
        assert!(!span.next_reads_zero(), "a run that was used before");
    }

    #[test]
    fn pages_of_a_long_span_are_known_one_by_one() {
        let class = SizeClass::for_small(256 << 10);
        let span = span(class);
        span.take(2, |_| ());
        span.put(1).unwrap();
        assert_eq!(span.idle_pages(), u128::MAX << 64, "the second block");
        assert!(span.may_have_idle_pages());
        span.add_released(1 << 64 | 1 << 127);
        span.add_released(1 << 64 | 1 << 100);
        assert_eq!(span.released_bytes(), 3 * PAGE_BYTES);
        assert_eq!(span.idle_pages(), u128::MAX << 64 & !(1 << 64 | 1 << 100 | 1 << 127));
        span.add_released(span.idle_pages());
        assert!(!span.may_have_idle_pages());
        assert_eq!(span.take(1, |_| ()), 1);
        assert_eq!(span.released_bytes(), 0, "somebody has it again");
    }

    #[test]
    fn free_blocks_can_be_counted_anew() {
        let span = span(SizeClass::for_small(100));
        span.take(70, |_| ());
        let free = span.free.get();
        span.free.set(1);
        span.recount();
        assert_eq!(span.free.get(), free);
    }

    #[test]
    fn a_page_is_idle_when_every_block_on_it_is_free() {
        let class = SizeClass::for_small(1536);
        let span = span(class);
        let all = (1u128 << (span.bytes() / PAGE_BYTES)) - 1;
        assert_eq!(span.idle_pages(), all, "an empty span is idle all over, its tail included");
        span.take(4, |_| ());
        assert_eq!(span.idle_pages(), all & !0b11, "four blocks of 1.5 KiB lie on two pages");
        span.put(0).unwrap();
        span.put(1).unwrap();
        assert_eq!(span.idle_pages(), all & !0b11, "block 2 reaches into the first page");
        span.put(2).unwrap();
        assert_eq!(span.idle_pages(), all & !0b10);
    }

    #[test]
    fn idle_pages_are_those_that_no_used_block_lies_on_in_every_class() {
        let mut random = 1u64;
        for class in SizeClass::all() {
            let span = span(class);
            let blocks = span.blocks() as usize;
            span.take(blocks, |_| ());
            for round in 0..6 {
                for index in 0..blocks {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if !span.is_free(index) && random >> 61 > 5 - round {
                        span.put(index).unwrap();
                    }
                }
                let pages = span.bytes() / PAGE_BYTES;
                let mut expected = if pages >= 128 { u128::MAX } else { (1 << pages) - 1 };
                (0..blocks)
                    .filter(|index| !span.is_free(*index))
                    .for_each(|index| expected &= !pages_of_block(class, index));
                assert_eq!(span.idle_pages(), expected, "{} bytes", class.block_bytes());
                assert!(expected == 0 || span.may_have_idle_pages(), "{} bytes", class.block_bytes());
            }
        }
    }

    #[test]
    fn a_page_that_was_given_back_is_idle_again_only_after_a_block_was_taken_from_it() {
        let class = SizeClass::for_small(4096);
        let span = span(class);
        span.add_released(span.idle_pages());
        assert_eq!((span.idle_pages(), span.released_bytes()), (0, span.bytes()));
        span.take(2, |_| ());
        assert_eq!(span.released_bytes(), span.bytes() - 2 * PAGE_BYTES);
        span.put(0).unwrap();
        assert_eq!(span.idle_pages(), 1);
    }
}
