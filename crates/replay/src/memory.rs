//! The memory that the director and a replayer share: a file that both map.
//!
//! ```text
//!   Head | a Stream for each | a Slot for each block that lives | a Tenant for each | the words of one epoch
//! ```
//!
//! The file is sparse: untouched parts take no memory. Between two slices the director owns all of it; during one,
//! a stream owns its range of words, and a slot passes from the stream that allocates to the one that frees.

use anyhow::{Context, Result, ensure};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

#[repr(C)]
pub struct Head {
    pub streams: AtomicU64,
    pub slots: AtomicU64,
    pub tenants: AtomicU64,
    /// Of the longest epoch.
    pub words: AtomicU64,
    /// 1 for a heap that does nothing.
    pub is_null: AtomicU32,
    /// 1 where tenants have heaps; 2 where the replayer found no functions for it.
    pub heaps: AtomicU32,
    /// Of large blocks, how many of 65,536 parts are touched.
    pub touched: AtomicU32,
    /// Nanoseconds of the trace that pass in 1,000 of the clock; 0: as fast as possible.
    pub pace: AtomicU64,
    /// On the clock, when the trace began.
    pub began: AtomicU64,
    /// Raised by the replayer when it can be handed work.
    pub is_ready: AtomicU32,
    /// How many threads there should be, or `FINISH`.
    pub wanted: AtomicU32,
    /// Threads that have not done their part of the slice.
    pub remaining: AtomicU32,
    /// Of these, those that wait for another's block.
    pub waiting: AtomicU32,
    /// Set where streams wait for each other, which a trace that is right never makes them.
    pub give_up: AtomicU32,
    pub live_bytes: AtomicI64,
    pub given_up: AtomicU64,
    pub refused: AtomicU64,
    pub refused_bytes: AtomicU64,
    /// The last error in starting a thread.
    pub no_thread: AtomicU32,
    pub late_nanoseconds: AtomicU64,
    pub cpu_nanoseconds: AtomicU64,
    pub system_nanoseconds: AtomicU64,
    pub minor_faults: AtomicU64,
    pub major_faults: AtomicU64,
}

pub const FINISH: u32 = u32::MAX;

/// One stream; a cache line of its own.
#[repr(C, align(64))]
pub struct Stream {
    /// Goes up by one when it has something to do.
    pub turn: AtomicU32,
    pub ends: AtomicU32,
    /// Of its part of the slice.
    pub first: AtomicU64,
    pub behind: AtomicU64,
}

/// A block that lives.
#[repr(C)]
pub struct Slot {
    /// 0 before it is allocated.
    pub address: AtomicU64,
    pub bytes: AtomicU64,
}

/// A tenant: its heap, and what was seen when it ended. A word each that the replayer writes once.
#[repr(C)]
pub struct Tenant {
    /// 0: none.
    pub heap: AtomicU64,
    /// 1 when it has ended.
    pub has_ended: AtomicU64,
    /// Of processor time, in the frees or in the call that ended the heap.
    pub nanoseconds: AtomicU64,
    /// Anonymous memory of the process just before and just after.
    pub before: AtomicU64,
    pub after: AtomicU64,
    /// Of its heap before the end: bytes of blocks, of spans, and of these in memory.
    pub heap_bytes: [AtomicU64; 3],
}

/// A slot somebody waits for.
pub const AWAITED: u64 = 2;
/// The address of a block that malloc refused, or gave nothing for.
pub const NOTHING: u64 = 1;

const HEAD_BYTES: usize = 4096;

pub struct Memory {
    file: File,
    base: *mut u8,
    bytes: usize,
    pub streams: usize,
    pub slots: usize,
    pub tenants: usize,
    pub words: usize,
}

// SAFETY: everything in it is atomic, or owned as the head of this file says.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(streams: usize, slots: usize, tenants: usize, words: usize) -> Result<Memory> {
        let file: File = memfd_create(c"replay", MFdFlags::MFD_CLOEXEC).context("no file in memory")?.into();
        let memory = Self::map(file, [streams, slots, tenants, words])?;
        let head = memory.head();
        let sizes =
            [(&head.streams, streams), (&head.slots, slots), (&head.tenants, tenants), (&head.words, words)];
        sizes.iter().for_each(|(word, size)| word.store(*size as u64, std::sync::atomic::Ordering::Relaxed));
        Ok(memory)
    }

    /// The memory that another process made.
    pub fn of(file: OwnedFd) -> Result<Memory> {
        let file = File::from(file);
        ensure!(file.metadata()?.len() >= HEAD_BYTES as u64, "it is no memory of a replay");
        let head = Self::mapped(&file, HEAD_BYTES)?;
        // SAFETY: just mapped, aligned to a page, and any bytes are valid.
        let sizes = unsafe {
            let head = &*head.cast::<Head>();
            [&head.streams, &head.slots, &head.tenants, &head.words]
                .map(|word| word.load(std::sync::atomic::Ordering::Relaxed))
        };
        Self::map(file, sizes.map(|size| size as usize))
    }

    fn map(file: File, [streams, slots, tenants, words]: [usize; 4]) -> Result<Memory> {
        let ahead = HEAD_BYTES + streams * size_of::<Stream>() + slots * size_of::<Slot>();
        let bytes = ahead + tenants * size_of::<Tenant>() + words * 8;
        if file.metadata()?.len() == 0 {
            file.set_len(bytes as u64).context("no room for a replay's memory")?;
        }
        ensure!(file.metadata()?.len() == bytes as u64, "it is no memory of a replay");
        let base = Self::mapped(&file, bytes)?;
        Ok(Memory { file, base, bytes, streams, slots, tenants, words })
    }

    fn mapped(file: &File, bytes: usize) -> Result<*mut u8> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping of a file that nobody shortens.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, file.as_raw_fd(), 0) };
        ensure!(
            base != libc::MAP_FAILED,
            "no room for a replay's memory: {}",
            std::io::Error::last_os_error()
        );
        Ok(base.cast())
    }

    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    pub fn head(&self) -> &Head {
        // SAFETY: the mapping lives as long as this, and begins with a head.
        unsafe { &*self.base.cast::<Head>() }
    }

    pub fn stream(&self, index: usize) -> &Stream {
        assert!(index < self.streams, "a stream of the trace");
        // SAFETY: within the mapping, and aligned: the head takes a page.
        unsafe { &*self.base.add(HEAD_BYTES).cast::<Stream>().add(index) }
    }

    /// All slots.
    pub fn slots(&self) -> &[Slot] {
        let at = HEAD_BYTES + self.streams * size_of::<Stream>();
        // SAFETY: within the mapping; slots are atomic.
        unsafe { std::slice::from_raw_parts(self.base.add(at).cast(), self.slots) }
    }

    /// All tenants.
    pub fn tenants(&self) -> &[Tenant] {
        let at = self.bytes - self.words * 8 - self.tenants * size_of::<Tenant>();
        // SAFETY: within the mapping; a tenant is atomic words.
        unsafe { std::slice::from_raw_parts(self.base.add(at).cast(), self.tenants) }
    }

    /// The words of the epoch.
    pub fn all_words(&self) -> &[AtomicU64] {
        let at = self.bytes - self.words * 8;
        // SAFETY: within the mapping; words are atomic.
        unsafe { std::slice::from_raw_parts(self.base.add(at).cast(), self.words) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}
