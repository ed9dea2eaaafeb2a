//! The description of a heap's numbers that a library carries, for readers outside the process
//! (docs/design/window.md). Constant: nothing of it is written or read by the process itself.

use super::Quarantined;
use crate::base::place::{Place, Places};
use crate::cache::{Cache, array_bases};
use crate::central::Central;
use crate::class::{CLASS_COUNT, TABLE_LEN, shape_of_index};
use crate::engine::{READY, Requested};
use crate::heap::Heap;
use crate::heap::mailbox::Mailbox;
use crate::observe::{Probing, Profile, Recording};
use crate::options::Options;
use crate::os::Os;
use crate::pages::Pages;
use crate::sources::Guards;
use crate::tenants::Tenants;
use crate::upkeep::Upkeep;
use core::mem::offset_of;

pub const MAGIC: [u8; 8] = *b"vcm-wndw";
/// Of the layout of `Window`, `Place` and `ClassShape`. Fields at their ends, and places, are added without a new one.
pub const VERSION: u32 = 1;
const BUILD_BYTES: usize = 64;

/// The structure that a reader begins with.
#[repr(C)]
pub struct Window {
    pub magic: [u8; 8],
    pub version: u32,
    /// Bytes of this structure.
    pub bytes: u32,
    pub heap: *const (),
    pub heap_bytes: u64,
    pub places: *const Place,
    pub classes: *const ClassShape,
    pub place_bytes: u32,
    pub place_count: u32,
    pub class_bytes: u32,
    pub class_count: u32,
    /// Version and commit, with zeros behind them.
    pub build: [u8; BUILD_BYTES],
}

// SAFETY: constant, and nothing is done with the addresses in this process.
unsafe impl Sync for Window {}

/// The facts that a reader must know of a class; all 0 if it has no blocks.
#[repr(C)]
pub struct ClassShape {
    pub block_bytes: u32,
    pub span_bytes: u32,
    /// Blocks of a span.
    pub blocks: u32,
    /// The starts of its arrays in a slab.
    pub small_array_at: u32,
    pub big_array_at: u32,
}

static CLASSES: [ClassShape; TABLE_LEN] = classes();

const fn classes() -> [ClassShape; TABLE_LEN] {
    let mut all = [const {
        ClassShape { block_bytes: 0, span_bytes: 0, blocks: 0, small_array_at: 0, big_array_at: 0 }
    }; TABLE_LEN];
    let mut class = 1;
    while class <= CLASS_COUNT {
        let shape = shape_of_index(class);
        let (small_array_at, big_array_at) = array_bases(class);
        all[class] = ClassShape {
            block_bytes: shape.block_bytes,
            span_bytes: shape.span_bytes() as u32,
            blocks: shape.blocks,
            small_array_at,
            big_array_at,
        };
        class += 1;
    }
    all
}

impl Window {
    /// The description of a heap that lies there, in a library of this build.
    pub const fn new<O: Os>(heap: *const Heap<O>, build: &str) -> Self {
        let mut text = [0; BUILD_BYTES];
        let mut at = 0;
        while at < build.len() && at < BUILD_BYTES - 1 {
            text[at] = build.as_bytes()[at];
            at += 1;
        }
        Window {
            magic: MAGIC,
            version: VERSION,
            bytes: size_of::<Window>() as u32,
            heap: heap.cast(),
            heap_bytes: size_of::<Heap<O>>() as u64,
            places: Heap::<O>::PLACES.as_ptr(),
            classes: (&raw const CLASSES).cast(),
            place_bytes: size_of::<Place>() as u32,
            place_count: Heap::<O>::PLACES.count() as u32,
            class_bytes: size_of::<ClassShape>() as u32,
            class_count: TABLE_LEN as u32,
            build: text,
        }
    }
}

impl<O: Os> Heap<O> {
    const PLACES: &'static Places = &{
        let (requested, each) = (offset_of!(Self, engine.requested), (size_of::<Requested>(), TABLE_LEN));
        let list = Places::new()
            .one("heap.state", 4, offset_of!(Self, engine.state))
            .constant("heap.state_ready", READY as usize)
            .many("class.requested_bytes", 8, requested + offset_of!(Requested, bytes), each)
            .many("class.requests", 8, requested + offset_of!(Requested, count), each);
        let list = Pages::<O>::places(list, offset_of!(Self, engine.floors.store.pages));
        let list = Central::<O>::places(list, offset_of!(Self, engine.floors.store.central));
        let list = Cache::<O>::places(list, offset_of!(Self, engine.floors.cache));
        let list = Tenants::<O>::places(list, offset_of!(Self, engine.floors.tenants));
        let list = Upkeep::<O>::places(list, offset_of!(Self, engine.upkeep));
        let list = Guards::<O>::places(list, offset_of!(Self, engine.sources.guards));
        let list = Profile::<O>::places(list, offset_of!(Self, profile));
        let list = Probing::places(list, offset_of!(Self, probing));
        let list = Mailbox::places(list, offset_of!(Self, mailbox));
        let list = Recording::places(list, offset_of!(Self, recording));
        let list = Quarantined::places(list, offset_of!(Self, quarantined));
        Options::places(list, offset_of!(Self, engine.floors.options))
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::SizeClass;
    use crate::heap::Hooks;
    use crate::heap::figures::{Committed, Tiers};
    use crate::os::fake::Fake;

    /// As somebody outside does it: by names, offsets and bytes.
    struct Reader<'a>(&'a Window);

    impl Reader<'_> {
        fn place(&self, name: &str) -> &Place {
            let count = self.0.place_count as usize;
            // SAFETY: the window tells so many places, and they are constants.
            let places = unsafe { core::slice::from_raw_parts(self.0.places, count) };
            let named = |place: &&Place| {
                let text = core::str::from_utf8(&place.name).unwrap();
                text.trim_end_matches('\0') == name
            };
            let mut found = places.iter().filter(named);
            let place = found.next().unwrap_or_else(|| panic!("no place {name}"));
            assert!(found.next().is_none(), "two places {name}");
            place
        }

        fn at(&self, base: usize, name: &str, index: usize) -> u64 {
            let place = self.place(name);
            assert!(index < place.count as usize);
            let address = base + place.offset as usize + index * place.stride as usize;
            // SAFETY: a number of this width lies there, as this test is to prove; the heap stands still.
            unsafe {
                match place.width {
                    1 => *core::ptr::with_exposed_provenance::<u8>(address) as u64,
                    4 => *core::ptr::with_exposed_provenance::<u32>(address) as u64,
                    _ => *core::ptr::with_exposed_provenance::<u64>(address),
                }
            }
        }

        fn of_heap(&self, name: &str) -> u64 {
            self.at(self.0.heap.expose_provenance(), name, 0)
        }

        fn of_class(&self, name: &str, class: usize) -> u64 {
            self.at(self.0.heap.expose_provenance(), name, class)
        }

        fn slabs(&self) -> Vec<usize> {
            let (slots, base) = (self.of_heap("cache.slots") as usize, self.of_heap("cache.base") as usize);
            let table = base + self.place("cache.tables_at").offset as usize + slots * 8;
            // SAFETY: the second table has a word for each slot.
            let word = |slot| unsafe { *core::ptr::with_exposed_provenance::<usize>(table + slot * 8) };
            (0..slots).map(word).filter(|slab| *slab != 0).collect()
        }

        /// Blocks that the slabs hold of a class.
        fn cached(&self, class: usize) -> u64 {
            // SAFETY: the window tells a shape for each class.
            let shape = unsafe { &*self.0.classes.add(class) };
            let big = self.place("slab.big_arrays_at").offset;
            let blocks = |slab: usize| {
                let word = self.at(slab, "slab.words", class);
                let (top, end) = (word & u32::MAX as u64, word >> 32);
                let base = if end < big { shape.small_array_at } else { shape.big_array_at };
                if word == 0 { 0 } else { (top - base as u64) / 8 }
            };
            self.slabs().into_iter().map(blocks).sum()
        }
    }

    #[test]
    fn what_is_read_through_the_window_is_what_the_heap_says() {
        let heap = Box::new(Heap::new(Fake::default()));
        let sizes = [24, 100, 5000, 300 << 10];
        let blocks: Vec<usize> = (0..9000).map(|index| heap.allocate(sizes[index % 4])).collect();
        let (some, others): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(at, _)| at % 7 == 0);
        some.iter().for_each(|(_, block)| heap.free(**block));
        heap.release(0);
        others.iter().step_by(5).for_each(|(_, block)| heap.free(**block));
        let stats = heap.stats();
        let window = Window::new(&raw const *heap, "1.2.3");
        let reader = Reader(&window);
        for (name, figure) in [
            ("large.blocks", stats.large_blocks),
            ("large.bytes", stats.large),
            ("pages.spans_open", stats.spans),
            ("pages.released", stats.released),
            ("budget.limit", stats.cache_limit),
            ("budget.taken", stats.cache_room),
            ("budget.most_taken", stats.cache_room_most),
            ("upkeep.ticks", stats.ticks),
            ("upkeep.given_back", stats.given_back),
            ("guards.samples", stats.guarded_samples),
        ] {
            assert_eq!(reader.of_heap(name), figure, "{name}");
        }
        assert!(stats.released > 0 && stats.ticks > 0 && stats.cache_room > 0, "{stats:?}");
        let sum = |name| reader.slabs().into_iter().map(|slab| reader.at(slab, name, 0)).sum::<u64>();
        assert_eq!((sum("slab.underflows"), sum("slab.overflows")), (stats.underflows, stats.overflows));
        let mut tiers = [0; 3];
        for class in SizeClass::all() {
            let (of, at) = (heap.class_stats(class), class.index());
            let read = [
                reader.cached(at),
                reader.of_class("class.transfer", at),
                reader.of_class("class.free", at),
                reader.of_class("class.spans", at),
            ];
            assert_eq!(read, [of.cached_blocks, of.transfer_blocks, of.free_blocks, of.spans], "class {at}");
            tiers.iter_mut().zip(read).for_each(|(sum, blocks)| *sum += blocks * of.block_bytes);
        }
        let Tiers { vcpu_caches, transfer, free_in_spans, .. } = heap.tiers();
        assert_eq!(tiers, [vcpu_caches, transfer, free_in_spans]);
        assert!(tiers.iter().all(|bytes| *bytes > 0), "{tiers:?}");
    }

    #[test]
    fn the_tables_that_the_window_names_are_all_that_hold_metadata() {
        let hooks = Hooks { before_guards: Some(|| ()), unwind: |_| 0 };
        let heap = Box::new(Heap::with_hooks(Fake::default(), hooks));
        assert!(heap.start_profile(4096));
        (0..9000).for_each(|index| {
            heap.allocate(index % 3000);
        });
        let window = Window::new(&raw const *heap, "");
        let reader = Reader(&window);
        let mut named = 0;
        let names = ["classes", "owners", "allocated", "marks", "spans", "untidy", "blocks", "groups"];
        let others = ["left_out", "guards", "records", "record_heads", "stacks", "stack_heads"];
        for name in names.into_iter().chain(others) {
            named += reader.of_heap(&format!("metadata_bytes.{name}"));
        }
        named += reader.slabs().len() as u64 * reader.place("slab.bytes").offset;
        named += reader.place("transfer.arrays_bytes").offset;
        let slots = reader.of_heap("cache.slots");
        let tables = reader.place("cache.tables_at").offset + slots * reader.place("cache.slot_bytes").offset;
        named += tables.next_multiple_of(1 << 16);
        // Not counted by a reader outside: a page for each 2,048 blocks of no bytes.
        named += heap.sources.empties.notes().1 as u64;
        let mut told = 0;
        heap.each_metadata(|_, bytes| told += bytes as u64);
        assert_eq!(named, told);
        let Committed { in_spans, free, .. } = heap.committed();
        let unit = reader.place("unit.bytes").offset;
        assert_eq!(
            (reader.of_heap("pages.units_used") * unit, reader.of_heap("pages.units_dirty") * unit),
            (in_spans, free)
        );
    }

    #[test]
    fn the_window_says_which_build_and_cuts_a_long_name() {
        let heap = Heap::new(Fake::default());
        let build = |text| {
            let build = Window::new(&raw const heap, text).build;
            String::from_utf8(build.to_vec()).unwrap().trim_end_matches('\0').to_string()
        };
        assert_eq!(build("0.1.0+abc"), "0.1.0+abc");
        assert_eq!(build(&"x".repeat(100)), "x".repeat(63));
    }
}
