//! The real system's answers to the questions of `Os` and `Wait`: each asks a file beside this one, where it may be asked.

use super::super::{
    FreeRange, HugePages, LENT, LOOKED_FOR, MapRefusal, MemoryGroup, Moved, NoSequences, Os, Purpose,
    Registered, SequenceArea, Unread, Wait,
};
use super::allowed::Ask;
#[cfg(target_arch = "aarch64")]
use super::kernel;
use super::{Linux, background, cgroup, chance, cpus, files, huge, memory, process, stack, thread};
use super::{lending, registration, sequences};
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::base::text::Sink;
use core::ffi::CStr;

impl Wait for Linux {
    fn wait(word: &AtomicU32, expected: u32) {
        lending::wait(word, expected);
    }

    fn wake_one(word: &AtomicU32) {
        thread::futex_wake(word, 1);
    }

    #[inline]
    fn mark() -> usize {
        Self::thread_id()
    }
}

impl Os for Linux {
    #[inline]
    fn inside() -> &'static AtomicUsize {
        registration::inside()
    }

    #[inline]
    fn heap_in_use() -> &'static AtomicUsize {
        registration::heap_in_use()
    }

    #[inline]
    fn tenant_in_use() -> &'static AtomicUsize {
        registration::tenant_in_use()
    }

    fn offset_of_heap() -> isize {
        registration::offset_of_heap()
    }

    fn unseen<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = thread::error_number();
        let result = work();
        thread::set_error_number(before);
        result
    }

    fn thread_number(&self) -> u64 {
        if self.may(Ask::Thread) { thread::thread_number() } else { 0 }
    }

    #[inline]
    fn thread_number_at(&self, offset: usize) -> u32 {
        thread::number_at(offset)
    }

    fn process_number(&self) -> u64 {
        self.own_number()
    }

    fn page_bytes(&self) -> usize {
        memory::page_bytes()
    }

    fn free_range(&self, bytes: usize) -> Option<FreeRange> {
        memory::free_range(bytes)
    }

    fn address_budget(&self) -> usize {
        memory::address_budget()
    }

    fn address_range(&self) -> usize {
        memory::address_range()
    }

    fn map_at(&self, address: usize, bytes: usize) -> Result<(), MapRefusal> {
        if self.may(Ask::Map) {
            memory::map_at(address, bytes)
        } else if self.may(Ask::MapPlainly) {
            memory::map_plainly_at(address, bytes)
        } else {
            Err(MapRefusal::Exhausted)
        }
    }

    fn map_zeros_at(&self, address: usize, bytes: usize) -> Result<(), MapRefusal> {
        if self.may(Ask::Map) { memory::map_zeros_at(address, bytes) } else { self.map_at(address, bytes) }
    }

    fn reserve(&self, bytes: usize) -> Option<usize> {
        if self.may(Ask::Reserve) { memory::reserve(bytes) } else { None }
    }

    fn reserve_apart(&self, bytes: usize) -> Option<usize> {
        if self.may(Ask::Reserve) { memory::reserve_apart(bytes, self.random()) } else { None }
    }

    fn map(&self, bytes: usize) -> Option<usize> {
        if self.may(Ask::MapPlainly) { memory::map_plainly(bytes) } else { None }
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        self.may(Ask::Open) && memory::commit(address, bytes)
    }

    fn close_pages(&self, address: usize, bytes: usize) -> bool {
        self.may(Ask::Close) && self.may(Ask::Open) && memory::close_pages(address, bytes)
    }

    fn mark_pages(&self, address: usize, bytes: usize) -> bool {
        self.may(Ask::Mark) && self.may(Ask::Unmark) && memory::mark_pages(address, bytes)
    }

    fn unmark_pages(&self, address: usize, bytes: usize) -> bool {
        self.may(Ask::Unmark) && memory::unmark_pages(address, bytes)
    }

    fn unmap(&self, address: usize, bytes: usize) {
        if self.may(Ask::Unmap) {
            memory::unmap(address, bytes);
        }
    }

    fn process_word(&self) -> Option<usize> {
        memory::process_word()
    }

    fn wipe_in_children(&self, address: usize, bytes: usize) -> bool {
        self.may(Ask::Wipe) && memory::wipe_in_children(address, bytes)
    }

    fn populate(&self, address: usize, bytes: usize) {
        if self.may(Ask::Populate) {
            memory::populate(address, bytes);
        }
    }

    fn release(&self, address: usize, bytes: usize) -> bool {
        self.may(Ask::Release) && memory::release(address, bytes)
    }

    fn set_dumped(&self, address: usize, bytes: usize, dumped: bool) -> bool {
        self.may(if dumped { Ask::Dump } else { Ask::NoDump }) && memory::set_dumped(address, bytes, dumped)
    }

    fn name_pages(&self, address: usize, bytes: usize, purpose: Purpose) {
        if self.may(Ask::NamePages)
            && !self.has_no_names.load(Ordering::Relaxed)
            && !memory::name_pages(address, bytes, purpose.name())
        {
            self.has_no_names.store(true, Ordering::Relaxed);
        }
    }

    fn collapse(&self, address: usize, bytes: usize) -> bool {
        self.may(Ask::Collapse) && huge::collapse(address, bytes)
    }

    fn take_huge(&self, address: usize, bytes: usize) -> bool {
        let may = [Ask::Huge, Ask::NoHuge, Ask::Populate].into_iter().all(|ask| self.may(ask));
        // Without a huge page the last page is not there: the owner of a part of the block begins in front.
        let page = memory::page_bytes();
        may && self.tells_residence()
            && huge::take(address, bytes)
            && self.resident_bytes(address + bytes - page, page).is_some_and(|resident| resident > 0)
    }

    fn split_huge(&self, address: usize) {
        if self.may(Ask::Cold) {
            huge::split(address);
        }
    }

    fn huge_pages(&self) -> HugePages {
        huge::rule()
    }

    fn forbid_huge_pages(&self, address: usize, bytes: usize) {
        if self.may(Ask::NoHuge) {
            huge::forbid(address, bytes);
        }
    }

    fn move_pages(&self, from: usize, to: usize, bytes: usize) -> Moved {
        if self.may(Ask::Move) { memory::move_pages(from, to, bytes) } else { Moved::Nothing }
    }

    fn residency(&self, address: usize, pages: &mut [u8]) -> bool {
        if self.may_ask_residence() {
            memory::residency(address, pages)
        } else {
            self.may_read_residence() && files::residency(address, pages, memory::page_bytes())
        }
    }

    fn sequence_area(&self) -> Option<SequenceArea> {
        let area = sequences::area()?;
        self.area.store(area.area.cast_unsigned(), Ordering::Relaxed);
        Some(area)
    }

    #[cfg(target_arch = "aarch64")]
    fn aborts_sequences(&self) -> bool {
        kernel::with_release(|release| {
            let signature = |room: &mut [u8]| self.read_file(kernel::SIGNATURE, room).unwrap_or(0);
            kernel::aborts_sequences(release, signature)
        })
    }

    fn own_sequence_area(&self) -> Result<SequenceArea, NoSequences> {
        if !self.may(Ask::Register) {
            return Err(NoSequences::Kernel);
        }
        let area = registration::area()?;
        self.area.store(area.area.cast_unsigned(), Ordering::Relaxed);
        Ok(area)
    }

    fn enter_sequences(&self) -> bool {
        self.registration.enter(self.may(Ask::Register))
    }

    fn suspend_sequences(&self, area: isize) -> Registered {
        let may_ask = self.may(Ask::Register) && self.may_ask(libc::SYS_rt_sigprocmask);
        lending::suspend(area, may_ask)
    }

    fn resume_sequences(&self, area: isize, before: Registered) {
        lending::resume(area, before, self.may(Ask::Register));
    }

    fn lend(&self, is_parent: bool, waits: bool, is_renumbered: bool) -> u32 {
        let number = self.own_number() as u32;
        // A handler of the maker's runs before the child is taken back: it is not taken for the child if numbers tell them apart.
        let lent = if waits && (is_renumbered || number == 0) { LENT } else { lending::lender() & LENT };
        let noted = match is_parent {
            true if self.may_ask(libc::SYS_getppid) => number | LOOKED_FOR,
            true => number,
            false => 0,
        };
        lending::set_lender(noted | lent)
    }

    fn set_lender(&self, lender: u32) -> u32 {
        lending::set_lender(lender)
    }

    fn lender(&self) -> u32 {
        lending::lender()
    }

    fn has_own_refusals(&self) -> bool {
        registration::refused().load(Ordering::Relaxed) != 0
    }

    fn forget_own_refusals(&self) {
        registration::refused().store(0, Ordering::Relaxed);
    }

    fn share_own_refusals(&self) {
        self.allowed.share_own();
    }

    fn end_if_left_behind(&self) {
        lending::end_if_left_behind();
    }

    fn fence_sequences(&self) -> bool {
        self.is_single_threaded() || self.may(Ask::Fence) && cpus::fence_sequences()
    }

    fn possible_cpus(&self) -> usize {
        self.ask_for_cpus().possible
    }

    fn usable_cpus(&self, seen: usize) -> usize {
        let ask = || cpus::within_groups(self.ask_for_cpus().allowed.max(seen));
        self.allowed.cpus(self.allowed.may_read(), ask)
    }

    fn learn_domains(&self) {
        if !self.domains.are_known() && self.allowed.may_read() {
            self.domains.learn(|path, room| files::read_once(path, room).ok());
        }
    }

    #[inline]
    fn domain(&self) -> usize {
        if self.domains.are_several() { self.cpu().map_or(0, |cpu| self.domains.of(cpu)) } else { 0 }
    }

    fn random(&self) -> u64 {
        self.allowed.random(chance::random)
    }

    fn now(&self) -> u64 {
        if self.may(Ask::Clock) { chance::now() } else { 0 }
    }

    fn roughly_now(&self) -> u64 {
        if self.may(Ask::Clock) { chance::roughly_now() } else { 0 }
    }

    fn wait_for(&self, word: &AtomicU32, expected: u32, nanoseconds: u64) {
        thread::futex_wait_for(word, expected, nanoseconds);
    }

    fn memory_group(&self, exact: bool) -> Result<Option<MemoryGroup>, Unread> {
        if self.allowed.may_read() { Ok(cgroup::memory(exact)) } else { Err(Unread::Refused) }
    }

    fn own_memory(&self) -> Option<usize> {
        if self.allowed.may_read() { files::own_memory() } else { None }
    }

    fn memory_bytes(&self) -> usize {
        self.allowed.memory(memory::memory_bytes)
    }

    fn is_under_pressure(&self) -> bool {
        self.allowed.may_read() && cgroup::is_under_pressure()
    }

    fn is_privileged(&self) -> bool {
        process::is_privileged()
    }

    fn each_variable(&self, take: &mut dyn FnMut(&[u8], &[u8])) {
        process::each_variable(take);
    }

    fn program_name(&self, buffer: &mut [u8]) -> usize {
        if self.may(Ask::Name) { process::program_name(buffer) } else { 0 }
    }

    fn read_file(&self, path: &CStr, buffer: &mut [u8]) -> Result<usize, Unread> {
        if self.allowed.may_read() { files::read(path, buffer) } else { Err(Unread::Refused) }
    }

    fn read_through(&self, path: &CStr, take: &mut dyn FnMut(&[u8])) -> bool {
        self.allowed.may_read() && files::read_through(path, take)
    }

    fn write_file(&self, path: &CStr, fill: &mut dyn FnMut(&mut dyn Sink)) -> bool {
        self.may_write_files() && files::write_new(path, self.longest_file(), fill).is_ok()
    }

    fn write_whole(
        &self,
        path: &CStr,
        beside: &CStr,
        fill: &mut dyn FnMut(&mut dyn Sink),
    ) -> Result<(), u32> {
        let calls = [libc::SYS_newfstatat, libc::SYS_renameat2];
        if !self.may_write_files() || !calls.into_iter().all(|number| self.may_ask(number)) {
            return Err(0);
        }
        files::write_whole(path, beside, self.longest_file(), fill)
    }

    fn stack(&self, frames: &mut [usize]) -> usize {
        stack::by_frame_pointers(frames)
    }

    fn write(&self, descriptor: i32, bytes: &[u8]) {
        if self.may(Ask::Write) {
            files::write(descriptor, bytes);
        }
    }

    fn learn(&self) {
        self.memory_bytes();
        self.random();
    }

    fn keep_to_list(&self) {
        self.allowed.keep_to_list();
    }

    fn copy_descriptors(&self) {
        background::copy_descriptors(self);
    }

    fn abort(&self) -> ! {
        process::abort()
    }
}
