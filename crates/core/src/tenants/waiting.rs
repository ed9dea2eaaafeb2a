//! Waiting for another thread that is about to come back.

use crate::base::sync::pause;
use crate::os::Os;

/// Looks without the system.
const LOOKS: u32 = 64;
/// Between two further ones, in nanoseconds.
const WAIT: u64 = 20_000;

/// A wait that soon leaves the CPU to others: the thread that is waited for may want this one, with a lower priority.
pub(super) struct Waiting(u32);

impl Waiting {
    pub fn new() -> Waiting {
        Waiting(0)
    }

    pub fn wait(&mut self, os: &impl Os) {
        if self.0 < LOOKS {
            self.0 += 1;
            pause();
        } else {
            os.sleep(WAIT);
        }
    }
}
