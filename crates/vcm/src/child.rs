//! The child process: started as if by the shell itself, told of our signals, and mourned in kind.
//!
//! Owns the signal mask and the dispositions while a child runs; promises that the child starts with those
//! that we were started with.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use vcm_front::say;
use vcm_inspect::process::{self, Process};
use vcm_inspect::root::Root;

/// Signals that a sender means for the program when it sends them to us. Not those by which a terminal stops
/// jobs: they reach both, and stopping with the child is what the shell expects.
const FORWARDED: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

pub struct Child {
    process: std::process::Child,
    signals: SignalFd,
}

pub enum Event {
    Ended(ExitStatus),
    TimeOut,
}

impl Child {
    pub fn start(mut command: Command) -> io::Result<Child> {
        let mut wanted: SigSet = FORWARDED.into_iter().collect();
        wanted.add(Signal::SIGCHLD);
        let mut before = SigSet::empty();
        // Blocked before the start: from now on no signal is lost, and none ends us without the child.
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&wanted), Some(&mut before))?;
        // SAFETY: setting a default disposition installs no code of ours. With SIGCHLD ignored there would be
        // no exit code to pass on.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let signals = SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        // SAFETY: sigprocmask and signal are async-signal-safe, which is what code between fork and exec must
        // be.
        unsafe {
            command.pre_exec(move || {
                inherited::restore();
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None).map_err(io::Error::from)
            });
        }
        match command.spawn() {
            Ok(process) => Ok(Child { process, signals }),
            Err(error) => {
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
                Err(error)
            }
        }
    }

    pub fn id(&self) -> i32 {
        self.process.id() as i32
    }

    /// Waits for the end of the child and passes signals on meanwhile.
    pub fn wait(&mut self, time_out: Option<Duration>) -> io::Result<Event> {
        let until = time_out.map(|time_out| std::time::Instant::now() + time_out);
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(Event::Ended(status));
            }
            let left = until.map(|until| until.saturating_duration_since(std::time::Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Event::TimeOut);
            }
            // Rounded up: a wait of less than a millisecond must not become a busy loop.
            let wait = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
            });
            match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], wait) {
                Ok(_) | Err(nix::Error::EINTR) => self.pass_signals_on(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn pass_signals_on(&mut self) {
        while let Ok(Some(information)) = self.signals.read_signal() {
            let Ok(signal) = Signal::try_from(information.ssi_signo as i32) else { continue };
            // A signal of the terminal (Ctrl-C) goes to the whole foreground group, so the child has it
            // already; and one that the child sends to its group need not come back to it.
            let by_kernel = information.ssi_code > 0;
            let by_child = information.ssi_pid == self.process.id();
            if FORWARDED.contains(&signal) && !by_kernel && !by_child {
                let _ = kill(Pid::from_raw(self.id()), signal);
            }
        }
    }
}

/// A program that was started, by which one that it left running is known.
pub struct Program {
    file: PathBuf,
    start: u64,
    id: i32,
}

impl Program {
    /// The command's file before it is started: a command that ends soon is known by it alone.
    pub fn about_to_start(path: &Path) -> Option<Program> {
        let start = Process::new(std::process::id() as i32).start_ticks()?;
        Some(Program { file: path.canonicalize().ok()?, start, id: 0 })
    }

    /// While it is there.
    pub fn of(id: i32) -> Option<Program> {
        let process = Process::new(id);
        Some(Program { file: process.program().ok()?, start: process.start_ticks()?, id })
    }

    /// Says that a process of the same program runs on, which was started since: a daemon that forks away.
    pub fn tell_what_runs_on(&self, what: &str) {
        let is_left = |id: &i32| {
            let process = Process::new(*id);
            *id != self.id
                && process.program().is_ok_and(|file| file == self.file)
                && process.start_ticks().is_some_and(|start| start >= self.start)
                && process.is_alive()
        };
        let Some(id) = process::all(&Root::real()).into_iter().find(is_left) else { return };
        say::line(&format!(
            "vcm: note: process {id} of the same program continues in the background and is not {what}. Use the \
             program's foreground option"
        ));
    }
}

/// Ends this process as the child ended: with its code, or by the signal that killed it.
pub fn end_like(status: ExitStatus) -> u8 {
    let Some(number) = status.signal() else { return status.code().map_or(1, |code| code as u8) };
    if let Ok(signal) = Signal::try_from(number) {
        // The child has left a core file if one was wanted; ours would overwrite it.
        let _ = nix::sys::prctl::set_dumpable(false);
        // SAFETY: setting a default disposition installs no code of ours.
        unsafe { libc::signal(number, libc::SIG_DFL) };
        let only: SigSet = [signal].into_iter().collect();
        let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&only), None);
        let _ = nix::sys::signal::raise(signal);
    }
    (128 + number) as u8
}

/// Dispositions as they were before the Rust runtime ignored SIGPIPE: a daemon that systemd starts has it
/// ignored, a command of a shell has not, and both rely on it.
mod inherited {
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SIGNALS: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGCHLD];
    static DISPOSITIONS: [AtomicUsize; 2] =
        [AtomicUsize::new(libc::SIG_DFL), AtomicUsize::new(libc::SIG_DFL)];

    #[used]
    #[unsafe(link_section = ".init_array")]
    static BEFORE_MAIN: extern "C" fn() = record;

    extern "C" fn record() {
        for (signal, disposition) in SIGNALS.into_iter().zip(&DISPOSITIONS) {
            // SAFETY: all zeros is a valid sigaction, and it is overwritten.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: a null new action only asks; `action` lives across the call.
            unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
            disposition.store(action.sa_sigaction, Ordering::Relaxed);
        }
    }

    /// For use between fork and exec.
    pub fn restore() {
        for (signal, disposition) in SIGNALS.into_iter().zip(&DISPOSITIONS) {
            // SAFETY: before main no handler can be set, so the value is SIG_DFL or SIG_IGN.
            unsafe { libc::signal(signal, disposition.load(Ordering::Relaxed)) };
        }
    }
}
