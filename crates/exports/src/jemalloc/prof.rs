//! The profile by jemalloc's switches: when it runs, and the files that are written by order, at intervals, at new heights and at
//! the end.

use super::io::Outcome;
use super::say::say;
use super::{dump, settings};
use crate::heap;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use libc::EFAULT;
use vcmalloc_core::base::text::{Buffer, Sink, put_decimal, put_str};
use vcmalloc_core::os::Os;

/// The binary logarithm of the mean bytes between two samples.
static LG_SAMPLE: AtomicU64 = AtomicU64::new(19);
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);
static IS_GDUMP: AtomicBool = AtomicBool::new(false);
/// The names of files carry how many there were, of all and of their kind.
static FILES: AtomicU64 = AtomicU64::new(0);
static OF_KIND: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

#[derive(Clone, Copy)]
#[repr(usize)]
enum Kind {
    ByOrder,
    AtInterval,
    AtHeight,
    AtEnd,
}

impl Kind {
    const fn letter(self) -> &'static str {
        match self {
            Kind::ByOrder => "m",
            Kind::AtInterval => "i",
            Kind::AtHeight => "u",
            Kind::AtEnd => "f",
        }
    }
}

/// Whether the program was started with `prof:true`: without it the switches are not there.
pub fn is_told() -> bool {
    settings::is_on("prof")
}

pub fn start_as_told() {
    if !is_told() {
        return;
    }
    LG_SAMPLE.store(settings::get("lg_prof_sample") as u64, Ordering::Relaxed);
    IS_GDUMP.store(settings::is_on("prof_gdump"), Ordering::Relaxed);
    if settings::is_on("prof_active") {
        set_active(true);
    }
}

pub fn is_active() -> bool {
    IS_ACTIVE.load(Ordering::Relaxed)
}

/// Whether it was before. It begins anew where it was off: blocks of an earlier run are not in it.
pub fn set_active(wanted: bool) -> bool {
    let before = IS_ACTIVE.swap(wanted, Ordering::Relaxed);
    if wanted && !before {
        if !begin() {
            say(&[b"no memory for a heap profile"]);
            IS_ACTIVE.store(false, Ordering::Relaxed);
        }
    } else if before && !wanted {
        heap().stop_profile();
    }
    before
}

fn begin() -> bool {
    // A mean of one byte samples every block.
    heap().start_profile(1 << lg_sample().min(40))
}

pub fn lg_sample() -> u64 {
    LG_SAMPLE.load(Ordering::Relaxed)
}

/// Forgets all samples.
pub fn reset(lg_sample: u64) {
    LG_SAMPLE.store(lg_sample.min(63), Ordering::Relaxed);
    if is_active() {
        _ = begin();
    }
}

pub fn is_gdump() -> bool {
    IS_GDUMP.load(Ordering::Relaxed)
}

pub fn set_gdump(wanted: bool) -> bool {
    HEIGHT.fetch_max(heap().committed().mapped, Ordering::Relaxed);
    IS_GDUMP.swap(wanted, Ordering::Relaxed)
}

/// Bytes between two files; 0: none are written so.
pub fn interval() -> u64 {
    let lg = settings::get("lg_prof_interval");
    if is_told() && lg >= 0 { 1 << lg } else { 0 }
}

pub fn prefix() -> &'static CStr {
    settings::PROF_PREFIX.get()
}

/// Writes a file of the caller's name, or of the next one with the prefix.
pub fn dump(path: Option<&CStr>) -> Outcome {
    let is_written = match path {
        Some(path) => write(path),
        None => dump_as(Kind::ByOrder),
    };
    if is_written { Ok(()) } else { Err(EFAULT) }
}

fn write(path: &CStr) -> bool {
    let is_written = dump::write(path);
    if !is_written {
        say(&[
            b"cannot write the heap profile ",
            path.to_bytes(),
            b"; a link, a pipe, and a file of another user are refused",
        ]);
    }
    is_written
}

/// PREFIX.PID.FILES.KIND.heap; nothing is written where the prefix is empty.
fn dump_as(kind: Kind) -> bool {
    let mut path = [0u8; 1024 + 96];
    put_path(&mut Buffer::new(path.get_mut(..1024 + 95).unwrap_or(&mut [])), kind);
    match CStr::from_bytes_until_nul(&path) {
        Ok(path) if !prefix().is_empty() => write(path),
        _ => false,
    }
}

fn put_path(text: &mut Buffer<'_>, kind: Kind) {
    text.put(prefix().to_bytes());
    put_str(text, ".");
    put_decimal(text, heap().os().process_number());
    put_str(text, ".");
    put_decimal(text, FILES.fetch_add(1, Ordering::Relaxed));
    put_str(text, ".");
    put_str(text, kind.letter());
    if !matches!(kind, Kind::AtEnd) {
        let of_kind = OF_KIND.get(kind as usize).map_or(0, |count| count.fetch_add(1, Ordering::Relaxed));
        put_decimal(text, of_kind);
    }
    put_str(text, ".heap");
}

/// Another file at an interval, while the profile runs.
pub fn dump_at_interval() {
    if is_active() {
        dump_as(Kind::AtInterval);
    }
}

/// The most that was mapped.
static HEIGHT: AtomicU64 = AtomicU64::new(0);

/// Another file where more is mapped than ever before.
pub fn dump_at_height() {
    let mapped = heap().committed().mapped;
    if mapped > HEIGHT.fetch_max(mapped, Ordering::Relaxed) && is_active() {
        dump_as(Kind::AtHeight);
    }
}

/// A program that is to be profiled to its end.
pub fn end_as_told() {
    let is_final = is_told() && settings::is_on("prof_final") && !prefix().is_empty();
    if !is_final {
        return;
    }
    dump_as(Kind::AtEnd);
    let is_error = settings::is_on("prof_leak_error");
    let is_told = is_error || settings::is_on("prof_leak");
    let leaks = is_told && tell_leaks();
    if leaks && is_error {
        // The C library would do it after us.
        // SAFETY: null is every stream.
        unsafe {
            libc::fflush(core::ptr::null_mut());
            libc::_exit(1);
        }
    }
}

/// Whether something that lives was sampled.
fn tell_leaks() -> bool {
    let (mut bytes, mut blocks, mut stacks) = (0, 0, 0);
    heap().each_live_sample(|sample| {
        bytes += sample.weight;
        blocks += sample.weight.checked_div(sample.bytes.max(1) as u64).unwrap_or(0);
        stacks += 1;
    });
    if stacks == 0 {
        return false;
    }
    let mut line = [0u8; 128];
    let mut text = Buffer::new(&mut line);
    for (number, words) in [
        (bytes, " bytes in ~"),
        (blocks, " blocks live at the end, "),
        (stacks, " samples; jeprof reads the profile"),
    ] {
        put_decimal(&mut text, number);
        put_str(&mut text, words);
    }
    say(&[b"leaks: ~", text.as_bytes()]);
    true
}
