//! A process of a given size: so many threads, bytes, distinct sizes, and such an age. It tells what its calls cost, and then
//! stays idle until its input ends, to be looked at from outside.

use super::c_heap::{self, Block};
use super::process::Moment;
use super::random::Random;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Blocks of a heap have from 8 to 256 KiB where nothing else is asked.
pub const LEAST: usize = 8 << 10;
const DOUBLINGS: usize = 5;
/// Bytes that are written to at most; the rest of a heap has addresses only.
const MOST_TOUCHED: usize = 4 << 30;
/// Pairs of malloc and free that are timed, over all threads.
const SMALL_PAIRS: usize = 2_000_000;
const LARGE_PAIRS: usize = 100_000;
/// Blocks that each thread keeps.
const KEPT: usize = 4;
const STACK_BYTES: usize = 64 << 10;
const FORKS: usize = 5;
const SETTLES: Duration = Duration::from_secs(4);
const IDLE: Duration = Duration::from_secs(2);

/// How large a process is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Size {
    pub threads: usize,
    pub heap_bytes: usize,
    /// Distinct sizes of blocks, from `least` on, up to 32 times that.
    pub sizes: usize,
    pub least: usize,
    /// How many times each block of the heap was replaced by another, on average.
    pub age: usize,
}

/// Costs, as the process itself sees them. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Costs {
    pub small_pair: f64,
    pub large_pair: f64,
    /// CPU time in a second in which nothing is done.
    pub idle: f64,
    /// A child that allocates once and ends, from fork to its end.
    pub fork: f64,
    pub resident_kib: u64,
}

struct Shared {
    arrived: AtomicUsize,
    /// The work of the threads: 0 wait, 1 small pairs, 2 large pairs, 3 wait for ever.
    phase: Mutex<usize>,
    next_phase: Condvar,
    pairs: [usize; 2],
    cpu: [AtomicU64; 2],
}

impl Shared {
    fn begin(&self, phase: usize) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.next_phase.notify_all();
    }

    /// Sleeps until there is another phase than the one that was seen: threads that look now and then would keep the
    /// machine busy where there are thousands.
    fn wait_after(&self, seen: usize) -> usize {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        while *phase == seen {
            phase = self.next_phase.wait(phase).unwrap_or_else(PoisonError::into_inner);
        }
        *phase
    }
}

static SHARED: std::sync::OnceLock<Shared> = std::sync::OnceLock::new();

/// Makes the process so large, writes a line of JSON to its output, and returns when its input has ended.
pub fn run(size: Size) -> Result<()> {
    let blocks = heap_of(size);
    let threads = size.threads.max(1);
    let pairs = [SMALL_PAIRS, LARGE_PAIRS].map(|all| (all / threads).max(1));
    let cpu = [const { AtomicU64::new(0) }; 2];
    let shared = SHARED.get_or_init(|| Shared {
        arrived: AtomicUsize::new(0),
        phase: Mutex::new(0),
        next_phase: Condvar::new(),
        pairs,
        cpu,
    });
    for number in 0..threads {
        start(number, threads)?;
    }
    let mut costs = Costs::default();
    for phase in [1, 2] {
        wait_for(threads);
        shared.arrived.store(0, Ordering::Release);
        shared.begin(phase);
        wait_for(threads);
        let nanoseconds = shared.cpu[phase - 1].load(Ordering::Acquire) as f64;
        let cost = nanoseconds / (pairs[phase - 1] * threads) as f64;
        *(if phase == 1 { &mut costs.small_pair } else { &mut costs.large_pair }) = cost;
    }
    shared.begin(3);
    std::thread::sleep(SETTLES);
    let before = Moment::now();
    std::thread::sleep(IDLE);
    let idle = before.until(Moment::now());
    costs.idle = (idle.user + idle.system) * 1e9 / IDLE.as_secs_f64();
    costs.fork = fork_time()?;
    costs.resident_kib = super::process::resident_kib_exact();
    println!("{}", serde_json::to_string(&costs)?);
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    std::mem::forget(blocks);
    Ok(())
}

/// Blocks of such sizes, each written to as long as there is memory for it, and replaced as often.
fn heap_of(size: Size) -> Vec<(Block, usize)> {
    let mut random = Random::seeded(1);
    let greatest = size.least << DOUBLINGS;
    let bytes_of = |random: &mut Random| {
        let step = random.below(size.sizes.max(1)) as f64 / size.sizes.max(1) as f64;
        (size.least as f64 * (greatest as f64 / size.least as f64).powf(step)) as usize
    };
    let (mut blocks, mut held, mut touched) = (Vec::new(), 0, 0);
    let mut make = |random: &mut Random, held: &mut usize| {
        let bytes = bytes_of(random);
        let block = c_heap::allocate(bytes);
        if touched < MOST_TOUCHED {
            touched += bytes;
            // SAFETY: the block is so long.
            unsafe { c_heap::touch_pages(block, bytes) };
        }
        *held += bytes;
        (block, bytes)
    };
    while held < size.heap_bytes {
        let made = make(&mut random, &mut held);
        blocks.push(made);
    }
    for _ in 0..blocks.len() * size.age {
        let place = random.below(blocks.len());
        let (block, bytes) = blocks[place];
        // SAFETY: it is ours, and its place gets another.
        unsafe { c_heap::release(block) };
        held -= bytes;
        blocks[place] = make(&mut random, &mut held);
    }
    blocks
}

/// A thread with a small stack and no page beside it that may not be touched: a process may have 65,530 mappings.
fn start(number: usize, threads: usize) -> Result<()> {
    extern "C" fn body(number: *mut libc::c_void) -> *mut libc::c_void {
        work(number as usize);
        std::ptr::null_mut()
    }
    // SAFETY: the attributes are initialised before they are used, and the function takes a number.
    let refused = unsafe {
        let (mut attributes, mut thread) = (std::mem::zeroed(), 0);
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES);
        libc::pthread_attr_setguardsize(&raw mut attributes, 0);
        libc::pthread_create(&raw mut thread, &raw const attributes, body, number as *mut libc::c_void)
    };
    if refused != 0 {
        let why = std::io::Error::from_raw_os_error(refused);
        bail!("{number} of {threads} threads are there, and no more: {why}");
    }
    Ok(())
}

fn work(number: usize) {
    let Some(shared) = SHARED.get() else { return };
    let mut random = Random::seeded(number as u64);
    let kept: Vec<Block> = (0..KEPT).map(|_| c_heap::allocate(64 + random.below(1024))).collect();
    let mut seen = 0;
    loop {
        shared.arrived.fetch_add(1, Ordering::AcqRel);
        seen = shared.wait_after(seen);
        if seen == 3 {
            break;
        }
        let before = thread_cpu();
        let (least, most) = if seen == 1 { (16, 1024) } else { (300 << 10, 1 << 20) };
        for _ in 0..shared.pairs[seen - 1] {
            let block = c_heap::allocate(least + random.below(most - least));
            // SAFETY: just allocated.
            unsafe {
                block.write_volatile(1);
                c_heap::release(block);
            }
        }
        shared.cpu[seen - 1].fetch_add(thread_cpu() - before, Ordering::AcqRel);
    }
    std::mem::forget(kept);
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn wait_for(threads: usize) {
    while SHARED.get().is_some_and(|shared| shared.arrived.load(Ordering::Acquire) < threads) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn thread_cpu() -> u64 {
    // SAFETY: the time lives here.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// The median of some.
fn fork_time() -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..FORKS {
        let before = Instant::now();
        // SAFETY: the child calls malloc, which a child of ours and of glibc may, and ends.
        let status = unsafe {
            match libc::fork() {
                0 => {
                    let block = c_heap::allocate(100);
                    libc::_exit(i32::from(block.is_null()))
                }
                child => {
                    let mut status = 0;
                    if child < 0 || libc::waitpid(child, &raw mut status, 0) != child { -1 } else { status }
                }
            }
        };
        if status != 0 {
            bail!("a child of fork did not end well: {status}");
        }
        times.push(before.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[FORKS / 2])
}
