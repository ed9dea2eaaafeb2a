//! The counters of a heap as they stood at one moment, or as near to one as can be had.

use super::layout::{Layout, Within};
use super::memory::{Memory, number};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

/// Looks at a heap that is changed all the time before the best of them has to do.
const ATTEMPTS: usize = 8;
/// More slabs than any machine has virtual CPUs.
const MOST_SLABS: u64 = 1 << 16;
/// Who holds a lock sets this bit of its word.
const HELD: u64 = 1;

pub struct Counters<'a> {
    pub layout: &'a Layout,
    heap: Vec<u8>,
    pub slabs: Vec<Slab>,
    /// What moved while we read; none where nothing did.
    pub torn: Option<String>,
    /// Places that this library does not have.
    missing: RefCell<BTreeSet<String>>,
}

/// The head of a slab.
pub struct Slab {
    pub at: u64,
    words: Vec<u8>,
}

impl<'a> Counters<'a> {
    pub fn read(memory: &Memory, layout: &'a Layout) -> io::Result<Self> {
        let mut best: Option<(usize, Counters)> = None;
        for _ in 0..ATTEMPTS {
            let (counters, wrong) = Self::attempt(memory, layout)?;
            if best.as_ref().is_none_or(|(least, _)| wrong < *least) {
                best = Some((wrong, counters));
            }
            if wrong == 0 {
                break;
            }
        }
        best.map(|(_, counters)| counters).ok_or_else(|| io::Error::other("nothing was read"))
    }

    /// The counters, and how many of them are not of one moment.
    fn attempt(memory: &Memory, layout: &'a Layout) -> io::Result<(Self, usize)> {
        let heap = memory.bytes(layout.heap, layout.heap_bytes)?;
        let mut counters =
            Counters { layout, heap, slabs: Vec::new(), torn: None, missing: RefCell::default() };
        if !counters.is_started() {
            return Ok((counters, 0));
        }
        counters.slabs = counters.read_slabs(memory)?;
        let before = std::mem::replace(&mut counters.heap, memory.bytes(layout.heap, layout.heap_bytes)?);
        let (classes, others) = counters.moved_since(&before);
        let wrong = classes + others.len();
        if wrong > 0 {
            let classes = match classes {
                0 => None,
                1 => Some("1 size class".to_string()),
                count => Some(format!("{count} size classes")),
            };
            let words: Vec<String> =
                classes.into_iter().chain(others.into_iter().map(str::to_string)).collect();
            counters.torn = Some(words.join(", "));
        }
        Ok((counters, wrong))
    }

    pub fn is_started(&self) -> bool {
        self.one("heap.state") == self.constant("heap.state_ready")
    }

    /// The slabs that were made.
    fn read_slabs(&self, memory: &Memory) -> io::Result<Vec<Slab>> {
        let (base, slots) = (self.one("cache.base"), self.one("cache.slots").min(MOST_SLABS));
        if base == 0 || slots == 0 {
            return Ok(Vec::new());
        }
        let made = base + self.constant("cache.tables_at") + slots * 8;
        let table = memory.bytes(made, slots as usize * 8)?;
        let in_slabs = self.layout.places.values().filter(|place| place.within == Within::Slab);
        let ends = in_slabs
            .map(|place| place.offset as usize + place.stride * place.count.saturating_sub(1) + place.width);
        let bytes = ends.max().unwrap_or(0).min(1 << 16);
        let made = (0..slots as usize).map(|slot| number(&table, slot * 8, 8)).filter(|at| *at != 0);
        made.map(|at| Ok(Slab { at, words: memory.bytes(at, bytes)? })).collect()
    }

    /// How many classes differ from what was read before, or cannot be; and what else.
    fn moved_since(&self, before: &[u8]) -> (usize, Vec<&'static str>) {
        let is_same = |name: &str, index| self.in_heap(name, index) == self.in_bytes(before, name, index);
        let is_held =
            |name: &str, index| (self.in_heap(name, index) | self.in_bytes(before, name, index)) & HELD != 0;
        let stands = |class: usize| {
            let shape = self.layout.classes.get(class);
            let blocks = self.of_class("class.spans", class) * shape.map_or(0, |shape| shape.blocks);
            let [transfer, free] = ["class.transfer", "class.free"].map(|name| self.of_class(name, class));
            ["class.spans", "class.free", "class.transfer"].iter().all(|name| is_same(name, class))
                && !is_held("class.spans_lock", class)
                && !is_held("class.transfer_lock", class)
                && transfer + free + self.cached(class) <= blocks
        };
        let classes = (0..self.layout.classes.len()).filter(|class| !stands(*class)).count();
        let sums =
            ["pages.units_used", "pages.units_lost", "pages.spans_open", "large.bytes", "large.blocks"];
        let mut others = Vec::new();
        if sums.iter().any(|name| !is_same(name, 0)) || is_held("pages.lock", 0) {
            others.push("spans");
        }
        if is_held("pages.releasing_lock", 0) || is_held("cache.freezer_lock", 0) {
            others.push("memory on its way back");
        }
        if classes + others.len() == 0 && !self.closes() {
            others.push("sums");
        }
        (classes, others)
    }

    /// Whether what the classes and the large blocks have is what the pages gave out.
    fn closes(&self) -> bool {
        let (mut spans, mut bytes) = (self.one("large.blocks"), self.one("large.bytes"));
        for (class, shape) in self.layout.classes.iter().enumerate() {
            let of_class = self.of_class("class.spans", class);
            spans = spans.wrapping_add(of_class);
            bytes = bytes.wrapping_add(of_class.wrapping_mul(shape.span_bytes));
        }
        spans == self.one("pages.spans_open")
            && bytes == self.one("pages.units_used").wrapping_mul(self.constant("unit.bytes"))
    }

    /// A number of the heap, 0 and noted where this library has none of this name.
    pub fn one(&self, name: &str) -> u64 {
        self.in_heap(name, 0)
    }

    /// A text that lies at the `number`th place of this name, and ends with a zero; none where this library has none.
    pub fn text(&self, name: &str, number: u64) -> Option<String> {
        let place = self.layout.place(name, Within::Heap).filter(|place| place.count > 0)?;
        let nth = (number % place.count as u64) as usize;
        let from = (place.offset as usize).checked_add(nth.checked_mul(place.stride)?)?;
        let bytes = self.heap.get(from..from.checked_add(place.stride)?)?;
        let length = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
    }

    pub fn of_class(&self, name: &str, class: usize) -> u64 {
        self.in_heap(name, class)
    }

    pub fn constant(&self, name: &str) -> u64 {
        self.layout.constant(name).unwrap_or_else(|| self.lacks(name))
    }

    /// The sum over all slabs.
    pub fn of_slabs(&self, name: &str) -> u64 {
        let Some(place) = self.layout.place(name, Within::Slab) else { return self.lacks(name) };
        let read = |slab: &Slab| number(&slab.words, place.offset as usize, place.width);
        self.slabs.iter().map(read).fold(0, u64::wrapping_add)
    }

    /// Free blocks of a class in all slabs.
    pub fn cached(&self, class: usize) -> u64 {
        let Some(place) = self.layout.place("slab.words", Within::Slab) else {
            return self.lacks("slab.words");
        };
        let Some(shape) = self.layout.classes.get(class) else { return 0 };
        let big = self.constant("slab.big_arrays_at");
        let blocks = |slab: &Slab| {
            let word = number(&slab.words, place.offset as usize + class * place.stride, place.width);
            let (top, end) = (word & u64::from(u32::MAX), word >> 32);
            let base = if end < big { shape.small_array_at } else { shape.big_array_at };
            if word == 0 { 0 } else { top.saturating_sub(base) / 8 }
        };
        self.slabs.iter().map(blocks).sum()
    }

    pub fn missing(&self) -> Vec<String> {
        self.missing.borrow().iter().cloned().collect()
    }

    fn lacks(&self, name: &str) -> u64 {
        self.missing.borrow_mut().insert(name.to_string());
        0
    }

    fn in_heap(&self, name: &str, index: usize) -> u64 {
        self.in_bytes(&self.heap, name, index)
    }

    fn in_bytes(&self, heap: &[u8], name: &str, index: usize) -> u64 {
        match self.layout.place(name, Within::Heap) {
            Some(place) if index < place.count => {
                number(heap, (place.offset as usize).saturating_add(index * place.stride), place.width)
            }
            Some(_) => 0,
            None => self.lacks(name),
        }
    }
}
