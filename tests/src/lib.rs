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

/// Says that a test, or a part of it, was not run here, and why: on stderr, and in the file that `VCMALLOC_SKIPPED` names, which
/// `make test` prints at its end. libtest calls such a test passed.
#[macro_export]
macro_rules! skip {
    ($($words:tt)*) => { $crate::note_skipped(&format!($($words)*)) };
}

pub fn note_skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("not tested: {line}");
    let Some(path) = std::env::var_os("VCMALLOC_SKIPPED") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
