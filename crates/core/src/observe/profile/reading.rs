//! Samples, stacks and figures for readers in this process.

use super::Profile;
use super::tally::{OfStack, Record};
use crate::base::stack::Stack;
use crate::os::Os;

/// Records that a reader copies in one go.
const COPIED: usize = 8;

/// A sample as a reader sees it.
pub struct LiveSample<'a> {
    pub address: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// Bytes of the heap that this sample stands for.
    pub weight: u64,
    /// When it was allocated, on the system's clock that never goes back.
    pub nanoseconds: u64,
    /// Return addresses, innermost first.
    pub stack: &'a [usize],
}

/// The profile in figures; bytes and objects are scaled.
#[derive(Clone, Copy, Default, Debug)]
pub struct ProfileStats {
    /// Mean bytes between samples.
    pub interval: u64,
    pub live_samples: u64,
    /// Samples that found a table full.
    pub dropped: u64,
    /// How often the interval was doubled, for samples to find room.
    pub raised: u32,
    pub allocated_objects: u64,
    pub allocated_bytes: u64,
    pub live_objects: u64,
    pub live_bytes: u64,
}

impl<O: Os> Profile<O> {
    /// Calls `take` for every sample that is live from the beginning to the end of this call, with no lock
    /// held. Each look at the tables under the lock is made by `within`, which can refuse: then that was all.
    pub fn each_live(&self, within: impl Fn(&mut dyn FnMut()), mut take: impl FnMut(&LiveSample)) {
        let (mut births, mut count) = (0, 0);
        within(&mut || {
            let state = self.state.lock();
            (births, count) = (state.births, state.records);
        });
        let mut next = 1;
        while next < count {
            let mut copies = [const { None }; COPIED];
            let before = next;
            within(&mut || self.copy_live(&mut next, count, births, &mut copies));
            if next == before {
                return;
            }
            for (record, stack) in copies.iter().flatten() {
                take(&LiveSample {
                    address: record.address,
                    bytes: record.bytes,
                    weight: record.weight,
                    nanoseconds: record.nanoseconds,
                    stack: stack.frames(),
                });
            }
        }
    }

    /// Copies the next live records up to number `count`, none younger than `births`.
    fn copy_live(&self, next: &mut u32, count: u32, births: u64, copies: &mut [Option<(Record, Stack)>]) {
        let mut places = copies.iter_mut();
        let state = self.state.lock();
        while *next < count.min(state.records) {
            let record = *self.record(&state, *next);
            if record.birth != 0 && record.birth <= births {
                let Some(place) = places.next() else { return };
                *place = Some((record, self.of_stack(&state, record.stack).stack));
            }
            *next += 1;
        }
        // The rest, if any, went away with a new start.
        if *next >= state.records {
            *next = count;
        }
    }

    /// Calls `take` for every stack that was ever sampled, with no lock held. `within` is what `each_live` asks for.
    pub fn each_stack(&self, within: impl Fn(&mut dyn FnMut()), mut take: impl FnMut(&OfStack)) {
        for number in 1.. {
            let mut copy = None;
            within(&mut || {
                let state = self.state.lock();
                if number < state.stacks {
                    copy = Some(*self.of_stack(&state, number));
                }
            });
            let Some(of_stack) = copy else { return };
            take(&of_stack);
        }
    }

    pub fn stats(&self) -> ProfileStats {
        let state = self.state.lock();
        let live = state.allocated.without(state.freed);
        ProfileStats {
            interval: self.interval(),
            live_samples: state.live,
            dropped: state.dropped,
            raised: state.raised,
            allocated_objects: state.allocated.objects(),
            allocated_bytes: state.allocated.bytes,
            live_objects: live.objects(),
            live_bytes: live.bytes,
        }
    }
}
