//! Filters of system calls (seccomp) that the program installs: read before they hold.
//!
//! The shared library's `prctl` and `syscall` come first. A call that installs a filter is looked at, so that the heap
//! never makes one that the filter would end the process for, and learns before what it could not ask later. Every
//! call goes on to libc by a jump with all its arguments as they came: the functions are transparent for any number,
//! `clone` and `vfork` among them. Before libc's are known they make the call themselves. The static library, and
//! filters installed by instructions of the program's own, are not seen: for those there is the option `system_calls`.
//!
//! `syscall` also shows who registers threads for restartable sequences after us (`registration`), and who makes children
//! that share this memory (`children`).

use super::c::{errno, set_errno};
use super::next::{PRCTL, SYSCALL};
use super::{children, faults, heap, registration};
use core::ffi::{c_int, c_long, c_ulong};
use vcmalloc_core::os::Filter;

const PR_SET_SECCOMP: c_int = libc::PR_SET_SECCOMP;

/// Looks at what a call is about to do to the calls that come after it. `errno` stays.
extern "C" fn look_at_syscall(
    number: c_long,
    first: c_ulong,
    second: c_ulong,
    third: *const libc::sock_fprog,
) {
    match (number, first as u32) {
        // libseccomp asks with a flag, which the kernel refuses, what there is.
        (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_STRICT) if second as u32 == 0 && third.is_null() => {
            prepare(None)
        }
        (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER) => prepare_for(third),
        (libc::SYS_prctl, _) => look_at_prctl(first as c_int, second, third),
        // An area, its length, no flags.
        (libc::SYS_rseq, _) if first != 0 && third.is_null() => registration::give_way(),
        (libc::SYS_clone, flags) => children::share_by_raw_call(flags as c_int),
        (libc::SYS_clone3, _) if first != 0 => share_by_clone3(first),
        _ => {}
    }
}

extern "C" fn look_at_prctl(option: c_int, mode: c_ulong, program: *const libc::sock_fprog) {
    match (option, mode as u32) {
        (PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) => prepare(None),
        (PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER) => prepare_for(program),
        _ => {}
    }
}

/// The flags come first in what the kernel is given.
fn share_by_clone3(arguments: c_ulong) {
    let flags = core::ptr::with_exposed_provenance::<u64>(arguments as usize);
    // SAFETY: the program gives it to the kernel now.
    children::share_by_raw_call(unsafe { flags.read_unaligned() } as c_int);
}

fn prepare_for(program: *const libc::sock_fprog) {
    // SAFETY: the program gives it to the kernel now, so nobody changes it.
    if let Some(filter) = unsafe { Filter::at(program) } {
        prepare(Some(filter));
    }
}

/// `None`: nothing will be allowed.
fn prepare(filter: Option<Filter<'_>>) {
    let before = errno();
    faults::catch_if_wanted();
    heap().learn_all();
    match filter {
        Some(filter) => heap().os().obey_filter(filter),
        None => heap().os().forgo_all_calls(),
    }
    // A filter may be meant for all threads.
    heap().wait_for_janitor();
    set_errno(before);
}

/// The work of both functions with a call: at 2 it is looked at, with all its arguments kept, at 3 it goes on to libc's
/// function, at 4, which comes after, there is none known.
#[cfg(target_arch = "x86_64")]
macro_rules! look_and_go_on {
    () => {
        concat!(
            "3: mov r11, [rip + {next}]\n",
            "test r11, r11\n",
            "jz 4f\n",
            "jmp r11\n",
            // Seven words, so that the stack is aligned for the call.
            "2: push rdi\n",
            "push rsi\n",
            "push rdx\n",
            "push rcx\n",
            "push r8\n",
            "push r9\n",
            "push rax\n",
            "call {look}\n",
            "pop rax\n",
            "pop r9\n",
            "pop r8\n",
            "pop rcx\n",
            "pop rdx\n",
            "pop rsi\n",
            "pop rdi\n",
            "jmp 3b\n",
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! look_and_go_on {
    () => {
        concat!(
            "3: adrp x16, {next}\n",
            "ldr x16, [x16, :lo12:{next}]\n",
            "cbz x16, 4f\n",
            "br x16\n",
            "2: stp x29, x30, [sp, #-80]!\n",
            "mov x29, sp\n",
            "stp x0, x1, [sp, #16]\n",
            "stp x2, x3, [sp, #32]\n",
            "stp x4, x5, [sp, #48]\n",
            "stp x6, x7, [sp, #64]\n",
            "bl {look}\n",
            "ldp x0, x1, [sp, #16]\n",
            "ldp x2, x3, [sp, #32]\n",
            "ldp x4, x5, [sp, #48]\n",
            "ldp x6, x7, [sp, #64]\n",
            "ldp x29, x30, [sp], #80\n",
            "b 3b\n",
        )
    };
}

/// # Safety
/// As libc's function of this name.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn prctl(option: c_int) -> c_int {
    core::arch::naked_asm!(
        "cmp edi, {set}",
        "je 2f",
        look_and_go_on!(),
        "4: mov r10, rcx",
        "mov eax, {number}",
        "syscall",
        "cmp rax, -4095",
        "jae {failed}",
        "ret",
        set = const PR_SET_SECCOMP,
        number = const libc::SYS_prctl,
        look = sym look_at_prctl,
        next = sym PRCTL,
        failed = sym failed,
    )
}

/// # Safety
/// As libc's function of this name.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall(number: c_long) -> c_long {
    core::arch::naked_asm!(
        "cmp rdi, {seccomp}",
        "je 2f",
        "cmp rdi, {prctl}",
        "je 2f",
        "cmp rdi, {rseq}",
        "je 2f",
        "cmp rdi, {clone}",
        "je 2f",
        "cmp rdi, {clone3}",
        "je 2f",
        look_and_go_on!(),
        "4: mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae {failed}",
        "ret",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        rseq = const libc::SYS_rseq,
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        look = sym look_at_syscall,
        next = sym SYSCALL,
        failed = sym failed,
    )
}

/// Jumped to with the kernel's answer where that is an error.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn failed() {
    core::arch::naked_asm!(
        "mov rdi, rax",
        "jmp {note}",
        note = sym note_failure,
    )
}

/// # Safety
/// As libc's function of this name.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn prctl(option: c_int) -> c_int {
    core::arch::naked_asm!(
        "cmp w0, #{set}",
        "b.eq 2f",
        look_and_go_on!(),
        "4: mov x8, #{number}",
        "svc #0",
        "cmn x0, #4095",
        "b.cs {failed}",
        "ret",
        set = const PR_SET_SECCOMP,
        number = const libc::SYS_prctl,
        look = sym look_at_prctl,
        next = sym PRCTL,
        failed = sym note_failure,
    )
}

/// # Safety
/// As libc's function of this name.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall(number: c_long) -> c_long {
    core::arch::naked_asm!(
        "cmp x0, #{seccomp}",
        "b.eq 2f",
        "cmp x0, #{prctl}",
        "b.eq 2f",
        "cmp x0, #{rseq}",
        "b.eq 2f",
        "cmp x0, #{clone}",
        "b.eq 2f",
        "cmp x0, #{clone3}",
        "b.eq 2f",
        look_and_go_on!(),
        "4: mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "cmn x0, #4095",
        "b.cs {failed}",
        "ret",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        rseq = const libc::SYS_rseq,
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        look = sym look_at_syscall,
        next = sym SYSCALL,
        failed = sym note_failure,
    )
}

/// Turns an error in the kernel's answer into errno and -1, as libc does.
extern "C" fn note_failure(answer: c_long) -> c_long {
    set_errno(-answer as c_int);
    -1
}
