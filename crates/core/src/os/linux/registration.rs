//! Our own registration for restartable sequences, where the C library makes none.
//!
//! Each thread's area lies in thread-local storage at a constant distance from the thread pointer (model initial-exec), with
//! four words behind it: a heap notes in the first that the thread is in a slow path of its, in the next two which tenant's heap
//! serves the thread, and in the last the calls that this thread alone does not ask (`allowed`). It is the only thread-local variable
//! here, and nobody touches the area where the C library registers. A thread registers on its first slow path; until then
//! its `cpu_id` is negative, so the sequences find nothing.
//!
//! Nothing is registered before `allow`: the library, as it is loaded, looks first whether somebody else does it.
//!
//! The area ends with the thread's memory. glibc reuses that of a thread only after the kernel has forgotten the thread,
//! and relies on it for its own registration. Other C libraries unmap a detached thread's memory while it runs, and
//! the kernel ends a thread whose area is gone: there `leave` takes the registration back before.

use super::super::{NoSequences, SequenceArea};
use super::{sequences, thread};
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use core::arch::{asm, global_asm};
use core::ptr;

// The kernel's `struct rseq` as it was first: all kernels accept its length, and `mm_cid` lies within. `cpu_id` is -1.
global_asm!(
    ".pushsection .tdata.vcm_thread_area, \"awT\", @progbits",
    ".balign 32",
    ".globl vcm_thread_area",
    ".hidden vcm_thread_area",
    ".type vcm_thread_area, @object",
    ".size vcm_thread_area, 64",
    "vcm_thread_area: .long 0, -1, 0, 0, 0, 0, 0, 0",
    ".quad 0, 0, 0, 0",
    ".popsection",
);

/// The kernel is told of these alone: the word behind them is not its own.
const AREA_BYTES: usize = 32;
/// The word before our abort handlers.
const SIGNATURE: u32 = if cfg!(target_arch = "x86_64") { 0x5305_3053 } else { 0xd428_bc00 };
const FLAG_UNREGISTER: usize = 1;
/// Values of `cpu_id` (RSEQ_CPU_ID_UNINITIALIZED, RSEQ_CPU_ID_REGISTRATION_FAILED).
pub(super) const NOT_YET: u32 = u32::MAX;
pub(super) const REFUSED: u32 = u32::MAX - 1;

/// The fields that we use.
#[repr(C)]
pub(super) struct Area {
    cpu_id_start: AtomicU32,
    pub cpu_id: AtomicU32,
    pub sequence: AtomicUsize,
    kernels: [AtomicU32; 3],
    /// Of our own area, while it is not registered: see `lending`.
    pub lender: AtomicU32,
}

/// Each thread's own storage of ours.
#[repr(C)]
struct ThreadArea {
    sequences: Area,
    inside: AtomicUsize,
    heap: AtomicUsize,
    tenant: AtomicUsize,
    refused: AtomicU64,
}

impl Area {
    pub fn is_registered(&self) -> bool {
        self.cpu_id.load(Ordering::Relaxed) < REFUSED
    }
}

/// Whether threads may be registered, and what is to be done when one is.
#[derive(Default)]
pub(super) struct Registration {
    allowed: AtomicU32,
    /// The address of a function, or 0.
    entered: AtomicUsize,
}

impl Registration {
    pub const fn new() -> Self {
        Registration { allowed: AtomicU32::new(0), entered: AtomicUsize::new(0) }
    }

    /// From now on threads may be registered; each calls `entered` then, which must not allocate.
    pub fn allow(&self, entered: Option<extern "C" fn()>) {
        let address = entered.map_or(0, |entered| (entered as *const ()).expose_provenance());
        self.entered.store(address, Ordering::Relaxed);
        // Release pairs with the Acquire in `enter`.
        self.allowed.store(1, Ordering::Release);
    }

    /// From now on no thread is registered.
    pub fn forbid(&self) {
        self.allowed.store(0, Ordering::Relaxed);
    }

    /// Registers this thread, once: a refusal is final for it. True where the sequences can be used now. A signal handler
    /// may come in between and do it first.
    #[cold]
    pub fn enter(&self, may_ask: bool) -> bool {
        if self.allowed.load(Ordering::Acquire) == 0 {
            return false;
        }
        let area = own_area();
        if area.cpu_id.load(Ordering::Relaxed) != NOT_YET || !may_ask {
            return area.is_registered();
        }
        let refusal = ask(ptr::from_ref(area).addr(), AREA_BYTES, 0);
        if refusal.is_some_and(|error| error != libc::EBUSY) {
            // Not over what a handler has brought about meanwhile.
            _ = area.cpu_id.compare_exchange(NOT_YET, REFUSED, Ordering::Relaxed, Ordering::Relaxed);
            return area.is_registered();
        }
        match self.entered.load(Ordering::Relaxed) {
            0 => {}
            // SAFETY: stored by `allow`, which takes a function of this type.
            entered => unsafe {
                core::mem::transmute::<*const (), extern "C" fn()>(ptr::with_exposed_provenance(entered))();
            },
        }
        true
    }
}

/// Takes this thread's registration back, for good: it is about to end, and its memory before it, or somebody else is about to
/// register it. No signal handler may come between: it would find its descriptor announced to a kernel that does not look.
pub(super) fn leave() {
    let area = own_area();
    without_signals(|| {
        if area.is_registered() {
            unregister(ptr::from_ref(area).addr(), AREA_BYTES);
            area.sequence.store(0, Ordering::Relaxed);
        }
        area.cpu_id.store(REFUSED, Ordering::Relaxed);
    });
}

/// Registers this thread in the area at this address, of so many bytes; whether the kernel did.
pub(super) fn register(area: usize, bytes: usize) -> bool {
    ask(area, bytes, 0).is_none()
}

/// Takes that back.
pub(super) fn unregister(area: usize, bytes: usize) -> bool {
    ask(area, bytes, FLAG_UNREGISTER).is_none()
}

/// Does what no signal handler of this thread may interrupt.
pub(super) fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    let every_signal = u64::MAX;
    let mut before = 0u64;
    set_signal_mask(&every_signal, &mut before);
    let outcome = work();
    set_signal_mask(&before, &mut 0);
    outcome
}

/// The place of the areas, if the kernel has sequences and their fence. Registers nobody.
pub(super) fn area() -> Result<SequenceArea, NoSequences> {
    // An area of no length is refused, by a kernel that knows of areas.
    if ask(0, 0, 0) != Some(libc::EINVAL) {
        return Err(NoSequences::Kernel);
    }
    if !sequences::register_fence() {
        return Err(NoSequences::Fence);
    }
    Ok(sequences::indexed(offset()))
}

/// Calls rseq(2) for the area at this address, none at 0; the error. By an instruction: `syscall` is a function of our
/// library too, which takes whoever calls it for another that registers.
fn ask(area: usize, length: usize, flags: usize) -> Option<i32> {
    let answer: isize;
    // SAFETY: the area is this thread's own and lives as long as it. The kernel keeps all registers but these.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", inlateout("rax") libc::SYS_rseq as isize => answer, in("rdi") area, in("rsi") length,
            in("rdx") flags, in("r10") SIGNATURE as usize, out("rcx") _, out("r11") _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("svc #0", in("x8") libc::SYS_rseq, inlateout("x0") area as isize => answer, in("x1") length,
            in("x2") flags, in("x3") SIGNATURE as usize, options(nostack));
    }
    (answer < 0).then_some(-answer as i32)
}

fn set_signal_mask(new: &u64, old: &mut u64) {
    let before = thread::error_number();
    // SAFETY: the kernel's masks have 8 bytes; both live through the call.
    unsafe {
        let (new, old) = (ptr::from_ref(new), ptr::from_mut(old));
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, new, old, size_of::<u64>());
    }
    thread::set_error_number(before);
}

/// The distance of our own area from the thread pointer.
pub(super) fn offset() -> isize {
    let offset: isize;
    // SAFETY: reads our own global offset table, where the dynamic linker or the linker has put it.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        asm!(
            "adrp {0}, :gottprel:vcm_thread_area",
            "ldr {0}, [{0}, :gottprel_lo12:vcm_thread_area]",
            out(reg) offset, options(nostack, preserves_flags, readonly)
        );
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, qword ptr [rip + vcm_thread_area@GOTTPOFF]", out(reg) offset,
            options(nostack, preserves_flags, readonly));
    }
    offset
}

pub(super) fn own_area() -> &'static Area {
    &this_thread().sequences
}

/// This thread's word for the heap in whose slow path it is. The C library makes it 0 in each new thread, also on the stack
/// of one that has ended.
#[inline]
pub(super) fn inside() -> &'static AtomicUsize {
    &this_thread().inside
}

/// This thread's word for the tenant's heap that serves it. As `inside`.
#[inline]
pub(super) fn heap_in_use() -> &'static AtomicUsize {
    &this_thread().heap
}

/// The word behind it, for the address of that heap's entry.
#[inline]
pub(super) fn tenant_in_use() -> &'static AtomicUsize {
    &this_thread().tenant
}

/// This thread's word for the calls that it alone does not ask. As `inside`.
#[inline]
pub(super) fn refused() -> &'static AtomicU64 {
    &this_thread().refused
}

/// The bit of that word that says that the thread asks nothing: it is in the strict mode, or about to be.
pub(super) const STRICT: u64 = 1 << 62;

pub(super) fn is_strict() -> bool {
    refused().load(Ordering::Relaxed) & STRICT != 0
}

/// The distance of the first of both from the thread pointer.
pub(super) fn offset_of_heap() -> isize {
    offset() + core::mem::offset_of!(ThreadArea, heap) as isize
}

#[inline]
fn this_thread() -> &'static ThreadArea {
    // SAFETY: `vcm_thread_area` is one, and every thread has its own for as long as it runs; no caller passes it on.
    unsafe { &*ptr::with_exposed_provenance(at(offset())) }
}

/// This thread's area at such a distance: our own, or that of the C library, which lies in every thread as well.
pub(super) fn area_at(offset: isize) -> &'static Area {
    // SAFETY: the area of this thread, for as long as it runs; no caller passes it on.
    unsafe { &*ptr::with_exposed_provenance(at(offset)) }
}

/// The address at this distance from this thread's pointer.
#[inline]
fn at(offset: isize) -> usize {
    let thread: usize;
    // SAFETY: reads the thread pointer; on x86-64 the word that it points to holds its own address (the ABI).
    unsafe {
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) thread, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, fs:[0]", out(reg) thread, options(nostack, preserves_flags, readonly));
    }
    thread.wrapping_add_signed(offset)
}
