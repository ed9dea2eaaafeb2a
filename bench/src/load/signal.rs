//! A number that threads can wait for: a futex without a lock around it.
//!
//! A condition variable would do, but its waiters take the lock again one after the other; with 1,024 of them
//! on a few CPUs that the first ones keep busy, the last start seconds late.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Counts up; waiters wait for a least value.
#[derive(Default)]
pub struct Signal(AtomicU32);

impl Signal {
    pub fn raise(&self) {
        // Release, pairs with the Acquire in `wait_for`: the thread that waited sees what was done before.
        self.0.fetch_add(1, Ordering::Release);
        self.futex(libc::FUTEX_WAKE, i32::MAX as u32, None);
    }

    pub fn wait_for(&self, least: u32) {
        self.wait_until(least, None);
    }

    /// Waits until it was raised so often, or until the deadline, if there is one.
    pub fn wait_until(&self, least: u32, deadline: Option<Instant>) {
        loop {
            let value = self.0.load(Ordering::Acquire);
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if value >= least || left.is_some_and(|left| left.is_zero()) {
                return;
            }
            let left = left.map(|left| libc::timespec {
                tv_sec: left.as_secs() as libc::time_t,
                tv_nsec: left.subsec_nanos().into(),
            });
            self.futex(libc::FUTEX_WAIT, value, left);
        }
    }

    fn futex(&self, operation: libc::c_int, value: u32, left: Option<libc::timespec>) {
        let timeout = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the address is that of a live atomic, the time lives until the call is over; every outcome,
        // also an error, is answered by looking again.
        unsafe {
            let operation = operation | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, value, timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_goes_on_when_the_value_is_reached_and_not_before() {
        let (count, seen) = (Signal::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                count.wait_for(2);
                seen.store(1, Ordering::SeqCst);
            });
            count.raise();
            assert_eq!(seen.load(Ordering::SeqCst), 0);
            count.raise();
        });
        assert_eq!(seen.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn nobody_waits_beyond_the_deadline() {
        let never = Signal::default();
        never.wait_until(1, Some(Instant::now() + std::time::Duration::from_millis(20)));
    }
}
