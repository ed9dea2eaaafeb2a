//! Looks at blocks by their marks and frames, and tells the misuse of an address that is none's.

use super::frame::{self, FRONT};
use super::places::fronts;
use super::states::State;
use super::{Hardened, Live};
use crate::base::fault::{Access, Fault, Maker, Misuse};
use crate::base::sync::Ordering;
use crate::class::{MIN_ALIGN, SizeClass};
use crate::options::OptionId;
use crate::os::Os;
use crate::sources::Empty;

impl<O: Os> Hardened<O> {
    /// True for null, for emergency memory, and for everything once the process aborts.
    pub(super) fn is_outside(&self, address: usize) -> bool {
        address == 0
            || self.heap.is_aborting()
            || (self.heap.pages.class_of(address) == SizeClass::NONE
                && self.heap.sources.emergency.bytes_of(address).is_some())
    }

    pub(super) fn check_maker(&self, live: &Live, by: Maker) -> Result<(), Misuse> {
        if self.is_pair(live.frame.maker, by) {
            return Ok(());
        }
        Err(self.about(Fault::WrongFunction { made: live.frame.maker, freed: by }, live))
    }

    pub(super) fn check_empty_maker(&self, empty: Empty, by: Maker) -> Result<(), Misuse> {
        let made = empty.maker();
        if self.is_pair(made, by) {
            return Ok(());
        }
        Err(empty.misuse(Fault::WrongFunction { made, freed: by }))
    }

    /// Whether functions of `by` may free a block of functions of `made`.
    fn is_pair(&self, made: Maker, by: Maker) -> bool {
        made == by
            || !self.makers_count()
            // A block of such an operator new is malloc's here, and its delete may be ours; or the other way round.
            || (made == Maker::Malloc) != (by == Maker::Malloc) && self.has_own_new()
    }

    /// Whether some object of the process has an operator new that does not reach ours. Asked before a stop only, and anew
    /// until the answer is yes: objects come late.
    #[cold]
    #[inline(never)]
    pub(super) fn has_own_new(&self) -> bool {
        let known = self.has_own_new.load(Ordering::Relaxed);
        if !known && (self.own_new)() {
            self.has_own_new.store(true, Ordering::Relaxed);
            return true;
        }
        known
    }

    /// False where a block may be freed by another family of functions than made it.
    pub(super) fn makers_count(&self) -> bool {
        self.heap.options.is_on(OptionId::wrong_function_check)
    }

    pub(super) fn about(&self, fault: Fault, live: &Live) -> Misuse {
        Misuse { block: Some((live.user, live.frame.bytes)), ..Misuse::at(fault, live.user) }
    }

    /// The live block at `address`, its frame intact.
    pub(super) fn inspect(&self, address: usize) -> Result<Live, Misuse> {
        let state = self.state_of(address);
        let class = self.heap.pages.class_of_block(address);
        if !state.is_live() || class == SizeClass::NONE || !address.is_multiple_of(MIN_ALIGN) {
            return Err(self.no_block(address, state));
        }
        let secret = self.secret();
        // SAFETY: a live block has a frame.
        let frame = unsafe { frame::read(secret, address, place_of(address, class, state)) };
        let frame = frame.map_err(|changed| Misuse {
            block: Some((address, self.most_bytes(address, class))),
            ..Misuse::at(if changed < address { Fault::Underflow } else { Fault::Overflow }, changed)
        })?;
        let live = Live { user: address, class, frame };
        if frame.behind {
            self.check_before(&live)?;
        }
        // SAFETY: the frame was written with this room.
        match unsafe { frame::changed_tail(secret, address, frame, self.room(&live)) } {
            Some(changed) => Err(Misuse { address: changed, ..self.about(Fault::Overflow, &live) }),
            None => Ok(live),
        }
    }

    /// Checks the bytes before a block that has its frame behind it: the end of the memory of the block before, whose last bytes are
    /// always canary or zero. The first of its span has no such neighbour.
    fn check_before(&self, live: &Live) -> Result<(), Misuse> {
        let pages = &self.heap.pages;
        let span = pages.span_of(live.user).map(|id| pages.span(id).start.get());
        if span.is_none_or(|start| pages.address_of(start) >= live.user) {
            return Ok(());
        }
        // SAFETY: the span of a live block has memory from its start on.
        match unsafe { frame::changed_before(live.user) } {
            Some(changed) => Err(Misuse { address: changed, ..self.about(Fault::Underflow, live) }),
            None => Ok(()),
        }
    }

    /// The bytes that a block whose frame is lost had at most.
    pub(super) fn most_bytes(&self, address: usize, class: SizeClass) -> usize {
        match self.heap.block_of(address + 1) {
            Some((start, bytes)) if class.is_small() => (start + bytes).saturating_sub(address),
            _ => 0,
        }
    }

    /// The misuse at an address that is not that of a live block.
    #[cold]
    pub(super) fn no_block(&self, address: usize, state: State) -> Misuse {
        let class = self.heap.pages.class_of_block(address);
        let fault = match state {
            _ if class == SizeClass::NONE && self.offset_of(address) >= self.heap.pages.mapped_bytes() => {
                Fault::ForeignPointer
            }
            _ if !address.is_multiple_of(MIN_ALIGN) => Fault::InteriorPointer,
            State::Freed => Fault::DoubleFree,
            _ if class == SizeClass::NONE => Fault::FreeMemory,
            _ => Fault::InteriorPointer,
        };
        let block = self.around(address, class);
        let (fault, block) = match block {
            None if fault == Fault::InteriorPointer => (Fault::FreeMemory, None),
            None if fault == Fault::DoubleFree && class.is_small() => {
                (fault, Some((address, self.most_bytes(address, class))))
            }
            _ => (fault, block),
        };
        Misuse { block, ..Misuse::at(fault, address) }
    }

    /// The live block around an address.
    pub(super) fn around(&self, address: usize, class: SizeClass) -> Option<(usize, usize)> {
        if self.is_zombies(address) {
            return self.around_of_zombie(address);
        }
        if !class.is_small() {
            let live = self.live_in_run(address)??;
            return Some((live.user, live.frame.bytes));
        }
        let (start, bytes) = self.heap.block_of(address)?;
        let users = fronts().map(|front| start + front).filter(|user| *user < start + bytes);
        let states = users.map(|user| (user, self.state_of(user)));
        let (user, state) = states.into_iter().find(|(_, state)| state.is_live())?;
        // SAFETY: a live block has a frame.
        let frame = unsafe { frame::read(self.secret(), user, place_of(user, class, state)) };
        frame.ok().map(|frame| (user, frame.bytes))
    }

    /// The live block in the run that an address lies in, if that is a run of a large block.
    pub(super) fn live_in_run(&self, address: usize) -> Option<Option<Live>> {
        let (run, bytes) = self.run_around(address)?;
        // Small alignments leave few places for the block.
        let places = (run..run + bytes).step_by(FRONT).take(1 << 20);
        let mut live = places.filter(|user| self.state_of(*user) == State::Live);
        Some(live.find_map(|user| self.inspect(user).ok()))
    }

    pub(super) fn offset_of(&self, address: usize) -> usize {
        address.wrapping_sub(self.heap.pages.address_of(0))
    }
}

/// The place of what and canary of a live block.
#[inline(always)]
pub(super) fn place_of(user: usize, class: SizeClass, state: State) -> usize {
    match state {
        State::LiveBehind => user + class.block_bytes() - FRONT,
        _ => user - FRONT,
    }
}

impl<O: Os> Hardened<O> {
    /// `Blocks::explain`.
    pub(super) fn meaning_of(&self, address: usize, access: Access) -> Option<Misuse> {
        if self.heap.sources.empties.owns(address) {
            return Some(self.heap.sources.empties.meaning_of(address, access));
        }
        if access == Access::Execute {
            let is_ours = self.offset_of(address) < self.heap.pages.mapped_bytes();
            let block = self.around(address, self.heap.pages.class_of_block(address));
            return is_ours.then(|| Misuse { block, ..Misuse::at(Fault::Jump, address) });
        }
        if self.is_zombies(address) {
            let block = self.around_of_zombie(address);
            return Some(Misuse { block, ..Misuse::at(Fault::AfterEnd(access), address) });
        }
        let Some(live) = self.live_in_run(address)? else {
            return Some(Misuse::at(Fault::UseAfterFree, address));
        };
        let fault = if address < live.user { Fault::BeforeStart(access) } else { Fault::PastEnd(access) };
        Some(Misuse { address, ..self.about(fault, &live) })
    }
}
