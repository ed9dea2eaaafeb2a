//! Runs a tape on a heap that sees so many CPUs.

use crate::counts::{self, CALLS, Side};
use crate::seen::Seen;
use crate::stepper::Whose;
use crate::system::{self, Counting};
use crate::tape::{self, STRETCH, Step, Tape};
use crate::{stepper, ticks};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use vcmalloc_core::heap::{Blocks, Heap, Hooks};

static HEAP: Heap<Counting> = Heap::with_hooks(Counting::new(), Hooks { before_guards: None, unwind });

fn unwind(frames: &mut [usize]) -> usize {
    use vcmalloc_core::os::Os;
    HEAP.os().stack(frames)
}

/// The kind of a run. The first half of its calls only fills the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With a heap that does nothing: what the run itself costs.
    Nothing,
    /// The heap, and nothing else.
    Timed,
    Counted,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Ran {
    /// Behind the first half.
    pub calls: u64,
    /// CPU time of these.
    pub nanoseconds: f64,
    pub faults: u64,
    /// Of the trace, in nanoseconds.
    pub took: u64,
    pub locks: Vec<Lock>,
    pub requests: Vec<Request>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Lock {
    pub name: String,
    /// The block that is usually asked for while it is held, for a lock of a class.
    pub bytes: u64,
    pub address: u64,
    pub taken: u64,
    /// All holds.
    pub nanoseconds: f64,
    /// Requests of the system in them.
    pub asked: f64,
    pub asked_nanoseconds: f64,
    /// Holds by the janitor.
    pub aside: u64,
    pub aside_nanoseconds: f64,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Request {
    pub name: String,
    /// Whether it takes the `mmap_lock` alone, and whether beside others.
    pub is_alone: bool,
    pub is_beside: bool,
    pub count: u64,
    pub nanoseconds: f64,
}

/// Runs it in this process, which has one run only.
pub fn run(tape: &Tape, cpus: usize, mode: Mode) -> Ran {
    let mut driver = Driver::of(tape, cpus);
    let half = tape.steps.len() / 2 / STRETCH * STRETCH;
    let (warm, rest) = tape.steps.split_at(half);
    let (warm_times, times) = tape.times.split_at(half / STRETCH);
    driver.play(warm, warm_times, mode == Mode::Nothing);
    if mode == Mode::Counted {
        counts::begin();
    }
    let before = spent();
    driver.play(rest, times, mode == Mode::Nothing);
    let after = spent();
    counts::end();
    let mut ran = Ran {
        calls: rest.len() as u64,
        nanoseconds: (after.0 - before.0) as f64,
        faults: after.1 - before.1,
        took: times.last().unwrap_or(&0) - times.first().unwrap_or(&0),
        ..Ran::default()
    };
    if mode == Mode::Counted {
        tell(&mut ran);
    }
    ran
}

/// Runs all but the last steps, and steps through these; the first third of them only says who has which
/// line.
pub fn walk(tape: &Tape, cpus: usize, stepped: usize) -> Result<Seen> {
    let mut driver = Driver::of(tape, cpus);
    let from = tape.steps.len().saturating_sub(stepped) / STRETCH * STRETCH;
    let (warm, rest) = tape.steps.split_at(from);
    driver.play(warm, &tape.times[..from / STRETCH], false);
    counts::tell();
    let (blocks, steps) = (driver.blocks.as_ptr_range(), tape.steps.as_ptr_range());
    let mut own = Vec::from(counts::own());
    own.push((blocks.start.addr() as u64, blocks.end.addr() as u64));
    own.push((steps.start.addr() as u64, steps.end.addr() as u64));
    stepper::prepare(Whose::Run, own)?;
    // Blocks are with who asked for them, and wrote there.
    let mut askers = vec![None; driver.blocks.len()];
    for step in warm {
        askers[step.slot as usize] = (step.what != tape::FREE).then_some(step.seat);
    }
    for (asker, (block, _)) in askers.iter().zip(&driver.blocks).filter(|(_, (block, _))| *block != 0) {
        if let Some(seat) = asker {
            stepper::wrote(*block as u64, (u32::from(*seat) % driver.cpus) as u16);
        }
    }
    let (first, second) = rest.split_at(rest.len() / 3);
    for (steps, counts) in [(first, false), (second, true)] {
        if counts {
            stepper::count(second.len() as u64);
        }
        for step in steps {
            system::stand_on(u32::from(step.seat) % driver.cpus);
            stepper::stepped(|| driver.step(step, false));
            let (block, _) = driver.blocks[step.slot as usize];
            if block != 0 {
                stepper::wrote(block as u64, (u32::from(step.seat) % driver.cpus) as u16);
            }
        }
    }
    Ok(stepper::seen())
}

fn tell(ran: &mut Ran) {
    let (counts, in_a_nanosecond) = (counts::counts(), ticks::in_a_nanosecond());
    ran.locks = counts
        .locks()
        .map(|lock| {
            let whole = if lock.timed == 0 { 0.0 } else { lock.taken as f64 / lock.timed as f64 };
            Lock {
                name: lock.rank.name().to_owned(),
                bytes: lock.bytes,
                address: lock.address as u64,
                taken: lock.taken,
                nanoseconds: lock.ticks as f64 / in_a_nanosecond * whole,
                asked: lock.asked as f64 * whole,
                asked_nanoseconds: lock.asked_ticks as f64 / in_a_nanosecond * whole,
                aside: lock.aside,
                aside_nanoseconds: lock.aside_ticks as f64 / in_a_nanosecond,
            }
        })
        .collect();
    ran.requests = CALLS
        .iter()
        .zip(&counts.calls)
        .filter(|(_, asked)| asked.count > 0)
        .map(|((_, name, side), asked)| Request {
            name: (*name).to_owned(),
            is_alone: *side == Side::Alone,
            is_beside: *side == Side::Beside,
            count: asked.count,
            nanoseconds: asked.ticks as f64 / in_a_nanosecond * asked.count as f64
                / asked.timed.max(1) as f64,
        })
        .collect();
}

/// This thread's CPU time, and page faults.
fn spent() -> (u64, u64) {
    // SAFETY: both structures are the kernel's to fill.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64, usage.ru_minflt as u64)
    }
}

/// The work of the janitor's thread, once: it waits first, and there its end is asked for, so that a life is
/// one tick.
fn tick() {
    system::between_ticks(|| {
        HEAP.stop_janitor();
    });
    HEAP.meet_threads();
    HEAP.claim_janitor();
    counts::counts().is_aside = true;
    HEAP.run_janitor(false);
    counts::counts().is_aside = false;
    HEAP.unclaim_janitor();
    HEAP.claim_janitor();
}

struct Driver {
    /// Address and bytes by slot.
    blocks: Vec<(usize, u64)>,
    cpus: u32,
    next_tick: u64,
    /// The memory of all blocks of the heap that does nothing.
    nothing: Box<[u8]>,
}

impl Driver {
    /// For one run in this process, on so many CPUs.
    fn of(tape: &Tape, cpus: usize) -> Driver {
        system::set_cpus(cpus);
        Driver {
            blocks: vec![(0, 0); tape.slots],
            cpus: cpus as u32,
            next_tick: 0,
            nothing: [0; 4096].into(),
        }
    }

    fn play(&mut self, steps: &[Step], times: &[u64], is_nothing: bool) {
        for (steps, &time) in steps.chunks(STRETCH).zip(times) {
            system::set_time(time);
            if !is_nothing && time >= self.next_tick {
                tick();
                self.next_tick = time + system::period().max(1);
            }
            for step in steps {
                system::stand_on(u32::from(step.seat) % self.cpus);
                if is_nothing {
                    self.skip(step);
                } else {
                    self.step(step, true);
                }
            }
        }
    }

    #[inline(always)]
    fn step(&mut self, step: &Step, touches: bool) {
        let (block, had) = &mut self.blocks[step.slot as usize];
        let bytes = step.bytes as usize;
        if step.what == tape::FREE {
            counts::counts().bytes = *had;
            return HEAP.free(std::mem::take(block));
        }
        *had = step.bytes;
        counts::counts().bytes = step.bytes;
        *block = match step.what {
            tape::MALLOC => HEAP.allocate(bytes),
            tape::CALLOC => Blocks::allocate_zeroed(&HEAP, 1, bytes),
            tape::ALIGNED => Blocks::allocate_aligned(&HEAP, 1 << step.log2_alignment.min(30), bytes),
            _ => Blocks::reallocate(&HEAP, *block, bytes),
        };
        if touches && *block != 0 {
            touch(*block, bytes);
        }
    }

    #[inline(always)]
    fn skip(&mut self, step: &Step) {
        let (block, had) = &mut self.blocks[step.slot as usize];
        counts::counts().bytes = *had;
        (*block, *had) = (usize::from(step.what != tape::FREE), step.bytes);
        if *block != 0 {
            let nothing = self.nothing.as_mut_ptr();
            // SAFETY: within the buffer.
            unsafe { nothing.add(step.bytes as usize % 4096).write_volatile(1) };
        }
    }
}

/// As a program that fills its block: a byte of each page.
#[inline(always)]
fn touch(block: usize, bytes: usize) {
    for offset in (0..bytes.max(1)).step_by(4096) {
        // SAFETY: the block is live and has so many bytes, or one.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(block + offset).write_volatile(1) };
    }
}
