//! What a tick does, on a system whose clock and limits the test sets.

use super::Heap;
use crate::base::memory;
use crate::options::OptionId;
use crate::os::fake::{Fake, Request};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const MIB: usize = 1 << 20;

fn heap() -> Box<Heap<Fake>> {
    Box::new(Heap::new(Fake::default()))
}

fn fill(heap: &Heap<Fake>, count: usize, bytes: usize) -> Vec<usize> {
    (0..count)
        .map(|_| {
            let block = heap.allocate(bytes);
            assert_ne!(block, 0);
            memory::fill(block, bytes, 1);
            block
        })
        .collect()
}

fn free(heap: &Heap<Fake>, blocks: impl IntoIterator<Item = usize>) {
    blocks.into_iter().for_each(|block| heap.free(block));
}

fn quiet_ticks(heap: &Heap<Fake>, count: usize) {
    (0..count).for_each(|_| heap.tick(false));
}

#[test]
fn an_idle_heap_ends_with_its_live_pages_and_nothing_else() {
    let heap = heap();
    let blocks = fill(&heap, 20_000, 1000);
    free(&heap, blocks.iter().copied().filter(|block| block / 4096 % 16 != 0));
    let live_pages: std::collections::BTreeSet<_> = blocks
        .iter()
        .filter(|block| *block / 4096 % 16 == 0)
        .flat_map(|block| [block / 4096, (block + 999) / 4096])
        .collect();
    assert!(heap.stats().resident > 15 * MIB as u64);
    quiet_ticks(&heap, 11);
    let stats = heap.stats();
    assert_eq!((stats.vcpu_caches, stats.transfer, stats.dirty_free), (0, 0, 0));
    assert_eq!(stats.resident - stats.metadata, live_pages.len() as u64 * 4096);
}

#[test]
fn what_the_heap_knows_about_blocks_goes_with_their_memory() {
    let heap = heap();
    let blocks = fill(&heap, 64 << 10, 1024);
    let before = heap.stats().metadata;
    free(&heap, blocks);
    quiet_ticks(&heap, 11);
    let after = heap.stats().metadata;
    // A bit for every 16 bytes of 64 MiB.
    assert!(after + (448 << 10) < before, "{before} bytes of metadata, then {after}");
    heap.verify();
    let again = fill(&heap, 1000, 1024);
    free(&heap, again);
}

#[test]
fn memory_stays_for_the_delay_and_then_goes() {
    let heap = heap();
    heap.set_option(b"retain", b"1G").unwrap();
    let large = heap.allocate(8 * MIB);
    memory::fill(large, 8 * MIB, 1);
    heap.free(large);
    quiet_ticks(&heap, 3);
    assert_eq!(heap.stats().dirty_free, 8 * MIB as u64);
    quiet_ticks(&heap, 1);
    assert_eq!(heap.stats().dirty_free, 0);
}

#[test]
fn what_exceeds_retain_goes_at_the_next_tick() {
    let heap = heap();
    heap.set_option(b"retain", b"2M").unwrap();
    let blocks: Vec<_> = (0..4).map(|_| heap.allocate(2 * MIB)).collect();
    blocks.iter().for_each(|block| memory::fill(*block, 2 * MIB, 1));
    free(&heap, blocks);
    quiet_ticks(&heap, 1);
    assert_eq!(heap.stats().dirty_free, 2 * MIB as u64);
}

#[test]
fn a_share_to_retain_is_one_of_what_lives_not_of_the_spans_it_lies_in() {
    let heap = heap();
    heap.set_option(b"retain", b"100%").unwrap();
    let blocks = fill(&heap, 64 * 1024, 1024);
    // One block of each 16 KiB stays: spans stay open, and little lives.
    let (stay, go): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block / 1024 % 16 == 0);
    free(&heap, go);
    let large = fill(&heap, 1, 48 * MIB);
    free(&heap, large);
    quiet_ticks(&heap, 3);
    let dirty = heap.stats().dirty_free;
    assert!(dirty < 24 * MIB as u64, "{dirty} bytes are kept for {} that live", stay.len() * 1024);
    free(&heap, stay);
}

#[test]
fn memory_that_keeps_coming_back_waits_longer_and_goes_all_the_same_when_the_program_rests() {
    let heap = heap();
    heap.set_option(b"retain", b"0").unwrap();
    let given_back_after = |cycles: usize| {
        for _ in 0..cycles {
            free(&heap, fill(&heap, 8, MIB));
            (0..6).for_each(|_| heap.tick(true));
        }
        heap.stats().given_back
    };
    assert!(given_back_after(1) >= 8 * MIB as u64);
    let learned = given_back_after(10);
    assert_eq!(given_back_after(8), learned, "nothing goes any more");
    quiet_ticks(&heap, 8);
    assert_eq!(heap.stats().dirty_free, 0, "within twice the delay");
}

#[test]
fn a_program_that_steers_its_memory_sees_soon_what_it_freed() {
    let heap = heap();
    let stay = fill(&heap, 256, MIB);
    let held_after_a_cut = |steered: bool| {
        // Patient: it kept needing what went.
        for _ in 0..12 {
            free(&heap, fill(&heap, 8, MIB));
            heap.release(0);
            heap.tick(true);
        }
        assert!(heap.is_patient());
        let cut = fill(&heap, 100, MIB);
        if steered {
            heap.note_steered();
        }
        free(&heap, cut);
        (0..2).for_each(|_| heap.tick(true));
        heap.stats().dirty_free
    };
    assert!(held_after_a_cut(false) > 90 * MIB as u64);
    assert!(held_after_a_cut(true) <= 32 * MIB as u64, "a sixteenth of what lives and 16 MiB");
    free(&heap, stay);
}

#[test]
fn free_memory_that_the_program_needs_every_now_and_then_is_no_excess() {
    let heap = heap();
    heap.set_option(b"retain", b"0").unwrap();
    for _ in 0..20 {
        free(&heap, fill(&heap, 4, MIB));
        heap.tick(true);
    }
    assert_eq!(heap.stats().given_back, 0);
    (0..4).for_each(|_| heap.tick(true));
    assert_eq!(heap.stats().dirty_free, 0);
}

#[test]
fn what_large_blocks_need_again_and_again_stays_however_much_that_is_while_the_program_works() {
    let given_in_later_ticks = |bytes: usize| {
        let heap = heap();
        let given_after_swings = || {
            for _ in 0..8 {
                free(&heap, fill(&heap, (64 * MIB) / bytes, bytes));
                // Many large blocks one after the other are no need for many.
                (0..100).for_each(|_| free(&heap, fill(&heap, 1, MIB)));
                heap.reclaim();
                heap.tick(true);
            }
            heap.stats().given_back
        };
        let early = given_after_swings();
        let later = given_after_swings() - early;
        heap.tick(false);
        assert!(heap.stats().dirty_free <= 8 * MIB as u64, "what may be retained, in a program at rest");
        later
    };
    assert!(given_in_later_ticks(MIB) < 16 * MIB as u64);
    assert!(given_in_later_ticks(1024) > 100 * MIB as u64, "small blocks may have left it in pieces");
}

#[test]
fn a_heap_that_grows_although_it_holds_plenty_gives_some_back_before_the_next_tick() {
    let held_after_growth = |survivor: usize| {
        let heap = heap();
        let blocks = fill(&heap, 64 << 10, 1024);
        heap.reclaim();
        heap.tick(true);
        free(
            &heap,
            blocks.iter().enumerate().filter(|(index, _)| index % survivor != 0).map(|(_, block)| *block),
        );
        heap.reclaim();
        fill(&heap, 16 << 10, 4096);
        let stats = heap.stats();
        (stats.resident - stats.metadata) as usize
    };
    let live = 64 * MIB + 64 * MIB / 64 * 4;
    assert!(held_after_growth(64) < live + 32 * MIB, "one block in 64 holds its page of 4 KiB");
    assert!(held_after_growth(2) > 120 * MIB, "no page is idle");
}

#[test]
fn where_the_system_takes_nothing_a_growing_heap_asks_once_a_step() {
    let heap = heap();
    let blocks = fill(&heap, 400, MIB / 2);
    free(&heap, blocks.iter().enumerate().filter(|(index, _)| index % 4 != 0).map(|(_, block)| *block));
    heap.os.refuse_after(Request::GiveBack, 0);
    // What large blocks swung by is forgotten.
    (0..3).for_each(|_| heap.tick(true));
    let before = heap.os.asked(Request::GiveBack);
    fill(&heap, 60, 2 * MIB);
    let asked = heap.os.asked(Request::GiveBack) - before;
    assert!((1..3000).contains(&asked), "{asked} times in a growth of 120 MiB");
}

#[test]
fn pages_inside_spans_that_keep_coming_back_teach_the_same() {
    let heap = heap();
    let sparse: Vec<usize> =
        fill(&heap, 4000, 1024).into_iter().enumerate().fold(Vec::new(), |mut kept, one| {
            if one.0 % 64 == 0 {
                kept.push(one.1)
            } else {
                heap.free(one.1)
            };
            kept
        });
    heap.release(0);
    assert!(heap.stats().released > MIB as u64);
    for _ in 0..4 {
        let blocks = fill(&heap, 3000, 1024);
        heap.tick(true);
        free(&heap, blocks);
        heap.release(0);
    }
    assert!(heap.is_patient());
    free(&heap, sparse);
}

#[test]
fn free_blocks_in_spans_beyond_retain_go_before_the_delay_is_over() {
    let gone_after_two_ticks = |survivor: usize| {
        let heap = heap();
        let blocks = fill(&heap, 40_000, 1024);
        heap.reclaim();
        heap.tick(true);
        for (index, block) in blocks.iter().enumerate() {
            if index % survivor != 0 {
                heap.free(*block);
            }
        }
        heap.reclaim();
        (0..2).for_each(|_| heap.tick(true));
        heap.stats().released
    };
    assert!(gone_after_two_ticks(64) > 20 * MIB as u64);
}

#[test]
fn a_cache_in_use_is_left_alone() {
    let heap = heap();
    let blocks = fill(&heap, 40, 64);
    free(&heap, blocks);
    let mut kept = Vec::new();
    for _ in 0..6 {
        heap.tick(true);
        kept.push(heap.allocate(64));
        assert!(heap.stats().vcpu_caches > 0);
    }
    quiet_ticks(&heap, 3);
    assert_eq!(heap.stats().vcpu_caches, 0);
}

#[test]
fn a_refused_give_back_is_tried_again() {
    let heap = heap();
    let blocks = fill(&heap, 5000, 1000);
    free(&heap, blocks);
    heap.os().refuse_after(Request::GiveBack, 0);
    quiet_ticks(&heap, 12);
    assert!(heap.stats().resident > 4 * MIB as u64, "nothing went, nothing broke");
    heap.os().grant(Request::GiveBack);
    quiet_ticks(&heap, 1);
    assert!(heap.stats().resident < MIB as u64);
}

#[test]
fn the_hard_limit_refuses_and_the_heap_works_afterwards() {
    let heap = heap();
    heap.set_option(b"hard_limit", b"16M").unwrap();
    let mut blocks = Vec::new();
    while let block @ 1.. = heap.allocate(100_000) {
        blocks.push(block);
    }
    assert!((100..170).contains(&blocks.len()), "{}", blocks.len());
    assert_eq!(heap.allocate(4 * MIB), 0);
    let half = blocks.split_off(blocks.len() / 2);
    free(&heap, half);
    let large = heap.allocate(4 * MIB);
    assert_ne!(large, 0, "as another size");
    heap.set_option(b"hard_limit", b"auto").unwrap();
    assert_ne!(heap.allocate(64 * MIB), 0);
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_call(in_memory: usize, limit: usize) {
    assert!(in_memory > 0 && limit > 0);
    CALLS.fetch_add(1, Relaxed);
}

#[test]
fn over_the_soft_limit_free_memory_goes_before_more_is_taken_and_the_program_is_told() {
    let heap = heap();
    heap.on_pressure(Some(count_call));
    heap.set_option(b"memory_limit", b"32M").unwrap();
    heap.set_option(b"retain", b"1G").unwrap();
    for bytes in [1000usize, 3000, 10_000, 50_000, 200_000, 2 * MIB] {
        let blocks = fill(&heap, 20 * MIB / bytes, bytes);
        assert!(heap.stats().resident < 36 * MIB as u64, "{bytes}: {}", heap.stats().resident);
        free(&heap, blocks);
    }
    assert_eq!(CALLS.load(Relaxed), 0, "it was never passed");
    let blocks = fill(&heap, 48, MIB);
    assert!(CALLS.load(Relaxed) > 0);
    assert!(CALLS.load(Relaxed) < 40, "not at every allocation");
    free(&heap, blocks);
}

static TO_DROP: std::sync::Mutex<(usize, Vec<usize>)> = std::sync::Mutex::new((0, Vec::new()));

extern "C" fn drop_all(_: usize, _: usize) {
    let (heap, blocks) = std::mem::take(&mut *TO_DROP.lock().unwrap());
    // SAFETY: the test below puts its heap there, which it drops later.
    let heap = unsafe { &*(heap as *const Heap<Fake>) };
    free(heap, blocks);
}

#[test]
fn what_the_callback_frees_is_free() {
    let heap = heap();
    let blocks = fill(&heap, 200, 400_000);
    heap.set_option(b"memory_limit", b"90M").unwrap();
    *TO_DROP.lock().unwrap() = (&raw const *heap as usize, blocks);
    heap.on_pressure(Some(drop_all));
    let more = fill(&heap, 60, 400_000);
    assert_eq!(heap.stats().large_blocks, more.len() as u64);
}

static REENTERED: std::sync::Mutex<(usize, usize, usize)> = std::sync::Mutex::new((0, 0, 0));

extern "C" fn allocate_more_than_a_step(_: usize, _: usize) {
    let heap = {
        let mut now = REENTERED.lock().unwrap();
        now.1 += 1;
        now.2 = now.2.max(now.1);
        now.0
    };
    // SAFETY: the test below puts its heap there, which it drops later.
    let heap = unsafe { &*(heap as *const Heap<Fake>) };
    free(heap, fill(heap, 4, MIB));
    REENTERED.lock().unwrap().1 -= 1;
}

#[test]
fn a_callback_that_allocates_more_than_a_step_is_not_called_within_itself() {
    let heap = heap();
    REENTERED.lock().unwrap().0 = &raw const *heap as usize;
    heap.on_pressure(Some(allocate_more_than_a_step));
    heap.set_option(b"memory_limit", b"12M").unwrap();
    let blocks = fill(&heap, 400, 50_000);
    free(&heap, blocks);
    let (_, inside, most) = *REENTERED.lock().unwrap();
    assert_eq!((inside, most), (0, 1));
}

#[test]
fn an_option_set_in_a_handler_inside_a_slow_path_takes_effect_when_that_ends() {
    let heap = heap();
    heap.allocate(1);
    heap.inside(|| {
        heap.set_option(b"hard_limit", b"40M").unwrap();
        heap.set_option(b"cache_limit", b"5M").unwrap();
    });
    let stats = heap.stats();
    assert_eq!((stats.hard_limit, stats.cache_limit), (40 * MIB as u64, 5 * MIB as u64));
}

#[test]
fn a_limit_of_0_is_none_and_a_share_is_one_of_the_cgroup() {
    let heap = heap();
    heap.allocate(1);
    for name in [&b"hard_limit"[..], b"memory_limit"] {
        for zero in [&b"0"[..], b"0%"] {
            heap.set_option(name, zero).unwrap();
            assert_eq!((heap.stats().hard_limit, heap.stats().memory_limit), (0, 0));
        }
    }
    assert!(heap.allocate(10 * MIB) != 0);
    heap.os().group_limit.store(100 * MIB, Relaxed);
    heap.set_option(b"hard_limit", b"50%").unwrap();
    assert_eq!(heap.stats().hard_limit, 50 * MIB as u64);
}

#[test]
fn the_limit_of_the_cgroup_is_known_and_read_again() {
    let heap = heap();
    heap.allocate(1);
    heap.os().group_limit.store(100 * MIB, Relaxed);
    heap.tick(true);
    heap.tick(true);
    assert_eq!(heap.stats().memory_limit, (90 * MIB) as u64);
    heap.os().group_in_use.store(30 * MIB, Relaxed);
    heap.tick(true);
    heap.tick(true);
    let less = heap.stats().memory_limit;
    assert!(less < 61 * MIB as u64 && less > 59 * MIB as u64, "others use 30 MiB of it: {less}");
    heap.os().group_limit.store(0, Relaxed);
    heap.tick(true);
    heap.tick(true);
    assert_eq!(heap.stats().memory_limit, 0);
    heap.os().group_limit.store(100 * MIB, Relaxed);
    heap.set_option(b"memory_limit", b"50%").unwrap();
    assert_eq!(heap.stats().memory_limit, 50 * MIB as u64);
}

#[test]
fn pressure_makes_everything_go_at_once() {
    let heap = heap();
    heap.set_option(b"retain", b"1G").unwrap();
    let blocks = fill(&heap, 3000, 2000);
    free(&heap, blocks);
    heap.os().pressed.store(true, Relaxed);
    heap.tick(true);
    assert!(heap.stats().resident < MIB as u64);
}

#[test]
fn one_thread_does_the_work_on_its_slow_paths_when_the_time_has_come() {
    let heap = heap();
    let blocks = fill(&heap, 3000, 2000);
    free(&heap, blocks);
    let before = heap.stats().ticks;
    for round in 0..6u64 {
        heap.os().clock.store((round + 1) * 250_000_000, Relaxed);
        (0..64).for_each(|_| heap.free(heap.allocate(MIB)));
    }
    assert!(heap.stats().ticks >= before + 5);
    assert!(heap.stats().vcpu_caches < 1000);
}

#[test]
fn dense_warm_blocks_get_huge_pages_a_few_at_a_time_and_sparse_ones_never() {
    let heap = heap();
    let dense = fill(&heap, 40, 2 * MIB);
    quiet_ticks(&heap, 14);
    assert_eq!(heap.os().asked(Request::Collapse), 0, "not while they are new");
    quiet_ticks(&heap, 3);
    assert!((2..=6).contains(&heap.os().asked(Request::Collapse)), "two at a tick");
    quiet_ticks(&heap, 30);
    assert_eq!((heap.os().asked(Request::Collapse), heap.stats().huge), (40, 80 * MIB as u64));
    free(&heap, dense);
    quiet_ticks(&heap, 6);
    assert_eq!(heap.stats().huge, 0);
    let sparse: Vec<_> = (0..40).map(|_| heap.allocate(2 * MIB)).collect();
    quiet_ticks(&heap, 40);
    assert_eq!(heap.os().asked(Request::Collapse), 40, "untouched blocks are not dense");
    free(&heap, sparse);
}

#[test]
fn huge_pages_can_be_switched_off_by_option_and_by_the_system() {
    for by_option in [true, false] {
        let mut os = Fake::default();
        if !by_option {
            os.huge_pages = crate::os::HugePages::Never;
        }
        let heap = Box::new(Heap::new(os));
        if by_option {
            heap.set_option(b"huge_pages", b"off").unwrap();
        }
        fill(&heap, 40, 2 * MIB);
        quiet_ticks(&heap, 40);
        assert_eq!(heap.os().asked(Request::Collapse), 0);
    }
}

#[test]
fn empty_blocks_are_left_out_of_core_files_until_they_are_used_again() {
    let heap = heap();
    let blocks = fill(&heap, 4, 2 * MIB);
    free(&heap, blocks);
    quiet_ticks(&heap, 6);
    let left_out = heap.os().asked(Request::SetDumped);
    assert!(left_out >= 4);
    fill(&heap, 4, 2 * MIB);
    assert_eq!(heap.os().asked(Request::SetDumped), left_out + 4);
}

#[test]
fn the_janitor_is_claimed_once_and_can_be_switched_off() {
    let heap = heap();
    assert!(heap.claim_janitor() && !heap.claim_janitor());
    heap.unclaim_janitor();
    heap.set_option(b"janitor", b"off").unwrap();
    assert!(!heap.claim_janitor());
    assert!(!heap.options.is_on(OptionId::janitor));
}

#[test]
fn the_thread_sleeps_when_all_is_done_wakes_by_a_slow_path_and_ends_when_told() {
    let heap: &'static Heap<Fake> = Box::leak(heap());
    heap.set_option(b"release_delay", b"20ms").unwrap();
    let blocks = fill(heap, 3000, 2000);
    assert!(heap.claim_janitor());
    let thread = std::thread::spawn(|| heap.run_janitor());
    free(heap, blocks);
    let wait = |milliseconds| std::thread::sleep(std::time::Duration::from_millis(milliseconds));
    wait(400);
    let asleep = heap.stats();
    assert!(asleep.resident < MIB as u64);
    wait(200);
    assert_eq!(heap.stats().ticks, asleep.ticks, "no tick while nothing happens");
    free(heap, fill(heap, 3000, 2000));
    wait(400);
    assert!(heap.stats().ticks > asleep.ticks && heap.stats().resident < MIB as u64);
    assert!(heap.stop_janitor());
    thread.join().unwrap();
}
