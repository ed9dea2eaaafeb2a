//! The counters of a heap as they stood at one moment, or as near to one as can be had.

use super::layout::{Layout, Place, Within};
use super::memory::{Memory, number};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use vcm_foreign::Text;

/// Looks at a heap that is changed all the time before the best of them has to do.
const ATTEMPTS: usize = 8;
/// More slabs than any machine has virtual CPUs.
const MOST_SLABS: u64 = 1 << 16;
/// The thread that holds a lock sets this bit of its word.
const HELD: u64 = 1;
/// More than the bytes that a domain's transfer arrays have for their lengths.
const MOST_ROW_BYTES: u64 = 1 << 20;

pub struct Counters<'a> {
    pub layout: &'a Layout,
    heap: Vec<u8>,
    pub slabs: Vec<Slab>,
    /// The transfer arrays of further domains of CPUs.
    pub rows: Vec<Row>,
    /// The parts that moved while we read; none where nothing did.
    pub torn: Option<String>,
    /// Places that this library does not have.
    missing: RefCell<BTreeSet<String>>,
}

impl Drop for Counters<'_> {
    fn drop(&mut self) {
        self.layout.put_back(std::mem::take(&mut self.heap));
    }
}

/// The head of a slab.
pub struct Slab {
    pub at: u64,
    words: Vec<u8>,
}

/// The lengths of a further domain's transfer arrays.
pub struct Row {
    pub at: u64,
    lengths: Vec<u8>,
}

/// The numbers of one name, one for each class: looked up once for all of them.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    place: Option<&'a Place>,
    heap: &'a [u8],
}

impl Column<'_> {
    pub fn of(&self, class: usize) -> u64 {
        self.in_bytes(self.heap, class)
    }

    /// How many of its numbers are not 0.
    pub fn count_of_set(&self) -> u64 {
        let count = self.place.map_or(0, |place| place.count);
        (0..count).filter(|index| self.of(*index) != 0).count() as u64
    }

    fn in_bytes(&self, heap: &[u8], class: usize) -> u64 {
        self.place.map_or(0, |place| in_bytes(heap, place, class))
    }
}

/// Free blocks of a class in all slabs.
pub struct Cached<'a> {
    words: Option<&'a Place>,
    big_arrays_at: u64,
    counters: &'a Counters<'a>,
}

impl Cached<'_> {
    pub fn of(&self, class: usize) -> u64 {
        let (Some(place), Some(shape)) = (self.words, self.counters.layout.classes.get(class)) else {
            return 0;
        };
        let blocks = |slab: &Slab| {
            let word = in_bytes(&slab.words, place, class);
            let (top, end) = (word & u64::from(u32::MAX), word >> 32);
            let base = if end < self.big_arrays_at { shape.small_array_at } else { shape.big_array_at };
            if word == 0 { 0 } else { top.saturating_sub(base) / 8 }
        };
        self.counters.slabs.iter().map(blocks).fold(0, u64::saturating_add)
    }
}

impl<'a> Counters<'a> {
    pub fn read(memory: &Memory, layout: &'a Layout) -> io::Result<Self> {
        let (mut counters, mut wrong) = Self::attempt(memory, layout)?;
        for _ in 1..ATTEMPTS {
            if wrong == 0 {
                break;
            }
            let (other, of_other) = Self::attempt(memory, layout)?;
            if of_other < wrong {
                (counters, wrong) = (other, of_other);
            }
        }
        Ok(counters)
    }

    /// The counters, and how many of them are not of one moment.
    fn attempt(memory: &Memory, layout: &'a Layout) -> io::Result<(Self, usize)> {
        let heap = layout.room();
        let mut counters = Counters {
            layout,
            heap,
            slabs: Vec::new(),
            rows: Vec::new(),
            torn: None,
            missing: RefCell::default(),
        };
        read_heap(memory, layout, &mut counters.heap)?;
        if !counters.is_started() {
            return Ok((counters, 0));
        }
        counters.slabs = counters.read_slabs(memory)?;
        counters.rows = counters.read_rows(memory)?;
        let mut later = layout.room();
        read_heap(memory, layout, &mut later)?;
        let before = std::mem::replace(&mut counters.heap, later);
        let (classes, others) = counters.moved_since(&before);
        layout.put_back(before);
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
        let made = base.wrapping_add(self.constant("cache.tables_at")).wrapping_add(slots * 8);
        let table = memory.bytes(made, slots * 8)?;
        let made = (0..slots as usize).map(|slot| number(&table, slot * 8, 8)).filter(|at| *at != 0);
        made.map(|at| Ok(Slab { at, words: memory.bytes(at, self.layout.slab_end as u64)? })).collect()
    }

    /// The transfer arrays of further domains, as far as there are such.
    fn read_rows(&self, memory: &Memory) -> io::Result<Vec<Row>> {
        let rows = self.of_some_libraries("transfer.rows");
        let bytes = self.layout.constant("transfer.row_bytes").unwrap_or(0).min(MOST_ROW_BYTES);
        let starts = (0..rows.place.map_or(0, |place| place.count)).map(|number| rows.of(number));
        let read = |at| Ok(Row { at, lengths: memory.bytes(at, bytes)? });
        starts.filter(|at| *at != 0).map(read).collect()
    }

    /// Blocks in the transfer arrays of a class, of all domains.
    pub fn transferred(&self, class: usize) -> u64 {
        let [stride, cached] = ["transfer.row_stride", "transfer.row_cached"]
            .map(|name| self.layout.constant(name).unwrap_or(0) as usize);
        let in_row = |row: &Row| number(&row.lengths, class * stride + cached, 4);
        let further = self.rows.iter().map(in_row).fold(0, u64::saturating_add);
        self.column("class.transfer").of(class).saturating_add(further)
    }

    /// How many classes differ from what was read before, or cannot be; and what else.
    fn moved_since(&self, before: &[u8]) -> (usize, Vec<&'static str>) {
        let is_same = |column: &Column, index| column.of(index) == column.in_bytes(before, index);
        let is_held =
            |column: &Column, index| (column.of(index) | column.in_bytes(before, index)) & HELD != 0;
        let [spans, free, transfer] =
            ["class.spans", "class.free", "class.transfer"].map(|name| self.column(name));
        let locks = ["class.spans_lock", "class.transfer_lock"].map(|name| self.column(name));
        let cached = self.cached();
        let stands = |class: usize| {
            let shape = self.layout.classes.get(class);
            let blocks = spans.of(class).saturating_mul(shape.map_or(0, |shape| shape.blocks));
            [spans, free, transfer].iter().all(|column| is_same(column, class))
                && !locks.iter().any(|lock| is_held(lock, class))
                && self.transferred(class).saturating_add(free.of(class)).saturating_add(cached.of(class))
                    <= blocks
        };
        let classes = (0..self.layout.classes.len()).filter(|class| !stands(*class)).count();
        let sums =
            ["pages.units_used", "pages.units_lost", "pages.spans_open", "large.bytes", "large.blocks"];
        let is_held = |name| is_held(&self.column(name), 0);
        let mut others = Vec::new();
        if sums.iter().any(|name| !is_same(&self.column(name), 0)) || is_held("pages.lock") {
            others.push("spans");
        }
        if is_held("pages.releasing_lock") || is_held("cache.freezer_lock") {
            others.push("memory on its way back");
        }
        if classes + others.len() == 0 && !self.closes() {
            others.push("sums");
        }
        (classes, others)
    }

    /// Whether what the classes and the large blocks have is what the pages gave out.
    fn closes(&self) -> bool {
        let of_classes = self.column("class.spans");
        let of_tenants = |name| self.of_some_libraries(name).of(0);
        let mut spans = self.one("large.blocks").wrapping_add(of_tenants("tenants.spans"));
        let mut bytes = self.one("large.bytes").wrapping_add(of_tenants("tenants.bytes"));
        for (class, shape) in self.layout.classes.iter().enumerate() {
            let of_class = of_classes.of(class);
            spans = spans.wrapping_add(of_class);
            bytes = bytes.wrapping_add(of_class.wrapping_mul(shape.span_bytes));
        }
        spans == self.one("pages.spans_open")
            && bytes == self.one("pages.units_used").wrapping_mul(self.constant("unit.bytes"))
    }

    /// A number of the heap, 0 and noted where this library has none of this name.
    pub fn one(&self, name: &str) -> u64 {
        self.column(name).of(0)
    }

    /// A text that lies at the `number`th place of this name, and ends with a zero; none where this library has none.
    pub fn text(&self, name: &str, number: u64) -> Option<Text> {
        let place = self.layout.place(name, Within::Heap).filter(|place| place.count > 0)?;
        let nth = (number % place.count as u64) as usize;
        let from = (place.offset as usize).checked_add(nth.checked_mul(place.stride)?)?;
        let bytes = self.heap.get(from..from.checked_add(place.stride)?)?;
        let length = bytes.iter().position(|byte| *byte == 0)?;
        Some(Text::new(bytes.get(..length)?))
    }

    /// The numbers of all classes; all 0, and noted, where this library has none of this name.
    pub fn column(&self, name: &str) -> Column<'_> {
        let place = self.layout.place(name, Within::Heap);
        if place.is_none() {
            self.lacks(name);
        }
        Column { place, heap: &self.heap }
    }

    /// The numbers of all classes of something that not every library has; all 0 where this one has not.
    pub fn of_some_libraries(&self, name: &str) -> Column<'_> {
        Column { place: self.layout.place(name, Within::Heap), heap: &self.heap }
    }

    /// A number of the heap whose place was looked up before.
    pub fn at(&self, place: &Place) -> u64 {
        in_bytes(&self.heap, place, 0)
    }

    pub fn constant(&self, name: &str) -> u64 {
        self.layout.constant(name).unwrap_or_else(|| self.lacks(name))
    }

    /// The sum over all slabs.
    pub fn of_slabs(&self, name: &str) -> u64 {
        let Some(place) = self.layout.place(name, Within::Slab) else { return self.lacks(name) };
        self.slabs.iter().map(|slab| in_bytes(&slab.words, place, 0)).fold(0, u64::wrapping_add)
    }

    pub fn cached(&self) -> Cached<'_> {
        let words = self.layout.place("slab.words", Within::Slab);
        if words.is_none() {
            self.lacks("slab.words");
        }
        Cached { words, big_arrays_at: self.constant("slab.big_arrays_at"), counters: self }
    }

    pub fn missing(&self) -> Vec<String> {
        self.missing.borrow().iter().cloned().collect()
    }

    pub fn lacks(&self, name: &str) -> u64 {
        self.missing.borrow_mut().insert(name.to_string());
        0
    }
}

/// Reads what has places; the rest of `into` stays as it was.
fn read_heap(memory: &Memory, layout: &Layout, into: &mut [u8]) -> io::Result<()> {
    for part in &layout.parts {
        if let Some(into) = into.get_mut(part.clone()) {
            memory.read(layout.heap.wrapping_add(part.start as u64), into)?;
        }
    }
    Ok(())
}

fn in_bytes(bytes: &[u8], place: &Place, index: usize) -> u64 {
    if index >= place.count {
        return 0;
    }
    let at = (place.offset as usize).saturating_add(index.saturating_mul(place.stride));
    number(bytes, at, place.width)
}
