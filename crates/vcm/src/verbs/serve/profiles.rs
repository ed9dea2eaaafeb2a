//! `/debug/pprof/heap` and `/debug/pprof/allocs`: a profile of one process, in pprof's format.
//!
//! If the process takes one already, that is read. Otherwise it is switched on for some seconds and off again, also
//! where the client has gone or the agent ends. There are few at a time, and one of each process.

use super::answer::Answer;
use super::host::wants;
use super::server::too_slow;
use super::supervisor::Board;
use glob::Pattern;
use hyper::{StatusCode, header};
use std::collections::HashSet;
use std::fs::File;
use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use vcm_inspect::condition::Condition;
use vcm_inspect::process::Process;
use vcm_inspect::window::{Seen, is_on_ours};
use vcm_profile::{Measure, Profile, Switched};

const MOST_AT_ONCE: usize = 4;
const SECONDS: Duration = Duration::from_secs(10);
const MOST_SECONDS: Duration = Duration::from_secs(300);
/// Besides its seconds: orders, reading, names.
const BESIDES: Duration = Duration::from_secs(60);
/// How often to see whether the process is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Heap,
    Allocs,
}

impl Kind {
    pub fn of(path: &str) -> Option<Kind> {
        match path {
            "/debug/pprof/heap" => Some(Kind::Heap),
            "/debug/pprof/allocs" => Some(Kind::Allocs),
            _ => None,
        }
    }

    fn measure(self) -> Measure {
        if self == Kind::Heap { Measure::Live } else { Measure::Allocated }
    }

    fn name(self) -> &'static str {
        if self == Kind::Heap { "heap" } else { "allocs" }
    }
}

/// The profile that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    kind: Kind,
    pid: i32,
    seconds: Option<Duration>,
}

impl Wanted {
    pub fn of(kind: Kind, query: &str) -> Result<Wanted, Answer> {
        let value = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let wrong = |line: &str| Answer::refused(StatusCode::BAD_REQUEST, line);
        let pid = value("pid").and_then(|text| text.parse().ok()).filter(|pid| *pid > 0);
        let pid = pid.ok_or_else(|| wrong("name a process: ?pid=4711 ('/' lists them)"))?;
        let seconds = value("seconds").map(|text| text.parse::<u32>().ok().filter(|seconds| *seconds > 0));
        let seconds = match seconds {
            Some(None) => return Err(wrong("give whole seconds: seconds=30")),
            Some(Some(seconds)) => Some(Duration::from_secs(seconds.into()).min(MOST_SECONDS)),
            None => None,
        };
        Ok(Wanted { kind, pid, seconds })
    }
}

pub struct Profiles {
    patterns: Arc<[Pattern]>,
    places: Arc<Semaphore>,
    busy: Arc<Mutex<HashSet<i32>>>,
    board: &'static Board,
    /// The agent ends.
    ending: watch::Sender<bool>,
}

impl Profiles {
    pub fn new(patterns: &[Pattern], board: &'static Board) -> Self {
        Profiles {
            patterns: patterns.into(),
            places: Arc::new(Semaphore::new(MOST_AT_ONCE)),
            busy: Arc::default(),
            board,
            ending: watch::Sender::new(false),
        }
    }

    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    pub async fn take(&self, wanted: Wanted, more: &(dyn Fn(Duration) + Sync)) -> Answer {
        let later = |line: String| {
            Answer::refused(StatusCode::TOO_MANY_REQUESTS, line)
                .with(header::RETRY_AFTER, SECONDS.as_secs().to_string())
        };
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return later(format!("{MOST_AT_ONCE} profiles are running; try again"));
        };
        let Some(turn) = Turn::of(&self.busy, wanted.pid) else {
            return later(format!("a profile of {} is running; try again", wanted.pid));
        };
        more(BESIDES + wanted.seconds.unwrap_or(SECONDS));
        let (wish, goes_on) = channel::<()>();
        let (patterns, board) = (self.patterns.clone(), self.board);
        let mut taken = spawn_blocking(move || {
            // Held until the process is as it was, also where the client has disconnected.
            let _held = (place, turn);
            let start = Process::new(wanted.pid).start_ticks().unwrap_or(0);
            if board.is_feared(wanted.pid, start) {
                return too_slow(format!("{} is skipped: reading it has ended this agent", wanted.pid));
            }
            let _look = board.begin(wanted.pid, start, MOST_SECONDS + 2 * BESIDES);
            take(wanted, &patterns, &goes_on).unwrap_or_else(|refused| refused)
        });
        let mut ending = self.ending.subscribe();
        let ends = async {
            // It gives a lock, which nobody may hold while he waits.
            let _ = ending.wait_for(|ends| *ends).await;
        };
        // If the client goes away, this is dropped, the wish with it, and the profile is switched off.
        tokio::select! {
            answer = &mut taken => answer.unwrap_or_else(|_| too_slow("the profile failed")),
            () = ends => {
                drop(wish);
                let _ = taken.await;
                too_slow("the agent ends")
            }
        }
    }
}

/// The only one for its process.
struct Turn {
    pid: i32,
    busy: Arc<Mutex<HashSet<i32>>>,
}

impl Turn {
    fn of(busy: &Arc<Mutex<HashSet<i32>>>, pid: i32) -> Option<Turn> {
        let is_first = busy.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
        is_first.then(|| Turn { pid, busy: busy.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
    }
}

/// Blocks. `goes_on` ends where nobody wants it any more.
fn take(wanted: Wanted, patterns: &[Pattern], goes_on: &Receiver<()>) -> Result<Answer, Answer> {
    let Wanted { kind, pid, seconds } = wanted;
    let seen = seen(pid, patterns)?;
    let cannot = |why: String| too_slow(format!("{pid} {why}"));
    let switched = Switched::on(&seen, None).map_err(|why| cannot(why_not_on(pid, why)))?;
    let was_on = switched.was_on();
    let length = match seconds {
        None if was_on && kind == Kind::Heap => Duration::ZERO,
        seconds => seconds.unwrap_or(SECONDS),
    };
    let before =
        (was_on && kind == Kind::Allocs).then(|| vcm_profile::read(&seen)).transpose().map_err(cannot)?;
    let begun = Instant::now();
    wait(&seen, begun + length, goes_on)?;
    let is_on = seen.is_profiling();
    let length = begun.elapsed();
    // Before its tables are read: then they stand still.
    let off = switched.off();
    if is_on != Some(true) {
        return Err(cannot("has not started a profile: it is idle, or the profile was switched off".into()));
    }
    let mut profile = vcm_profile::read(&seen).map_err(cannot)?;
    if let Some(before) = before {
        profile.allocated_since(&before);
    }
    if !was_on || kind == Kind::Allocs {
        profile.duration = length;
    }
    note(&mut profile, was_on, off);
    profile.name(&seen.process);
    let name = format!("attachment; filename=\"{}-{pid}.pb.gz\"", kind.name());
    let answer = Answer::of("application/octet-stream", profile.to_pprof(kind.measure()));
    Ok(answer.with(header::CONTENT_DISPOSITION, name))
}

/// Switching it on writes into the process, which takes another right than reading.
fn why_not_on(pid: i32, why: String) -> String {
    match File::options().write(true).open(format!("/proc/{pid}/mem")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            "takes no profile, and vcm serve has no permission to start one: run it as root, or with \
             CAP_SYS_PTRACE and CAP_DAC_OVERRIDE"
                .into()
        }
        _ => why,
    }
}

/// Notes what a reader of the profile should know.
fn note(profile: &mut Profile, was_on: bool, off: Result<(), String>) {
    if !was_on {
        let seconds = profile.duration.as_secs_f64();
        profile.comments.push(format!("of memory allocated within {seconds:.1} s"));
    }
    let lines =
        [profile.torn.as_ref().map(|what| format!("it changed while it was read: {what}")), off.err()];
    profile.comments.extend(lines.into_iter().flatten());
    profile.comments.extend(profile.about_room());
}

fn seen(pid: i32, patterns: &[Pattern]) -> Result<Seen, Answer> {
    let process = Process::new(pid);
    let not_here = |why: &str| Answer::refused(StatusCode::NOT_FOUND, format!("{pid} {why}"));
    if let Some(why) = process.condition().why_not_seen() {
        return Err(not_here(why));
    }
    if !wants(patterns, &process) {
        return Err(not_here("is not served here"));
    }
    let is_forbidden = is_on_ours(&process).is_err();
    Seen::open(process)
        .map_err(|why| if is_forbidden { too_slow(format!("{pid} {why}")) } else { not_here(&why) })
}

fn wait(seen: &Seen, until: Instant, goes_on: &Receiver<()>) -> Result<(), Answer> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match goes_on.recv_timeout(left.min(LOOK_EVERY)) {
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Err(too_slow("the client has disconnected")),
        }
        if seen.is_profiling().is_none() || seen.process.condition() == Condition::Absent {
            let line = format!("{} has ended, or became another program", seen.process.id);
            return Err(Answer::refused(StatusCode::NOT_FOUND, line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_process_and_seconds_that_are_bounded() {
        let of = |query: &str| Wanted::of(Kind::Allocs, query).map(|wanted| (wanted.pid, wanted.seconds));
        let seconds = Duration::from_secs;
        assert_eq!(of("pid=7").ok(), Some((7, None)));
        assert_eq!(of("debug=0&seconds=30&pid=7").ok(), Some((7, Some(seconds(30)))));
        assert_eq!(of("pid=7&seconds=4000000000").ok(), Some((7, Some(seconds(300)))));
        let wrong =
            ["", "pid=", "pid=x", "pid=-1", "pid=0", "pid=99999999999", "pid=7&seconds=", "pid=7&seconds=0"];
        for query in wrong.iter().chain(&["pid=7&seconds=-3", "pid=7&seconds=1.5"]) {
            assert_eq!(of(query).err().map(|answer| answer.status), Some(StatusCode::BAD_REQUEST), "{query}");
        }
    }

    #[test]
    fn a_process_has_one_profile_at_a_time() {
        let busy = Arc::default();
        let first = Turn::of(&busy, 7);
        assert!(first.is_some() && Turn::of(&busy, 7).is_none() && Turn::of(&busy, 8).is_some());
        drop(first);
        assert!(Turn::of(&busy, 7).is_some());
    }
}
