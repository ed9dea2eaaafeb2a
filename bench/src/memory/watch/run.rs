//! The samples of one process over time, and the questions that the tables ask of them.

use crate::memory::board::Phase;
use crate::memory::smaps::{Memory, Used};

/// One look from outside.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Since the load began.
    pub seconds: f64,
    /// Since the last malloc call; none before it.
    pub since_stop: Option<f64>,
    pub phase: Phase,
    pub live: u64,
    pub memory: Memory,
    /// Since the process began.
    pub used: Used,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Finished,
    TimedOut,
    /// By the kernel, because its cgroup was full; how often.
    OutOfMemoryKilled(u64),
    /// In one line, why.
    Failed(String),
}

impl Outcome {
    pub fn text(&self) -> String {
        match self {
            Self::Finished => "finished".to_owned(),
            Self::TimedOut => "timed out".to_owned(),
            Self::OutOfMemoryKilled(times) => format!("killed: out of memory (oom_kill {times})"),
            Self::Failed(reason) => format!("failed: {reason}"),
        }
    }
}

/// One process on one allocator.
#[derive(Clone, Debug)]
pub struct Run {
    pub pass: usize,
    pub case: String,
    pub allocator: &'static str,
    pub outcome: Outcome,
    pub samples: Vec<Sample>,
    /// At the stop: what an allocator needs that cannot move blocks, what it says it gave, and how many
    /// blocks.
    pub page_bytes: u64,
    pub usable_bytes: u64,
    pub live_blocks: u64,
    /// `container`: the highest that the cgroup counted, and how often it was full.
    pub cgroup_peak: u64,
    pub cgroup_full: u64,
}

impl Run {
    pub fn is_finished(&self) -> bool {
        self.outcome == Outcome::Finished
    }

    /// Live bytes after the stop, when they do not change any more.
    pub fn live_at_stop(&self) -> Option<u64> {
        Some(self.idle().next()?.live)
    }

    fn idle(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.since_stop.is_some())
    }

    /// The first sample at least so long after the stop.
    pub fn at_idle(&self, seconds: f64) -> Option<&Sample> {
        self.idle().find(|sample| sample.since_stop.is_some_and(|since| since >= seconds))
    }

    pub fn last(&self) -> Option<&Sample> {
        self.samples.last()
    }

    /// The last sample before the stop.
    pub fn last_loaded(&self) -> Option<&Sample> {
        self.samples.iter().rfind(|sample| sample.since_stop.is_none())
    }

    /// The page faults and CPU time of the load: from its first sample to the first after the stop.
    pub fn used_by_load(&self) -> Option<Used> {
        let (first, last) = (self.samples.first()?.used, self.idle().next()?.used);
        Some(Used {
            faults: last.faults.saturating_sub(first.faults),
            cpu_seconds: last.cpu_seconds - first.cpu_seconds,
        })
    }

    pub fn at_peak_live(&self) -> Option<&Sample> {
        self.samples.iter().max_by_key(|sample| sample.live)
    }

    pub fn peak_heap(&self) -> Option<u64> {
        self.samples.iter().map(|sample| sample.memory.heap).max()
    }

    /// Seconds after the stop until the heap is at most `threshold` and stays there; none if it never is.
    pub fn idle_seconds_until(&self, threshold: u64) -> Option<f64> {
        let above = self.idle().filter(|sample| sample.memory.heap > threshold).last();
        let Some(above) = above.and_then(|sample| sample.since_stop) else {
            return self.idle().next().and_then(|sample| sample.since_stop);
        };
        self.idle().filter_map(|sample| sample.since_stop).find(|&since| since > above)
    }

    /// Mean over time of heap / live, while the process worked and had a notable amount live.
    pub fn mean_ratio(&self) -> Option<f64> {
        const NOTABLE: u64 = 4 << 20;
        let loaded = self.samples.iter().filter(|one| one.since_stop.is_none());
        let ratios = loaded.filter(|one| one.live > NOTABLE);
        let ratios: Vec<f64> = ratios.map(|one| one.memory.heap as f64 / one.live as f64).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Samples given as (since the stop or before it, live MiB, heap MiB), a second apart.
    pub fn run_of(samples: &[(Option<f64>, u64, u64)]) -> Run {
        let sample = |(index, &(since_stop, live, heap)): (usize, &(Option<f64>, u64, u64))| Sample {
            seconds: index as f64,
            since_stop,
            phase: if since_stop.is_some() { Phase::Idle } else { Phase::Loading },
            live: live << 20,
            memory: Memory { heap: heap << 20, ..Memory::default() },
            used: Used { faults: 100 * index as u64, cpu_seconds: index as f64 / 2.0 },
        };
        Run {
            pass: 0,
            case: "case".to_owned(),
            allocator: "glibc",
            outcome: Outcome::Finished,
            samples: samples.iter().enumerate().map(sample).collect(),
            page_bytes: 0,
            usable_bytes: 0,
            live_blocks: 0,
            cgroup_peak: 0,
            cgroup_full: 0,
        }
    }

    #[test]
    fn the_time_until_memory_is_back_is_that_of_the_first_sample_after_the_last_high_one() {
        let run = run_of(&[
            (None, 50, 10),
            (Some(0.0), 10, 50),
            (Some(1.0), 10, 15),
            (Some(2.0), 10, 30),
            (Some(3.0), 10, 12),
        ]);
        assert_eq!(run.idle_seconds_until(20 << 20), Some(3.0));
        assert_eq!(run.idle_seconds_until(60 << 20), Some(0.0));
        assert_eq!(run.idle_seconds_until(11 << 20), None);
    }

    #[test]
    fn the_mean_ratio_is_that_of_the_load_only_and_not_of_nearly_empty_moments() {
        let run = run_of(&[(None, 1, 40), (None, 10, 20), (None, 10, 40), (Some(0.0), 10, 900)]);
        assert_eq!(run.mean_ratio(), Some(3.0));
        assert_eq!(run_of(&[(Some(0.0), 10, 20)]).mean_ratio(), None);
    }

    #[test]
    fn samples_are_found_by_what_they_stand_for() {
        let run = run_of(&[(None, 50, 60), (None, 20, 70), (Some(0.1), 20, 65), (Some(1.1), 20, 30)]);
        assert_eq!(run.at_peak_live().map(|one| one.memory.heap >> 20), Some(60));
        assert_eq!(run.last_loaded().map(|one| one.memory.heap >> 20), Some(70));
        assert_eq!(run.at_idle(1.0).map(|one| one.memory.heap >> 20), Some(30));
        assert_eq!(run.at_idle(5.0).map(|one| one.live), None);
        assert_eq!((run.live_at_stop(), run.peak_heap()), (Some(20 << 20), Some(70 << 20)));
        assert_eq!(run.used_by_load(), Some(Used { faults: 200, cpu_seconds: 1.0 }));
    }
}
