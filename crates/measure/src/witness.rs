//! Whether the processes of a trial really run on its arm.
//!
//! Owns the rule: the command itself, as it was when last seen, the process that held most memory and the one that
//! used most processor time must be served by what the arm expects.

use crate::arm::{Arm, Expected};
use crate::stamp::Stamp;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use vcm_inspect::allocator::{self, Answer, Kind};
use vcm_inspect::loaded;
use vcm_inspect::process::Process;

/// Of /proc/PID/stat behind the name: user and system time, in ticks.
const TIMES: [usize; 2] = [11, 12];
/// A program whose malloc was not found by then has none that can be found.
const MOST_LOOKS: usize = 40;

/// A process while it was one program: exec makes another one of it.
struct Seen {
    id: i32,
    program: PathBuf,
    answer: Option<Answer>,
    looks: usize,
    peak_bytes: u64,
    ticks: u64,
}

#[derive(Default)]
pub struct Witness {
    seen: Vec<Seen>,
}

/// What was found at the end.
pub struct Verdict {
    pub stamp: Stamp,
    /// About processes that do not matter much, or allocators beside the one.
    pub notes: Vec<String>,
}

impl Witness {
    pub fn look(&mut self, arm: &Arm, processes: &[i32]) {
        for id in processes {
            let process = Process::new(*id);
            let Ok(program) = process.program() else { continue };
            // Between fork and exec a child is still this program.
            if std::env::current_exe().is_ok_and(|own| own == program) {
                continue;
            }
            let known = self.seen.iter().position(|seen| seen.id == *id && seen.program == program);
            let at = known.unwrap_or_else(|| {
                self.seen.push(Seen { id: *id, program, answer: None, looks: 0, peak_bytes: 0, ticks: 0 });
                self.seen.len() - 1
            });
            let Some(seen) = self.seen.get_mut(at) else { continue };
            seen.look(arm, &process);
        }
    }

    /// Whether anything is known of the command yet.
    pub fn knows(&self, main: i32) -> bool {
        self.last_of(main).is_some_and(|seen| seen.answer.is_some())
    }

    fn last_of(&self, main: i32) -> Option<&Seen> {
        self.seen.iter().rev().find(|seen| seen.id == main)
    }

    pub fn peak_bytes(&self) -> u64 {
        self.seen.iter().map(|seen| seen.peak_bytes).max().unwrap_or(0)
    }

    /// The stamp of the process with most memory, or why the trial does not count.
    pub fn judge(&self, arm: &Arm, main: i32) -> Result<Verdict, String> {
        let Some(last) = self.last_of(main) else {
            return Err("it ended before it could be looked at; give it more to do".to_owned());
        };
        let largest = self.seen.iter().max_by_key(|seen| seen.peak_bytes).unwrap_or(last);
        let busiest = self.seen.iter().max_by_key(|seen| seen.ticks).unwrap_or(last);
        for seen in [last, largest, busiest] {
            seen.judge(arm)?;
        }
        let others = self.seen.iter().filter_map(|seen| seen.judge(arm).err());
        let private = largest.evidence().filter(|line| line.contains("which no preload reaches"));
        let mut notes: Vec<String> = others.chain(private.map(str::to_owned)).collect();
        notes.sort();
        notes.dedup();
        let serving = largest.answer.as_ref().and_then(|answer| answer.serving.as_ref());
        match serving {
            Some(serving) => Ok(Verdict { stamp: Stamp::of(arm, serving), notes }),
            None => Err(format!("{} has no malloc that could be found", largest.program.display())),
        }
    }
}

impl Seen {
    fn look(&mut self, arm: &Arm, process: &Process) {
        let peak = process.status_bytes("VmHWM").unwrap_or(0);
        self.peak_bytes = self.peak_bytes.max(peak);
        let ticks = TIMES.iter().filter_map(|field| process.status_field(*field)).sum();
        self.ticks = self.ticks.max(ticks);
        if self.answer.is_some() || self.looks > MOST_LOOKS {
            return;
        }
        self.looks += 1;
        let Ok(loaded) = loaded::of(process, Some(&environment(arm, process))) else { return };
        let answer = allocator::of(&loaded);
        // Not yet loaded: looked at again.
        self.answer = answer.serving.is_some().then_some(answer);
    }

    fn evidence(&self) -> impl Iterator<Item = &str> {
        self.answer.iter().flat_map(|answer| answer.evidence.iter().map(String::as_str))
    }

    fn judge(&self, arm: &Arm) -> Result<(), String> {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let who = format!("{name} (pid {})", self.id);
        let Some(serving) = self.answer.as_ref().and_then(|answer| answer.serving.as_ref()) else {
            return Err(match self.looks > MOST_LOOKS {
                true => format!("{who} has no malloc that could be found; is it linked statically?"),
                false => format!("{who} ended before its malloc could be looked at; give it more to do"),
            });
        };
        let object = serving.object.display();
        match &arm.expected {
            Expected::Anything => Ok(()),
            Expected::Glibc if matches!(serving.kind, Kind::Glibc | Kind::Musl) => Ok(()),
            Expected::Glibc => Err(format!(
                "{who} does not run on the C library's malloc but on {}, {object}; 'plain' compares with that",
                serving.kind.name()
            )),
            Expected::File(file) if is_same(&serving.object, file) => Ok(()),
            Expected::File(_) => Err(format!(
                "{who} does not run on {} but on {}, {object}. Is the program linked statically or with its own \
                 malloc, or does a wrapper clear LD_PRELOAD (env -i, sudo)?",
                arm.name,
                serving.kind.name()
            )),
        }
    }
}

fn is_same(object: &Path, file: &Path) -> bool {
    object == file || object.canonicalize().is_ok_and(|object| object == file)
}

/// As the process has it where it names a preload. Programs write titles over theirs (redis); then what it was given is
/// taken, and a preload that it lost is not in its memory.
fn environment(arm: &Arm, process: &Process) -> Vec<(OsString, OsString)> {
    let own = process.environment().unwrap_or_default();
    if own.iter().any(|(name, _)| name == "LD_PRELOAD") {
        return own;
    }
    let given = arm.environment().into_iter().map(|(name, value)| (name.into(), value.into()));
    // An empty one would be taken for one that cannot be read.
    given.chain([("VCM_COMPARED".into(), "".into())]).collect()
}
