//! Blocks with pages of their own: a run of units whose first and last pages nobody may touch.
//!
//! ```text
//!   | guard | zeros, frame |  the bytes that were asked for  | tail canary | guard ... |
//!   run                   user                                             guard       end of the run
//! ```
//!
//! The first guard has a random number of pages. A block ends as close to its guard as its alignment allows. A freed run gives its memory back, loses all
//! access, and waits so until others have been freed. If the system refuses, or the process has many such blocks, there
//! are no guards: the canaries remain. A freed run whose guards it does not open is used again with them.

use super::fences::{Closed, Fence};
use super::frame::{self, FRONT, Frame};
use super::layout::{Layout, run_align};
use super::states::{State, handed_out_twice};
use super::visits::Visit;
use super::zeros;
use super::{Hardened, Live, Of, drawn};
use crate::base::Fresh;
use crate::base::ceilings::{FENCED_BLOCKS, MAPPED_FENCES};
use crate::base::chance::next_random;
use crate::base::fault::{Fault, Misuse};
use crate::base::sync::{AtomicUsize, Ordering};
use crate::base::{PAGE_BYTES, round_up};
use crate::heap::HeapId;
use crate::os::Os;
use core::cell::Cell;
use core::ptr::with_exposed_provenance_mut as at_mut;

/// Freed runs that wait, and the longest that does.
const WAITING: usize = 32;
const LONGEST_WAITING: usize = 4 << 20;
/// Between the guards of a run no longer than this memory stays where it is when the block is freed.
const KEPT: usize = 64 << 10;
/// A waiting run of so many bytes is known to hold no memory.
const COUNTED_APART: usize = 128 * PAGE_BYTES;

/// Freed runs whose addresses nobody gets yet.
pub struct Runs {
    turn: AtomicUsize,
    waiting: [AtomicUsize; WAITING],
}

impl Runs {
    pub const fn new() -> Self {
        Runs { turn: AtomicUsize::new(0), waiting: [const { AtomicUsize::new(0) }; WAITING] }
    }
}

/// No block is placed before more free memory than this.
const MOST_ROOM: usize = 1 << 30;

impl<O: Os> Hardened<O> {
    /// A run with as much free memory behind it as it takes itself, which is nobody's: any block may take
    /// it. None if that is near a limit.
    fn place_with_room(&self, layout: Layout) -> Option<Fresh> {
        let (os, pages, large) = (&self.heap.os, &self.heap.pages, &self.heap.large);
        let room = layout.total.min(MOST_ROOM);
        let after = pages.footprint() + layout.total + room;
        let fits = |limit: Option<usize>| limit.is_none_or(|limit| after <= limit);
        if !self.heap.is_started() || !fits(pages.limits.soft()) || !fits(pages.limits.hard()) {
            return None;
        }
        let fresh = large.allocate(os, pages, layout.total + room, layout.align)?;
        // It is ours and gets shorter, which cannot fail.
        let _ = large.resize_in_place(os, pages, fresh.address, layout.total);
        Some(fresh)
    }

    /// A block in a run of its own, which gets guards if `may_fence`; with `growing` where it can grow, if there is such
    /// a place.
    pub(super) fn make_guarded(
        &self,
        of: Of<'_>,
        align: usize,
        bytes: usize,
        growing: bool,
        may_fence: bool,
    ) -> Result<usize, Misuse> {
        let os = &self.heap.os;
        let Some(layout) = Layout::of(os.page_bytes(), align, bytes) else { return Ok(0) };
        let reused = self.reuse(of.id, layout, align);
        let further = if may_fence && align <= os.page_bytes() { self.random_front(layout) } else { 0 };
        let layout = layout.shifted(reused.map_or(further, |(_, further)| further));
        let fresh = match reused {
            Some((closed, _)) => Some(Some(Fresh { address: closed.run, zeroed: false })),
            None if of.id != HeapId::OWN => {
                let taken = self.heap.memory_in(of.id, None, layout.total, layout.align, of.after_limit);
                taken.map(Result::ok)
            }
            None => self.heap.in_slow_path(|inside| {
                let placed = if growing { self.place_with_room(layout) } else { None };
                placed.or_else(|| self.heap.allocate_large(inside, layout.total, layout.align))
            }),
        };
        let Some(fresh) = fresh else {
            return Ok(self.heap.allocate_in_emergency(bytes, align.max(FRONT)));
        };
        let Some(fresh) = fresh else { return Ok(0) };
        let run = fresh.address;
        let _visit = if of.id == HeapId::OWN { Visit::Own } else { self.visit(run) };
        let user = run + layout.user;
        let Some(mark) = self.mark_of(user) else {
            match reused {
                Some((closed, _)) => self.stuck.put(closed.word(), self.open_part(layout.body, layout.guard)),
                None => self.heap.free(run),
            }
            return Ok(0);
        };
        let are_gone = self.clear(fresh, layout, reused.is_none() && may_fence);
        let fenced = match reused {
            Some((closed, _)) => closed.fence,
            None if may_fence => self.fence(run, layout),
            None => Fence::None,
        };
        if fenced == Fence::Marked && reused.is_none() || fenced != Fence::None && are_gone {
            self.note_guards(run, layout);
        }
        let further =
            if align > os.page_bytes() { 0 } else { layout.user.checked_div(layout.align).unwrap_or(0) };
        let frame = Frame { fenced, further, ..Frame::asked_for(align, bytes) };
        // SAFETY: the block and what lies around it up to the guards is ours.
        unsafe { frame::write(self.secret(), user, frame, layout.guard - layout.user - bytes) };
        if mark.hand_out(State::Live) { Ok(user) } else { Err(handed_out_twice(user)) }
    }

    /// Makes memory that others used before read as zeros. It was cleared when it was freed, but a stray write may have hit it
    /// since. Returns whether the pages of the guards went back: else they would stay in memory for as long as the block lives.
    fn clear(&self, fresh: Fresh, layout: Layout, with_guards: bool) -> bool {
        if fresh.zeroed {
            return true;
        }
        let (run, body) = (fresh.address, layout.guard - layout.body);
        let end = if with_guards { self.run_bytes(run) } else { layout.guard };
        let start = if with_guards { 0 } else { layout.body };
        if body > KEPT {
            return self.wipe(run + start, end - start);
        }
        // SAFETY: whole pages of a run that is ours, and longer than a frame.
        unsafe {
            zeros::bring_in(run + layout.body, body);
            if !zeros::is_zero(run + layout.body, body) {
                at_mut::<u8>(run + layout.body).write_bytes(0, body);
            }
        }
        // Marking a guard takes its memory away; a mapping does not.
        let release = |start: usize, end: usize| self.heap.os.release(run + start, end - start);
        with_guards
            && self.fences.kind() == Fence::Mapped
            && release(0, layout.body) & release(layout.guard, end)
    }

    /// Makes memory read as zeros; whether it went back to the system for that.
    pub(super) fn wipe(&self, start: usize, bytes: usize) -> bool {
        let is_gone = self.heap.os.release(start, bytes);
        if !is_gone {
            // SAFETY: nobody owns a block there.
            unsafe { at_mut::<u8>(start).write_bytes(0, bytes) };
        }
        is_gone
    }

    /// The guards of a run hold no memory, so they do not count for limits; between them there may be some.
    fn note_guards(&self, run: usize, layout: Layout) {
        let pages = &self.heap.pages;
        self.heap.inside(|_| {
            pages.note_gone(run, 0, layout.body, true);
            pages.note_gone(run, layout.body, layout.guard, false);
            pages.note_gone(run, layout.guard, self.run_bytes(run), true);
        });
    }

    fn fence(&self, run: usize, layout: Layout) -> Fence {
        let kind = self.fences.kind();
        let most = if kind == Fence::Marked { FENCED_BLOCKS } else { MAPPED_FENCES };
        if self.fenced.fetch_add(1, Ordering::Relaxed) >= most {
            self.fenced.fetch_sub(1, Ordering::Relaxed);
            return Fence::None;
        }
        let (os, bytes) = (&self.heap.os, self.run_bytes(run));
        if kind.close(os, run + layout.guard, bytes - layout.guard) {
            // Half a fence that cannot be opened again stays.
            if kind.close(os, run, layout.body) || !kind.open(os, run, bytes) {
                if kind == Fence::Marked {
                    self.fences.note_marks();
                }
                return kind;
            }
        }
        self.fenced.fetch_sub(1, Ordering::Relaxed);
        if kind == Fence::Mapped {
            return Fence::None;
        }
        self.fences.forgo_marks();
        self.fence(run, layout)
    }

    /// Gives access back; false where the system refuses even that.
    fn unfence(&self, closed: Closed) -> bool {
        let opened = closed.open(&self.heap.os, self.run_bytes(closed.run));
        if opened {
            self.fenced.fetch_sub(1, Ordering::Relaxed);
        }
        opened
    }

    pub(super) fn run_bytes(&self, run: usize) -> usize {
        match self.heap.pages.tenant_of(run) {
            None => self.heap.large.usable(&self.heap.pages, run).unwrap_or(0),
            Some(_) => self.run_around(run).map_or(0, |(_, bytes)| bytes),
        }
    }

    /// Bytes that the first guard of a run is longer than it has to be, whole pages: nobody knows from one block where the
    /// next one of those with guards is. The block stays where its frame can tell the start of its run.
    fn random_front(&self, layout: Layout) -> usize {
        let count = self.placed.fetch_add(1, Ordering::Relaxed);
        let random = next_random(&mut (self.placement_secret() ^ count.rotate_left(32))) as usize;
        let page = self.heap.os.page_bytes();
        let fits = layout.user + page < layout.align;
        let pages = if fits { random >> 32 & 1 } else { 0 };
        // In the place of a freed run nobody knows which parts have no memory: near a limit they count.
        let most = if self.was_short() { 0 } else { frame::MOST_FURTHER };
        random % (most + 1) * layout.align + pages * page
    }

    fn placement_secret(&self) -> u64 {
        drawn(&self.placement, || self.heap.os.random())
    }

    /// The start of a live block's run, and of the part that may be touched.
    pub(super) fn run_of(&self, live: &Live) -> (usize, usize) {
        let page = self.heap.os.page_bytes();
        let align = 1 << live.frame.laid;
        let (run_align, body) = (run_align(page, align), (live.user - FRONT) & !(page - 1));
        if align > page {
            return (live.user - run_align, body);
        }
        ((live.user & !(run_align - 1)) - live.frame.further * run_align, body)
    }

    /// Closes the run of a block that was taken back, once those that were freed before it have had their time. If memory
    /// `is_short`, runs whose memory counts as theirs while they wait do not wait.
    pub(super) fn retire_guarded(&self, live: &Live, is_short: impl FnOnce() -> bool) -> Result<(), Misuse> {
        let (run, body) = self.run_of(live);
        let guard = self.guard_of(live);
        self.check_slack(live, body, guard)?;
        let is_gone = self.empty(live, body, guard);
        let (bytes, fence) = (self.run_bytes(run), live.frame.fenced);
        let longest = || if is_short() { COUNTED_APART } else { LONGEST_WAITING };
        if fence == Fence::None {
            self.heap.free(run);
        } else if !self.goes_at_once(run) && bytes <= longest() && self.heap.os.close_pages(run, bytes) {
            if is_gone {
                self.heap.inside(|_| self.heap.pages.note_gone(run, 0, bytes, true));
            }
            self.heap.count_large_quarantined(run, true);
            let runs = if self.heap.owner_heap(run).is_some() { &self.runs_of_tenants } else { &self.runs };
            let turn = runs.turn.fetch_add(1, Ordering::Relaxed) % WAITING;
            let word = Closed { run, fence, whole: true }.word();
            let older = runs.waiting.get(turn).map_or(word, |place| place.swap(word, Ordering::AcqRel));
            self.leave(older);
        } else {
            // Between its guards it is open.
            self.let_go(Closed { run, fence, whole: false }, self.open_part(body - run, guard - run));
        }
        Ok(())
    }

    /// Makes a block that was taken back read as zeros; whether its memory went back to the system for that. A short one keeps
    /// it: to fault it in again costs more than to write zeros, and few wait.
    fn empty(&self, live: &Live, body: usize, guard: usize) -> bool {
        if guard - body > KEPT {
            return self.wipe(body, guard - body);
        }
        let tail = self.room(live).min(frame::TAIL_MOST);
        // SAFETY: the block is the heap's again; between its guards nothing else was ever written.
        unsafe { zeros::clear(live.user - FRONT, FRONT + live.frame.bytes + tail) };
        false
    }

    /// The bytes between guards and canaries were never anybody's: they are zero.
    fn check_slack(&self, live: &Live, body: usize, guard: usize) -> Result<(), Misuse> {
        let end = live.user + live.frame.bytes;
        let behind = round_up(end + frame::TAIL_MOST, 8).min(guard);
        let parts = [(body, live.user - FRONT, Fault::Underflow), (behind, guard, Fault::Overflow)];
        for (start, end, fault) in parts {
            // SAFETY: both parts lie between the guards.
            if let Some(changed) = unsafe { zeros::first_nonzero(start, end - start) } {
                return Err(Misuse { address: changed, ..self.about(fault, live) });
            }
        }
        Ok(())
    }

    /// Lets a run go that waited, if it is one.
    fn leave(&self, word: usize) {
        if word != 0 {
            let closed = Closed::of_word(word);
            self.heap.count_large_quarantined(closed.run, false);
            self.let_go(closed, 0);
        }
    }

    /// Gives a run back to the heap, or keeps it until the system opens its guards. `guard` is what `Stuck` keeps with it.
    fn let_go(&self, closed: Closed, guard: usize) {
        if !self.give(closed) {
            self.stuck.put(closed.word(), guard);
        }
    }

    fn give(&self, closed: Closed) -> bool {
        let opened = self.unfence(closed);
        if opened {
            self.heap.free(closed.run);
        }
        opened
    }

    /// The place of the guards, which `Stuck` keeps with a run that is open between them; 0 where it cannot be told.
    fn open_part(&self, body: usize, guard: usize) -> usize {
        let page = self.heap.os.page_bytes();
        body.checked_div(page).filter(|pages| *pages < page).map_or(0, |pages| guard | pages)
    }

    /// A run that is stuck with its guards as far apart as this layout has them, and by how many bytes its first one is
    /// longer. Runs that can be opened by now are given back.
    fn reuse(&self, id: HeapId, layout: Layout, align: usize) -> Option<(Closed, usize)> {
        let page = self.heap.os.page_bytes();
        let further = Cell::new(0);
        let suits = |word: usize, open_part: usize| {
            let (guard, body) = (open_part & !(page - 1), (open_part & (page - 1)) * page);
            further.set(body.wrapping_sub(layout.body));
            let is_as_long =
                open_part != 0 && body >= layout.body && guard - body == layout.guard - layout.body;
            let told = layout.user.wrapping_add(further.get()).checked_div(layout.align);
            let is_told = told.is_some_and(|told| told <= frame::MOST_FURTHER);
            is_as_long
                && self.heap_of_block(Closed::of_word(word).run) == id
                && Closed::of_word(word).run.is_multiple_of(layout.align)
                && if align > page { body == layout.body } else { is_told }
        };
        loop {
            let closed = Closed::of_word(self.stuck.take(suits)?);
            let further = further.get();
            if !self.give(closed) {
                return Some((closed, further));
            }
        }
    }

    pub(super) fn empty_runs(&self) {
        self.empty_waiting(&self.runs);
        self.open_stuck();
    }

    pub(super) fn empty_runs_of_tenants(&self) {
        if self.heap.tenants.has_any() {
            self.empty_waiting(&self.runs_of_tenants);
            self.open_stuck();
        }
    }

    fn empty_waiting(&self, runs: &Runs) {
        runs.waiting.iter().for_each(|place| self.leave(place.swap(0, Ordering::AcqRel)));
    }

    fn open_stuck(&self) {
        while self.stuck.take(|word, _| self.give(Closed::of_word(word))).is_some() {}
    }
}
