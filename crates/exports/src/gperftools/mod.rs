//! The interface of gperftools 2.10 to 2.18 on our heap, for programs that are linked with libtcmalloc.so.4, or with it
//! under one of its other names (scripts/stand-ins).
//!
//! Each file uses those in rows below it; `tests/layers_of_exports.rs` reads this picture.
//!
//! ```text
//! c_api                       MallocExtension_* in C, through the class
//! class functions             the extension as an object; tc_*, __libc_*
//! methods                     the virtual functions of MallocExtension
//! rate report                 release rate, GetStats
//! properties                  the numeric properties
//! profile absent stacks       HeapProfiler*; parts not there: CPU profiler, hooks, leak checker; GetStackTrace
//! variables                   TCMALLOC_*
//! old_profiles theirs         files of earlier runs; gperftools' own library, where it is in the process too
//! layout say                  class MallocExtension as the C++ ABI lays it out; lines on stderr
//! ```
//! Owns what gperftools has beside a heap: the registered extension, the release rate. Promises
//! the names, the meaning and the layout of gperftools' headers; programs call it; sits on the modules of
//! libvcmalloc.so. docs/design/stand-in.md tells the reasons, docs/reference/tcmalloc.md the differences.

mod absent;
mod c_api;
mod class;
mod functions;
mod layout;
mod methods;
mod old_profiles;
mod profile;
mod properties;
mod rate;
mod report;
mod say;
mod stacks;
mod theirs;
mod variables;

/// When the library is loaded: settings that are not options of the heap.
pub fn on_load() {
    variables::read();
    profile::start_as_told();
}

/// When the process ends.
pub fn on_end() {
    profile::end_as_told();
}
