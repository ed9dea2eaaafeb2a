//! The heap profiler: gperftools' functions and file names over the sampled profile of the heap.
//!
//! gperftools writes down every allocation while its profiler runs; here a few are sampled, each with its
//! weight, and the text says what they stand for. A prefix P gives the files P.0001.heap, P.0002.heap and so
//! on.

use super::old_profiles::{self, LONGEST_PREFIX};
use super::say::say;
use crate::c::{Name, Pointer, pointer};
use crate::{Blocks, blocks, heap};
use core::ffi::{CStr, c_char, c_int};
use core::slice;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use vcmalloc_core::base::text::{Buffer, Sink, put_decimal, put_str};
use vcmalloc_core::os::Os;

/// The state of the profile. A change under way carries the process that makes it: if a child of fork finds one of
/// its parent, the thread that makes it is not there and will not end it. No lock: a handler that comes here, and a
/// child, never wait.
static STATE: AtomicU64 = AtomicU64::new(IDLE);
const IDLE: u64 = 0;
const RUNNING: u64 = 1;

/// The profile's own, written while `STATE` is a change of ours.
static PREFIX: [AtomicU8; LONGEST_PREFIX] = [const { AtomicU8::new(0) }; LONGEST_PREFIX];
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static DUMPS: AtomicU64 = AtomicU64::new(0);
/// The process that started it.
static STARTED_BY: AtomicU64 = AtomicU64::new(0);
/// How often a profile was started.
static STARTS: AtomicU64 = AtomicU64::new(0);

fn process() -> u64 {
    heap().os().process_number()
}

/// Begins a change; false where the state is another, or somebody else is at it.
fn begin(from: u64) -> bool {
    let changing = process() << 1 | 1 << 63;
    let begin = |from| STATE.compare_exchange(from, changing, Ordering::Acquire, Ordering::Relaxed);
    match begin(from) {
        Ok(_) => true,
        // Half made by a thread of the parent: nothing runs.
        Err(other) if other >> 63 == 1 && other != changing => from == IDLE && begin(other).is_ok(),
        Err(_) => false,
    }
}

fn is_running() -> bool {
    STATE.load(Ordering::Acquire) == RUNNING
}

/// # Safety
/// `prefix` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HeapProfilerStart(prefix: Name) {
    if prefix.is_null() {
        return;
    }
    // SAFETY: by the caller's promise.
    start(unsafe { CStr::from_ptr(prefix) }.to_bytes());
}

fn start(prefix: &[u8]) {
    if prefix.len() > LONGEST_PREFIX {
        return say(&["HeapProfilerStart: the prefix is longer than 1000 bytes; no profile is taken"]);
    }
    if !begin(IDLE) {
        return;
    }
    PREFIX.iter().zip(prefix).for_each(|(place, byte)| place.store(*byte, Ordering::Relaxed));
    LENGTH.store(prefix.len(), Ordering::Relaxed);
    DUMPS.store(0, Ordering::Relaxed);
    STARTED_BY.store(process(), Ordering::Relaxed);
    STARTS.fetch_add(1, Ordering::Relaxed);
    let runs = heap().start_profile(0);
    // Pairs with the Acquire in `is_running`: a thread that sees it run sees its prefix.
    STATE.store(if runs { RUNNING } else { IDLE }, Ordering::Release);
    say(&[if runs { "Starting tracking the heap (sampled)" } else { "no memory for a heap profile" }]);
}

#[unsafe(no_mangle)]
pub extern "C" fn HeapProfilerStop() {
    if begin(RUNNING) {
        heap().stop_profile();
        STATE.store(IDLE, Ordering::Release);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn IsHeapProfilerRunning() -> c_int {
    c_int::from(is_running())
}

/// # Safety
/// `reason` is a C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HeapProfilerDump(reason: Name) {
    // SAFETY: by the caller's promise.
    let reason = if reason.is_null() { c"" } else { unsafe { CStr::from_ptr(reason) } };
    dump(reason.to_str().unwrap_or("?"));
}

fn dump(reason: &str) {
    let starts = STARTS.load(Ordering::Relaxed);
    if !is_running() {
        return;
    }
    let mut path = [0u8; LONGEST_PREFIX + 64];
    put_next_path(&mut Buffer::new(&mut path));
    // Another thread stopped it meanwhile, and perhaps started the next.
    if !is_running() || STARTS.load(Ordering::Relaxed) != starts {
        return;
    }
    // Room for a zero was left behind the longest path.
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return };
    let shown = path.to_str().unwrap_or("?");
    say(&["Dumping heap profile to ", shown, " (", reason, ")"]);
    if !heap().write_profile(path) {
        say(&["Failed dumping heap profile to ", shown]);
    }
}

/// PREFIX.0001.heap and so on; in a child of the process that started it PREFIX_PID.0001.heap: its files are not to
/// take the place of its parent's.
fn put_next_path(text: &mut Buffer<'_>) {
    let length = LENGTH.load(Ordering::Relaxed);
    PREFIX.iter().take(length).for_each(|byte| text.put(&[byte.load(Ordering::Relaxed)]));
    if process() != STARTED_BY.load(Ordering::Relaxed) {
        put_process(text);
    }
    let number = DUMPS.fetch_add(1, Ordering::Relaxed) + 1;
    put_str(text, ".");
    let digits = number.checked_ilog10().unwrap_or(0) + 1;
    (digits..4).for_each(|_| put_str(text, "0"));
    put_decimal(text, number);
    put_str(text, ".heap");
}

fn put_process(text: &mut Buffer<'_>) {
    put_str(text, "_");
    put_decimal(text, process());
}

/// A sink that only counts.
struct Length(usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// The profile as a C string, which the caller frees.
#[unsafe(no_mangle)]
pub extern "C" fn GetHeapProfile() -> *mut c_char {
    let mut length = Length(0);
    put(&mut length);
    // Samples may come meanwhile.
    let room = length.0 + length.0 / 8 + 4096;
    let block = blocks().allocate(room);
    if block == 0 {
        return core::ptr::null_mut();
    }
    let text: *mut u8 = pointer(block).cast();
    // SAFETY: the block has so many bytes and is nobody else's.
    let bytes = unsafe {
        text.write_bytes(0, room);
        slice::from_raw_parts_mut(text, room - 1)
    };
    put(&mut Buffer::new(bytes));
    text.cast()
}

/// The profile, or what gperftools writes where there is none.
pub fn put(sink: &mut dyn Sink) {
    if heap().is_profiling() {
        return heap().put_profile(sink);
    }
    put_str(
        sink,
        "%warn\n%warn No profile is taken, so there is no data in this one. Start it with HeapProfilerStart,\n\
         %warn with the variable VCM_PROFILE=on or with TCMALLOC_SAMPLE_PARAMETER=524288.\n%warn\n",
    );
}

/// Growth of the heap is not recorded.
pub fn put_growth(sink: &mut dyn Sink) {
    put_str(sink, "%warn\n%warn The growth of the heap is not recorded here.\n%warn\n");
    put_str(sink, "heap profile:      0:        0 [     0:        0] @ growth\n\nMAPPED_LIBRARIES:\n");
}

/// Mean bytes between two samples; 0 while no profile is taken.
pub fn mean_interval() -> u64 {
    if heap().is_profiling() { heap().profile_stats().interval } else { 0 }
}

/// The live samples as ReadStackTraces lays them out, in a block that the caller frees with delete[]: for
/// each a count, its bytes, the depth and the stack; 0 ends them.
pub fn traces() -> (*mut Pointer, u64) {
    let mut words = 1;
    heap().each_live_sample(|sample| words += 3 + sample.stack.len());
    // Samples may come meanwhile; those without room are left out.
    let room = words + words / 8;
    let block = blocks().allocate(room * size_of::<usize>());
    if block == 0 {
        return (core::ptr::null_mut(), mean_interval());
    }
    let first: *mut usize = pointer(block).cast();
    // SAFETY: the block has so many words and is nobody else's.
    let table = unsafe {
        first.write_bytes(0, room);
        slice::from_raw_parts_mut(first, room - 1)
    };
    let mut used = 0;
    heap().each_live_sample(|sample| {
        let stack = sample.stack;
        let entry = [1, sample.bytes, stack.len()].into_iter().chain(stack.iter().copied());
        if let Some(place) = table.get_mut(used..used + 3 + stack.len()) {
            place.iter_mut().zip(entry).for_each(|(word, value)| *word = value);
            used += 3 + stack.len();
        }
    });
    (first.cast(), mean_interval())
}

/// A program started with HEAPPROFILE=prefix is profiled from its first line to its end.
pub fn start_as_told() {
    if heap().os().is_privileged() {
        return;
    }
    let mut prefix = [0u8; LONGEST_PREFIX + 32];
    let mut text = Buffer::new(&mut prefix);
    if put_prefix(&mut text) {
        old_profiles::remove(text.as_bytes());
        start(text.as_bytes());
        TOLD.store(true, Ordering::Relaxed);
    }
}

/// The prefix that the environment names. The first process takes it as it is, and marks it for those that it starts,
/// which append their number: by a variable, as gperftools does since 2.11. Before, it set the highest bit of the
/// first byte, which is understood too.
fn put_prefix(text: &mut Buffer<'_>) -> bool {
    const MARK: u8 = 128;
    const USE_PID: &CStr = c"HEAPPROFILE_USE_PID";
    // SAFETY: called when the library is loaded, where nobody changes the environment.
    unsafe {
        let value = libc::getenv(c"HEAPPROFILE".as_ptr()).cast::<u8>();
        if value.is_null() || *value == 0 {
            return false;
        }
        text.put(&[*value & !MARK]);
        text.put(CStr::from_ptr(value.add(1).cast()).to_bytes());
        let told = libc::getenv(USE_PID.as_ptr()).cast::<u8>();
        if *value & MARK != 0 || (!told.is_null() && b"tTyY1\0".contains(&*told)) {
            put_process(text);
        } else {
            libc::setenv(USE_PID.as_ptr(), c"1".as_ptr(), 1);
        }
    }
    true
}

static TOLD: AtomicBool = AtomicBool::new(false);

pub fn end_as_told() {
    if TOLD.load(Ordering::Relaxed) {
        dump("Exiting");
    }
}
