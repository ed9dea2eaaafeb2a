//! Any sequence of calls of jemalloc's interface against a model of its arenas and blocks: mallctl by names and by places, right and wrong ones,
//! with values of any length; mallocx and its family; options of any text.
//!
//! The heap is that of the crate in the place of tikv-jemalloc-sys, beside the process's own: it is one for all inputs, so each
//! input leaves no block and no arena behind.

mod calls;
mod names;

use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

use arbitrary::Arbitrary;
use libc::{EAGAIN, EFAULT, EINVAL, ENOENT, EPERM};
use tikv_jemalloc_sys as sys;

use crate::support::steps;
use calls::{Answer, New, Old, Way, count, ctl, mib_of, read, set};
use names::Named;

#[repr(transparent)]
struct Text(*const c_char);
// SAFETY: a constant is read by all.
unsafe impl Sync for Text {}

/// The program's options, which jemalloc's users define by this name. The prefix is below no folder, so no file is written.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONF: Text = Text(c"prof:true,lg_prof_sample:12,prof_prefix:/nonexistent/x".as_ptr());

/// Receives the lines that would go to stderr.
#[unsafe(export_name = "_rjem_malloc_message")]
static MESSAGE: unsafe extern "C" fn(*mut c_void, *const c_char) = take_line;

unsafe extern "C" fn take_line(_: *mut c_void, text: *const c_char) {
    // SAFETY: the library passes a C string.
    let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_bytes();
    assert!(text.len() < 1024, "a line is cut");
}

const MOST_ARENAS: usize = 12;
const MOST_BLOCKS: usize = 100;
/// The interface has these errors.
const ERRORS: [c_int; 5] = [EINVAL, EPERM, EFAULT, ENOENT, EAGAIN];

#[derive(Arbitrary, Clone, Debug)]
enum Step {
    /// mallctl by a name, or mallctlbymib by the place of it.
    Ask(Named, Old, New, bool),
    /// mallctlbymib by any place.
    Place(u8, [u8; 7], u64, Old, New, bool),
    /// mallctlnametomib with room for so many parts.
    Find(Named, u8),
    /// mallocx: bytes, the logarithm of the alignment, flags, an arena.
    Take(u16, u8, u8, u8),
    TakeLarge(u8, u8, u8),
    /// rallocx.
    Resize(u8, u16, u8, u8),
    /// xallocx.
    Grow(u8, u16, u16),
    Free(u8, u8),
    /// arenas.create, arena.<i>.destroy, arena.<i>.reset, thread.arena: by the right values.
    Create,
    Destroy(u8),
    Reset(u8),
    Enter(u8),
    /// Options as the variable has them: one of the tree with any value, or any text.
    Options(u16, Vec<u8>),
    Print(u8),
}

struct Block {
    address: *mut u8,
    bytes: usize,
    arena: usize,
    mark: u8,
}

impl Block {
    fn fill(&mut self, mark: u8) {
        self.mark = mark;
        // SAFETY: the block is the target's, and so long.
        unsafe { self.address.write_bytes(mark, self.bytes) };
    }

    fn holds(&self, bytes: usize) -> bool {
        // SAFETY: the block is the target's, and so long.
        unsafe { std::slice::from_raw_parts(self.address, bytes.min(self.bytes)) }
            .iter()
            .all(|byte| *byte == self.mark)
    }
}

fn usable_bytes(block: *mut u8) -> usize {
    // SAFETY: callers pass a block that is in use.
    unsafe { sys::sallocx(block.cast(), 0) }
}

/// The state of the heap, as the calls have it.
#[derive(Default)]
struct Model {
    /// Arenas that were made and not destroyed.
    arenas: Vec<usize>,
    /// Arenas that were destroyed, and whose number no new one has.
    gone: Vec<usize>,
    blocks: Vec<Block>,
    /// The arena that serves the thread.
    current: usize,
    /// Caches that were made and not destroyed.
    caches: Vec<u32>,
    mark: u8,
}

impl Model {
    fn exists(&self, arena: usize) -> bool {
        arena == 0 || self.arenas.contains(&arena)
    }

    /// An arena that may be one: mostly one that there is.
    fn arena(&self, which: u8) -> usize {
        let which = usize::from(which);
        match which % 8 {
            0 => 0,
            1 if !self.gone.is_empty() => self.gone[which / 8 % self.gone.len()],
            2 => which * 16,
            _ if self.arenas.is_empty() => 0,
            _ => self.arenas[which / 8 % self.arenas.len()],
        }
    }

    fn came(&mut self, arena: usize) {
        assert!(arena != 0 && !self.arenas.contains(&arena), "the number of a new arena is new: {arena}");
        self.gone.retain(|gone| *gone != arena);
        self.arenas.push(arena);
    }

    fn ended(&mut self, arena: usize) {
        assert!(self.arenas.contains(&arena), "arena {arena} can end");
        self.arenas.retain(|known| *known != arena);
        self.blocks.retain(|block| block.arena != arena);
        self.gone.push(arena);
    }

    /// A call by a name with success: what follows from it.
    fn follow(&mut self, name: &str, number: usize, new: &New, answer: &Answer) {
        match name {
            "arenas.create" => self.came(answer.number() as usize),
            "tcache.create" => {
                let cache = answer.number() as u32;
                assert!(!self.caches.contains(&cache), "the number of a new cache is new: {cache}");
                self.caches.push(cache);
            }
            "tcache.destroy" => {
                let cache = new.as_u32();
                assert!(cache.is_some_and(|cache| self.caches.contains(&cache)), "{cache:?}");
                self.caches.retain(|known| Some(*known) != cache);
            }
            "arena.#.destroy" => self.ended(number),
            "arena.#.reset" => self.blocks.retain(|block| block.arena != number),
            "thread.arena" => {
                if let Some(wanted) = new.as_u32() {
                    self.current = wanted as usize;
                }
            }
            _ => {}
        }
    }

    /// The errors that a name has because of its arena.
    fn check_arena(&self, name: &str, number: usize, error: c_int) {
        if self.gone.contains(&number) {
            let by_value = name.starts_with("arena.#.dirty")
                || name.starts_with("arena.#.muzzy")
                || ["arena.#.dss", "arena.#.extent_hooks", "arena.#.reset", "arena.#.destroy"]
                    .contains(&name);
            // A wrong length is told first, or later.
            assert!(!by_value || [EFAULT, EINVAL, EPERM].contains(&error), "{name} of {number}: {error}");
            assert!(!name.starts_with("stats.arenas.#.") || error == ENOENT, "{name} of {number}: {error}");
        }
        if ["arena.#.destroy", "arena.#.reset"].contains(&name) && !self.arenas.contains(&number) {
            assert_ne!(error, 0, "{name} of {number}");
        }
    }

    fn ask(&mut self, way: &Way, name: &str, number: usize, old: &Old, new: &New) {
        // More arenas than a few make an input slow.
        if name == "arenas.create" && self.arenas.len() >= MOST_ARENAS {
            return;
        }
        let answer = ctl(way, name, old, new);
        assert!(answer.error == 0 || ERRORS.contains(&answer.error), "{name}: {}", answer.error);
        self.check_arena(name, number, answer.error);
        if answer.error == 0 {
            self.follow(name, number, new, &answer);
        } else if name == "arenas.create" {
            self.find_unknown();
        }
    }

    /// An arena may have been made whose number the caller did not get.
    fn find_unknown(&mut self) {
        for arena in 1..read::<u32>("arenas.narenas") as usize {
            let name = format!("arena.{arena}.initialized");
            assert!(!read::<bool>(&name) || self.arenas.contains(&arena), "arena {arena} has no owner");
        }
    }

    fn take(&mut self, bytes: usize, flags: c_int, arena: Option<usize>) {
        let flags = flags | arena.map_or(0, sys::MALLOCX_ARENA);
        // SAFETY: any size but 0 and any flags are allowed.
        let told = unsafe { sys::nallocx(bytes.max(1), flags) };
        let before = count("thread.allocated");
        // SAFETY: any size and any flags are allowed.
        let address: *mut u8 = unsafe { sys::mallocx(bytes, flags) }.cast();
        let after = count("thread.allocated");
        if address.is_null() {
            assert_eq!(after, before, "no block counts nothing");
            // An alignment may be more than there are addresses.
            let is_small = told != 0 && told < 1 << 30 && flags & 63 < 25;
            let can_be = is_small && arena.is_none_or(|arena| self.exists(arena));
            assert!(!can_be, "{bytes} bytes with flags {flags:x} are there");
            return;
        }
        let usable = usable_bytes(address);
        assert!(arena.is_none_or(|arena| self.exists(arena)), "no block of an arena that is gone");
        assert!(usable >= bytes && usable >= 1, "{usable} for {bytes}");
        // A guarded sample has whole units.
        assert!(
            usable == told || usable == told.next_multiple_of(16384),
            "nallocx is {told}, the block has {usable}"
        );
        assert!(address.addr().is_multiple_of(1 << (flags & 63)), "it is aligned");
        assert_eq!(after - before, usable as u64, "it is counted");
        let arena = arena.unwrap_or(self.current);
        assert_eq!(calls::arena_of(address.addr()), Ok(arena as u32));
        let mut block = Block { address, bytes: usable, arena, mark: 0 };
        assert!(flags & sys::MALLOCX_ZERO == 0 || block.holds(usable), "it is cleared");
        self.mark = self.mark.wrapping_add(1);
        block.fill(self.mark);
        self.blocks.push(block);
    }

    fn resize(&mut self, which: u8, bytes: usize, flags: c_int, arena: Option<usize>) {
        if self.blocks.is_empty() {
            return;
        }
        let at = usize::from(which) % self.blocks.len();
        let (is_there, has_flag) = (arena.is_none_or(|arena| self.exists(arena)), arena.is_some());
        let block = &mut self.blocks[at];
        let wanted = flags | arena.map_or(0, sys::MALLOCX_ARENA);
        // SAFETY: the block is the target's, and the address before is not used again where it moved.
        let moved: *mut u8 = unsafe { sys::rallocx(block.address.cast(), bytes.max(1), wanted) }.cast();
        if moved.is_null() {
            assert!(block.holds(block.bytes), "a block that could not be resized is as it was");
            assert!(!is_there || bytes > 1 << 30 || flags & 63 > 20, "{bytes} bytes are there");
            return;
        }
        assert!(is_there, "no block of an arena that is gone");
        let usable = usable_bytes(moved);
        assert!(usable >= bytes);
        let before = block.bytes;
        *block = Block { address: moved, bytes: usable, ..*block };
        assert!(block.holds(before.min(bytes)), "contents go along");
        if has_flag {
            block.arena = arena.unwrap_or(0);
        }
        assert_eq!(calls::arena_of(moved.addr()), Ok(block.arena as u32));
        if flags & sys::MALLOCX_ZERO != 0 && usable > before {
            // SAFETY: the block's own bytes.
            let rest = unsafe { std::slice::from_raw_parts(moved.add(before), usable - before) };
            assert!(rest.iter().all(|byte| *byte == 0), "what is new is cleared");
        }
        self.mark = self.mark.wrapping_add(1);
        block.fill(self.mark);
    }

    fn grow(&mut self, which: u8, bytes: usize, extra: usize) {
        if self.blocks.is_empty() {
            return;
        }
        let at = usize::from(which) % self.blocks.len();
        let block = &mut self.blocks[at];
        let before = block.bytes;
        // SAFETY: the block is the target's, and stays where it is.
        let usable = unsafe { sys::xallocx(block.address.cast(), bytes.max(1), extra, 0) };
        assert_eq!(usable, usable_bytes(block.address));
        block.bytes = usable;
        assert!(block.holds(before), "contents stay");
        let mark = block.mark;
        block.fill(mark);
    }

    fn free(&mut self, which: u8, how: u8) {
        if self.blocks.is_empty() {
            return;
        }
        let block = self.blocks.swap_remove(usize::from(which) % self.blocks.len());
        assert!(block.holds(block.bytes), "contents stay");
        let before = count("thread.deallocated");
        // SAFETY: the block is the target's, has so many bytes, and is in no list any more.
        unsafe {
            match how % 3 {
                0 => sys::dallocx(block.address.cast(), 0),
                1 => sys::free(block.address.cast()),
                _ => sys::sdallocx(block.address.cast(), block.bytes, 0),
            }
        }
        assert_eq!(count("thread.deallocated") - before, block.bytes as u64, "it is counted");
    }

    fn destroy(&mut self, arena: usize) {
        let is_made = self.arenas.contains(&arena);
        let error = calls::do_it(&format!("arena.{arena}.destroy"));
        let can = is_made && arena != self.current;
        assert_eq!(error == 0, can, "arena {arena} ends by {error}");
        if can {
            self.ended(arena);
        }
    }

    fn enter(&mut self, arena: usize) {
        let error = set("thread.arena", arena as u32);
        assert_eq!(error == 0, self.exists(arena), "arena {arena}: {error}");
        assert!(error == 0 || error == EFAULT, "arena {arena}: {error}");
        if error == 0 {
            self.current = arena;
        }
    }

    /// Nothing is left, and settings are as they were.
    fn end(mut self) {
        for block in &self.blocks {
            assert!(block.holds(block.bytes), "contents stay");
        }
        assert_eq!(set("thread.arena", 0u32), 0);
        for block in self.blocks.drain(..) {
            // SAFETY: the block is the target's, and in no list any more.
            unsafe { sys::dallocx(block.address.cast(), 0) };
        }
        self.find_unknown();
        for arena in self.arenas {
            assert_eq!(calls::do_it(&format!("arena.{arena}.destroy")), 0, "arena {arena}");
        }
        for cache in self.caches {
            assert_eq!(set("tcache.destroy", cache), 0, "cache {cache}");
        }
        calls::restore();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ask(named, old, new, by_place) => {
                let (name, number) = named.resolve(|which| self.arena(which));
                let way = Way::Name(name.clone());
                let known = names::pattern(&name);
                let place = mib_of(&name);
                assert_eq!(known.is_some(), place.is_some(), "{name:?} has a place");
                let known = known.unwrap_or("");
                if let Some(place) = place.filter(|_| by_place) {
                    if calls::is_a_question(known, &new) && self.arenas.len() < MOST_ARENAS {
                        calls::compare(&name, known, &place, &old, &new);
                        return;
                    }
                    return self.ask(&Way::Place(place, false), known, number, &old, &new);
                }
                self.ask(&way, known, number, &old, &new);
            }
            Step::Place(parts, words, odd, old, new, is_odd) => {
                let mut place: Vec<usize> = words.iter().map(|word| usize::from(*word) * 2).collect();
                // One part is any word.
                place[(odd % 7) as usize] = (odd >> 3) as usize;
                place.truncate(usize::from(parts % 8));
                let known = sys::trial::name_at(&place).unwrap_or("");
                let number = place.get(1 + usize::from(known.starts_with("stats."))).copied().unwrap_or(0);
                self.ask(&Way::Place(place, is_odd), known, number, &old, &new);
            }
            Step::Find(named, room) => {
                let (name, _) = named.resolve(|which| self.arena(which));
                calls::find(&name, usize::from(room % 12));
            }
            Step::Take(bytes, shift, flags, arena) if self.blocks.len() < MOST_BLOCKS => {
                let arena = (flags & 1 != 0).then(|| self.arena(arena));
                let bits = c_int::from(shift % 14) | if flags & 2 != 0 { sys::MALLOCX_ZERO } else { 0 };
                self.take(usize::from(bytes), bits | calls::cache_flags(flags), arena);
            }
            Step::TakeLarge(units, shift, arena) if self.blocks.len() < MOST_BLOCKS => {
                let arena = (arena & 1 != 0).then(|| self.arena(arena / 2));
                // Some are larger than memory, or aligned to more than it.
                let bytes = (usize::from(units) + 1).wrapping_shl(u32::from(shift) / 4 % 64).min(1 << 63);
                let bytes = if bytes > 1 << 24 && bytes < 1 << 40 { bytes % (1 << 21) } else { bytes };
                let align = if shift % 4 == 3 { c_int::from(units % 64) } else { 0 };
                let align = if (25..44).contains(&align) { 3 } else { align };
                self.take(bytes, align, arena);
            }
            Step::Resize(which, bytes, flags, arena) => {
                let arena = (flags & 1 != 0).then(|| self.arena(arena));
                let bits = if flags & 2 != 0 { sys::MALLOCX_ZERO } else { 0 };
                let bytes = usize::from(bytes) << (flags >> 6);
                self.resize(which, bytes, bits | c_int::from(flags >> 2 & 7), arena);
            }
            Step::Grow(which, bytes, extra) => self.grow(which, bytes.into(), extra.into()),
            Step::Free(which, how) => self.free(which, how),
            Step::Create if self.arenas.len() < MOST_ARENAS => {
                let arena = read::<u32>("arenas.create");
                self.came(arena as usize);
            }
            Step::Destroy(which) => self.destroy(self.arena(which)),
            Step::Reset(which) => {
                let arena = self.arena(which);
                let error = calls::do_it(&format!("arena.{arena}.reset"));
                assert_eq!(error == 0, self.arenas.contains(&arena), "arena {arena}: {error}");
                self.blocks.retain(|block| error != 0 || block.arena != arena);
            }
            Step::Enter(which) => self.enter(self.arena(which)),
            Step::Options(which, text) => calls::options(which, &text),
            Step::Print(letters) => calls::print(letters),
            _ => {}
        }
    }
}

/// The heap is one: a test that runs targets on several threads would find another's arenas.
static ONE: Mutex<()> = Mutex::new(());

pub fn run(input: &[u8]) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert!(read::<bool>("opt.prof"), "the program's options are found");
    let mut model = Model::default();
    for step in steps::<Step>(input, 200) {
        model.step(step);
    }
    model.end();
}
