//! The last calls that made heaps zombies, for the report of a late access.

use super::Hardened;
use crate::base::fault::{Access, Fault, Misuse};
use crate::base::stack::Stack;
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::base::text::{put_decimal, put_str};
use crate::heap::HeapId;
use crate::os::Os;
use crate::sources::{put_line, put_stack};

/// Ends that are remembered, and frames of each.
const ENDS: usize = 32;
const FRAMES: usize = 16;
/// The last calls that made heaps zombies.
pub struct Ends {
    next: AtomicUsize,
    ends: [End; ENDS],
}

struct End {
    id: AtomicU64,
    thread: AtomicU64,
    at: AtomicU64,
    frames: [AtomicUsize; FRAMES],
}

impl Ends {
    pub const fn new() -> Self {
        Ends { next: AtomicUsize::new(0), ends: [const { End::new() }; ENDS] }
    }
}

impl End {
    const fn new() -> Self {
        End {
            id: AtomicU64::new(0),
            thread: AtomicU64::new(0),
            at: AtomicU64::new(0),
            frames: [const { AtomicUsize::new(0) }; FRAMES],
        }
    }
}

impl<O: Os> Hardened<O> {
    pub(super) fn note_end(&self, id: HeapId) {
        let place = self.ends.next.fetch_add(1, Ordering::Relaxed) % ENDS;
        let Some(end) = self.ends.ends.get(place) else { return };
        end.id.store(0, Ordering::Relaxed);
        end.thread.store(self.heap.os.thread_number(), Ordering::Relaxed);
        end.at.store(self.heap.os.now(), Ordering::Relaxed);
        let stack = self.heap.inside(|_| self.heap.here()).unwrap_or(Stack::EMPTY);
        let frames = stack.frames().iter().copied().chain(core::iter::repeat(0));
        end.frames.iter().zip(frames).for_each(|(place, frame)| place.store(frame, Ordering::Relaxed));
        // Release pairs with the Acquire in `tell_of_end`.
        end.id.store(id.0, Ordering::Release);
    }

    /// Ends a process that uses a block of a zombie by a call.
    #[cold]
    pub(super) fn stop_at_zombie(&self, address: usize) -> ! {
        let block = self.around_of_zombie(address);
        let misuse = Misuse { block, ..Misuse::at(Fault::AfterEnd(Access::Unknown), address) };
        self.heap.abort_with(misuse, || self.tell_of_end(&misuse, &|| self.heap.here()))
    }

    /// Says which heap has ended, and where.
    pub(super) fn tell_of_end(&self, misuse: &Misuse, here: &dyn Fn() -> Stack) {
        let Some(id) =
            self.heap.owner_heap(misuse.address).filter(|_| matches!(misuse.fault, Fault::AfterEnd(_)))
        else {
            return;
        };
        let os = &self.heap.os;
        put_line(os, |line| put_str(line, "  here:"));
        put_stack(os, &here());
        let name = self.heap.heap_name(id);
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let name = name.get(..length).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or("");
        let end = self.ends.ends.iter().find(|end| end.id.load(Ordering::Acquire) == id.0);
        put_line(os, |line| {
            put_str(line, "  heap '");
            put_str(line, name);
            put_str(line, "' ended");
            let Some(end) = end else { return };
            put_str(line, " by thread ");
            put_decimal(line, end.thread.load(Ordering::Relaxed));
            put_str(line, ", ");
            put_decimal(line, os.now().saturating_sub(end.at.load(Ordering::Relaxed)) / 1_000_000);
            put_str(line, " ms ago:");
        });
        if let Some(end) = end {
            let stack = Stack::taken_by(|frames| {
                let known = end.frames.iter().map(|frame| frame.load(Ordering::Relaxed));
                let known = known.take_while(|frame| *frame != 0);
                frames.iter_mut().zip(known).map(|(place, frame)| *place = frame).count()
            });
            put_stack(os, &stack);
        }
    }
}
