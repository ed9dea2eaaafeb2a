//! Any sequence of spans opened, resized, closed and given back, with refusals and repairs, against a list of
//! runs.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use arbitrary::Arbitrary;
use vcmalloc_core::base::ticks::{Tick, Ticks};
use vcmalloc_core::class::{SizeClass, UNIT_BYTES};
use vcmalloc_core::os::Os;
use vcmalloc_core::os::fake::{Fake, Request};
use vcmalloc_core::pages::{HUGE_PAGE_BYTES, Pages, Place, SpanId};

use crate::support::steps;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Small(u8),
    Large(u16, u8),
    Close(u8),
    Extend(u8, u16),
    Shrink(u8, u8),
    Release(u16, u8),
    Clock(u8),
    /// Somebody maps something where the heap would grow.
    Squat(u8),
    Refuse(u8, u8),
    Grant,
    Limits(u8),
    Repair,
}

const REQUESTS: [Request; 4] = [Request::MapAt, Request::Commit, Request::Release, Request::SetDumped];

struct Test {
    system: Fake,
    pages: Pages<Fake>,
    /// First unit, and span and units of each open run.
    open: BTreeMap<u32, (SpanId, u32)>,
    squatted: Vec<usize>,
}

impl Test {
    fn first_unit(&self, id: SpanId) -> u32 {
        self.pages.span(id).start.get()
    }

    fn opened(&mut self, id: SpanId, units: u32, zeroed: bool) {
        let start = self.first_unit(id);
        if let Some((before, (_, length))) = self.open.range(..start + units).next_back() {
            assert!(before + length <= start, "two spans overlap");
        }
        let (first, last) = (self.pages.address_of(start), self.pages.address_of(start + units) - 1);
        for address in [first, last] {
            let byte: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: the run is ours alone.
            unsafe {
                assert!(!zeroed || byte.read() == 0, "known to be zero");
                byte.write(1);
            }
        }
        self.open.insert(start, (id, units));
    }

    fn pick(&self, which: u8) -> Option<(u32, SpanId, u32)> {
        let (start, (id, units)) = self.open.iter().nth((which as usize).checked_rem(self.open.len())?)?;
        Some((*start, *id, *units))
    }

    fn is_large(&self, start: u32) -> bool {
        self.pages.class_of(self.pages.address_of(start)) == SizeClass::LARGE
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Small(class) => {
                let class = SizeClass::all().nth(class as usize % 96).expect("a class");
                if let Some(id) = self.pages.open_span(&self.system, class) {
                    self.opened(id, class.shape().span_units, false);
                }
            }
            Step::Large(units, shift) => {
                let (units, align) = (units as u32 % 2000 + 1, 1 << (shift % 10));
                if let Some((id, zeroed)) =
                    self.pages.open_large(&self.system, Place { align, ..Place::of(units) }, units as usize)
                {
                    let start = self.pages.address_of(self.first_unit(id));
                    assert_eq!(start % (align as usize * UNIT_BYTES), 0);
                    self.opened(id, units, zeroed);
                }
            }
            Step::Close(which) => {
                if let Some((start, id, _)) = self.pick(which) {
                    self.open.remove(&start);
                    self.pages.close_span(id, self.pages.clock.load());
                }
            }
            Step::Extend(which, more) => self.extend(which, more as u32 % 500 + 1),
            Step::Shrink(which, units) => {
                if let Some((start, id, now)) = self.pick(which).filter(|(start, ..)| self.is_large(*start)) {
                    let units = (units as u32 + 1).min(now);
                    let address = self.pages.address_of(start);
                    let shrunk = self.pages.resize_large(&self.system, id, address, units, 1);
                    assert!(shrunk, "to give back needs nothing");
                    self.open.insert(start, (id, units));
                }
            }
            Step::Release(keep, ticks) => {
                self.pages.release(&self.system, (keep as usize) << 12, Ticks(ticks as u32 % 8));
            }
            Step::Clock(ticks) => _ = self.pages.clock.advance(Ticks(ticks as u32)),
            Step::Squat(blocks) => self.squat(blocks as usize % 40),
            Step::Refuse(request, after) => {
                self.system.refuse_after(REQUESTS[request as usize % REQUESTS.len()], after as u64 % 8);
            }
            Step::Grant => REQUESTS.iter().for_each(|request| self.system.grant(*request)),
            Step::Limits(blocks) => {
                let hard = (blocks != 0).then_some(blocks as usize * HUGE_PAGE_BYTES);
                self.pages.limits.set(None, hard);
            }
            // SAFETY: there is one thread.
            Step::Repair => unsafe { self.repair() },
        }
    }

    fn extend(&mut self, which: u8, more: u32) {
        let Some((start, id, now)) = self.pick(which).filter(|(start, ..)| self.is_large(*start)) else {
            return;
        };
        let address = self.pages.address_of(start);
        if self.pages.resize_large(&self.system, id, address, now + more, more as usize) {
            let next = self.open.range(start + 1..).next();
            assert!(next.is_none_or(|(next, _)| start + now + more <= *next), "grown into another span");
            self.open.insert(start, (id, now + more));
        }
    }

    fn squat(&mut self, further: usize) {
        let address = self.pages.address_of(0) + self.pages.mapped_bytes() + further * HUGE_PAGE_BYTES;
        if self.squatted.len() < 16 && self.system.map_at(address, HUGE_PAGE_BYTES).is_ok() {
            self.squatted.push(address);
        }
    }

    unsafe fn repair(&self) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.pages.each_lock(&mut |lock| lock.hold()));
        });
        // SAFETY: the thread that held the locks has ended.
        unsafe { self.pages.repair(true) };
    }
}

pub fn run(input: &[u8]) {
    let system = Fake::default();
    system.address_budget.store(1 << 30, Ordering::Relaxed);
    let pages = Pages::new();
    assert!(pages.start(&system));
    let mut test = Test { system, pages, open: BTreeMap::new(), squatted: Vec::new() };
    for step in steps::<Step>(input, 200) {
        test.step(step);
        let used: u64 = test.open.values().map(|(_, units)| *units as u64 * UNIT_BYTES as u64).sum();
        assert_eq!(test.pages.stats().used, used);
    }
    test.pages.verify();
    for (id, _) in std::mem::take(&mut test.open).into_values() {
        test.pages.close_span(id, Tick(0));
    }
    test.pages.verify();
    test.pages.each_reservation(|start, bytes| test.system.unmap(start, bytes.max(1)));
    test.squatted.iter().for_each(|address| test.system.unmap(*address, HUGE_PAGE_BYTES));
}
