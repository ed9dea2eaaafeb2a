//! The crimes, what each must lead to, and what it led to.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use vcmalloc_tests::{Ground, compile, library, machine};

use crate::allocators::{Allocator, End, run};

/// The promise of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// The bad call is stopped: SIGABRT, and one of these after "vcmalloc: " on stderr.
    Stopped(&'static [&'static str]),
    /// The process is stopped with this line, at the latest when the block is freed or its memory would be used again.
    StoppedLater(&'static str),
    /// The heap is not hurt: no overlap, no chosen or foreign address, no dirty calloc. Contents of
    /// neighbours may change and freed contents may be read. Stopping is allowed too.
    Unhurt,
    /// A crime of many processes: each that wrote where it may not was stopped with a message.
    ManyStopped,
    /// Two owners may share a block: the second free looks like an honest one.
    Overlap,
    /// The machine itself ends it.
    Killed,
}

use Promise::{Killed, Overlap, Stopped, StoppedLater, Unhurt};

const DOUBLE: Promise = Stopped(&["double free"]);
const INTERIOR: Promise = Stopped(&["free of an interior pointer"]);
const FOREIGN: Promise = Stopped(&["free of a pointer that is not from this heap"]);
const WRONG_SIZE: Promise = Stopped(&["free with the wrong size or alignment"]);

/// Program, crime, promise.
pub const CRIMES: [(&str, &str, Promise); 59] = [
    ("frees", "double_free_at_once", DOUBLE),
    ("frees", "double_free_large", DOUBLE),
    ("frees", "double_free_a_b_a", DOUBLE),
    ("frees", "double_free_after_5000_frees", DOUBLE),
    ("frees", "double_free_by_another_thread", DOUBLE),
    ("frees", "double_free_of_1000_bytes_after_5000_frees", DOUBLE),
    ("frees", "double_free_of_1000_bytes_by_another_thread", DOUBLE),
    ("frees", "double_free_by_two_remote_threads", DOUBLE),
    ("frees", "double_free_after_reuse", Overlap),
    ("frees", "free_interior_small", INTERIOR),
    ("frees", "free_interior_large", INTERIOR),
    ("frees", "free_misaligned", INTERIOR),
    ("frees", "free_stack", FOREIGN),
    ("frees", "free_global", FOREIGN),
    ("frees", "free_mapping", FOREIGN),
    ("frees", "free_text", FOREIGN),
    ("frees", "free_wild", FOREIGN),
    ("frees", "free_low", FOREIGN),
    ("frees", "free_unmapped", FOREIGN),
    (
        "frees",
        "free_never_handed_out",
        Stopped(&["double free", "free of memory that holds no block", "interior"]),
    ),
    ("frees", "realloc_foreign", Stopped(&["realloc or size of a pointer that is not from this heap"])),
    ("frees", "realloc_freed", DOUBLE),
    ("frees", "realloc_freed_in_place", DOUBLE),
    ("frees", "realloc_interior", INTERIOR),
    ("frees", "sized_delete_interior", INTERIOR),
    ("frees", "sized_delete_twice", DOUBLE),
    ("frees", "sized_delete_too_large", WRONG_SIZE),
    ("frees", "sized_delete_too_small", Unhurt),
    ("frees", "sized_delete_small_as_large", WRONG_SIZE),
    ("frees", "sized_delete_large_as_small", Unhurt),
    ("frees", "aligned_block_deleted_as_unaligned", Unhurt),
    ("frees", "unaligned_block_deleted_as_aligned", WRONG_SIZE),
    ("frees", "malloc_then_delete", Unhurt),
    ("frees", "new_then_free", Unhurt),
    ("frees", "new_array_then_delete", Unhurt),
    ("writes", "overflow_1", Unhurt),
    ("writes", "overflow_8", Unhurt),
    ("writes", "overflow_16", Unhurt),
    ("writes", "overflow_64", Unhurt),
    ("writes", "overflow_page", Unhurt),
    ("writes", "underflow_1", Unhurt),
    ("writes", "underflow_8", Unhurt),
    ("writes", "underflow_16", Unhurt),
    ("writes", "underflow_64", Unhurt),
    ("writes", "underflow_page", Unhurt),
    ("writes", "steer_small", Unhurt),
    ("writes", "steer_page", Unhurt),
    ("writes", "steer_large", Unhurt),
    ("writes", "steer_at_random", Unhurt),
    ("writes", "read_after_free_small", Unhurt),
    ("writes", "read_after_free_large", Unhurt),
    ("writes", "calloc_after_write_after_free", Unhurt),
    ("writes", "copy_behind_a_block", Unhurt),
    ("writes", "copy_before_a_block", Unhurt),
    ("writes", "copy_to_a_freed_block", Unhurt),
    ("writes", "read_of_no_bytes", Stopped(&["read behind the end of a block"])),
    ("writes", "write_to_no_bytes", Stopped(&["write behind the end of a block"])),
    ("writes", "jump_into_a_small_block", Killed),
    ("writes", "jump_into_a_large_block", Killed),
];

const OVERFLOW: Promise = StoppedLater("write behind the end of a block");
const UNDERFLOW: Promise = StoppedLater("write before the start of a block");
const WRITE_AFTER_FREE: Promise = StoppedLater("write to a freed block");
const USE_AFTER_FREE: Promise = Stopped(&["use of a freed block"]);
const WRONG_FUNCTION: Promise = Stopped(&["free by the wrong function"]);

/// The promises of the hardened build beyond that. Nothing can stop the reading of a freed small block, whose
/// page holds others; but it reads zeros.
const HARDENED: [(&str, Promise); 27] = [
    ("double_free_after_reuse", DOUBLE),
    ("sized_delete_too_small", WRONG_SIZE),
    ("sized_delete_large_as_small", WRONG_SIZE),
    ("aligned_block_deleted_as_unaligned", WRONG_FUNCTION),
    ("unaligned_block_deleted_as_aligned", WRONG_FUNCTION),
    ("malloc_then_delete", WRONG_FUNCTION),
    ("new_then_free", WRONG_FUNCTION),
    ("new_array_then_delete", WRONG_FUNCTION),
    ("overflow_1", OVERFLOW),
    ("overflow_8", OVERFLOW),
    ("overflow_16", OVERFLOW),
    ("overflow_64", OVERFLOW),
    ("overflow_page", Stopped(&["write behind the end of a block"])),
    ("underflow_1", UNDERFLOW),
    ("underflow_8", UNDERFLOW),
    ("underflow_16", UNDERFLOW),
    ("underflow_64", UNDERFLOW),
    ("underflow_page", Stopped(&["write before the start of a block"])),
    ("steer_small", WRITE_AFTER_FREE),
    ("steer_page", WRITE_AFTER_FREE),
    ("steer_large", USE_AFTER_FREE),
    ("read_after_free_large", USE_AFTER_FREE),
    ("copy_behind_a_block", Stopped(&["write behind the end of a block"])),
    ("copy_before_a_block", Stopped(&["write before the start of a block"])),
    ("copy_to_a_freed_block", Stopped(&["write to a freed block"])),
    ("jump_into_a_small_block", Stopped(&["jump into the heap"])),
    ("jump_into_a_large_block", Stopped(&["jump into the heap"])),
];

/// The hardened build's promise about a crime for which the default build promises `promise`.
#[allow(dead_code)] // the tables ask for no promise
pub fn hardened_promise(crime: &str, promise: Promise) -> Promise {
    match crime {
        // Each process of the randomised crime ends with the first write that is found.
        "steer_at_random" => Promise::ManyStopped,
        "calloc_after_write_after_free" => WRITE_AFTER_FREE,
        _ => HARDENED.iter().find(|(of, _)| *of == crime).map_or(promise, |(_, hardened)| *hardened),
    }
}

/// The promises that the default build does not keep yet, and why. A crime that is kept must leave the list.
pub const KNOWN_OPEN: &[(&str, &str)] = &[(
    "double_free_of_1000_bytes_after_5000_frees",
    "while the first copy is in a cache, only the two blocks freed last are compared where they have no key",
)];

/// Crimes by several threads, on a block too large for a key: stopped at the bad call where the threads shared a virtual CPU; open where they
/// did not, because then only the spans see both copies.
#[allow(dead_code)] // the tables ask for no promise
pub const OPEN_ACROSS_CPUS: &[&str] = &["double_free_of_1000_bytes_by_another_thread"];

/// The result of a crime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A signal and a line on stderr; `late` if the bad call itself had returned.
    Message {
        late: bool,
        signal: i32,
        line: String,
    },
    /// A signal and no word.
    Killed {
        late: bool,
        signal: i32,
    },
    /// The program went on: the word of `damage.h`.
    WentOn {
        word: String,
        detail: String,
    },
    Hung,
    Strange(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let later = |late: &bool| if *late { ", later" } else { "" };
        match self {
            Verdict::Message { late, .. } => write!(to, "message{}", later(late)),
            Verdict::Killed { late, signal } => {
                let name = if *signal == libc::SIGSEGV { "SEGV".into() } else { format!("signal {signal}") };
                write!(to, "{name}{}", later(late))
            }
            Verdict::WentOn { word, .. } => match word.as_str() {
                "harmless" | "stale" | "neighbour" | "crashed" | "stopped" => write!(to, "{word}"),
                _ => write!(to, "**{word}**"),
            },
            Verdict::Hung => write!(to, "hang"),
            Verdict::Strange(what) => write!(to, "? {what}"),
        }
    }
}

impl Verdict {
    /// The process, or each of its processes that did wrong, ended with a message.
    #[allow(dead_code)] // the tests ask for a promise instead
    pub fn is_message(&self) -> bool {
        matches!(self, Verdict::Message { .. })
            || matches!(self, Verdict::WentOn { word, .. } if word == "stopped")
    }

    /// The heap itself went on hurt.
    #[allow(dead_code)] // the tests ask for a promise instead
    pub fn is_silent_damage(&self) -> bool {
        matches!(self, Verdict::WentOn { word, .. }
            if ["overlap", "foreign", "chosen", "not-zero"].contains(&word.as_str()))
    }

    #[allow(dead_code)] // the tables ask for no promise
    pub fn keeps(&self, promise: Promise) -> bool {
        let went =
            |words: &[&str]| matches!(self, Verdict::WentOn { word, .. } if words.contains(&word.as_str()));
        let message = matches!(self, Verdict::Message { .. });
        match promise {
            Stopped(patterns) => matches!(self, Verdict::Message { late: false, signal, line }
                if *signal == libc::SIGABRT && line.starts_with("vcmalloc: ")
                    && patterns.iter().any(|pattern| line.contains(pattern))),
            StoppedLater(pattern) => matches!(self, Verdict::Message { signal, line, .. }
                if *signal == libc::SIGABRT && line.starts_with("vcmalloc: ") && line.contains(pattern)),
            Promise::ManyStopped => went(&["stopped"]),
            Unhurt => message || went(&["harmless", "neighbour", "stale"]),
            Overlap => message || went(&["overlap", "harmless"]),
            Killed => matches!(self, Verdict::Killed { signal, .. } if *signal == libc::SIGSEGV),
        }
    }
}

fn source(program: &str) -> PathBuf {
    library::repository().join(format!("tests/misuse/{program}.cc"))
}

/// Commits a crime on an allocator. `tries`: how often the randomised crime tries.
pub fn commit(allocator: &Allocator, program: &str, crime: &str, tries: u64) -> Result<Verdict, String> {
    // -w: these programs are wrong on purpose.
    let binary = compile::program(&source(program), Ground::Preload, &["-w".into()])?;
    let mut command = machine::command(&binary);
    allocator.prepare(command.arg(crime).env("MISUSE_TRIES", tries.to_string()))?;
    if crime.ends_with("_of_no_bytes") || crime.ends_with("_to_no_bytes") {
        // Nobody may touch such a block where there may be guards at all.
        command.env("VCM_GUARDED_RATE", "1");
    }
    let limit = if crime == "steer_at_random" { 600 } else { 100 };
    let run = run(&mut command, Duration::from_secs(limit))?;
    let late = run.output.contains("committed");
    let line = run.complaints.lines().find(|line| !line.trim().is_empty()).unwrap_or("").to_string();
    Ok(match run.end {
        End::Hang => Verdict::Hung,
        End::Signal(signal) if line.is_empty() => Verdict::Killed { late, signal },
        End::Signal(signal) => Verdict::Message { late, signal, line },
        End::Exit(0) => match run.output.lines().find_map(|line| line.strip_prefix("outcome ")) {
            Some(rest) => {
                let (word, detail) = rest.split_once(' ').unwrap_or((rest, ""));
                Verdict::WentOn { word: word.into(), detail: detail.into() }
            }
            None => Verdict::Strange("no outcome".into()),
        },
        End::Exit(code) => Verdict::Strange(format!("exit {code} {line}")),
    })
}
