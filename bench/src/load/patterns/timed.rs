//! How long each single call takes: a thread's slots are replaced at random, and every malloc and free is timed by itself, by the
//! clock and by the CPU time of its thread. The clock's has all that a program waits for, the other what the allocator does.
//!
//! The histograms are of a library, whose tables come from the heap under test, two for each thread, as it begins its work.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::mapped::zeroed_array;
use crate::load::random::{SizeLaw, scaled};
use crate::report::Calls;
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};

/// Steps between two looks at the clock.
const STRETCH: usize = 16;
/// Of each the time is told, in the order of `Calls`.
const QUANTILES: [f64; 5] = [0.5, 0.99, 0.999, 0.9999, 1.0];
/// The longest call that is told apart, in nanoseconds.
const LONGEST: u64 = 100_000_000_000;
const EMPTY_CALLS: usize = 20_000;

pub struct Timed {
    sizes: SizeLaw,
    slots: usize,
    /// Of all threads that have left.
    done: Mutex<Done>,
}

struct Done {
    times: Times,
    leftovers: Vec<usize>,
}

/// Calls by their time, in nanoseconds.
struct Times {
    wall: Histogram<u64>,
    cpu: Histogram<u64>,
}

impl Times {
    fn new() -> Self {
        // Two digits: within one percent. The bounds are right for it.
        let [wall, cpu] = [(); 2].map(|()| Histogram::new_with_bounds(1, LONGEST, 2).expect("bounds"));
        Times { wall, cpu }
    }

    #[inline(always)]
    fn take<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let (cpu, wall) = (now(libc::CLOCK_THREAD_CPUTIME_ID), now(libc::CLOCK_MONOTONIC));
        let result = call();
        let (wall_after, cpu_after) = (now(libc::CLOCK_MONOTONIC), now(libc::CLOCK_THREAD_CPUTIME_ID));
        self.wall.saturating_record(wall_after - wall);
        self.cpu.saturating_record(cpu_after - cpu);
        result
    }

    fn add(&mut self, other: &Times) {
        self.wall += &other.wall;
        self.cpu += &other.cpu;
    }
}

#[inline(always)]
fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time there.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Timed {
    /// 16 bytes to 1 KiB.
    pub fn small() -> Self {
        Timed::new(SizeLaw::LogUniform { least: 16, doublings: 6 }, 1024)
    }

    /// 16 bytes to 256 KiB.
    pub fn mixed() -> Self {
        Timed::new(SizeLaw::LogUniform { least: 16, doublings: 14 }, 256)
    }

    /// 4 KiB to 4 MiB.
    pub fn large() -> Self {
        Timed::new(SizeLaw::LogUniform { least: 4 << 10, doublings: 10 }, 16)
    }

    fn new(sizes: SizeLaw, slots: usize) -> Self {
        let done = Done { times: Times::new(), leftovers: Vec::new() };
        Timed { sizes, slots, done: Mutex::new(done) }
    }

    /// The times of all calls, and of an empty one.
    pub fn calls(&self) -> Calls {
        let mut empty = Times::new();
        (0..EMPTY_CALLS).for_each(|_| empty.take(|| ()));
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |times: &Histogram<u64>| QUANTILES.map(|quantile| times.value_at_quantile(quantile));
        Calls {
            wall_ns: of(&done.times.wall),
            cpu_ns: of(&done.times.cpu),
            empty_wall_ns: empty.wall.value_at_quantile(0.5),
            empty_cpu_ns: empty.cpu.value_at_quantile(0.5),
        }
    }
}

impl Workload for &'static Timed {
    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let slots: &mut [Block] = zeroed_array(self.slots);
        let mut times = Times::new();
        while !clock.is_over(worker) {
            for _ in 0..STRETCH {
                let bits = worker.random.next();
                let slot = &mut slots[scaled(bits, self.slots)];
                let bytes = self.sizes.bytes(bits >> 32);
                let before = *slot;
                // SAFETY: the slot holds null or a live block and gets a new one at once.
                unsafe {
                    times.take(|| c_heap::release(before));
                    *slot = times.take(|| c_heap::allocate(bytes));
                    c_heap::touch_pages(*slot, bytes);
                }
            }
            worker.operations += 2 * STRETCH as u64;
        }
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.times.add(&times);
        done.leftovers.extend(slots.iter().map(|&block| block as usize));
    }

    fn clean_up(&self) {
        for address in self.done.lock().unwrap_or_else(PoisonError::into_inner).leftovers.drain(..) {
            // SAFETY: null or a live block that its thread left here.
            unsafe { c_heap::release(address as Block) };
        }
    }
}
