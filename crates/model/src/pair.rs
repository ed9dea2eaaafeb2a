//! Two real threads that do the calls of a tape on the malloc of their process, one call at a time: what is
//! stepped through to see what an allocator that is preloaded does to the lines of both.

use crate::seen::Seen;
use crate::stepper::{self, Whose};
use crate::tape::{self, Step, Tape};
use anyhow::Result;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const THREADS: usize = 2;
const MOST_STEPS: usize = 60_000;
const WINDOW: usize = 256;

/// A block that belongs to whose turn it is.
struct Slots(Vec<AtomicUsize>);

struct Turns<'a> {
    /// Each run of steps of one thread: its end.
    ends: &'a [usize],
    /// The run whose turn it is.
    now: AtomicUsize,
    /// Runs from this one on are stepped through, and from that one on they count: so many calls.
    traced_from: usize,
    counted_from: usize,
    counted_calls: u64,
}

/// Runs the tape; the last `traced` steps, about, are stepped through.
pub fn run(tape: &Tape, traced: usize) -> Result<Seen> {
    let steps = &in_longer_turns(&tape.steps[tape.steps.len().saturating_sub(MOST_STEPS)..]);
    let ends: Vec<usize> = (1..=steps.len())
        .filter(|&end| end == steps.len() || thread_of(&steps[end]) != thread_of(&steps[end - 1]))
        .collect();
    let from = steps.len().saturating_sub(traced);
    let traced_from = ends.partition_point(|end| *end <= from);
    let stretches = ends.len() - traced_from;
    let counted_from = ends[traced_from + stretches / 2 - 1];
    let counted_calls = (steps.len() - counted_from) as u64;
    let slots = Slots((0..tape.slots).map(|_| AtomicUsize::new(0)).collect());
    let counted_from = traced_from + stretches / 2;
    let turns = Turns { ends: &ends, now: AtomicUsize::new(0), traced_from, counted_from, counted_calls };
    stepper::prepare(Whose::Library, Vec::new())?;
    std::thread::scope(|scope| {
        let (turns, slots) = (&turns, &slots);
        // The thread of the first run begins.
        let threads: Vec<_> =
            (0..THREADS).map(|turn| scope.spawn(move || turns.take(steps, slots, turn))).collect();
        let handles: Vec<_> = threads.iter().map(|thread| thread.thread().clone()).collect();
        HANDLES.set(handles).ok();
        threads.iter().for_each(|thread| thread.thread().unpark());
    });
    Ok(stepper::seen())
}

/// The thread that ends a run wakes the other.
static HANDLES: std::sync::OnceLock<Vec<std::thread::Thread>> = std::sync::OnceLock::new();

fn thread_of(step: &Step) -> usize {
    usize::from(step.seat) % THREADS
}

/// The same steps with fewer changes of threads: within a window each thread goes on until it wants a slot
/// that the other has yet to use before.
fn in_longer_turns(steps: &[Step]) -> Vec<Step> {
    let mut all = Vec::with_capacity(steps.len());
    for window in steps.chunks(WINDOW) {
        let mut waiting = std::collections::HashMap::<u32, std::collections::VecDeque<usize>>::new();
        let mut queues: [std::collections::VecDeque<usize>; THREADS] = Default::default();
        for (index, step) in window.iter().enumerate() {
            waiting.entry(step.slot).or_default().push_back(index);
            queues[thread_of(step)].push_back(index);
        }
        // The first of all that wait can always go.
        let mut thread = 0;
        while queues.iter().any(|queue| !queue.is_empty()) {
            while let Some(&index) = queues[thread].front() {
                let slot = waiting.get_mut(&window[index].slot).expect("each is in one");
                if slot.front() != Some(&index) {
                    break;
                }
                slot.pop_front();
                queues[thread].pop_front();
                all.push(window[index]);
            }
            thread = (thread + 1) % THREADS;
        }
    }
    all
}

impl Turns<'_> {
    fn take(&self, steps: &[Step], slots: &Slots, turn: usize) {
        stepper::is_actor(turn as u16);
        for run in (turn..self.ends.len()).step_by(THREADS) {
            while self.now.load(Acquire) != run {
                std::thread::park();
            }
            let begin = run.checked_sub(1).map_or(0, |before| self.ends[before]);
            let steps = &steps[begin..self.ends[run]];
            if run == self.counted_from {
                stepper::count(self.counted_calls);
            }
            if run >= self.traced_from {
                stepper::stepped(|| steps.iter().for_each(|step| slots.step(step)));
            } else {
                steps.iter().for_each(|step| slots.step(step));
            }
            self.now.store(run + 1, Release);
            HANDLES.wait()[(turn + 1) % THREADS].unpark();
        }
    }
}

impl Slots {
    #[inline(always)]
    fn step(&self, step: &Step) {
        let slot = &self.0[step.slot as usize];
        let (block, bytes) = (slot.load(Relaxed), step.bytes as usize);
        let pointer = std::ptr::with_exposed_provenance_mut(block);
        // SAFETY: blocks come from this heap; each is freed or resized once, by whose turn it is.
        let block = unsafe {
            match step.what {
                tape::FREE => {
                    libc::free(pointer);
                    std::ptr::null_mut()
                }
                tape::MALLOC => libc::malloc(bytes),
                tape::CALLOC => libc::calloc(1, bytes),
                tape::ALIGNED => libc::memalign(1 << step.log2_alignment.min(30), bytes),
                _ => libc::realloc(pointer, bytes),
            }
        };
        slot.store(block.expose_provenance(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_turns_keep_the_order_of_each_thread_and_of_each_slot() {
        let step =
            |(slot, seat): (u32, u16)| Step { slot, seat, what: tape::MALLOC, log2_alignment: 0, bytes: 1 };
        let steps: Vec<Step> =
            [(0, 0), (1, 1), (2, 0), (0, 1), (3, 0), (1, 0)].into_iter().map(step).collect();
        let turned = in_longer_turns(&steps);
        let expected: Vec<Step> =
            [(0, 0), (2, 0), (3, 0), (1, 1), (0, 1), (1, 0)].into_iter().map(step).collect();
        assert_eq!(turned, expected);
    }
}
