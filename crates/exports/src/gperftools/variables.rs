//! The environment variables of gperftools that are not options of the heap (those are in the core's
//! `options/foreign.rs`): the profiler's are read in `profile`, and those without effect are named once.

use super::say::say;
use crate::heap;
use vcmalloc_core::options::set_by;
use vcmalloc_core::os::Os;

/// Variables that set something that does not exist here, and why.
const WITHOUT_EFFECT: [(&str, &str); 30] = [
    ("TCMALLOC_TRANSFER_NUM_OBJ", "batches adapt by themselves"),
    ("TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", "large allocations are not reported"),
    ("TCMALLOC_SKIP_SBRK", MMAP),
    ("TCMALLOC_SKIP_MMAP", MMAP),
    ("TCMALLOC_DEVMEM_START", MMAP),
    ("TCMALLOC_DEVMEM_LIMIT", MMAP),
    ("TCMALLOC_MEMFS_MALLOC_PATH", MMAP),
    ("TCMALLOC_MEMFS_LIMIT_MB", MMAP),
    ("TCMALLOC_MEMFS_ABORT_ON_FAIL", MMAP),
    ("TCMALLOC_MEMFS_MAP_PRIVATE", MMAP),
    ("TCMALLOC_MEMFS_IGNORE_MMAP_FAIL", MMAP),
    ("TCMALLOC_MEMFS_DISABLE_FALLBACK", MMAP),
    ("TCMALLOC_OVERRIDE_PAGESIZE", "the page map has one unit"),
    ("TCMALLOC_STACKTRACE_METHOD", "stacks are taken in one way"),
    ("HEAPPROFILESIGNAL", DUMPS),
    ("HEAP_PROFILE_ALLOCATION_INTERVAL", DUMPS),
    ("HEAP_PROFILE_DEALLOCATION_INTERVAL", DUMPS),
    ("HEAP_PROFILE_INUSE_INTERVAL", DUMPS),
    ("HEAP_PROFILE_TIME_INTERVAL", DUMPS),
    ("HEAP_PROFILE_MMAP", "only the heap's own blocks are profiled"),
    ("HEAP_PROFILE_ONLY_MMAP", "only the heap's own blocks are profiled"),
    ("TCMALLOC_PAGE_FENCE", CHECKS),
    ("TCMALLOC_PAGE_FENCE_NEVER_RECLAIM", CHECKS),
    ("TCMALLOC_PAGE_FENCE_READABLE", CHECKS),
    ("TCMALLOC_RECLAIM_MEMORY", CHECKS),
    ("TCMALLOC_MAX_FREE_QUEUE_SIZE", CHECKS),
    ("TCMALLOC_SYMBOLIZE_STACKTRACE", CHECKS),
    ("TCMALLOC_TRACE", "calls are not traced"),
    ("TCMALLOC_TRACE_FILE", "calls are not traced"),
    ("HEAPCHECK", "there is no leak checker; take a heap profile instead"),
];

const MMAP: &str = "the heap takes its memory from mmap";
const CHECKS: &str = "the debug library's checks are not here; libvcmalloc-hardened.so has its own";
const DUMPS: &str =
    "profiles are written by HeapProfilerDump and at the end of a program started with HEAPPROFILE";

/// Names each variable that is set and does nothing here.
pub fn read() {
    if heap().os().is_privileged() {
        return;
    }
    heap().os().each_variable(&mut |variable, _| {
        let known = WITHOUT_EFFECT.iter().find(|(name, _)| name.as_bytes() == variable);
        if let Some((name, reason)) = known {
            say(&[name, " has no effect here: ", reason]);
        } else if variable.starts_with(b"TCMALLOC_") && set_by(variable).next().is_none() {
            let name = core::str::from_utf8(variable).unwrap_or("TCMALLOC_?");
            say(&[name, " is no variable of gperftools that means something here"]);
        }
    });
}
