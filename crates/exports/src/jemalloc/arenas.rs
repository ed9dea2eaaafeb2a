//! Arenas: 0 is the process's own heap, with all threads' caches; each other one is a heap of a tenant, made by `arenas.create`.
//!
//! Owns the table that leads from an arena's number to its heap. No lock: a place is taken and left by one exchange, so
//! signal handlers and children of fork find it whole.

use super::io::Outcome;
use crate::c::undisturbed;
use crate::{blocks, heap};
use core::ffi::c_int;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use libc::{EAGAIN, EFAULT};
use vcmalloc_core::base::text::{Buffer, put_decimal, put_str};
use vcmalloc_core::heap::{Blocks, Ending, HeapId, Made};

/// As many as flags can name.
pub const MOST: usize = (1 << 12) - 1;
/// In place of a number: all arenas; those that were destroyed.
pub const ALL: usize = 4096;
pub const DESTROYED: usize = 4097;
/// In the table: none, and one that is being made or ended.
const NONE: u64 = HeapId::NONE.0;
const CHANGING: u64 = u64::MAX;

struct Arena {
    heap: AtomicU64,
    /// Threads that it serves.
    threads: AtomicU32,
    /// Milliseconds as they were set; `decay::NOT_SET` where they were not.
    dirty: AtomicI64,
    muzzy: AtomicI64,
    /// The address of the table of hooks that the program set; 0: none.
    hooks: AtomicUsize,
}

pub const NOT_SET: i64 = i64::MIN;

static ARENAS: [Arena; MOST] = [const {
    Arena {
        heap: AtomicU64::new(NONE),
        threads: AtomicU32::new(0),
        // Zero pages are not in the file: the values are kept with all bits of the sign turned.
        dirty: AtomicI64::new(0),
        muzzy: AtomicI64::new(0),
        hooks: AtomicUsize::new(0),
    }
}; MOST];

/// One more than the greatest number that was ever used.
static COUNT: AtomicU32 = AtomicU32::new(1);

pub fn count() -> usize {
    COUNT.load(Ordering::Acquire) as usize
}

/// The heap of an arena that there is.
pub fn heap_of(number: usize) -> Option<HeapId> {
    if number == 0 {
        return Some(HeapId::OWN);
    }
    let id = ARENAS.get(number)?.heap.load(Ordering::Acquire);
    (id != NONE && id != CHANGING && heap().is_heap(HeapId(id))).then_some(HeapId(id))
}

/// The numbers of all that there are.
pub fn all() -> impl Iterator<Item = (usize, HeapId)> {
    (0..count()).filter_map(|number| Some((number, heap_of(number)?)))
}

/// The arena of the block at an address.
pub fn of_block(address: usize) -> Option<usize> {
    use crate::Blocks;
    match heap().owner_heap(address) {
        // A heap that was made by another interface is no arena: its blocks count with the process's own.
        Some(id) => Some(all().find(|(_, of)| *of == id).map_or(0, |(number, _)| number)),
        None => (address != 0 && crate::blocks().owns(address)).then_some(0),
    }
}

pub fn create() -> Result<usize, c_int> {
    for (number, arena) in ARENAS.iter().enumerate().skip(1) {
        let taken = arena.heap.compare_exchange(NONE, CHANGING, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            continue;
        }
        let mut name = [0u8; 16];
        let mut text = Buffer::new(&mut name);
        put_str(&mut text, "arena ");
        put_decimal(&mut text, number as u64);
        let made =
            Made { name: text.as_bytes(), parent: HeapId::OWN, limit: None, on_limit: None, argument: 0 };
        let made = undisturbed(|| heap().make_heap(made));
        arena.threads.store(0, Ordering::Relaxed);
        arena.hooks.store(0, Ordering::Relaxed);
        [&arena.dirty, &arena.muzzy].iter().for_each(|time| time.store(0, Ordering::Relaxed));
        // Pairs with the Acquire in `heap_of`: who finds the heap finds an arena that is new.
        arena.heap.store(made.map_or(NONE, |id| id.0), Ordering::Release);
        return match made {
            Ok(_) => {
                COUNT.fetch_max(number as u32 + 1, Ordering::Release);
                Ok(number)
            }
            Err(_) => Err(EAGAIN),
        };
    }
    Err(EAGAIN)
}

/// An arena that was made by `create`; EFAULT where it is none.
fn made(number: usize) -> Result<(&'static Arena, HeapId), c_int> {
    let id = heap_of(number).filter(|id| *id != HeapId::OWN).ok_or(EFAULT)?;
    Ok((ARENAS.get(number).ok_or(EFAULT)?, id))
}

/// Frees all its blocks.
pub fn reset(number: usize) -> Outcome {
    let (_, id) = made(number)?;
    undisturbed(|| blocks().reset_heap(id)).map_err(|_| EFAULT)
}

/// Ends it. While it serves threads that is refused.
pub fn destroy(number: usize) -> Outcome {
    let (arena, id) = made(number)?;
    if arena.threads.load(Ordering::Relaxed) != 0 {
        return Err(EFAULT);
    }
    let taken = arena.heap.compare_exchange(id.0, CHANGING, Ordering::Acquire, Ordering::Relaxed);
    taken.map_err(|_| EFAULT)?;
    let ended = undisturbed(|| blocks().end_heap(id, Ending::FreeAll));
    arena.heap.store(if ended.is_ok() { NONE } else { id.0 }, Ordering::Release);
    ended.map_err(|_| EFAULT)
}

/// Threads that an arena serves, of those that chose one.
pub fn threads(number: usize) -> u32 {
    ARENAS.get(number).map_or(0, |arena| arena.threads.load(Ordering::Relaxed))
}

/// A thread comes to an arena, or leaves it.
pub fn enter(number: usize) {
    if let Some(arena) = ARENAS.get(number) {
        arena.threads.fetch_add(1, Ordering::Relaxed);
    }
}

pub fn leave(number: usize) {
    let less = |threads: u32| threads.checked_sub(1);
    if let Some(arena) = ARENAS.get(number) {
        _ = arena.threads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// In a child of fork no thread is there but the caller: none is served, and none makes or ends an arena.
pub fn after_fork_in_child() {
    for arena in ARENAS.iter().take(count() + 1) {
        arena.threads.store(0, Ordering::Relaxed);
        // This thread itself may be at one, if a handler of its forked.
        if !heap().is_inside() {
            _ = arena.heap.compare_exchange(CHANGING, NONE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// A time of decay as it was set for an arena.
pub fn time(number: usize, is_dirty: bool) -> i64 {
    let Some(arena) = ARENAS.get(number) else { return NOT_SET };
    let time = if is_dirty { &arena.dirty } else { &arena.muzzy };
    time.load(Ordering::Relaxed) ^ NOT_SET
}

pub fn set_time(number: usize, is_dirty: bool, milliseconds: i64) {
    if let Some(arena) = ARENAS.get(number) {
        let time = if is_dirty { &arena.dirty } else { &arena.muzzy };
        time.store(milliseconds ^ NOT_SET, Ordering::Relaxed);
    }
}

/// The address of the table of hooks that was set for an arena; 0: none.
pub fn hooks(number: usize) -> usize {
    ARENAS.get(number).map_or(0, |arena| arena.hooks.load(Ordering::Relaxed))
}

pub fn set_hooks(number: usize, table: usize) {
    if let Some(arena) = ARENAS.get(number) {
        arena.hooks.store(table, Ordering::Relaxed);
    }
}
