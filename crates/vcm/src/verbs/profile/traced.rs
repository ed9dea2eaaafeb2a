//! A program that is started and held for a moment at its end, when its memory is still whole.
//!
//! It is started by `vcm run`, whose first child it is. We trace both until then (ptrace(2)): the child is ours from its
//! first instruction, and nothing of it is stopped but at its end and, by the kernel's rules for traced processes, for an
//! instant at each signal.

use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// Events of the traced program.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The program is at its end, and stands until it is let go.
    AtEnd,
    /// The program runs on untraced.
    Left,
    /// `vcm run` has ended, with what `waitpid` tells.
    Ended(i32),
}

pub struct Traced {
    runner: i32,
    program: Option<i32>,
    /// The program is to be left when it stops the next time.
    leaving: bool,
}

impl Traced {
    /// Starts `vcm run` with these arguments and signals blocked.
    pub fn start(arguments: Vec<OsString>, blocked: SigSet) -> io::Result<Traced> {
        let (told, tell) = pipe()?;
        let (wait, go) = pipe()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        let (tell_at, wait_at, go_at) = (tell.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
        // SAFETY: only system calls, which is what code between fork and exec may do.
        unsafe {
            command.pre_exec(move || {
                let id = libc::getpid().to_ne_bytes();
                // If we end before we say go, nobody holds the other end.
                libc::close(go_at);
                let mut word = [0u8; 1];
                let told = libc::write(tell_at, id.as_ptr().cast(), id.len()) == id.len() as isize;
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None).map_err(io::Error::from)?;
                let goes = told && libc::read(wait_at, word.as_mut_ptr().cast(), 1) == 1;
                if goes { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ECANCELED)) }
            });
        }
        // Starting waits for the new process, which waits for us.
        let starting = thread::spawn(move || {
            let started = command.spawn().map(|_| ());
            drop(tell);
            started
        });
        let mut id = [0; 4];
        let seized = File::from(told).read_exact(&mut id).and_then(|()| seize(i32::from_ne_bytes(id)));
        if seized.is_ok() {
            File::from(go).write_all(&[1])?;
        } else {
            drop(go);
        }
        let started = starting.join().unwrap_or_else(|_| Err(io::Error::other("it was not started")));
        drop(wait);
        seized.and(started)?;
        Ok(Traced { runner: i32::from_ne_bytes(id), program: None, leaving: false })
    }

    pub fn program(&self) -> Option<i32> {
        self.program
    }

    /// The next event since, if there is one. Never waits.
    pub fn next(&mut self) -> Option<Event> {
        loop {
            let mut status = 0;
            // SAFETY: the address is one of our own.
            let id = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::WNOHANG) };
            if id <= 0 {
                return None;
            }
            if !libc::WIFSTOPPED(status) {
                if id == self.runner {
                    return Some(Event::Ended(status));
                }
                continue;
            }
            if let Some(event) = self.stopped(id, status) {
                return Some(event);
            }
        }
    }

    fn stopped(&mut self, id: i32, status: i32) -> Option<Event> {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        if id == self.runner {
            let has_child = [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_CLONE];
            // Its one child is ours already.
            let request = if has_child.contains(&event) { libc::PTRACE_DETACH } else { libc::PTRACE_CONT };
            go_on(id, event, signal, request);
            return None;
        }
        if self.program.is_none() {
            self.program = Some(id);
            // Its own children are nobody's business: of what the runner had only this.
            ask(libc::PTRACE_SETOPTIONS, id, libc::PTRACE_O_TRACEEXIT as usize);
        }
        if event == libc::PTRACE_EVENT_EXIT {
            return Some(Event::AtEnd);
        }
        if self.leaving && event == libc::PTRACE_EVENT_STOP {
            self.leaving = false;
            // A stop of the terminal's stays one.
            ask(libc::PTRACE_DETACH, id, if signal == libc::SIGTRAP { 0 } else { signal as usize });
            return Some(Event::Left);
        }
        go_on(id, event, signal, libc::PTRACE_CONT);
        None
    }

    /// Lets the program go that stands at its end.
    pub fn let_go(&self) {
        if let Some(id) = self.program {
            ask(libc::PTRACE_DETACH, id, 0);
        }
    }

    /// Ends the tracing of a program that runs; `Left` follows, if it does not end before.
    pub fn leave(&mut self) {
        if let Some(id) = self.program {
            self.leaving = ask(libc::PTRACE_INTERRUPT, id, 0);
        }
    }

    /// Passes a signal on, by the runner, which knows what the program gets.
    pub fn signal(&self, number: i32) {
        // SAFETY: sends a signal to our child, which we have not waited for.
        unsafe { libc::kill(self.runner, number) };
    }
}

/// Passes on the signal that stopped it; a stop of the terminal's lasts until SIGCONT.
fn go_on(id: i32, event: i32, signal: i32, request: libc::c_uint) {
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    match event {
        0 => ask(request, id, signal as usize),
        libc::PTRACE_EVENT_STOP if stops.contains(&signal) => ask(libc::PTRACE_LISTEN, id, 0),
        _ => ask(request, id, 0),
    };
}

fn seize(id: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;
    if ask(libc::PTRACE_SEIZE, id, options as usize) {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

fn ask(request: libc::c_uint, id: i32, data: usize) -> bool {
    // SAFETY: none of these requests takes an address.
    unsafe { libc::ptrace(request, id, 0usize, data) == 0 }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((read.into(), write.into()))
}
