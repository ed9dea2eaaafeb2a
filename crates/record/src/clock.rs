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
    /// Nanoseconds in 2^32 ticks, between the two.
    slope: u64,
}

impl Clock {
    pub fn new(kind: u32) -> Clock {
        let now = (stamp(kind), monotonic());
        Clock { kind, first: now, before: now, latest: now, slope: 0 }
    }

    /// The stamp of now; what comes before it is told by the line up to here.
    pub fn read(&mut self) -> u64 {
        self.before = self.latest;
        self.latest = (stamp(self.kind), monotonic());
        let ((s0, n0), (s1, n1)) = (self.before, self.latest);
        let (ticks, length) = (s1.saturating_sub(s0).max(1), n1.saturating_sub(n0));
        // Here and not for each event: a division of 128 bits takes as long as all else that is done for one.
        self.slope = ((u128::from(length) << 32) / u128::from(ticks)).min(u64::MAX.into()) as u64;
        s1
    }

    #[inline]
    pub fn nanoseconds(&self, stamp: u64) -> u64 {
        let (s0, n0) = self.before;
        let since = (i128::from(stamp.wrapping_sub(s0) as i64) * i128::from(self.slope)) >> 32;
        let at = (n0 - self.first.1).checked_add_signed(since as i64);
        at.unwrap_or(0)
    }

    pub fn now(&self) -> u64 {
        monotonic() - self.first.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_between_two_readings_is_on_the_line_between_them() {
        let clock = Clock {
            kind: 0,
            first: (5_000, 1_000),
            before: (5_000_000, 2_000_000),
            latest: (8_000_000, 3_000_000),
            slope: (1 << 32) / 3,
        };
        for (stamp, nanoseconds) in [(5_000_000, 1_999_000), (6_500_000, 2_499_000), (8_000_000, 2_999_000)] {
            assert!(clock.nanoseconds(stamp).abs_diff(nanoseconds) <= 1, "{stamp}");
        }
        assert!(clock.nanoseconds(4_400_000).abs_diff(1_799_000) <= 1, "before the first of them");
        assert!(clock.nanoseconds(0).abs_diff(332_333) <= 2, "long before");
    }

    #[test]
    fn nanoseconds_follow_the_clock() {
        let mut clock = Clock::new(best());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let stamp = clock.read();
        assert!(clock.nanoseconds(stamp).abs_diff(clock.now()) < 5_000_000);
    }
}
