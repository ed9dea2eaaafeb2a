//! Proofs from outside: what programs see when vcmalloc is their allocator.
//!
//! ```text
//!   conformance/*.c, *.cc     one behaviour each        ─┐            ┌─ glibc    the control: the rule is glibc's
//!   programs.rs               python, redis, git, ...   ─┼─ run on ──┼─ preload  LD_PRELOAD=libvcmalloc.so
//!   preemption/tracee.c       stopped at every          ─┘            ├─ locked   the same without rseq
//!                             instruction of a sequence               └─ static   linked with libvcmalloc.a
//!   symbols.rs, layers.rs     read the library and its source
//! ```
//!
//! Nothing here links the library: it is a file in the target directory that programs are run on.

pub mod child;
pub mod compile;
pub mod ground;
pub mod library;
pub mod machine;

pub use child::{Finished, run};
pub use ground::{Ground, heed_signals};
