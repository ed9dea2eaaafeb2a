//! The hand-over of a line between two CPUs of this machine: one that the next step waits for, and one of many that
//! come at once.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Instant;

/// Lines that are fetched at once.
pub const LINES: usize = 16;
/// Turns that are timed together: fewer than a CPU does before something else wants it.
const TURNS: usize = 50;
const WINDOWS: usize = 2_000;

/// In nanoseconds.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct OfMachine {
    pub alone: f64,
    pub among_many: f64,
}

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

#[derive(Default)]
struct Table {
    turn: Line,
    lines: [Line; LINES],
}

/// Times CPUs 0 and 1.
pub fn measure() -> Result<OfMachine> {
    let (bare, with_lines) = (turns(0)?, turns(LINES)?);
    Ok(OfMachine { alone: bare, among_many: (with_lines - bare).max(0.0) / LINES as f64 })
}

/// Nanoseconds of one turn, in which so many lines are changed that the other one changed: of the tenth of
/// the windows that nothing disturbed.
fn turns(lines: usize) -> Result<f64> {
    let (table, ready) = (Table::default(), AtomicUsize::new(0));
    let play = |me: u64, mut note: Box<dyn FnMut() + '_>| {
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < 2 {
            std::hint::spin_loop();
        }
        for turn in 0..TURNS * WINDOWS {
            while table.turn.0.load(Ordering::Acquire) != me {
                std::hint::spin_loop();
            }
            for line in table.lines.iter().take(lines) {
                line.0.store(line.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            fence(Ordering::SeqCst);
            table.turn.0.store(1 - me, Ordering::Release);
            if turn % TURNS == TURNS - 1 {
                note();
            }
        }
    };
    let mut windows = Vec::with_capacity(WINDOWS);
    let stood = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let stood = pin_to(1);
            play(1, Box::new(|| {}));
            stood
        });
        let stood = pin_to(0);
        let mut began = Instant::now();
        play(
            0,
            Box::new(|| {
                windows.push(began.elapsed().as_nanos() as f64 / (2 * TURNS) as f64);
                began = Instant::now();
            }),
        );
        stood && other.join().unwrap_or(false)
    });
    ensure!(stood, "CPUs 0 and 1 are not both to be had");
    windows.sort_by(f64::total_cmp);
    Ok(windows[WINDOWS / 10])
}

fn pin_to(cpu: usize) -> bool {
    // SAFETY: a set of CPUs is a plain structure, and 0 is this thread.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut cpus);
        libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus) == 0
    }
}
