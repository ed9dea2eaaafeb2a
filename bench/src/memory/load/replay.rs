//! Replays a script: one thread for each thread of the trace, at the trace's times.
//!
//! Order is kept only where a program would be wrong without: a thread that ends an object of another thread
//! waits until that has allocated it. New objects are written to, every page of them, as daemons do.

use super::blocks;
use super::threads;
use crate::load::c_heap::{self, Block};
use crate::load::signal::Signal;
use crate::memory::board::{self, Board, Phase};
use crate::memory::shared;
use crate::memory::trace::script::Script;
use crate::memory::trace::step::{Operation, Step};
use anyhow::Result;
use clap::Args;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, Ordering};

#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Descriptor of the script that the watcher made of the trace
    #[arg(long)]
    pub script: RawFd,
    /// How many times faster than recorded; 0: as fast as the order allows
    #[arg(long, default_value_t = 1.0)]
    pub speed: f64,
}

/// A thread that is less early than this goes on at once.
const PUNCTUAL_NANOSECONDS: u64 = 200_000;

pub fn run(settings: &Settings, board: &'static Board) -> Result<()> {
    let bytes = shared::inherited(settings.script)?;
    shared::populate(bytes);
    let script = Script::view(bytes)?;
    // SAFETY: null is a valid pointer, zero a valid number.
    let (objects, sizes): (&mut [AtomicPtr<u8>], &mut [AtomicU32]) =
        unsafe { (shared::zeroed_array(script.objects), shared::zeroed_array(script.objects)) };
    shared::populate(shared::bytes_of(objects));
    shared::populate(shared::bytes_of(sizes));
    let objects =
        Objects { blocks: objects, sizes, points: std::array::from_fn(|_| MeetingPoint::default()) };
    let replay: &'static Replay = Box::leak(Box::new(Replay { objects, board, gate: Signal::default() }));
    let speed = settings.speed;
    let crew = threads::start(script.threads, move |thread| {
        replay.gate.wait_for(1);
        let start = board.began(Phase::Loading).unwrap_or(0);
        let mut player = Player { replay, live: board.live_counter(thread), moved: std::ptr::null_mut() };
        for &step in script.of_thread(thread) {
            player.wait_until(step, start, speed);
            player.play(step);
        }
    });
    board.enter(Phase::Loading);
    replay.gate.raise();
    crew.wait();
    super::stop(board, replay.objects.live());
    Ok(())
}

struct Replay {
    objects: Objects,
    board: &'static Board,
    gate: Signal,
}

/// Each object's place. The thread that begins an object writes its slot once, the one that ends it empties it once.
struct Objects {
    blocks: &'static [AtomicPtr<u8>],
    sizes: &'static [AtomicU32],
    /// A thread that waits for an object sleeps at the point of its number. Looking again and again instead
    /// would take the CPU from those that are waited for, as soon as a few hundred threads wait.
    points: [MeetingPoint; 256],
}

#[derive(Default)]
struct MeetingPoint {
    waiting: AtomicU32,
    announced: AtomicU32,
    news: Signal,
}

impl MeetingPoint {
    /// Sleeps until `is_there`. It is made true before [`Self::announce`] is called.
    fn wait(&self, is_there: impl Fn() -> bool) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        loop {
            // Read before looking: a thread that makes it true after the look will announce beyond this number.
            let announced = self.announced.load(Ordering::SeqCst);
            if is_there() {
                break;
            }
            self.news.wait_for(announced + 1);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn announce(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.announced.fetch_add(1, Ordering::SeqCst);
            self.news.raise();
        }
    }
}

impl Objects {
    fn begin(&self, object: usize, block: Block, bytes: u32) {
        self.sizes[object].store(bytes, Ordering::Relaxed);
        // SeqCst, pairs with the load in `end`: either the waiter sees the block, or `announce` sees the
        // waiter.
        self.blocks[object].store(block, Ordering::SeqCst);
        self.points[object % self.points.len()].announce();
    }

    /// Waits until the object has begun, and takes it.
    fn end(&self, object: usize) -> Block {
        let slot = &self.blocks[object];
        let is_there = || !slot.load(Ordering::SeqCst).is_null();
        if !is_there() {
            self.points[object % self.points.len()].wait(is_there);
        }
        slot.swap(std::ptr::null_mut(), Ordering::Acquire)
    }

    fn live(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        let blocks = self.blocks.iter().map(|slot| slot.load(Ordering::Acquire) as usize);
        let sizes = self.sizes.iter().map(|bytes| bytes.load(Ordering::Relaxed) as usize);
        blocks.zip(sizes).filter(|(address, _)| *address != 0)
    }
}

/// One thread of the replay.
struct Player {
    replay: &'static Replay,
    live: &'static AtomicI64,
    /// The block between the halves of a realloc.
    moved: Block,
}

impl Player {
    fn wait_until(&self, step: Step, start: u64, speed: f64) {
        if speed <= 0.0 {
            return;
        }
        let due = start + (f64::from(step.microseconds) * 1000.0 / speed) as u64;
        let now = board::now();
        if due > now + PUNCTUAL_NANOSECONDS {
            sleep_until(due);
        } else if now > due {
            self.replay.board.behind_microseconds.fetch_max((now - due) / 1000, Ordering::Relaxed);
        }
    }

    fn play(&mut self, step: Step) {
        let (object, bytes) = (step.object as usize, step.bytes as usize);
        if step.operation().ends_an_object() {
            let block = self.replay.objects.end(object);
            self.live.fetch_sub(bytes as i64, Ordering::Relaxed);
            match step.operation() {
                Operation::ReallocFrom => self.moved = block,
                // SAFETY: taken from the object's slot, so nobody else has it.
                _ => unsafe { c_heap::release(block) },
            }
            return;
        }
        // At least a byte: a size of 0 may give null, which means "not yet" in the slots.
        let asked = bytes.max(1);
        let block = match step.operation() {
            Operation::Calloc => c_heap::allocate_zeroed(asked),
            Operation::Aligned => c_heap::allocate_aligned((1 << step.log2_alignment).max(8), asked),
            // SAFETY: taken from its slot by the first half; null if there was none, which is a malloc.
            Operation::ReallocTo => unsafe {
                c_heap::reallocate(std::mem::replace(&mut self.moved, std::ptr::null_mut()), asked)
            },
            _ => c_heap::allocate(asked),
        };
        blocks::touch(block, asked);
        self.live.fetch_add(bytes as i64, Ordering::Relaxed);
        self.replay.objects.begin(object, block, step.bytes);
    }
}

fn sleep_until(nanoseconds: u64) {
    let until = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the time lives here; waking early only makes a step early.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until, std::ptr::null_mut());
    }
}
