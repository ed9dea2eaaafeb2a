//! How much the caches may hold: `cache_limit`, and what follows from it for each cache.

use super::{Floors, Upkeep};
use crate::base::fault::Misuse;
use crate::base::rare;
use crate::base::sync::Ordering;
use crate::options::{AUTO, CACHE_BYTES_PER_CPU, OptionId};
use crate::os::Os;

/// How often caches are emptied for a lower bound, and how long is waited between, in nanoseconds.
const ROUNDS: u32 = 2000;
const WAIT: u64 = 500_000;

impl<O: Os> Upkeep<O> {
    /// Sets the bound that holds for so many CPUs.
    fn apply_bound(&self, floors: &Floors<O>, cpus: usize) {
        let limit = match floors.options.get(OptionId::cache_limit) {
            AUTO => cpus.saturating_mul(CACHE_BYTES_PER_CPU),
            bytes => bytes as usize,
        };
        floors.central.budget.set_limit(limit);
        floors.cache.set_share(limit, cpus);
    }

    /// Sets the bound of a heap that has just started.
    pub fn start_bound(&self, floors: &Floors<O>) {
        self.apply_bound(floors, 1);
    }

    /// Settles the bound once half of that for one CPU is taken, and whenever more virtual CPUs are used than it was settled
    /// for. Asked at every miss, so what is seldom written is read first.
    #[inline]
    pub fn settle_bound_if_needed(&self, floors: &Floors<O>) {
        let budget = &floors.central.budget;
        if !floors.cache.is_share_settled.load(Ordering::Relaxed)
            && (floors.cache.cpus_seen() > 1 || budget.taken() > budget.limit() / 2)
        {
            self.settle_bound(floors);
        }
    }

    /// Asks the system for the CPUs once the process shows that it has use for more than one slab or its
    /// room.
    pub fn settle_bound(&self, floors: &Floors<O>) {
        if !floors.cache.is_share_settled.swap(true, Ordering::Relaxed) && !self.is_bound_closed() {
            rare();
            self.learn_cpus(floors);
        }
    }

    fn learn_cpus(&self, floors: &Floors<O>) {
        floors.os.learn_domains();
        self.apply_bound(floors, floors.os.usable_cpus(floors.cache.cpus_seen()));
    }

    /// Asks for the CPUs anew: another cpuset, quota or mask may hold by now. Only where they were asked for before.
    pub(super) fn learn_cpus_at_tick(&self, floors: &Floors<O>) {
        if floors.cache.is_share_settled.load(Ordering::Relaxed) && !self.is_bound_closed() {
            self.learn_cpus(floors);
        }
    }

    /// Lets another `cache_limit` take effect.
    pub fn change_bound(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        floors.cache.is_share_settled.store(true, Ordering::Relaxed);
        self.learn_cpus(floors);
        self.keep_bound(floors)
    }

    fn is_bound_closed(&self) -> bool {
        self.bound_is_closed.load(Ordering::Relaxed)
    }

    /// From now on nothing is cached that is not cached already.
    pub fn close_bound(&self, floors: &Floors<O>) {
        self.bound_is_closed.store(true, Ordering::Relaxed);
        floors.cache.is_share_settled.store(true, Ordering::Relaxed);
        floors.central.budget.set_limit(0);
        floors.cache.set_share(0, 1);
    }

    fn is_over_bound(&self, floors: &Floors<O>) -> bool {
        floors.central.budget.taken() > floors.central.budget.limit()
    }

    /// Room that was taken under the old bound comes back only when the caches are emptied. Growth meanwhile is
    /// refused, so one round is enough for caches by virtual CPU, unless the system refuses to stop the sequences.
    /// A cache under a lock is passed over while its holder does not run; it will, while we wait and hold no lock.
    /// Not for ever: somebody may have stopped that thread. Then the next tick does it.
    fn keep_bound(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        let refused = || self.fences_refused.load(Ordering::Relaxed);
        let before = refused();
        for _ in 0..ROUNDS {
            if !self.is_over_bound(floors) {
                break;
            }
            self.drain_everything(floors)?;
            if !self.is_over_bound(floors) || refused() != before || floors.cache.is_interrupted() {
                break;
            }
            floors.os.sleep(WAIT);
        }
        Ok(())
    }

    /// Empties the caches where a lower bound found some of them in use.
    pub(super) fn keep_bound_at_tick(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        if self.is_over_bound(floors) { self.drain_everything(floors) } else { Ok(()) }
    }
}
