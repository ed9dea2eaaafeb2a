//! The interface of gperftools 2.10 to 2.18 on our heap: what programs that are linked with libtcmalloc.so.4, or with it
//! under one of its other names (scripts/stand-ins), ask for.
//!
//! ```text
//!   class        MallocExtension as the C++ ABI lays it out     ─┐
//!   methods      its virtual functions                           ├─ properties, report: what they answer
//!   c_api        MallocExtension_* in C, through the class      ─┘
//!   functions    tc_*, __libc_*                                 ── new_mode: what malloc does without memory
//!   profile      HeapProfiler* (old_profiles: its files)      ── stacks: GetStackTrace
//!   absent       what is not there, and says so: CPU profiler, hooks, leak checker
//!   theirs       what is gperftools' own, where it is in the process too
//!   variables    TCMALLOC_*
//! ```
//! Owns what gperftools has beside a heap: the registered extension, the release rate, the new mode. Promises
//! the names, the meaning and the layout of gperftools' headers; programs call it; sits on the modules of
//! libvcmalloc.so. docs/design/stand-in.md tells the reasons, docs/reference/tcmalloc.md the differences.

mod absent;
mod c_api;
mod class;
mod functions;
mod methods;
pub mod new_mode;
mod old_profiles;
mod profile;
mod properties;
mod rate;
mod report;
mod stacks;
mod theirs;
mod variables;

use core::sync::atomic::{AtomicU32, Ordering};
use vcmalloc_core::base::text::{Buffer, put_str};
use vcmalloc_core::os::Os;

/// When the library is loaded: settings that are not options of the heap.
pub fn on_load() {
    variables::read();
    profile::start_as_told();
}

/// When the process ends.
pub fn on_end() {
    profile::end_as_told();
}

/// Something that is said once in a process.
struct Once(AtomicU32);

impl Once {
    const fn new() -> Self {
        Once(AtomicU32::new(0))
    }

    fn say(&self, parts: &[&str]) {
        if self.0.swap(1, Ordering::Relaxed) == 0 {
            say(parts);
        }
    }
}

/// One line on stderr.
fn say(parts: &[&str]) {
    let mut line = [0u8; 512];
    let mut buffer = Buffer::new(&mut line);
    put_str(&mut buffer, "vcmalloc: ");
    parts.iter().for_each(|part| put_str(&mut buffer, part));
    put_str(&mut buffer, "\n");
    super::heap().os().write(2, buffer.as_bytes());
}
