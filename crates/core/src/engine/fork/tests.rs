use crate::base::locks::Rank;
use crate::heap::{Heap, HeapId, Made};
use crate::os::fake::Fake;
use crate::os::{Linux, Os};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::thread;

fn heap_in_use() -> (Box<Heap<Fake>>, Vec<usize>) {
    let heap = Box::new(Heap::new(Fake::default()));
    let mut blocks: Vec<usize> = (0..4000).map(|i| heap.allocate(i * 37 % 9000 + 1)).collect();
    blocks.push(heap.allocate(5 << 20));
    let made = Made { name: b"tenant", parent: HeapId::OWN, limit: None, on_limit: None, argument: 0 };
    let outer = heap.make_heap(made).unwrap();
    let inner = heap.make_heap(Made { parent: outer, ..made }).unwrap();
    for (index, id) in [outer, inner].into_iter().cycle().take(600).enumerate() {
        blocks.push(heap.allocate_in(id, 16, index * 53 % 9000 + 1).unwrap());
    }
    blocks.push(heap.allocate_in(inner, 16, 3 << 20).unwrap());
    for index in (0..blocks.len()).rev().filter(|index| index % 3 == 0).collect::<Vec<_>>() {
        heap.free(blocks.swap_remove(index));
    }
    (heap, blocks)
}

/// Does what a child must be able to do at once, with all it got from its parent.
fn works(heap: &Heap<Fake>, blocks: Vec<usize>) {
    heap.verify();
    let known: BTreeSet<usize> = blocks.iter().copied().collect();
    let fresh: Vec<usize> = (0..3000).map(|i| heap.allocate(i * 91 % 20_000 + 1)).collect();
    assert!(fresh.iter().all(|block| *block != 0 && !known.contains(block)), "a block is had once");
    fresh.into_iter().chain(blocks).for_each(|block| heap.free(block));
    heap.release(0);
    heap.upkeep.relieve_if_grown(&heap.floors).unwrap();
    heap.verify();
    assert_eq!((heap.stats().live, heap.stats().cache_room), (0, 0));
}

/// Lets a thread take all locks, as one that forks does, and end with them.
fn die_with_all_locks(heap: &Heap<Fake>) {
    thread::scope(|scope| scope.spawn(|| heap.hold_for_test()).join()).unwrap();
}

#[test]
fn locks_of_threads_that_are_gone_are_taken_over() {
    let (heap, blocks) = heap_in_use();
    die_with_all_locks(&heap);
    // SAFETY: the threads that held the locks are gone.
    unsafe { heap.engine.repair(&*heap, true) };
    works(&heap, blocks);
}

#[test]
fn each_lock_of_the_list_is_the_heaps_and_free_in_a_child_whose_parent_held_it_alone() {
    for rank in Rank::ALL {
        let (heap, blocks) = heap_in_use();
        let mut locks = 0;
        let hold = || {
            heap.each_lock(rank, &mut |lock| {
                lock.hold();
                locks += 1;
            });
        };
        thread::scope(|scope| scope.spawn(hold).join()).unwrap();
        assert_ne!(locks, 0, "Heap::each_lock knows no lock of rank {rank:?}");
        // SAFETY: the thread that held the locks is gone.
        unsafe { heap.engine.repair(&*heap, true) };
        heap.each_lock(rank, &mut |lock| assert!(!lock.is_held(), "{rank:?} is held by nobody"));
        works(&heap, blocks);
    }
}

#[test]
fn a_child_in_the_memory_of_another_is_no_new_process() {
    let heap = Box::new(Heap::new(Fake::default()));
    assert!(!heap.is_guest(), "before the heap has started");
    heap.free(heap.allocate(100));
    assert!(!heap.is_guest());
    // The heap of a process with another number, whose word is as it was.
    let own = heap.process.number.swap(1, Ordering::Relaxed);
    assert!(own > 1 && heap.is_guest());
    heap.process.set(super::NEW);
    assert!(!heap.is_guest(), "a child with a copy");
    heap.free(heap.allocate(100_000));
    assert!(!heap.is_guest() && heap.process.number.load(Ordering::Relaxed) == own);
}

#[test]
fn what_the_library_does_once_is_done_in_a_child_whose_parent_was_at_it() {
    let (heap, blocks) = heap_in_use();
    thread::scope(|scope| scope.spawn(|| heap.exporting.hold()).join()).unwrap();
    heap.process.set(super::NEW);
    assert_eq!(heap.export(|| 7), 7);
    works(&heap, blocks);
}

#[test]
fn the_first_slow_path_of_a_new_process_repairs_the_heap_once() {
    let (heap, blocks) = heap_in_use();
    die_with_all_locks(&heap);
    heap.process.set(super::NEW);
    assert_ne!(heap.allocate(1 << 20), 0);
    assert!(heap.process.is_known());
    heap.free(heap.allocate(3 << 20));
    drop((heap, blocks));
}

#[test]
fn work_that_a_handler_interrupted_keeps_its_locks_in_the_child() {
    let (heap, blocks) = heap_in_use();
    // This thread is in a slow path and forks in a handler there; another thread holds everything else.
    let entry = heap.enter_for_test();
    heap.starting.hold();
    thread::scope(|scope| scope.spawn(|| heap.pages.each_lock(&mut |lock| lock.hold())).join()).unwrap();
    heap.process.set(super::NEW);
    heap.after_fork_in_child();
    assert!(heap.process.is_known(), "the interrupted work must not find locks of threads that are gone");
    assert!(heap.starting.try_lock().is_none(), "it still holds what it held");
    assert!(heap.enter_for_test().is_none(), "and is still known to be under way");
    // SAFETY: held since `hold` above.
    unsafe { heap.starting.release() };
    drop(entry);
    works(&heap, blocks);
}

/// libc gives the stack of a thread that is gone to a new one, and with it that thread's number and mark, but not the word
/// that says where it is; and it makes threads (for timers, say) that nobody announces to us.
#[test]
fn a_new_thread_with_the_number_of_one_that_is_gone_has_none_of_its_locks() {
    let (heap, blocks) = heap_in_use();
    // The locks that the gone thread left behind.
    heap.hold_for_test();
    heap.process.set(super::NEW);
    Fake::inside().store(0, Ordering::Relaxed);
    let block = heap.allocate(1 << 20);
    assert!(heap.process.is_known() && heap.stats().large_blocks > 0, "it is served by the heap");
    heap.free(block);
    works(&heap, blocks);
}

#[test]
fn a_child_that_does_not_use_the_heap_does_not_pay_for_it() {
    let (heap, blocks) = heap_in_use();
    die_with_all_locks(&heap);
    heap.process.set(super::NEW);
    heap.after_fork_in_child();
    assert!(!heap.process.is_known());
    assert_ne!(heap.allocate(1 << 20), 0);
    assert!(heap.process.is_known());
    drop(blocks);
}

#[test]
fn without_a_word_that_the_system_zeroes_the_number_of_the_process_tells() {
    let (heap, blocks) = heap_in_use();
    let kernel = heap.process.address();
    heap.process.word.store(heap.process.own.as_ptr().expose_provenance(), Ordering::Relaxed);
    heap.process.number.store(heap.os.process_number(), Ordering::Relaxed);
    heap.look_at_process();
    assert!(heap.process.is_known() && heap.process.address() == 0);
    die_with_all_locks(&heap);
    // As in a child: the number that is known is another's.
    heap.process.number.store(heap.os.process_number() + 1, Ordering::Relaxed);
    heap.after_fork_in_child();
    assert!(!heap.process.is_known());
    heap.look_at_process();
    assert!(heap.process.is_known());
    works(&heap, blocks);
    heap.os.unmap(kernel, heap.os.page_bytes());
}

#[test]
fn a_child_whose_word_the_system_only_said_it_would_zero_is_known_by_its_number() {
    let (heap, blocks) = heap_in_use();
    heap.look_at_process();
    let number = heap.os.process_number();
    heap.after_fork_in_child();
    assert!(heap.process.is_known(), "the process that it was");
    die_with_all_locks(&heap);
    heap.process.number.store(number + 1, Ordering::Relaxed);
    heap.process.look_for_fork(&heap.os);
    assert!(heap.process.is_known(), "one that is about to make a thread may share the memory");
    heap.after_fork_in_child();
    assert!(!heap.process.is_known());
    heap.look_at_process();
    works(&heap, blocks);
}

#[test]
fn a_child_that_was_put_right_before_the_handler_runs_is_not_put_right_again() {
    let (heap, _blocks) = heap_in_use();
    heap.process.number.store(heap.os.process_number() + 1, Ordering::Relaxed);
    heap.process.set(super::NEW);
    heap.look_at_process();
    heap.after_fork_in_child();
    assert!(heap.process.is_known());
}

#[test]
fn threads_that_waited_for_a_lock_in_the_parent_do_not_matter() {
    let (heap, blocks) = heap_in_use();
    // A lock that is free, with a waiter that was woken and one that was not: neither is in this process.
    heap.starting.leave_as_with_waiters_that_are_gone();
    heap.process.set(super::NEW);
    heap.look_at_process();
    let turns = &std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            let heap = &heap;
            scope.spawn(move || {
                for _ in 0..500 {
                    let held = heap.starting.lock();
                    let turn = turns.load(Ordering::Relaxed);
                    thread::yield_now();
                    turns.store(turn + 1, Ordering::Relaxed);
                    drop(held);
                }
            });
        }
    });
    assert_eq!(turns.load(Ordering::Relaxed), 2000);
    works(&heap, blocks);
}

thread_local! {
    static STARTING: std::cell::Cell<*const Heap<Fake>> = const { std::cell::Cell::new(std::ptr::null()) };
}

#[test]
fn a_child_of_a_heap_that_just_starts_is_known_as_one() {
    fn look(_: crate::os::fake::Request) {
        let heap = STARTING.get();
        // SAFETY: the test below keeps the heap.
        assert!(heap.is_null() || unsafe { (*heap).engine.process.address() } != 0);
    }
    let mut os = Fake::default();
    os.meanwhile = Some(look);
    let heap = Box::new(Heap::new(os));
    STARTING.set(&raw const *heap);
    assert_ne!(heap.allocate(1), 0);
    STARTING.set(std::ptr::null());
}

/// The proof on a real process: children by `_fork`-like calls see the word zeroed, children of threads do
/// not.
#[test]
fn the_word_is_zero_in_a_child_and_nowhere_else() {
    let word = Linux::new().process_word().expect("this kernel zeroes pages in children") as *mut u32;
    // SAFETY: the word lives as long as the process and nobody else writes it; the child only reads it and
    // ends.
    unsafe {
        word.write_volatile(7);
        thread::scope(|scope| {
            let address = word as usize;
            scope.spawn(move || assert_eq!((address as *const u32).read_volatile(), 7));
        });
        let child = libc::fork();
        if child == 0 {
            libc::_exit(word.read_volatile() as i32);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        assert_eq!((libc::WEXITSTATUS(status), word.read_volatile()), (0, 7));
    }
}

#[test]
fn nobody_takes_a_process_for_a_new_one_while_another_thread_starts_its_heap() {
    use std::sync::atomic::AtomicBool;
    let processes: Vec<super::Process> = (0..20_000).map(|_| super::Process::new()).collect();
    let (os, was_new) = (Linux::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for process in &processes {
                while process.state().is_none() {
                    core::hint::spin_loop();
                }
                was_new.fetch_or(!process.is_known(), Ordering::Relaxed);
            }
        });
        processes.iter().for_each(|process| process.start(&os));
    });
    processes.iter().for_each(|process| os.unmap(process.address(), os.page_bytes()));
    assert!(!was_new.load(Ordering::Relaxed));
}
