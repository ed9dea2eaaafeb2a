//! The heap profiler: gperftools' functions and file names over the sampled profile of the heap.
//!
//! gperftools writes down every allocation while its profiler runs; here a few are sampled, each with its
//! weight, and the text says what they stand for. A prefix P gives the files P.0001.heap, P.0002.heap and so
//! on.

use super::class::Name;
use super::say;
use crate::HEAP;
use crate::malloc::{Pointer, pointer};
use core::ffi::{CStr, c_char, c_int};
use core::slice;
use vcmalloc_core::base::text::{Buffer, Sink, put_decimal, put_str};
use vcmalloc_core::os::{Linux, Mutex, Os};

const LONGEST_PREFIX: usize = 1000;

struct State {
    running: bool,
    prefix: [u8; LONGEST_PREFIX],
    length: usize,
    dumps: u64,
}

static STATE: Mutex<State, Linux> =
    Mutex::new(State { running: false, prefix: [0; LONGEST_PREFIX], length: 0, dumps: 0 });

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
    let mut state = STATE.lock();
    if state.running {
        return;
    }
    let Some(room) = state.prefix.get_mut(..prefix.len()) else {
        return say(&["HeapProfilerStart: the prefix is longer than 1000 bytes; no profile is taken"]);
    };
    room.copy_from_slice(prefix);
    state.length = prefix.len();
    state.dumps = 0;
    state.running = HEAP.start_profile(0);
    let text =
        if state.running { "Starting tracking the heap (sampled)" } else { "no memory for a heap profile" };
    drop(state);
    say(&[text]);
}

#[unsafe(no_mangle)]
pub extern "C" fn HeapProfilerStop() {
    let mut state = STATE.lock();
    if core::mem::take(&mut state.running) {
        HEAP.stop_profile();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn IsHeapProfilerRunning() -> c_int {
    c_int::from(STATE.lock().running)
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
    let mut path = [0u8; LONGEST_PREFIX + 32];
    {
        let mut state = STATE.lock();
        if !state.running {
            return;
        }
        state.dumps += 1;
        let mut text = Buffer::new(&mut path);
        text.put(state.prefix.get(..state.length).unwrap_or(&[]));
        put_str(&mut text, ".");
        let digits = state.dumps.checked_ilog10().unwrap_or(0) + 1;
        (digits..4).for_each(|_| put_str(&mut text, "0"));
        put_decimal(&mut text, state.dumps);
        put_str(&mut text, ".heap");
    }
    // Room for a zero was left behind the longest path.
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return };
    let shown = path.to_str().unwrap_or("?");
    say(&["Dumping heap profile to ", shown, " (", reason, ")"]);
    if !HEAP.write_profile(path) {
        say(&["Failed dumping heap profile to ", shown]);
    }
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
    let block = HEAP.allocate(room);
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
    if HEAP.is_profiling() {
        return HEAP.put_profile(sink);
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
    if HEAP.is_profiling() { HEAP.profile_stats().interval } else { 0 }
}

/// The live samples as ReadStackTraces lays them out, in a block that the caller frees with delete[]: for
/// each a count, its bytes, the depth and the stack; 0 ends them.
pub fn traces() -> (*mut Pointer, u64) {
    let mut words = 1;
    HEAP.each_live_sample(|sample| words += 3 + sample.stack.len());
    // Samples may come meanwhile; those without room are left out.
    let room = words + words / 8;
    let block = HEAP.allocate(room * size_of::<usize>());
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
    HEAP.each_live_sample(|sample| {
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
    if HEAP.os().is_privileged() {
        return;
    }
    HEAP.os().each_variable(&mut |name, value| {
        if name == b"HEAPPROFILE" && !value.is_empty() {
            start(value);
            TOLD.store(true, core::sync::atomic::Ordering::Relaxed);
        }
    });
}

static TOLD: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

pub fn end_as_told() {
    if TOLD.load(core::sync::atomic::Ordering::Relaxed) {
        dump("Exiting");
    }
}
