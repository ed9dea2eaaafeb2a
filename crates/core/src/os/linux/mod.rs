//! Linux by way of glibc: the type, and what the library tells it. `system` answers the questions of `Os`.

mod allowed;
mod background;
mod cgroup;
mod chance;
mod cpus;
mod domains;
mod files;
mod filter;
mod huge;
#[cfg(any(target_arch = "aarch64", test))]
mod kernel;
mod lending;
mod memory;
mod process;
mod refusals;
mod registration;
mod sequences;
mod stack;
mod system;
mod thread;
#[cfg(target_arch = "x86_64")]
pub mod unwind;

pub use domains::MOST_DOMAINS;
pub use filter::Filter;
pub use refusals::Obeyed;
pub use stack::Interrupted;

use crate::base::sync::{AtomicBool, AtomicUsize, Ordering};
use allowed::{Allowed, Ask};
use cpus::Cpus;
use domains::Domains;

/// The real system. Every answer is asked for anew, as long as it may be: it remembers only what may not be asked
/// any more (`allowed`), and what was learnt before.
#[derive(Default)]
pub struct Linux {
    allowed: Allowed,
    /// The address of glibc's `__libc_single_threaded` (2.32 and later), 0 where it is not known.
    single_threaded: AtomicUsize,
    registration: registration::Registration,
    /// CPUs that the process might use when this was first asked, as the library was loaded; 0 before. A main thread that binds
    /// itself to one of them later does not mean the others.
    cpus_at_load: AtomicUsize,
    /// The system has no names for pages: it is not asked again.
    has_no_names: AtomicBool,
    domains: Domains,
    /// The offset of each thread's area for the sequences from the thread pointer; 0 before it was asked for.
    area: AtomicUsize,
}

impl Linux {
    pub const fn new() -> Self {
        Linux {
            allowed: Allowed::new(),
            single_threaded: AtomicUsize::new(0),
            cpus_at_load: AtomicUsize::new(0),
            has_no_names: AtomicBool::new(false),
            domains: Domains::new(),
            area: AtomicUsize::new(0),
            registration: registration::Registration::new(),
        }
    }

    /// Threads may be registered for the sequences in areas of our own: nobody else does it. Each that is calls
    /// `entered`, which must not allocate.
    pub fn allow_registration(&self, entered: Option<extern "C" fn()>) {
        self.registration.allow(entered);
    }

    /// No thread may be registered in areas of our own: somebody else has registered this one.
    pub fn forbid_registration(&self) {
        self.registration.forbid();
    }

    /// Takes this thread's own registration back, for good: its memory ends before it does, or another wants it.
    pub fn leave_sequences(&self) {
        registration::leave();
    }

    /// Tells where the C library says whether the process has one thread: a byte that stays readable.
    pub fn note_single_threaded(&self, flag: *const u8) {
        self.single_threaded.store(flag.expose_provenance(), Ordering::Relaxed);
    }

    /// Whether this is the only thread: then no sequence is under way while this is asked.
    fn is_single_threaded(&self) -> bool {
        match self.single_threaded.load(Ordering::Relaxed) {
            0 => false,
            // SAFETY: by the promise of who told it; the C library writes it while other threads cannot read it.
            flag => unsafe { core::ptr::with_exposed_provenance::<u8>(flag).read_volatile() != 0 },
        }
    }

    /// Whether a system call may be asked: no filter that was seen stands in its way, and the program did not
    /// forgo it.
    pub fn may_ask(&self, number: core::ffi::c_long) -> bool {
        self.allowed.may_ask(number)
    }

    /// The number of this process; 0 where it may not be asked for.
    fn own_number(&self) -> u64 {
        if self.may(Ask::Process) { process::process_number() } else { 0 }
    }

    /// Whether what only some programs ask may be asked: no filter was there before the program, which may end it for that.
    pub fn has_no_unread_filter(&self) -> bool {
        self.allowed.has_no_unread_filter(background::is_unfiltered)
    }

    /// Whether the program runs under no filter at all, as far as is known.
    pub fn has_no_filter(&self) -> bool {
        self.allowed.is_careless() && self.has_no_unread_filter()
    }

    /// The program is about to install a filter of system calls. Calls that it refuses are not asked any more; `by_thread`: not by
    /// this thread.
    pub fn obey_filter(&self, filter: Filter<'_>, by_thread: bool) -> Obeyed {
        // From then on its answers are known, and another's are not told from them.
        self.has_no_unread_filter();
        self.allowed.obey(filter, by_thread)
    }

    /// This thread forgoes all system calls: it is about to enter the strict mode of seccomp.
    pub fn forgo_all_calls(&self) -> Obeyed {
        self.allowed.forgo_all()
    }

    /// With the kernel's answer: the filter, or the strict mode, holds, or was refused.
    pub fn settle(&self, obeyed: Obeyed, is_installed: bool) {
        self.allowed.settle(obeyed, is_installed);
    }

    /// The main thread may have bound itself since the library was loaded, which is about that thread alone; or it may use
    /// more by now.
    fn ask_for_cpus(&self) -> Cpus {
        let cpus = cpus::of_process(self.own_number());
        let at_load = &self.cpus_at_load;
        _ = at_load.compare_exchange(0, cpus.allowed, Ordering::Relaxed, Ordering::Relaxed);
        Cpus { allowed: at_load.load(Ordering::Relaxed).max(cpus.allowed), ..cpus }
    }

    /// The CPU that this thread ran on when the kernel looked last, where threads are registered for the sequences.
    fn cpu(&self) -> Option<usize> {
        let area = self.area.load(Ordering::Relaxed);
        if area == 0 {
            return None;
        }
        // SAFETY: every thread has an area there.
        usize::try_from(unsafe { sequences::cpu_id(area.cast_signed()) }).ok()
    }

    fn may_write_files(&self) -> bool {
        self.allowed.may_read() && self.may(Ask::Write)
    }

    /// The bytes of the longest file: a thread that writes beyond them gets a signal that ends the process.
    fn longest_file(&self) -> u64 {
        if self.may_ask(libc::SYS_prlimit64) { files::longest() } else { u64::MAX }
    }

    fn may_ask_residence(&self) -> bool {
        self.may(Ask::Resident) && self.has_no_unread_filter()
    }

    /// Slower, and no list of calls that programs may ask lacks these.
    fn may_read_residence(&self) -> bool {
        self.allowed.may_read() && self.may(Ask::ReadAt)
    }

    fn tells_residence(&self) -> bool {
        self.may_ask_residence() || self.may_read_residence()
    }

    #[inline]
    fn may(&self, ask: Ask) -> bool {
        self.allowed.may(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Os, Purpose};
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn what_is_reserved_apart_lies_far_from_libraries_and_elsewhere_each_time() {
        let os = Linux::new();
        let places: Vec<_> = (0..8).map(|_| os.reserve_apart(1 << 20).unwrap()).collect();
        let others = [os.reserve(1 << 20).unwrap(), libc::getpid as *const () as usize];
        for (number, place) in places.iter().enumerate() {
            assert!(others.iter().all(|other| place.abs_diff(*other) > 1 << 40), "{place:x} {others:x?}");
            assert!(places[..number].iter().all(|other| place != other));
            os.unmap(*place, 1 << 20);
        }
    }

    #[test]
    fn neighbours_of_one_name_are_one_mapping_and_a_refusal_is_not_asked_for_again() {
        let (os, bytes) = (Linux::new(), 1 << 20);
        let start = os.map(2 * bytes).unwrap();
        os.name_pages(start, bytes, Purpose::Heap);
        os.name_pages(start + bytes, bytes, Purpose::Heap);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let named = maps.lines().find(|line| line.contains("[anon:vcmalloc-heap]"));
        assert_eq!(named.is_none(), os.has_no_names.load(Ordering::Relaxed), "{named:?}");
        if let Some(line) = named {
            assert!(line.starts_with(&format!("{start:x}-{:x} ", start + 2 * bytes)), "{line}");
        }
        // SAFETY: asks for what nobody has: an address that is no page.
        let refused = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_VMA, 0, 1, 4096, 0) } != 0;
        let before = thread::error_number();
        assert!(refused && before == libc::EINVAL);
        os.name_pages(start, bytes, Purpose::Tables);
        assert_eq!(thread::error_number(), before, "errno is the program's");
        os.unmap(start, 2 * bytes);
    }
}
