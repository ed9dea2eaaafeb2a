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
    /// As the kernel has it: `program` may be what a link leads to.
    name: vcm_foreign::Text,
    answer: Option<Answer>,
    looks: usize,
    peak_bytes: u64,
    ticks: u64,
}

#[derive(Default)]
pub struct Witness {
    seen: Vec<Seen>,
}

/// The findings at the end.
pub struct Verdict {
    pub stamp: Stamp,
    /// About processes that do not matter much, or allocators beside the one.
    pub notes: Vec<String>,
}

/// Why a trial does not count.
pub struct Unproved {
    pub reason: String,
    /// Only for want of time.
    pub is_unseen: bool,
}

impl Witness {
    pub fn look(&mut self, arm: &Arm, processes: &[i32]) {
        for id in processes {
            let process = Process::new(*id);
            let Ok(program) = process.program() else { continue };
            // Between fork and exec a child is still this program. A new start of this program is another.
            let own = Process::new(std::process::id() as i32).command_line().ok();
            let is_own = std::env::current_exe().is_ok_and(|own| own == program);
            if is_own && own == process.command_line().ok() {
                continue;
            }
            // Nor is what systemd has forked for a service yet that service.
            if process.is_before_exec() {
                continue;
            }
            let known = self.seen.iter().position(|seen| seen.id == *id && seen.program == program);
            let at = known.unwrap_or_else(|| {
                let name = process.name().unwrap_or_default();
                let (answer, looks, peak_bytes, ticks) = (None, 0, 0, 0);
                self.seen.push(Seen { id: *id, program, name, answer, looks, peak_bytes, ticks });
                self.seen.len() - 1
            });
            let Some(seen) = self.seen.get_mut(at) else { continue };
            seen.look(arm, &process);
        }
    }

    fn last_of(&self, main: i32) -> Option<&Seen> {
        self.seen.iter().rev().find(|seen| seen.id == main)
    }

    /// Whether the malloc of every program that was seen is known, or cannot be.
    pub fn is_settled(&self) -> bool {
        let is_known =
            |seen: &Seen| self.seen.iter().any(|other| other.program == seen.program && !other.is_unseen());
        !self.seen.is_empty() && self.seen.iter().all(is_known)
    }

    pub fn peak_bytes(&self) -> u64 {
        self.seen.iter().map(|seen| seen.peak_bytes).max().unwrap_or(0)
    }

    /// The stamp of the process with most memory, or why the trial does not count.
    pub fn judge(&self, arm: &Arm, main: i32) -> Result<Verdict, Unproved> {
        let Some(last) = self.last_of(main) else {
            let reason = "it ended before it could be looked at; give it more to do".to_owned();
            return Err(Unproved { reason, is_unseen: true });
        };
        // A helper of a moment (sleep, test) is as large as a shell and often not seen in time; a process
        // that matters is larger.
        let weight = |seen: &&Seen| if seen.is_unseen() { seen.peak_bytes / 2 } else { seen.peak_bytes };
        let largest = self.seen.iter().max_by_key(weight).unwrap_or(last);
        let busiest = self.seen.iter().filter(|seen| !seen.is_unseen()).max_by_key(|seen| seen.ticks);
        for seen in [last, largest, busiest.unwrap_or(last)] {
            // Of children of a moment that are the same program one is enough.
            let is_alike = |other: &Seen| other.program == seen.program && other.judge(arm).is_ok();
            if !(seen.is_unseen() && seen.id != main && self.seen.iter().any(is_alike)) {
                seen.judge(arm)?;
            }
        }
        // A process that ended too soon to be seen did not do much.
        let others = self.seen.iter().filter_map(|seen| seen.judge(arm).err());
        let others = others.filter(|unproved| !unproved.is_unseen).map(|unproved| unproved.reason);
        let private = largest.evidence().filter(|line| line.contains("which no preload reaches"));
        let mut notes: Vec<String> = others.chain(private.map(str::to_owned)).collect();
        notes.sort();
        notes.dedup();
        let alike = self.seen.iter().filter(|seen| seen.program == largest.program);
        let answers = [largest].into_iter().chain(alike).filter_map(|seen| seen.answer.as_ref());
        match answers.filter_map(|answer| answer.serving.as_ref()).next() {
            Some(serving) => Ok(Verdict { stamp: Stamp::of(arm, serving), notes }),
            None => {
                let reason = format!("{} has no malloc that could be found", largest.program.display());
                Err(Unproved { reason, is_unseen: false })
            }
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

    /// It was over before its malloc was known.
    fn is_unseen(&self) -> bool {
        self.answer.is_none() && self.looks <= MOST_LOOKS
    }

    fn evidence(&self) -> impl Iterator<Item = &str> {
        self.answer.iter().flat_map(|answer| answer.evidence.iter().map(String::as_str))
    }

    fn judge(&self, arm: &Arm) -> Result<(), Unproved> {
        let name = &self.name;
        let who = format!("{name} (pid {})", self.id);
        let Some(serving) = self.answer.as_ref().and_then(|answer| answer.serving.as_ref()) else {
            let is_unseen = self.is_unseen();
            let why = match is_unseen {
                true => "ended before its malloc could be looked at; give it more to do",
                false => "has no malloc that could be found; is it linked statically?",
            };
            return Err(Unproved { reason: format!("{who} {why}"), is_unseen });
        };
        let object = serving.object.display();
        let reason = match &arm.expected {
            Expected::Anything => return Ok(()),
            Expected::Glibc if matches!(serving.kind, Kind::Glibc | Kind::Musl) => return Ok(()),
            Expected::Glibc => format!(
                "{who} does not run on the C library's malloc but on {}, {object}; 'plain' compares with that",
                serving.kind.name()
            ),
            Expected::File(file) if is_same(&serving.object, file) => return Ok(()),
            Expected::File(_) => format!(
                "{who} does not run on {} but on {}, {object}. Is the program linked statically or with its own \
                 malloc, or does a wrapper clear LD_PRELOAD (env -i, sudo)?",
                arm.name,
                serving.kind.name()
            ),
        };
        Err(Unproved { reason, is_unseen: false })
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

#[cfg(test)]
mod tests {
    use super::*;
    use vcm_inspect::loaded::BroughtBy;

    fn seen(id: i32, program: &str, served_by: Option<&str>) -> Seen {
        let serving = served_by.map(|object| allocator::Allocator {
            kind: Kind::Unknown,
            version: None,
            object: object.into(),
            brought_by: BroughtBy::Preload,
            is_replaced: false,
        });
        let answer = serving.map(|serving| Answer { serving: Some(serving), ..Answer::unknown("") });
        let peak_bytes = if answer.is_some() { 1 << 20 } else { 8 << 20 };
        let (program, name) = (program.into(), vcm_foreign::Text::default());
        Seen { id, program, name, answer, looks: 1, peak_bytes, ticks: 0 }
    }

    #[test]
    fn of_children_of_a_moment_one_that_was_seen_proves_the_others_of_its_program() {
        let arm = Arm { expected: Expected::File("/x.so".into()), ..Arm::plain() };
        let judged = |others: &[(&str, Option<&str>)]| {
            let mut witness = Witness { seen: vec![seen(1, "/bin/sh", Some("/x.so"))] };
            witness.seen.extend((2..).zip(others).map(|(id, (program, by))| seen(id, program, *by)));
            witness.judge(&arm, 1).map(|verdict| verdict.stamp.file).map_err(|unproved| unproved.is_unseen)
        };
        assert_eq!(judged(&[("/a", Some("/x.so")), ("/a", None), ("/a", None)]), Ok("/x.so".into()));
        assert_eq!(judged(&[("/b", Some("/x.so")), ("/a", None)]), Err(true), "nobody saw that program");
        assert!(judged(&[("/a", Some("/y.so")), ("/a", None)]).is_err(), "it is on another");
    }
}
