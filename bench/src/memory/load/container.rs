//! Live bytes that never change in amount but always in shape: the load that makes caches and free lists
//! swell.
//!
//! Threads own rings of blocks. In every phase each ring's blocks are replaced, oldest first, by blocks of
//! the phase's size, each freed by another thread than the one that allocated it. Oldest first, so pages do
//! empty: an allocator that gives them to the next size needs little more than the live bytes, and one that
//! keeps them per thread or per size needs a multiple.

use super::blocks::{Table, create, destroy};
use super::threads;
use crate::load::random::Random;
use crate::load::signal::Signal;
use crate::memory::board::{Board, Phase};
use clap::Args;
use std::sync::atomic::AtomicI64;

#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[arg(long, default_value_t = 64)]
    pub threads: usize,
    #[arg(long, default_value_t = 256)]
    pub live_mib: usize,
    /// How often the sizes go up and down
    #[arg(long, default_value_t = 2)]
    pub rounds: usize,
}

/// Sizes of the phases, up and down again.
const PHASE_BYTES: [usize; 8] = [300, 1200, 4200, 17_000, 66_000, 9_000, 2_500, 600];
const SMALLEST: usize = 300;
/// A phase replaces its rings so often: once to change the size, once more to let caches fill with it.
const TURNS: usize = 2;

/// The bytes that the process needs beside the heap: its tables and the used part of its stacks, and code and
/// libraries.
pub fn own_bytes(settings: &Settings) -> usize {
    const STACK: usize = 24 << 10;
    const PROGRAM: usize = 6 << 20;
    let slots = slots_of_ring(settings) * settings.threads;
    slots * size_of::<usize>() + settings.threads * STACK + PROGRAM
}

fn ring_bytes(settings: &Settings) -> usize {
    (settings.live_mib << 20) / settings.threads
}

fn slots_of_ring(settings: &Settings) -> usize {
    // Sizes vary by a quarter; a ring is never longer than if all its blocks were the least.
    ring_bytes(settings) / (SMALLEST - SMALLEST / 4) + 2
}

pub fn run(settings: &Settings, board: &'static Board) {
    let Settings { threads: count, rounds, .. } = *settings;
    let target = ring_bytes(settings);
    let table = Table::new(slots_of_ring(settings) * count);
    // SAFETY: an empty ring is all zero.
    let rings: &'static mut [Ring] = unsafe { crate::memory::shared::zeroed_array(count) };
    let rings = Rings(rings.as_mut_ptr());
    let arrived: &'static Signal = Box::leak(Box::default());
    board.enter(Phase::Loading);
    threads::run(count, move |thread| {
        let (live, mut random) = (board.live_counter(thread), Random::seeded(thread as u64));
        for phase in 0..rounds * PHASE_BYTES.len() {
            let number = (thread + phase) % count;
            // SAFETY: in a phase each thread has another ring, and the phases are kept apart by the signal.
            let ring = unsafe { &mut *rings.at(number) };
            let size = PHASE_BYTES[phase % PHASE_BYTES.len()];
            replace(ring, table.part(number, count), target, size, &mut random, live);
            arrived.raise();
            arrived.wait_for(((phase + 1) * count) as u32);
        }
    });
    super::stop(board, table.live());
}

#[derive(Clone, Copy)]
struct Rings(*mut Ring);

// SAFETY: the pointer is to memory that stays for ever; `run` promises which thread uses which element.
unsafe impl Sync for Rings {}
// SAFETY: the pointer belongs to no thread; `run` gives each element to one.
unsafe impl Send for Rings {}

impl Rings {
    fn at(self, number: usize) -> *mut Ring {
        self.0.wrapping_add(number)
    }
}

/// The place of the oldest block, the number of blocks, and their bytes.
struct Ring {
    first: usize,
    count: usize,
    bytes: usize,
}

fn replace(ring: &mut Ring, slots: Table, target: usize, size: usize, random: &mut Random, live: &AtomicI64) {
    let mut made = 0;
    while made < target * TURNS {
        let bytes = size - size / 4 + random.below(size / 2);
        while ring.count > 0 && ring.bytes + bytes > target {
            let block = slots.take(ring.first);
            ring.bytes -= super::blocks::noted_bytes(block);
            destroy(block, live);
            ring.first = (ring.first + 1) % slots.len();
            ring.count -= 1;
        }
        slots.put((ring.first + ring.count) % slots.len(), create(bytes, live));
        ring.count += 1;
        ring.bytes += bytes;
        made += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_its_bytes_near_the_target_and_changes_their_shape() {
        let settings = Settings { threads: 4, live_mib: 4, rounds: 1 };
        let (live, mut random) = (AtomicI64::new(0), Random::seeded(1));
        let slots = Table::new(slots_of_ring(&settings));
        let mut ring = Ring { first: 0, count: 0, bytes: 0 };
        for size in PHASE_BYTES {
            replace(&mut ring, slots, ring_bytes(&settings), size, &mut random, &live);
            assert!(ring.bytes <= 1 << 20 && ring.bytes > (1 << 20) - 2 * size, "{}", ring.bytes);
            assert!(slots.live().all(|(_, bytes)| bytes >= size - size / 4 && bytes < size + size / 4));
            assert_eq!(slots.live().count(), ring.count);
        }
        (0..slots.len()).for_each(|slot| destroy(slots.take(slot), &live));
    }
}
