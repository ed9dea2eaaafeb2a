//! The answers of the fake: those of Linux, unless they are refused or set.

use super::*;
use crate::base::sync;
use core::ffi::CStr;

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

    fn heap_in_use() -> &'static sync::AtomicUsize {
        Linux::heap_in_use()
    }

    fn tenant_in_use() -> &'static sync::AtomicUsize {
        Linux::tenant_in_use()
    }

    fn offset_of_heap() -> isize {
        Linux::offset_of_heap()
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

    fn mark_pages(&self, address: usize, bytes: usize) -> bool {
        self.marks && self.grants(Request::MarkPages) && self.linux.mark_pages(address, bytes)
    }

    fn unmark_pages(&self, address: usize, bytes: usize) -> bool {
        self.grants(Request::UnmarkPages) && self.linux.unmark_pages(address, bytes)
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
        self.clock_asked.fetch_add(1, Relaxed);
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
