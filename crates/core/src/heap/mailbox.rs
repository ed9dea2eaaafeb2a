//! Orders from outside the process: a mailbox in the heap, which `vcm set` and `vcm release` write through
//! `/proc/PID/mem` (docs/design/orders.md).
//!
//! The tool fills the letter in, then counts `asked` on; a thread at the end of a slow path, or the janitor, does what
//! it says, fills the answer in, then counts `done` on. Nothing looks at it anywhere else.

use crate::base::place::Places;
use crate::base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::heap::Heap;
use crate::heap::recording::NotRecorded;
use crate::observe::Wanted;
use crate::options::{OptionId, Origin, Refused};
use crate::os::Os;
use core::mem::offset_of;

/// Bytes of `name=value`.
const TEXT_BYTES: usize = 192;

const SET: u32 = 1;
const RELEASE: u32 = 2;
const RELEASE_ALL: u32 = 3;
/// The text is four numbers: clock, one address in so many, stamps of patience, place of a thread's number. The answer is the
/// recording's number.
const RECORD: u32 = 4;
/// Ends the recording of this number.
const END_RECORDING: u32 = 5;

/// The results of an order. Read by other builds: numbers keep their meaning.
const DONE: u32 = 0;
const UNKNOWN_ORDER: u32 = 1;
const UNKNOWN_OPTION: u32 = 2;
const BAD_VALUE: u32 = 3;
const READ_ONCE: u32 = 4;
const RECORDED_ALREADY: u32 = 5;
const NO_MEMORY: u32 = 6;
const NOT_BY_THIS_POLICY: u32 = 7;

/// The mailbox.
pub struct Mailbox {
    asked: AtomicU32,
    done: AtomicU32,
    kind: AtomicU32,
    result: AtomicU32,
    /// Bytes to release, then the bytes that were.
    bytes: AtomicU64,
    length: AtomicU32,
    is_read: AtomicBool,
    text: [AtomicU8; TEXT_BYTES],
}

impl Mailbox {
    pub const fn new() -> Self {
        Mailbox {
            asked: AtomicU32::new(0),
            done: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            result: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            length: AtomicU32::new(0),
            is_read: AtomicBool::new(false),
            text: [const { AtomicU8::new(0) }; TEXT_BYTES],
        }
    }

    pub(crate) const fn places(list: Places, at: usize) -> Places {
        list.one("orders.asked", 4, at + offset_of!(Self, asked))
            .one("orders.done", 4, at + offset_of!(Self, done))
            .one("orders.kind", 4, at + offset_of!(Self, kind))
            .one("orders.result", 4, at + offset_of!(Self, result))
            .one("orders.bytes", 8, at + offset_of!(Self, bytes))
            .one("orders.length", 4, at + offset_of!(Self, length))
            .many("orders.text", 1, at + offset_of!(Self, text), (1, TEXT_BYTES))
    }

    /// Whether a letter lies there.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != self.done.load(Ordering::Relaxed)
    }

    /// Does what only one thread at a time may do, where no other is at it.
    pub(crate) fn alone(&self, work: impl FnOnce()) {
        if !self.is_read.swap(true, Ordering::Acquire) {
            work();
            self.is_read.store(false, Ordering::Release);
        }
    }

    /// In a child process: orders to its parent are the parent's.
    pub fn forget(&self) {
        self.done.store(self.asked.load(Ordering::Relaxed), Ordering::Relaxed);
        self.is_read.store(false, Ordering::Relaxed);
    }
}

impl<O: Os> Heap<O> {
    /// Does what was asked from outside. Called inside, with no lock held; one thread reads the letter.
    #[cold]
    #[inline(never)]
    pub(crate) fn obey_order(&self) {
        let mailbox = &self.mailbox;
        mailbox.alone(|| {
            let asked = mailbox.asked.load(Ordering::Acquire);
            if asked != mailbox.done.load(Ordering::Relaxed) {
                let result = self.obey(mailbox.kind.load(Ordering::Relaxed));
                mailbox.result.store(result, Ordering::Relaxed);
                mailbox.done.store(asked, Ordering::Release);
            }
        });
    }

    fn obey(&self, kind: u32) -> u32 {
        let (bytes, below) = (&self.mailbox.bytes, &self.floors);
        let wanted = bytes.load(Ordering::Relaxed) as usize;
        let released = match kind {
            SET => return self.set_as_ordered(),
            RECORD => return self.record_as_ordered(),
            END_RECORDING => {
                if self.recording.is_on() && self.recording.number() as usize == wanted {
                    self.end_recording();
                }
                return DONE;
            }
            RELEASE | RELEASE_ALL if !self.is_started() => 0,
            RELEASE => self.upkeep.release_free(below, wanted),
            RELEASE_ALL => self.obeyed(self.upkeep.release(below, 0)),
            _ => return UNKNOWN_ORDER,
        };
        bytes.store(released as u64, Ordering::Relaxed);
        DONE
    }

    fn record_as_ordered(&self) -> u32 {
        let mut numbers = [0; 4 * size_of::<u64>()];
        if self.mailbox.length.load(Ordering::Relaxed) as usize != numbers.len() {
            return BAD_VALUE;
        }
        numbers.iter_mut().zip(&self.mailbox.text).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        let (numbers, _) = numbers.as_chunks();
        let [clock, sample, patience, number_at] = *numbers else { return BAD_VALUE };
        let [clock, sample, patience, number_at] =
            [clock, sample, patience, number_at].map(u64::from_le_bytes);
        let wanted = Wanted {
            clock: clock as u32,
            sample: sample as u32,
            patience,
            // No block of any C library is so long.
            number_at: if number_at < 1 << 12 { number_at as usize } else { 0 },
        };
        match self.begin_recording(&wanted) {
            Ok(number) => {
                self.mailbox.bytes.store(number.into(), Ordering::Relaxed);
                DONE
            }
            Err(NotRecorded::Already) => RECORDED_ALREADY,
            Err(NotRecorded::NoMemory) => NO_MEMORY,
            Err(NotRecorded::Policy) => NOT_BY_THIS_POLICY,
        }
    }

    fn set_as_ordered(&self) -> u32 {
        let mut text = [0; TEXT_BYTES];
        text.iter_mut().zip(&self.mailbox.text).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        let length = self.mailbox.length.load(Ordering::Relaxed) as usize;
        let Some(text) = text.get(..length) else { return BAD_VALUE };
        let Some(middle) = text.iter().position(|byte| *byte == b'=') else { return BAD_VALUE };
        let (name, value) = text.split_at(middle);
        match self.options.set(name, value.get(1..).unwrap_or_default(), Origin::Api) {
            Ok(OptionId::memory_limit | OptionId::hard_limit) => {
                if self.is_started() {
                    self.obeyed(self.upkeep.obey_limits(&self.floors));
                }
                DONE
            }
            Ok(id) => {
                self.apply_option(id);
                DONE
            }
            Err(Refused::UnknownName) => UNKNOWN_OPTION,
            Err(Refused::NotLive) => READ_ONCE,
            Err(_) => BAD_VALUE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::Fake;

    fn order(heap: &Heap<Fake>, kind: u32, bytes: u64, text: &str) {
        let mailbox = &heap.mailbox;
        mailbox.kind.store(kind, Ordering::Relaxed);
        mailbox.bytes.store(bytes, Ordering::Relaxed);
        mailbox.length.store(text.len() as u32, Ordering::Relaxed);
        mailbox.text.iter().zip(text.bytes()).for_each(|(to, byte)| to.store(byte, Ordering::Relaxed));
        mailbox.asked.fetch_add(1, Ordering::Release);
    }

    /// A slow path, after which orders are looked at.
    fn come_by(heap: &Heap<Fake>) -> u32 {
        heap.free(heap.allocate(1 << 20));
        assert!(!heap.mailbox.is_due());
        heap.mailbox.result.load(Ordering::Relaxed)
    }

    #[test]
    fn the_next_slow_path_does_what_was_asked_once() {
        let heap = Box::new(Heap::new(Fake::default()));
        heap.free(heap.allocate(1 << 20));
        order(&heap, SET, 0, "cache_limit=3M");
        assert_eq!(come_by(&heap), DONE);
        assert_eq!(heap.options.get(OptionId::cache_limit), 3 << 20);
        assert_eq!(heap.options.origin(OptionId::cache_limit), Origin::Api);
        heap.set_option(b"cache_limit", b"5M").unwrap();
        come_by(&heap);
        assert_eq!(heap.options.get(OptionId::cache_limit), 5 << 20, "it is not done twice");
        heap.free(heap.allocate(30 << 20));
        order(&heap, RELEASE_ALL, 0, "");
        assert_eq!(come_by(&heap), DONE);
    }

    #[test]
    fn what_cannot_be_done_is_answered_with_the_reason() {
        let heap = Box::new(Heap::new(Fake::default()));
        heap.free(heap.allocate(1 << 20));
        for (kind, text, result) in [
            (9, "", UNKNOWN_ORDER),
            (SET, "no_such_option=1", UNKNOWN_OPTION),
            (SET, "cache_limit=many", BAD_VALUE),
            (SET, "cache_limit", BAD_VALUE),
            (SET, "front=locked", READ_ONCE),
        ] {
            order(&heap, kind, 0, text);
            assert_eq!(come_by(&heap), result, "{text}");
        }
        order(&heap, SET, 0, "cache_limit=1M");
        heap.mailbox.length.store(100_000, Ordering::Relaxed);
        assert_eq!(come_by(&heap), BAD_VALUE);
    }

    #[test]
    fn a_limit_asked_for_opens_no_file_among_the_programs() {
        const MIB: usize = 1 << 20;
        let heap = Box::new(Heap::new(Fake::default()));
        heap.os().group_limit.store(100 * MIB, Ordering::Relaxed);
        heap.set_option(b"memory_limit", b"50%").unwrap();
        heap.free(heap.allocate(1 << 20));
        heap.set_option(b"memory_limit", b"50%").unwrap();
        assert_eq!(heap.pages.limits.soft(), Some(50 * MIB));
        heap.meet_threads();
        heap.os().group_limit.store(10 * MIB, Ordering::Relaxed);
        order(&heap, SET, 0, "memory_limit=80%");
        assert_eq!(come_by(&heap), DONE);
        assert_eq!(heap.pages.limits.soft(), Some(80 * MIB), "by the group as it was read last");
    }

    #[test]
    fn a_child_does_not_do_what_its_parent_was_asked() {
        let heap = Box::new(Heap::new(Fake::default()));
        heap.free(heap.allocate(1 << 20));
        order(&heap, SET, 0, "cache_limit=3M");
        heap.mailbox.forget();
        heap.free(heap.allocate(1 << 20));
        assert_eq!(heap.options.origin(OptionId::cache_limit), Origin::Default);
    }
}
