//! Ceilings: how many of each thing there can be, what happens beyond that, and the statistic that shows it.
//!
//! A ceiling bounds memory that is reserved in the heap itself or mapped at first use. None of them ends a program: beyond a
//! ceiling a call takes an ordinary way, waits, or something is counted as lost. Bounds that follow from the machine
//! (addresses, mappings, CPUs of a domain) stand where they are computed.

/// Counters of bytes until the next sample. Virtual CPUs beyond so many share them: they wait for each other's line, and
/// nothing is lost. A power of two, for the sequences in `cache::fast_path`.
pub const SAMPLING_CELLS: usize = 256;
/// Slabs under locks where threads without sequences live beside others. More threads share them.
pub const LOCKED_SLABS: usize = 32;
/// Large blocks that wait for the next holder of the page heap's lock. A thread that frees one more waits for the lock.
#[cfg(not(loom))]
pub const DELAYED_FREES: usize = 32;
#[cfg(loom)]
pub const DELAYED_FREES: usize = 2;
/// Blocks that signal handlers freed inside slow paths, without a note in emergency memory. Further ones take such notes;
/// without memory for one the block is lost.
pub const DEFERRED_FREES: usize = 64;
/// Arenas of 4 MiB of emergency memory. Beyond them malloc in a handler inside a slow path returns null.
pub const EMERGENCY_ARENAS: usize = 16;
/// Guarded samples at a time, fewer where the system allows few mappings. Beyond them none is guarded: the wait for the next
/// doubles as they fill (`guards.live`).
pub const GUARDED_SAMPLES: usize = 256;
/// Blocks of no bytes at a time. One more is an ordinary block of a byte.
pub const EMPTY_BLOCKS: usize = 1 << 18;
/// Blocks with guard pages of the hardened library. One more is checked as small blocks are.
pub const FENCED_BLOCKS: usize = 100_000;
/// The same where each can cost two mappings, of which a process may have 65,530: on Linux before 6.13.
pub const MAPPED_FENCES: usize = 12 << 10;
/// Sampled blocks of the live profile. Once half of them are in use the interval doubles with each further sixteenth: at first
/// 512 KiB, all stand for 4 TiB, and figures stay right on average. Without room a sample is counted as dropped
/// (`profile.dropped`).
pub const PROFILE_SAMPLES: usize = 1 << 18;
/// Different stacks of the live profile. A sample of one more is dropped as well.
pub const PROFILE_STACKS: usize = 1 << 15;
/// Samples that tracers were told of and whose frees they are told of. At the default interval so many stand for 32 GiB; the
/// free of one more is not told.
pub const ANNOUNCED_SAMPLES: usize = 1 << 16;
/// Rings of a recording. Virtual CPUs beyond so many share them; an event that finds no room is counted as lost
/// (`vcm record` says so).
pub const RECORDING_RINGS: usize = 64;
/// Texts of options that are paths, set anew in a process. One more is refused.
pub const OPTION_PATHS: usize = 4;
