//! Worker threads of a threaded pattern: started, brought to a steady state, timed, stopped.
//!
//! ```text
//!   main      start N ─ wait for all ─ open gate, clock ── sleep ── RSS, stop ── wait ── clock, dismiss ── clean up
//!   worker i  prepare ─ wait at gate ─ turn ─┐                          turn ends ─ leave
//!                                            └─ successor thread: join predecessor, turn ─ ...
//! ```
//!
//! Plain pthreads with small stacks: Rust's own threads allocate a handful of blocks each, which would be
//! part of the measurement.

use super::process::{self, Elapsed, Moment};
use super::random::Random;
use super::signal::Signal;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const STACK_BYTES: usize = 128 << 10;

/// The work of a pattern's threads. Shared by all workers; they are told apart by [`Worker::index`].
pub trait Workload: Sync + 'static {
    /// True if a new thread continues the worker after each turn.
    const GENERATIONS: bool = false;

    /// Brings the worker to its steady state before the clock starts.
    fn prepare(&self, _worker: &mut Worker) {}

    /// Works until `clock` says that it is over or, with generations, until the thread has lived long enough.
    fn turn(&self, worker: &mut Worker, clock: &Clock);

    /// The worker has done its last turn: lets those go who wait for it.
    fn leave(&self, _worker: &mut Worker) {}

    /// Frees everything that the pattern still holds. Called once, after all workers have left.
    fn clean_up(&self) {}
}

/// One worker: a thread, or a chain of threads that succeed each other.
pub struct Worker {
    pub index: usize,
    pub random: Random,
    /// The pattern's count; its sum over all workers is the result.
    pub operations: u64,
    /// The thread before this one; its successor (or the main thread) waits for its end.
    previous: Option<libc::pthread_t>,
}

/// When the work is over: at a time, or after a number of operations a worker.
pub struct Clock {
    stopped: AtomicBool,
    operations_each: u64,
}

impl Clock {
    #[inline(always)]
    pub fn is_over(&self, worker: &Worker) -> bool {
        self.is_over_after(worker.operations)
    }

    /// For workers that do `operations` in a count of their own.
    #[inline(always)]
    pub fn is_over_after(&self, operations: u64) -> bool {
        self.stopped.load(Ordering::Relaxed) || operations >= self.operations_each
    }
}

/// How long a crew works.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    Time(Duration),
    /// Together, over all workers, in equal shares; work that is not done after the time, if there is one, is left.
    Operations(u64, Option<Duration>),
}

/// The operations of a crew, and the time and memory that they took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    pub operations: u64,
    pub elapsed: Elapsed,
    pub end_rss_kib: u64,
}

struct Crew<W> {
    workload: W,
    clock: Clock,
    arrived: Signal,
    gate: Signal,
    left: Signal,
    /// The clock has stopped: threads that end cost nobody anything, and have kept what they cached.
    dismissed: Signal,
}

/// The arguments of a thread that starts. The crew outlives every thread: it is never dropped.
struct Post<W: 'static> {
    crew: &'static Crew<W>,
    worker: Worker,
}

/// Runs `threads` workers on a workload and measures them. Threads and tables of this module are set up
/// before the clock starts.
pub fn run<W: Workload>(workload: W, threads: u32, length: Length) -> Work {
    let operations_each = match length {
        Length::Time(_) => u64::MAX,
        Length::Operations(total, _) => total.div_ceil(u64::from(threads)),
    };
    let clock = Clock { stopped: AtomicBool::new(false), operations_each };
    let [arrived, gate, left, dismissed] = Default::default();
    let crew: &'static Crew<W> =
        Box::leak(Box::new(Crew { workload, clock, arrived, gate, left, dismissed }));
    let posts: Vec<*mut Post<W>> = (0..threads)
        .map(|index| {
            let random = Random::seeded(u64::from(index));
            let worker = Worker { index: index as usize, random, operations: 0, previous: None };
            Box::into_raw(Box::new(Post { crew, worker }))
        })
        .collect();
    posts.iter().for_each(|&post| start_thread(post));
    crew.arrived.wait_for(threads);

    let start = Moment::now();
    crew.gate.raise();
    let deadline = match length {
        Length::Time(duration) => {
            std::thread::sleep(duration);
            Some(Instant::now())
        }
        // Half of the workers have finished, the rest still work: the last moment that is under load.
        Length::Operations(_, most) => {
            let deadline = most.map(|most| Instant::now() + most);
            crew.left.wait_until(threads.div_ceil(2), deadline);
            deadline
        }
    };
    let end_rss_kib = process::resident_kib();
    crew.left.wait_until(threads, deadline);
    // For those who are late.
    crew.clock.stopped.store(deadline.is_some(), Ordering::Relaxed);
    crew.left.wait_for(threads);
    let elapsed = start.until(Moment::now());
    crew.dismissed.raise();

    // SAFETY: every worker has left, so no thread uses its post any more; each came from Box::into_raw.
    let posts: Vec<Box<Post<W>>> = posts.into_iter().map(|post| unsafe { Box::from_raw(post) }).collect();
    posts.iter().filter_map(|post| post.worker.previous).for_each(join);
    crew.workload.clean_up();
    Work { operations: posts.iter().map(|post| post.worker.operations).sum(), elapsed, end_rss_kib }
}

extern "C" fn thread_main<W: Workload>(post: *mut c_void) -> *mut c_void {
    let post: *mut Post<W> = post.cast();
    // SAFETY: exactly one thread at a time holds a post: this one, until it starts its successor or leaves.
    let Post { crew, worker } = unsafe { &mut *post };
    match worker.previous.take() {
        Some(previous) => join(previous),
        None => {
            crew.workload.prepare(worker);
            crew.arrived.raise();
            crew.gate.wait_for(1);
        }
    }
    crew.workload.turn(worker, &crew.clock);
    // SAFETY: pthread_self has no preconditions.
    worker.previous = Some(unsafe { libc::pthread_self() });
    if W::GENERATIONS && !crew.clock.is_over(worker) {
        start_thread(post);
    } else {
        crew.workload.leave(worker);
        crew.left.raise();
        crew.dismissed.wait_for(1);
    }
    std::ptr::null_mut()
}

fn start_thread<W: Workload>(post: *mut Post<W>) {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are initialised before use and destroyed after; the post stays valid until its
    // worker has left, which only the new thread can bring about.
    let refused = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        let refused =
            libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), thread_main::<W>, post.cast());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        refused
    };
    if refused != 0 {
        let reason = std::io::Error::from_raw_os_error(refused);
        eprintln!("vcm-load: cannot start a thread: {reason}; raise `ulimit -u` or use fewer --threads");
        std::process::exit(3);
    }
}

fn join(thread: libc::pthread_t) {
    // SAFETY: joined once: the thread that takes a handle out of `previous` owns it.
    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
}
