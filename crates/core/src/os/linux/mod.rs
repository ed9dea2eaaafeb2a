//! Linux by way of glibc.

mod background;
mod cgroup;
mod cpus;
mod files;
mod huge;
mod memory;
mod process;
#[cfg(target_arch = "x86_64")]
mod sequences;
mod stack;
#[cfg(target_arch = "x86_64")]
pub mod unwind;

pub use stack::Interrupted;

use super::{HugePages, MapRefusal, MemoryGroup, Os, SequenceArea, Unread, Wait};
use crate::base::sync::AtomicU32;
use crate::base::text::Sink;
use core::ffi::CStr;

/// The real system. Has no state: every answer is asked for anew.
#[derive(Clone, Copy, Default)]
pub struct Linux;

impl Wait for Linux {
    fn wait(word: &AtomicU32, expected: u32) {
        process::futex_wait(word, expected);
    }

    fn wake_one(word: &AtomicU32) {
        process::futex_wake(word, 1);
    }

    #[inline]
    fn mark() -> u32 {
        // Thread control blocks are multiples of 64 bytes apart and lie within 64 GiB of each other; whatever
        // the lowest bits were, they are the same for all.
        ((process::thread_id() >> 5) as u32 & !1).max(2)
    }
}

impl Os for Linux {
    fn thread_id() -> usize {
        process::thread_id()
    }
    fn thread_number(&self) -> u64 {
        process::thread_number()
    }
    fn process_number(&self) -> u64 {
        process::process_number()
    }
    fn page_bytes(&self) -> usize {
        memory::page_bytes()
    }
    fn free_range(&self, bytes: usize) -> Option<usize> {
        memory::free_range(bytes)
    }
    fn address_budget(&self) -> usize {
        memory::address_budget()
    }
    fn map_at(&self, address: usize, bytes: usize) -> Result<(), MapRefusal> {
        memory::map_at(address, bytes)
    }
    fn reserve(&self, bytes: usize) -> Option<usize> {
        memory::reserve(bytes)
    }
    fn commit(&self, address: usize, bytes: usize) -> bool {
        memory::commit(address, bytes)
    }
    fn close_pages(&self, address: usize, bytes: usize) -> bool {
        memory::close_pages(address, bytes)
    }
    fn unmap(&self, address: usize, bytes: usize) {
        memory::unmap(address, bytes);
    }
    fn process_word(&self) -> Option<usize> {
        memory::process_word()
    }
    fn populate(&self, address: usize, bytes: usize) {
        memory::populate(address, bytes);
    }
    fn give_back(&self, address: usize, bytes: usize) -> bool {
        memory::give_back(address, bytes)
    }
    fn set_dumped(&self, address: usize, bytes: usize, dumped: bool) -> bool {
        memory::set_dumped(address, bytes, dumped)
    }
    fn collapse(&self, address: usize, bytes: usize) -> bool {
        huge::collapse(address, bytes)
    }
    fn huge_pages(&self) -> HugePages {
        huge::rule()
    }
    fn forbid_huge_pages(&self, address: usize, bytes: usize) {
        huge::forbid(address, bytes);
    }
    fn move_pages(&self, from: usize, to: usize, bytes: usize) -> bool {
        memory::move_pages(from, to, bytes)
    }
    fn resident_bytes(&self, address: usize, bytes: usize) -> Option<usize> {
        memory::resident_bytes(address, bytes)
    }
    fn sequence_area(&self) -> Option<SequenceArea> {
        #[cfg(target_arch = "x86_64")]
        return sequences::area();
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
    fn fence_sequences(&self) -> bool {
        cpus::fence_sequences()
    }
    fn possible_cpus(&self) -> usize {
        cpus::possible()
    }
    fn usable_cpus(&self) -> usize {
        cpus::usable()
    }
    fn random(&self) -> u64 {
        process::random()
    }
    fn now(&self) -> u64 {
        process::now()
    }
    fn wait_for(&self, word: &AtomicU32, expected: u32, nanoseconds: u64) {
        process::futex_wait_for(word, expected, nanoseconds);
    }
    fn memory_group(&self) -> Option<MemoryGroup> {
        cgroup::memory()
    }
    fn memory_bytes(&self) -> usize {
        memory::memory_bytes()
    }
    fn is_under_pressure(&self) -> bool {
        cgroup::is_under_pressure()
    }
    fn is_privileged(&self) -> bool {
        process::is_privileged()
    }
    fn each_variable(&self, take: &mut dyn FnMut(&[u8], &[u8])) {
        process::each_variable(take);
    }
    fn program_name(&self, buffer: &mut [u8]) -> usize {
        process::program_name(buffer)
    }
    fn read_file(&self, path: &CStr, buffer: &mut [u8]) -> Result<usize, Unread> {
        files::read(path, buffer)
    }
    fn read_through(&self, path: &CStr, take: &mut dyn FnMut(&[u8])) -> bool {
        files::read_through(path, take)
    }
    fn write_file(&self, path: &CStr, fill: &mut dyn FnMut(&mut dyn Sink)) -> bool {
        files::write_new(path, fill)
    }
    fn stack(&self, frames: &mut [usize]) -> usize {
        stack::by_frame_pointers(frames)
    }
    fn write(&self, descriptor: i32, bytes: &[u8]) {
        files::write(descriptor, bytes);
    }
    fn copy_descriptors(&self) {
        background::copy_descriptors(self);
    }
    fn abort(&self) -> ! {
        process::abort()
    }
}
