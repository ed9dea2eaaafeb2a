//! A number that threads can wait for: a futex without a lock around it.
//!
//! A condition variable would do, but its waiters take the lock again one after the other; with 1,024 of them
//! on a few CPUs that the first ones keep busy, the last start seconds late.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts up; waiters wait for a least value.
#[derive(Default)]
pub struct Signal(AtomicU32);

impl Signal {
    pub fn raise(&self) {
        // Release, pairs with the Acquire in `wait_for`: who waited sees what was done before.
        self.0.fetch_add(1, Ordering::Release);
        self.futex(libc::FUTEX_WAKE, i32::MAX as u32);
    }

    pub fn wait_for(&self, least: u32) {
        loop {
            let value = self.0.load(Ordering::Acquire);
            if value >= least {
                return;
            }
            self.futex(libc::FUTEX_WAIT, value);
        }
    }

    fn futex(&self, operation: libc::c_int, value: u32) {
        let no_timeout = std::ptr::null::<libc::timespec>();
        // SAFETY: the address is that of a live atomic; every outcome, also an error, is answered by looking
        // again.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                no_timeout,
            );
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
}
