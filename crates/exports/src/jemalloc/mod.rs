//! The interface of jemalloc 5.3 on our heap, for programs that are linked with libjemalloc.so.2 or preload that path.
//!
//! Each file uses those in rows below it; `tests/layers_of_exports.rs` reads this picture.
//!
//! ```text
//! trial                       the fuzz target's ways in
//! marks                       what follows when threads have taken so many bytes
//! ctl print                   mallctl and its sisters; malloc_stats_print
//! tree                        names and their places
//! names                       every name, its type and what answers
//! answers                     answers that many names give
//! blocks rows                 mallocx and its family with arenas; what the rows of the tree do
//! conf prof threads           the options as they are given; the profile and its files; the arenas of threads
//! figures dump decay          figures of the heap and of arenas; a profile's file; times of decay
//! arenas tcaches sizes        arenas, which are heaps; caches, which are numbers; classes as bins and extents
//! settings hooks              the values of the options; extent hooks, which are never called
//! io say                      how values are passed; lines on stderr
//! ```
//! Owns the table of arenas and the values of jemalloc's options. Promises names, types, sizes and errors of
//! jemalloc 5.3, and no figure that is not true; programs call it; sits on the modules of libvcmalloc.so and on `counted`.
//! docs/design/jemalloc.md tells the reasons, docs/reference/jemalloc.md the differences.

mod answers;
mod arenas;
mod blocks;
mod conf;
mod ctl;
mod decay;
mod dump;
mod figures;
mod hooks;
mod io;
mod marks;
mod names;
mod print;
mod prof;
mod rows;
mod say;
mod settings;
mod sizes;
mod tcaches;
mod threads;
mod tree;
#[cfg(fuzzed)]
pub mod trial;

#[cfg(prefixed)]
pub use {
    blocks::{dallocx, mallocx, nallocx, rallocx, sallocx, sdallocx, xallocx},
    ctl::{mallctl, mallctlbymib, mallctlnametomib},
    print::malloc_stats_print,
    say::Message,
};

/// When the library is loaded: settings.
pub fn on_load() {
    figures::begin();
    conf::read();
    prof::start_as_told();
    marks::watch();
}

pub fn after_fork_in_child() {
    threads::after_fork_in_child();
}

/// When the process ends.
pub fn on_end() {
    prof::end_as_told();
    print::at_end();
}
