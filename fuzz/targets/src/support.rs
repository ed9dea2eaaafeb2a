//! A heap for one input, an oracle that knows what it must hold, and the steps that both take.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use vcmalloc_core::heap::{Heap, Hooks};
use vcmalloc_core::os::fake::{Fake, Request};

/// A heap on a fake system, unmapped when it is dropped.
pub struct TestHeap(Box<Heap<Fake>>);

impl TestHeap {
    pub fn new() -> Self {
        Self::on(Fake::default())
    }

    pub fn on(system: Fake) -> Self {
        TestHeap(Box::new(Heap::new(small(system))))
    }

    /// A heap that takes samples.
    pub fn sampled() -> Self {
        let hooks = Hooks { before_guards: Some(|| ()), unwind: |_| 0 };
        TestHeap(Box::new(Heap::with_hooks(small(Fake::default()), hooks)))
    }
}

/// A fuzzer makes thousands of heaps.
fn small(system: Fake) -> Fake {
    system.address_budget.store(1 << 30, std::sync::atomic::Ordering::Relaxed);
    system
}

impl std::ops::Deref for TestHeap {
    type Target = Heap<Fake>;
    fn deref(&self) -> &Heap<Fake> {
        &self.0
    }
}

impl Drop for TestHeap {
    fn drop(&mut self) {
        // SAFETY: the targets keep no block longer than its heap.
        unsafe { self.0.unmap_for_test() };
    }
}

/// All of the input as steps; as many as it has.
pub fn steps<T: for<'a> Arbitrary<'a>>(input: &[u8], most: usize) -> Vec<T> {
    let mut rest = Unstructured::new(input);
    let mut steps = Vec::new();
    while !rest.is_empty() && steps.len() < most {
        match rest.arbitrary() {
            Ok(step) => steps.push(step),
            Err(_) => break,
        }
    }
    steps
}

/// A size of any kind, small ones more often.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Size {
    Small(u8),
    Medium(u16),
    Large { units: u8, less: u8 },
    Huge(u8),
    Absurd(u8),
}

impl Size {
    pub fn bytes(self) -> usize {
        match self {
            Size::Small(bytes) => bytes as usize * 4,
            Size::Medium(bytes) => bytes as usize * 5,
            Size::Large { units, less } => (units as usize * 16_384).saturating_sub(less as usize),
            Size::Huge(blocks) => (blocks as usize % 8) << 20,
            Size::Absurd(shift) => usize::MAX >> (shift % 20),
        }
    }
}

/// The steps that a program may take, and what may happen to it.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    Allocate(Size),
    Zeroed(Size),
    Aligned(Size, u8),
    Resize(u8, Size),
    Free(u8),
    FreeMany(u8),
    Limit(u8),
    Release(u8),
    Tick(u8),
    Refuse(u8, u8),
    Grant,
}

const REQUESTS: [Request; 7] = [
    Request::MapAt,
    Request::Reserve,
    Request::Commit,
    Request::Release,
    Request::MovePages,
    Request::Fence,
    Request::SetDumped,
];

/// The most that an input may hold at a time.
const MOST_LIVE_BYTES: usize = 64 << 20;

/// The blocks that the heap must hold: address, bytes that may be used, and what was written there.
#[derive(Default)]
pub struct Oracle {
    live: BTreeMap<usize, (usize, u8)>,
    bytes: usize,
    marks: u8,
    /// The system refuses something: null is an answer.
    pub refusing: bool,
}

fn at(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Places that are written and checked: the edges and one byte of every page.
fn places(bytes: usize) -> impl Iterator<Item = usize> {
    let edge = bytes.min(24);
    (0..edge).chain((bytes - edge..bytes).filter(move |_| bytes > 48)).chain((0..bytes).step_by(4096))
}

fn fill(address: usize, bytes: usize, mark: u8) {
    // SAFETY: the block is the oracle's.
    places(bytes).for_each(|place| unsafe { at(address + place).write(mark) });
}

fn holds(address: usize, bytes: usize, mark: u8) -> bool {
    // SAFETY: the block is the oracle's.
    places(bytes).all(|place| unsafe { at(address + place).read() } == mark)
}

impl Oracle {
    pub fn live(&self) -> impl Iterator<Item = (usize, usize)> {
        self.live.iter().map(|(address, (bytes, _))| (*address, *bytes))
    }

    fn add(&mut self, heap: &TestHeap, address: usize, bytes: usize, zeroed: bool) {
        if address == 0 {
            assert!(self.refusing || bytes > 256 << 20, "{bytes} bytes were refused");
            return;
        }
        assert_eq!(address % 16, 0);
        let usable = heap.usable_bytes(address);
        assert!(usable >= bytes, "{usable} bytes for {bytes}");
        if let Some((before, (length, _))) = self.live.range(..address + usable.max(1)).next_back() {
            assert!(before + length.max(&1) <= address, "two blocks overlap");
        }
        assert!(!zeroed || holds(address, bytes, 0), "calloc's memory is zero");
        self.marks = self.marks.wrapping_add(1).max(1);
        fill(address, usable, self.marks);
        self.live.insert(address, (usable, self.marks));
        self.bytes += usable;
    }

    fn take(&mut self, which: usize) -> Option<(usize, usize, u8)> {
        let address = *self.live.keys().nth(which.checked_rem(self.live.len())?)?;
        let (bytes, mark) = self.live.remove(&address)?;
        assert!(holds(address, bytes, mark), "somebody wrote into a live block");
        self.bytes -= bytes;
        Some((address, bytes, mark))
    }

    pub fn step(&mut self, heap: &TestHeap, step: Step) {
        match step {
            Step::Allocate(size) if self.fits(size) => {
                self.add(heap, heap.allocate(size.bytes()), size.bytes(), false)
            }
            Step::Zeroed(size) if self.fits(size) => {
                self.add(heap, heap.allocate_zeroed(1, size.bytes()), size.bytes(), true)
            }
            Step::Aligned(size, shift) if self.fits(size) => {
                let align = 1 << (shift % 22);
                let block = heap.allocate_aligned(align, size.bytes());
                assert_eq!(block % align, 0);
                if block != 0 || size.bytes() < 1 << 20 && align <= 1 << 20 {
                    self.add(heap, block, size.bytes(), false);
                }
            }
            Step::Resize(which, size) if self.fits(size) => self.resize(heap, which as usize, size.bytes()),
            Step::Free(which) => self.free(heap, which as usize),
            Step::FreeMany(first) => (0..64).for_each(|next| self.free(heap, first as usize + next * 7)),
            Step::Limit(shift) => self.limit(heap, shift),
            Step::Release(keep) => _ = heap.release((keep as usize) << 14),
            Step::Tick(times) => (0..times % 16).for_each(|_| heap.tick(times % 2 == 0)),
            Step::Refuse(request, after) => {
                heap.os().refuse_after(REQUESTS[request as usize % REQUESTS.len()], after as u64);
                self.refusing = true;
            }
            Step::Grant => self.grant(heap),
            _ => {}
        }
    }

    fn fits(&self, size: Size) -> bool {
        matches!(size, Size::Absurd(_)) || self.bytes + size.bytes() <= MOST_LIVE_BYTES
    }

    fn limit(&mut self, heap: &TestHeap, shift: u8) {
        let limit = 1u64 << (shift % 26);
        heap.set_option(b"cache_limit", limit.to_string().as_bytes()).expect("a limit of bytes");
        // If the system does not stop the sequences, caches keep what they have.
        assert!(self.refusing || heap.stats().cache_room <= limit, "the bound is exact");
    }

    fn resize(&mut self, heap: &TestHeap, which: usize, bytes: usize) {
        let Some((address, length, mark)) = self.take(which) else { return };
        let moved = heap.reallocate(address, bytes);
        if moved == 0 {
            assert!(self.refusing || bytes > 256 << 20, "{bytes} bytes were refused");
            assert!(holds(address, length, mark), "a refused realloc leaves the block alone");
            self.live.insert(address, (length, mark));
            self.bytes += length;
            return;
        }
        let kept = length.min(bytes);
        let first = kept.min(24);
        assert!(
            (0..first).all(|place| unsafe { at(moved + place).read() } == mark),
            "realloc keeps contents"
        );
        let last = (kept.saturating_sub(1)) & !4095;
        assert!(kept == 0 || unsafe { at(moved + last).read() } == mark, "also of the last page");
        self.add(heap, moved, bytes, false);
    }

    fn free(&mut self, heap: &TestHeap, which: usize) {
        if let Some((address, ..)) = self.take(which) {
            heap.free(address);
        }
    }

    pub fn grant(&mut self, heap: &TestHeap) {
        REQUESTS.iter().for_each(|request| heap.os().grant(*request));
        self.refusing = false;
    }

    /// Frees everything; nothing may be live then, and all layers must agree.
    pub fn end(mut self, heap: &TestHeap) {
        self.grant(heap);
        heap.verify();
        while let Some((address, ..)) = self.take(0) {
            heap.free(address);
        }
        heap.release(0);
        heap.verify();
        let stats = heap.stats();
        assert_eq!((stats.live, stats.vcpu_caches, stats.transfer, stats.cache_room), (0, 0, 0, 0));
    }
}
