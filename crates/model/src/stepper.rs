//! Steps through calls in this process: with the trap flag set the processor stops behind each instruction,
//! and the handler looks at the one that comes. A second process that steps would take a hundred times as
//! long where CPUs are busy.
//!
//! The handler allocates. So what is stepped through must not be the allocator of this program's own memory.

use crate::lines::Lines;
use crate::seen::{OfLock, Seen};
use crate::{counts, system};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, UsedMemory,
};
use rustc_hash::FxHashMap;
use std::arch::asm;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::rc::Rc;

/// Memory so near the stack's end, below and above, is the thread's own.
const STACK: (u64, u64) = (4096, 256 << 10);
/// The thread's own block, below its pointer and above.
const THREAD_BLOCK: (u64, u64) = (64 << 10, 4096);
const TRAP_FLAG: i64 = 0x100;

/// Whose calls are stepped through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Those of a run: actors are its virtual CPUs, and a line that nobody had yet belongs to another one.
    Run,
    /// Those of an allocator in a library: actors are threads, and what this program itself does is not
    /// looked at.
    Library,
}

struct Decoded {
    bytes: usize,
    memory: Vec<UsedMemory>,
    is_locked: bool,
    repeated: Option<Mnemonic>,
}

struct Stepper {
    whose: Whose,
    program: (u64, u64),
    own: Vec<(u64, u64)>,
    slabs: Vec<(u64, u64)>,
    decoded: FxHashMap<u64, Rc<Decoded>>,
    lines: Lines,
    lock_lines: FxHashMap<u64, ()>,
    places: FxHashMap<u64, u64>,
    depth: usize,
    counts: bool,
    seen: Seen,
    factory: InstructionInfoFactory,
}

struct Place(UnsafeCell<Option<Stepper>>);

// SAFETY: one thread steps at a time; the turns of `pair` see to that.
unsafe impl Sync for Place {}

static STEPPER: Place = Place(UnsafeCell::new(None));

thread_local! {
    static ACTOR: Cell<u16> = const { Cell::new(0) };
}

/// This thread is that actor.
pub fn is_actor(actor: u16) {
    ACTOR.set(actor);
}

/// Prepares. `own` is memory of the driver.
pub fn prepare(whose: Whose, mut own: Vec<(u64, u64)>) -> std::io::Result<()> {
    own.push((STEPPER.0.get().addr() as u64, STEPPER.0.get().addr() as u64 + size_of::<Place>() as u64));
    let mut slabs = system::slabs();
    slabs.sort_unstable();
    let stepper = Stepper {
        whose,
        program: program()?,
        own,
        slabs,
        decoded: FxHashMap::default(),
        lines: Lines::default(),
        lock_lines: FxHashMap::default(),
        places: FxHashMap::default(),
        depth: 0,
        counts: false,
        seen: Seen::default(),
        factory: InstructionInfoFactory::new(),
    };
    // SAFETY: nobody steps yet. The handler has the signature that SA_SIGINFO asks for.
    unsafe {
        *STEPPER.0.get() = Some(stepper);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO;
        match libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

/// An actor wrote there before.
pub fn wrote(address: u64, actor: u16) {
    // SAFETY: nobody steps.
    if let Some(stepper) = unsafe { &mut *STEPPER.0.get() } {
        stepper.lines.access(address, actor, true);
    }
}

/// From now on what is seen counts, so many calls.
pub fn count(calls: u64) {
    // SAFETY: nobody steps.
    if let Some(stepper) = unsafe { &mut *STEPPER.0.get() } {
        (stepper.counts, stepper.seen.calls) = (true, calls);
    }
}

/// The accesses that were seen.
pub fn seen() -> Seen {
    // SAFETY: nobody steps any more.
    let Some(stepper) = (unsafe { &mut *STEPPER.0.get() }) else { return Seen::default() };
    let mut places: Vec<_> = stepper.places.iter().map(|(place, times)| (*place, *times)).collect();
    places.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    places.truncate(12);
    Seen { places, ..stepper.seen.clone() }
}

/// Steps through what is done.
#[inline(always)]
pub fn stepped<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the flag makes the processor trap behind the next instruction; the handler is there.
    unsafe { asm!("pushfq", "or qword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG) };
    let result = work();
    // SAFETY: as above, the other way.
    unsafe { asm!("pushfq", "and qword ptr [rsp], {mask}", "popfq", mask = const !TRAP_FLAG) };
    result
}

fn program() -> std::io::Result<(u64, u64)> {
    let exe = std::env::current_exe()?;
    let (exe, maps) = (exe.to_string_lossy(), std::fs::read_to_string("/proc/self/maps")?);
    let ends = maps
        .lines()
        .filter(|line| line.ends_with(exe.as_ref()))
        .flat_map(|line| line.split([' ', '-']).take(2).filter_map(|end| u64::from_str_radix(end, 16).ok()));
    Ok(ends.fold((u64::MAX, 0), |(first, last), end| (first.min(end), last.max(end))))
}

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a context over, and the thread that steps is the only one that uses the
    // stepper.
    let (context, stepper) = unsafe { (&mut *context.cast::<libc::ucontext_t>(), &mut *STEPPER.0.get()) };
    if let Some(stepper) = stepper {
        stepper.step(&mut context.uc_mcontext.gregs);
    }
}

type Registers = [i64; 23];

impl Stepper {
    fn step(&mut self, registers: &mut Registers) {
        let at = registers[libc::REG_RIP as usize] as u64;
        let decoded = self.decode(at);
        let is_program = (self.program.0..self.program.1).contains(&at);
        if self.whose == Whose::Library && is_program {
            return;
        }
        self.seen.instructions += u64::from(self.counts);
        self.count_locks();
        for memory in &decoded.memory {
            let address = memory.virtual_address(0, |register, _, _| value(registers, register));
            if let Some(address) = address.filter(|address| self.is_looked_at(*address, registers)) {
                let writes = matches!(
                    memory.access(),
                    OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
                );
                self.access(address, writes, decoded.is_locked, at);
            }
        }
        if let Some(repeated) = decoded.repeated {
            repeat(repeated, decoded.bytes, registers);
        }
    }

    fn count_locks(&mut self) {
        let held = counts::told();
        if held.len() > self.depth
            && let Some((lock, rank)) = held.last()
        {
            self.lock_lines.insert(Lines::line(*lock as u64), ());
            if self.counts {
                self.of_lock(rank.name()).taken += 1;
            }
        }
        self.depth = held.len();
    }

    fn of_lock(&mut self, name: &str) -> &mut OfLock {
        let at = self.seen.locks.iter().position(|lock| lock.name == name).unwrap_or_else(|| {
            self.seen.locks.push(OfLock { name: name.to_owned(), ..OfLock::default() });
            self.seen.locks.len() - 1
        });
        &mut self.seen.locks[at]
    }

    fn is_looked_at(&self, address: u64, registers: &Registers) -> bool {
        let near = |at: u64, (below, above): (u64, u64)| {
            (at.wrapping_sub(below)..at.wrapping_add(above)).contains(&address)
        };
        let is_own = self.own.iter().any(|(begin, end)| (*begin..*end).contains(&address));
        let is_thread = self.whose == Whose::Run && near(thread_pointer(), THREAD_BLOCK);
        !near(registers[libc::REG_RSP as usize] as u64, STACK) && !is_own && !is_thread
    }

    fn access(&mut self, address: u64, writes: bool, is_locked: bool, place: u64) {
        let actor = if self.whose == Whose::Run { system::cpu() as u16 } else { ACTOR.get() };
        let met = self.lines.access(address, actor, writes);
        if !self.counts {
            return;
        }
        self.seen.actors[usize::from(actor) % 256 / 64] |= 1 << (actor % 64);
        self.seen.locked += u64::from(is_locked);
        self.seen.locked_on_shared += u64::from(is_locked && met.is_shared);
        let held = counts::told();
        // The actor that had a line before in the life of so many CPUs was most likely another one. A word of
        // the heap itself that is only read is in every cache.
        let is_read_only = !writes && (self.program.0..self.program.1).contains(&address);
        let is_new = self.whose == Whose::Run && met.is_new && !is_read_only && !self.is_slab(address);
        let comes = met.is_moved && (writes || met.was_written) || is_new;
        if !held.is_empty() {
            if comes {
                self.seen.moved += 1;
                let names: Vec<_> = held.iter().map(|(_, rank)| rank.name()).collect();
                names.iter().for_each(|name| self.of_lock(name).moved += 1);
            }
        } else if met.is_moved && met.is_shared {
            self.seen.moved += 1;
            if !self.lock_lines.contains_key(&Lines::line(address)) {
                self.seen.moved_outside += 1;
                *self.places.entry(place.wrapping_sub(self.program.0)).or_default() += 1;
            }
        }
    }

    fn is_slab(&self, address: u64) -> bool {
        let behind = self.slabs.partition_point(|(begin, _)| *begin <= address);
        behind > 0 && address < self.slabs[behind - 1].1
    }

    fn decode(&mut self, at: u64) -> Rc<Decoded> {
        if let Some(decoded) = self.decoded.get(&at) {
            return decoded.clone();
        }
        // SAFETY: the processor is about to read it; an instruction has 15 bytes at most, and code is
        // followed by more.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at as usize), 15) };
        let mut instruction = Instruction::default();
        Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode_out(&mut instruction);
        let memory = self.factory.info(&instruction).used_memory().to_vec();
        let mnemonic = instruction.mnemonic();
        let is_exchange = mnemonic == Mnemonic::Xchg && !memory.is_empty();
        let is_none = matches!(mnemonic, Mnemonic::Nop | Mnemonic::Ud1 | Mnemonic::Lea);
        let decoded = Rc::new(Decoded {
            bytes: instruction.len(),
            is_locked: instruction.has_lock_prefix() || is_exchange,
            repeated: instruction.has_rep_prefix().then_some(mnemonic),
            memory: if is_none { Vec::new() } else { memory },
        });
        self.decoded.insert(at, decoded.clone());
        decoded
    }
}

/// Does at once what the processor would stop in behind each word.
fn repeat(what: Mnemonic, bytes: usize, registers: &mut Registers) {
    let width = match what {
        Mnemonic::Stosb | Mnemonic::Movsb => 1,
        Mnemonic::Stosq | Mnemonic::Movsq => 8,
        _ => return,
    };
    let [to, from, count, value, at] =
        [libc::REG_RDI, libc::REG_RSI, libc::REG_RCX, libc::REG_RAX, libc::REG_RIP].map(|name| name as usize);
    let length = registers[count] as usize * width;
    let target = std::ptr::with_exposed_provenance_mut::<u8>(registers[to] as usize);
    // SAFETY: what the instruction does. The direction flag is clear, as the ABI wants it.
    unsafe {
        match what {
            Mnemonic::Movsb | Mnemonic::Movsq => {
                let source = std::ptr::with_exposed_provenance::<u8>(registers[from] as usize);
                std::ptr::copy(source, target, length);
                registers[from] += length as i64;
            }
            Mnemonic::Stosb => target.write_bytes(registers[value] as u8, length),
            _ => (0..registers[count] as usize)
                .for_each(|word| target.cast::<i64>().add(word).write_unaligned(registers[value])),
        }
    }
    registers[to] += length as i64;
    registers[count] = 0;
    registers[at] += bytes as i64;
}

fn thread_pointer() -> u64 {
    system::thread_pointer() as u64
}

fn value(registers: &Registers, register: Register) -> Option<u64> {
    let name = match register.full_register() {
        Register::RAX => libc::REG_RAX,
        Register::RBX => libc::REG_RBX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::RBP => libc::REG_RBP,
        Register::RSP => libc::REG_RSP,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        Register::R15 => libc::REG_R15,
        Register::RIP => libc::REG_RIP,
        Register::FS => return Some(thread_pointer()),
        Register::CS | Register::DS | Register::ES | Register::SS => return Some(0),
        _ => return None,
    };
    let value = registers[name as usize] as u64;
    Some(if register.size() == 4 { value & 0xffff_ffff } else { value })
}
