//! The report on a guarded block that was misused: who allocated it, who freed it, who touched it.

use super::guards::Guards;
use super::modules::put_module;
use super::slot::{FREED, LIVE, Slot, UNUSED};
use crate::base::fault::{Access, Fault, Misuse};
use crate::base::stack::{Stack, Trace};
use crate::base::text::{Buffer, Sink, put_decimal, put_hex, put_str};
use crate::os::Os;

impl<O: Os> Guards<O> {
    /// The misuse in an access to the arena that the machine refused. None if the page is open, so that the
    /// arena is not the reason.
    pub fn misuse_of(&self, address: usize, access: Access) -> Option<Misuse> {
        if let Some(number) = self.wide_number(address) {
            return self.misuse_of_wide(number, address, access);
        }
        let index = self.page_index(address);
        let at = |fault, slot: &Slot| {
            Some(Misuse { block: Some((slot.address, slot.bytes)), ..Misuse::at(fault, address) })
        };
        if index % 2 == 1 {
            return match self.slot(index / 2) {
                Some(slot) if slot.state() == FREED => at(Fault::AfterFree(access), slot),
                Some(slot) if slot.state() == LIVE => None,
                _ => Some(Misuse::at(Fault::NoBlock(access), address)),
            };
        }
        match self.beside(index, address) {
            // A block that is not any more.
            Some((_, slot)) if slot.state() == FREED => at(Fault::AfterFree(access), slot),
            Some((true, slot)) => at(Fault::PastEnd(access), slot),
            Some((false, slot)) => at(Fault::BeforeStart(access), slot),
            None => Some(Misuse::at(Fault::NoBlock(access), address)),
        }
    }

    fn misuse_of_wide(&self, number: usize, address: usize, access: Access) -> Option<Misuse> {
        let Some(slot) = self.slot(number).filter(|slot| slot.state() != UNUSED) else {
            return Some(Misuse::at(Fault::NoBlock(access), address));
        };
        let (page, bytes) = self.pages_of(slot);
        let fault = match slot.state() {
            FREED => Fault::AfterFree(access),
            _ if address < page => Fault::BeforeStart(access),
            _ if address >= page + bytes => Fault::PastEnd(access),
            _ => return None,
        };
        Some(Misuse { block: Some((slot.address, slot.bytes)), ..Misuse::at(fault, address) })
    }

    /// The block beside a guard page that was meant most likely: a live one before a freed one, else the
    /// nearer. True where it lies before the page.
    fn beside(&self, page: usize, address: usize) -> Option<(bool, &Slot)> {
        let used = |number: usize| self.slot(number).filter(|slot| slot.state() != UNUSED);
        let before = (page / 2).checked_sub(1).and_then(used);
        let behind = used(page / 2);
        match (before, behind) {
            (Some(before), Some(behind)) => {
                let (past, short) = (address - (before.address + before.bytes), behind.address - address);
                let before_wins = match (before.state(), behind.state()) {
                    (LIVE, FREED) => true,
                    (FREED, LIVE) => false,
                    _ => past <= short,
                };
                Some(if before_wins { (true, before) } else { (false, behind) })
            }
            (Some(before), None) => Some((true, before)),
            (None, behind) => behind.map(|behind| (false, behind)),
        }
    }

    /// Writes the stacks of a misuse, line by line on descriptor 2. `here`: the stack of the misuse itself.
    pub fn report(&self, os: &O, misuse: &Misuse, here: &Stack) {
        let found_later = matches!(misuse.fault, Fault::Overflow | Fault::Underflow);
        put_line(os, |line| put_str(line, if found_later { "  found here:" } else { "  here:" }));
        put_stack(os, here);
        let slot = misuse.block.and_then(|(start, _)| self.slot(self.number_of(start)?));
        let Some(slot) = slot else { return };
        put_trace(os, "  allocated by thread ", &slot.allocated);
        if slot.state() == FREED {
            put_trace(os, "  freed by thread ", &slot.freed);
        }
    }
}

fn put_trace<O: Os>(os: &O, what: &str, trace: &Trace) {
    put_line(os, |line| {
        put_str(line, what);
        put_decimal(line, trace.thread);
        put_str(line, ", ");
        put_decimal(line, os.now().saturating_sub(trace.nanoseconds) / 1_000_000);
        put_str(line, " ms ago:");
    });
    put_stack(os, &trace.stack);
}

pub fn put_stack<O: Os>(os: &O, stack: &Stack) {
    if stack.frames().is_empty() {
        put_line(os, |line| {
            put_str(line, "    (no stack: code without tables for unwinding and without frame pointers)");
        });
    }
    for (number, frame) in stack.frames().iter().enumerate() {
        put_line(os, |line| {
            put_str(line, "    #");
            put_decimal(line, number as u64);
            put_str(line, " ");
            put_hex(line, *frame as u64);
            put_module(os, line, *frame);
        });
    }
}

pub fn put_line<O: Os>(os: &O, fill: impl FnOnce(&mut dyn Sink)) {
    let mut bytes = [0u8; 320];
    let mut line = Buffer::new(&mut bytes);
    fill(&mut line);
    put_str(&mut line, "\n");
    os.write(2, line.as_bytes());
}
