//! The reader on heaps of this very process, which it reads as anybody's.

use super::heaps::Figures;
use super::layout::{Found, Layout};
use super::memory::Memory;
use super::samples::Samples;
use super::snapshot::Snapshot;
use crate::process::Process;
use std::collections::HashMap;
use vcmalloc_core::base::place::Place;
use vcmalloc_core::heap::{Ending, Heap, HeapId, Hooks, Made, Stats, Window};
use vcmalloc_core::os::fake::Fake;

fn own() -> (Process, Memory) {
    let process = Process::new(std::process::id() as i32);
    let memory = Memory::of(&process).unwrap();
    (process, memory)
}

fn layout(window: &Window) -> Found {
    Layout::read(&own().1, std::ptr::from_ref(window).expose_provenance() as u64).unwrap()
}

fn look(window: &Window) -> Snapshot {
    let Found::Layout(layout) = layout(window) else { panic!("another version") };
    let (process, memory) = own();
    Snapshot::take(&process, &memory, &layout).unwrap()
}

/// Stands still, with something in every tier.
fn idle() -> Box<Heap<Fake>> {
    let heap = Box::new(Heap::new(Fake::default()));
    let sizes = [24, 100, 5000, 40_000, 300 << 10];
    let blocks: Vec<usize> = (0..9000).map(|index| heap.allocate(sizes[index % 5])).collect();
    for block in blocks.iter().step_by(11) {
        // SAFETY: the block has 24 bytes at least; it comes into memory.
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(*block).write(1) };
    }
    blocks.iter().step_by(7).for_each(|block| heap.free(*block));
    heap.release(0);
    blocks.iter().skip(1).step_by(7).for_each(|block| heap.free(*block));
    heap
}

fn figures(stats: &Stats) -> HashMap<&'static str, u64> {
    let mut all = HashMap::new();
    stats.each(|name, value| {
        all.insert(name, value);
    });
    all
}

#[test]
fn every_figure_of_an_idle_heap_is_the_one_that_the_heap_itself_tells() {
    let heap = idle();
    // It settles what it tells before it tells it.
    heap.stats();
    let window = Window::new(&raw const *heap, "0.1.0+abc");
    let (told, seen) = (figures(&heap.stats()), look(&window));
    assert_eq!(figures(&seen.stats), told);
    for name in ["vcpu_caches", "transfer", "free_in_spans", "not_in_memory", "large", "metadata", "released"]
    {
        assert!(told[name] > 0, "{name} is not tested");
    }
    assert_eq!((seen.build.printed().as_str(), seen.torn, seen.missing), ("0.1.0+abc", None, Vec::new()));
    let option = seen.settings.iter().find(|setting| setting.name == "release_delay").unwrap();
    assert_eq!((option.value, option.origin.name()), (1_000_000_000, "default"));
}

#[test]
fn a_heap_that_was_never_used_is_seen_and_has_nothing() {
    let heap = Heap::new(Fake::default());
    let seen = look(&Window::new(&raw const heap, ""));
    assert!(!seen.is_started && seen.torn.is_none() && seen.stats.resident == 0);
}

/// A copy of the heap's numbers, in which some are changed: somebody was at it.
fn look_at_changed(heap: &Heap<Fake>, name: &str, change: impl Fn(&mut u8)) -> Snapshot {
    let mut window = Window::new(heap, "");
    let Found::Layout(layout) = layout(&window) else { panic!("another version") };
    // SAFETY: the bytes of the heap, which stands still; its padding may be anything.
    let mut bytes = unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(heap).cast::<u8>(), size_of::<Heap<Fake>>()).to_vec()
    };
    change(&mut bytes[layout.places[name].offset as usize]);
    window.heap = bytes.as_ptr().cast();
    look(&window)
}

#[test]
fn a_look_at_a_heap_under_change_says_that_it_is_torn() {
    let heap = idle();
    let torn = |name, change: fn(&mut u8)| look_at_changed(&heap, name, change).torn.unwrap_or_default();
    assert_eq!(torn("pages.clock", |byte| *byte += 1), "");
    assert_eq!(torn("pages.lock", |byte| *byte |= 1), "spans");
    assert_eq!(torn("class.spans_lock", |byte| *byte |= 1), "1 size class");
    assert_eq!(torn("cache.freezer_lock", |byte| *byte |= 1), "memory on its way back");
    // Nobody holds a lock, and the sums do not close: half of a change.
    assert_eq!(torn("pages.units_used", |byte| *byte ^= 1), "sums");
    assert_eq!(torn("large.blocks", |byte| *byte ^= 1), "sums");
}

#[test]
fn large_blocks_that_were_freed_a_moment_ago_are_free_in_a_look_that_closes_none() {
    let heap = Box::new(Heap::new(Fake::default()));
    let window = Window::new(&raw const *heap, "");
    let blocks: Vec<usize> = (0..20).map(|_| heap.allocate(300 << 10)).collect();
    blocks.iter().take(5).for_each(|block| heap.free(*block));
    let seen = look(&window);
    let of = |stats: &Stats| [stats.large_blocks, stats.large, stats.live, stats.live_requested];
    // The heap itself closes them before it tells its figures.
    assert_eq!((of(&seen.stats), &seen.torn), (of(&heap.stats()), &None));
    assert_eq!(seen.stats.large_blocks, 15);
}

#[test]
fn heaps_of_tenants_are_seen_by_name_the_largest_first() {
    let heap = Box::new(Heap::new(Fake::default()));
    let window = Window::new(&raw const *heap, "");
    heap.free(heap.allocate(1));
    assert_eq!(look(&window).heaps.count, 0);
    let made = |name: &'static str, limit| Made {
        name: name.as_bytes(),
        parent: HeapId::OWN,
        limit,
        on_limit: None,
        argument: 0,
    };
    let ids: Vec<HeapId> = (0..1500)
        .map(|index| heap.make_heap(made(["query", "brick\n2"][index % 2], Some(64 << 20))).unwrap())
        .collect();
    let large = heap.make_heap(made("column", None)).unwrap();
    let gone = heap.make_heap(made("gone", None)).unwrap();
    heap.allocate_in(gone, 16, 9 << 20).unwrap();
    heap.end_heap(gone, Ending::FreeAll).unwrap();
    heap.allocate_in(large, 16, 5 << 20).unwrap();
    heap.allocate_in(ids[1400], 16, 1 << 20).unwrap();
    ids.iter().for_each(|id| _ = heap.allocate_in(*id, 16, 1000).unwrap());
    let seen = look(&window);
    let heaps = &seen.heaps;
    assert_eq!((heaps.count, heaps.largest.len(), heaps.unread, &seen.torn), (1501, 16, 0, &None));
    let (first, second) = (&heaps.largest[0], &heaps.largest[1]);
    let told = heap.heap_stats(large).unwrap();
    assert_eq!((first.id, &first.name, first.drains), (large.0, &"column".into(), false));
    let of =
        |figures: &Figures| [figures.live, figures.live_blocks, figures.bytes, figures.peak, figures.limit];
    assert_eq!(of(&first.figures), [told.live, told.live_blocks, told.bytes, told.peak, told.limit]);
    assert_eq!((second.id, second.figures.limit), (ids[1400].0, 64 << 20));
    let names: Vec<(String, u64)> =
        heaps.names.iter().map(|of| (of.name.clone().unwrap(), of.heaps)).collect();
    assert_eq!(names, [("query".into(), 750), ("brick\\n2".into(), 750), ("column".into(), 1)]);
}

#[test]
fn names_of_heaps_beyond_the_largest_are_one_sum() {
    let heap = Box::new(Heap::new(Fake::default()));
    let window = Window::new(&raw const *heap, "");
    for index in 0..40 {
        let name = format!("tenant {index}");
        let made =
            Made { name: name.as_bytes(), parent: HeapId::OWN, limit: None, on_limit: None, argument: 0 };
        let id = heap.make_heap(made).unwrap();
        heap.allocate_in(id, 16, (index + 1) * (300 << 10)).unwrap();
    }
    let names = look(&window).heaps.names;
    let others = names.last().unwrap();
    assert_eq!((names.len(), others.name.is_none(), others.heaps), (17, true, 24));
    assert_eq!(names[0].name, Some("tenant 39".into()));
}

#[test]
fn what_an_older_library_does_not_tell_is_named_and_the_rest_is_read() {
    let heap = idle();
    let mut window = Window::new(&raw const *heap, "");
    // SAFETY: the window tells so many places.
    let mut places =
        unsafe { std::slice::from_raw_parts(window.places, window.place_count as usize) }.to_vec();
    let is_known = |place: &Place| !place.name.starts_with(b"upkeep.given_back\0");
    places.retain(is_known);
    window.places = places.as_ptr();
    window.place_count = places.len() as u32;
    let seen = look(&window);
    assert_eq!(seen.missing, ["upkeep.given_back"]);
    assert_eq!(seen.stats.live, heap.stats().live);
}

#[test]
fn what_a_newer_library_has_beyond_is_passed_over_and_another_layout_refused() {
    let heap = idle();
    let mut window = Window::new(&raw const *heap, "");
    // SAFETY: the window tells so many places.
    let mut places =
        unsafe { std::slice::from_raw_parts(window.places, window.place_count as usize) }.to_vec();
    let mut strange = places[0];
    (strange.name[0], strange.within) = (b'x', 77);
    places.push(strange);
    window.places = places.as_ptr();
    window.place_count += 1;
    let seen = look(&window);
    assert_eq!((seen.stats.live, seen.missing), (heap.stats().live, Vec::new()));
    window.version = 2;
    assert!(matches!(layout(&window), Found::Version(2)));
}

#[test]
fn a_damaged_description_is_refused_and_not_believed() {
    let heap = idle();
    let read = |damage: fn(&mut Window)| {
        let mut window = Window::new(&raw const *heap, "");
        damage(&mut window);
        Layout::read(&own().1, (&raw const window).expose_provenance() as u64).is_err()
    };
    assert!(!read(|_| ()));
    assert!(read(|window| window.magic[0] = 0));
    assert!(read(|window| window.place_count = u32::MAX));
    assert!(read(|window| window.place_bytes = 8));
    assert!(read(|window| window.heap_bytes = 1 << 40));
    assert!(read(|window| window.places = std::ptr::without_provenance(8)));
}

/// Samples of the heap, as somebody outside reads them.
fn samples(window: &Window) -> Samples {
    let Found::Layout(layout) = layout(window) else { panic!("another version") };
    Samples::read(&own().1, &layout).unwrap()
}

#[test]
fn the_profile_is_the_one_that_the_heap_itself_tells() {
    let unwind = |frames: &mut [usize]| {
        frames[0] = 0x1234;
        frames[1] = 0x5678;
        2
    };
    let heap = Box::new(Heap::with_hooks(Fake::default(), Hooks { before_guards: Some(|| ()), unwind }));
    let window = Window::new(&raw const *heap, "");
    assert!(heap.start_profile(1 << 10));
    let blocks: Vec<usize> = (0..4000).map(|index| heap.allocate(500 + index % 3000)).collect();
    blocks.iter().step_by(3).for_each(|block| heap.free(*block));
    let (seen, stats) = (samples(&window), heap.profile_stats());
    assert_eq!((seen.is_on, seen.interval, &seen.torn), (true, 1 << 10, &None));
    let mut told = Vec::new();
    heap.each_live_sample(|sample| told.push((sample.address as u64, sample.bytes as u64, sample.weight)));
    let mut live: Vec<_> = seen.live.iter().map(|one| (one.address, one.bytes, one.sum.bytes)).collect();
    told.sort_unstable();
    live.sort_unstable();
    assert_eq!(live, told);
    let of = seen.stacks.iter().find(|of| of.frames == [0x1234, 0x5678]).unwrap();
    assert_eq!(seen.stacks.iter().filter(|of| !of.frames.is_empty()).count(), 1);
    assert_eq!(seen.live.iter().filter(|one| seen.stacks[one.stack].frames == of.frames).count(), live.len());
    assert_eq!(
        (of.allocated.bytes, of.allocated.bytes - of.freed.bytes),
        (stats.allocated_bytes, stats.live_bytes)
    );
    assert!((of.allocated.objects - stats.allocated_objects as f64).abs() <= 0.5);
    heap.stop_profile();
    assert!(!samples(&window).is_on && samples(&window).live.len() == live.len());
}

#[test]
fn a_heap_without_a_profile_has_no_samples() {
    let heap = idle();
    let seen = samples(&Window::new(&raw const *heap, ""));
    assert!(!seen.is_on && seen.live.is_empty() && seen.stacks.is_empty() && seen.torn.is_none());
}

#[test]
fn a_profile_whose_lock_is_held_says_that_it_is_torn() {
    let heap = idle();
    let mut window = Window::new(&raw const *heap, "");
    let Found::Layout(layout) = layout(&window) else { panic!("another version") };
    // SAFETY: the bytes of the heap, which stands still; its padding may be anything.
    let mut bytes = unsafe {
        std::slice::from_raw_parts((&raw const *heap).cast::<u8>(), size_of::<Heap<Fake>>()).to_vec()
    };
    window.heap = bytes.as_ptr().cast();
    assert_eq!(samples(&window).torn, None);
    bytes[layout.places["profile.lock"].offset as usize] |= 1;
    assert_eq!(samples(&window).torn.as_deref(), Some("0 samples came and 0 went"));
}
