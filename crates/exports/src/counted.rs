//! The way to blocks in the stand-in for jemalloc: each is counted for the thread that takes it and for the one that frees it.
//!
//! Owns 64 bytes of each thread (`Thread`, model initial-exec): its counts, and what jemalloc's interface keeps for it. Promises
//! that the counts are exact, with bytes as `malloc_usable_size` tells them: programs know by `thread.allocatedp` that jemalloc
//! serves them. A handler that allocates between two instructions loses nothing: a count is added to by one.

use super::heap;
use core::ffi::c_char;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use vcmalloc_core::base::fault::{Access, Maker, Misuse};
use vcmalloc_core::base::stack::Stack;
use vcmalloc_core::class::{LARGEST_BYTES, SizeClass};
use vcmalloc_core::heap::{Blocks, Ending, Heap, HeapId, Refusal};
use vcmalloc_core::os::{Linux, Os};

core::arch::global_asm!(
    ".pushsection .tbss.vcm_jemalloc_thread, \"awT\", @nobits",
    ".balign 32",
    ".globl vcm_jemalloc_thread",
    ".hidden vcm_jemalloc_thread",
    ".type vcm_jemalloc_thread, @object",
    ".size vcm_jemalloc_thread, 64",
    "vcm_jemalloc_thread: .zero 64",
    ".popsection",
);

/// A thread's own; zeros in a new one.
#[repr(C)]
pub struct Thread {
    /// Bytes that it ever took and freed.
    pub taken: AtomicU64,
    pub freed: AtomicU64,
    /// The most by which `taken` was seen to pass `freed`, and by how much it did when that was last forgotten.
    peak: AtomicU64,
    base: AtomicU64,
    /// The arena that serves it.
    pub arena: AtomicU32,
    pub flags: AtomicU32,
    /// The name that it has in profiles.
    pub name: AtomicPtr<c_char>,
    /// `taken` when it last told the watcher.
    told: AtomicU64,
    spare: AtomicU64,
}
const _: () = assert!(size_of::<Thread>() == 64);

/// The distance of that from the thread pointer.
#[inline(always)]
fn offset() -> isize {
    let offset: isize;
    // SAFETY: reads our own global offset table, where the dynamic linker has put it.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "adrp {0}, :gottprel:vcm_jemalloc_thread",
            "ldr {0}, [{0}, :gottprel_lo12:vcm_jemalloc_thread]",
            out(reg) offset, options(pure, nomem, nostack, preserves_flags)
        );
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {}, qword ptr [rip + vcm_jemalloc_thread@GOTTPOFF]", out(reg) offset,
            options(pure, nomem, nostack, preserves_flags));
    }
    offset
}

/// This thread's.
#[inline]
pub fn thread() -> &'static Thread {
    let pointer: usize;
    // SAFETY: reads the thread pointer; every thread has its own `Thread` for as long as it runs, and no caller passes it on.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
        &*ptr::with_exposed_provenance(pointer.wrapping_add_signed(offset()))
    }
}

#[inline(always)]
fn add<const FIELD: usize>(bytes: usize) {
    // SAFETY: a word of this thread's own.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("add qword ptr fs:[{offset} + {field}], {bytes}", offset = in(reg) offset(),
            field = const FIELD, bytes = in(reg) bytes, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let word = if FIELD == TAKEN { &thread().taken } else { &thread().freed };
        word.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

const TAKEN: usize = offset_of!(Thread, taken);
const FREED: usize = offset_of!(Thread, freed);

/// A block of so many bytes was taken; called where nothing else is to be done for it.
#[inline(always)]
fn took_bytes(bytes: usize) {
    add::<TAKEN>(bytes);
}

#[inline(always)]
fn gave_bytes(bytes: usize) {
    add::<FREED>(bytes);
}

/// A block was taken by a slow way, if there is one. `Watcher` is told of what came together.
#[inline]
pub fn took(block: usize) -> usize {
    if block != 0 {
        took_bytes(heap().known_bytes(block));
        look_up();
    }
    block
}

/// Gives a block that this thread has just taken fewer bytes where it lies: it was taken with those.
pub fn trim(address: usize, align: usize, bytes: usize) {
    let before = heap().known_bytes(address);
    if Blocks::resize_in_place(heap(), address, align, bytes) {
        took_bytes(heap().known_bytes(address).wrapping_sub(before));
    }
}

impl Thread {
    /// The bytes that it took less those that it freed; blocks that it freed for others may be more.
    fn held(&self) -> u64 {
        self.taken.load(Ordering::Relaxed).wrapping_sub(self.freed.load(Ordering::Relaxed))
    }

    /// An approximation, as there: the fast ways do not look.
    pub fn peak(&self) -> u64 {
        let above = self.held().wrapping_sub(self.base.load(Ordering::Relaxed)) as i64;
        let peak = self.peak.load(Ordering::Relaxed).max(above.max(0) as u64);
        self.peak.store(peak, Ordering::Relaxed);
        peak
    }

    pub fn forget_peak(&self) {
        self.base.store(self.held(), Ordering::Relaxed);
        self.peak.store(0, Ordering::Relaxed);
    }
}

/// The address of a function that is told of bytes taken; 0: none.
static WATCHER: AtomicUsize = AtomicUsize::new(0);

pub fn watch(watcher: Option<fn(u64)>) {
    WATCHER.store(watcher.map_or(0, |watcher| watcher as usize), Ordering::Relaxed);
}

#[cold]
#[inline(never)]
fn look_up() {
    let thread = thread();
    thread.peak();
    let watcher = WATCHER.load(Ordering::Relaxed);
    // A handler that interrupted the heap must not wait for what its thread has.
    if watcher != 0 && !heap().is_inside() {
        let taken = thread.taken.load(Ordering::Relaxed);
        let told = thread.told.swap(taken, Ordering::Relaxed);
        // SAFETY: stored by `watch`, which takes a function of this type.
        let watcher = unsafe { core::mem::transmute::<usize, fn(u64)>(watcher) };
        watcher(taken.wrapping_sub(told));
    }
}

/// The number of reallocs to no bytes, and what they do.
pub static ZERO_REALLOCS: AtomicU64 = AtomicU64::new(0);
pub static AT_ZERO: AtomicU32 = AtomicU32::new(FREES);
pub const FREES: u32 = 0;
pub const KEEPS: u32 = 1;
pub const ABORTS: u32 = 2;

/// Whether realloc to no bytes keeps a block.
#[cold]
pub fn keeps_at_zero() -> bool {
    ZERO_REALLOCS.fetch_add(1, Ordering::Relaxed);
    let what = AT_ZERO.load(Ordering::Relaxed);
    if what == ABORTS {
        heap().os().write(2, b"vcmalloc: realloc to 0 bytes, and zero_realloc:abort is set\n");
        heap().os().abort();
    }
    what == KEEPS
}

/// Set where operator new without memory is to abort, and if that comes back, to return null.
pub static IS_INFALLIBLE: AtomicU32 = AtomicU32::new(0);
/// The address of the function that aborts for us; 0: none.
pub static ABORTER: AtomicUsize = AtomicUsize::new(0);

/// Whether operator new gives up without an exception.
#[cfg(not(prefixed))]
#[cold]
#[inline(never)]
pub fn is_infallible() -> bool {
    if IS_INFALLIBLE.load(Ordering::Relaxed) == 0 {
        return false;
    }
    // The words are compared by jemalloc's own test.
    const WORDS: &core::ffi::CStr =
        c"<jemalloc>: Allocation failed and opt.experimental_infallible_new is true. Aborting.\n";
    let aborter = ABORTER.load(Ordering::Relaxed);
    if aborter == 0 {
        heap().os().write(2, WORDS.to_bytes());
        heap().os().abort();
    }
    // SAFETY: the program gave us the address of such a function.
    unsafe { core::mem::transmute::<usize, extern "C" fn(*const c_char)>(aborter)(WORDS.as_ptr()) };
    true
}

pub struct Counted;

/// The bytes of the block for a small request; one for nothing has a block, too.
#[inline(always)]
fn of_class(bytes: usize) -> usize {
    if bytes <= LARGEST_BYTES { SizeClass::for_small(bytes.max(1)).block_bytes() } else { 0 }
}

#[inline(always)]
fn took_of_class(block: usize, bytes: usize) -> usize {
    if block != 0 {
        took_bytes(of_class(bytes));
    }
    block
}

/// A block of the cache of a tenant's heap; 0 where there is none.
#[inline]
pub fn pop_of(id: HeapId, bytes: usize) -> usize {
    took_of_class(heap().pop_block_of(id, bytes), bytes)
}

/// A block was resized, perhaps elsewhere: a new one, and a free of the old.
fn resized(before: usize, block: usize) -> usize {
    if block != 0 {
        gave_bytes(before);
        took(block);
    }
    block
}

macro_rules! passed_on {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)+) => { $(
        #[inline(always)]
        fn $name(&self, $($argument: $kind),*) $(-> $result)? {
            Blocks::$name(heap(), $($argument),*)
        }
    )+ };
}

impl Blocks for Counted {
    type Os = Linux;

    fn heap(&self) -> &Heap<Linux> {
        heap()
    }

    passed_on! {
        has_guard_pages() -> bool;
        mark(address: usize, maker: Maker);
        hand_over(address: usize, maker: Maker);
        check_size(address: usize, bytes: usize, align: usize);
        check_alignment(address: usize, align: usize);
        usable_bytes(address: usize) -> usize;
        block_bytes_for(bytes: usize, align: usize) -> usize;
        check_copy(address: usize, bytes: usize);
        heap_for_token(token: u64) -> HeapId;
        end_heap(id: HeapId, how: Ending) -> Result<(), Refusal>;
        reset_heap(id: HeapId) -> Result<(), Refusal>;
        each_block_of(id: HeapId, take: impl FnMut(usize, usize));
        tell_more(misuse: &Misuse, here: &dyn Fn() -> Stack);
        owns(address: usize) -> bool;
        explain(address: usize, access: Access) -> Option<Misuse>;
        release(keep: usize) -> usize;
        audit();
        audit_for_good();
    }

    #[inline(always)]
    fn allocate_fast(&self, bytes: usize) -> usize {
        took_of_class(Blocks::allocate_fast(heap(), bytes), bytes)
    }

    fn allocate_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        Blocks::allocate_in(heap(), id, align, bytes).inspect(|block| _ = took(*block))
    }

    fn allocate_zeroed_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        Blocks::allocate_zeroed_in(heap(), id, align, bytes).inspect(|block| _ = took(*block))
    }

    fn allocate_slow(&self, bytes: usize) -> usize {
        // A request for nothing gets the least block: programs read of it what `malloc_usable_size` tells.
        took(if bytes == 0 { Blocks::allocate(heap(), 1) } else { Blocks::allocate_slow(heap(), bytes) })
    }

    #[inline(always)]
    fn make_fast(&self, bytes: usize, maker: Maker) -> usize {
        took_of_class(Blocks::make_fast(heap(), bytes, maker), bytes)
    }

    fn allocate_aligned(&self, align: usize, bytes: usize) -> usize {
        took(Blocks::allocate_aligned(heap(), align, bytes.max(1)))
    }

    #[inline(always)]
    fn allocate_aligned_fast(&self, align: usize, bytes: usize) -> usize {
        let block = Blocks::allocate_aligned_fast(heap(), align, bytes.max(1));
        // Only blocks of classes are had so.
        if block != 0
            && let Some(class) = SizeClass::for_aligned(bytes.max(1), align)
        {
            took_bytes(class.block_bytes());
        }
        block
    }

    fn allocate_zeroed(&self, count: usize, bytes: usize) -> usize {
        match count.checked_mul(bytes) {
            Some(0) => took(Blocks::allocate_zeroed(heap(), 1, 1)),
            _ => took(Blocks::allocate_zeroed(heap(), count, bytes)),
        }
    }

    #[inline(always)]
    fn allocate_zeroed_fast(&self, count: usize, bytes: usize) -> usize {
        took_of_class(Blocks::allocate_zeroed_fast(heap(), count, bytes), count.wrapping_mul(bytes))
    }

    fn allocate_aligned_zeroed(&self, align: usize, bytes: usize) -> usize {
        took(Blocks::allocate_aligned_zeroed(heap(), align, bytes.max(1)))
    }

    fn reallocate(&self, address: usize, bytes: usize) -> usize {
        let before = heap().known_bytes(address);
        resized(before, Blocks::reallocate(heap(), address, bytes.max(1)))
    }

    fn reallocate_aligned(&self, address: usize, align: usize, bytes: usize) -> usize {
        let before = heap().known_bytes(address);
        resized(before, Blocks::reallocate_aligned(heap(), address, align, bytes.max(1)))
    }

    fn resize_in_place(&self, address: usize, align: usize, bytes: usize) -> bool {
        let before = heap().known_bytes(address);
        let is_done = Blocks::resize_in_place(heap(), address, align, bytes);
        if is_done && heap().known_bytes(address) != before {
            resized(before, address);
        }
        is_done
    }

    #[inline(always)]
    fn free_fast(&self, address: usize) -> bool {
        let bytes = match heap().free_fast_bytes(address) {
            0 => heap().free_to_tenant_bytes(address, 0),
            bytes => bytes,
        };
        if bytes != 0 {
            gave_bytes(bytes);
        }
        bytes != 0
    }

    #[inline(always)]
    fn free_sized_fast(&self, address: usize, bytes: usize) -> bool {
        let bytes = match heap().free_sized_fast_bytes(address, bytes) {
            0 => heap().free_to_tenant_bytes(address, bytes),
            bytes => bytes,
        };
        if bytes != 0 {
            gave_bytes(bytes);
        }
        bytes != 0
    }

    fn free_slow(&self, address: usize) {
        let bytes = heap().known_bytes(address);
        Blocks::free_slow(heap(), address);
        gave_bytes(bytes);
    }

    #[inline(always)]
    fn take_fast(&self, address: usize, _: Maker) -> bool {
        self.free_fast(address)
    }

    #[inline(always)]
    fn take_sized_fast(&self, address: usize, bytes: usize, _: Maker) -> bool {
        self.free_sized_fast(address, bytes)
    }
}
