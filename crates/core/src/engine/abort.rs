//! The end of a process that misused the heap.

use super::{ABORTING, Engine};
use crate::base::fault::Misuse;
use crate::base::stack::Stack;
use crate::base::sync::Ordering;
use crate::base::text::{Buffer, put_decimal, put_str};
use crate::os::Os;

/// How long a parked thread sleeps at a time, in nanoseconds.
const PARKED_SLEEP: u64 = 1_000_000_000;

impl<O: Os> Engine<O> {
    pub(crate) fn is_aborting(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ABORTING
    }

    /// The value, or the end of the process where the program misused the heap.
    pub(crate) fn obeyed<T>(&self, outcome: Result<T, Misuse>) -> T {
        match outcome {
            Ok(value) => value,
            Err(misuse) => self.abort_for(misuse),
        }
    }

    /// Ends the process where the janitor found that the program misused the heap.
    #[inline]
    pub(crate) fn abort_if_told(&self) {
        if let Some(misuse) = self.pending_fault.take() {
            self.abort_for(misuse);
        }
    }

    /// Says what the program did and ends the process. No lock is held here: a handler of SIGABRT may
    /// allocate, and is served from emergency memory, since the heap's own structures cannot be trusted any
    /// more.
    #[cold]
    #[inline(never)]
    pub fn abort_for(&self, misuse: Misuse) -> ! {
        self.abort_at(misuse, || self.here())
    }

    /// `here` finds the stack of the misuse; it is asked for only where the block is a guarded one.
    pub(crate) fn abort_at(&self, misuse: Misuse, here: impl FnOnce() -> Stack) -> ! {
        self.abort_with(misuse, || {
            if self.sources.guards.owns(misuse.address) {
                self.sources.guards.report(&self.os, &misuse, &here());
            }
        })
    }

    /// `report` says more below the line. It comes last, for a stack may be what is broken.
    pub fn abort_with(&self, misuse: Misuse, report: impl FnOnce()) -> ! {
        let first =
            self.aborting_thread.compare_exchange(0, O::thread_id(), Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|first| first != O::thread_id()) {
            // One report and one crash handler at a time: the misuse that this thread found may be the same fault.
            self.park();
        }
        self.aborting_process.store(self.os.process_number(), Ordering::Relaxed);
        self.state.store(ABORTING, Ordering::Relaxed);
        // Before anything that takes time: threads that wait for their turn may not touch what is broken.
        self.upkeep.halt();
        if self.upkeep.thread.is_aside() {
            // The line is written to the program's descriptor, and its crash handler finds those that it knows.
            self.os.copy_descriptors();
        }
        self.cache.stop();
        self.tenants.stop();
        let mut line = [0u8; 256];
        let mut buffer = Buffer::new(&mut line);
        misuse.put(&mut buffer);
        put_str(&mut buffer, ", thread ");
        put_decimal(&mut buffer, self.os.thread_number());
        put_str(&mut buffer, "\n");
        self.os.write(2, buffer.as_bytes());
        report();
        self.os.abort()
    }

    /// Keeps this thread, in a process that aborts, until that ends. If it is another one, which shares this memory,
    /// its end is not ours, and the heap is as broken here.
    #[cold]
    pub(crate) fn park(&self) -> ! {
        loop {
            self.os.sleep(PARKED_SLEEP);
            self.os.end_if_left_behind();
            let [aborting, own] = [self.aborting_process.load(Ordering::Relaxed), self.os.process_number()];
            if aborting != own && aborting != 0 && own != 0 {
                self.os.abort();
            }
        }
    }
}
