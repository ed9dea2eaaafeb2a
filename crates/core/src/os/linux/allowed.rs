//! The system calls that may still be asked, and what is known of those that may not.
//!
//! A filter of system calls can end the process for a call that it does not know. A filter that the program
//! is about to install is looked at before (`filter`); the option `system_calls=few` forgoes all but the list for good.
//! A filter is noted before the kernel has it, and taken back where the kernel refuses it (`refusals`). Else nothing is: to stay
//! careful is always right.
//!
//! A word of the thread's holds what only this thread may not ask: in the strict mode, and under a
//! filter in a child that shares this memory, whose parent ends it when the child is gone (`engine/lending.rs`).

use super::filter::{Call, Filter, Verdict};
use super::refusals::{self, Obeyed, Refusals};
use crate::base::chance::next_random;
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The system calls that are asked while the program runs, a bit each.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Ask {
    Map,
    /// As any malloc maps: a filter that names flags lets this pass.
    MapPlainly,
    Reserve,
    Unmap,
    Open,
    Close,
    Release,
    Populate,
    Collapse,
    Huge,
    Cold,
    NoHuge,
    Dump,
    NoDump,
    Wipe,
    Mark,
    Unmark,
    Move,
    Clock,
    Fence,
    OpenFile,
    ReadFile,
    CloseFile,
    Write,
    MemoryBytes,
    Affinity,
    Random,
    Resident,
    Thread,
    Process,
    Name,
    Register,
    NamePages,
    ReadAt,
}

/// So many of the first are needed to serve the program, or on the list that it can rely on.
const LISTED: u32 = Ask::Fence as u32 + 1;
/// Calls of the layer above, which asks by their number.
const OTHERS: usize = 12;
const COUNT: usize = Ask::ReadAt as usize + 1 + OTHERS;
/// A filter was seen, or all but the list is forgone: calls without a bit are not asked either.
const CAREFUL: u64 = 1 << 63;
const _: () = assert!(COUNT <= refusals::MOST && CAREFUL & refusals::ALL != 0, "each call has a bit");

const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
const MAPPED: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
const NOWHERE: u64 = u32::MAX as u64;

const fn advice(kind: libc::c_int) -> Call {
    Call { number: libc::SYS_madvise, arguments: [0, 4096, kind as u64, 0, 0, 0] }
}

const fn plain(number: libc::c_long) -> Call {
    Call { number, arguments: [0; 6] }
}

/// Of another thread than the one that asks: some filters let a thread ask for itself alone. No thread has this number
/// (the kernel's PID_MAX_LIMIT).
const fn for_another_thread(number: libc::c_long) -> Call {
    Call { number, arguments: [4 << 20, 0, 0, 0, 0, 0] }
}

/// In the order of `Ask`, and then the others.
const CALLS: [Call; COUNT] = [
    Call {
        number: libc::SYS_mmap,
        arguments: [0, 4096, READ_WRITE, MAPPED | libc::MAP_FIXED_NOREPLACE as u64, NOWHERE, 0],
    },
    Call {
        number: libc::SYS_mmap,
        arguments: [0, 4096, READ_WRITE, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64, NOWHERE, 0],
    },
    Call { number: libc::SYS_mmap, arguments: [0, 4096, 0, MAPPED, NOWHERE, 0] },
    plain(libc::SYS_munmap),
    Call { number: libc::SYS_mprotect, arguments: [0, 4096, READ_WRITE, 0, 0, 0] },
    Call { number: libc::SYS_mprotect, arguments: [0, 4096, 0, 0, 0, 0] },
    advice(libc::MADV_DONTNEED),
    advice(libc::MADV_POPULATE_WRITE),
    advice(super::huge::MADV_COLLAPSE),
    advice(libc::MADV_HUGEPAGE),
    advice(libc::MADV_COLD),
    advice(libc::MADV_NOHUGEPAGE),
    advice(libc::MADV_DODUMP),
    advice(libc::MADV_DONTDUMP),
    advice(libc::MADV_WIPEONFORK),
    advice(super::memory::MADV_GUARD_INSTALL),
    advice(super::memory::MADV_GUARD_REMOVE),
    Call { number: libc::SYS_mremap, arguments: [0, 4096, 4096, super::memory::MOVE_FLAGS as u64, 0, 0] },
    plain(libc::SYS_clock_gettime),
    Call {
        number: libc::SYS_membarrier,
        arguments: [libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ as u64, 0, 0, 0, 0, 0],
    },
    Call {
        number: libc::SYS_openat,
        arguments: [libc::AT_FDCWD as u32 as u64, 0, (libc::O_RDONLY | libc::O_CLOEXEC) as u64, 0, 0, 0],
    },
    plain(libc::SYS_read),
    plain(libc::SYS_close),
    Call { number: libc::SYS_write, arguments: [2, 0, 0, 0, 0, 0] },
    plain(libc::SYS_sysinfo),
    plain(libc::SYS_sched_getaffinity),
    plain(libc::SYS_getrandom),
    plain(libc::SYS_mincore),
    plain(libc::SYS_gettid),
    plain(libc::SYS_getpid),
    plain(libc::SYS_prctl),
    Call { number: libc::SYS_rseq, arguments: [0, 32, 0, 0x5305_3053, 0, 0] },
    Call {
        number: libc::SYS_prctl,
        arguments: [libc::PR_SET_VMA as u64, libc::PR_SET_VMA_ANON_NAME as u64, 0, 4096, 0, 0],
    },
    plain(libc::SYS_pread64),
    plain(libc::SYS_rt_sigaction),
    plain(libc::SYS_rt_sigprocmask),
    plain(libc::SYS_close_range),
    for_another_thread(libc::SYS_sched_setscheduler),
    for_another_thread(libc::SYS_sched_setaffinity),
    plain(libc::SYS_setpriority),
    plain(libc::SYS_pidfd_open),
    plain(libc::SYS_pidfd_getfd),
    plain(libc::SYS_dup3),
    plain(libc::SYS_newfstatat),
    plain(libc::SYS_renameat2),
    plain(libc::SYS_prlimit64),
];

/// The refused calls, and the answers that were learnt while they were not.
#[derive(Default)]
pub(super) struct Allowed {
    refused: Refusals,
    memory: AtomicUsize,
    cpus: AtomicUsize,
    seed: AtomicU64,
    unread: AtomicU32,
}

/// Whether a filter holds that was there before the program, and cannot be read: not known yet, no, yes.
const UNKNOWN: u32 = 0;
const NO_UNREAD: u32 = 1;
const UNREAD: u32 = 2;

impl Allowed {
    pub const fn new() -> Self {
        Allowed {
            refused: Refusals::new(),
            memory: AtomicUsize::new(0),
            cpus: AtomicUsize::new(0),
            seed: AtomicU64::new(0),
            unread: AtomicU32::new(UNKNOWN),
        }
    }

    #[inline]
    pub fn may(&self, ask: Ask) -> bool {
        self.refused.bits() >> ask as u32 & 1 == 0
    }

    /// Whether no filter was seen, and nothing is forgone.
    pub fn is_careless(&self) -> bool {
        self.refused.bits() & CAREFUL == 0
    }

    /// A file takes three calls.
    pub fn may_read(&self) -> bool {
        self.may(Ask::OpenFile) && self.may(Ask::ReadFile) && self.may(Ask::CloseFile)
    }

    pub fn may_ask(&self, number: libc::c_long) -> bool {
        let refused = self.refused.bits();
        let mut known = CALLS.iter().enumerate().filter(|(_, call)| call.number == number).peekable();
        match known.peek() {
            Some(_) => known.all(|(bit, _)| refused >> bit & 1 == 0),
            None => self.is_careless(),
        }
    }

    /// Notes what a filter does not let pass. Of the calls on the list one that fails is asked all the same: it
    /// comes back with an error, which is provided for. But not where there is another way, and a page that could not
    /// be opened again is not closed. `by_thread`: this thread alone obeys.
    pub fn obey(&self, filter: Filter<'_>, by_thread: bool) -> Obeyed {
        let mut refused = CAREFUL;
        for (bit, call) in CALLS.iter().enumerate() {
            let verdict = filter.verdict(*call);
            // The clock is read without a call; only the strict mode takes that away.
            if bit == Ask::Clock as usize {
                continue;
            }
            let is_listed = bit < LISTED as usize;
            let has_other_way = [Ask::Map, Ask::Open, Ask::Close].map(|ask| ask as usize).contains(&bit);
            let is_asked = match verdict {
                Verdict::Passes => true,
                Verdict::IsTold => is_listed,
                Verdict::Fails => is_listed && !has_other_way,
                Verdict::Ends => false,
            };
            if !is_asked {
                refused |= 1 << bit;
            }
        }
        if by_thread { self.refused.note_by_thread(refused) } else { self.refused.note(refused) }
    }

    /// From now on this thread may ask nothing.
    pub fn forgo_all(&self) -> Obeyed {
        self.refused.note_by_thread(refusals::ALL)
    }

    /// Once, with the kernel's answer to what was noted: if it was refused, all is as before.
    pub fn settle(&self, obeyed: Obeyed, is_installed: bool) {
        self.refused.settle(obeyed, is_installed);
    }

    /// From now on no thread may ask what this one may not.
    pub fn share_own(&self) {
        self.refused.share_own();
    }

    /// From now on nothing may be asked but what is on the list.
    pub fn keep_to_list(&self) {
        self.refused.add(u64::MAX << LISTED & refusals::ALL);
    }

    /// An answer of the system's, or the last one where it may not be asked.
    pub fn memory(&self, ask: impl FnOnce() -> usize) -> usize {
        remembered(&self.memory, self.may(Ask::MemoryBytes), ask)
    }

    pub fn cpus(&self, may_ask: bool, ask: impl FnOnce() -> usize) -> usize {
        remembered(&self.cpus, may_ask && self.may(Ask::Affinity), ask).max(1)
    }

    /// Whether no filter was there before the program, whose answers nobody knows: systemd's lists of what services may ask end
    /// a process for `mincore`, which is in none of them. Found out once, before the first filter that is read. If it cannot
    /// be found out, there is one.
    pub fn has_no_unread_filter(&self, look: impl FnOnce() -> bool) -> bool {
        let known = self.unread.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return known == NO_UNREAD;
        }
        if !self.may_read() {
            return false;
        }
        let is_unfiltered = look();
        self.unread.store(if is_unfiltered { NO_UNREAD } else { UNREAD }, Ordering::Relaxed);
        is_unfiltered
    }

    /// A number that nobody can guess. The system is asked once, for two: the second is never handed out, and later
    /// numbers come of it.
    pub fn random(&self, ask: impl Fn() -> u64) -> u64 {
        if self.seed.load(Ordering::Relaxed) == 0 && self.may(Ask::Random) {
            self.seed.store(ask() | 1, Ordering::Relaxed);
            return ask();
        }
        let [fixed, _] = super::chance::random_words();
        let fixed = fixed.rotate_left(17);
        // In the strict mode the clock's instruction ends the process.
        let now = if self.may(Ask::Clock) { super::chance::now() } else { 0 };
        let mut seed = self.seed.load(Ordering::Relaxed) ^ fixed ^ now.rotate_left(32);
        let drawn = next_random(&mut seed);
        self.seed.fetch_add(drawn | 1, Ordering::Relaxed);
        next_random(&mut seed)
    }
}

fn remembered(known: &AtomicUsize, may_ask: bool, ask: impl FnOnce() -> usize) -> usize {
    if !may_ask {
        return known.load(Ordering::Relaxed);
    }
    let answer = ask();
    known.store(answer, Ordering::Relaxed);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }

    /// A filter that does this with one call and lets all others pass.
    fn filter_for(number: libc::c_long, action: u32) -> [libc::sock_filter; 4] {
        [
            line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number as u32),
            line(libc::BPF_RET | libc::BPF_K, 0, 0, action),
            line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ]
    }

    #[test]
    fn what_a_filter_does_not_let_pass_is_not_asked() {
        for (number, action, is_asked) in [
            (libc::SYS_openat, libc::SECCOMP_RET_KILL_PROCESS, false),
            (libc::SYS_openat, libc::SECCOMP_RET_ERRNO | 13, false),
            (libc::SYS_openat, libc::SECCOMP_RET_LOG, true),
            (libc::SYS_openat, libc::SECCOMP_RET_TRACE, false),
            (libc::SYS_mprotect, libc::SECCOMP_RET_TRACE, true),
            (libc::SYS_mprotect, libc::SECCOMP_RET_USER_NOTIF, true),
            (libc::SYS_mprotect, libc::SECCOMP_RET_ERRNO | 1, false),
            (libc::SYS_madvise, libc::SECCOMP_RET_ERRNO | 1, true),
            (libc::SYS_madvise, libc::SECCOMP_RET_TRAP, false),
            (libc::SYS_close_range, libc::SECCOMP_RET_KILL_THREAD, false),
        ] {
            let allowed = Allowed::new();
            assert!(allowed.may_ask(number) && allowed.may_ask(libc::SYS_reboot));
            _ = allowed.obey(Filter::of(&filter_for(number, action)), false);
            assert_eq!(allowed.may_ask(number), is_asked, "{number} {action:x}");
            assert!(allowed.may_ask(libc::SYS_munmap) && !allowed.may_ask(libc::SYS_reboot));
        }
    }

    #[test]
    fn the_list_stays_where_all_else_is_forgone() {
        let allowed = Allowed::new();
        allowed.keep_to_list();
        for number in
            [libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_madvise, libc::SYS_mremap]
        {
            assert!(allowed.may_ask(number));
        }
        assert!(allowed.may_ask(libc::SYS_membarrier));
        for call in CALLS.iter().skip(LISTED as usize) {
            assert!(!allowed.may_ask(call.number), "{}", call.number);
        }
        assert!(!allowed.may_read());
    }

    #[test]
    fn a_filter_that_the_kernel_refuses_is_not_obeyed() {
        let (allowed, filter) = (Allowed::new(), filter_for(libc::SYS_mmap, libc::SECCOMP_RET_KILL_PROCESS));
        for by_thread in [false, true] {
            let obeyed = allowed.obey(Filter::of(&filter), by_thread);
            assert!(!allowed.may_ask(libc::SYS_mmap) && !allowed.may_ask(libc::SYS_reboot));
            allowed.settle(obeyed, false);
            assert!(allowed.may_ask(libc::SYS_mmap) && allowed.may_ask(libc::SYS_reboot), "{by_thread}");
        }
        let strict = allowed.forgo_all();
        assert!(!allowed.may_ask(libc::SYS_munmap));
        allowed.settle(strict, false);
        assert!(allowed.may_ask(libc::SYS_munmap));
    }

    #[test]
    fn a_filter_stays_obeyed_where_another_thread_was_refused_the_same() {
        let (allowed, filter) = (Allowed::new(), filter_for(libc::SYS_mmap, libc::SECCOMP_RET_KILL_PROCESS));
        let [refused, _taken] = [(); 2].map(|()| allowed.obey(Filter::of(&filter), false));
        allowed.settle(refused, false);
        assert!(!allowed.may_ask(libc::SYS_mmap));
        let later =
            allowed.obey(Filter::of(&filter_for(libc::SYS_openat, libc::SECCOMP_RET_KILL_PROCESS)), false);
        allowed.settle(later, false);
        assert!(!allowed.may_ask(libc::SYS_mmap) && allowed.may_ask(libc::SYS_openat));
    }

    #[test]
    fn a_child_with_a_copy_obeys_with_all_its_threads_what_its_maker_obeyed_alone() {
        let (allowed, filter) = (Allowed::new(), filter_for(libc::SYS_mmap, libc::SECCOMP_RET_KILL_PROCESS));
        _ = allowed.obey(Filter::of(&filter), true);
        let other_may =
            || std::thread::scope(|scope| scope.spawn(|| allowed.may_ask(libc::SYS_mmap)).join().unwrap());
        assert!(!allowed.may_ask(libc::SYS_mmap) && other_may());
        allowed.share_own();
        assert!(!allowed.may_ask(libc::SYS_mmap) && !other_may());
        assert!(Allowed::new().may_ask(libc::SYS_mmap), "nothing is left in this thread's word");
    }

    #[test]
    fn the_strict_mode_is_of_one_thread() {
        let allowed = Allowed::new();
        std::thread::scope(|scope| {
            let strict = scope.spawn(|| {
                _ = allowed.forgo_all();
                assert!(
                    CALLS.iter().all(|call| !allowed.may_ask(call.number))
                        && !allowed.may_ask(libc::SYS_reboot)
                );
            });
            strict.join().unwrap();
        });
        assert!(CALLS.iter().all(|call| allowed.may_ask(call.number)) && allowed.may_ask(libc::SYS_reboot));
    }

    #[test]
    fn what_was_learnt_before_is_known_afterwards() {
        let allowed = Allowed::new();
        assert_eq!((allowed.memory(|| 7), allowed.cpus(true, || 3)), (7, 3));
        let drawn = allowed.random(|| 5);
        allowed.keep_to_list();
        assert_eq!((allowed.memory(|| 8), allowed.cpus(true, || 4)), (7, 3));
        assert_eq!(drawn, 5);
        assert_ne!(allowed.random(|| 5), allowed.random(|| 5));
    }
}
