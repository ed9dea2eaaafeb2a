mod alone;
mod condense;
mod cpus;
mod growth;
mod handlers;
mod janitor;
mod pressure;
mod refused;
mod retain;
mod sampling;
mod shed;
mod thread;
mod words;

use super::*;
use crate::base::memory::{fill, holds};
use crate::class::MIN_ALIGN;
use crate::options::OptionId;
use crate::os::fake::{Fake, Request};
use crate::os::{Linux, Unread};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn heap() -> Box<Heap<Fake>> {
    Box::new(Heap::new(Fake::default()))
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Zeroed(usize),
    Aligned(usize, u32),
    Resize(usize, usize),
    Free(usize),
    Reclaim,
    Limit(u32),
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..300, 0usize..40_000, 200_000usize..700_000, Just(4096), Just(4124), 1usize..5_000_000]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => sizes().prop_map(Step::Allocate),
        2 => sizes().prop_map(Step::Zeroed),
        2 => (sizes(), 0u32..17).prop_map(|(bytes, shift)| Step::Aligned(bytes, shift)),
        3 => (any::<usize>(), sizes()).prop_map(|(which, bytes)| Step::Resize(which, bytes)),
        6 => any::<usize>().prop_map(Step::Free),
        1 => Just(Step::Reclaim),
        1 => (0u32..24).prop_map(Step::Limit),
    ];
    prop::collection::vec(step, 1..150)
}

/// The oracle: the blocks that a correct heap would hold.
#[derive(Default)]
struct Oracle {
    live: BTreeMap<usize, (usize, u8)>,
    marks: u8,
}

impl Oracle {
    fn add<O: Os>(&mut self, heap: &Heap<O>, address: usize, bytes: usize, kept: Option<(usize, u8)>) {
        assert_ne!(address, 0);
        assert_eq!(address % MIN_ALIGN, 0);
        let usable = heap.usable_bytes(address);
        assert!(usable >= bytes);
        if let Some((before, (length, _))) = self.live.range(..=address + usable.max(1) - 1).next_back() {
            assert!(before + heap.usable_bytes(*before).max(*length) <= address, "overlap");
        }
        if let Some((length, mark)) = kept {
            assert!(holds(address, length.min(bytes), mark), "contents lost");
        }
        self.marks = self.marks.wrapping_add(1);
        fill(address, usable, self.marks);
        self.live.insert(address, (usable, self.marks));
    }

    fn pick(&mut self, which: usize) -> Option<(usize, (usize, u8))> {
        let address = *self.live.keys().nth(which.checked_rem(self.live.len())?)?;
        let (bytes, mark) = self.live.remove(&address)?;
        assert!(holds(address, bytes, mark), "somebody wrote into a live block");
        Some((address, (bytes, mark)))
    }
}

fn obeys_the_oracle<O: Os>(heap: &Heap<O>, steps: &[Step]) {
    let mut oracle = Oracle::default();
    for step in steps {
        match *step {
            Step::Allocate(bytes) => oracle.add(heap, heap.allocate(bytes), bytes, None),
            Step::Zeroed(bytes) => oracle.add(heap, heap.allocate_zeroed(1, bytes), bytes, Some((bytes, 0))),
            Step::Aligned(bytes, shift) => {
                let block = heap.allocate_aligned(1 << shift, bytes);
                assert_eq!(block % (1 << shift), 0);
                oracle.add(heap, block, bytes, None);
            }
            Step::Resize(which, bytes) => {
                if let Some((address, kept)) = oracle.pick(which) {
                    oracle.add(heap, heap.reallocate(address, bytes), bytes, Some(kept));
                }
            }
            Step::Free(which) => {
                if let Some((address, _)) = oracle.pick(which) {
                    heap.free(address);
                }
            }
            Step::Reclaim => heap.drain_everything(),
            Step::Limit(shift) => {
                heap.set_option(b"cache_limit", (1u64 << shift).to_string().as_bytes()).unwrap();
                assert!(heap.stats().cache_room <= 1 << shift);
            }
        }
    }
    while let Some((address, _)) = oracle.pick(0) {
        heap.free(address);
    }
    heap.drain_everything();
    assert_eq!((heap.stats().live, heap.stats().vcpu_caches, heap.stats().transfer), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_sequence_of_operations_obeys_the_oracle_in_locked_caches(steps in steps()) {
        obeys_the_oracle(&*heap(), &steps);
    }

    #[test]
    fn any_sequence_of_operations_obeys_the_oracle_in_vcpu_caches(steps in steps()) {
        obeys_the_oracle(&*Box::new(Heap::new(Linux::new())), &steps);
    }
}

#[test]
fn the_terms_of_the_bridge_add_up_to_what_is_resident() {
    let heap = heap();
    let bytes = |index| if index % 2 == 0 { 100 } else { index + 1 };
    let blocks: Vec<_> = (0..6000usize).map(|index| heap.allocate(bytes(index))).collect();
    blocks.iter().for_each(|block| fill(*block, 1, 1));
    blocks.iter().step_by(3).for_each(|block| heap.free(*block));
    let large = heap.allocate(3 << 20);
    fill(large, 1 << 20, 1);
    let stats = heap.stats();
    let sum = stats.live_requested
        + stats.waste()
        + stats.vcpu_caches
        + stats.transfer
        + stats.free_in_spans
        + stats.span_tails
        - stats.not_in_memory
        + stats.dirty_free
        + stats.metadata;
    assert_eq!(sum, stats.resident, "{stats:?}");
    assert!(stats.transfer > 0 && stats.vcpu_caches > 0 && stats.span_tails > 0 && stats.not_in_memory > 0);
    assert!(stats.live > stats.live_requested && stats.large == 3 << 20);
}

#[test]
fn a_block_that_is_back_in_its_span_is_known_as_nobodys() {
    let heap = heap();
    let block = heap.allocate(100);
    assert!(heap.pages.class_of_allocated(block).is_some());
    heap.free(block);
    heap.drain_everything();
    assert!(heap.pages.class_of_allocated(block).is_none());
}

#[test]
fn text_and_json_are_complete() {
    let heap = heap();
    heap.allocate(100);
    let mut bytes = vec![0u8; 1 << 16];
    let mut buffer = crate::base::text::Buffer::new(&mut bytes);
    heap.put_stats_json(&mut buffer);
    let json = std::str::from_utf8(buffer.as_bytes()).unwrap().to_owned();
    heap.stats().each(|key, _| assert!(json.contains(&format!("\"{key}\":")), "{key}"));
    assert_eq!(json.matches('{').count(), json.matches('}').count());
    let mut buffer = crate::base::text::Buffer::new(&mut bytes);
    heap.put_stats_text(&mut buffer);
    assert!(std::str::from_utf8(buffer.as_bytes()).unwrap().contains("= resident"));
    assert_eq!(heap.stats().get(b"slabs"), Some(1));
    assert_eq!(heap.stats().get(b"nonsense"), None);
}

#[test]
fn settings_come_from_file_and_environment_but_not_in_a_privileged_process() {
    let os = |privileged| {
        let mut os = Fake::default();
        os.variables = &[("VCM_CACHE_LIMIT", "3M"), ("HOME", "/"), ("VCM_STATS_AT_EXIT", "maybe")];
        os.file = "stats_at_exit = on\n[other]\ncache_limit = 1M\n[fake]\nfront = locked";
        os.privileged = privileged;
        os
    };
    let heap = Heap::new(os(false));
    heap.allocate(1);
    assert_eq!(heap.setup().cache_limit, 3 << 20);
    assert!(heap.options.is_on(OptionId::stats_at_exit));
    assert_eq!(heap.options.get(OptionId::front), 1);
    let heap = Heap::new(os(true));
    heap.allocate(1);
    assert_eq!(heap.setup().cache_limit, 32 << 20, "two CPUs");
    assert!(!heap.options.is_on(OptionId::stats_at_exit));
}

#[test]
fn a_config_file_that_may_not_be_read_is_not_passed_over_in_silence() {
    for (unread, is_said) in [(Unread::Missing, false), (Unread::Refused, true)] {
        let mut os = Fake::default();
        (os.unread, os.quiet) = (unread, true);
        let heap = Heap::new(os);
        heap.allocate(1);
        assert_eq!(heap.os().said.load(core::sync::atomic::Ordering::Relaxed) > 0, is_said, "{unread:?}");
    }
}

#[test]
fn a_lowered_bound_holds_when_the_call_returns() {
    let heap = Heap::new(Linux::new());
    let blocks: Vec<_> = (0..4000).map(|_| heap.allocate(1024)).collect();
    blocks.into_iter().for_each(|block| heap.free(block));
    assert!(heap.stats().cache_room > 1 << 20);
    heap.set_option(b"cache_limit", b"64K").unwrap();
    let stats = heap.stats();
    assert!(stats.cache_room <= 64 << 10 && stats.vcpu_caches + stats.transfer <= 64 << 10);
}

#[test]
fn sized_frees_accept_what_was_asked_for() {
    let heap = heap();
    for bytes in [0, 1, 100, 4096, 70_000, 1 << 20] {
        let block = heap.allocate(bytes);
        heap.check_size(block, bytes, 1);
        heap.free(block);
        let block = heap.allocate_aligned(256, bytes);
        heap.check_size(block, bytes, 256);
        heap.free(block);
    }
    let block = heap.allocate(1000);
    assert_eq!(heap.reallocate(block, 600), block, "stays");
    heap.check_size(block, 600, 1);
    heap.free(block);
    assert!(!heap.fits(heap.allocate(10), 1000, 1));
}

#[test]
fn calloc_of_new_memory_touches_none_of_it() {
    let heap = Heap::new(Linux::new());
    let bytes = 147_484;
    let blocks: Vec<usize> = (0..50).map(|_| heap.allocate_zeroed(1, bytes)).collect();
    let resident: usize =
        blocks.iter().map(|block| heap.os().resident_bytes(*block, bytes & !4095).unwrap()).sum();
    assert!(resident < 50 * bytes / 10, "{resident} bytes in memory that nobody wrote to");
    for block in &blocks {
        assert!(holds(*block, bytes, 0));
    }
}

#[test]
fn calloc_of_a_block_that_was_used_before_reads_as_zeros() {
    for bytes in [16 << 10, 20_000, 40_000, 147_484, 256 << 10] {
        let heap = heap();
        for _ in 0..3 {
            let blocks: Vec<usize> = (0..40).map(|_| heap.allocate_zeroed(1, bytes)).collect();
            for block in &blocks {
                assert!(holds(*block, bytes, 0), "{bytes}");
                fill(*block, heap.usable_bytes(*block), 0xAB);
            }
            blocks.iter().for_each(|block| heap.free(*block));
            heap.tick(true);
            heap.drain_everything();
        }
    }
}

#[test]
fn a_block_that_grows_by_realloc_soon_stays_where_it_is() {
    let heap = heap();
    let mut blocks = [0; 4];
    let (mut moves, mut resizes) = (0, 0);
    let mut bytes = 64;
    while bytes < 600 << 10 {
        for block in &mut blocks {
            let before = *block;
            *block = heap.reallocate(before, bytes);
            if before != 0 {
                assert!(holds(*block, bytes * 2 / 3 - 1, 7));
            }
            resizes += usize::from(bytes > 24 << 10);
            moves += usize::from(bytes > 24 << 10 && *block != before);
            fill(*block, bytes, 7);
        }
        bytes += bytes / 2;
    }
    assert!(moves <= resizes / 4, "{moves} moves in {resizes} steps beyond 24 KiB");
    blocks.iter().for_each(|block| heap.free(*block));
    heap.verify();
}

/// One buffer from 64 KiB to 32 MiB by 64 KiB, freed; how often it moved beyond 2 MiB.
fn moves_of_a_buffer(heap: &Heap<Fake>) -> usize {
    let (mut block, mut moves) = (heap.allocate(64 << 10), 0);
    for bytes in (128 << 10..=32 << 20).step_by(64 << 10) {
        let next = heap.reallocate(block, bytes);
        assert_ne!(next, 0);
        moves += usize::from(next != block && bytes > 2 << 20);
        block = next;
    }
    // Memory that nobody wrote would go as it becomes free.
    fill(block, 32 << 20, 1);
    heap.free(block);
    moves
}

#[test]
fn a_buffer_that_grows_alone_stays_and_the_next_one_takes_its_memory() {
    let heap = heap();
    // Freed memory stays until a tick.
    assert!(heap.claim_janitor());
    assert!(moves_of_a_buffer(&heap) <= 1, "nobody is in its way");
    let mapped = heap.pages.mapped_bytes();
    for _ in 0..4 {
        assert!(moves_of_a_buffer(&heap) <= 2);
    }
    assert!(heap.pages.mapped_bytes() <= mapped + (8 << 20), "{} and {mapped}", heap.pages.mapped_bytes());
    heap.verify();
}

#[test]
fn a_large_block_whose_units_do_not_change_stays_and_tells_its_size_as_before() {
    let heap = heap();
    let block = heap.allocate(1 << 20);
    let usable = heap.usable_bytes(block);
    for bytes in [usable, usable - 1, usable - (16 << 10) + 1] {
        assert_eq!((heap.reallocate(block, bytes), heap.usable_bytes(block)), (block, usable));
    }
    heap.reallocate(block, usable - (16 << 10));
    assert_eq!(heap.usable_bytes(block), usable - (16 << 10), "a unit goes back");
    heap.free(block);
    heap.verify();
}

#[test]
fn room_for_what_grows_takes_no_more_addresses_than_blocks_do() {
    let heap = heap();
    let blocks: Vec<usize> = (0..600).map(|_| heap.reallocate(heap.allocate(64), 40 << 10)).collect();
    assert!(blocks.iter().all(|block| *block != 0));
    let (mapped, live) = (heap.pages.mapped_bytes(), blocks.len() * (48 << 10));
    assert!(mapped <= 2 * live + (8 << 20), "{mapped} bytes of addresses for {live} of blocks");
    blocks.iter().for_each(|block| heap.free(*block));
    heap.verify();
}

#[test]
fn a_block_is_resized_to_an_alignment_wherever_it_lay() {
    let heap = heap();
    for bytes in [50, 5000, 50_000, 500_000] {
        for align in [1, 64, 4096, 1 << 20] {
            let block = heap.allocate(bytes);
            fill(block, bytes, 8);
            let other = heap.reallocate_aligned(block, align, bytes);
            assert!(other.is_multiple_of(align) && holds(other, bytes, 8), "{bytes} at {align}");
            heap.check_size(other, bytes, align);
            heap.free(other);
        }
    }
}

#[test]
fn zeroed_blocks_are_zero_at_every_alignment() {
    let heap = heap();
    for bytes in [50, 5000, 50_000, 500_000] {
        for align in [1, 64, 4096, 1 << 20] {
            let dirty = heap.allocate_aligned(align, bytes);
            fill(dirty, bytes, 8);
            heap.free(dirty);
            let block = heap.allocate_aligned_zeroed(align, bytes);
            assert!(block.is_multiple_of(align) && holds(block, bytes, 0), "{bytes} at {align}");
            heap.free(block);
        }
    }
}

#[test]
fn only_a_large_block_is_resized_where_it_lies() {
    let heap = heap();
    let (small, large) = (heap.allocate(100), heap.allocate(4 << 20));
    assert!(!heap.resize_in_place(small, 1, 50) && !heap.resize_in_place(large, 1, 100));
    assert!(heap.resize_in_place(large, 16, 1 << 20) && heap.usable_bytes(large) == 1 << 20);
    assert!(heap.resize_in_place(large, 16, 2 << 20) && heap.usable_bytes(large) == 2 << 20);
    assert!(!heap.resize_in_place(large, 1 << 40, 1 << 20) && !heap.resize_in_place(large, 1, usize::MAX));
    assert_eq!(heap.usable_bytes(large), 2 << 20);
}

#[test]
fn the_system_is_told_what_mappings_are_for() {
    use crate::os::Purpose;
    use crate::pages::Mapping;
    use core::sync::atomic::Ordering;
    let heap =
        Box::new(Heap::with_hooks(Fake::default(), Hooks { before_guards: Some(|| ()), unwind: |_| 0 }));
    let named = |purpose: Purpose| heap.os().named[purpose as usize].load(Ordering::Relaxed);
    assert_eq!(named(Purpose::Heap) + named(Purpose::Tables), 0);
    (0..50).for_each(|number| _ = heap.allocate(1 + number * 200_011));
    assert!(heap.start_profile(4096));
    heap.allocate_in_emergency(100, 16);
    let (mut blocks, mut tables) = (0, 0);
    heap.pages.each_mapping(|mapping, _, bytes| match mapping {
        Mapping::Blocks => blocks += bytes,
        _ => tables += bytes,
    });
    heap.cache.each_mapping(|_, bytes| tables += bytes);
    heap.profile.each_mapping(|_, bytes| tables += bytes);
    assert_eq!(named(Purpose::Heap), blocks);
    assert!(named(Purpose::Tables) >= tables && named(Purpose::Emergency) > 0);
}

#[test]
fn a_slab_gets_no_huge_page_by_itself() {
    use core::sync::atomic::Ordering;
    let heap = heap();
    heap.allocate(100);
    let mut slabs = 0;
    heap.cache.each_mapping(|_, bytes| slabs += if bytes > 2 << 20 { bytes } else { 0 });
    assert!(slabs > 0 && heap.os().forbidden.load(Ordering::Relaxed) == slabs);
}

#[test]
fn a_block_on_its_way_back_has_the_bytes_that_it_came_with() {
    let heap = Box::new(Heap::new(Fake::default()));
    for bytes in [1, 100, 5000, 300_000, 5 << 20] {
        let block = heap.allocate(bytes);
        let usable = heap.usable_bytes(block);
        assert_eq!((heap.known_bytes(block), usable >= bytes), (usable, true));
        let freed = match heap.free_fast_bytes(block) {
            0 => {
                heap.free_slow(block);
                usable
            }
            freed => freed,
        };
        assert_eq!(freed, usable);
    }
    let here = &raw const heap as usize;
    assert_eq!((heap.known_bytes(0), heap.known_bytes(here), heap.free_fast_bytes(here)), (0, 0, 0));
}
