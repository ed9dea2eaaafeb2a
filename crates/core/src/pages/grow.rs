//! The heap's range of addresses: found at the start, then grown upwards in whole huge pages, around what others
//! mapped there.

use super::place::Layout;
use super::runs::Run;
use super::{
    ALLOCATED_PER_UNIT, GRANULE_SHIFT, HUGE_PAGE_BYTES, HUGE_PAGE_UNITS, MARKS_PER_UNIT, Pages, State,
};
use crate::base::round_up;
use crate::base::sync::Ordering;
use crate::class::UNIT_SHIFT;
use crate::os::{Guard, HugePages, MapRefusal, Os, Purpose};

const LEAST_RANGE: usize = 64 << 20;
/// How often another place is tried where somebody has the first.
const PLACES: u32 = 4;
/// Past the end of what is in the way, the range is searched in so many steps.
const SEARCHED_PLACES: u32 = 16;
/// Of what is passed over, such a part may be free: addresses are plenty, but tables are mapped over them.
const FREE_PART_PASSED: u32 = 16;
/// More blocks than these are mapped for a trial first: tables for what is refused would stay.
const TRIED_FROM: u32 = 32;
/// Times that the heap grows for one run.
const MOST_TRIES: u32 = 64;
/// The first units of the first block that may wait, so that nobody knows where the first span lies: half a
/// MiB.
const WAITING_MOST: u64 = 32;

/// The place for a new span, in units.
#[derive(Clone, Copy)]
pub struct Place {
    pub units: u32,
    /// It begins at a multiple of so many.
    pub align: u32,
    /// Units that should be free from its start on, its own among them, as long as nobody takes them; it lies anywhere
    /// where there are none such.
    pub room: u32,
}

impl Place {
    /// Anywhere.
    pub const fn of(units: u32) -> Self {
        Place { units, align: 1, room: 0 }
    }
}

/// The attempts that were made for one run.
#[derive(Default)]
struct Tried {
    room: bool,
    long: bool,
    /// Times that the heap was to grow for the run itself: others may have been faster to take what was added.
    run: u32,
    is_refused: bool,
}

/// The outcome of a look at the free runs.
enum Look {
    Run(Run),
    /// The heap is to grow by so many blocks first.
    Needs(u32),
    Nothing,
}

impl<O: Os> Pages<O> {
    /// Finds a range for the heap and its tables, a shorter one where the system has none so long.
    pub fn start(&self, os: &O) -> bool {
        let most = round_up(os.address_budget().max(LEAST_RANGE), HUGE_PAGE_BYTES);
        let mut bytes = round_up(os.address_range().max(most), HUGE_PAGE_BYTES);
        while bytes >= LEAST_RANGE {
            if (0..PLACES).any(|_| self.start_with(os, bytes, most.min(bytes))) {
                // If every touched block became a huge page at once, small programs would hold 2
                // MiB.
                let rule = os.huge_pages();
                self.forbid_huge_pages.store(rule == HugePages::Always, Ordering::Relaxed);
                self.allow_huge_pages.store(rule != HugePages::Never, Ordering::Relaxed);
                return true;
            }
            bytes = round_up(bytes / 4, HUGE_PAGE_BYTES);
        }
        false
    }

    fn start_with(&self, os: &O, bytes: usize, most: usize) -> bool {
        let layout = Layout::of(bytes, most);
        let Some(range) = os.free_range(layout.bytes) else { return false };
        let base = layout.place(self, range.address, range.random);
        // The first entries at once: if somebody has their places, there are other places.
        if !self.prepare_huge_pages(os, 0, 1) {
            self.stop(os);
            return false;
        }
        let mut state = self.state.lock();
        state.runs.first_number = (base / HUGE_PAGE_BYTES) as u32;
        state.waiting = (range.random % WAITING_MOST) as u32;
        self.most_huge_pages.store((most / HUGE_PAGE_BYTES) as u32, Ordering::Relaxed);
        let class_of_zero = self.classes.range().0.wrapping_sub(base >> UNIT_SHIFT);
        self.class_of_unit.store(class_of_zero, Ordering::Relaxed);
        self.base.store(base, Ordering::Release);
        true
    }

    /// Undoes `start`, before anything was allocated.
    pub fn stop(&self, os: &O) {
        self.classes.stop(os);
        self.owners.stop(os);
        self.allocated.stop(os);
        self.spans.stop(os);
        self.candidates.stop(os);
        self.huge.stop(os);
        self.marks.stop(os);
    }

    /// Finds a run, and has the heap grow for it where there is none: without the lock, so that who needs no more than there
    /// is does not wait for the system. None where there is no memory, or the limits allow none any more.
    pub(super) fn take_run<'a>(
        &'a self,
        os: &O,
        mut state: Guard<'a, State, O>,
        place: Place,
    ) -> Option<(Guard<'a, State, O>, Run)> {
        let mut tried = Tried::default();
        loop {
            match self.find_run(&mut state, place, &mut tried) {
                Look::Run(run) => return Some((state, run)),
                Look::Nothing => return None,
                Look::Needs(blocks) => {
                    let before = state.runs.huge;
                    drop(state);
                    tried.is_refused = !self.grow(os, before, blocks);
                    // Threads that grew the heap together may have passed the limits together.
                    state = self.admit(os, self.lock(), place.units)?;
                }
            }
        }
    }

    fn find_run(&self, state: &mut Guard<'_, State, O>, place: Place, tried: &mut Tried) -> Look {
        let Place { units, align, room } = place;
        if room > units {
            if !tried.room && self.is_worth_room(state, room) {
                tried.room = true;
                return Look::Needs(1);
            }
            if let Some(run) = state.runs.take_with_room(&self.huge, units, room) {
                return Look::Run(run);
            }
            match self.find_long(state, units, tried) {
                Look::Nothing => (),
                found => return found,
            }
        }
        if let Some(run) = state.runs.take(&self.huge, units, align) {
            return Look::Run(run);
        }
        if state.runs.end_waiting(&self.huge)
            && let Some(run) = state.runs.take(&self.huge, units, align)
        {
            return Look::Run(run);
        }
        if self.close_kept(state)
            && let Some(run) = state.runs.take(&self.huge, units, align)
        {
            return Look::Run(run);
        }
        if tried.run > 0 && tried.is_refused || tried.run == MOST_TRIES {
            return Look::Nothing;
        }
        tried.run += 1;
        let wanted = if align <= HUGE_PAGE_UNITS { Some(units.max(1)) } else { units.checked_add(align - 1) };
        wanted.map_or(Look::Nothing, |wanted| Look::Needs(wanted.div_ceil(HUGE_PAGE_UNITS)))
    }

    /// Whether a block is to be added for the sake of `room` alone: if no run is twice as long, and all that is free is
    /// new, for to pack what was never touched saves no memory. Only while the range is well used: addresses cost page
    /// tables.
    fn is_worth_room(&self, state: &Guard<'_, State, O>, room: u32) -> bool {
        let runs = &state.runs;
        room <= HUGE_PAGE_UNITS / 2
            && runs.dirty_free < u64::from(room)
            && runs.is_well_used()
            && !runs.has_run(&self.huge, 2 * room)
    }

    /// A run of more than half a block that is likely to grow: with as much room behind it. If there is none, the heap
    /// gets longer, as long as its range is well used: units that are not touched cost addresses only.
    fn find_long(&self, state: &mut Guard<'_, State, O>, units: u32, tried: &mut Tried) -> Look {
        let Some(wide) = units.checked_mul(2).filter(|wide| *wide > HUGE_PAGE_UNITS) else {
            return Look::Nothing;
        };
        if let Some(run) = state.runs.take_with_double(&self.huge, units) {
            return Look::Run(run);
        }
        if tried.long || !state.runs.is_well_used() {
            return Look::Nothing;
        }
        tried.long = true;
        let free = state.runs.free_at_end(&self.huge);
        Look::Needs(wide.div_ceil(HUGE_PAGE_UNITS).saturating_sub(free).max(1))
    }

    /// Blocks that are missing behind a block that grows at the end of the heap, where nobody else is between: with them it
    /// stays where it is. None while so much memory is free that it could move there, and double: else buffers that grow one
    /// after the other would leave memory behind and fault in more.
    pub(super) fn missing_behind(
        &self,
        state: &Guard<'_, State, O>,
        start: u32,
        units: u32,
        more: u32,
    ) -> Option<u32> {
        let (next, long) = (start + units, u64::from(units) + u64::from(more));
        let missing = next.checked_add(more)?.div_ceil(HUGE_PAGE_UNITS).saturating_sub(state.runs.huge);
        let is_last = || state.runs.are_free(&self.huge, next, state.runs.huge * HUGE_PAGE_UNITS - next);
        (missing > 0 && state.runs.dirty_free < 2 * long && is_last()).then_some(missing)
    }

    /// Maps at least `needed` further blocks in a row, unless there are more already than `before`; fewer system calls for
    /// larger heaps. False where that cannot be.
    pub(super) fn grow(&self, os: &O, before: u32, needed: u32) -> bool {
        let _growing = self.growing.lock();
        let (blocks, lost) = {
            let state = self.state.lock();
            (state.runs.huge, state.runs.lost)
        };
        if blocks != before {
            return true;
        }
        let ours = blocks - (lost / u64::from(HUGE_PAGE_UNITS)) as u32;
        let left = self.most_huge_pages.load(Ordering::Relaxed).saturating_sub(ours);
        if needed > left {
            return false;
        }
        let (mut first, mut step) = (blocks, needed.max((blocks / 16).min(32)).min(left));
        loop {
            match self.add_huge_pages(os, first, step) {
                Ok(()) => return true,
                Err(_) if step > needed => step = needed,
                Err(MapRefusal::Taken) => match self.pass_others(os, first, needed) {
                    Some(passed) => first += passed,
                    None => return false,
                },
                Err(_) => return false,
            }
        }
    }

    fn add_huge_pages(&self, os: &O, first: u32, count: u32) -> Result<(), MapRefusal> {
        if count > TRIED_FROM {
            let (address, bytes) =
                (self.address_of(first * HUGE_PAGE_UNITS), count as usize * HUGE_PAGE_BYTES);
            os.map_at(address, bytes)?;
            os.unmap(address, bytes);
        }
        if !self.prepare_huge_pages(os, first, count) {
            return Err(MapRefusal::Exhausted);
        }
        self.map_blocks(os, first, count)
    }

    fn map_blocks(&self, os: &O, first: u32, count: u32) -> Result<(), MapRefusal> {
        let (address, bytes) = (self.address_of(first * HUGE_PAGE_UNITS), count as usize * HUGE_PAGE_BYTES);
        os.map_at(address, bytes)?;
        os.name_pages(address, bytes, Purpose::Heap);
        if self.forbid_huge_pages.load(Ordering::Relaxed) {
            os.forbid_huge_pages(address, bytes);
        }
        // One long block has an owner in its first unit alone.
        if count <= TRIED_FROM {
            self.touch_map(first * HUGE_PAGE_UNITS, count * HUGE_PAGE_UNITS);
        }
        let mut state = self.state.lock();
        (0..count).for_each(|_| state.runs.add_huge_page(&self.huge));
        let waiting = core::mem::take(&mut state.waiting);
        state.runs.let_wait(&self.huge, first, waiting);
        self.note_grown(&mut state);
        Ok(())
    }

    /// Makes the tables long enough for `step` more blocks. Descriptors too, for the smallest spans: when the
    /// process has all the memory that it may have, what is free can still be cut anew.
    fn prepare_huge_pages(&self, os: &O, blocks: u32, step: u32) -> bool {
        let after = blocks as usize + step as usize;
        let units = after * HUGE_PAGE_UNITS as usize;
        let spans = units.min(self.spans.capacity());
        after <= self.huge.capacity()
            && self.classes.ensure(os, units)
            && self.owners.ensure(os, units)
            && self.allocated.ensure(os, units * ALLOCATED_PER_UNIT)
            && (!self.keeps_marks() || self.marks.ensure(os, units * MARKS_PER_UNIT))
            && self.spans.ensure(os, spans)
            && self.candidates.ensure(os, spans)
            && self.huge.ensure(os, after)
    }

    /// Passes over what others have mapped behind the heap, to where `needed` blocks in a row are free: so many blocks.
    fn pass_others(&self, os: &O, first: u32, needed: u32) -> Option<u32> {
        let last = self.last_place(first, needed)?;
        let is_free = |distance: u32| {
            let address = self.address_of((first + distance) * HUGE_PAGE_UNITS);
            let bytes = needed as usize * HUGE_PAGE_BYTES;
            os.map_at(address, bytes).map(|()| os.unmap(address, bytes)).is_ok()
        };
        nearest_free(last, is_free).filter(|distance| self.pass(os, first, *distance))
    }

    /// How far from the next block the last place for `needed` blocks is.
    fn last_place(&self, first: u32, needed: u32) -> Option<u32> {
        (self.huge.capacity() as u32).checked_sub(first)?.checked_sub(needed).filter(|last| *last > 0)
    }

    /// Adds a gap of `count` blocks. Over it the tables can be read, but take no memory.
    fn pass(&self, os: &O, first: u32, count: u32) -> bool {
        let (first, after) = (first as usize, (first + count) as usize);
        let units = after * HUGE_PAGE_UNITS as usize;
        let before =
            [self.classes.range().1, self.owners.range().1, self.allocated.range().1, self.marks.range().1];
        let blocks = self.huge.lengths();
        let passed = self.huge.ensure(os, first + 1)
            && self.classes.pass(os, units)
            && self.owners.pass(os, units)
            && self.allocated.pass(os, units * ALLOCATED_PER_UNIT)
            && (!self.keeps_marks() || self.marks.pass(os, units * MARKS_PER_UNIT))
            && self.huge.pass(os, after);
        // The entries in a step that both sides share.
        if passed && self.prepare_huge_pages(os, after as u32, 0) {
            let mut state = self.state.lock();
            state.runs.add_gap(&self.huge, count);
            self.note_grown(&mut state);
            return true;
        }
        let [classes, owners, allocated, marks] = before;
        self.classes.cut(os, classes);
        self.owners.cut(os, owners);
        self.allocated.cut(os, allocated);
        self.marks.cut(os, marks);
        self.huge.cut(os, blocks);
        false
    }

    pub(super) fn note_grown(&self, state: &mut State) {
        let grown = state.runs.huge as usize * HUGE_PAGE_BYTES;
        self.grown_granules.store(grown >> GRANULE_SHIFT, Ordering::Release);
        self.grown.store(grown, Ordering::Release);
        state.grown_blocks_most = state.runs.huge;
    }
}

/// The distance to a place that is free, at most `last`, not much farther than the nearest one: in doubling steps up,
/// then by halves back. At distance 0 somebody is.
fn nearest_free(last: u32, is_free: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut taken, mut distance) = (0, 1);
    while !is_free(distance) {
        if distance >= last {
            return None;
        }
        taken = distance;
        // Near the end of the range what is free is shorter than the next step.
        distance = if distance <= last / 2 {
            distance * 2
        } else {
            distance + (last - distance).div_ceil(SEARCHED_PLACES)
        };
    }
    while distance - taken > 1 + distance / FREE_PART_PASSED {
        let middle = taken + (distance - taken) / 2;
        if is_free(middle) {
            distance = middle;
        } else {
            taken = middle;
        }
    }
    Some(distance)
}

#[cfg(all(test, not(loom)))]
mod tests;
