//! `vcm stat PID|NAME`: where the memory of a running process is, read from outside.

mod json;
mod page;
mod rows;

use crate::cli::stat::Stat;
use std::time::{Duration, Instant};
use vcm_front::say::{self, FAILURE, Failure, Outcome};
use vcm_inspect::pressure::Pressure;
use vcm_inspect::window::{self, Seen, Snapshot, Watched};

pub fn stat(arguments: &Stat) -> Outcome {
    let process = window::find(&arguments.target).map_err(|line| Failure::new(FAILURE, line))?;
    let id = process.id;
    let failure = |why: String| Failure::new(FAILURE, format!("{id} {why}"));
    let mut watched = Watched::new(Seen::open(process).map_err(failure)?);
    let first = watched.look().map_err(failure)?;
    match arguments.interval {
        Some(interval) => follow(arguments, interval, &mut watched, first),
        None if arguments.json => {
            say::result(&json::object(&watched.seen, &first, &watched.seen.process.memory_pressure()))
        }
        None => say::result(&page::page(&watched.seen, &first)),
    }
}

/// A line for each look, until Ctrl-C, so many looks, or the process's end.
fn follow(arguments: &Stat, interval: Duration, watched: &mut Watched, first: Snapshot) -> Outcome {
    let interrupt = Interrupt::hold();
    let (mut rows, mut snapshot, mut looks) = (rows::Rows::new(), first, 0);
    let mut pressure = Kept::new(&watched.seen);
    loop {
        let text = if arguments.json {
            json::object(&watched.seen, &snapshot, pressure.now(&watched.seen))
        } else {
            rows.row(&snapshot)
        };
        if !is_read(&text)? {
            return Ok(0);
        }
        looks += 1;
        if arguments.count == Some(looks) || interrupt.comes_within(interval) {
            return Ok(0);
        }
        let id = watched.seen.process.id;
        snapshot = watched.look().map_err(|why| Failure::new(FAILURE, format!("{id} {why}")))?;
    }
}

/// The pressure, which is a dozen files: it is read once a second, as the kernel renews it every two.
struct Kept(Pressure, Instant);

impl Kept {
    fn new(seen: &Seen) -> Self {
        Kept(seen.process.memory_pressure(), Instant::now())
    }

    fn now(&mut self, seen: &Seen) -> &Pressure {
        if self.1.elapsed() >= Duration::from_secs(1) {
            *self = Self::new(seen);
        }
        &self.0
    }
}

/// Shows a text; false where nobody reads any more (`| head`).
fn is_read(text: &str) -> Result<bool, Failure> {
    use std::io::{ErrorKind, Write};
    let mut out = std::io::stdout().lock();
    match out.write_all(vcm_foreign::clean(text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => say::written(Err(error)).map(|_| false),
    }
}

/// Ctrl-C waits until somebody asks for it, so that no line is cut.
struct Interrupt(nix::sys::signal::SigSet);

impl Interrupt {
    fn hold() -> Self {
        let mut set = nix::sys::signal::SigSet::empty();
        set.add(nix::sys::signal::SIGINT);
        // If it cannot be held, Ctrl-C ends vcm at once.
        let _ = set.thread_block();
        Interrupt(set)
    }

    /// Waits so long, or until it comes.
    fn comes_within(&self, time: Duration) -> bool {
        let time = libc::timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        // SAFETY: a set and a time of our own; nothing is asked of the signal but its number.
        unsafe { libc::sigtimedwait(self.0.as_ref(), std::ptr::null_mut(), &time) == libc::SIGINT }
    }
}
