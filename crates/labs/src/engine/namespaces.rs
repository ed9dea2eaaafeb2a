//! The processes around a run.
//!
//! ```text
//! vcm-lab            waits; undoes what a run that was killed leaves; hands signals on
//!   └ first process  of the run's namespaces (processes, mounts, network): all others end with it, mounts too
//!       └ the run    the rest of this program
//! ```
//!
//! Where the system refuses namespaces, and for a load on a cluster that is somebody's, the run is a child in those of
//! the machine; its processes are found by their mark. `enter` returns in the run alone. Promises that a kill of any
//! of the three leaves no process and no mount where there are namespaces. The threads of a program do not survive:
//! nothing may have started one before.

use super::identity::Identity;
use super::journal::{Journal, Record, complain};
use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use vcm_measure::tell;

/// The namespaces that a run is to have.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// New ones; with `stays` they outlive a run that ends well.
    Own { stays: bool },
    /// Those of a cluster that is up.
    Of(Identity),
    /// Those of the machine.
    None,
}

/// The network of the machine, for a run that has one of its own.
pub type Outside = Option<Arc<File>>;

const KINDS: [(&str, CloneFlags); 2] = [("net", CloneFlags::CLONE_NEWNET), ("mnt", CloneFlags::CLONE_NEWNS)];

/// Goes on in a process of its own; the one that called waits for it and ends as it ends.
pub fn enter(journal: &Journal, wanted: Wanted) -> Result<Outside> {
    let network = File::open("/proc/self/ns/net").context("no /proc/self/ns/net")?;
    let of = |holder: Identity, kind: &str| {
        File::open(format!("/proc/{}/ns/{kind}", holder.pid))
            .context("the namespaces of the cluster are gone")
    };
    // Both are about the children of this process alone.
    let has_own = match wanted {
        Wanted::Own { .. } => are_granted() && unshare(CloneFlags::CLONE_NEWPID).is_ok(),
        Wanted::Of(holder) => setns(of(holder, "pid")?, CloneFlags::CLONE_NEWPID).map(|()| false)?,
        Wanted::None => false,
    };
    let others = match wanted {
        Wanted::Of(holder) => {
            KINDS.map(|(kind, flag)| of(holder, kind).map(|file| (file, flag))).into_iter().collect()
        }
        _ => Ok(Vec::new()),
    }?;
    let (mut outer, inner) = UnixStream::pair()?;
    // SAFETY: this process has one thread, so the child may go on as it would.
    match unsafe { fork() }.context("cannot fork")? {
        ForkResult::Parent { child } => {
            drop(inner);
            let first = Identity::of(child.as_raw()).context("the run ended before it began")?;
            let _ = outer.write_all(&number_bytes(first));
            end_as(wait_for(child, outer, journal))
        }
        ForkResult::Child => {
            drop(outer);
            // Stopped where it can undo by itself; a first process ends at once, and all with it.
            let at_the_parents_end = if has_own { Signal::SIGKILL } else { Signal::SIGTERM };
            nix::sys::prctl::set_pdeathsig(at_the_parents_end)?;
            let first = first_of(&inner)?;
            if has_own {
                let Wanted::Own { stays } = wanted else { bail!("no namespaces were requested") };
                journal.set_holder(first)?;
                shut_in()?;
                be_first(inner, stays)?;
                return Ok(Some(Arc::new(network)));
            }
            for (file, kind) in others {
                setns(file, kind).context("cannot join the namespaces of the cluster")?;
            }
            Ok(matches!(wanted, Wanted::Of(_)).then(|| Arc::new(network)))
        }
    }
}

/// Tries it out: a container may grant some of it, and what was begun could not be taken back.
pub fn are_granted() -> bool {
    let is_well = |work: &dyn Fn() -> bool| {
        // SAFETY: this process has one thread, and the child ends itself.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => exit(u8::from(!work())),
            Ok(ForkResult::Parent { child }) => matches!(waitpid(child, None), Ok(WaitStatus::Exited(_, 0))),
            Err(_) => false,
        }
    };
    is_well(&|| unshare(CloneFlags::CLONE_NEWPID).is_ok() && is_well(&|| shut_in().is_ok()))
}

fn number_bytes(first: Identity) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&first.pid.to_ne_bytes());
    bytes[4..].copy_from_slice(&first.started.to_ne_bytes());
    bytes
}

/// This process as its parent sees it. Fails where the parent has ended already.
fn first_of(mut inner: &UnixStream) -> Result<Identity> {
    let (mut pid, mut started) = ([0; 4], [0; 8]);
    inner.read_exact(&mut pid).and_then(|()| inner.read_exact(&mut started)).context("vcm-lab has ended")?;
    Ok(Identity { pid: i32::from_ne_bytes(pid), started: u64::from_ne_bytes(started) })
}

/// Mounts of its own, a /proc that shows its own processes, and a network with nothing but a loopback device: fixed ports
/// are free in it, and nobody can look in.
fn shut_in() -> Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).context("cannot make namespaces")?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none).context("cannot keep mounts apart")?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, none).context("cannot mount /proc")?;
    raise_loopback()
}

fn raise_loopback() -> Result<()> {
    // SAFETY: a socket of our own, and a request that is valid for the call.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let done = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request);
        let error = std::io::Error::last_os_error();
        libc::close(socket);
        if done != 0 {
            return Err(error).context("cannot raise the loopback device");
        }
    }
    Ok(())
}

/// The first process: waits for the run and for all whose parents have ended, tells how the run ended, and ends, or
/// stays for a cluster that is up. Returns in the run.
fn be_first(mut inner: UnixStream, stays: bool) -> Result<()> {
    // SAFETY: this process has one thread, so the child may go on as it would.
    let ForkResult::Parent { child } = unsafe { fork() }.context("cannot fork")? else { return Ok(()) };
    hand_on_signals(child)?;
    let status = loop {
        match waitpid(None, None) {
            Ok(status) if status.pid() == Some(child) => break status,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => exit(1),
        }
    };
    let stays = stays && status == WaitStatus::Exited(child, 0);
    if stays {
        let _ = nix::sys::prctl::set_pdeathsig(None);
    }
    let _ = inner.write_all(&told(status));
    if stays { stay() } else { exit(0) }
}

/// Exit code and signal, of which one is 0.
fn told(status: WaitStatus) -> [u8; 2] {
    match status {
        WaitStatus::Exited(_, code) => [code as u8, 0],
        WaitStatus::Signaled(_, signal, _) => [0, signal as u8],
        _ => [1, 0],
    }
}

/// Holds the namespaces, and nothing of whoever called `up`.
fn stay() -> ! {
    for signal in HANDED_ON {
        // SAFETY: ignoring a signal runs no code.
        let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) };
    }
    let _ = nix::unistd::setsid();
    let _ = nix::unistd::chdir("/");
    // SAFETY: no descriptor is used from here on.
    unsafe { libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, 0u32) };
    loop {
        if waitpid(None, None).is_err() {
            // Nobody is left to wait for until somebody's parent ends.
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
}

/// Waits for the run. The files that a killed one has left are undone, when all its processes are gone.
fn wait_for(child: Pid, mut outer: UnixStream, journal: &Journal) -> [u8; 2] {
    if let Err(error) = hand_on_signals(child) {
        tell::line(&format!("{error:#}"));
    }
    let mut status = [0; 2];
    let is_told = outer.read_exact(&mut status).is_ok();
    let stays = is_told && status == [0, 0] && Record::read(journal.path()).is_ok_and(|found| found.is_up());
    if stays {
        return status;
    }
    if let Ok(ended) = waitpid(child, None)
        && !is_told
    {
        status = told(ended);
    }
    if status[1] != 0
        && let Ok(found) = Record::read(journal.path())
        && let Err(error) = complain(found.replay())
    {
        tell::line(&format!("{error:#}"));
    }
    status
}

/// Ends as the run has ended.
fn end_as([code, signal]: [u8; 2]) -> ! {
    if let Ok(signal) = Signal::try_from(i32::from(signal)) {
        // SAFETY: the default action runs no code of ours.
        let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) };
        let _ = nix::sys::signal::raise(signal);
    }
    exit(code)
}

/// Without what Rust does at the end: that is the run's.
fn exit(code: u8) -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(i32::from(code)) }
}

const HANDED_ON: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
static RUN: AtomicI32 = AtomicI32::new(0);

extern "C" fn hand_on(signal: libc::c_int) {
    // SAFETY: may be called in a handler.
    unsafe { libc::kill(RUN.load(Ordering::Relaxed), signal) };
}

fn hand_on_signals(child: Pid) -> Result<()> {
    RUN.store(child.as_raw(), Ordering::Relaxed);
    let action = SigAction::new(SigHandler::Handler(hand_on), SaFlags::SA_RESTART, SigSet::empty());
    for signal in HANDED_ON {
        // SAFETY: the handler makes one call, which is allowed in one.
        unsafe { sigaction(signal, &action) }.context("cannot hand signals on")?;
    }
    Ok(())
}
