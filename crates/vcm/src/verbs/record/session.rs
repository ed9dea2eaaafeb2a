//! One recording: from the memory that is shared into the file, a round at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vcm_foreign::Shown;
use vcm_front::say::line;
use vcm_inspect::allocator;
use vcm_inspect::process::Process;
use vcm_record::{Ages, Drain, Memory, Seen};
use vcm_trace::{Error, Header, Writer, Written};

const BETWEEN_SAMPLES: Duration = Duration::from_secs(1);
/// Names are read from /proc for so many threads at once.
const NAMES_AT_ONCE: usize = 1000;

type Out = BufWriter<File>;

pub struct Session {
    pub memory: Memory,
    drain: Drain,
    /// The header to come, and the file; until the process is seen.
    waiting: Option<(Header, Out)>,
    ages: Option<Ages<Out>>,
    sampled: Option<Instant>,
    left: Left,
    failure: Option<Error>,
    finished: bool,
}

/// Whether the process went on as a program that the interposer is not in: exec with another environment.
struct Left {
    looked: Instant,
    /// Until the next look: twice the last, so that a short program is seen too.
    pause: Duration,
    /// How often in a row it was not there. Once it may be missing while the loader works.
    missing: u32,
}

const FIRST_LOOK: Duration = Duration::from_millis(50);

/// How a recording ended.
pub struct Ended {
    pub seen: Seen,
    pub written: Option<Written>,
    /// Why the file is not whole.
    pub failure: Option<Error>,
    pub waits: (u64, u64),
    /// The process went on as a program that was not recorded.
    pub left: bool,
}

impl Left {
    fn look(&mut self, id: u32) {
        if self.is_sure() || self.looked.elapsed() < self.pause {
            return;
        }
        self.looked = Instant::now();
        self.pause = (self.pause * 2).min(BETWEEN_SAMPLES);
        // A process that has ended has no files.
        let files = Process::new(id as i32).mapped_files().unwrap_or_default();
        let is_there = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.shown().printed().contains("vcm_interposer"))
        };
        let is_missing = !files.is_empty() && !files.iter().any(is_there);
        self.missing = if is_missing { self.missing + 1 } else { 0 };
        if is_missing {
            self.pause = FIRST_LOOK;
        }
    }

    fn is_sure(&self) -> bool {
        self.missing > 1
    }
}

impl Session {
    pub fn new(memory: Memory, header: Header, file: File) -> Session {
        let drain = Drain::new(&memory);
        let out = BufWriter::with_capacity(1 << 18, file);
        let left = Left { looked: Instant::now(), pause: FIRST_LOOK, missing: 0 };
        Session {
            memory,
            drain,
            waiting: Some((header, out)),
            ages: None,
            sampled: None,
            left,
            failure: None,
            finished: false,
        }
    }

    /// False where the file can take no more.
    pub fn round(&mut self, at_end: bool) -> bool {
        if let Err(error) = self.begin().and_then(|()| self.write(at_end)) {
            self.memory.record(false);
            self.failure.get_or_insert(error);
        }
        if let Some(process) = self.memory.process().filter(|_| !at_end && !self.memory.is_remote()) {
            self.left.look(process);
        }
        self.failure.is_none()
    }

    /// Writes the header, when the process is there to be described.
    fn begin(&mut self) -> Result<(), Error> {
        let Some(process) = self.memory.process() else { return Ok(()) };
        let Some((mut header, out)) = self.waiting.take() else { return Ok(()) };
        header.process = Some(process);
        header.allocator = allocator_of(process);
        self.ages = Some(Ages::new(Writer::new(out, &header)?));
        Ok(())
    }

    fn write(&mut self, at_end: bool) -> Result<(), Error> {
        let Some(ages) = &mut self.ages else { return Ok(()) };
        let mut result = Ok(());
        let round = self.drain.round(&self.memory, at_end, |clock, raw| {
            if result.is_ok() {
                result = ages.take(clock.nanoseconds(raw.stamp), raw);
            }
        });
        result?;
        let now = self.drain.clock().now();
        if round.lost > 0 {
            ages.lost(now, round.lost)?;
        }
        if self.sampled.is_none_or(|at| at.elapsed() >= BETWEEN_SAMPLES) && !at_end {
            self.sampled = Some(Instant::now());
            sample(ages, &self.memory, now)?;
            // A killed tool leaves the events up to the last second.
            ages.save()?;
        }
        ages.settle(now.saturating_sub(100_000_000))
    }

    /// Hands on all that was written down. Of rings that are the process's own it is the last look.
    pub fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        if !self.memory.is_remote() {
            self.memory.record(false);
        }
        // A place that was taken before that is filled within this time, if the process goes on.
        std::thread::sleep(Duration::from_millis(20));
        self.round(false);
        self.round(true);
        self.memory.record(false);
    }

    pub fn end(mut self) -> Ended {
        self.finish();
        let now = self.drain.clock().now();
        let seen = self.ages.as_ref().map(Ages::seen).unwrap_or_default();
        let mut failure = self.failure;
        let mut written = None;
        if let Some(ages) = self.ages {
            let whole = ages.finish(now).and_then(|(out, written)| {
                out.into_inner().map_err(|error| Error::System(error.into_error()))?;
                Ok(written)
            });
            match whole {
                Ok(whole) if failure.is_none() => written = Some(whole),
                Ok(_) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Ended { seen, written, failure, waits: self.memory.waits(), left: self.left.is_sure() }
    }
}

fn sample(ages: &mut Ages<Out>, memory: &Memory, now: u64) -> Result<(), Error> {
    let Some(id) = memory.process() else { return Ok(()) };
    let task = PathBuf::from(format!("/proc/{id}/task"));
    let threads = Threads::of(id);
    for thread in ages.nameless().into_iter().take(NAMES_AT_ONCE) {
        let folder = task.join(threads.outside(thread).to_string());
        if let Ok(name) = std::fs::read_to_string(folder.join("comm")) {
            ages.name(now, thread, name.trim_end())?;
        }
    }
    if memory.is_remote() {
        // Nobody in the process tells of that.
        ages.gone(now, |thread| task.join(threads.outside(thread).to_string()).exists())?;
    }
    let read = |file| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
    let status = read("status");
    let kib = |name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name));
        rest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    // The rings are none of the program's.
    let ours = memory.resident(kib("RssShmem:") << 10);
    let resident = (kib("VmRSS:") << 10).saturating_sub(ours);
    let stat = read("stat");
    // The name in it may hold blanks and brackets.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|text| text.parse().ok()).unwrap_or(0);
    if resident > 0 {
        ages.memory(now, resident, field(7), field(9))?;
    }
    ages.flush()
}

/// Threads have other numbers outside of a container than in it.
struct Threads(HashMap<u32, u32>);

impl Threads {
    fn of(id: u32) -> Threads {
        let numbers = |thread: &str| {
            let status = std::fs::read_to_string(format!("/proc/{id}/task/{thread}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
            Some(line.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<u32>>())
        };
        if numbers(&id.to_string()).is_none_or(|numbers| numbers.len() < 2) {
            return Threads(HashMap::new());
        }
        let entries = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let all = entries.filter_map(|entry| numbers(entry.file_name().to_str()?));
        Threads(all.filter_map(|numbers| Some((*numbers.last()?, *numbers.first()?))).collect())
    }

    /// The number of a thread that calls itself so.
    fn outside(&self, inside: u32) -> u32 {
        self.0.get(&inside).copied().unwrap_or(inside)
    }
}

/// Name and file of the allocator that serves a process.
fn allocator_of(id: u32) -> Option<String> {
    let process = Process::new(id as i32);
    let files = process.mapped_files().ok()?;
    let known = ["vcmalloc", "jemalloc", "tcmalloc", "mimalloc", "snmalloc", "rpmalloc", "hoard", "scudo"];
    let file = files.iter().find(|file| {
        let name = file.file_name().unwrap_or_default().shown().printed();
        known.iter().any(|known| name.contains(known))
    });
    Some(match file {
        Some(file) => file.shown().to_string(),
        None => allocator::Kind::Glibc.name().to_owned(),
    })
}

impl Ended {
    /// Says what there is to say.
    pub fn report(&self, path: &str) {
        let seen = &self.seen;
        if let Some(written) = &self.written {
            let bytes = written.file_bytes as f64 / written.events.max(1) as f64;
            line(&format!(
                "vcm: {path}: {} events of {} threads ({} allocations, {} frees, {} reallocs), {bytes:.2} bytes of file per event; {} lost",
                written.events, seen.threads, seen.allocations, seen.frees, seen.reallocations, seen.lost
            ));
        }
        if seen.unseen_ends > 0 {
            line(&format!(
                "vcm: {} blocks were freed unseen (by an allocator's own functions, or in lost events)",
                seen.unseen_ends
            ));
        }
        if self.left {
            line(
                "vcm: the process became a program without the interposer: LD_PRELOAD was cleared, or the \
                 program gains privileges or is static. The trace has nothing of that program",
            );
        }
        if seen.unknown > 0 {
            line(&format!(
                "vcm: {} frees and reallocs were of unknown blocks, from before the recording or missed by it",
                seen.unknown
            ));
        }
        if self.waits.0 > 0 {
            line(&format!(
                "vcm: threads waited {} times, {:.1} s in total, for events to be read",
                self.waits.0,
                self.waits.1 as f64 / 1e9
            ));
        }
    }
}
