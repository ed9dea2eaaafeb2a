//! The place of the statistics, told to readers outside the process: a note that is found in the program headers, in
//! memory, whether or not the file has symbols or is still there; and a symbol for debuggers (docs/design/window.md).

use super::place_of_heap;
use super::version::VERSION;
use vcmalloc_core::heap::Window;

#[used]
static WINDOW: Window = Window::new(place_of_heap(), VERSION);

/// Leads to the description.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static vcm_window: &Window = &WINDOW;

// The note's descriptor is the distance from itself to the description: it needs no relocation.
core::arch::global_asm!(
    ".pushsection .note.vcmalloc, \"a\", @note",
    ".balign 4",
    ".long 9, 8, 1",
    ".asciz \"vcmalloc\"",
    ".balign 4",
    ".quad {window} - .",
    ".popsection",
    window = sym WINDOW,
);
