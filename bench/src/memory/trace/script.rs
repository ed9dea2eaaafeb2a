//! A trace sorted by thread, in memory that the load program maps.
//!
//! ```text
//!   u64 threads   u64 objects   u64 steps   u64 unused
//!   threads x (u64 first step, u64 steps)
//!   steps x Step
//! ```

use super::recording::Recording;
use super::step::Step;
use crate::memory::shared::Shared;
use anyhow::{Result, ensure};

const HEADER_WORDS: usize = 4;

/// The steps of each thread, in the order of time.
#[derive(Clone, Copy)]
pub struct Script {
    pub threads: usize,
    pub objects: usize,
    ranges: &'static [[u64; 2]],
    steps: &'static [Step],
}

impl Script {
    pub fn of_thread(&self, thread: usize) -> &'static [Step] {
        let [first, count] = self.ranges[thread];
        &self.steps[first as usize..][..count as usize]
    }

    /// Maps what [`write`] made.
    pub fn view(memory: &'static [u8]) -> Result<Self> {
        ensure!(memory.len() >= HEADER_WORDS * 8, "the script has no header");
        // SAFETY: page-aligned and long enough; any bytes are valid integers.
        let header = unsafe { &*memory.as_ptr().cast::<[u64; HEADER_WORDS]>() };
        let [threads, objects, steps, _] = header.map(|word| word as usize);
        let body = HEADER_WORDS * 8 + threads * 16;
        ensure!(memory.len() >= body + steps * size_of::<Step>(), "the script is cut off");
        // SAFETY: as checked just now; Step has only integers, and both arrays are aligned for theirs.
        unsafe {
            let ranges = std::slice::from_raw_parts(memory.as_ptr().add(HEADER_WORDS * 8).cast(), threads);
            let steps = std::slice::from_raw_parts(memory.as_ptr().add(body).cast(), steps);
            Ok(Self { threads, objects, ranges, steps })
        }
    }
}

/// Sorts the steps by thread; within a thread the order stays.
pub fn write(recording: &Recording) -> Result<Shared> {
    let Recording { steps: all, objects, .. } = recording;
    let threads = recording.threads();
    let mut counts = vec![0u64; threads];
    all.iter().for_each(|(thread, _)| counts[*thread] += 1);
    let mut next = Vec::with_capacity(threads);
    let mut words = vec![threads as u64, *objects as u64, all.len() as u64, 0];
    let mut first = 0;
    for count in counts {
        words.extend([first, count]);
        next.push(first as usize);
        first += count;
    }
    let memory = Shared::create(words.len() * 8 + all.len() * size_of::<Step>())?;
    // SAFETY: the mapping is new, writable, page-aligned and as long as both arrays together.
    let steps = unsafe {
        memory.address().cast::<u64>().copy_from_nonoverlapping(words.as_ptr(), words.len());
        let start = memory.address().add(words.len() * 8).cast::<Step>();
        std::slice::from_raw_parts_mut(start, all.len())
    };
    for (thread, step) in all {
        steps[next[*thread]] = *step;
        next[*thread] += 1;
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::super::recording::tests::recording;
    use super::*;
    use crate::memory::trace::step::Operation;
    use vcm_trace::{Event, Object};

    #[test]
    fn each_thread_gets_its_own_steps_in_the_order_of_time() {
        let malloc = |bytes| Event::Malloc { bytes };
        let free = Event::Free { object: Object { stream: 1, ordinal: 0 } };
        let silent = Event::Name { name: "silent".to_owned() };
        let events = [(1, malloc(1)), (2, silent), (3, malloc(2)), (3, free), (1, malloc(3))];
        let memory = write(&recording(&events)).unwrap();
        let script = Script::view(memory.bytes).unwrap();
        let steps = |thread| {
            let steps = script.of_thread(thread).iter();
            steps.map(|step| (step.bytes, step.operation())).collect::<Vec<_>>()
        };
        use Operation::{Free, Malloc};
        assert_eq!((script.threads, script.objects), (3, 3));
        assert_eq!(steps(0), [(1, Malloc), (3, Malloc)]);
        assert_eq!(steps(1), []);
        assert_eq!(steps(2), [(2, Malloc), (1, Free)]);
    }

    #[test]
    fn a_script_that_is_cut_off_is_refused() {
        let memory = write(&recording(&[(1, Event::Malloc { bytes: 1 })])).unwrap();
        assert!(Script::view(&memory.bytes[..40]).is_err());
        assert!(Script::view(&memory.bytes[..8]).is_err());
    }
}
