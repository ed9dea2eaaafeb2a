//! The heap's range of addresses: found at the start, then grown upwards in whole 2 MiB blocks.

use super::runs::Run;
use super::{BLOCK_BYTES, BLOCK_UNITS, GIVEN_PER_UNIT, GRANULE_SHIFT, Pages, State};
use crate::base::round_up;
use crate::base::sync::Ordering;
use crate::class::UNIT_SHIFT;
use crate::os::{Guard, HugePages, MapRefusal, Os};

/// Descriptors for a range of so many units: one for each where that is cheap, and for larger ranges enough
/// to fill all of memory with the smallest spans (the range is eight times as long, see
/// `Os::address_budget`).
const fn spans_for(units: usize) -> usize {
    const CHEAP: usize = 1 << 20;
    if units <= CHEAP {
        units
    } else if units / 8 > CHEAP {
        units / 8
    } else {
        CHEAP
    }
}

const LEAST_RANGE: usize = 64 << 20;
/// The range starts at a multiple of this where it is long enough; no larger alignment can be asked for.
const MOST_ALIGN: usize = 1 << 30;
/// Blocks of the range that may be skipped in one growth because somebody else lives there.
const MOST_SKIPPED: u32 = 512;

/// Where a new span is to lie, in units.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub units: u32,
    pub align: u32,
    /// Units that should be free from its start on, its own among them.
    pub room: u32,
}

impl<O: Os> Pages<O> {
    /// Finds a range for the heap and reserves its tables, smaller ones where the system is tight.
    pub fn start(&self, os: &O) -> bool {
        let mut bytes = round_up(os.address_budget().max(LEAST_RANGE), BLOCK_BYTES);
        while bytes >= LEAST_RANGE {
            if self.start_with(os, bytes) {
                // Where every touched block would become a huge page at once, small programs would hold 2
                // MiB.
                let rule = os.huge_pages();
                self.forbid_huge_pages.store(rule == HugePages::Always, Ordering::Relaxed);
                self.allow_huge_pages.store(rule != HugePages::Never, Ordering::Relaxed);
                return true;
            }
            bytes = round_up(bytes / 4, BLOCK_BYTES);
        }
        false
    }

    fn start_with(&self, os: &O, bytes: usize) -> bool {
        let units = bytes >> UNIT_SHIFT;
        let align = MOST_ALIGN.min(bytes.next_power_of_two() / 4);
        let Some(range) = os.free_range(bytes + align) else { return false };
        let started = self.classes.start(os, units)
            && self.owners.start(os, units)
            && self.given.start(os, units * GIVEN_PER_UNIT)
            && self.spans.start(os, spans_for(units))
            && self.untidy.start(os, spans_for(units))
            && self.blocks.start(os, bytes / BLOCK_BYTES);
        if started {
            let base = round_up(range, align);
            self.class_of_unit
                .store((self.classes.range().0).wrapping_sub(base >> UNIT_SHIFT), Ordering::Relaxed);
            self.base.store(base, Ordering::Release);
        } else {
            self.stop(os);
        }
        started
    }

    /// Undoes `start`, before anything was allocated.
    pub fn stop(&self, os: &O) {
        self.classes.stop(os);
        self.owners.stop(os);
        self.given.stop(os);
        self.spans.stop(os);
        self.untidy.stop(os);
        self.blocks.stop(os);
    }

    pub(super) fn take_run(&self, os: &O, state: &mut Guard<'_, State, O>, place: Place) -> Option<Run> {
        let Place { units, align, room } = place;
        if room > units {
            self.make_room(os, state, room);
            if let Some(run) = state.runs.take_with_room(&self.blocks, units, room) {
                return Some(run);
            }
        }
        if let Some(run) = state.runs.take(&self.blocks, units, align) {
            return Some(run);
        }
        if !self.base.load(Ordering::Relaxed).is_multiple_of((align as usize) << UNIT_SHIFT) {
            return None;
        }
        let aligned = units.checked_add(align - 1)?;
        let wanted = if align <= BLOCK_UNITS { units.max(1) } else { aligned };
        self.grow(os, state, wanted.div_ceil(BLOCK_UNITS));
        // Growth may have added less than hoped but next to free blocks.
        state.runs.take(&self.blocks, units, align)
    }

    /// Adds a block for the sake of `room` alone: where no run is twice as long, and all that is free is new,
    /// for to pack what was never touched saves no memory. Only while the range is well used: addresses cost
    /// page tables.
    fn make_room(&self, os: &O, state: &mut Guard<'_, State, O>, room: u32) {
        let runs = &state.runs;
        let is_worth_it = room <= BLOCK_UNITS / 2
            && runs.dirty_free < u64::from(room)
            && runs.is_well_used()
            && !runs.has_run(&self.blocks, 2 * room);
        if is_worth_it {
            self.grow(os, state, 1);
        }
    }

    /// Maps at least `needed` further blocks in a row; fewer system calls for larger heaps.
    fn grow(&self, os: &O, state: &mut Guard<'_, State, O>, needed: u32) {
        let mut step = needed.max((state.runs.blocks / 16).min(32));
        let mut skipped = 0;
        while self.prepare_blocks(os, state.runs.blocks, step) {
            let first = state.runs.blocks;
            let address = self.address_of(first * BLOCK_UNITS);
            match os.map_at(address, step as usize * BLOCK_BYTES) {
                Ok(()) => {
                    if self.forbid_huge_pages.load(Ordering::Relaxed) {
                        os.forbid_huge_pages(address, step as usize * BLOCK_BYTES);
                    }
                    return self.add_blocks(state, step, true);
                }
                Err(_) if step > needed => step = needed,
                Err(MapRefusal::Taken) if skipped < MOST_SKIPPED => {
                    let skip = needed.min(8);
                    self.add_blocks(state, skip, false);
                    skipped += skip;
                }
                Err(_) => return,
            }
        }
    }

    /// Makes the tables long enough for `step` more blocks. Descriptors too, for the smallest spans: when the
    /// process has all the memory that it may have, what is free can still be cut anew.
    fn prepare_blocks(&self, os: &O, blocks: u32, step: u32) -> bool {
        let after = blocks as usize + step as usize;
        let units = after * BLOCK_UNITS as usize;
        let spans = units.min(self.spans.capacity());
        after <= self.blocks.capacity()
            && self.classes.ensure(os, units)
            && self.owners.ensure(os, units)
            && self.given.ensure(os, units * GIVEN_PER_UNIT)
            && self.spans.ensure(os, spans)
            && self.untidy.ensure(os, spans)
            && self.blocks.ensure(os, after)
    }

    fn add_blocks(&self, state: &mut Guard<'_, State, O>, count: u32, ours: bool) {
        for _ in 0..count {
            state.runs.add_block(&self.blocks, ours);
        }
        let grown = state.runs.blocks as usize * BLOCK_BYTES;
        self.grown_granules.store(grown >> GRANULE_SHIFT, Ordering::Release);
        self.grown.store(grown, Ordering::Release);
        state.grown_blocks_most = state.runs.blocks;
    }
}
