//! Ends of heaps: all blocks freed, handed over, or waited for.

use super::*;
use crate::class::SizeClass;
use crate::tenants::{CLOSING, LEFT};

#[test]
fn all_blocks_go_with_their_heap_and_the_pages_are_free_again() {
    let heap = heap();
    let kept = heap.allocate(1000);
    let before = used(&heap);
    let id = heap.make_heap(PLAIN).unwrap();
    for step in 0..30_000 {
        fill(heap.allocate_in(id, 16, step * 61 % 3000 + 1).unwrap(), 1, 1);
    }
    heap.allocate_in(id, 16, 9 << 20).unwrap();
    assert!(used(&heap) > before + (40 << 20));
    assert_eq!(heap.end_heap(id, Ending::FreeAll), Ok(()));
    assert_eq!(used(&heap), before);
    heap.verify();
    // The memory serves others, and nobody is told of blocks that are gone.
    let blocks: Vec<usize> = (0..20_000).map(|step| heap.allocate(step % 2000 + 1)).collect();
    blocks.into_iter().chain([kept]).for_each(|block| heap.free(block));
    heap.verify();
}

/// A heap of more spans than a call closes, in a process that has a janitor, after its end.
fn left(heap: &Heap<Fake>, parent: HeapId) -> usize {
    let id = heap.make_heap(Made { parent, ..PLAIN }).unwrap();
    let block = heap.allocate_in(id, 16, 300 << 10).unwrap();
    (0..2500).for_each(|_| _ = heap.allocate_in(id, 16, 300 << 10).unwrap());
    (0..5000).for_each(|step| _ = heap.allocate_in(id, 16, step % 900 + 1).unwrap());
    assert!(heap.claim_janitor());
    assert_eq!(heap.end_heap(id, Ending::FreeAll), Ok(()));
    assert!(heap.heap_stats(id).is_none());
    block
}

#[test]
fn the_call_that_ends_a_large_heap_leaves_spans_to_the_janitor_and_none_of_them_is_the_parents() {
    let heap = heap();
    let outer = heap.make_heap(Made { limit: Some(900 << 20), ..PLAIN }).unwrap();
    let before = used(&heap);
    left(&heap, outer);
    assert!(used(&heap) > before, "not all are closed in the call");
    let stats = heap.heap_stats(outer).unwrap();
    assert_eq!((stats.bytes, stats.children), (0, 0));
    assert!(heap.allocate_in(outer, 16, 890 << 20).is_ok(), "its limit counts what is gone as gone");
    heap.verify();
    assert_eq!(heap.end_heap(outer, Ending::FreeAll), Ok(()), "nothing is below it");
    let mut count = 0;
    heap.each_heap(|_| count += 1);
    assert_eq!(count, 0);
    while heap.upkeep.close_ended(&heap.floors) {}
    assert_eq!(used(&heap), before);
    heap.verify();
}

#[test]
fn a_process_without_a_janitor_closes_all_spans_of_a_heap_in_the_call() {
    let heap = heap();
    let before = used(&heap);
    let id = heap.make_heap(PLAIN).unwrap();
    (0..2500).for_each(|_| _ = heap.allocate_in(id, 16, 300 << 10).unwrap());
    assert_eq!(heap.end_heap(id, Ending::FreeAll), Ok(()));
    assert_eq!(used(&heap), before);
    heap.verify();
}

#[test]
fn a_heap_that_is_reset_has_nothing_and_goes_on() {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    (0..5000).for_each(|step| _ = heap.allocate_in(id, 16, step % 900 + 1).unwrap());
    assert_eq!(heap.reset_heap(id), Ok(()));
    let stats = heap.heap_stats(id).unwrap();
    assert_eq!((stats.live, stats.live_blocks, stats.bytes), (0, 0, 0));
    let block = heap.allocate_in(id, 16, 50).unwrap();
    heap.verify();
    heap.free(block);
}

#[test]
fn blocks_that_are_handed_over_are_the_parents_or_the_process_own() {
    for has_parent in [false, true] {
        let heap = heap();
        let parent = if has_parent { heap.make_heap(PLAIN).unwrap() } else { HeapId::OWN };
        let id = heap.make_heap(Made { parent, ..PLAIN }).unwrap();
        let mut blocks: Vec<usize> =
            (0..4000).map(|step| heap.allocate_in(id, 16, step * 7 % 5000 + 1).unwrap()).collect();
        blocks.push(heap.allocate_in(id, 16, 1 << 20).unwrap());
        blocks.iter().for_each(|block| fill(*block, 1, 9));
        let live = heap.heap_stats(id).unwrap().live;
        assert_eq!(heap.end_heap(id, Ending::HandOver), Ok(()));
        heap.verify();
        assert!(blocks.iter().all(|block| holds(*block, 1, 9)));
        let owner = has_parent.then_some(parent);
        assert!(blocks.iter().all(|block| heap.owner_heap(*block) == owner));
        match owner {
            Some(parent) => assert_eq!(heap.heap_stats(parent).unwrap().live, live),
            None => assert_eq!(heap.stats().live, live),
        }
        blocks.into_iter().for_each(|block| heap.free(block));
        heap.verify();
        assert_eq!(heap.stats().live, 0);
    }
}

#[test]
fn blocks_are_freed_while_they_are_handed_to_a_parent() {
    let heap = real();
    for _ in 0..60 {
        let parent = heap.make_heap(PLAIN).unwrap();
        let id = heap.make_heap(Made { parent, ..PLAIN }).unwrap();
        let sizes = (0..900).map(|step| if step % 9 == 0 { 300 << 10 } else { step * 7 % 5000 + 1 });
        let blocks: Vec<usize> = sizes.map(|bytes| heap.allocate_in(id, 16, bytes).unwrap()).collect();
        thread::scope(|scope| {
            scope.spawn(|| heap.end_heap(id, Ending::HandOver).unwrap());
            scope.spawn(|| blocks.iter().for_each(|block| Blocks::free(&*heap, *block)));
        });
        heap.verify();
        assert_eq!(heap.heap_stats(parent).unwrap().live_blocks, 0);
        heap.end_heap(parent, Ending::FreeAll).unwrap();
        heap.verify();
    }
    assert_eq!(heap.stats().live, 0);
}

#[test]
fn blocks_are_freed_while_they_are_handed_to_the_process() {
    let heap = real();
    for _ in 0..60 {
        let id = heap.make_heap(PLAIN).unwrap();
        let sizes = (0..900).map(|step| if step % 9 == 0 { 300 << 10 } else { step * 7 % 5000 + 1 });
        let blocks: Vec<usize> = sizes.map(|bytes| heap.allocate_in(id, 16, bytes).unwrap()).collect();
        thread::scope(|scope| {
            scope.spawn(|| heap.end_heap(id, Ending::HandOver).unwrap());
            scope.spawn(|| {
                for (index, block) in blocks.iter().enumerate() {
                    let grown = if index % 2 == 0 { Blocks::reallocate(&*heap, *block, 700) } else { *block };
                    assert!(grown != 0 && heap.usable_bytes(grown) != 0);
                    Blocks::free(&*heap, grown);
                }
            });
        });
        heap.verify();
    }
    assert_eq!(heap.stats().live, 0);
}

#[test]
fn a_heap_that_drains_goes_also_if_the_last_thread_in_it_is_refused() {
    let heap = real();
    for _ in 0..200 {
        let id = heap.make_heap(Made { limit: Some(4 << 20), ..PLAIN }).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| (0..6).for_each(|_| _ = heap.allocate_in(id, 16, 5 << 20)));
            scope.spawn(|| heap.end_heap(id, Ending::Drain).unwrap());
        });
        assert!(heap.heap_stats(id).is_none());
    }
    heap.verify();
}

#[test]
fn a_heap_that_drains_gives_nothing_and_goes_with_its_last_block() {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    let blocks = [10, 5000, 1 << 20].map(|bytes| heap.allocate_in(id, 16, bytes).unwrap());
    assert_eq!(heap.end_heap(id, Ending::Drain), Ok(()));
    assert_eq!(heap.allocate_in(id, 16, 1), Err(Refusal::Gone));
    assert_eq!(heap.end_heap(id, Ending::Drain), Err(Refusal::Gone));
    assert_eq!(heap.reallocate(blocks[0], 2000), 0, "nor does it grow one");
    for (index, block) in blocks.into_iter().enumerate() {
        let stats = heap.heap_stats(id).expect("it is there as long as a block is");
        assert_eq!((stats.live_blocks, stats.is_draining), (3 - index as u64, true));
        heap.free(block);
    }
    assert!(heap.heap_stats(id).is_none());
    heap.verify();
    let (empty, forced) = (heap.make_heap(PLAIN).unwrap(), heap.make_heap(PLAIN).unwrap());
    assert_eq!(heap.end_heap(empty, Ending::Drain), Ok(()));
    assert!(heap.heap_stats(empty).is_none(), "there is nothing to wait for");
    heap.allocate_in(forced, 16, 100).unwrap();
    assert_eq!(heap.end_heap(forced, Ending::Drain), Ok(()));
    assert_eq!(heap.end_heap(forced, Ending::FreeAll), Ok(()), "nor does its owner have to");
    heap.verify();
}

#[test]
fn each_of_a_hundred_blocks_that_outlive_their_heap_is_found_and_its_late_free_counted() {
    let heap = heap();
    let id = heap.make_heap(PLAIN).unwrap();
    let blocks: Vec<usize> =
        (0..5000).map(|step| heap.allocate_in(id, 16, step * 37 % 9000 + 1).unwrap()).collect();
    let late: Vec<usize> = blocks.iter().copied().step_by(50).collect();
    blocks.iter().filter(|block| !late.contains(block)).for_each(|block| heap.free(*block));
    assert_eq!(heap.end_heap(id, Ending::Drain), Ok(()));
    let mut found = Vec::new();
    heap.each_block_of(id, |block, _| found.push(block));
    found.sort_unstable();
    let mut sorted = late.clone();
    sorted.sort_unstable();
    assert_eq!((found.len(), &found), (100, &sorted));
    for (freed, block) in late.into_iter().enumerate() {
        assert_eq!(heap.heap_stats(id).unwrap().live_blocks, 100 - freed as u64);
        heap.free(block);
    }
    assert!(heap.heap_stats(id).is_none());
    heap.verify();
}

#[test]
fn a_heap_with_others_below_it_does_not_end() {
    let heap = heap();
    let outer = heap.make_heap(PLAIN).unwrap();
    let inner = heap.make_heap(Made { parent: outer, ..PLAIN }).unwrap();
    for how in [Ending::FreeAll, Ending::HandOver, Ending::Drain] {
        assert_eq!(heap.end_heap(outer, how), Err(Refusal::HasChildren));
    }
    heap.end_heap(inner, Ending::FreeAll).unwrap();
    assert_eq!(heap.end_heap(outer, Ending::FreeAll), Ok(()));
    assert_eq!(heap.make_heap(Made { parent: outer, ..PLAIN }), Err(Refusal::Gone));
}

#[test]
#[should_panic]
fn a_block_that_is_freed_after_its_heap_is_found() {
    let mut os = Fake::default();
    os.panics = true;
    let heap = Box::new(Heap::new(os));
    let id = heap.make_heap(PLAIN).unwrap();
    let block = heap.allocate_in(id, 16, 100).unwrap();
    heap.end_heap(id, Ending::FreeAll).unwrap();
    heap.free(block);
}

#[test]
#[should_panic(expected = "the process was ended")]
fn a_block_that_is_freed_after_its_heap_is_found_while_its_span_waits_to_be_closed() {
    let mut os = Fake::default();
    os.panics = true;
    let heap = Box::new(Heap::new(os));
    // The first block's span is the last one in the list of large blocks.
    let block = left(&heap, HeapId::OWN);
    assert!(heap.upkeep.has_ended(&heap.floors) && heap.owns(block));
    heap.free(block);
}

#[test]
fn memory_of_a_heap_that_waits_to_be_closed_serves_who_would_be_refused() {
    let heap = heap();
    heap.set_option(b"hard_limit", b"1G").unwrap();
    left(&heap, HeapId::OWN);
    assert!(heap.upkeep.has_ended(&heap.floors));
    let block = heap.allocate(900 << 20);
    assert_ne!(block, 0);
    heap.free(block);
    heap.verify();
}

#[test]
#[should_panic(expected = "the process was ended")]
fn a_block_that_is_resized_after_its_heap_is_found_while_its_span_waits_to_be_closed() {
    let mut os = Fake::default();
    os.panics = true;
    let heap = Box::new(Heap::new(os));
    let block = left(&heap, HeapId::OWN);
    heap.reallocate(block, 100);
}

#[test]
fn memory_of_heaps_that_end_goes_at_once_and_makes_no_tick_come_earlier() {
    let heap = real();
    assert!(heap.claim_janitor());
    thread::scope(|scope| {
        scope.spawn(|| heap.run_janitor(false));
        let before = heap.upkeep.done().ticks;
        let resident = || heap.pages.dirty_free_bytes();
        for _ in 0..20 {
            let id = heap.make_heap(PLAIN).unwrap();
            for _ in 0..40 {
                fill(heap.allocate_in(id, 16, 256 << 10).unwrap(), 256 << 10, 7);
            }
            heap.end_heap(id, Ending::FreeAll).unwrap();
        }
        let is_gone = || resident() < 8 << 20 || heap.is_patient();
        let waited = (0..400).find(|_| {
            thread::sleep(std::time::Duration::from_millis(5));
            is_gone()
        });
        let (left, ticks) = (resident(), heap.upkeep.done().ticks - before);
        // First: the scope waits for it.
        heap.stop_janitor();
        assert!(waited.is_some(), "{left} bytes are free and in memory");
        assert!(ticks <= 9, "{ticks} ticks");
    });
    heap.verify();
}

#[test]
fn a_child_counts_the_heaps_below_another_anew() {
    let heap = heap();
    let outer = heap.make_heap(PLAIN).unwrap();
    let inner = heap.make_heap(Made { parent: outer, ..PLAIN }).unwrap();
    // A thread that stayed behind had taken one from the count, and not from the table.
    heap.tenants.tenant(outer.number()).unwrap().children.store(0, Ordering::Relaxed);
    // SAFETY: no other thread uses the heap.
    unsafe { heap.repair_for_test() };
    assert_eq!(heap.end_heap(outer, Ending::FreeAll), Err(Refusal::HasChildren));
    heap.end_heap(inner, Ending::FreeAll).unwrap();
    assert_eq!(heap.end_heap(outer, Ending::FreeAll), Ok(()));
}

#[test]
fn a_child_closes_what_a_thread_that_stayed_behind_was_closing() {
    let heap = heap();
    let before = used(&heap);
    left(&heap, HeapId::OWN);
    // The janitor of the parent had taken it.
    let taken = heap.tenants.all().find(|(_, tenant)| tenant.state.load(Ordering::Relaxed) == LEFT).unwrap();
    taken.1.state.store(CLOSING, Ordering::Relaxed);
    assert!(!heap.upkeep.close_ended(&heap.floors));
    // SAFETY: no other thread uses the heap.
    unsafe { heap.repair_for_test() };
    while heap.upkeep.close_ended(&heap.floors) {}
    assert!(!heap.upkeep.has_ended(&heap.floors));
    assert_eq!(used(&heap), before);
    heap.verify();
}

#[test]
fn memory_of_blocks_that_are_freed_just_before_their_heap_ends_is_to_go_at_once() {
    let heap = heap();
    assert!(heap.claim_janitor());
    for how in [Ending::FreeAll, Ending::Drain, Ending::HandOver] {
        let id = heap.make_heap(PLAIN).unwrap();
        let blocks: Vec<usize> = (0..6000).map(|_| heap.allocate_in(id, 16, 4000).unwrap()).collect();
        blocks.into_iter().for_each(|block| heap.free(block));
        heap.end_heap(id, how).unwrap();
        assert_eq!(heap.upkeep.has_ended(&heap.floors), how != Ending::HandOver);
        heap.upkeep.close_ended(&heap.floors);
    }
    let id = heap.make_heap(PLAIN).unwrap();
    let blocks: Vec<usize> = (0..6000).map(|_| heap.allocate_in(id, 16, 4000).unwrap()).collect();
    blocks.into_iter().for_each(|block| heap.free(block));
    (0..4).for_each(|_| heap.tick(true));
    heap.end_heap(id, Ending::FreeAll).unwrap();
    assert!(!heap.upkeep.has_ended(&heap.floors), "that was long ago");
    heap.verify();
}

#[test]
fn a_small_heap_without_a_delay_gives_its_memory_back_when_it_ends() {
    let heap = real();
    for (delay, goes) in [(None, false), (Some(0), true), (Some(60_000_000_000), false)] {
        let id = heap.make_heap(PLAIN).unwrap();
        heap.set_heap_delay(id, delay).unwrap();
        (0..60).for_each(|_| fill(heap.allocate_in(id, 16, 32 << 10).unwrap(), 32 << 10, 7));
        heap.end_heap(id, Ending::FreeAll).unwrap();
        assert_eq!(heap.pages.dirty_free_bytes() < 1 << 20, goes, "{delay:?}");
    }
}

#[test]
fn a_heap_whose_parent_can_have_no_lists_for_its_blocks_is_not_handed_over_and_stays() {
    for drains in [false, true] {
        let heap = heap();
        let parent = heap.make_heap(PLAIN).unwrap();
        let id = heap.make_heap(Made { parent, ..PLAIN }).unwrap();
        let blocks = [40, 3000].map(|bytes| heap.allocate_in(id, 16, bytes).unwrap());
        if drains {
            heap.end_heap(id, Ending::Drain).unwrap();
        }
        // Others use what the table of lists has memory for, each all classes.
        let (mut other, mut classes) = (id, Vec::new());
        while (heap.tenants.registry.lock().lists as usize + 1) < heap.tenants.lists.usable() {
            match classes.pop() {
                Some(class) => _ = heap.allocate_in(other, 16, SizeClass::block_bytes(class)).unwrap(),
                None => (other, classes) = (heap.make_heap(PLAIN).unwrap(), SizeClass::all().collect()),
            }
        }
        heap.os().refuse_after(Request::Commit, 0);
        assert_eq!(heap.end_heap(id, Ending::HandOver), Err(Refusal::Memory));
        assert!(blocks.iter().all(|block| heap.owner_heap(*block) == Some(id)));
        assert_eq!(heap.heap_stats(id).unwrap().is_draining, drains);
        assert_eq!(heap.allocate_in(id, 16, 40).is_ok(), !drains);
        heap.os().grant(Request::Commit);
        heap.verify();
        heap.end_heap(id, Ending::HandOver).unwrap();
        assert!(blocks.iter().all(|block| heap.owner_heap(*block) == Some(parent)));
        blocks.into_iter().for_each(|block| heap.free(block));
        heap.verify();
    }
}

#[test]
fn an_entry_that_had_as_many_heaps_as_there_are_names_gets_no_other() {
    let heap = heap();
    let first = heap.make_heap(PLAIN).unwrap();
    heap.end_heap(first, Ending::FreeAll).unwrap();
    let entry = heap.tenants.tenant(first.number()).unwrap();
    entry.generation.store(u32::MAX - 1, Ordering::Relaxed);
    let last = heap.make_heap(PLAIN).unwrap();
    assert_eq!((last.number(), last.generation()), (first.number(), u32::MAX));
    heap.end_heap(last, Ending::FreeAll).unwrap();
    for _ in 0..2 {
        let next = heap.make_heap(PLAIN).unwrap();
        assert_ne!(next.number(), first.number(), "its first name would be good again");
        assert!(!heap.is_heap(first) && !heap.is_heap(last));
        heap.end_heap(next, Ending::FreeAll).unwrap();
        // SAFETY: no other thread is left.
        unsafe { heap.repair_for_test() };
    }
}

/// The time that a thread has had a CPU, in nanoseconds.
fn used_cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is the caller's.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
fn the_end_of_a_heap_leaves_the_cpu_to_the_thread_that_it_waits_for() {
    let heap = real();
    let id = heap.make_heap(PLAIN).unwrap();
    let block = heap.allocate_in(id, 16, 40).unwrap();
    let tenant = heap.tenants.find(id).unwrap();
    // A thread opens a span for it, and has no CPU.
    tenant.rooms.lock().opening += 1;
    thread::scope(|scope| {
        let end = scope.spawn(|| {
            let before = used_cpu();
            heap.end_heap(id, Ending::FreeAll).unwrap();
            used_cpu() - before
        });
        thread::sleep(std::time::Duration::from_millis(400));
        tenant.rooms.lock().opening -= 1;
        let used = end.join().unwrap();
        assert!(used < 200_000_000, "{used} ns of 400 ms");
    });
    assert_eq!(heap.owner_heap(block), None);
    heap.verify();
}
