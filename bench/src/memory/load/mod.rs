//! The process that is measured: one scenario on whatever allocator answers `malloc` here, then idleness.
//!
//! Owns the scenarios. Promises that the calls, their sizes and (within a thread) their order are the same
//! under every allocator, that nothing of its own is in the heap, and that after [`Phase::Idle`] no thread
//! calls malloc but for `Meanwhile`: the workers sleep on a futex and the main thread in a read of its standard input, whose end
//! is the end of the process.

pub mod age;
pub mod alone;
pub mod asking;
pub mod blocks;
pub mod churn;
pub mod container;
pub mod idle;
pub mod scattered;
pub mod survivors;
pub mod threads;

use super::board::{Board, Phase};
use super::pages;
use super::shared;
use crate::load::c_heap;
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// One memory scenario on the malloc of this process. Ends when its standard input is closed.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// Descriptor of the board that the watcher shares
    #[arg(long)]
    pub board: Option<RawFd>,
    #[command(subcommand)]
    pub scenario: Scenario,
}

/// The work of the process before it is idle.
#[derive(Clone, Debug, Subcommand)]
pub enum Scenario {
    /// Long-lived blocks first, then a load that is freed again
    Idle(idle::Settings),
    /// A peak of small blocks of which a random few stay
    Survivors(survivors::Settings),
    /// Blocks of three sizes of which every twentieth stays
    Scattered(scattered::Settings),
    /// A burst by a process of one thread, then silence or little
    Alone(alone::Settings),
    /// Programs that go on after a peak, or replace what they hold for ever
    Age(age::Settings),
    /// Fragmentation over a long time, compressed
    Churn(churn::Settings),
    /// Sizes that change from phase to phase while the live bytes stay
    Container(container::Settings),
}

/// Runs a scenario and stays idle until standard input is at its end.
pub fn run(arguments: &Arguments) -> Result<()> {
    let board = match arguments.board {
        Some(number) => Board::inherited(number)?,
        None => Board::create()?.0,
    };
    board.set_malloc_object(&c_heap::malloc_object());
    let mut meanwhile = None;
    match &arguments.scenario {
        Scenario::Idle(settings) => idle::run(settings, board),
        Scenario::Survivors(settings) => survivors::run(settings, board),
        Scenario::Scattered(settings) => {
            scattered::run(settings, board);
            let call = settings.asking.then(asking::Call::of_this_process).flatten();
            meanwhile = call.map(Meanwhile::Asks);
        }
        Scenario::Alone(settings) => {
            alone::run(settings, board);
            meanwhile = (settings.pattern == alone::Pattern::LightTraffic).then_some(Meanwhile::Allocates);
        }
        Scenario::Age(settings) => age::run(settings, board),
        Scenario::Churn(settings) => churn::run(settings, board),
        Scenario::Container(settings) => container::run(settings, board),
    }
    wait_for_the_end(meanwhile);
}

/// The end of every scenario: the process is idle from here on, and what is live is counted for the board.
/// Counting comes after the stop, because it takes a while in which an allocator may already give back, but
/// calls no malloc.
fn stop(board: &Board, live: impl Iterator<Item = (usize, usize)> + Clone) {
    board.enter(Phase::Idle);
    let places = pages::places_for(live.clone().map(|(_, bytes)| bytes));
    // SAFETY: zero is a valid number.
    let found = pages::footprint(live.clone(), unsafe { shared::zeroed_array(places) });
    // SAFETY: these are live blocks, and the call changes nothing.
    let usable: usize = live.map(|(address, _)| unsafe { libc::malloc_usable_size(address as *mut _) }).sum();
    board.page_bytes.store(found.page_bytes, Ordering::Relaxed);
    board.live_blocks.store(found.blocks, Ordering::Relaxed);
    board.usable_bytes.store(usable as u64, Ordering::Relaxed);
}

/// The work of an idle process every 100 ms, in scenarios that have any.
enum Meanwhile {
    /// Asks the allocator for what it has to give back.
    Asks(asking::Call),
    /// Makes a request and takes it back.
    Allocates,
}

impl Meanwhile {
    fn act(&self) {
        const BYTES: usize = 100;
        match self {
            Meanwhile::Asks(call) => call.ask(),
            // SAFETY: the block is freed once, by its owner.
            Meanwhile::Allocates => unsafe { c_heap::release(c_heap::allocate(BYTES)) },
        }
    }
}

/// Straight to the kernel: no buffer is allocated, nothing is run at exit, and nobody wakes before the end but for `meanwhile`.
fn wait_for_the_end(meanwhile: Option<Meanwhile>) -> ! {
    const BETWEEN_MILLISECONDS: i32 = 100;
    let mut byte = 0u8;
    loop {
        if let Some(meanwhile) = &meanwhile {
            let mut end = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor's structure, which lives here.
            while unsafe { libc::poll(&mut end, 1, BETWEEN_MILLISECONDS) } == 0 {
                meanwhile.act();
            }
        }
        // SAFETY: one byte of room; the process ends without unwinding while its threads sleep.
        unsafe {
            if libc::read(0, (&raw mut byte).cast(), 1) == 0 {
                libc::_exit(0);
            }
        }
    }
}
