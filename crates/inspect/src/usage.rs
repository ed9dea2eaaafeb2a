//! Looking at processes from outside: processor time, memory, threads, and of those on vcmalloc the tiers of their heaps.
//!
//! Promises to fail for a process that is gone, never to report zeros for it.

use crate::process::Process;
use crate::window::Seen;
use anyhow::{Context, Result};

/// The usage of a process, or of several together, at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub rss_mib: f64,
    pub pss_mib: f64,
    pub anonymous_mib: f64,
    pub huge_mib: f64,
    pub peak_mib: f64,
    pub threads: u64,
    pub minor_faults: u64,
    /// Of what runs on vcmalloc.
    pub heap: Option<Heap>,
}

/// The memory of heaps by its state, read out of the processes' memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Heap {
    pub live_mib: f64,
    pub cached_mib: f64,
    /// In spans, and as pages that nobody uses and that are in memory.
    pub free_mib: f64,
}

impl Heap {
    /// None on another allocator, and where it may not be seen.
    fn of(process: Process) -> Option<Heap> {
        let stats = Seen::open(process).ok()?.snapshot().ok()?.stats;
        Some(Heap {
            live_mib: mib(stats.live_requested),
            cached_mib: mib(stats.vcpu_caches + stats.transfer),
            free_mib: mib(stats.free_in_spans + stats.dirty_free),
        })
    }

    fn plus(self, other: Heap) -> Heap {
        Heap {
            live_mib: self.live_mib + other.live_mib,
            cached_mib: self.cached_mib + other.cached_mib,
            free_mib: self.free_mib + other.free_mib,
        }
    }

    /// For a reader.
    pub fn words(self) -> String {
        let Heap { live_mib, cached_mib, free_mib } = self;
        format!("{live_mib:.1} MiB live, {cached_mib:.1} in caches, {free_mib:.1} free and kept")
    }

    /// For the rows.
    pub fn values(self) -> [(&'static str, f64); 3] {
        [
            ("heap_live_mib", self.live_mib),
            ("heap_cached_mib", self.cached_mib),
            ("heap_free_mib", self.free_mib),
        ]
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Usage {
    pub fn of(pid: i32) -> Result<Usage> {
        let gone = || format!("cannot look at process {pid}");
        let process = Process::new(pid);
        let rollup = process.rollup().with_context(gone)?;
        let mib = |bytes: Option<u64>| mib(bytes.unwrap_or(0));
        // Counted from the state, which is 0 (proc_pid_stat(5)).
        let field = |index| process.status_field(index).with_context(gone);
        Ok(Usage {
            user_seconds: field(11)? as f64 / ticks_per_second(),
            system_seconds: field(12)? as f64 / ticks_per_second(),
            rss_mib: mib(rollup.bytes("Rss")),
            pss_mib: mib(rollup.bytes("Pss")),
            anonymous_mib: mib(rollup.bytes("Anonymous")),
            huge_mib: mib(rollup.bytes("AnonHugePages")),
            peak_mib: mib(process.status_bytes("VmHWM")),
            threads: process.threads().with_context(gone)?,
            minor_faults: field(7)?,
            heap: Heap::of(process),
        })
    }

    pub fn of_all(pids: impl IntoIterator<Item = i32>) -> Result<Usage> {
        pids.into_iter().try_fold(Usage::default(), |sum, pid| Ok(sum.plus(&Usage::of(pid)?)))
    }

    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    fn plus(&self, other: &Usage) -> Usage {
        Usage {
            user_seconds: self.user_seconds + other.user_seconds,
            system_seconds: self.system_seconds + other.system_seconds,
            rss_mib: self.rss_mib + other.rss_mib,
            pss_mib: self.pss_mib + other.pss_mib,
            anonymous_mib: self.anonymous_mib + other.anonymous_mib,
            huge_mib: self.huge_mib + other.huge_mib,
            peak_mib: self.peak_mib + other.peak_mib,
            threads: self.threads + other.threads,
            minor_faults: self.minor_faults + other.minor_faults,
            heap: self.heap.zip(other.heap).map(|(one, other)| one.plus(other)).or(self.heap).or(other.heap),
        }
    }
}

fn ticks_per_second() -> f64 {
    // SAFETY: asks for a constant.
    (unsafe { libc::sysconf(libc::_SC_CLK_TCK) }) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_has_threads() {
        let usage = Usage::of(std::process::id() as i32).unwrap();
        assert!(usage.rss_mib > 0.5 && usage.pss_mib > 0.1 && usage.threads >= 1, "{usage:?}");
        assert!(usage.peak_mib >= usage.rss_mib * 0.9);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(Usage::of(i32::MAX).is_err());
    }
}
