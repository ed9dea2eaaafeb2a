//! A trace sorted by thread, in memory that the load program maps.
//!
//! ```text
//!   u64 threads   u64 objects   u64 steps   u64 unused
//!   threads x (u64 first step, u64 steps)
//!   steps x Step
//! ```

use super::art::{Operation, Trace};
use crate::memory::shared::Shared;
use anyhow::{Result, ensure};

/// One call of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    pub microseconds: u32,
    pub object: u32,
    pub bytes: u32,
    operation: u8,
    pub log2_alignment: u8,
    unused: u16,
}

impl Step {
    pub fn operation(self) -> Operation {
        // The writer below puts in nothing else; a free of nothing is the harmless answer.
        Operation::from_number(self.operation).unwrap_or(Operation::Free)
    }
}

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

/// Sorts a trace by thread; within a thread the order stays.
pub fn write(trace: &Trace) -> Result<Shared> {
    let mut counts = vec![0u64; trace.threads];
    trace.records.iter().for_each(|record| counts[usize::from(record.thread)] += 1);
    let mut next = Vec::with_capacity(trace.threads);
    let mut words = vec![trace.threads as u64, trace.objects as u64, trace.records.len() as u64, 0];
    let mut first = 0;
    for count in counts {
        words.extend([first, count]);
        next.push(first as usize);
        first += count;
    }
    let memory = Shared::create(words.len() * 8 + trace.records.len() * size_of::<Step>())?;
    // SAFETY: the mapping is new, writable, page-aligned and as long as both arrays together.
    let steps = unsafe {
        memory.address().cast::<u64>().copy_from_nonoverlapping(words.as_ptr(), words.len());
        let start = memory.address().add(words.len() * 8).cast::<Step>();
        std::slice::from_raw_parts_mut(start, trace.records.len())
    };
    for record in &trace.records {
        let place = &mut next[usize::from(record.thread)];
        steps[*place] = Step {
            microseconds: record.microseconds,
            object: record.object,
            bytes: record.bytes,
            operation: record.operation as u8,
            log2_alignment: record.log2_alignment,
            unused: 0,
        };
        *place += 1;
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::super::art;
    use super::*;

    #[test]
    fn each_thread_gets_its_own_steps_in_the_order_of_time() {
        let lines = [(0, 1, 0, 1, 1), (1, 2, 2, 1, 1), (0, 1, 2, 2, 1), (0, 3, 0, 1, 1)];
        let trace = art::read(&art::tests::synthetic(3, &lines)[..]).unwrap();
        let memory = write(&trace).unwrap();
        let script = Script::view(memory.bytes).unwrap();
        let steps = |thread| {
            let steps = script.of_thread(thread).iter();
            steps.map(|step| (step.microseconds, step.object, step.operation())).collect::<Vec<_>>()
        };
        use Operation::{Free, Malloc};
        assert_eq!((script.threads, script.objects), (3, 3));
        assert_eq!(steps(0), [(1, 0, Malloc), (4, 2, Malloc)]);
        assert_eq!(steps(1), []);
        assert_eq!(steps(2), [(2, 1, Malloc), (3, 0, Free)]);
    }

    #[test]
    fn a_script_that_is_cut_off_is_refused() {
        let trace = art::read(&art::tests::synthetic(1, &[(0, 1, 0, 1, 1)])[..]).unwrap();
        let memory = write(&trace).unwrap();
        assert!(Script::view(&memory.bytes[..40]).is_err());
        assert!(Script::view(&memory.bytes[..8]).is_err());
    }
}
