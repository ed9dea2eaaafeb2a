//! Taking back what caches hold: freeze a slab by swapping one pointer, fence, empty it, put the pointer
//! back.

use super::slab::{Slab, Word};
use super::{Below, Cache};
use crate::base::fault::Misuse;
use crate::base::sync::{Ordering, pause};
use crate::class::SizeClass;
use crate::os::{Guard, Os};

/// After how many ticks a cache is emptied that nobody has used.
#[derive(Clone, Copy)]
pub struct Stillness {
    /// All classes of a virtual CPU: it is idle.
    pub slab: u32,
    /// One class, while others move.
    pub class: u32,
}

impl Stillness {
    fn of(self, slab: Slab) -> u32 {
        if still_classes(slab, 0).all(|class| slab.ticks_still(class) >= self.slab) {
            self.slab
        } else {
            self.class
        }
    }
}

/// The classes of a slab that are set up and have stood still for so many ticks.
fn still_classes(slab: Slab, ticks: u32) -> impl Iterator<Item = SizeClass> {
    SizeClass::all()
        .filter(move |class| slab.read(*class) != Word::UNSET && slab.ticks_still(*class) >= ticks)
}

impl<O: Os> Cache<O> {
    /// Returns all cached blocks of all slabs to their spans and their room to the budget. False where the
    /// system refused to stop the sequences: then only slabs under locks were emptied.
    pub fn drain(&self, below: Below<'_, O>) -> Result<bool, Misuse> {
        let at = below.pages.clock.load(Ordering::Relaxed);
        let _held = self.freezer.lock();
        self.drain_slots(below, |_| 0, |_| at)
    }

    /// Does the same for what nobody has used for so many calls of this; `since` tells from which tick on
    /// blocks count as free that stood still for so long. Tells whether any word has changed since the last
    /// call.
    pub fn drain_still(
        &self,
        below: Below<'_, O>,
        patience: Stillness,
        since: impl Fn(u32) -> u32,
    ) -> Result<bool, Misuse> {
        let _held = self.freezer.lock();
        let (mut moved, mut any_still) = (false, false);
        self.each_made(|_, slab| {
            moved |= slab.note_words();
            let ticks = patience.of(slab);
            any_still |= still_classes(slab, ticks).any(|class| slab.read(class).holds_anything(class));
        });
        if any_still {
            self.drain_slots(below, |slab| patience.of(slab), since)?;
        }
        Ok(moved)
    }

    /// Freezes slabs, all with one fence, and empties in each the classes that stood still for at least as many
    /// ticks as `least` says. Slabs without such classes are left alone. The caller holds the freezer.
    fn drain_slots(
        &self,
        below: Below<'_, O>,
        least: impl Fn(Slab) -> u32,
        since: impl Fn(u32) -> u32,
    ) -> Result<bool, Misuse> {
        let (base, cpus) = (self.base.load(Ordering::Relaxed), self.cpus.load(Ordering::Relaxed));
        let mut outcome = Ok(());
        self.each_made(|slot, slab| {
            if still_classes(slab, least(slab)).next().is_some() {
                self.in_use(slot).store(base, Ordering::Release);
            }
        });
        // After the fence no sequence that saw one of these slabs is under way, so they are ours alone.
        let stopped = cpus == 0 || below.os.fence_sequences();
        self.each_made(|slot, slab| {
            if self.in_use(slot).load(Ordering::Relaxed) == slab.0 {
                return;
            }
            let ticks = least(slab);
            if slot < cpus {
                if stopped {
                    outcome = outcome.and(self.empty(below, slab, ticks, since(ticks)));
                }
            } else if let Some(_held) = self.patient_lock(slot) {
                outcome = outcome.and(self.empty(below, slab, ticks, since(ticks)));
            }
            self.in_use(slot).store(slab.0, Ordering::Release);
        });
        outcome.map(|()| stopped)
    }

    /// The lock of a slot, if its holder leaves it soon: he may be this thread, interrupted by the handler we
    /// are in.
    fn patient_lock(&self, slot: usize) -> Option<Guard<'_, (), O>> {
        const LOOKS: usize = 4096;
        (0..LOOKS).find_map(|_| {
            pause();
            self.lock_of(slot).try_lock()
        })
    }

    /// Puts slabs in use again whose emptying stopped half-way, without the blocks that were in them: some of
    /// those are back in their spans already. The caller holds the freezer.
    pub(super) fn thaw(&self, below: Below<'_, O>) {
        let base = self.base.load(Ordering::Relaxed);
        self.each_made(|slot, slab| {
            if self.in_use(slot).load(Ordering::Relaxed) != base {
                return;
            }
            for class in SizeClass::all() {
                slab.write(class, Word::UNSET);
            }
            below.central.budget.give(slab.info().granted.swap(0, Ordering::Relaxed));
            self.in_use(slot).store(slab.0, Ordering::Release);
        });
    }

    /// Empties the classes of a slab that stood still for so many ticks. Nobody else uses it.
    fn empty(&self, below: Below<'_, O>, slab: Slab, ticks: u32, at: u32) -> Result<(), Misuse> {
        let mut outcome = Ok(());
        for class in still_classes(slab, ticks) {
            let word = slab.read(class);
            let first = core::ptr::from_ref(slab.entry(word.base(class))).cast::<usize>().wrapping_add(1);
            // SAFETY: the entries above the base up to the top hold blocks, and the slab is ours alone.
            let blocks = unsafe { core::slice::from_raw_parts(first, word.len(class)) };
            if !blocks.is_empty() {
                outcome = outcome.and(below.central.return_blocks(below.pages, class, blocks, at));
            }
            slab.write(class, Word::UNSET);
            let bytes = word.capacity(class) * class.block_bytes();
            slab.info().granted.fetch_sub(bytes, Ordering::Relaxed);
            below.central.budget.give(bytes);
        }
        outcome
    }
}
