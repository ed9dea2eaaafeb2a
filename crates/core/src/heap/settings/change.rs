//! Settings of a heap that runs.

use crate::base::sync::Ordering;
use crate::heap::Heap;
use crate::options::{Origin, Refused};
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Sets an option of the running heap. Lowering `cache_limit` empties the caches before this returns.
    pub fn set_option(&self, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        let id = self.options.set(name, value, Origin::Api)?;
        if self.inside(|| self.apply_option(id)).is_none() {
            // A signal handler that interrupted a slow path: it takes effect when that ends.
            // Release and Acquire: the thread that takes the bit sees the value.
            self.late_options.fetch_or(1 << id as u32, Ordering::Release);
        }
        Ok(())
    }

    /// Learns all that depends on asking the system, before a filter of system calls stands in the way.
    pub fn learn_all(&self) {
        if self.is_started() {
            self.inside(|| self.learn_now());
        }
    }

    /// When the library is loaded: asks for what may be needed, for the last time, if the option says so.
    pub fn after_load(&self) {
        if self.is_started() {
            self.inside(|| self.apply_system_calls());
        }
    }

    /// Sets the function that is called when the soft limit was passed, with the heap's bytes in memory and
    /// the limit; by the janitor or by the thread that allocates, with no lock held.
    pub fn on_pressure(&self, callback: Option<extern "C" fn(usize, usize)>) {
        self.upkeep.callback.set(callback);
    }
}
