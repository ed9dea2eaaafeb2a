//! vfork and clone, put before libc's for children that share this memory.
//!
//! Such a child runs on the thread area of the thread that made it, without its registration for restartable sequences.
//! So the thread takes that back before, and makes it again when it goes on (`Heap::lend`, `take_back`); the child
//! allocates under locks. If the kernel does not take it back, the child gets a copy of the memory, as one of `fork`
//! does: then nobody works in the parent's.
//!
//! Children made by a program's own system call instructions are not seen. `posix_spawn`, `system` and `popen` make such children
//! inside libc, which allocate nothing.

#[cfg(shared)]
use super::c::Pointer;
use super::c::set_errno;
use super::heap;
#[cfg(shared)]
use super::next;
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicBool, Ordering};
use vcmalloc_core::heap::Lent;

/// Whether a child with these flags shares this memory and its maker's thread area.
#[cfg(shared)]
fn shares(flags: c_int) -> bool {
    flags & (libc::CLONE_VM | libc::CLONE_SETTLS) == libc::CLONE_VM
}

/// The flags for the kernel where the memory may be shared, and where it may not: on x86-64 `vfork` has a call of its own.
const COPY_AND_WAIT: c_int = libc::CLONE_VFORK | libc::SIGCHLD;
#[cfg(target_arch = "aarch64")]
const SHARE_AND_WAIT: c_int = libc::CLONE_VM | COPY_AND_WAIT;

extern "C" fn before_vfork() -> Lent {
    lend(true, true, false)
}

/// A child that found this process new would take the heap over as its own.
fn lend(is_parent: bool, waits: bool, is_renumbered: bool) -> Lent {
    if !heap().is_guest() {
        heap().look_at_process();
    }
    heap().lend(is_parent, waits, is_renumbered || IS_RENUMBERING.load(Ordering::Relaxed))
}

/// Children begin another namespace of numbers.
static IS_RENUMBERING: AtomicBool = AtomicBool::new(false);

/// After `unshare` or `setns`.
#[cfg(shared)]
pub fn expect_other_numbers() {
    IS_RENUMBERING.store(true, Ordering::Relaxed);
}

/// In the parent, with the kernel's answer; returns vfork's.
extern "C" fn after_vfork(answer: c_long, lent: Lent) -> c_int {
    heap().take_back(lent);
    if answer < 0 {
        set_errno(-answer as c_int);
        return -1;
    }
    answer as c_int
}

/// The child returns to the caller first, and what it does there overwrites the stack below the caller's frame, the return
/// address included. So what the parent needs waits in registers, which a system call keeps. With a shadow stack, which
/// the child shares as well, it must not return but jump: the parent's entry stays. The highest bit of what was noted says
/// that the memory may not be shared (`Lent::is_copied`).
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn share() -> c_int {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {before}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop r9",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register rip, r9",
        "mov r8, rax",
        "mov r10, rdx",
        "test rdx, rdx",
        "js 4f",
        "mov eax, {vfork}",
        "2: syscall",
        "test rax, rax",
        "jnz 3f",
        "jmp r9",
        "3: push r9",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rip, -8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rax",
        "mov rsi, r8",
        "mov rdx, r10",
        "call {after}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        "4: .cfi_def_cfa_offset 0",
        ".cfi_register rip, r9",
        "mov eax, {clone}",
        "mov edi, {copy}",
        "xor esi, esi",
        "jmp 2b",
        ".cfi_endproc",
        before = sym before_vfork,
        after = sym after_vfork,
        vfork = const libc::SYS_vfork,
        clone = const libc::SYS_clone,
        copy = const COPY_AND_WAIT,
    )
}

/// The same: the return address is in a register from the beginning.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn share() -> c_int {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        "bl {before}",
        "ldp x29, x30, [sp], #16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_def_cfa_offset 0",
        "mov x5, x0",
        "mov x6, x1",
        "mov x0, #{share}",
        "tbz x1, #63, 2f",
        "mov x0, #{copy}",
        "2: mov x1, #0",
        "mov x8, #{clone}",
        "svc #0",
        "cbnz x0, 3f",
        "ret",
        "3: stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        "mov x1, x5",
        "mov x2, x6",
        "bl {after}",
        "ldp x29, x30, [sp], #16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
        before = sym before_vfork,
        after = sym after_vfork,
        clone = const libc::SYS_clone,
        share = const SHARE_AND_WAIT,
        copy = const COPY_AND_WAIT,
    )
}

macro_rules! export_vfork {
    ($($name:ident)+) => { $(
        /// # Safety
        /// As libc's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> c_int {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {share}", share = sym share);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {share}", share = sym share);
        }
    )+ };
}

export_vfork!(vfork);
// Not in the archive: a C library that is linked statically has this name beside others.
#[cfg(shared)]
export_vfork!(__vfork);

/// Makes the child by libc's function. Arguments that its flags do not ask for are whatever the registers hold.
#[cfg(shared)]
macro_rules! export_clone {
    ($($name:ident)+) => { $(
        /// # Safety
        /// As libc's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            start: Pointer,
            stack: Pointer,
            flags: c_int,
            argument: Pointer,
            parent_number: Pointer,
            thread_area: Pointer,
            child_number: Pointer,
        ) -> c_int {
            let Some(clone) = next::clone() else {
                set_errno(libc::ENOSYS);
                return -1;
            };
            // SAFETY: by the caller's promise.
            let make = |flags| unsafe { clone(start, stack, flags, argument, parent_number, thread_area, child_number) };
            if shares(flags) { share_by_clone(flags, make) } else { make(flags) }
        }
    )+ };
}

#[cfg(shared)]
export_clone!(clone __clone);

/// The parent does not wait without CLONE_VFORK, and is not told when the child ends: then both stay under locks.
#[cfg(shared)]
fn share_by_clone(flags: c_int, make: impl Fn(c_int) -> c_int) -> c_int {
    let waits = flags & libc::CLONE_VFORK != 0;
    let is_apart = waits && flags & libc::CLONE_THREAD == 0;
    let lent = lend(flags & libc::CLONE_PARENT == 0, is_apart, flags & libc::CLONE_NEWPID != 0);
    let own_memory = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    let answer = make(if lent.is_copied() { flags & !own_memory } else { flags });
    if answer < 0 || lent.is_copied() || waits {
        heap().take_back(lent);
    }
    answer
}

/// For a raw call that makes such a child, which we do not see return: as if nobody waited.
#[cfg(shared)]
pub fn share_by_raw_call(flags: c_int) {
    if shares(flags) {
        lend(flags & libc::CLONE_PARENT == 0, false, false);
    }
}
