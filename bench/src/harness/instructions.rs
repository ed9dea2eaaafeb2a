//! How many instructions a malloc and a free take that hit the cache, counted by single-stepping.
//!
//! A tracer's stop inside a restartable sequence would make the kernel abort it, for ever. The child has one
//! thread and nobody else touches its caches, so the tracer takes the sequence's announcement (`rseq_cs`)
//! away before it lets the child go on: the same instructions run to their commit. A fast path that looks for
//! its announcement from the call before is told that it is there, by the flag that its comparison sets.

use super::tracing::Traced;
use crate::load::patterns::steps::COUNTED;
use anyhow::{Context, Result, ensure};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt::Write;
use std::path::Path;
use vcm_measure::allocators::Ready;

pub const SIZES: [usize; 5] = [16, 64, 256, 1 << 10, 4 << 10];
/// `rseq_cs` is the second 8-byte word of the area, after two CPU numbers of 4 bytes.
const RSEQ_CS_OFFSET: u64 = 8;
/// `cmp fs:[rdx + 8], rax`: how vcmalloc's fast paths look for their announcement.
const LOOK: [u8; 5] = [0x64, 0x48, 0x39, 0x42, 0x08];
const ZERO_FLAG: u64 = 1 << 6;

/// Instructions from a function's first to its return, both counted: the most frequent value of 250 calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub bytes: usize,
    pub malloc: u64,
    pub free: u64,
}

/// Counts for every size.
pub fn count(ready: &Ready, load_program: &Path) -> Result<Vec<Counts>> {
    SIZES.iter().map(|&bytes| count_size(ready, load_program, bytes)).collect()
}

/// As it is kept for review: one line a size.
pub fn text(allocator: &str, counts: &[Counts]) -> String {
    let mut text =
        format!("instructions of {allocator}, cache hit\n{:>6} {:>7} {:>5}\n", "bytes", "malloc", "free");
    for Counts { bytes, malloc, free } in counts {
        let _ = writeln!(text, "{bytes:>6} {malloc:>7} {free:>5}");
    }
    text
}

fn count_size(ready: &Ready, load_program: &Path, bytes: usize) -> Result<Counts> {
    let mut command = ready.command(load_program);
    command.args(["steps", "--bytes", &bytes.to_string()]);
    let traced = Traced::start(&mut command)?;
    traced.run_to_trap()?;
    let registers = ptrace::getregs(traced.process)?;
    let (malloc, free, rseq) = (registers.rdi, registers.rsi, registers.rdx);
    let mut stepper = Stepper { traced, rseq, taken: 0 };
    let mut lengths: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    while lengths.get(&free).is_none_or(|frees| frees.len() < COUNTED) {
        let position = stepper.step()?;
        if position == malloc || position == free {
            let length = stepper.steps_to_return()?;
            lengths.entry(position).or_default().push(length);
        }
    }
    let mode_of =
        |function| lengths.get(function).and_then(|lengths| mode(lengths)).context("no call was seen");
    Ok(Counts { bytes, malloc: mode_of(&malloc)?, free: mode_of(&free)? })
}

struct Stepper {
    traced: Traced,
    /// The rseq area of the child's only thread, 0 if it has none.
    rseq: u64,
    /// The announcement that was taken away last.
    taken: u64,
}

impl Stepper {
    /// One instruction; returns the address of the next.
    fn step(&mut self) -> Result<u64> {
        let process = self.traced.process;
        if self.rseq != 0 {
            let announced = (self.rseq + RSEQ_CS_OFFSET) as *mut c_void;
            let value = ptrace::read(process, announced)? as u64;
            if value != 0 {
                self.taken = value;
                ptrace::write(process, announced, 0)?;
            }
        }
        let before = ptrace::getregs(process)?;
        let looks = self.taken != 0 && before.rax == self.taken && self.stands_at_look(before.rip)?;
        ptrace::step(process, None)?;
        let stopped = waitpid(process, None)?;
        ensure!(
            matches!(stopped, WaitStatus::Stopped(_, Signal::SIGTRAP)),
            "the child did not step: {stopped:?}"
        );
        let mut after = ptrace::getregs(process)?;
        if looks {
            after.eflags |= ZERO_FLAG;
            ptrace::setregs(process, after)?;
        }
        Ok(after.rip)
    }

    fn stands_at_look(&self, address: u64) -> Result<bool> {
        let bytes = ptrace::read(self.traced.process, address as *mut c_void)?.to_ne_bytes();
        Ok(bytes.starts_with(&LOOK))
    }

    /// From a function's first instruction to its caller.
    fn steps_to_return(&mut self) -> Result<u64> {
        let stack = ptrace::getregs(self.traced.process)?.rsp;
        let caller = ptrace::read(self.traced.process, stack as *mut c_void)? as u64;
        let mut steps = 1;
        while self.step()? != caller {
            steps += 1;
        }
        Ok(steps)
    }
}

/// The most frequent value; of equally frequent ones the least.
fn mode(values: &[u64]) -> Option<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    values.iter().for_each(|&value| *counts.entry(value).or_default() += 1);
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|&(_, count)| count == most).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_the_most_frequent_and_then_the_least_value() {
        assert_eq!(mode(&[7, 9, 9, 7, 3]), Some(7));
        assert_eq!(mode(&[]), None);
    }

    #[test]
    fn the_text_has_one_line_a_size() {
        let counts =
            [Counts { bytes: 16, malloc: 12, free: 9 }, Counts { bytes: 4096, malloc: 13, free: 10 }];
        let text = text("vcmalloc", &counts);
        assert!(text.ends_with("    16      12     9\n  4096      13    10\n"), "{text}");
    }
}
