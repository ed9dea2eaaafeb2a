//! Fibers that continue on another thread after every pause, with the allocator inlined into them: blocks keep their contents.
//!
//!     cargo run --release -p vcmalloc --example fibers -- 4 64 1000000      threads, fibers, blocks in all

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

#[global_allocator]
static ALLOCATOR: vcmalloc::Vcmalloc = vcmalloc::Vcmalloc;

const STACK_BYTES: usize = 64 << 10;
const KEPT_BLOCKS: usize = 40;

/// Keeps the registers that a function must keep on this stack, whose pointer goes to `kept`, and continues on the other.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(kept: *mut usize, stack_pointer: usize) {
    core::arch::naked_asm!(
        "push rbp; push rbx; push r12; push r13; push r14; push r15",
        "mov [rdi], rsp; mov rsp, rsi",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp; ret",
    )
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn first() {
    core::arch::naked_asm!("mov rdi, r12; call {body}; ud2", body = sym body)
}

/// Words on a new stack, and those of them that have the fiber and `first`.
#[cfg(target_arch = "x86_64")]
const FRAME: (usize, usize, usize) = (9, 3, 6);

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(kept: *mut usize, stack_pointer: usize) {
    core::arch::naked_asm!(
        "stp x19, x20, [sp, #-160]!; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]; stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]",
        "mov x9, sp; str x9, [x0]; mov sp, x1",
        "ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]; ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]; ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]; ldp x19, x20, [sp], #160; ret",
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn first() {
    core::arch::naked_asm!("mov x0, x19; bl {body}; brk #1", body = sym body)
}

#[cfg(target_arch = "aarch64")]
const FRAME: (usize, usize, usize) = (20, 0, 11);

struct Fiber {
    stack_pointer: usize,
    /// Of the thread that runs it now.
    thread_stack_pointer: usize,
    /// The thread that ran it last.
    last: usize,
    number: u64,
    blocks: usize,
    is_done: bool,
    _stack: Vec<u128>,
}

/// A fiber that no other thread has. Its own stack uses it too while it runs, so there is no reference to it.
struct Held(*mut Fiber);

// SAFETY: one thread at a time has it.
unsafe impl Send for Held {}

impl Held {
    fn new(number: usize, blocks: usize) -> Held {
        let mut stack = vec![0u128; STACK_BYTES / 16];
        let end = stack.as_mut_ptr_range().end.cast::<usize>();
        let (words, own, start) = FRAME;
        let mut fiber = Box::new(Fiber {
            stack_pointer: 0,
            thread_stack_pointer: 0,
            last: usize::MAX,
            number: number as u64,
            blocks,
            is_done: false,
            _stack: stack,
        });
        // SAFETY: the words lie at the end of the stack that was just made.
        unsafe {
            let frame = end.sub(words);
            frame.add(own).write((&raw mut *fiber).expose_provenance());
            frame.add(start).write(first as *const () as usize);
            fiber.stack_pointer = frame.expose_provenance();
        }
        Held(Box::into_raw(fiber))
    }

    /// Runs the fiber until it pauses; whether it is done.
    fn resume(&self, thread: usize) -> bool {
        // SAFETY: no other thread has this fiber, and its stack is as it was when it paused.
        unsafe {
            switch(&raw mut (*self.0).thread_stack_pointer, (*self.0).stack_pointer);
            (*self.0).last = thread;
            (*self.0).is_done
        }
    }
}

/// On a fiber's stack: returns when a thread continues it.
fn pause(fiber: *mut Fiber) {
    // SAFETY: the thread's stack is as it was when it continued this fiber.
    unsafe { switch(&raw mut (*fiber).stack_pointer, (*fiber).thread_stack_pointer) }
}

extern "C" fn body(fiber: *mut Fiber) {
    // SAFETY: `Held::new` put it there, and it lives until it is done.
    let (number, blocks) = unsafe { ((*fiber).number, (*fiber).blocks) };
    work(fiber, number, blocks);
    // SAFETY: the same.
    unsafe { (*fiber).is_done = true };
    pause(fiber);
}

/// Inlined into it, the allocator could be asked for several blocks by what was found once of a thread.
fn work(fiber: *mut Fiber, number: u64, blocks: usize) {
    let mut random = number | 1;
    let mut kept: Vec<Box<[u64]>> = Vec::with_capacity(KEPT_BLOCKS);
    let mut names: Vec<String> = Vec::new();
    for round in 0..blocks {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let words = (random >> 33) as usize % if round % 64 == 0 { 3000 } else { 40 };
        let block = vec![number ^ words as u64; words].into_boxed_slice();
        drop(black_box(Box::new(number)));
        pause(fiber);
        drop(black_box(Box::new([number; 3])));
        names.push(format!("fiber {number} in round {round}"));
        if kept.len() == KEPT_BLOCKS {
            let old = kept.swap_remove(random as usize % KEPT_BLOCKS);
            assert!(old.iter().all(|word| *word == number ^ old.len() as u64), "a block was not kept");
            pause(fiber);
            drop(old);
            assert!(
                names.iter().all(|name| name.starts_with(&format!("fiber {number} "))),
                "a name was not kept"
            );
            names.clear();
        }
        kept.push(block);
    }
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let (threads, fibers, blocks) =
        (words.next().unwrap_or(4), words.next().unwrap_or(64), words.next().unwrap_or(200_000usize));
    let (give, take) = mpsc::channel::<Held>();
    (0..fibers).for_each(|number| give.send(Held::new(number, blocks / fibers)).expect("it is taken"));
    let (take, done) = (Mutex::new(take), AtomicUsize::new(0));
    let continued = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (take, done, continued, give) = (&take, &done, &continued, give.clone());
            scope.spawn(move || {
                while done.load(Ordering::Acquire) < fibers {
                    let Some(fiber) = take.lock().expect("no thread failed").try_recv().ok() else {
                        std::thread::yield_now();
                        continue;
                    };
                    // SAFETY: no other thread has it.
                    if unsafe { (*fiber.0).last } == thread {
                        give.send(fiber).expect("it is taken");
                        std::thread::yield_now();
                        continue;
                    }
                    continued.fetch_add(1, Ordering::Relaxed);
                    if fiber.resume(thread) {
                        // SAFETY: it is used no more.
                        drop(unsafe { Box::from_raw(fiber.0) });
                        done.fetch_add(1, Ordering::Release);
                    } else {
                        give.send(fiber).expect("it is taken");
                    }
                }
            });
        }
    });
    assert!(continued.into_inner() > blocks / fibers * fibers);
    println!("all blocks are kept");
}
