//! Threads that work, then sleep for good and keep what an allocator has cached for them.
//!
//! Their stacks are shared memory, so that they do not look like heap, and cost no allocation.

use crate::load::signal::Signal;
use crate::memory::shared;
use std::ffi::c_void;
use std::mem::MaybeUninit;

const STACK_BYTES: usize = 256 << 10;

/// The arguments of a new thread.
struct Post<W: 'static> {
    crew: &'static Crew<W>,
    index: usize,
}

struct Crew<W> {
    work: W,
    done: Signal,
    forever: Signal,
}

/// A started crew.
pub struct Threads {
    done: &'static Signal,
    count: u32,
}

impl Threads {
    /// Until every thread's work has returned; the threads then still exist.
    pub fn wait(&self) {
        self.done.wait_for(self.count);
    }
}

/// Starts `count` threads that call `work` with 0, 1, 2, ...
pub fn start<W: Fn(usize) + Sync + 'static>(count: usize, work: W) -> Threads {
    let crew: &'static Crew<W> =
        Box::leak(Box::new(Crew { work, done: Signal::default(), forever: Signal::default() }));
    // SAFETY: any bytes are a stack, and all zero are valid bytes.
    let stacks: &mut [u8] = unsafe { shared::zeroed_array(count * STACK_BYTES) };
    // SAFETY: a post is written before its thread reads it.
    let posts: &mut [MaybeUninit<Post<W>>] = unsafe { shared::zeroed_array(count) };
    for (index, (stack, post)) in stacks.chunks_exact_mut(STACK_BYTES).zip(posts).enumerate() {
        start_one(stack, post.write(Post { crew, index }));
    }
    Threads { done: &crew.done, count: count as u32 }
}

/// Starts a crew and waits for its work.
pub fn run<W: Fn(usize) + Sync + 'static>(count: usize, work: W) {
    start(count, work).wait();
}

extern "C" fn thread_main<W: Fn(usize) + Sync + 'static>(post: *mut c_void) -> *mut c_void {
    // SAFETY: the post was made for this thread and stays for ever.
    let post = unsafe { &*post.cast::<Post<W>>() };
    (post.crew.work)(post.index);
    post.crew.done.raise();
    // Never raised. The thread goes on to exist, as a daemon's idle thread does.
    post.crew.forever.wait_for(1);
    std::ptr::null_mut()
}

fn start_one<W: Fn(usize) + Sync + 'static>(stack: &'static mut [u8], post: &'static mut Post<W>) {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are initialised before and destroyed after use; stack and post stay for ever.
    let refused = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstack(attributes.as_mut_ptr(), stack.as_mut_ptr().cast(), stack.len());
        let post = (&raw mut *post).cast();
        let refused = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), thread_main::<W>, post);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        refused
    };
    if refused != 0 {
        let reason = std::io::Error::from_raw_os_error(refused);
        eprintln!("vcm-memory-load: cannot start a thread: {reason}; raise `ulimit -u` or use fewer threads");
        std::process::exit(3);
    }
}
