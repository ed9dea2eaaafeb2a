//! Linux as the heap of a run sees it: so many CPUs, of which the run says which one it stands on; every
//! request counted.

use crate::counts::{self, Call};
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use vcmalloc_core::base::locks::Rank;
use vcmalloc_core::base::text::Sink;
use vcmalloc_core::os::{
    FreeRange, HugePages, IndexKind, Linux, MOST_DOMAINS, MapRefusal, MemoryGroup, Moved, Os, Purpose,
    SequenceArea, Unread, Wait,
};

/// The area that the kernel keeps for a thread (`struct rseq`, linux/rseq.h). Nothing interrupts a run's
/// sequences, since one thread runs them all: this one is the run's own.
#[repr(C, align(32))]
struct Area([Cell<u32>; 8]);

const CPU: usize = 1;
const CONCURRENCY: usize = 6;
const CPUS_OF_DOMAIN: usize = 16;

thread_local! {
    static AREA: Area = const { Area([const { Cell::new(0) }; 8]) };
}

static SLABS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
static BETWEEN_TICKS: OnceLock<fn()> = OnceLock::new();
static PERIOD: AtomicU64 = AtomicU64::new(0);
static CPUS: AtomicUsize = AtomicUsize::new(1);
static NANOSECONDS: AtomicU64 = AtomicU64::new(1 << 40);

/// The number of CPUs that the heap is to see. Before its first use.
pub fn set_cpus(cpus: usize) {
    CPUS.store(cpus, Relaxed);
}

/// From now on this thread is the one that runs on this CPU.
#[inline(always)]
pub fn stand_on(cpu: u32) {
    AREA.with(|area| {
        area.0[CPU].set(cpu);
        area.0[CONCURRENCY].set(cpu);
    });
}

/// The CPU that it runs on.
pub fn cpu() -> u32 {
    AREA.with(|area| area.0[CONCURRENCY].get())
}

/// The action for when the janitor begins to wait for its next tick.
pub fn between_ticks(act: fn()) {
    BETWEEN_TICKS.get_or_init(|| act);
}

/// How long it wanted to wait.
pub fn period() -> u64 {
    PERIOD.load(Relaxed)
}

/// Slabs: memory that only their CPU uses.
pub fn slabs() -> Vec<(u64, u64)> {
    SLABS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

/// The clock of the run: so long since it began.
#[inline(always)]
pub fn set_time(nanoseconds: u64) {
    NANOSECONDS.store((1 << 40) + nanoseconds, Relaxed);
}

pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the ABI says where a thread's own block begins.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// The system of a run.
pub struct Counting(Linux);

impl Counting {
    pub const fn new() -> Self {
        Counting(Linux::new())
    }
}

impl Wait for Counting {
    fn wait(word: &AtomicU32, expected: u32) {
        Linux::wait(word, expected);
    }

    fn wake_one(word: &AtomicU32) {
        Linux::wake_one(word);
    }

    fn mark() -> usize {
        Linux::mark()
    }

    #[inline(always)]
    fn taken(lock: usize, rank: Rank) {
        counts::taken(lock, rank);
    }

    #[inline(always)]
    fn left(_: usize, _: Rank) {
        counts::left();
    }
}

/// The call of Linux, counted as a request of this kind.
macro_rules! ask {
    ($($call:ident: $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)+) => { $(
        fn $name(&self, $($argument: $kind),*) $(-> $result)? {
            counts::asked(Call::$call, || self.0.$name($($argument),*))
        }
    )+ };
}

/// The call of Linux.
macro_rules! pass {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)+) => { $(
        fn $name(&self, $($argument: $kind),*) $(-> $result)? {
            self.0.$name($($argument),*)
        }
    )+ };
}

impl Os for Counting {
    fn inside() -> &'static AtomicUsize {
        Linux::inside()
    }

    fn heap_in_use() -> &'static AtomicUsize {
        Linux::heap_in_use()
    }

    fn tenant_in_use() -> &'static AtomicUsize {
        Linux::tenant_in_use()
    }

    fn offset_of_heap() -> isize {
        Linux::offset_of_heap()
    }

    ask! {
        Other: free_range(bytes: usize) -> Option<FreeRange>;
        Map: map_at(address: usize, bytes: usize) -> Result<(), MapRefusal>;
        Map: map_zeros_at(address: usize, bytes: usize) -> Result<(), MapRefusal>;
        Map: reserve(bytes: usize) -> Option<usize>;
        Map: reserve_apart(bytes: usize) -> Option<usize>;
        Map: map(bytes: usize) -> Option<usize>;
        Protect: commit(address: usize, bytes: usize) -> bool;
        Protect: close_pages(address: usize, bytes: usize) -> bool;
        Unmap: unmap(address: usize, bytes: usize);
        Populate: populate(address: usize, bytes: usize);
        AdviseRelease: release(address: usize, bytes: usize) -> bool;
        AdviseOff: set_dumped(address: usize, bytes: usize, dumped: bool) -> bool;
        AdviseOff: wipe_in_children(address: usize, bytes: usize) -> bool;
        AdviseOff: forbid_huge_pages(address: usize, bytes: usize);
        Name: name_pages(address: usize, bytes: usize, purpose: Purpose);
        Collapse: collapse(address: usize, bytes: usize) -> bool;
        TakeHuge: take_huge(address: usize, bytes: usize) -> bool;
        AdviseRelease: split_huge(address: usize);
        Move: move_pages(from: usize, to: usize, bytes: usize) -> Moved;
        Other: residency(address: usize, pages: &mut [u8]) -> bool;
        Other: resident_bytes(address: usize, bytes: usize) -> Option<usize>;
        Fence: fence_sequences() -> bool;
        Other: memory_group(exact: bool) -> Result<Option<MemoryGroup>, Unread>;
        Other: own_memory() -> Option<usize>;
        Other: is_under_pressure() -> bool;
    }

    pass! {
        thread_number() -> u64;
        process_number() -> u64;
        page_bytes() -> usize;
        address_budget() -> usize;
        address_range() -> usize;
        process_word() -> Option<usize>;
        huge_pages() -> HugePages;
        random() -> u64;
        memory_bytes() -> usize;
        is_privileged() -> bool;
        program_name(buffer: &mut [u8]) -> usize;
        read_file(path: &CStr, buffer: &mut [u8]) -> Result<usize, Unread>;
        read_through(path: &CStr, take: &mut dyn FnMut(&[u8])) -> bool;
        write_file(path: &CStr, fill: &mut dyn FnMut(&mut dyn Sink)) -> bool;
        write_whole(path: &CStr, beside: &CStr, fill: &mut dyn FnMut(&mut dyn Sink)) -> Result<(), u32>;
        stack(frames: &mut [usize]) -> usize;
        write(descriptor: i32, bytes: &[u8]);
        copy_descriptors();
        learn();
        keep_to_list();
        each_variable(take: &mut dyn FnMut(&[u8], &[u8]));
    }

    fn sequence_area(&self) -> Option<SequenceArea> {
        let area = AREA.with(|area| area.0.as_ptr().addr());
        let from_pointer = area.wrapping_sub(thread_pointer()) as isize;
        let index = from_pointer + (CONCURRENCY * size_of::<u32>()) as isize;
        Some(SequenceArea { area: from_pointer, index, kind: IndexKind::ConcurrencyId })
    }

    fn reserve_with_head(&self, bytes: usize, head: usize) -> Option<(usize, bool)> {
        let made = counts::asked(Call::Map, || self.0.reserve_with_head(bytes, head));
        if let Some((at, _)) = made {
            let all = &mut *SLABS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.push((at as u64, (at + bytes) as u64));
        }
        made
    }

    /// The janitor waits between two ticks, and nobody else waits here.
    fn wait_for(&self, _: &AtomicU32, _: u32, nanoseconds: u64) {
        PERIOD.store(nanoseconds, Relaxed);
        BETWEEN_TICKS.get().inspect(|act| act());
    }

    fn possible_cpus(&self) -> usize {
        CPUS.load(Relaxed)
    }

    fn usable_cpus(&self, seen: usize) -> usize {
        CPUS.load(Relaxed).max(seen)
    }

    /// As the real system parts CPUs that share one cache.
    fn domain(&self) -> usize {
        AREA.with(|area| area.0[CONCURRENCY].get() as usize / CPUS_OF_DOMAIN % MOST_DOMAINS)
    }

    fn now(&self) -> u64 {
        NANOSECONDS.load(Relaxed)
    }

    fn abort(&self) -> ! {
        std::process::abort()
    }
}
