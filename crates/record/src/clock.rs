//! Stamps, and what time they are.

use crate::layout::COUNTER;

/// The counter of the CPU, where the kernel itself trusts it: then it goes alike on all of them and never stops.
pub fn best() -> u32 {
    let words = |path| std::fs::read_to_string(path).unwrap_or_default();
    let trusted = words("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    let processor = words("/proc/cpuinfo");
    let has = |flag: &str| {
        processor.lines().find(|line| line.starts_with("flags")).is_some_and(|line| line.contains(flag))
    };
    let is_fit = cfg!(target_arch = "x86_64")
        && trusted.split_whitespace().any(|name| name == "tsc")
        && has(" rdtscp")
        && has(" constant_tsc")
        && has(" nonstop_tsc");
    if is_fit { COUNTER } else { 0 }
}

pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives across the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn stamp(clock: u32) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if clock == COUNTER {
        let mut cpu = 0;
        // SAFETY: `best` has looked for it.
        return unsafe { core::arch::x86_64::__rdtscp(&mut cpu) };
    }
    let _ = clock;
    monotonic()
}

/// Stamps as nanoseconds since it was made: a line between the moments at which both were read.
pub struct Clock {
    kind: u32,
    first: (u64, u64),
    before: (u64, u64),
    latest: (u64, u64),
}

impl Clock {
    pub fn new(kind: u32) -> Clock {
        let now = (stamp(kind), monotonic());
        Clock { kind, first: now, before: now, latest: now }
    }

    /// The stamp of now; what comes before it is told by the line up to here.
    pub fn read(&mut self) -> u64 {
        self.before = self.latest;
        self.latest = (stamp(self.kind), monotonic());
        self.latest.0
    }

    pub fn nanoseconds(&self, stamp: u64) -> u64 {
        let ((s0, n0), (s1, n1)) = (self.before, self.latest);
        let (ticks, length) = (s1.saturating_sub(s0).max(1), n1.saturating_sub(n0));
        let since = i128::from(stamp) - i128::from(s0);
        let at = i128::from(n0) + since * i128::from(length) / i128::from(ticks);
        (at - i128::from(self.first.1)).clamp(0, u64::MAX.into()) as u64
    }

    pub fn now(&self) -> u64 {
        monotonic() - self.first.1
    }
}
