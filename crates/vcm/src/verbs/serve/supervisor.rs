//! The agent looks at what anybody may have made, so it is watched: one process listens and waits, another answers.
//!
//! A board that both have mapped names the process that is looked at. If the looking child is ended by a signal (a
//! panic, memory, somebody), the process that it looked at is put on a list, the next one leaves it alone, and those
//! who wait for a connection notice nothing but a pause.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use vcm_front::say::{self, Outcome};

/// Looks that go on at once: a round, and profiles.
const LOOKS: usize = 8;
/// Processes that are left alone; the first ones are tried again.
const MOST_FEARED: usize = 4096;
/// A child that ends so soon is not started again at once.
const SOON: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Ends in a row, each soon and without a look, until it is given up.
const MOST_IN_VAIN: u32 = 10;

/// A process for good: its number and its start in clock ticks. Zero: none.
#[derive(Default)]
struct Named {
    pid: AtomicU64,
    start: AtomicU64,
    /// When the look should be over, and when it was feared: in milliseconds on the clock of both.
    until: AtomicU64,
}

/// Zero is an empty board.
pub struct Board {
    looks: [Named; LOOKS],
    feared: [Named; MOST_FEARED],
    restarts: AtomicU64,
}

/// A look that goes on, until this is dropped.
pub struct Look<'a>(&'a Named);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.0.pid.store(0, Ordering::Relaxed);
    }
}

impl Board {
    /// In memory that children share; it stays for the life of the process.
    pub fn shared() -> Result<&'static Board, String> {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever there is room.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Board>(), rights, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(format!("cannot start: {}", Errno::last()));
        }
        // SAFETY: the mapping is as long, never goes away, and its zeros are an empty board of atomic numbers.
        Ok(unsafe { &*at.cast() })
    }

    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Notes a look at a process; if there is no place, the look goes on unnoted.
    pub fn begin(&self, pid: i32, start: u64, most: Duration) -> Option<Look<'_>> {
        let pid = u64::from(pid.unsigned_abs());
        let free =
            |look: &&Named| look.pid.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let look = self.looks.iter().find(free)?;
        look.start.store(start, Ordering::Relaxed);
        look.until.store(milliseconds() + most.as_millis() as u64, Ordering::Relaxed);
        Some(Look(look))
    }

    /// The process of the look that should be over first, and whether it should be over now.
    pub fn longest(&self) -> Option<(i32, bool)> {
        let open = self.looks.iter().filter_map(|look| {
            let pid = i32::try_from(look.pid.load(Ordering::Relaxed)).ok().filter(|pid| *pid != 0)?;
            Some((pid, look.until.load(Ordering::Relaxed)))
        });
        open.min_by_key(|(_, until)| *until).map(|(pid, until)| (pid, milliseconds() > until))
    }

    /// Whether a look at it once ended the agent.
    pub fn is_feared(&self, pid: i32, start: u64) -> bool {
        let pid = u64::from(pid.unsigned_abs());
        let is_it = |one: &Named| {
            one.pid.load(Ordering::Relaxed) == pid && one.start.load(Ordering::Relaxed) == start
        };
        self.feared.iter().any(is_it)
    }

    /// The agent has ended: the processes that it looked at are feared from now on. Told are their numbers.
    fn note_end(&self) -> Vec<u64> {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        let mut found = Vec::new();
        for look in &self.looks {
            let pid = look.pid.swap(0, Ordering::Relaxed);
            if pid == 0 {
                continue;
            }
            let is_free = |one: &&Named| one.pid.load(Ordering::Relaxed) == 0;
            let oldest = || self.feared.iter().min_by_key(|one| one.until.load(Ordering::Relaxed));
            let Some(place) = self.feared.iter().find(is_free).or_else(oldest) else { continue };
            place.start.store(look.start.load(Ordering::Relaxed), Ordering::Relaxed);
            place.until.store(milliseconds(), Ordering::Relaxed);
            place.pid.store(pid, Ordering::Relaxed);
            found.push(pid);
        }
        found
    }
}

fn milliseconds() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    time.map_or(0, |time| Duration::from(time).as_millis() as u64)
}

/// Signals that end it; they wait in the one that watches, which hands them on.
pub fn hold_signals() -> SigSet {
    let mut held = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD] {
        held.add(signal);
    }
    // If they cannot be held, they end it at once.
    let _ = held.thread_block();
    held
}

/// Runs the agent in a child, again and again until it ends by itself. No other thread may be there yet.
pub fn watch(board: &Board, held: &SigSet, agent: impl Fn() -> Outcome) -> Outcome {
    let mut in_vain = 0;
    loop {
        let began = Instant::now();
        let parent = Pid::this();
        // SAFETY: there is one thread, so the child may go on with all of it.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => run(parent, &agent),
            Ok(ForkResult::Parent { child }) => match wait(child, held) {
                WaitStatus::Signaled(_, signal, _) => {
                    let looked_at = board.note_end();
                    in_vain = if looked_at.is_empty() && began.elapsed() < SOON { in_vain + 1 } else { 0 };
                    say::line(&format!("vcm: the agent was ended by {signal}{}", while_at(&looked_at)));
                    if in_vain > MOST_IN_VAIN {
                        return Ok(say::FAILURE);
                    }
                    sleep((SOON / 20 * in_vain).min(LONGEST_PAUSE));
                }
                WaitStatus::Exited(_, code) => return Ok(u8::try_from(code).unwrap_or(say::FAILURE)),
                _ => return Ok(say::FAILURE),
            },
            Err(error) => return Err(say::Failure::new(say::FAILURE, format!("cannot start: {error}"))),
        }
    }
}

fn while_at(looked_at: &[u64]) -> String {
    if looked_at.is_empty() {
        return "; vcm starts it again".into();
    }
    let numbers: Vec<String> = looked_at.iter().map(u64::to_string).collect();
    format!(
        " while it read process {}, which is skipped from now on; vcm starts it again",
        numbers.join(" and ")
    )
}

fn run(parent: Pid, agent: impl Fn() -> Outcome) -> ! {
    // Nobody would wait for it any more.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGTERM);
    let code = if nix::unistd::getppid() == parent {
        agent().unwrap_or_else(|failure| {
            say::line(&format!("vcm: {}", failure.message));
            failure.code
        })
    } else {
        say::FAILURE
    };
    std::process::exit(code.into())
}

/// How the child ended; meanwhile what should end us is handed on to it.
fn wait(child: Pid, held: &SigSet) -> WaitStatus {
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {}
            Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => return status,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return WaitStatus::StillAlive,
        }
        match held.wait() {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            // It is told the same way, whatever it was.
            Ok(_) => _ = kill(child, Signal::SIGTERM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_at_when_the_agent_ended_is_feared_and_nothing_else() {
        let board = Board::shared().unwrap();
        let minute = Duration::from_secs(60);
        let done = board.begin(7, 70, minute);
        drop(done);
        let open = board.begin(8, 80, minute);
        assert_eq!(board.longest(), Some((8, false)));
        assert!(!board.is_feared(8, 80));
        assert_eq!(board.note_end(), [8]);
        assert!(board.is_feared(8, 80) && !board.is_feared(8, 81) && !board.is_feared(7, 70));
        std::mem::forget(open);
        assert_eq!((board.note_end(), board.restarts(), board.longest()), (Vec::new(), 2, None));
    }

    #[test]
    fn where_there_is_no_place_for_more_the_oldest_is_tried_again() {
        let board = Board::shared().unwrap();
        for pid in 1..=MOST_FEARED as i32 + 5 {
            std::mem::forget(board.begin(pid, 1, Duration::ZERO));
            board.note_end();
        }
        let feared = (1..=MOST_FEARED as i32 + 5).filter(|pid| board.is_feared(*pid, 1)).count();
        assert_eq!(feared, MOST_FEARED);
        assert!(board.is_feared(MOST_FEARED as i32 + 5, 1));
    }
}
