//! Limits are known and kept, and the program is told.

use super::janitor::{MIB, fill, free, heap};
use crate::class::SizeClass;
use crate::heap::Heap;
use crate::os::fake::{Fake, Request};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

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

#[test]
fn who_passes_the_soft_limit_while_another_thread_gives_back_grows_the_heap_no_further() {
    let heap = heap();
    heap.set_option(b"memory_limit", b"32M").unwrap();
    let (done, most) = (AtomicUsize::new(0), 64);
    let had_meanwhile = std::thread::scope(|scope| {
        heap.upkeep.relieving.hold();
        let grower = || {
            (0..most).for_each(|_| {
                fill(&heap, 1, MIB);
                done.fetch_add(1, Relaxed);
            });
        };
        scope.spawn(grower);
        while done.load(Relaxed) < 31 {
            std::thread::yield_now();
        }
        // Time enough for all it wants.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let had_meanwhile = done.load(Relaxed);
        // SAFETY: held above.
        unsafe { heap.upkeep.relieving.release() };
        had_meanwhile
    });
    assert!(had_meanwhile <= 32, "{had_meanwhile} MiB");
    assert_eq!(done.load(Relaxed), most, "it waits no longer than the other gives back");
}

#[test]
fn caches_keep_what_they_hold_where_idle_pages_make_room_below_the_soft_limit() {
    for (bytes_freed, is_kept) in [(24 * MIB, true), (0, false)] {
        let heap = heap();
        heap.set_option(b"memory_limit", b"32M").unwrap();
        free(&heap, fill(&heap, 40, 64));
        let cached = || heap.cache.cached_blocks(SizeClass::for_small(64));
        assert!(cached() > 0);
        // One block of each span stays.
        let (_stay, rest): (Vec<_>, Vec<_>) =
            fill(&heap, 30 * MIB / 1024, 1024).into_iter().partition(|block| block % (64 << 10) == 0);
        free(&heap, rest.into_iter().take(bytes_freed / 1024));
        fill(&heap, 8 * MIB / 8192, 8192);
        assert_eq!(cached() > 0, is_kept);
    }
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

static STEPS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_step(_: usize, _: usize) {
    STEPS.fetch_add(1, Relaxed);
}

#[test]
fn over_the_soft_limit_the_program_is_told_at_each_step_of_growth_and_anew_after_a_fall() {
    let heap = heap();
    heap.on_pressure(Some(count_step));
    heap.set_option(b"memory_limit", b"128M").unwrap();
    let mut blocks = Vec::new();
    let mut told_in_growth = |count: usize, freed: usize| {
        let before = STEPS.load(Relaxed);
        free(&heap, blocks.split_off(blocks.len() - freed));
        // Freed memory is still in memory until it is given back.
        heap.upkeep.release_idle(&heap.floors);
        blocks.extend((0..count).map(|_| heap.allocate(MIB / 2)));
        STEPS.load(Relaxed) - before
    };
    assert_eq!(told_in_growth(256, 0), 0, "the limit itself is within it");
    // A step is a 64th of what is held, four to five of these blocks.
    assert_eq!(told_in_growth(61, 0), 13);
    assert_eq!(told_in_growth(1, 3), 0, "it fell by less than a step");
    assert_eq!(told_in_growth(1, 5), 1, "now by a step");
    assert_eq!(told_in_growth(56, 111), 0, "below the limit");
    assert_eq!(told_in_growth(1, 0), 1);
}

#[test]
fn over_the_soft_limit_free_memory_goes_by_steps_and_less_often_where_it_brings_little() {
    for (limit, in_steps) in [(&b"24M"[..], 30), (b"0", 0)] {
        let heap = heap();
        heap.set_option(b"retain", b"1G").unwrap();
        let stay = fill(&heap, 32, MIB);
        heap.set_option(b"memory_limit", limit).unwrap();
        let before = heap.os().asked(Request::Release);
        for round in 0..2000usize {
            let sizes = (0..4).map(|number| 100_000 + (round * 7919 + number * 104_729) % 400_000);
            free(&heap, sizes.map(|bytes| heap.allocate(bytes)).collect::<Vec<_>>());
        }
        let asked = heap.os().asked(Request::Release) - before;
        assert!(asked <= in_steps, "{asked} calls in 8000 allocations");
        free(&heap, stay);
    }
}

#[test]
fn the_hard_limit_takes_free_memory_before_it_refuses() {
    let heap = heap();
    heap.set_option(b"retain", b"1G").unwrap();
    free(&heap, fill(&heap, 12, MIB));
    heap.set_option(b"hard_limit", b"16M").unwrap();
    assert_ne!(heap.allocate(14 * MIB), 0);
}

#[test]
fn page_cache_of_the_group_is_not_what_others_hold() {
    let heap = heap();
    let blocks = fill(&heap, 60, MIB);
    heap.os().group_limit.store(100 * MIB, Relaxed);
    heap.os().group_in_use.store(100 * MIB, Relaxed);
    let limit = |cache: usize| {
        heap.os().group_cache.store(cache, Relaxed);
        heap.upkeep.read_limits(&heap.floors).unwrap();
        heap.stats().memory_limit / MIB as u64
    };
    assert_eq!(limit(0), 50);
    assert_eq!(limit(38 * MIB), 88);
    free(&heap, blocks);
}

#[test]
fn blocks_that_nobody_has_written_do_not_pass_the_soft_limit() {
    let heap = heap();
    heap.on_pressure(Some(count_untouched));
    heap.set_option(b"retain", b"1G").unwrap();
    heap.os().own_memory.store(20 * MIB, Relaxed);
    let mut blocks = fill(&heap, 50, MIB);
    heap.set_option(b"memory_limit", b"40M").unwrap();
    let given_back = || heap.os().asked(Request::Release);
    let before = given_back();
    free(&heap, blocks.split_off(40));
    blocks.extend(fill(&heap, 15, MIB));
    assert_eq!((given_back(), UNTOUCHED.load(Relaxed)), (before, 0), "half of it is not in memory");
    let told_with = |in_memory: usize| {
        heap.os().own_memory.store(in_memory, Relaxed);
        heap.upkeep.read_limits(&heap.floors).unwrap();
        heap.call_back_if_due();
        UNTOUCHED.load(Relaxed)
    };
    assert_eq!(told_with(60 * MIB), 1, "now somebody has written them");
    assert_eq!(told_with(20 * MIB), 1);
    blocks.extend(fill(&heap, 1, 30 * MIB));
    assert_eq!(UNTOUCHED.load(Relaxed), 2, "a new block counts: somebody is about to write it");
    free(&heap, blocks);
}

static UNTOUCHED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_untouched(_: usize, _: usize) {
    UNTOUCHED.fetch_add(1, Relaxed);
}

#[test]
fn what_was_read_of_the_group_holds_where_it_may_not_be_read_again() {
    let heap = heap();
    heap.os().group_limit.store(100 * MIB, Relaxed);
    heap.set_option(b"system_calls", b"few").unwrap();
    assert_eq!(heap.stats().memory_limit, 90 * MIB as u64, "learnt before it was forgone");
    fill(&heap, 20, MIB);
    heap.os().group_limit.store(10 * MIB, Relaxed);
    (0..4).for_each(|_| heap.tick(true));
    heap.set_option(b"hard_limit", b"50%").unwrap();
    assert_eq!((heap.stats().memory_limit, heap.stats().hard_limit), (90 * MIB as u64, 50 * MIB as u64));
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

static WAITING_CALLS: AtomicUsize = AtomicUsize::new(0);
static MAY_RETURN: AtomicBool = AtomicBool::new(false);

extern "C" fn wait_in_the_first_call(_: usize, _: usize) {
    if WAITING_CALLS.fetch_add(1, Relaxed) == 0 {
        while !MAY_RETURN.load(Relaxed) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_child_calls_back_although_a_thread_of_its_parent_was_in_the_function_when_it_was_forked() {
    let heap = heap();
    heap.on_pressure(Some(wait_in_the_first_call));
    heap.set_option(b"memory_limit", b"8M").unwrap();
    let calls = std::thread::scope(|scope| {
        let other = scope.spawn(|| fill(&heap, 12, MIB));
        while WAITING_CALLS.load(Relaxed) == 0 && !other.is_finished() {
            std::thread::yield_now();
        }
        let calls_after_growth = || {
            fill(&heap, 4, MIB);
            WAITING_CALLS.load(Relaxed)
        };
        let in_parent = calls_after_growth();
        heap.upkeep.forget_threads(heap.pages.clock.load());
        let in_child = calls_after_growth();
        MAY_RETURN.store(true, Relaxed);
        [in_parent, in_child]
    });
    assert!(calls[0] == 1 && calls[1] > 1, "{calls:?}");
}

#[test]
fn an_option_set_in_a_handler_inside_a_slow_path_takes_effect_when_that_ends() {
    let heap = heap();
    heap.allocate(1);
    heap.inside(|_| {
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
    // At every second tick.
    let read_again = || (0..2).for_each(|_| heap.tick(true));
    heap.os().group_limit.store(100 * MIB, Relaxed);
    read_again();
    assert_eq!(heap.stats().memory_limit, (90 * MIB) as u64);
    heap.os().group_in_use.store(30 * MIB, Relaxed);
    read_again();
    let less = heap.stats().memory_limit;
    assert!(less < 61 * MIB as u64 && less > 59 * MIB as u64, "others use 30 MiB of it: {less}");
    heap.os().group_in_use.store(100 * MIB, Relaxed);
    read_again();
    assert_eq!(heap.stats().memory_limit, (45 * MIB) as u64, "half is ours whatever others hold");
    heap.os().group_limit.store(0, Relaxed);
    read_again();
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
    // It is looked for at every second tick.
    (0..2).for_each(|_| heap.tick(true));
    assert!(heap.stats().resident < MIB as u64);
}

#[test]
fn what_relief_gives_back_is_counted_in_spans_and_beside_them() {
    let heap = heap();
    let (stay, mut go): (Vec<_>, Vec<_>) =
        fill(&heap, 8 << 10, 1024).into_iter().partition(|block| block / 1024 % 64 == 0);
    go.extend(fill(&heap, 3, MIB));
    free(&heap, go);
    let before = heap.pages.footprint();
    let given = heap.upkeep.relieve(&heap.floors).unwrap();
    assert_eq!((heap.pages.footprint() + given, heap.stats().given_back), (before, given as u64));
    assert!(heap.stats().released > MIB as u64 && given > 4 * MIB);
    free(&heap, stay);
}

#[test]
fn the_limit_of_the_cgroup_is_known_before_the_first_tick_once_the_heap_is_no_longer_small() {
    let heap = heap();
    heap.os().group_limit.store(100 * MIB, Relaxed);
    let mut blocks = fill(&heap, 3, MIB);
    assert_eq!(heap.stats().memory_limit, 0, "small heaps do not ask");
    blocks.extend(fill(&heap, 9, MIB));
    assert_eq!(heap.stats().memory_limit, (90 * MIB) as u64);
    heap.os().group_limit.store(50 * MIB, Relaxed);
    blocks.extend(fill(&heap, 9, MIB));
    assert_eq!(heap.stats().memory_limit, (90 * MIB) as u64, "until a tick reads it again");
    free(&heap, blocks);
}

static IN_HANDLER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_in_handler(_: usize, _: usize) {
    IN_HANDLER.fetch_add(1, Relaxed);
}

#[test]
fn a_handler_that_interrupted_a_slow_path_leaves_the_function_to_the_slow_path_after_it() {
    let heap = heap();
    heap.on_pressure(Some(count_in_handler));
    let blocks = fill(&heap, 8, MIB);
    let limit = heap.pages.footprint() - 1;
    heap.set_option(b"memory_limit", limit.to_string().as_bytes()).unwrap();
    heap.upkeep.read_limits(&heap.floors).unwrap();
    heap.inside_for_test(|| {
        assert_ne!(heap.allocate(2 * MIB), 0);
        assert_eq!(IN_HANDLER.load(Relaxed), 0, "a lock of the heap may be held");
    });
    free(&heap, fill(&heap, 1, 2 * MIB));
    assert_eq!(IN_HANDLER.load(Relaxed), 1);
    free(&heap, blocks);
}

static READ: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_read(_: usize, _: usize) {
    READ.fetch_add(1, Relaxed);
}

#[test]
fn a_limit_that_falls_to_what_is_held_is_not_passed() {
    let heap = heap();
    heap.on_pressure(Some(count_read));
    fill(&heap, 8, MIB);
    let told_at = |limit: usize| {
        heap.set_option(b"memory_limit", limit.to_string().as_bytes()).unwrap();
        heap.upkeep.read_limits(&heap.floors).unwrap();
        heap.call_back_if_due();
        READ.load(Relaxed)
    };
    let held = heap.pages.footprint();
    assert_eq!([held, held - 1].map(told_at), [0, 1]);
}

#[test]
fn a_limit_that_falls_below_what_is_held_takes_effect_when_it_is_read() {
    for (limit, is_held) in [(100 * MIB, true), (40 * MIB, false)] {
        let heap = heap();
        heap.set_option(b"retain", b"1G").unwrap();
        let blocks = fill(&heap, 60, MIB);
        free(&heap, blocks);
        heap.os().group_limit.store(limit, Relaxed);
        (0..2).for_each(|_| heap.tick(true));
        assert_eq!(heap.stats().resident > 50 * MIB as u64, is_held, "{limit}");
    }
}
