//! The probes that tracers find in the file: `otel_memory:alloc(user, size, weighted_bytes)` and `otel_memory:free(ptr)`,
//! as SystemTap describes such places in notes (its "UserSpaceProbeImplementation") and OpenTelemetry names them
//! (docs/design/probes.md).
//!
//! Each is a function of its own that does nothing: a tracer reads the arguments where the calling convention has them.

use core::sync::atomic::AtomicU16;
use vcmalloc_core::observe::Probes;

/// How many tracers are attached, of both probes. The system counts here, in the memory of a page of the file that is
/// mapped writable: so it is data, though it is 0.
#[unsafe(link_section = ".probes")]
static SEMAPHORE: AtomicU16 = AtomicU16::new(0);

unsafe extern "C" {
    safe fn vcm_probe_alloc(user: usize, size: usize, weighted_bytes: u64);
    safe fn vcm_probe_free(pointer: usize);
}

/// For the heap's own initial value: before Rust 1.89 no constant may refer to what changes.
pub const fn all() -> Probes {
    Probes { semaphore: &SEMAPHORE, allocated: vcm_probe_alloc, freed: vcm_probe_free }
}

/// The instruction that a tracer puts its breakpoint on. On x86-64 a nop of ten bytes follows, which newer kernels and
/// libraries of tracers exchange for a jump past the breakpoint; it may not cross the end of a page.
#[cfg(target_arch = "x86_64")]
macro_rules! site {
    () => {
        ".byte 0x90, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! site {
    () => {
        "nop"
    };
}

// One place of the whole file, whatever it is linked of: a tool that finds it elsewhere than the notes say knows by how much
// the file was moved.
core::arch::global_asm!(
    ".pushsection .stapsdt.base, \"aGR\", %progbits, .stapsdt.base, comdat",
    ".weak _.stapsdt.base",
    ".hidden _.stapsdt.base",
    "_.stapsdt.base: .space 1",
    ".size _.stapsdt.base, 1",
    ".popsection",
);

/// The function, and the note that tells where it is, of whom, and where its arguments are.
macro_rules! probe {
    ($symbol:literal, $name:literal, $arguments:literal) => {
        core::arch::global_asm!(
            ".pushsection .text.probes, \"ax\", %progbits",
            ".p2align 4",
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ", %function"),
            concat!($symbol, ":"),
            ".cfi_startproc",
            site!(),
            "ret",
            ".cfi_endproc",
            concat!(".size ", $symbol, ", . - ", $symbol),
            ".popsection",
            ".pushsection .note.stapsdt, \"\", %note",
            ".balign 4",
            ".long 8, 23f - 22f, 3",
            ".asciz \"stapsdt\"",
            ".balign 4",
            "22:",
            concat!(".quad ", $symbol, ", _.stapsdt.base, {semaphore}"),
            ".asciz \"otel_memory\"",
            concat!(".asciz \"", $name, "\""),
            concat!(".asciz \"", $arguments, "\""),
            "23:",
            ".balign 4",
            ".popsection",
            semaphore = sym SEMAPHORE,
        );
    };
}

#[cfg(target_arch = "x86_64")]
probe!("vcm_probe_alloc", "alloc", "8@%rdi 8@%rsi 8@%rdx");
#[cfg(target_arch = "x86_64")]
probe!("vcm_probe_free", "free", "8@%rdi");
#[cfg(target_arch = "aarch64")]
probe!("vcm_probe_alloc", "alloc", "8@x0 8@x1 8@x2");
#[cfg(target_arch = "aarch64")]
probe!("vcm_probe_free", "free", "8@x0");
