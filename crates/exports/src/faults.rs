//! The handler of SIGSEGV: an access to a guard page of the heap's ends in a report, any other goes to
//! whoever was there before.

use super::{Blocks, actions, blocks, heap, unwind};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use vcmalloc_core::base::fault::Access;
use vcmalloc_core::base::stack::Stack;
use vcmalloc_core::options::OptionId;
use vcmalloc_core::os::{Interrupted, Os};

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Puts our handler before the program's, once: when the library is loaded, or before the first block that is guarded
/// because an option was set later. Not where a filter of system calls would end the process for that, nor in a child in its parent's
/// memory, whose actions are its own.
pub fn catch() {
    static CAUGHT: AtomicBool = AtomicBool::new(false);
    if !CAUGHT.load(Ordering::Relaxed)
        && heap().os().may_ask(libc::SYS_rt_sigaction)
        && !heap().is_guest()
        && !CAUGHT.swap(true, Ordering::Relaxed)
    {
        actions::take_over(on_fault as *const () as usize);
    }
}

/// Catches faults where blocks are guarded. While the library is loaded it is too early for filters of the program's own.
pub fn catch_if_wanted() {
    if blocks().has_guard_pages() || heap().options.get(OptionId::guarded_rate) != 0 {
        catch();
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's arguments.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().expose_provenance()) };
    // Above zero: the machine's own fault, not a signal that somebody sent.
    if code > 0 {
        // SAFETY: the kernel's argument.
        let interrupted = unsafe { Interrupted::from_context(context) };
        let access = access_to(address, &interrupted);
        if let Some(misuse) = blocks().explain(address, access) {
            heap().abort_with(misuse, || blocks().tell_more(&misuse, &|| stack_of(&interrupted)));
        }
        if heap().is_guarded(address) {
            heap().abort_for_access(address, access, || stack_of(&interrupted));
        }
    }
    pass_on(signal, info, context, code);
}

fn access_to(address: usize, interrupted: &Interrupted) -> Access {
    match interrupted.is_write {
        // The instruction itself could not be read.
        _ if address == interrupted.instruction => Access::Execute,
        Some(true) => Access::Write,
        Some(false) => Access::Read,
        None => Access::Unknown,
    }
}

/// The stack of the access, as the unwinder finds it below the handler, or by frame pointers.
fn stack_of(interrupted: &Interrupted) -> Stack {
    Stack::taken_by(|frames| {
        let mut all = [0; 64];
        let depth = unwind::stack(&mut all);
        let found = all.get(..depth).unwrap_or(&[]);
        let at = found.iter().position(|frame| *frame == interrupted.instruction);
        let Some(from) = at.and_then(|at| found.get(at..)) else { return interrupted.frames(frames) };
        frames.iter_mut().zip(from).for_each(|(to, frame)| *to = *frame);
        from.len().min(frames.len())
    })
}

/// Does what would have happened without us.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, code: c_int) {
    let program = actions::current();
    if !actions::is_handler(&program) {
        return die(signal, info, context, code);
    }
    if program.sa_flags & libc::SA_RESETHAND != 0 {
        actions::reset();
    }
    // SAFETY: the program's handler, in the form that its flags say.
    unsafe {
        if program.sa_flags & libc::SA_SIGINFO != 0 {
            core::mem::transmute::<usize, Handler>(program.sa_sigaction)(signal, info, context);
        } else {
            core::mem::transmute::<usize, extern "C" fn(c_int)>(program.sa_sigaction)(signal);
        }
    }
}

/// Lets the signal have its default effect, as it came: a fault comes again when the instruction does, one
/// that was sent is sent once more. A filter of system calls may refuse all of that: the kernel gives a fault its default effect
/// where the signal is blocked.
fn die(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, code: c_int) {
    let is_reset = actions::reset();
    if code > 0 {
        if !is_reset {
            // SAFETY: the kernel's argument, which it reads when the handler returns.
            unsafe { libc::sigaddset(&mut (*context.cast::<libc::ucontext_t>()).uc_sigmask, signal) };
        }
        return;
    }
    if !is_reset || !send_again(signal, info) {
        fault();
    }
}

/// Sends the signal to this thread; whether it was sent.
fn send_again(signal: c_int, info: *mut libc::siginfo_t) -> bool {
    let os = heap().os();
    let (process, thread) = (os.process_number(), os.thread_number());
    // SAFETY: the information is the kernel's own.
    let send = || unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) };
    process != 0 && thread != 0 && os.may_ask(libc::SYS_rt_tgsigqueueinfo) && send() == 0
}

/// Reads where nothing is.
fn fault() {
    // SAFETY: ends the process, since the signal is blocked in its handler.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {0}, qword ptr [{0}]", inout(reg) 0usize => _, options(nostack, readonly));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("ldr {0}, [{0}]", inout(reg) 0usize => _, options(nostack, readonly));
    }
}
