//! The places of numbers in memory, for readers outside the process (docs/design/window.md).
//!
//! Every layer adds its own to one list, at compile time, by `offset_of!`.

pub const NAME_BYTES: usize = 40;
/// Room in the list.
const MOST_PLACES: usize = 224;

/// The base that a place's offset counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Within {
    /// Nothing: the offset is the number itself.
    Constant = 0,
    Heap = 1,
    /// A slab, of which `cache.made` tells the addresses.
    Slab = 2,
    /// An entry of the table of 2 MiB blocks.
    Block = 3,
}

/// One number, or `count` of them at a distance of `stride` bytes. Its layout is read by other builds: fields may be
/// added at the end only.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Place {
    /// With zeros behind it.
    pub name: [u8; NAME_BYTES],
    pub within: u32,
    /// Bytes of one number.
    pub width: u32,
    pub offset: u64,
    pub stride: u32,
    pub count: u32,
}

/// The places of a heap.
#[derive(Clone, Copy)]
pub struct Places {
    list: [Place; MOST_PLACES],
    count: usize,
}

impl Places {
    pub const fn new() -> Self {
        let none = Place { name: [0; NAME_BYTES], within: 0, width: 0, offset: 0, stride: 0, count: 0 };
        Places { list: [none; MOST_PLACES], count: 0 }
    }

    pub const fn as_ptr(&self) -> *const Place {
        self.list.as_ptr()
    }

    pub const fn count(&self) -> usize {
        self.count
    }

    pub const fn constant(self, name: &str, value: usize) -> Self {
        self.put("", name, Within::Constant, 8, value, (0, 1))
    }

    /// One number of `width` bytes in the heap.
    pub const fn one(self, name: &str, width: usize, offset: usize) -> Self {
        self.put("", name, Within::Heap, width, offset, (0, 1))
    }

    /// One number in a part that the heap has many of.
    pub const fn inside(self, within: Within, name: &str, width: usize, offset: usize) -> Self {
        self.put("", name, within, width, offset, (0, 1))
    }

    /// As many numbers in the heap, `stride` bytes from one to the next.
    pub const fn many(
        self,
        name: &str,
        width: usize,
        offset: usize,
        (stride, count): (usize, usize),
    ) -> Self {
        self.put("", name, Within::Heap, width, offset, (stride, count))
    }

    /// Adds the address of a part of the heap's own tables, and its bytes: two numbers, of which the second is 0 while
    /// the table is not there.
    pub const fn mapping(self, name: &str, start: usize, bytes: usize) -> Self {
        self.put("metadata_at.", name, Within::Heap, 8, start, (0, 1)).put(
            "metadata_bytes.",
            name,
            Within::Heap,
            8,
            bytes,
            (0, 1),
        )
    }

    /// A place whose name begins with `before`.
    pub const fn put(
        mut self,
        before: &str,
        name: &str,
        within: Within,
        width: usize,
        offset: usize,
        (stride, count): (usize, usize),
    ) -> Self {
        let mut place = Place {
            name: [0; NAME_BYTES],
            within: within as u32,
            width: width as u32,
            offset: offset as u64,
            stride: stride as u32,
            count: count as u32,
        };
        let (first, second) = (before.as_bytes(), name.as_bytes());
        let mut at = 0;
        while at < first.len() + second.len() {
            place.name[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
            at += 1;
        }
        self.list[self.count] = place;
        self.count += 1;
        self
    }
}
