//! Any bit map, and any sequence of takes and puts on a span, against a list of booleans.

use arbitrary::Arbitrary;
use vcmalloc_core::class::{SizeClass, UNIT_BYTES};
use vcmalloc_core::pages::{Span, bits};

use crate::support::steps;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Map { map: u128, length: u8, shift: u8 },
    Open(u8),
    Take(u16),
    Put(u16),
    ReleaseIdle,
}

fn check_map(map: u128, length: u32, align: u32) {
    let is_one = |bit: u32| bit < 128 && map >> bit & 1 == 1;
    let run_at = |start: u32| (start..128).take_while(|bit| is_one(*bit)).count() as u32;
    assert_eq!(bits::longest_run(map), (0..128).map(run_at).max().unwrap_or(0));
    let first = (0..128).step_by(align as usize).find(|start| run_at(*start) >= length);
    assert_eq!(bits::find_run(map, length, align), first);
    let (mut again, mut end) = (0u128, None);
    bits::each_run(map, |start, length| {
        assert!(end.is_none_or(|end| end < start), "runs are apart and in order");
        again |= bits::mask(start, length);
        end = Some(start + length);
    });
    assert_eq!(again, map);
}

struct Model {
    span: Span,
    free: Vec<bool>,
    /// Pages that were given back and not used since.
    gone: Vec<bool>,
}

const PAGE_BYTES: usize = 4096;

impl Model {
    fn new(class: SizeClass) -> Self {
        // SAFETY: a span is numbers, valid when zeroed.
        let span: Span = unsafe { std::mem::zeroed() };
        span.open(class, 3, class.shape().span_units, true);
        let pages = class.shape().span_units as usize * UNIT_BYTES / PAGE_BYTES;
        Model { span, free: vec![true; class.shape().blocks as usize], gone: vec![false; pages] }
    }

    fn pages_of(&self, index: usize) -> std::ops::RangeInclusive<usize> {
        let bytes = self.span.class().block_bytes();
        index * bytes / PAGE_BYTES..=(index * bytes + bytes - 1) / PAGE_BYTES
    }

    fn take(&mut self, wanted: usize) {
        let expected: Vec<usize> =
            (0..self.free.len()).filter(|index| self.free[*index]).take(wanted).collect();
        let mut got = Vec::new();
        assert_eq!(self.span.take(wanted, |index| got.push(index)), expected.len());
        assert_eq!(got, expected, "free blocks in address order");
        for index in got {
            self.free[index] = false;
            self.pages_of(index).for_each(|page| self.gone[page] = false);
        }
    }

    fn put(&mut self, index: usize) {
        let legal = self.free.get(index).is_some_and(|free| !free);
        // Only indexes below the number of blocks ever come here; see `locate`.
        if index < self.free.len() {
            assert_eq!(self.span.put(index).is_ok(), legal);
            self.free[index] = true;
        }
    }

    fn release_idle(&mut self) {
        let idle = self.span.idle_pages();
        for page in 0..self.gone.len().min(128) {
            let live =
                (0..self.free.len()).any(|index| !self.free[index] && self.pages_of(index).contains(&page));
            assert_eq!(idle >> page & 1 == 1, !live && !self.gone[page], "page {page}");
            self.gone[page] |= idle >> page & 1 == 1;
        }
        self.span.add_released(idle);
    }

    fn check(&self) {
        let free = self.free.iter().filter(|free| **free).count();
        assert_eq!((self.span.free.get() as usize, self.span.is_empty()), (free, free == self.free.len()));
        let gone = self.gone.iter().filter(|gone| **gone).count();
        assert_eq!(self.span.released_bytes(), gone * PAGE_BYTES);
    }
}

pub fn run(input: &[u8]) {
    let mut model = Model::new(SizeClass::for_small(300));
    for step in steps::<Step>(input, 200) {
        match step {
            Step::Map { map, length, shift } => check_map(map, length as u32 % 128 + 1, 1 << (shift % 7)),
            Step::Open(class) => {
                model = Model::new(
                    SizeClass::all().nth(class as usize % SizeClass::all().count()).expect("a class"),
                );
            }
            Step::Take(wanted) => model.take(wanted as usize % 300),
            Step::Put(index) => model.put(index as usize % 1030),
            Step::ReleaseIdle => model.release_idle(),
        }
        model.check();
    }
}
