//! Taking back what caches hold: freeze a slab by swapping one pointer, fence, empty it, put the pointer
//! back.

use super::slab::{Slab, Word};
use super::{Cache, Middle};
use crate::base::fault::Misuse;
use crate::base::locks as lock;
use crate::base::sync::{Ordering, pause};
use crate::base::ticks::{Tick, Ticks};
use crate::class::SizeClass;
use crate::os::{Guard, Os};

/// The findings of `drain_still`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Look {
    /// A word has changed since the last look.
    pub moved: bool,
    /// The system refused to stop the sequences: blocks that stand still in caches without locks stay there.
    pub refused: bool,
}

/// After how many ticks a cache is emptied that nobody has used.
#[derive(Clone, Copy)]
pub struct Stillness {
    /// All classes of a virtual CPU: it is idle.
    pub slab: Ticks,
    /// One class, while others move.
    pub class: Ticks,
    /// Classes that are emptied whether or not they stand still, a bit each.
    pub anyhow: u128,
}

impl Stillness {
    fn of(self, slab: Slab) -> Which {
        let ticks = match classes(slab).all(|class| slab.ticks_still(class) >= self.slab) {
            true => self.slab,
            false => self.class,
        };
        Which { ticks, anyhow: self.anyhow }
    }
}

/// The classes of one slab that are emptied.
#[derive(Clone, Copy)]
struct Which {
    /// Classes that have stood still for so many ticks.
    ticks: Ticks,
    /// Further classes, a bit each.
    anyhow: u128,
}

impl Which {
    const ALL: Which = Which { ticks: Ticks(0), anyhow: 0 };

    fn has(self, slab: Slab, class: SizeClass) -> bool {
        slab.ticks_still(class) >= self.ticks || self.anyhow >> class.index() & 1 != 0
    }
}

/// The classes of a slab that are set up.
fn classes(slab: Slab) -> impl Iterator<Item = SizeClass> {
    SizeClass::all().filter(move |class| slab.read(*class) != Word::UNSET)
}

/// Whether these classes have something that somebody else may want; or all of them stand still, and had long arrays.
fn has_something(slab: Slab, which: Which) -> bool {
    let holds = |class| which.ticks == Ticks(0) || slab.read(class).holds_anything(class);
    classes(slab).filter(|class| which.has(slab, *class)).any(holds)
        || slab.has_used_big_arrays() && classes(slab).all(|class| slab.ticks_still(class) >= which.ticks)
}

impl<O: Os> Cache<O> {
    /// Returns all cached blocks of all slabs to their spans and their room to the budget. False where the
    /// system refused to stop the sequences: then only slabs under locks were emptied.
    pub fn drain(&self, store: &impl Middle<O>) -> Result<bool, Misuse> {
        let at = store.pages().clock.load();
        let _held = self.freezer.lock();
        self.drain_slots(store, |_| Which::ALL, |_| at)
    }

    /// Returns all cached blocks and lets no slab be used any more; false where the system refused to stop the sequences: then
    /// the slabs must stay as they are for good.
    pub fn retire(&self, store: &impl Middle<O>) -> Result<bool, Misuse> {
        let _held = self.freezer.lock();
        let stopped = self.drain_slots(store, |_| Which::ALL, |_| store.pages().clock.load());
        self.freeze_all();
        stopped
    }

    /// Lets no slab be used any more, none of which ever was since `reopen`. Emptied, they had no room for a block that came
    /// before this.
    pub fn close(&self) {
        let _held = self.freezer.lock();
        self.freeze_all();
    }

    fn freeze_all(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
        let base = self.base.load(Ordering::Relaxed);
        self.each_made(|slot, _| self.in_use(slot).store(base, Ordering::Release));
    }

    /// Lets slabs be used again after `retire`, for another heap. A sequence of the one before finds another's.
    pub fn reopen(&self, owner: u64) {
        let _held = self.freezer.lock();
        self.is_retired.store(false, Ordering::Relaxed);
        self.owner.store(owner, Ordering::Relaxed);
        self.each_made(|slot, slab| {
            slab.set_owner(owner);
            self.in_use(slot).store(slab.0, Ordering::Release);
        });
    }

    /// Returns blocks and room of what nobody has used for so many ticks, of which each call is one; `since` tells from
    /// which tick on blocks count as free that stood still for so long.
    pub fn drain_still(
        &self,
        store: &impl Middle<O>,
        patience: Stillness,
        since: impl Fn(Ticks) -> Tick,
    ) -> Result<Look, Misuse> {
        let _held = self.freezer.lock();
        let (mut moved, mut any_still) = (false, false);
        self.each_made(|_, slab| {
            moved |= slab.note_words();
            any_still |= has_something(slab, patience.of(slab));
        });
        let stopped = !any_still || self.drain_slots(store, |slab| patience.of(slab), since)?;
        Ok(Look { moved, refused: !stopped })
    }

    /// Freezes slabs, all with one fence, and empties in each the classes that `which` says. Slabs that have nothing there are
    /// left alone. The caller holds the freezer.
    fn drain_slots(
        &self,
        store: &impl Middle<O>,
        which: impl Fn(Slab) -> Which,
        since: impl Fn(Ticks) -> Tick,
    ) -> Result<bool, Misuse> {
        let (base, cpus) = (self.base.load(Ordering::Relaxed), self.cpus.load(Ordering::Relaxed));
        let mut outcome = Ok(());
        self.each_made(|slot, slab| {
            if has_something(slab, which(slab)) {
                self.in_use(slot).store(base, Ordering::Release);
            }
        });
        // After the fence no sequence that saw one of these slabs is under way, so they are ours alone.
        let stopped = cpus == 0 || store.os().fence_sequences();
        self.each_made(|slot, slab| {
            if self.in_use(slot).load(Ordering::Relaxed) == slab.0 {
                return;
            }
            let which = which(slab);
            if slot < cpus {
                if stopped {
                    outcome = outcome.and(self.empty(store, slab, which, since(which.ticks)));
                }
            } else if let Some(_held) = self.patient_lock(slot) {
                outcome = outcome.and(self.empty(store, slab, which, since(which.ticks)));
            }
            self.in_use(slot).store(slab.0, Ordering::Release);
        });
        outcome.map(|()| stopped)
    }

    /// The lock of a slot, if its holder leaves it soon. Not waited for: a signal handler may have interrupted its
    /// holder, and wait for the freezer, which we hold. A caller that must have it empty comes back
    /// (`Heap::keep_bound`).
    pub(super) fn patient_lock(&self, slot: usize) -> Option<Guard<'_, lock::Slab, O>> {
        const LOOKS: usize = 4096;
        let lock = self.lock_of(slot);
        if lock.is_own() {
            return None;
        }
        (0..LOOKS).find_map(|_| {
            pause();
            lock.try_lock()
        })
    }

    /// Whether this thread was interrupted while it used a cache under a lock: that one cannot be emptied here.
    pub fn is_interrupted(&self) -> bool {
        let under_locks = self.cpus.load(Ordering::Relaxed)..self.slots.load(Ordering::Acquire);
        under_locks.into_iter().any(|slot| self.lock_of(slot).is_own())
    }

    /// Puts slabs in use again whose emptying stopped half-way, without the blocks that were in them: some of
    /// those are back in their spans already. The caller holds the freezer.
    pub(super) fn thaw(&self, store: &impl Middle<O>) {
        let base = self.base.load(Ordering::Relaxed);
        self.each_made(|slot, slab| {
            if self.in_use(slot).load(Ordering::Relaxed) != base {
                return;
            }
            // The room of what was set up, not all that was granted: a thread that this child's handler
            // interrupted may have some in its hands, and use it.
            classes(slab).for_each(|class| unset(store, slab, class));
            self.in_use(slot).store(slab.0, Ordering::Release);
        });
    }

    /// Empties these classes of a slab. Nobody else uses it.
    fn empty(&self, store: &impl Middle<O>, slab: Slab, which: Which, at: Tick) -> Result<(), Misuse> {
        let mut outcome = Ok(());
        for class in classes(slab).filter(|class| which.has(slab, *class)) {
            let word = slab.read(class);
            let first = core::ptr::from_ref(slab.entry(word.base(class))).cast::<usize>().wrapping_add(1);
            // SAFETY: the entries above the base up to the top hold blocks, and the slab is ours alone.
            let blocks = unsafe { core::slice::from_raw_parts(first, word.len(class)) };
            if !blocks.is_empty() {
                outcome = outcome.and(store.return_blocks(class, blocks, at));
            }
            unset(store, slab, class);
        }
        slab.forget_big_arrays(store.os());
        outcome
    }
}

/// Forgets the array of a class and gives its room back. Nobody else uses the slab.
fn unset<O: Os>(store: &impl Middle<O>, slab: Slab, class: SizeClass) {
    let bytes = slab.read(class).capacity(class) * class.block_bytes();
    slab.write(class, Word::UNSET);
    slab.info().granted.fetch_sub(bytes, Ordering::Relaxed);
    store.budget().give(bytes);
}
