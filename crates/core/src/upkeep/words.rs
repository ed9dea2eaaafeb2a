//! When the last words of the process are due: near the end of what its cgroup allows, and when the hard limit refuses.
//! docs/design/last-words.md tells the whole.
//!
//! Here it is seen; `heap` writes them, outside of slow paths.

use super::limits::{END_PERCENT, WATCHED_PERCENT, part};
use super::{Floors, Upkeep};
use crate::base::sync::{AtomicBool, AtomicU32, Ordering};
use crate::options::OptionId;
use crate::os::{MemoryGroup, Os, Wait};

/// While the heap grows beyond where it is watched there is a look each such part of the limit.
const LOOKS_IN_LIMIT: usize = 256;
/// How often a thread looks whether the janitor has seen to it, and how long it waits between, in nanoseconds.
const ROUNDS: u32 = 2000;
const WAIT: u64 = 1_000_000;

/// The reasons for which last words are due, a bit each.
pub const REFUSED: u32 = 1;
/// The memory that the heap has taken would fill the cgroup, once it is written to.
pub const AHEAD: u32 = 2;
pub const NEAR: u32 = 4;
/// Somebody who may open files is to look whether the end is near.
const LOOK: u32 = 8;
/// The last ones could not be written, which is to be said.
const FAILED: u32 = 16;
const REASONS: u32 = REFUSED | AHEAD | NEAR;

/// The reasons that were seen, and what became of them.
pub struct Words {
    due: AtomicU32,
    /// Reasons that were seen to: each is once.
    said: AtomicU32,
    /// Counted on when somebody has seen to what was due.
    turn: AtomicU32,
    /// Why the last ones could not be written.
    error: AtomicU32,
    is_speaking: AtomicBool,
    /// Somebody waited for the janitor in vain: nobody waits any more.
    is_alone: AtomicBool,
    /// The janitor is to stay awake.
    is_watched: AtomicBool,
}

impl Words {
    pub const fn new() -> Self {
        Words {
            due: AtomicU32::new(0),
            said: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            error: AtomicU32::new(0),
            is_speaking: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
        }
    }

    /// Whether a thread of the program has to do something about it.
    #[inline]
    pub fn concern_program(&self) -> bool {
        self.due.load(Ordering::Relaxed) != 0 && !self.is_alone.load(Ordering::Relaxed)
    }

    /// Whether there is something to be seen to.
    pub fn are_due(&self) -> bool {
        self.due.load(Ordering::Acquire) & !FAILED != 0
    }

    fn note(&self, reason: u32) {
        if self.said.load(Ordering::Relaxed) & reason == 0 {
            // Release pairs with the Acquire in `are_due` and `begin`: a thread that begins sees what was done before.
            self.due.fetch_or(reason, Ordering::Release);
        }
    }

    /// Whether the end is still to be watched for.
    pub(super) fn are_awaited(&self) -> bool {
        self.said.load(Ordering::Relaxed) & NEAR == 0
    }

    /// For the one who sees to it; false where somebody does already.
    pub fn begin(&self) -> bool {
        !self.is_speaking.swap(true, Ordering::Acquire)
    }

    /// The reasons to be written, of those that were seen since the last time.
    pub fn reasons(&self) -> u32 {
        self.due.load(Ordering::Acquire) & REASONS & !self.said.load(Ordering::Relaxed)
    }

    /// Ends `begin`: these were written, or could not be, for an error of the system's.
    pub fn end<W: Wait>(&self, reasons: u32, outcome: Result<(), u32>) {
        self.said.fetch_or(reasons, Ordering::Relaxed);
        self.due.fetch_and(!(reasons | LOOK), Ordering::Relaxed);
        if let Err(error) = outcome {
            self.error.store(error, Ordering::Relaxed);
            self.due.fetch_or(FAILED, Ordering::Release);
        }
        self.is_alone.store(false, Ordering::Relaxed);
        self.is_speaking.store(false, Ordering::Release);
        self.turn.fetch_add(1, Ordering::Release);
        W::wake_one(&self.turn);
    }

    /// The error, for the one thread that is to say that they could not be written.
    pub fn take_failed(&self) -> Option<u32> {
        let is_one = self.due.load(Ordering::Relaxed) & FAILED != 0
            && self.due.fetch_and(!FAILED, Ordering::Acquire) & FAILED != 0;
        is_one.then(|| self.error.load(Ordering::Relaxed))
    }

    /// Waits until somebody else has seen to what is due; false where nobody will. Not for ever: somebody may have
    /// stopped that thread.
    pub fn wait(&self, os: &impl Os, somebody_will: impl Fn() -> bool) -> bool {
        for _ in 0..ROUNDS {
            // Pairs with the Release in `end`: between the look and the sleep nothing is missed.
            let turn = self.turn.load(Ordering::Acquire);
            if !self.are_due() {
                return true;
            }
            if !somebody_will() {
                return false;
            }
            os.wait_for(&self.turn, turn, WAIT);
        }
        self.is_alone.store(true, Ordering::Relaxed);
        true
    }

    pub fn is_somebody_at_it(&self) -> bool {
        self.is_speaking.load(Ordering::Relaxed)
    }

    /// Whether the janitor is to stay awake.
    pub fn are_near(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// For another path, and in a new process: nothing was said there.
    pub(super) fn begin_anew(&self) {
        for word in [&self.due, &self.said] {
            word.store(0, Ordering::Relaxed);
        }
        for flag in [&self.is_speaking, &self.is_alone, &self.is_watched] {
            flag.store(false, Ordering::Relaxed);
        }
    }
}

impl<O: Os> Upkeep<O> {
    /// Memory was refused: by the hard limit, or by the system, which is no reason.
    pub fn note_refusal(&self, floors: &Floors<O>) {
        if floors.pages.limits.take_refused() && floors.options.get(OptionId::last_words) != 0 {
            self.words.note(REFUSED);
        }
    }

    /// The option was set: earlier words went to another path, or to none.
    pub fn renew_words(&self, floors: &Floors<O>) {
        self.words.begin_anew();
        self.set_limits(floors, self.known_group(floors));
    }

    /// Looks whether the end is near: by the cgroup as it is now, if this thread may open files.
    pub(super) fn look_for_end(&self, floors: &Floors<O>) {
        let known = self.known_group(floors).filter(|_| self.wants_words(floors));
        let is_beyond = |percent| known.is_some_and(|group| group.in_use >= part(group.limit, percent));
        self.words.is_watched.store(is_beyond(WATCHED_PERCENT), Ordering::Relaxed);
        if !is_beyond(WATCHED_PERCENT) {
            return;
        }
        // Without what the group could give up: files that are cached end nobody.
        let exact = if self.may_open_files() { floors.os.memory_group(true).unwrap_or(None) } else { None };
        match exact {
            Some(group) if group.in_use >= part(group.limit, END_PERCENT) => self.words.note(NEAR),
            Some(group) if group.in_use + self.unwritten(floors) < group.limit => (),
            None if !is_beyond(END_PERCENT) => (),
            _ => self.words.note(AHEAD),
        }
    }

    /// The cgroup, as well as this thread may know it.
    pub fn group_now(&self, floors: &Floors<O>) -> Option<MemoryGroup> {
        let read = if self.may_open_files() { floors.os.memory_group(true) } else { Ok(None) };
        read.unwrap_or(None).or_else(|| self.known_group(floors))
    }

    /// Bytes that the heap has taken since limits were read, and nobody has written yet.
    fn unwritten(&self, floors: &Floors<O>) -> usize {
        let own = floors.os.own_memory();
        own.map_or(0, |own| self.own_footprint(floors).saturating_sub(own))
    }

    /// The heap grew to where its cgroup is watched.
    #[cold]
    #[inline(never)]
    pub(super) fn note_growth_to_end(&self, floors: &Floors<O>) {
        let limit = self.known_group(floors).map_or(0, |group| group.limit);
        if limit == 0 || !self.wants_words(floors) {
            return floors.pages.limits.set_end(None);
        }
        floors.pages.limits.set_end(Some(floors.pages.footprint() + limit / LOOKS_IN_LIMIT));
        self.words.note(LOOK);
    }

    /// For who sees to what is due: looks, if that was asked for.
    pub fn look_if_asked(&self, floors: &Floors<O>) {
        if self.words.due.load(Ordering::Acquire) & LOOK != 0 {
            self.look_for_end(floors);
        }
    }
}
