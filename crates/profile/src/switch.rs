//! A profile that a process takes for as long as somebody looks, and not longer.

use std::thread;
use std::time::{Duration, Instant};
use vcm_inspect::window::Seen;
use vcm_inspect::window::orders::{self, Answer, Order, Why};

const PROFILE: &str = "profile";
const INTERVAL: &str = "sample_interval";
/// How long an order may take that another one has to wait for.
const PATIENCE: Duration = Duration::from_secs(5);
const NEVER: &str =
    "keeps no live profile: it had no memory for the tables, or runs an older hardened library";
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The profile is on, or goes on with the next slow allocation. When this is dropped the process is as it was before.
pub struct Switched<'a> {
    seen: &'a Seen,
    /// It is we who switched it on.
    ours: bool,
    /// The interval that we set, and the one before.
    interval: Option<(u64, u64)>,
}

impl<'a> Switched<'a> {
    /// Switches the profile on where it is off. The error is the rest of a line that begins with the process's number.
    pub fn on(seen: &'a Seen, interval: Option<u64>) -> Result<Self, String> {
        // An older library is refused before it is changed.
        seen.samples()?;
        let mut switched = Switched { seen, ours: false, interval: None };
        if seen.is_profiling() == Some(true) {
            return match interval {
                None => Ok(switched),
                Some(_) => Err(format!(
                    "takes a profile already, with an interval of its own; leave --interval out, or: vcm set {} profile=off",
                    seen.process.id
                )),
            };
        }
        // Told to, and does not: it is not in our hands.
        if switched.setting(PROFILE) == Some(1) {
            return Err(NEVER.into());
        }
        if let Some(interval) = interval {
            switched.set_interval(interval)?;
        }
        switched.ours = true;
        match give(seen, PROFILE, "on")? {
            Given::Waits(Why::Stopped) => {
                Err("is stopped, and takes no samples: let it go on first (kill -CONT)".into())
            }
            Given::Done if seen.is_profiling() == Some(false) => Err(NEVER.into()),
            Given::Done | Given::Waits(_) => Ok(switched),
        }
    }

    fn setting(&self, name: &str) -> Option<u64> {
        let snapshot = self.seen.snapshot().ok()?;
        snapshot.setting(name).map(|setting| setting.value)
    }

    fn set_interval(&mut self, interval: u64) -> Result<(), String> {
        let before = self.setting(INTERVAL).filter(|before| *before != interval);
        self.interval = before.map(|before| (interval, before));
        if self.interval.is_none() {
            return Ok(());
        }
        let given = match give(self.seen, INTERVAL, &interval.to_string()) {
            Ok(given) => given,
            Err(why) => {
                // Nothing was changed.
                self.interval = None;
                return Err(why);
            }
        };
        let until = Instant::now() + PATIENCE;
        if given == Given::Done {
            return Ok(());
        }
        while given != Given::Waits(Why::Stopped) && Instant::now() < until {
            if self.setting(INTERVAL) == Some(interval) {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
        Err("does not obey within five seconds: it is stopped, or idle; leave --interval out".into())
    }

    /// Whether it was on before, and stays so.
    pub fn was_on(&self) -> bool {
        !self.ours
    }

    /// Switches it off where we switched it on; then the tables stand still. The error says why it is not off yet.
    pub fn off(mut self) -> Result<(), String> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), String> {
        let mut wrong = Vec::new();
        if std::mem::take(&mut self.ours) {
            wrong.extend(self.back(PROFILE, "on", "off").err());
        }
        if let Some((ours, before)) = self.interval.take() {
            wrong.extend(self.back(INTERVAL, &ours.to_string(), &before.to_string()).err());
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; it ")) }
    }

    /// Takes one of our settings back, also where the process has not come to it yet.
    fn back(&self, name: &str, ours: &str, value: &str) -> Result<(), String> {
        let ours = format!("{name}={ours}");
        let until = Instant::now() + PATIENCE;
        loop {
            let withdrawn = orders::withdraw(self.seen, |lying| lying.sets(&ours)) == Ok(true);
            if withdrawn && self.is(name, value) {
                return Ok(());
            }
            let why = match give(self.seen, name, value) {
                Ok(Given::Done) => return Ok(()),
                // It lies there, and nothing stands behind it.
                Ok(Given::Waits(_)) => {
                    return Err(format!(
                        "has not obeyed yet and will with its next slow allocation ({name}={value})"
                    ));
                }
                Err(why) => why,
            };
            if self.seen.is_profiling().is_none() {
                // It ended, or became another program, and the profile with it.
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{why}; then: vcm set {} {name}={value}", self.seen.process.id));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn is(&self, name: &str, value: &str) -> bool {
        match name {
            PROFILE => self.seen.is_profiling() == Some(false) && self.setting(PROFILE) != Some(1),
            _ => self.setting(name).is_some_and(|now| now.to_string() == value),
        }
    }
}

impl Drop for Switched<'_> {
    fn drop(&mut self) {
        let _ = self.undo();
    }
}

/// The result of a setting that was taken.
#[derive(PartialEq, Eq)]
enum Given {
    Done,
    Waits(Why),
}

fn give(seen: &Seen, name: &str, value: &str) -> Result<Given, String> {
    match orders::give(seen, &Order::Set(&format!("{name}={value}")))? {
        Answer::Done(_) => Ok(Given::Done),
        Answer::Waits(why) => Ok(Given::Waits(why)),
        Answer::Full(earlier) => Err(format!("was not sent {name}={value}: {}", earlier.line())),
        Answer::Refused(refusal) => Err(refusal.line().into()),
    }
}
