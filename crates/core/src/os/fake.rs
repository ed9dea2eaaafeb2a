//! A system that counts what it is asked and refuses on demand. Its memory is real, so that heaps on it work.

use super::{
    FreeRange, HugePages, Linux, MapRefusal, MemoryGroup, Moved, NoSequences, Os, Purpose, SequenceArea,
    Unread, Wait,
};
use crate::base::locks::Rank;
use crate::base::sync;
use crate::base::text::Sink;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

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
}

const REQUESTS: usize = 16;
const NEVER: u64 = u64::MAX;
const PLACE_BYTES: usize = 4 << 30;
const FIRST_PLACE: usize = 0x0500_0000_0000;
const PLACES: usize = 16_000;

/// What a panic says that stands for the end of the process.
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
    /// What comes with a free range.
    pub random_of_range: AtomicU64,
    pub clock: AtomicU64,
    pub group_limit: AtomicUsize,
    pub group_in_use: AtomicUsize,
    /// How much of that the group could give up.
    pub group_cache: AtomicUsize,
    /// What the system says of this process's memory; 0: nothing.
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
    pub variables: &'static [(&'static str, &'static str)],
    pub file: &'static str,
    /// Why there is no file where its text is empty.
    pub unread: Unread,
    pub privileged: bool,
    /// Where the heap and its tables are to lie; 0: anywhere.
    pub place: AtomicUsize,
    /// Longer ranges are several mappings.
    pub longest_mapping: AtomicUsize,
    /// A move that is refused leaves a hole.
    pub moves_leave_holes: AtomicBool,
    /// Where the process would end, the thread panics.
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

impl Wait for Fake {
    fn wait(word: &sync::AtomicU32, expected: u32) {
        Linux::wait(word, expected);
    }

    fn wake_one(word: &sync::AtomicU32) {
        Linux::wake_one(word);
    }

    fn mark() -> usize {
        Linux::mark()
    }
}

impl Os for Fake {
    fn inside() -> &'static sync::AtomicUsize {
        Linux::inside()
    }

    fn thread_number(&self) -> u64 {
        self.linux.thread_number()
    }

    fn process_number(&self) -> u64 {
        self.linux.process_number()
    }

    fn page_bytes(&self) -> usize {
        if self.page != 0 { self.page } else { self.linux.page_bytes() }
    }

    fn free_range(&self, bytes: usize) -> Option<FreeRange> {
        // Several heaps live in one test process, so each takes a place of its own.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // A fuzzer makes more heaps than there are places, but never so many at a time.
        let place = || NEXT.fetch_add(bytes.div_ceil(PLACE_BYTES), Relaxed) % PLACES;
        let (asked_for, random) = (self.place.load(Relaxed), self.random_of_range.load(Relaxed));
        if asked_for != 0 {
            return Some(FreeRange { address: asked_for, random });
        }
        self.grants(Request::FreeRange)
            .then(|| FreeRange { address: FIRST_PLACE + place() * PLACE_BYTES, random })
    }

    fn address_budget(&self) -> usize {
        self.address_budget.load(Relaxed)
    }

    fn address_range(&self) -> usize {
        self.address_budget.load(Relaxed) + self.address_room.load(Relaxed)
    }

    fn map_at(&self, address: usize, bytes: usize) -> Result<(), MapRefusal> {
        if self.grants(Request::MapAt) && self.begins_a_page(address) {
            self.note_mapped(Some(address), bytes);
            self.linux.map_at(address, bytes)
        } else {
            Err(MapRefusal::Exhausted)
        }
    }

    fn map_zeros_at(&self, address: usize, bytes: usize) -> Result<(), MapRefusal> {
        let granted = self.grants(Request::MapAt) && self.begins_a_page(address);
        self.note_mapped(Some(address).filter(|_| granted), bytes);
        if granted { self.linux.map_zeros_at(address, bytes) } else { Err(MapRefusal::Exhausted) }
    }

    fn reserve(&self, bytes: usize) -> Option<usize> {
        // With room to begin at a page.
        let range = if self.grants(Request::Reserve) { self.linux.reserve(bytes + self.page) } else { None };
        self.note_mapped(range, bytes + self.page);
        range.map(|range| if self.page == 0 { range } else { range.next_multiple_of(self.page) })
    }

    fn map(&self, bytes: usize) -> Option<usize> {
        let granted = self.grants(Request::Map);
        let range = if granted { self.linux.map(bytes + self.page) } else { None };
        range.map(|range| if self.page == 0 { range } else { range.next_multiple_of(self.page) })
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        self.grants(Request::Commit) && self.begins_a_page(address) && self.linux.commit(address, bytes)
    }

    fn close_pages(&self, address: usize, bytes: usize) -> bool {
        self.grants(Request::ClosePages)
            && self.begins_a_page(address)
            && self.linux.close_pages(address, bytes)
    }

    fn unmap(&self, address: usize, bytes: usize) {
        self.look_for_locks("its own memory back");
        #[cfg(test)]
        self.mapped.lock().unwrap().retain(|(start, _)| start.wrapping_sub(address) >= bytes);
        self.linux.unmap(address, bytes);
    }

    fn process_word(&self) -> Option<usize> {
        self.linux.process_word()
    }

    fn release(&self, address: usize, bytes: usize) -> bool {
        self.grants(Request::Release) && self.begins_a_page(address) && self.linux.release(address, bytes)
    }

    fn set_dumped(&self, address: usize, bytes: usize, dumped: bool) -> bool {
        self.grants(Request::SetDumped) && self.linux.set_dumped(address, bytes, dumped)
    }

    fn name_pages(&self, _: usize, bytes: usize, purpose: Purpose) {
        self.look_for_locks("names");
        if let Some(named) = self.named.get(purpose as usize) {
            named.fetch_add(bytes, Relaxed);
        }
    }

    fn populate(&self, address: usize, bytes: usize) {
        if self.grants(Request::Populate) {
            self.linux.populate(address, bytes);
        }
    }

    fn collapse(&self, _: usize, _: usize) -> bool {
        self.clock.fetch_add(self.collapse_takes, Relaxed);
        self.grants(Request::Collapse)
    }

    fn take_huge(&self, address: usize, bytes: usize) -> bool {
        self.clock.fetch_add(self.collapse_takes, Relaxed);
        let granted = self.grants(Request::TakeHuge);
        if granted {
            self.linux.populate(address, bytes);
        }
        granted
    }

    fn split_huge(&self, _: usize) {
        self.grants(Request::SplitHuge);
    }

    fn huge_pages(&self) -> HugePages {
        self.huge_pages
    }

    fn forbid_huge_pages(&self, _: usize, bytes: usize) {
        self.forbidden.fetch_add(bytes, Relaxed);
    }

    fn move_pages(&self, from: usize, to: usize, bytes: usize) -> Moved {
        if bytes > self.longest_mapping.load(Relaxed) {
            return Moved::Several;
        }
        if self.grants(Request::MovePages) {
            return self.linux.move_pages(from, to, bytes);
        }
        if !self.moves_leave_holes.load(Relaxed) {
            return Moved::Nothing;
        }
        self.linux.unmap(to, bytes);
        Moved::Hole
    }

    fn residency(&self, address: usize, pages: &mut [u8]) -> bool {
        self.grants(Request::Residency) && self.linux.residency(address, pages)
    }

    fn resident_bytes(&self, address: usize, bytes: usize) -> Option<usize> {
        self.linux.resident_bytes(address, bytes)
    }

    fn sequence_area(&self) -> Option<SequenceArea> {
        if self.has_sequences { self.linux.sequence_area() } else { None }
    }

    fn aborts_sequences(&self) -> bool {
        !self.never_aborts
    }

    fn own_sequence_area(&self) -> Result<SequenceArea, NoSequences> {
        if self.has_sequences { self.linux.own_sequence_area() } else { Err(NoSequences::Kernel) }
    }

    fn enter_sequences(&self) -> bool {
        self.has_sequences && self.linux.enter_sequences()
    }

    fn fence_sequences(&self) -> bool {
        self.grants(Request::Fence) && (!self.has_sequences || self.linux.fence_sequences())
    }

    fn possible_cpus(&self) -> usize {
        self.linux.possible_cpus().max(64)
    }

    fn usable_cpus(&self, seen: usize) -> usize {
        self.usable_cpus.load(Relaxed).max(seen)
    }

    fn domain(&self) -> usize {
        self.domain.load(Relaxed)
    }

    fn random(&self) -> u64 {
        self.linux.random()
    }

    fn now(&self) -> u64 {
        self.clock.load(Relaxed)
    }

    fn wait_for(&self, word: &sync::AtomicU32, expected: u32, nanoseconds: u64) {
        self.linux.wait_for(word, expected, nanoseconds);
    }

    fn memory_group(&self, exact: bool) -> Result<Option<MemoryGroup>, Unread> {
        if self.listed_only.load(Relaxed) {
            return Err(Unread::Refused);
        }
        let limit = self.group_limit.load(Relaxed);
        let cache = if exact { self.group_cache.load(Relaxed) } else { 0 };
        Ok((limit > 0).then(|| MemoryGroup { limit, in_use: self.group_in_use.load(Relaxed) - cache }))
    }

    fn own_memory(&self) -> Option<usize> {
        Some(self.own_memory.load(Relaxed)).filter(|bytes| *bytes > 0 && !self.listed_only.load(Relaxed))
    }

    fn memory_bytes(&self) -> usize {
        1 << 30
    }

    fn is_under_pressure(&self) -> bool {
        self.pressed.load(Relaxed)
    }

    fn is_privileged(&self) -> bool {
        self.privileged
    }

    fn each_variable(&self, take: &mut dyn FnMut(&[u8], &[u8])) {
        self.variables.iter().for_each(|(name, value)| take(name.as_bytes(), value.as_bytes()));
    }

    fn program_name(&self, buffer: &mut [u8]) -> usize {
        buffer[..4].copy_from_slice(b"fake");
        4
    }

    fn read_file(&self, _: &CStr, buffer: &mut [u8]) -> Result<usize, Unread> {
        if self.file.is_empty() {
            return Err(self.unread);
        }
        let length = self.file.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.file.as_bytes()[..length]);
        Ok(length)
    }

    fn read_through(&self, _: &CStr, take: &mut dyn FnMut(&[u8])) -> bool {
        take(self.file.as_bytes());
        !self.file.is_empty()
    }

    fn write_file(&self, path: &CStr, fill: &mut dyn FnMut(&mut dyn Sink)) -> bool {
        self.grants(Request::WriteFile) && self.linux.write_file(path, fill)
    }

    fn write_whole(
        &self,
        path: &CStr,
        beside: &CStr,
        fill: &mut dyn FnMut(&mut dyn Sink),
    ) -> Result<(), u32> {
        if self.grants(Request::WriteFile) { self.linux.write_whole(path, beside, fill) } else { Err(28) }
    }

    fn stack(&self, frames: &mut [usize]) -> usize {
        let depth = self.stack_depth.load(Relaxed).min(frames.len());
        (0..depth).for_each(|frame| frames[frame] = 0x40_0000 + frame);
        depth
    }

    fn write(&self, descriptor: i32, bytes: &[u8]) {
        self.said.fetch_add(bytes.len(), Relaxed);
        if !self.quiet {
            self.linux.write(descriptor, bytes);
        }
    }

    fn copy_descriptors(&self) {}

    fn learn(&self) {}

    fn keep_to_list(&self) {
        self.listed_only.store(true, Relaxed);
    }

    fn abort(&self) -> ! {
        if self.panics {
            panic!("{ABORTED}");
        }
        self.linux.abort()
    }
}
