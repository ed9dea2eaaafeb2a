//! A program that is linked with google/tcmalloc for its Rust half; its C half is the system's malloc, or ours by
//! LD_PRELOAD. Threads fill blocks of both, hand them to each other, change their CPU and check what is in them.
//! `google SECONDS`

use std::sync::Mutex;
use std::time::{Duration, Instant};

#[global_allocator]
static GLOBAL: tcmalloc_better::TCMalloc = tcmalloc_better::TCMalloc;

const THREADS: u8 = 8;
const PLACES: usize = 512;

/// Blocks of one content, of either heap.
enum Block {
    Rust(Vec<u8>),
    C(*mut u8, usize, u8),
}

// SAFETY: a block has one owner, and both heaps take it back from any thread.
unsafe impl Send for Block {}

impl Block {
    fn new(is_rust: bool, bytes: usize, content: u8) -> Self {
        if is_rust {
            return Block::Rust(vec![content; bytes]);
        }
        // SAFETY: the block is written within its bounds.
        unsafe {
            let block: *mut u8 = libc::malloc(bytes).cast();
            assert!(!block.is_null(), "there is no memory");
            block.write_bytes(content, bytes);
            Block::C(block, bytes, content)
        }
    }

    fn check(self) {
        let is_whole = match &self {
            Block::Rust(bytes) => bytes.iter().all(|byte| Some(byte) == bytes.first()),
            // SAFETY: the block is ours until it is freed below.
            Block::C(block, bytes, content) => unsafe {
                std::slice::from_raw_parts(*block, *bytes).iter().all(|byte| byte == content)
            },
        };
        assert!(is_whole, "a block's contents have changed");
        if let Block::C(block, ..) = self {
            // SAFETY: malloc gave it, and nobody else has it.
            unsafe { libc::free(block.cast()) };
        }
    }
}

fn work(number: u8, until: Instant, places: &[Mutex<Option<Block>>]) -> u64 {
    let mut seed = u32::from(number) * 7919 + 1;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed as usize >> 8
    };
    let mut rounds = 0;
    while Instant::now() < until {
        for _ in 0..1000 {
            let bytes = 1 + if next() % 64 == 0 { next() % 100_000 } else { next() % 1500 };
            let block = Block::new(next() % 2 == 0, bytes, next() as u8);
            let before = places[next() % PLACES].lock().unwrap().replace(block);
            if let Some(before) = before {
                before.check();
            }
            rounds += 1;
        }
        // SAFETY: plain data, and a set of CPUs of which one is there.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(next() % libc::sysconf(libc::_SC_NPROCESSORS_ONLN) as usize, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
        }
    }
    rounds
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(3);
    let until = Instant::now() + Duration::from_secs(seconds);
    let places: Vec<_> = (0..PLACES).map(|_| Mutex::new(None)).collect();
    let rounds: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn({ let places = &places; move || work(number, until, places) })).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    for place in places {
        if let Some(block) = place.into_inner().unwrap() {
            block.check();
        }
    }
    assert!(rounds > 1000, "hardly anything was allocated");
    println!("{}", if is_on_cpus() { "caches of CPUs" } else { "caches of threads" });
}

fn is_on_cpus() -> bool {
    unsafe extern "C" {
        fn MallocExtension_Internal_GetPerCpuCachesActive() -> bool;
    }
    // SAFETY: it reads a flag.
    unsafe { MallocExtension_Internal_GetPerCpuCachesActive() }
}
