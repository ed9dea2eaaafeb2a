//! One measured process: started on an allocator, looked at from outside, ended.

use super::run::{Outcome, Sample};
use crate::memory::board::{self, Board, Phase};
use crate::memory::shared::Shared;
use crate::memory::smaps;
use anyhow::{Context, Result};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use vcm_measure::allocators::Ready;
use vcm_measure::child;
use vcm_measure::group::Group;

/// A child that ends when this is dropped.
pub struct Subject {
    child: Child,
    pub board: &'static Board,
    _board_memory: Shared,
    errors: std::fs::File,
}

impl Subject {
    pub fn start(
        ready: &Ready,
        program: &Path,
        arguments: &[String],
        cgroup: Option<&Group>,
    ) -> Result<Self> {
        let (board, board_memory) = Board::create()?;
        let errors = child::unnamed_file()?;
        let door = cgroup.map(Group::door).transpose()?;
        let mut command = ready.command(program);
        command.arg("--board").arg(board_memory.number().to_string()).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors.try_clone()?);
        // SAFETY: both calls are async-signal-safe and allocate nothing, as is demanded between fork and
        // exec.
        unsafe {
            command.pre_exec(move || {
                child::end_with_parent()?;
                door.as_ref().map_or(Ok(()), |mut door| door.write_all(b"0"))
            });
        }
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, board, _board_memory: board_memory, errors })
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn sample(&self) -> Sample {
        let phase = self.board.phase();
        let seconds_since = |phase| {
            let began = self.board.began(phase)?;
            Some(board::now().saturating_sub(began) as f64 / 1e9)
        };
        let (seconds, since_stop) = (seconds_since(Phase::Loading), seconds_since(Phase::Idle));
        Sample {
            seconds: seconds.unwrap_or(0.0),
            since_stop,
            phase,
            live: self.board.live_bytes(),
            used: smaps::used_by(self.process()),
            memory: match phase {
                Phase::Idle => smaps::of_idle_process(self.process()),
                _ => smaps::of_working_process(self.process()),
            },
        }
    }

    /// Why what was measured is not this allocator, if it is not.
    pub fn wrong_allocator(&self, ready: &Ready) -> Option<String> {
        let malloc_object = self.board.malloc_object();
        let is_wrong = !malloc_object.is_empty() && !ready.owns(&malloc_object);
        is_wrong.then(|| format!("the preload did not take: malloc came from {malloc_object}"))
    }

    /// How the child ended, if it has.
    pub fn ended(&mut self) -> Result<Option<Outcome>> {
        Ok(self.child.try_wait()?.map(|status| self.failure(status)))
    }

    /// A child that ends by itself has failed: it should wait for the end of its input.
    fn failure(&mut self, status: ExitStatus) -> Outcome {
        let text = child::text_of(&mut self.errors).unwrap_or_default();
        let last_line = text.trim().lines().last().unwrap_or("nothing on stderr").to_owned();
        match status.signal() {
            Some(signal) => Outcome::Failed(format!("signal {signal}; {last_line}")),
            None => Outcome::Failed(format!("{status}; {last_line}")),
        }
    }

    /// Sleeps up to `time`, and less if the phase changes: the moment of the stop is worth a sample.
    pub fn wait(&self, time: Duration) {
        const STEP: Duration = Duration::from_millis(5);
        let (start, phase) = (Instant::now(), self.board.phase());
        while start.elapsed() < time && self.board.phase() == phase {
            std::thread::sleep(STEP.min(time));
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The child leaves at the end of its input; a stuck one is ended.
        drop(self.child.stdin.take());
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
