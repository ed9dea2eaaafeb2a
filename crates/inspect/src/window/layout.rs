//! A library's account of where its numbers lie. Its layout is docs/reference/window.md.

use super::memory::{Memory, number};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Error, ErrorKind};
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use vcm_foreign::Text;

const MAGIC: &[u8] = b"vcm-wndw";
/// Of the layout.
pub const VERSION: u64 = 1;
/// Bytes of the description, of a place and of a class in the first version: later additions come behind them.
const WINDOW_BYTES: usize = 64;
const PLACE_BYTES: usize = 64;
const CLASS_BYTES: usize = 20;
const NAME_BYTES: usize = 40;
/// More than any library has; a description that says more is none.
const MOST: u64 = 4096;
/// More than any library has, twice over: each place takes some hundred bytes here.
const MOST_PLACES: u64 = 1024;
const MOST_HEAP_BYTES: u64 = 16 << 20;
const MOST_SLAB_BYTES: usize = 1 << 16;
/// Parts that lie closer are read as one.
const GAP: usize = 4096;

/// The base that the offset of a place counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    Constant,
    Heap,
    Slab,
    Block,
    /// Of a library newer than this tool.
    Elsewhere,
}

#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub within: Within,
    pub width: usize,
    pub offset: u64,
    pub stride: usize,
    pub count: usize,
}

impl Place {
    /// The bytes of its numbers in what they are within.
    fn range(&self) -> Range<usize> {
        let offset = self.offset as usize;
        let length = self.stride.saturating_mul(self.count.saturating_sub(1)).saturating_add(self.width);
        offset..offset.saturating_add(length)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub block_bytes: u64,
    pub span_bytes: u64,
    pub blocks: u64,
    pub small_array_at: u64,
    pub big_array_at: u64,
}

/// The places of an option's value and of its origin.
pub struct OptionPlaces {
    pub name: String,
    pub value: Place,
    pub origin: Option<Place>,
}

pub struct Layout {
    /// Version and commit.
    pub build: Text,
    pub heap: u64,
    pub heap_bytes: usize,
    /// One for all processes of a build: an agent looks at thousands.
    tables: Arc<Tables>,
}

impl Deref for Layout {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.tables
    }
}

/// The tables of places and classes.
pub struct Tables {
    /// As they were read.
    raw: (Vec<u8>, Vec<u8>, usize),
    pub places: HashMap<String, Place>,
    /// By number; those without blocks have sizes of 0.
    pub classes: Vec<Shape>,
    /// The parts of the heap in which its places lie.
    pub parts: Vec<Range<usize>>,
    /// The end of a slab's places.
    pub slab_end: usize,
    /// In the order of their names.
    pub options: Vec<OptionPlaces>,
}

thread_local! {
    /// Room for a heap's structure that nobody uses just now: a look needs it twice, there are ten a second, and an
    /// agent looks at thousands of processes.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}
/// As many as one look needs.
const MOST_SPARE: usize = 2;

/// The content of an address where a description was promised.
pub enum Found {
    Layout(Box<Layout>),
    /// A layout that this tool does not know.
    Version(u64),
}

impl Layout {
    pub fn read(memory: &Memory, at: u64) -> io::Result<Found> {
        let damaged = || Error::new(ErrorKind::InvalidData, "its description of the statistics is damaged");
        let head = memory.bytes(at, 16)?;
        if !head.starts_with(MAGIC) {
            return Err(damaged());
        }
        let (version, bytes) = (number(&head, 8, 4), number(&head, 12, 4));
        if version != VERSION {
            return Ok(Found::Version(version));
        }
        let window = memory.bytes(at, bytes.min(MOST))?;
        let [place_bytes, places, class_bytes, classes] = [48, 52, 56, 60].map(|at| number(&window, at, 4));
        let heap_bytes = number(&window, 24, 8);
        let is_sound = window.len() >= WINDOW_BYTES
            && (PLACE_BYTES as u64..=MOST).contains(&place_bytes)
            && (CLASS_BYTES as u64..=MOST).contains(&class_bytes)
            && places.max(classes) <= MOST_PLACES
            && heap_bytes <= MOST_HEAP_BYTES;
        if !is_sound {
            return Err(damaged());
        }
        let (place_bytes, class_bytes) = (place_bytes as usize, class_bytes as usize);
        let table =
            |at: usize, bytes: usize, count: u64| memory.bytes(number(&window, at, 8), bytes as u64 * count);
        let (places, classes) = (table(32, place_bytes, places)?, table(40, class_bytes, classes)?);
        let raw = (places, classes, heap_bytes as usize);
        Ok(Found::Layout(Box::new(Layout {
            build: Text::new(up_to_zero(window.get(WINDOW_BYTES..).unwrap_or(&[]))),
            heap: number(&window, 16, 8),
            heap_bytes: heap_bytes as usize,
            tables: Tables::known(raw, place_bytes, class_bytes),
        })))
    }
}

/// Builds whose tables are shared; of those beyond each process has its own.
const MOST_BUILDS: usize = 16;

impl Tables {
    fn known(raw: (Vec<u8>, Vec<u8>, usize), place_bytes: usize, class_bytes: usize) -> Arc<Tables> {
        static KNOWN: Mutex<Vec<Weak<Tables>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|tables| tables.strong_count() > 0);
        if let Some(same) = known.iter().filter_map(Weak::upgrade).find(|tables| tables.raw == raw) {
            return same;
        }
        let tables = Arc::new(Tables::new(raw, place_bytes, class_bytes));
        if known.len() < MOST_BUILDS {
            known.push(Arc::downgrade(&tables));
        }
        tables
    }

    fn new(raw: (Vec<u8>, Vec<u8>, usize), place_bytes: usize, class_bytes: usize) -> Tables {
        let places: HashMap<String, Place> = raw.0.chunks_exact(place_bytes).filter_map(place).collect();
        let ends =
            places.values().filter(|place| place.within == Within::Slab).map(|place| place.range().end);
        Tables {
            classes: raw.1.chunks_exact(class_bytes).map(shape).collect(),
            parts: parts(&places, raw.2),
            slab_end: ends.max().unwrap_or(0).min(MOST_SLAB_BYTES),
            options: options(&places),
            places,
            raw,
        }
    }
}

impl Layout {
    /// Room for the heap's structure; its content is of some look before, where no place is.
    pub fn room(&self) -> Vec<u8> {
        let mut room = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        room.resize(self.heap_bytes, 0);
        room
    }

    pub fn put_back(&self, room: Vec<u8>) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MOST_SPARE {
                spare.push(room)
            }
        });
    }

    pub fn constant(&self, name: &str) -> Option<u64> {
        self.places.get(name).filter(|place| place.within == Within::Constant).map(|place| place.offset)
    }

    pub fn place(&self, name: &str, within: Within) -> Option<&Place> {
        self.places.get(name).filter(|place| place.within == within)
    }
}

/// The parts of the heap that have places.
fn parts(places: &HashMap<String, Place>, heap_bytes: usize) -> Vec<Range<usize>> {
    let in_heap = places.values().filter(|place| place.within == Within::Heap).map(Place::range);
    let mut ranges: Vec<Range<usize>> = in_heap.filter(|range| range.end <= heap_bytes).collect();
    ranges.sort_by_key(|range| range.start);
    let mut parts: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match parts.last_mut().filter(|part| range.start < part.end + GAP) {
            Some(part) => part.end = part.end.max(range.end),
            None => parts.push(range),
        }
    }
    parts
}

fn options(places: &HashMap<String, Place>) -> Vec<OptionPlaces> {
    let in_heap = |name: &str| places.get(name).filter(|place| place.within == Within::Heap).copied();
    let option = |full: &String| {
        let name = full.strip_prefix("option.")?;
        let (value, origin) = (in_heap(full)?, in_heap(&format!("origin.{name}")));
        Some(OptionPlaces { name: name.to_string(), value, origin })
    };
    let mut options: Vec<OptionPlaces> = places.keys().filter_map(option).collect();
    options.sort_by(|left, right| left.name.cmp(&right.name));
    options
}

fn up_to_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or_default()
}

/// Names are words of ours; a name with other letters is nobody's.
fn name(bytes: &[u8]) -> Option<String> {
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._".contains(byte);
    let name = up_to_zero(bytes);
    name.iter().all(is_letter).then(|| name.iter().copied().map(char::from).collect())
}

fn place(bytes: &[u8]) -> Option<(String, Place)> {
    let within = match number(bytes, 40, 4) {
        0 => Within::Constant,
        1 => Within::Heap,
        2 => Within::Slab,
        3 => Within::Block,
        _ => Within::Elsewhere,
    };
    let place = Place {
        within,
        width: (number(bytes, 44, 4) as usize).min(8),
        offset: number(bytes, 48, 8),
        stride: number(bytes, 56, 4) as usize,
        count: number(bytes, 60, 4) as usize,
    };
    Some((name(bytes.get(..NAME_BYTES).unwrap_or_default())?, place))
}

fn shape(bytes: &[u8]) -> Shape {
    let [block_bytes, span_bytes, blocks, small_array_at, big_array_at] =
        [0, 4, 8, 12, 16].map(|at| number(bytes, at, 4));
    Shape { block_bytes, span_bytes, blocks, small_array_at, big_array_at }
}
