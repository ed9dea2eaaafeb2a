//! The operating system, asked in our words.
//!
//! Owns no state of the heap; promises that a refusal comes back as a value and that nothing here allocates;
//! every layer above may call it; sits on `base`. `Linux` is the real one; tests use a fake that refuses on
//! demand.

mod bell;
#[cfg(any(test, feature = "fake-os"))]
pub mod fake;
mod linux;
mod mutex;
pub(crate) mod witness;

pub use bell::Bell;
#[cfg(target_arch = "x86_64")]
pub use linux::unwind;
pub use linux::{Filter, Interrupted, Linux, MOST_DOMAINS, Obeyed};
#[cfg(any(test, feature = "fake-os"))]
pub use mutex::AnyLock;
pub use mutex::{Guard, Mutex, Wait};

use crate::base::sync::{AtomicU32, AtomicUsize};
use crate::base::text::Sink;
use core::ffi::CStr;

/// The area in which the kernel publishes, for each thread, which virtual CPU it runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceArea {
    /// The thread's rseq area, as an offset from the thread pointer.
    pub area: isize,
    /// The 32-bit index of the virtual CPU in that area, as an offset from the thread pointer.
    pub index: isize,
    pub kind: IndexKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// `mm_cid`: dense, below min(threads, usable CPUs).
    ConcurrencyId,
    /// `cpu_id`: the CPU's number.
    CpuId,
}

/// Why there are no restartable sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoSequences {
    /// The kernel has none, or a filter refuses them.
    Kernel,
    /// There is no fence for them.
    Fence,
}

/// The bits of `Os::lender` for the number of the process that lends its memory to a child: numbers are smaller.
pub const LENDER: u32 = LOOKED_FOR - 1;
/// The bit that says that a child at a lock may look for its parent.
pub const LOOKED_FOR: u32 = 1 << 30;
/// The bit that says that numbers do not tell the child from its maker, whose thread waits.
pub const LENT: u32 = 1 << 31;

/// How a thread was registered for the sequences before it lent its area to a child. Handed through registers, so its
/// layout is C's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Registered {
    /// Not at all, and it will not be.
    Never,
    /// Not yet.
    NotYet,
    /// It still is: the kernel did not take it back, or may not be asked.
    Kept,
    /// In an area of so many bytes.
    With(u32),
}

/// A limit on memory and what counts against it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryGroup {
    pub limit: usize,
    pub in_use: usize,
}

/// The system's rule for transparent huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePages {
    Never,
    /// On request only.
    OnRequest,
    /// Everywhere, unless a range forbids it.
    Always,
}

/// Why a file could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unread {
    Missing,
    /// There is something, and the system does not give its contents to us.
    Refused,
}

/// Why a range was not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapRefusal {
    /// Something else is mapped there.
    Taken,
    /// The system gives no more: memory, address space or number of mappings.
    Exhausted,
}

/// Addresses that nothing else uses, and some random bits that nobody else knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeRange {
    pub address: usize,
    pub random: u64,
}

/// The outcome of moving pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    All,
    /// Nothing happened: they lie in more than one mapping.
    Several,
    /// Nothing happened: the system cannot, or has too few mappings left.
    Nothing,
    /// They are where they were, and where they were to go there is nothing mapped any more.
    Hole,
}

/// The purpose of pages, as the system shows it among the process's mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Heap,
    Tables,
    Guards,
    Emergency,
}

impl Purpose {
    pub const fn name(self) -> &'static CStr {
        match self {
            Purpose::Heap => c"vcmalloc-heap",
            Purpose::Tables => c"vcmalloc-tables",
            Purpose::Guards => c"vcmalloc-guards",
            Purpose::Emergency => c"vcmalloc-emergency",
        }
    }
}

/// The requests of a heap to its system. Addresses and lengths are multiples of the page size.
pub trait Os: Wait + Sync + 'static {
    /// This thread's own word, in which a heap notes that the thread is in a slow path of its; 0 in a new thread, whatever
    /// an ended one on the same stack left.
    fn inside() -> &'static AtomicUsize;

    /// This thread's own word for the tenant's heap that serves what it asks of malloc; 0 in a new thread.
    fn heap_in_use() -> &'static AtomicUsize;

    /// The word behind it: the address of that heap's entry, or 0.
    fn tenant_in_use() -> &'static AtomicUsize;

    /// So far from the thread pointer the first of both lies, in each thread.
    fn offset_of_heap() -> isize;

    /// A number that no two living threads share: the address of that word.
    #[inline]
    fn thread_id() -> usize {
        Self::inside().as_ptr().addr()
    }

    /// The number that the system knows this thread by; 0 where it may not be asked.
    fn thread_number(&self) -> u64;

    /// That number where the C library keeps it: so far behind the beginning of the thread's own block, where it was found
    /// before.
    fn thread_number_at(&self, _offset: usize) -> u32 {
        self.thread_number() as u32
    }

    /// The number that the system knows this process by; 0 where it may not be asked.
    fn process_number(&self) -> u64;

    /// Does what may ask the system, while the program is not to see that: its errno stays.
    fn unseen<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// The system's page size in bytes.
    fn page_bytes(&self) -> usize;

    /// A range of addresses that nothing else uses now, where memory may be mapped step by step, at a multiple
    /// of 2 MiB that is drawn anew at each call. Not reserved.
    fn free_range(&self, bytes: usize) -> Option<FreeRange>;
    /// The most address space that this process can hope to fill with memory.
    fn address_budget(&self) -> usize;
    /// How long a range should be in which so much is to find place, whatever others map there.
    fn address_range(&self) -> usize;
    /// Zeroed memory at exactly `address`.
    fn map_at(&self, address: usize, bytes: usize) -> Result<(), MapRefusal>;
    /// Pages at exactly `address` that read as zeros and that nobody may write.
    fn map_zeros_at(&self, address: usize, bytes: usize) -> Result<(), MapRefusal>;
    /// Addresses without memory.
    fn reserve(&self, bytes: usize) -> Option<usize>;
    /// Addresses without memory, some of which the program will know: they tell nothing of where other mappings lie.
    fn reserve_apart(&self, bytes: usize) -> Option<usize> {
        self.reserve(bytes)
    }
    /// Gives a part of a reservation zeroed memory.
    fn commit(&self, address: usize, bytes: usize) -> bool;
    /// Zeroed memory, as any program maps it.
    fn map(&self, bytes: usize) -> Option<usize>;
    /// Addresses of which the first `head` bytes have memory. True where the others have some too: so it is where the
    /// protection of pages may not be changed.
    fn reserve_with_head(&self, bytes: usize, head: usize) -> Option<(usize, bool)> {
        if let Some(address) = self.reserve(bytes) {
            if self.commit(address, head) {
                return Some((address, false));
            }
            self.unmap(address, bytes);
        }
        self.map(bytes).map(|address| (address, true))
    }
    /// Makes pages that nobody can read or write; their contents stay. Refused where they could not be opened again.
    fn close_pages(&self, address: usize, bytes: usize) -> bool;
    /// Makes pages that nobody can read or write and that are no mapping of their own; their contents are gone. Refused where
    /// they could not be opened again, by old systems, and for locked memory.
    fn mark_pages(&self, _address: usize, _bytes: usize) -> bool {
        false
    }
    /// Opens the pages of a range that are marked so; they read as zeros.
    fn unmark_pages(&self, _address: usize, _bytes: usize) -> bool {
        false
    }
    /// Ends a mapping or a reservation.
    fn unmap(&self, address: usize, bytes: usize);
    /// The address of a zeroed word that becomes zero again in every child process with a memory of its own,
    /// however the child was made. None where the system has no such thing.
    fn process_word(&self) -> Option<usize>;
    /// Pages become zeros in every child process with a memory of its own. Refused by old systems.
    fn wipe_in_children(&self, _address: usize, _bytes: usize) -> bool {
        false
    }
    /// Brings pages into memory that are about to be written, many at once; otherwise the thread that
    /// touches them does it.
    fn populate(&self, address: usize, bytes: usize);
    /// Releases pages to the system: they stay mapped and read as zeros.
    fn release(&self, address: usize, bytes: usize) -> bool;
    /// Keeps pages out of core files, or lets them in again.
    fn set_dumped(&self, address: usize, bytes: usize, dumped: bool) -> bool;
    /// Tells the system what mapped pages are for, whose neighbours for the same purpose stay one mapping with them. Nothing
    /// depends on it.
    fn name_pages(&self, address: usize, bytes: usize, purpose: Purpose);
    /// Puts a 2 MiB block onto one huge page now; may take a millisecond.
    fn collapse(&self, address: usize, bytes: usize) -> bool;
    /// Brings one huge page into a 2 MiB block that nobody has written to; does not move what is there. False where the
    /// block has none then.
    fn take_huge(&self, address: usize, bytes: usize) -> bool;
    /// Takes the huge page of a block apart, given one of its pages, so that a part that is given back is free at once
    /// and not only once the system needs it. Takes 150 us.
    fn split_huge(&self, address: usize);
    /// The system's rule for huge pages in this process.
    fn huge_pages(&self) -> HugePages;
    /// Stops the kernel from making huge pages of a range by itself.
    fn forbid_huge_pages(&self, address: usize, bytes: usize);
    /// Moves the pages of one mapping to where other pages are mapped, whose contents nobody needs; the old range
    /// stays mapped and reads as zeros.
    fn move_pages(&self, from: usize, to: usize, bytes: usize) -> Moved;
    /// Says of each page of a mapped range, from its start on, in bit 0 of a byte whether it is in memory now. False where
    /// the system does not say.
    fn residency(&self, address: usize, pages: &mut [u8]) -> bool;
    /// Bytes of a mapped range that are in memory now.
    #[inline(never)]
    fn resident_bytes(&self, address: usize, bytes: usize) -> Option<usize> {
        const PAGES: usize = 512;
        let page = self.page_bytes().max(1);
        let (mut states, mut resident, mut at) = ([0u8; PAGES], 0, address);
        while at < address + bytes {
            let states = states.get_mut(..((address + bytes - at) / page).clamp(1, PAGES))?;
            if !self.residency(at, states) {
                return None;
            }
            resident += states.iter().filter(|state| **state & 1 != 0).count() * page;
            at += states.len() * page;
        }
        Some(resident)
    }

    /// None where the system has no restartable sequences or this process did not register.
    fn sequence_area(&self) -> Option<SequenceArea>;
    /// Whether the kernel aborts them, as far as is known.
    fn aborts_sequences(&self) -> bool {
        true
    }
    /// The area in which we could register threads; registers none.
    fn own_sequence_area(&self) -> Result<SequenceArea, NoSequences> {
        Err(NoSequences::Kernel)
    }
    /// Registers this thread in that area, where this is allowed and was not refused before. True where its sequences can
    /// be used now.
    fn enter_sequences(&self) -> bool {
        false
    }
    /// Takes back this thread's registration in the area at this offset, which a child is about to run on.
    fn suspend_sequences(&self, _area: isize) -> Registered {
        Registered::Never
    }
    /// Makes it again.
    fn resume_sequences(&self, _area: isize, _before: Registered) {}
    /// Notes that this process lends its memory to a child on this thread's area; `is_parent`: the child will see it as its parent.
    /// `waits`: this thread does nothing before its end or exec. `is_renumbered`: it may have this process's number in a namespace of
    /// its own. Returns what was noted before.
    fn lend(&self, _is_parent: bool, _waits: bool, _is_renumbered: bool) -> u32 {
        0
    }
    /// Notes that again; 0: no process lends its memory.
    fn set_lender(&self, _lender: u32) -> u32 {
        0
    }
    /// The note as it is now: the number of the process, 0 where it is not known, `LOOKED_FOR`, `LENT`.
    fn lender(&self) -> u32 {
        0
    }
    /// Whether there are calls that this thread alone does not ask.
    fn has_own_refusals(&self) -> bool {
        false
    }
    /// From now on this thread asks what its process may.
    fn forget_own_refusals(&self) {}
    /// From now on no thread asks them.
    fn share_own_refusals(&self) {}
    /// Ends this process where it is such a child and the one that lent it the memory is gone.
    fn end_if_left_behind(&self) {}
    /// Aborts every sequence in flight in this process: one begun before the call has committed or will
    /// restart.
    fn fence_sequences(&self) -> bool;
    /// An upper bound of the CPU numbers of this machine.
    fn possible_cpus(&self) -> usize;
    /// CPUs that affinity, cpuset and quota let this process use now, rounded up, at least 1. A thread may use others than
    /// the main one: of so many it was `seen` that threads use them.
    fn usable_cpus(&self, seen: usize) -> usize;
    /// Asks, once, which CPUs share a cache of the third level.
    fn learn_domains(&self) {}
    /// The number of such a domain, of the CPU that this thread runs on now, below `MOST_DOMAINS`; 0 where there is one or
    /// it is not known.
    fn domain(&self) -> usize {
        0
    }

    /// A number that nobody can guess.
    fn random(&self) -> u64;
    /// Nanoseconds of a clock that never goes back.
    fn now(&self) -> u64;
    /// The same clock as it was some milliseconds ago at most, for a tenth of the price.
    fn roughly_now(&self) -> u64 {
        self.now()
    }
    /// Waits until `word` is not `expected`, for so many nanoseconds at most; may return for no reason.
    fn wait_for(&self, word: &AtomicU32, expected: u32, nanoseconds: u64);
    /// Waits for so many nanoseconds; may return for no reason.
    fn sleep(&self, nanoseconds: u64) {
        // Nobody else knows the word: nothing wakes this thread.
        self.wait_for(&AtomicU32::new(0), 0, nanoseconds);
    }
    /// The limit and the present use of the memory cgroup that leaves the least room, where there is a limit. The
    /// use with all that the group could give up, or, if it is to be `exact`, without. An error where the system
    /// may not be asked any more.
    fn memory_group(&self, exact: bool) -> Result<Option<MemoryGroup>, Unread>;
    /// Bytes of this process's own that are in memory; none where the system does not say.
    fn own_memory(&self) -> Option<usize>;
    /// Bytes of memory in this machine.
    fn memory_bytes(&self) -> usize;
    /// True while this cgroup stalls for want of memory, or the system where there is no cgroup that tells.
    fn is_under_pressure(&self) -> bool;

    /// True in a setuid or otherwise privileged start, where nothing from outside may be obeyed.
    fn is_privileged(&self) -> bool;
    /// Calls `take` with the name and value of each environment variable.
    fn each_variable(&self, take: &mut dyn FnMut(&[u8], &[u8]));
    /// The program's name as the kernel keeps it; the bytes written.
    fn program_name(&self, buffer: &mut [u8]) -> usize;
    /// Reads a file from its start; the bytes read.
    fn read_file(&self, path: &CStr, buffer: &mut [u8]) -> Result<usize, Unread>;
    /// Hands a file to `take` piece by piece; false where it cannot be opened.
    fn read_through(&self, path: &CStr, take: &mut dyn FnMut(&[u8])) -> bool;
    /// Makes a file, or empties it, and lets `fill` write it; false where that was refused or the disk is
    /// full.
    fn write_file(&self, path: &CStr, fill: &mut dyn FnMut(&mut dyn Sink)) -> bool;
    /// Makes a file `beside`, lets `fill` write it, and renames it to `path` when it is whole: a file that was there is
    /// gone then, and as it was where something is refused. The system's error, 0 where it is none.
    fn write_whole(&self, path: &CStr, beside: &CStr, fill: &mut dyn FnMut(&mut dyn Sink))
    -> Result<(), u32>;
    /// Fills `frames` with the return addresses of this thread's calls, innermost first; returns how many.
    fn stack(&self, frames: &mut [usize]) -> usize;
    /// Writes a message to a descriptor; loss is not reported.
    fn write(&self, descriptor: i32, bytes: &[u8]);
    /// Gives a thread that has a table of descriptors of its own copies of the program's.
    fn copy_descriptors(&self);
    /// Asks the system what it may not be asked later; answers are remembered.
    fn learn(&self);
    /// From now on the system is asked for nothing but memory, its fences and to wait.
    fn keep_to_list(&self);
    /// Ends the process by SIGABRT.
    fn abort(&self) -> !;
}
