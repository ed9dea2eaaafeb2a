//! Filters of system calls (seccomp) that the program installs: read before they hold.
//!
//! The shared library's `prctl` and `syscall` come first. A call that installs a filter is looked at, so that the heap
//! never makes one that the filter would end the process for, and learns before what it could not ask later. If the kernel refuses
//! the filter, what was noted is taken back. A child in its parent's memory, and a thread in the strict mode, obeys alone.
//!
//! Every other call goes on to libc by a jump with all its arguments as they came: the functions are transparent for any number,
//! `clone` and `vfork` among them. Before libc's are known they make the call themselves. The static library, and
//! filters installed by instructions of the program's own, are not seen: for those there is the option `system_calls`.
//!
//! `syscall` also shows who registers threads for restartable sequences after us (`registration`), and who makes children
//! that share this memory (`children`).

use super::c::{errno, set_errno};
use super::next::{PRCTL, SYSCALL};
use super::{children, faults, heap, registration, threads};
use core::ffi::{c_int, c_long, c_ulong};
use vcmalloc_core::os::{Filter, Obeyed};

const PR_SET_SECCOMP: c_int = libc::PR_SET_SECCOMP;

type Program = *const libc::sock_fprog;

/// Looks at what a call is about to do that goes on to libc by a jump. `errno` stays.
extern "C" fn look_at_syscall(number: c_long, first: c_ulong, _: c_ulong, third: c_ulong) {
    match number {
        // An area, its length, no flags.
        libc::SYS_rseq if first != 0 && third == 0 => registration::give_way(),
        libc::SYS_clone => children::share_by_raw_call(first as c_int),
        libc::SYS_clone3 if first != 0 => share_by_clone3(first),
        _ => {}
    }
}

/// The flags come first in what the kernel is given.
fn share_by_clone3(arguments: c_ulong) {
    let flags = core::ptr::with_exposed_provenance::<u64>(arguments as usize);
    // SAFETY: the program gives it to the kernel now.
    children::share_by_raw_call(unsafe { flags.read_unaligned() } as c_int);
}

/// prctl with PR_SET_SECCOMP. The kernel takes no more arguments of any prctl.
unsafe extern "C" fn set_mode_by_prctl(
    option: c_int,
    mode: c_ulong,
    program: Program,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    let obeyed = obey_mode(mode, program);
    // SAFETY: by the promise of the caller of `prctl`.
    let answer = unsafe { prctl_of_libc(option, mode, program, fourth, fifth) };
    settle(obeyed, answer == 0);
    answer
}

/// syscall with SYS_seccomp, or with SYS_prctl and PR_SET_SECCOMP. The kernel takes no more arguments of either.
unsafe extern "C" fn set_mode_by_syscall(
    number: c_long,
    first: c_ulong,
    second: c_ulong,
    program: Program,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_long {
    let obeyed = match number {
        libc::SYS_prctl => obey_mode(second, program),
        _ => obey_operation(first, second, program),
    };
    // SAFETY: by the promise of the caller of `syscall`.
    let answer = unsafe { syscall_of_libc(number, first, second, program, fourth, fifth) };
    let is_installed = answer == 0 || answer > 0 && number == libc::SYS_seccomp && gives_a_listener(second);
    settle(obeyed, is_installed);
    answer
}

/// A positive answer is a descriptor then, else the number of a thread that keeps the filter from being all threads'.
fn gives_a_listener(flags: c_ulong) -> bool {
    flags & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER != 0
}

fn obey_mode(mode: c_ulong, program: Program) -> Option<Obeyed> {
    match mode as u32 {
        libc::SECCOMP_MODE_STRICT => Some(obey(None)),
        libc::SECCOMP_MODE_FILTER => obey_program(program),
        _ => None,
    }
}

fn obey_operation(operation: c_ulong, flags: c_ulong, program: Program) -> Option<Obeyed> {
    match operation as u32 {
        // libseccomp asks with a flag, which the kernel refuses, what there is.
        libc::SECCOMP_SET_MODE_STRICT if flags as u32 == 0 && program.is_null() => Some(obey(None)),
        libc::SECCOMP_SET_MODE_FILTER => obey_program(program),
        _ => None,
    }
}

fn obey_program(program: Program) -> Option<Obeyed> {
    // SAFETY: the program gives it to the kernel now, so nobody changes it.
    unsafe { Filter::at(program) }.map(|filter| obey(Some(filter)))
}

/// Before the kernel is asked: a call made between its answer and ours would end the process. `None`: nothing will be
/// allowed. `errno` stays.
fn obey(filter: Option<Filter<'_>>) -> Obeyed {
    let before = errno();
    faults::catch_if_wanted();
    // Behind a filter the kernel refuses the strict mode.
    if filter.is_none() && heap().os().has_no_filter() {
        threads::leave_process_if_main();
    }
    heap().learn_all();
    let os = heap().os();
    let by_thread = filter.is_none() || heap().is_guest();
    let obeyed = match filter {
        Some(filter) => os.obey_filter(filter, by_thread),
        None => os.forgo_all_calls(),
    };
    if !by_thread {
        // A filter may be meant for all threads.
        heap().wait_for_janitor();
    }
    set_errno(before);
    obeyed
}

/// With the kernel's answer. Makes no call, which might not be allowed any more, so `errno` stays libc's.
fn settle(obeyed: Option<Obeyed>, is_installed: bool) {
    if let Some(obeyed) = obeyed {
        heap().os().settle(obeyed, is_installed);
    }
}

/// Jumps to libc's function, or goes on at 4, which comes after, where there is none known.
#[cfg(target_arch = "x86_64")]
macro_rules! go_on {
    () => {
        concat!("mov r11, [rip + {next}]\n", "test r11, r11\n", "jz 4f\n", "jmp r11\n")
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! go_on {
    () => {
        concat!("adrp x16, {next}\n", "ldr x16, [x16, :lo12:{next}]\n", "cbz x16, 4f\n", "br x16\n")
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
        "je {set_mode}",
        "jmp {go_on}",
        set = const PR_SET_SECCOMP,
        set_mode = sym set_mode_by_prctl,
        go_on = sym prctl_of_libc,
    )
}

/// libc's function takes a variable number of arguments, none of them in a vector register.
///
/// # Safety
/// As `prctl`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn prctl_of_libc(_: c_int, _: c_ulong, _: Program, _: c_ulong, _: c_ulong) -> c_int {
    core::arch::naked_asm!(
        "xor eax, eax",
        go_on!(),
        "4: mov r10, rcx",
        "mov eax, {number}",
        "syscall",
        "cmp rax, -4095",
        "jae {failed}",
        "ret",
        number = const libc::SYS_prctl,
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
        "je {set_mode}",
        "cmp rdi, {prctl}",
        "je 3f",
        "cmp rdi, {rseq}",
        "je 2f",
        "cmp rdi, {clone}",
        "je 2f",
        "cmp rdi, {clone3}",
        "je 2f",
        "jmp {go_on}",
        "3: cmp esi, {set}",
        "je {set_mode}",
        "jmp {go_on}",
        // Seven words, so that the stack is aligned for the call.
        "2: push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "call {look}",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp {go_on}",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        set = const PR_SET_SECCOMP,
        rseq = const libc::SYS_rseq,
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        look = sym look_at_syscall,
        set_mode = sym set_mode_by_syscall,
        go_on = sym syscall_of_libc,
    )
}

/// Reads a seventh argument, which no call has that is made from here.
///
/// # Safety
/// As `syscall`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn syscall_of_libc(
    _: c_long,
    _: c_ulong,
    _: c_ulong,
    _: Program,
    _: c_ulong,
    _: c_ulong,
) -> c_long {
    core::arch::naked_asm!(
        go_on!(),
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
        "b {go_on}",
        "2: b {set_mode}",
        set = const PR_SET_SECCOMP,
        set_mode = sym set_mode_by_prctl,
        go_on = sym prctl_of_libc,
    )
}

/// # Safety
/// As `prctl`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn prctl_of_libc(_: c_int, _: c_ulong, _: Program, _: c_ulong, _: c_ulong) -> c_int {
    core::arch::naked_asm!(
        go_on!(),
        "4: mov x8, #{number}",
        "svc #0",
        "cmn x0, #4095",
        "b.cs {failed}",
        "ret",
        number = const libc::SYS_prctl,
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
        "b.eq 5f",
        "cmp x0, #{prctl}",
        "b.eq 3f",
        "cmp x0, #{rseq}",
        "b.eq 2f",
        "cmp x0, #{clone}",
        "b.eq 2f",
        "cmp x0, #{clone3}",
        "b.eq 2f",
        "b {go_on}",
        "3: cmp w1, #{set}",
        "b.eq 5f",
        "b {go_on}",
        "5: b {set_mode}",
        "2: stp x29, x30, [sp, #-80]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "bl {look}",
        "ldp x0, x1, [sp, #16]",
        "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]",
        "ldp x6, x7, [sp, #64]",
        "ldp x29, x30, [sp], #80",
        "b {go_on}",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        set = const PR_SET_SECCOMP,
        rseq = const libc::SYS_rseq,
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        look = sym look_at_syscall,
        set_mode = sym set_mode_by_syscall,
        go_on = sym syscall_of_libc,
    )
}

/// # Safety
/// As `syscall`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn syscall_of_libc(
    _: c_long,
    _: c_ulong,
    _: c_ulong,
    _: Program,
    _: c_ulong,
    _: c_ulong,
) -> c_long {
    core::arch::naked_asm!(
        go_on!(),
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
        next = sym SYSCALL,
        failed = sym note_failure,
    )
}

/// Turns an error in the kernel's answer into errno and -1, as libc does.
extern "C" fn note_failure(answer: c_long) -> c_long {
    set_errno(-answer as c_int);
    -1
}
