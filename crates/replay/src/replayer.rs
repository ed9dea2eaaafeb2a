//! The process that replays: a thread for each stream. Everything it knows is in the memory it shares with the director;
//! it asks its allocator for nothing but what the trace asked for, and what starting a thread does.

use crate::heap::{self, Heap};
use crate::heaps::Heaps;
use crate::memory::{AWAITED, FINISH, Memory, NOTHING, Slot};
use crate::{futex, script};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// The verb that `vcm` is called with to become one, before the descriptor of the memory.
pub const VERB: &str = "replayer-of-vcm-replay";
/// The least block of which only a part may be touched.
pub const LARGE: u64 = 64 << 10;
const STACK_BYTES: usize = 128 << 10;
const LONG: Duration = Duration::from_secs(3600);
const SPINS: u32 = 100;

static MEMORY: OnceLock<Memory> = OnceLock::new();
static HEAPS: OnceLock<Heaps> = OnceLock::new();

/// Replays what the director hands over, to its end. The exit code.
pub fn run(descriptor: i32) -> u8 {
    // SAFETY: the director left it open for this; a wrong number is an error of the system.
    let Ok(memory) = Memory::of(unsafe { OwnedFd::from_raw_fd(descriptor) }) else { return 2 };
    let memory = MEMORY.get_or_init(|| memory);
    // If memory runs out, this process has to go.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let head = memory.head();
    make_heaps(memory);
    let before = used();
    head.is_ready.store(1, Release);
    futex::wake_all(&head.is_ready);
    let mut started = 0;
    loop {
        let wanted = head.wanted.load(Acquire);
        if wanted == FINISH {
            break;
        }
        while started < wanted {
            if let Err(error) = start(started as usize) {
                head.no_thread.store(error as u32, Release);
                break;
            }
            started += 1;
        }
        futex::wait(&head.wanted, wanted, LONG);
    }
    let after = used();
    for (place, (after, before)) in
        [&head.cpu_nanoseconds, &head.system_nanoseconds, &head.minor_faults, &head.major_faults]
            .into_iter()
            .zip(after.into_iter().zip(before))
    {
        place.store(after.saturating_sub(before), Relaxed);
    }
    0
}

/// All heaps of tenants, if they have any, before the first block.
fn make_heaps(memory: &Memory) {
    let head = memory.head();
    if head.heaps.load(Relaxed) == 0 {
        return;
    }
    let made = Heaps::of_this_process().map(|found| HEAPS.get_or_init(|| found));
    let is_made = made.is_some_and(|heaps| {
        memory.tenants().iter().all(|tenant| {
            let heap = heaps.new_heap();
            tenant.heap.store(heap, Relaxed);
            heap != 0
        })
    });
    if !is_made {
        head.heaps.store(2, Relaxed);
    }
}

/// Processor time, that of the system, minor and major faults of this process.
fn used() -> [u64; 4] {
    // SAFETY: all zero is valid for both, and both live here.
    unsafe {
        let (mut usage, mut time): (libc::rusage, libc::timespec) = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time);
        let system = usage.ru_stime.tv_sec as u64 * 1_000_000_000 + usage.ru_stime.tv_usec as u64 * 1000;
        [nanoseconds(&time), system, usage.ru_minflt as u64, usage.ru_majflt as u64]
    }
}

fn nanoseconds(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(clock: libc::clockid_t) -> u64 {
    // SAFETY: the time lives here.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &raw mut time);
        nanoseconds(&time)
    }
}

fn start(stream: usize) -> Result<(), i32> {
    // SAFETY: attributes are initialised before use; the argument is a number.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut thread = std::mem::zeroed();
        let refused =
            libc::pthread_create(&raw mut thread, &raw const attributes, thread_of, stream as *mut _);
        libc::pthread_attr_destroy(&raw mut attributes);
        if refused == 0 { Ok(()) } else { Err(refused) }
    }
}

extern "C" fn thread_of(stream: *mut libc::c_void) -> *mut libc::c_void {
    let Some(memory) = MEMORY.get() else { return std::ptr::null_mut() };
    let is_null = memory.head().is_null.load(Relaxed) == 1;
    match is_null {
        true => stream_of::<heap::None>(memory, stream as usize),
        false => stream_of::<heap::Process>(memory, stream as usize),
    }
    std::ptr::null_mut()
}

fn stream_of<H: Heap>(memory: &Memory, stream: usize) {
    let (head, stream) = (memory.head(), memory.stream(stream));
    let mut thread = Thread::<H>::new(memory);
    let mut turn = 0;
    loop {
        let now = stream.turn.load(Acquire);
        if now == turn {
            futex::wait(&stream.turn, turn, LONG);
            continue;
        }
        turn = now;
        let (first, behind) = (stream.first.load(Relaxed) as usize, stream.behind.load(Relaxed) as usize);
        let ends = stream.ends.load(Relaxed) == 1;
        thread.words(memory.all_words().get(first..behind).unwrap_or_default());
        thread.tell();
        if head.remaining.fetch_sub(1, Release) == 1 {
            futex::wake_all(&head.remaining);
        }
        if ends {
            return;
        }
    }
}

struct Thread<'a, H> {
    memory: &'a Memory,
    slots: &'a [Slot],
    heaps: Option<&'static Heaps>,
    touched: u64,
    live: i64,
    refused: u64,
    heap: std::marker::PhantomData<H>,
}

impl<'a, H: Heap> Thread<'a, H> {
    fn new(memory: &'a Memory) -> Self {
        let touched = memory.head().touched.load(Relaxed).into();
        Thread {
            memory,
            slots: memory.slots(),
            heaps: HEAPS.get(),
            touched,
            live: 0,
            refused: 0,
            heap: std::marker::PhantomData,
        }
    }

    /// Adds to the common figures what this slice brought.
    fn tell(&mut self) {
        let head = self.memory.head();
        head.live_bytes.fetch_add(std::mem::take(&mut self.live), Relaxed);
        head.refused.fetch_add(std::mem::take(&mut self.refused), Relaxed);
    }

    fn words(&mut self, words: &[AtomicU64]) {
        let mut rest = words.iter();
        // The heap of the next allocation.
        let mut own = None;
        while let Some(word) = rest.next() {
            let word = word.load(Relaxed);
            let what = word & 15;
            if what == script::TIME {
                self.pace(word >> 4);
                continue;
            }
            let slot = (word >> script::SLOT_SHIFT & script::SLOT_MASK) as usize;
            if what == script::FREE {
                self.free(slot, word & script::WAITS != 0);
                continue;
            }
            if what == script::SKIP {
                continue;
            }
            if what == script::OF {
                own = self.heap_of(slot);
                continue;
            }
            if what == script::END {
                let count = ((word >> script::BYTES_SHIFT) as usize).min(rest.len());
                let (blocks, behind) = rest.as_slice().split_at(count);
                rest = behind.iter();
                self.end(slot, blocks);
                continue;
            }
            let mut next = || rest.next().map_or(0, |word| word.load(Relaxed));
            let mut bytes = word >> script::BYTES_SHIFT;
            if bytes == script::LONG {
                bytes = next();
            }
            let size = bytes as usize;
            let mut kept = 0;
            // SAFETY: blocks come from this heap, and `take` gives each to one thread.
            let block = unsafe {
                match (what, own.take()) {
                    (script::MALLOC, None) => H::malloc(size),
                    (script::CALLOC, None) => H::calloc(size),
                    (script::ALIGNED, None) => H::aligned(next() as u32, size),
                    (script::MALLOC, Some((heaps, heap))) => heaps.malloc(heap, size),
                    (script::CALLOC, Some((heaps, heap))) => heaps.calloc(heap, size),
                    (script::ALIGNED, Some((heaps, heap))) => heaps.aligned(heap, next() as u32, size),
                    (_, own) => {
                        let old = next();
                        match self.take((old & script::SLOT_MASK) as usize, old & script::OLD_WAITS != 0) {
                            Some((old, had)) => {
                                kept = had;
                                self.live -= had as i64;
                                match own {
                                    Some((heaps, heap)) => heaps.realloc(heap, old, size),
                                    None => H::realloc(old, size),
                                }
                            }
                            None => {
                                own.map_or_else(|| H::malloc(size), |(heaps, heap)| heaps.malloc(heap, size))
                            }
                        }
                    }
                }
            };
            self.begun(slot, block, bytes, kept, word & script::WAITS != 0);
        }
    }

    #[inline]
    fn begun(&mut self, slot: usize, block: *mut u8, bytes: u64, kept: u64, is_awaited: bool) {
        let mut address = block as u64;
        if block.is_null() {
            address = NOTHING;
            if bytes > 0 {
                self.refused += 1;
                self.memory.head().refused_bytes.store(bytes, Relaxed);
            }
        } else {
            self.touch(block, bytes, kept);
        }
        self.live += bytes as i64;
        let Some(slot) = self.slots.get(slot) else { return };
        slot.bytes.store(bytes, Relaxed);
        if !is_awaited {
            slot.address.store(address, Relaxed);
        } else if slot.address.swap(address, std::sync::atomic::Ordering::AcqRel) == AWAITED {
            futex::wake_all(low(&slot.address));
        }
    }

    /// Writes to every page from where the block was written before to where the model says.
    #[inline]
    fn touch(&self, block: *mut u8, bytes: u64, kept: u64) {
        let end = if bytes > LARGE {
            (bytes >> 16) * self.touched + (((bytes & 0xffff) * self.touched) >> 16)
        } else {
            bytes
        };
        if end <= kept {
            return;
        }
        let write = |offset: usize| {
            // SAFETY: within the block, or with the heap that does nothing at its begin.
            unsafe { block.add(if H::STRIDE == 0 { 0 } else { offset }).write_volatile(1) }
        };
        write(kept as usize);
        let to_page = 4096 - (block as u64 + kept) % 4096;
        let mut offset = kept + to_page;
        while offset < end {
            write(offset as usize);
            offset += 4096;
        }
    }

    #[inline]
    fn free(&mut self, slot: usize, waits: bool) {
        if let Some((block, bytes)) = self.take(slot, waits) {
            self.live -= bytes as i64;
            // SAFETY: it came from this heap, and nobody else takes it.
            unsafe { H::free(block) };
        }
    }

    /// Of a tenant, where tenants have them.
    fn heap_of(&self, tenant: usize) -> Option<(&'static Heaps, u64)> {
        Some((self.heaps?, self.memory.tenants().get(tenant)?.heap.load(Relaxed)))
    }

    /// All blocks of a tenant go: one by one, or with their heap. The words, which name their slots, have the blocks then:
    /// nothing is allocated, and only the end itself is timed.
    #[cold]
    fn end(&mut self, tenant: usize, blocks: &[AtomicU64]) {
        for word in blocks {
            let slot = word.load(Relaxed);
            let taken = self.take((slot & script::SLOT_MASK) as usize, slot & script::OLD_WAITS != 0);
            word.store(taken.map_or(0, |(block, _)| block as u64), Relaxed);
            self.live -= taken.map_or(0, |(_, bytes)| bytes as i64);
        }
        let Some(place) = self.memory.tenants().get(tenant) else { return };
        let own = self.heap_of(tenant);
        for (to, value) in
            place.heap_bytes.iter().zip(own.and_then(|(heaps, heap)| heaps.figures(heap)).iter().flatten())
        {
            to.store(*value, Relaxed);
        }
        place.before.store(anonymous(), Relaxed);
        let begin = clock(libc::CLOCK_THREAD_CPUTIME_ID);
        match own {
            Some((heaps, heap)) => heaps.end(heap),
            None => {
                for block in
                    blocks.iter().map(|word| word.load(Relaxed) as *mut u8).filter(|block| !block.is_null())
                {
                    // SAFETY: it came from this heap, and `take` gave it to this thread alone.
                    unsafe { H::free(block) };
                }
            }
        }
        place.nanoseconds.store(clock(libc::CLOCK_THREAD_CPUTIME_ID) - begin, Relaxed);
        place.after.store(anonymous(), Relaxed);
        place.has_ended.store(1, Relaxed);
    }

    /// The block of a slot, which has none then. None: it was refused, or given up.
    #[inline]
    fn take(&mut self, slot: usize, waits: bool) -> Option<(*mut u8, u64)> {
        let slot = self.slots.get(slot)?;
        let mut address = slot.address.load(if waits { Acquire } else { Relaxed });
        if address <= AWAITED {
            if waits && address != NOTHING {
                address = self.await_block(slot);
            }
            if address <= AWAITED {
                if address == NOTHING {
                    self.live -= slot.bytes.load(Relaxed) as i64;
                }
                slot.address.store(0, Relaxed);
                return None;
            }
        }
        slot.address.store(0, Relaxed);
        Some((address as *mut u8, slot.bytes.load(Relaxed)))
    }

    #[cold]
    fn await_block(&self, slot: &Slot) -> u64 {
        let head = self.memory.head();
        for _ in 0..SPINS {
            std::hint::spin_loop();
            let address = slot.address.load(Acquire);
            if address != 0 {
                return address;
            }
        }
        head.waiting.fetch_add(1, Relaxed);
        let _ = slot.address.compare_exchange(0, AWAITED, Relaxed, Relaxed);
        let address = loop {
            let address = slot.address.load(Acquire);
            if address != AWAITED {
                break address;
            }
            if head.give_up.load(Relaxed) != 0 {
                head.given_up.fetch_add(1, Relaxed);
                break 0;
            }
            futex::wait(low(&slot.address), AWAITED as u32, Duration::from_millis(100));
        };
        head.waiting.fetch_sub(1, Relaxed);
        address
    }

    #[cold]
    fn pace(&self, time: u64) {
        let head = self.memory.head();
        let pace = head.pace.load(Relaxed);
        if pace == 0 {
            return;
        }
        let due = head.began.load(Relaxed) + (u128::from(time) * 1000 / u128::from(pace)) as u64;
        let now = now();
        if now > due {
            head.late_nanoseconds.fetch_max(now - due, Relaxed);
        } else if due - now > 50_000 {
            std::thread::sleep(Duration::from_nanos(due - now));
        }
    }
}

/// Memory of this process that no file backs; read without an allocation. 0: it cannot be read.
fn anonymous() -> u64 {
    let mut text = [0u8; 4096];
    // SAFETY: a path that ends, and no more bytes than there is room for.
    let length = unsafe {
        let file = libc::open(c"/proc/self/smaps_rollup".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let text = text.get(..length.max(0) as usize).unwrap_or_default();
    let mut lines = text.split(|byte| *byte == b'\n');
    let digits = |line: &[u8]| {
        line.iter()
            .filter(|byte| byte.is_ascii_digit())
            .fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0'))
    };
    lines.find(|line| line.starts_with(b"Anonymous:")).map_or(0, |line| digits(line) << 10)
}

/// The half of a word that changes, for a futex.
fn low(word: &AtomicU64) -> &AtomicU32 {
    let at = word.as_ptr().cast::<u32>();
    // SAFETY: within the word, which is mapped as long as the process lives.
    unsafe { AtomicU32::from_ptr(if cfg!(target_endian = "little") { at } else { at.add(1) }) }
}
