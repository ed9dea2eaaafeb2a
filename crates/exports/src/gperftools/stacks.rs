//! stacktrace.h: the caller's stack, taken in the one way that the heap's own samples use.

use crate::c::{Pointer, pointer};
use crate::heap;
use core::ffi::{c_int, c_void};
use core::slice;
use vcmalloc_core::os::Os;

const MOST_FRAMES: usize = 128;

/// # Safety
/// `result` has room for `depth` addresses.
#[unsafe(export_name = "_Z13GetStackTracePPvii")]
pub unsafe extern "C" fn get_stack_trace(result: *mut Pointer, depth: c_int, skip: c_int) -> c_int {
    let (Ok(depth), Ok(skip)) = (usize::try_from(depth), usize::try_from(skip)) else { return 0 };
    let mut frames = [0; MOST_FRAMES];
    let found = match crate::unwind::stack(&mut frames) {
        // The process has no unwinder.
        0 => heap().os().stack(&mut frames),
        found => found,
    };
    // SAFETY: by the caller's promise.
    let out = unsafe { slice::from_raw_parts_mut(result, depth) };
    let mut count = 0;
    for (place, frame) in out.iter_mut().zip(frames.iter().take(found).skip(skip)) {
        *place = pointer(*frame);
        count += 1;
    }
    count
}

/// The sizes of frames are not known: 0 says so.
///
/// # Safety
/// `result` has room for `depth` addresses, `sizes` for as many numbers.
#[unsafe(export_name = "_Z14GetStackFramesPPvPiii")]
pub unsafe extern "C" fn get_stack_frames(
    result: *mut Pointer,
    sizes: *mut c_int,
    depth: c_int,
    skip: c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe {
        let count = get_stack_trace(result, depth, skip);
        sizes.write_bytes(0, count.max(0) as usize);
        count
    }
}

/// The context of a signal handler is not needed: its frames come first, as the interface allows.
///
/// # Safety
/// As `get_stack_trace` asks for.
#[unsafe(export_name = "_Z24GetStackTraceWithContextPPviiPKv")]
pub unsafe extern "C" fn get_stack_trace_with_context(
    result: *mut Pointer,
    depth: c_int,
    skip: c_int,
    _: *const c_void,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { get_stack_trace(result, depth, skip) }
}

/// # Safety
/// As `get_stack_frames` asks for.
#[unsafe(export_name = "_Z25GetStackFramesWithContextPPvPiiiPKv")]
pub unsafe extern "C" fn get_stack_frames_with_context(
    result: *mut Pointer,
    sizes: *mut c_int,
    depth: c_int,
    skip: c_int,
    _: *const c_void,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { get_stack_frames(result, sizes, depth, skip) }
}
