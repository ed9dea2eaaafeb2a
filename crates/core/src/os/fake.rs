//! A system that counts what it is asked and refuses on demand. Its memory is real, so that heaps on it work.

use super::{
    FreeRange, HugePages, Linux, MapRefusal, MemoryGroup, Moved, NoSequences, Os, Purpose, SequenceArea,
    Unread, Wait,
};
use crate::base::locks::Rank;
use crate::base::text::Sink;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

mod answers;

/// The kinds of request that can be refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Request {
    MapAt,
    Reserve,
    Commit,
    Release,
    MovePages,
    FreeRange,
    Fence,
    Collapse,
    SetDumped,
    ClosePages,
    WriteFile,
    Populate,
    Map,
    TakeHuge,
    SplitHuge,
    Residency,
    MarkPages,
    UnmarkPages,
}

const REQUESTS: usize = 18;
const NEVER: u64 = u64::MAX;
const PLACE_BYTES: usize = 4 << 30;
const FIRST_PLACE: usize = 0x0500_0000_0000;
const PLACES: usize = 16_000;

/// The message of a panic that stands for the end of the process.
pub const ABORTED: &str = "the process was ended";

/// A fake system. Without orders it behaves as Linux without restartable sequences on two CPUs.
pub struct Fake {
    linux: Linux,
    asked: [AtomicU64; REQUESTS],
    refuse_from: [AtomicU64; REQUESTS],
    /// Bytes of pages that were said to be for each purpose.
    pub named: [AtomicUsize; 4],
    /// Bytes that must get no huge pages.
    pub forbidden: AtomicUsize,
    pub usable_cpus: AtomicUsize,
    /// Calls come from a signal handler, whatever locks the work that it interrupted has.
    pub is_handler: AtomicBool,
    /// The domain of every CPU.
    pub domain: AtomicUsize,
    pub address_budget: AtomicUsize,
    /// Addresses of the range beyond the budget.
    pub address_room: AtomicUsize,
    /// The random bits that come with a free range.
    pub random_of_range: AtomicU64,
    pub clock: AtomicU64,
    /// How often the clock was asked.
    pub clock_asked: AtomicUsize,
    pub group_limit: AtomicUsize,
    pub group_in_use: AtomicUsize,
    /// How much of that the group could give up.
    pub group_cache: AtomicUsize,
    /// The memory of this process, as the system says; 0: it says nothing.
    pub own_memory: AtomicUsize,
    /// Nothing but memory, fences and waiting may be asked.
    pub listed_only: AtomicBool,
    pub pressed: AtomicBool,
    pub stack_depth: AtomicUsize,
    /// Bytes of messages, printed or not.
    pub said: AtomicUsize,
    pub huge_pages: HugePages,
    /// Nanoseconds of the clock in which a huge page is made.
    pub collapse_takes: u64,
    /// Guard pages can be marked, if this machine has that.
    pub marks: bool,
    pub variables: &'static [(&'static str, &'static str)],
    pub file: &'static str,
    /// Why there is no file where its text is empty.
    pub unread: Unread,
    pub privileged: bool,
    /// The address that the heap and its tables are to have; 0: any.
    pub place: AtomicUsize,
    /// Longer ranges are several mappings.
    pub longest_mapping: AtomicUsize,
    /// A move that is refused leaves a hole.
    pub moves_leave_holes: AtomicBool,
    /// The thread panics where the process would end.
    pub panics: bool,
    /// Messages are not written.
    pub quiet: bool,
    /// The system's page; 0: that of this machine. Requests that do not begin at a page are refused.
    pub page: usize,
    /// Called in the middle of each request: as if something else happened then.
    pub meanwhile: Option<fn(Request)>,
    /// There are restartable sequences, if this machine has them.
    pub has_sequences: bool,
    /// The kernel does not abort them.
    pub never_aborts: bool,
    /// Start and bytes of what was mapped and not ended.
    #[cfg(test)]
    pub mapped: Mapped,
}

/// Ends the mappings of a heap with it: a thousand tests in one process would hold the memory of all their heaps.
#[cfg(test)]
#[derive(Default)]
pub struct Mapped(std::sync::Mutex<Vec<(usize, usize)>>);

#[cfg(test)]
impl core::ops::Deref for Mapped {
    type Target = std::sync::Mutex<Vec<(usize, usize)>>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[cfg(test)]
impl Drop for Mapped {
    fn drop(&mut self) {
        let Ok(mapped) = self.0.get_mut() else { return };
        // Elsewhere the system may have given a part that was unmapped to somebody else.
        let in_places = |start: usize| (FIRST_PLACE..FIRST_PLACE + PLACES * PLACE_BYTES).contains(&start);
        mapped
            .iter()
            .filter(|(start, _)| in_places(*start))
            .for_each(|&(start, bytes)| Linux::new().unmap(start, bytes));
    }
}

impl Default for Fake {
    fn default() -> Self {
        Fake {
            linux: Linux::new(),
            asked: [const { AtomicU64::new(0) }; REQUESTS],
            refuse_from: [const { AtomicU64::new(NEVER) }; REQUESTS],
            named: [const { AtomicUsize::new(0) }; 4],
            forbidden: AtomicUsize::new(0),
            usable_cpus: AtomicUsize::new(2),
            is_handler: AtomicBool::new(false),
            domain: AtomicUsize::new(0),
            address_budget: AtomicUsize::new(4 << 30),
            address_room: AtomicUsize::new(0),
            random_of_range: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            clock_asked: AtomicUsize::new(0),
            group_limit: AtomicUsize::new(0),
            group_in_use: AtomicUsize::new(0),
            group_cache: AtomicUsize::new(0),
            own_memory: AtomicUsize::new(0),
            listed_only: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            stack_depth: AtomicUsize::new(3),
            said: AtomicUsize::new(0),
            huge_pages: HugePages::OnRequest,
            collapse_takes: 0,
            marks: false,
            variables: &[],
            file: "",
            unread: Unread::Missing,
            privileged: false,
            place: AtomicUsize::new(0),
            longest_mapping: AtomicUsize::new(usize::MAX),
            moves_leave_holes: AtomicBool::new(false),
            panics: false,
            quiet: false,
            page: 0,
            meanwhile: None,
            has_sequences: false,
            never_aborts: false,
            #[cfg(test)]
            mapped: Mapped::default(),
        }
    }
}

impl Fake {
    /// Requests of this kind so far, refused ones included.
    pub fn asked(&self, request: Request) -> u64 {
        self.asked[request as usize].load(Relaxed)
    }

    /// Refuses all requests of this kind after `more` further ones.
    pub fn refuse_after(&self, request: Request, more: u64) {
        self.refuse_from[request as usize].store(self.asked(request) + more, Relaxed);
    }

    /// Grants requests of this kind again.
    pub fn grant(&self, request: Request) {
        self.refuse_from[request as usize].store(NEVER, Relaxed);
    }

    /// Panics where a thread asks the system while it holds a lock that mallocs and frees wait for.
    fn look_for_locks(&self, request: impl core::fmt::Debug) {
        for rank in [Rank::Transfer, Rank::Spans, Rank::State] {
            let holds = !self.is_handler.load(Relaxed) && super::witness::holds(Self::mark, rank);
            assert!(!holds, "the system is asked for {request:?} under `{}`", rank.name());
        }
    }

    fn grants(&self, request: Request) -> bool {
        self.look_for_locks(request);
        if let Some(meanwhile) = self.meanwhile {
            meanwhile(request);
        }
        let number = self.asked[request as usize].fetch_add(1, Relaxed);
        number < self.refuse_from[request as usize].load(Relaxed)
    }

    fn note_mapped(&self, _address: Option<usize>, _bytes: usize) {
        #[cfg(test)]
        self.mapped.lock().unwrap().extend(_address.map(|address| (address, _bytes)));
    }

    /// As a system with longer pages has it.
    fn begins_a_page(&self, address: usize) -> bool {
        self.page == 0 || address.is_multiple_of(self.page)
    }
}
