//! When the program begins: the allocator behind is looked up, the memory of the tool is mapped.
//!
//! Owns `GATE`, the one word by which a call knows whether it is recorded. It lies on a page that fork gives to a child as
//! zeros, so that a child is never recorded, whatever way it was made.

use crate::layout::{self, Header, PAGE, Ring, VARIABLE};
use crate::{next, record};
use core::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

static CLOSED: AtomicPtr<Header> = AtomicPtr::new(null_mut());
/// The place where the address of the shared header lies.
static GATE: AtomicPtr<AtomicPtr<Header>> = AtomicPtr::new((&raw const CLOSED).cast_mut());
/// The key that `pthread_setspecific` needs for a thread's end to be seen.
pub static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

const NOT_YET: u32 = 0;
const NOW: u32 = 1;
const DONE: u32 = 2;
static FOUND: AtomicU32 = AtomicU32::new(NOT_YET);
static BEGUN: AtomicU32 = AtomicU32::new(NOT_YET);
/// Calls while nothing is recorded yet, by which operators.c sees who calls malloc.
static CALLS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    static environ: *const *const c_char;
    static program_invocation_short_name: *const c_char;
    fn vcm_interposer_find_operators();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let _ = is_found();
    begin();
}

#[unsafe(no_mangle)]
extern "C" fn vcm_interposer_calls() -> c_ulong {
    CALLS.load(Relaxed)
}

/// The shared memory, while this process is recorded.
#[inline(always)]
pub fn shared() -> Option<&'static Header> {
    // SAFETY: the gate is `CLOSED` or a page that is never unmapped; the pointer in it is null or to the header of a
    // mapping that is never unmapped.
    let header = unsafe { (*GATE.load(Relaxed)).load(Relaxed).as_ref() };
    match header {
        Some(header) if header.recording.load(Relaxed) != 0 => Some(header),
        Some(_) => None,
        None => not_recorded(),
    }
}

#[cold]
fn not_recorded() -> Option<&'static Header> {
    match BEGUN.load(Relaxed) {
        NOT_YET => begin(),
        NOW => _ = CALLS.fetch_add(1, Relaxed),
        _ => return None,
    }
    // SAFETY: as above.
    let header = unsafe { (*GATE.load(Relaxed)).load(Relaxed).as_ref() };
    header.filter(|header| header.recording.load(Relaxed) != 0)
}

/// Looks up the allocator behind. False to who is called from inside that.
#[cold]
pub fn is_found() -> bool {
    if FOUND.compare_exchange(NOT_YET, NOW, Acquire, Acquire).is_ok() {
        next::find_all();
        FOUND.store(DONE, Release);
    }
    FOUND.load(Acquire) == DONE
}

/// Begins to record, where a tool asks for it.
fn begin() {
    // SAFETY: libc's own variable; before libc has started it is null, and then it is too early.
    let is_early = FOUND.load(Acquire) != DONE || unsafe { environ }.is_null();
    if is_early || BEGUN.compare_exchange(NOT_YET, NOW, Acquire, Acquire).is_err() {
        return;
    }
    if let Some(header) = wanted().and_then(|place| map(&place)) {
        // SAFETY: called once, and this is the only thread: nobody has been given a block yet.
        unsafe { vcm_interposer_find_operators() };
        open(header);
    }
    BEGUN.store(DONE, Release);
}

/// The numbers of the variable: process, descriptor, inode.
fn wanted() -> Option<[u64; 3]> {
    let mut name = [0u8; 32];
    name.get_mut(..VARIABLE.len())?.copy_from_slice(VARIABLE.as_bytes());
    // SAFETY: the name ends with a zero; no other thread changes the environment yet.
    let text = unsafe { libc::getenv(name.as_ptr().cast()) };
    if text.is_null() {
        return None;
    }
    // SAFETY: a variable is text.
    let text = unsafe { CStr::from_ptr(text) }.to_str().ok()?;
    let mut numbers = text.split('/').map(|part| part.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// The tool's memory, if this is the process that it wants. The descriptor is closed again at once.
fn map(place: &[u64; 3]) -> Option<&'static Header> {
    let mut path = [0u8; 64];
    let parts: [&[u8]; 4] = [b"/proc/", &decimal(place[0]), b"/fd/", &decimal(place[1])];
    for (end, byte) in parts.into_iter().flatten().filter(|byte| **byte != 0).enumerate() {
        *path.get_mut(end)? = *byte;
    }
    // SAFETY: the path ends with a zero, since it is shorter than its array.
    let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let memory = map_file(file, place[2]);
    // SAFETY: our own descriptor.
    unsafe { libc::close(file) };
    // SAFETY: a mapping of at least a header, of the tool's memory; never unmapped.
    let header = unsafe { memory?.cast::<Header>().as_ref() }?;
    // SAFETY: it has no condition.
    let own = unsafe { libc::getpid() } as u32;
    let is_meant = header.magic.load(Acquire) == layout::MAGIC
        && (header.process.load(Acquire) == own || is_named(header, own));
    is_meant.then_some(header)
}

fn map_file(file: c_int, inode: u64) -> Option<*mut c_void> {
    // SAFETY: all zeros is a valid stat, and fstat overwrites it.
    let mut seen: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `seen` lives across the call.
    if unsafe { libc::fstat(file, &mut seen) } != 0
        || seen.st_ino != inode
        || (seen.st_size as usize) < 2 * PAGE
    {
        return None;
    }
    let how = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: a new mapping harms nobody.
    let memory = unsafe {
        libc::mmap(null_mut(), seen.st_size as usize, libc::PROT_READ | libc::PROT_WRITE, how, file, 0)
    };
    (memory != libc::MAP_FAILED).then_some(memory)
}

/// The first process of the name that the tool looks for becomes the one.
fn is_named(header: &Header, own: u32) -> bool {
    let mut wanted = header.name.iter().take_while(|byte| **byte != 0);
    // SAFETY: libc has started, since there is an environment; the name ends with a zero.
    let name = unsafe { CStr::from_ptr(program_invocation_short_name) }.to_bytes();
    let same = header.name[0] != 0 && name.iter().take(layout::NAME_BYTES - 1).eq(wanted.by_ref());
    same && header.process.compare_exchange(0, own, AcqRel, Acquire).is_ok()
}

fn decimal(mut number: u64) -> [u8; 20] {
    let mut digits = [0; 20];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits
}

/// From here on calls are recorded.
fn open(header: &'static Header) {
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping; then advice on it alone.
    let page = unsafe {
        let page = libc::mmap(null_mut(), PAGE, libc::PROT_READ | libc::PROT_WRITE, how, -1, 0);
        if page == libc::MAP_FAILED || libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) != 0 {
            return;
        }
        page.cast::<AtomicPtr<Header>>()
    };
    let mut key = 0;
    // SAFETY: `key` lives across the call, and the function stays: the library is never unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(record::thread_ends)) } == 0 {
        KEY.store(key, Release);
    }
    for index in 0..header.rings {
        let ring: &Ring = record::ring(header, index);
        // The places that the program before this one, replaced by exec, took and did not fill.
        ring.orphaned.store(ring.head.load(Acquire), Release);
    }
    header.images.fetch_add(1, AcqRel);
    GATE.store(page, Release);
    // SAFETY: the page is ours, and zeros are a null pointer.
    unsafe { (*page).store((&raw const *header).cast_mut(), Release) };
    record::image(header);
}
