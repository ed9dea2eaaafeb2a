//! Size classes: the block size that serves a request, and how blocks of that size are cut from a span.
//!
//! Owns the class table, computed and proved at compile time; promises that a class index orders like its
//! size and that a block wastes at most an eighth of itself (above 128 bytes); every layer above may call it;
//! sits on `base`.
//!
//! Sizes: 16-byte steps to 256, then eight steps a doubling up to 256 KiB. Class 0 means "no block".

/// The unit of spans, of the page map and of large allocations.
pub const UNIT_SHIFT: u32 = 14;
pub const UNIT_BYTES: usize = 1 << UNIT_SHIFT;

/// The least alignment of any block.
pub const MIN_ALIGN: usize = 16;

/// The largest request that is served from a span of equal blocks.
pub const LARGEST_BYTES: usize = 256 << 10;

/// Classes 1 to `CLASS_COUNT` hold blocks.
pub const CLASS_COUNT: usize = 96;
/// Entries of a table indexed by class, with "no block" at 0 and "large" at the end.
pub const TABLE_LEN: usize = CLASS_COUNT + 2;

/// The most blocks in a span: the bits of its bitmap.
pub const MOST_BLOCKS: usize = 1024;

/// A span is at least this long where its blocks are many enough to fill it.
const SPAN_TARGET_BYTES: usize = 64 << 10;
const RECIPROCAL_SHIFT: u32 = 40;

/// A class of equal blocks, or one of the two values that are no such class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct SizeClass(u8);

/// The table's entry for a class.
#[derive(Clone, Copy)]
pub struct Shape {
    pub block_bytes: u32,
    pub span_units: u32,
    pub blocks: u32,
    /// Blocks that move between tiers in one go.
    pub batch: u32,
    /// `2^40 / block_bytes`, rounded up.
    reciprocal: u64,
}

/// Sizes up to this find their class in a table.
pub const TABLED_BYTES: usize = 4096;
/// The class of a size, by its granules of 16 bytes, rounded up. Nothing is no block: a request for no bytes finds no cached
/// block, and comes to where it can have an address that nobody may touch.
pub static BY_SIZE: [u8; TABLED_BYTES / MIN_ALIGN + 1] = {
    let mut table = [0; TABLED_BYTES / MIN_ALIGN + 1];
    let mut index = 1;
    while index < table.len() {
        table[index] = SizeClass::computed(index * MIN_ALIGN).0;
        index += 1;
    }
    table
};

static SHAPES: [Shape; TABLE_LEN] = build_shapes();

impl SizeClass {
    /// Not a block of ours.
    pub const NONE: SizeClass = SizeClass(0);
    /// A run of units of its own.
    pub const LARGE: SizeClass = SizeClass((CLASS_COUNT + 1) as u8);

    /// The class that serves `bytes`, which must be at most `LARGEST_BYTES`; none serves 0.
    ///
    /// The common sizes by a table of 257 bytes, which takes ten instructions less than computing.
    #[inline(always)]
    pub fn for_small(bytes: usize) -> SizeClass {
        if bytes > TABLED_BYTES { SizeClass::computed(bytes) } else { SizeClass::tabled(bytes) }
    }

    /// The class that serves `bytes`, which must be at most `TABLED_BYTES`.
    #[inline(always)]
    pub fn tabled(bytes: usize) -> SizeClass {
        debug_assert!(bytes <= TABLED_BYTES);
        // SAFETY: the table has an entry for every multiple of 16 up to TABLED_BYTES.
        SizeClass(unsafe { *BY_SIZE.get_unchecked(bytes.wrapping_add(MIN_ALIGN - 1) / MIN_ALIGN) })
    }

    /// The class that serves `bytes`, at most `LARGEST_BYTES`, without a table: the three bits below the
    /// leading one choose the step in its doubling.
    #[inline(always)]
    pub const fn computed(bytes: usize) -> SizeClass {
        let last = bytes.saturating_sub(1) as u64;
        let exponent = 63 - (last | 128).leading_zeros();
        SizeClass(((last >> (exponent - 3)) + (exponent as u64 - 7) * 8 + 1) as u8)
    }

    /// The smallest class whose blocks hold `bytes` and start at multiples of `align`, a power of two.
    pub fn for_aligned(bytes: usize, align: usize) -> Option<SizeClass> {
        if bytes > LARGEST_BYTES || align > UNIT_BYTES {
            return None;
        }
        // Spans start at a multiple of the unit, so a block is aligned where its size is.
        let first = SizeClass::for_small(bytes.max(1));
        (first.0..=CLASS_COUNT as u8).map(SizeClass).find(|class| class.block_bytes() & (align - 1) == 0)
    }

    #[inline(always)]
    pub const fn from_byte(byte: u8) -> SizeClass {
        SizeClass(byte)
    }

    #[inline(always)]
    pub const fn byte(self) -> u8 {
        self.0
    }

    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    #[inline(always)]
    pub const fn is_small(self) -> bool {
        self.0 != 0 && self.0 <= CLASS_COUNT as u8
    }

    /// All classes that hold blocks, smallest first.
    pub fn all() -> impl DoubleEndedIterator<Item = SizeClass> {
        (1..=CLASS_COUNT as u8).map(SizeClass)
    }

    #[inline(always)]
    pub fn shape(self) -> &'static Shape {
        debug_assert!(self.index() < TABLE_LEN);
        // SAFETY: a SizeClass is made from the page map's bytes or by `for_small` and `all`, whose values
        // stay below TABLE_LEN (proved for `for_small` in `the_table_covers_every_request`).
        unsafe { SHAPES.get_unchecked(self.index()) }
    }

    #[inline(always)]
    pub fn block_bytes(self) -> usize {
        self.shape().block_bytes as usize
    }
}

impl Shape {
    /// The index of the block that holds byte `offset` of a span.
    #[inline(always)]
    pub const fn block_at(&self, offset: usize) -> usize {
        ((offset as u64 * self.reciprocal) >> RECIPROCAL_SHIFT) as usize
    }

    pub const fn span_bytes(&self) -> usize {
        self.span_units as usize * UNIT_BYTES
    }
}

const fn block_bytes_of(class: usize) -> usize {
    let index = class - 1;
    if index < 16 {
        return (index + 1) * 16;
    }
    let exponent = index / 8 + 6;
    (index % 8 + 9) << (exponent - 3)
}

/// The block size of the class with this index, 0 where it has no blocks.
pub const fn block_bytes_of_index(index: usize) -> usize {
    if index == 0 || index > CLASS_COUNT { 0 } else { block_bytes_of(index) }
}

/// The table's entry for the class with this index.
pub const fn shape_of_index(index: usize) -> Shape {
    SHAPES[index]
}

const fn build_shapes() -> [Shape; TABLE_LEN] {
    let none = Shape { block_bytes: 0, span_units: 0, blocks: 0, batch: 0, reciprocal: 0 };
    let mut shapes = [none; TABLE_LEN];
    let mut class = 1;
    while class <= CLASS_COUNT {
        shapes[class] = build_shape(block_bytes_of(class));
        class += 1;
    }
    shapes
}

const fn build_shape(block_bytes: usize) -> Shape {
    let units = span_units_for(block_bytes);
    Shape {
        block_bytes: block_bytes as u32,
        span_units: units as u32,
        blocks: (units * UNIT_BYTES / block_bytes) as u32,
        batch: batch_for(block_bytes) as u32,
        reciprocal: (1u64 << RECIPROCAL_SHIFT).div_ceil(block_bytes as u64),
    }
}

/// The shortest span that wastes at most 1/64 of itself, holds two blocks or more and reaches the target
/// length where the bitmap is long enough for that.
const fn span_units_for(block_bytes: usize) -> usize {
    let mut units = 1;
    loop {
        let bytes = units * UNIT_BYTES;
        let blocks = bytes / block_bytes;
        let waste = bytes - blocks * block_bytes;
        let long_enough = bytes >= SPAN_TARGET_BYTES || (units + 1) * UNIT_BYTES / block_bytes > MOST_BLOCKS;
        if blocks >= 2 && waste * 64 <= bytes && long_enough {
            return units;
        }
        units += 1;
    }
}

/// About 32 KiB move at a time, at least one block and at most 32: enough to make the locks of the middle
/// tier cheap, not so much that small programs touch what they never use.
const fn batch_for(block_bytes: usize) -> usize {
    let blocks = (32 << 10) / block_bytes;
    if blocks < 1 {
        1
    } else if blocks > 32 {
        32
    } else {
        blocks
    }
}

/// The most blocks that ever move in one go: a busy class moves several batches at once.
pub const MOST_BATCH: usize = 128;

#[allow(dead_code, reason = "Rust 1.88 does not see that an unnamed constant uses it")]
const fn table_is_sound() -> bool {
    let mut class = 1;
    while class <= CLASS_COUNT {
        let shape = SHAPES_CHECK[class];
        let sound = shape.blocks as usize <= MOST_BLOCKS
            && shape.batch as usize <= MOST_BATCH
            && shape.block_bytes.is_multiple_of(MIN_ALIGN as u32)
            && shape.block_bytes > SHAPES_CHECK[class - 1].block_bytes
            // Exactness of the reciprocal: offset * block_bytes < 2^40 for every offset in the span.
            && (shape.span_units as u64 * UNIT_BYTES as u64) * (shape.block_bytes as u64) < 1 << RECIPROCAL_SHIFT;
        if !sound {
            return false;
        }
        class += 1;
    }
    true
}

#[allow(dead_code, reason = "Rust 1.88 does not see that an unnamed constant uses it")]
const SHAPES_CHECK: [Shape; TABLE_LEN] = build_shapes();
const _: () = assert!(table_is_sound(), "classes grow strictly, fit the bitmap and divide exactly");
const _: () = assert!(block_bytes_of(CLASS_COUNT) == LARGEST_BYTES, "the last class is the largest request");
const _: () = assert!(SizeClass::computed(LARGEST_BYTES).0 as usize == CLASS_COUNT);

#[cfg(test)]
mod tests;
