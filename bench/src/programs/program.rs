//! A program of the table: what is declared of it, and how the rows are written.

use vcm_measure::trial::{End, Signal};

/// Words with blanks between them.
pub(super) type Words = &'static str;

/// The sets of rows that answer one question, as `--only` names them.
pub const SETS: [&str; 7] = ["whole", "hardened", "watching", "idle", "rust", "untuned", "servers"];

/// A program, how it is run, and what counts.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// As typed after --only and as printed.
    pub name: &'static str,
    /// Of [`SETS`].
    pub sets: Words,
    /// Programs on the path, `python3:MODULE`, or tools that are compiled here; a word `{NAME}` of the command is its path.
    pub needs: Words,
    /// The words of the command. `''` is an empty one, `{script:NAME}` the text of an input, `{port}` and `{folder}` are the
    /// session's.
    pub command: Words,
    /// Inputs in its working directory, of `inputs::make`.
    pub made: Words,
    /// The input that is its standard input, kept here or among those that are made.
    pub reads: &'static str,
    /// `NAME=VALUE`, besides those of the allocator.
    pub environment: Words,
    /// A folder of its own that goes before each run.
    pub scratch: &'static str,
    pub server: Option<Server>,
    /// Most threads or processes that work at a time.
    pub threads: u32,
    /// How many, and of what, a run does.
    pub operations: (u64, &'static str),
    pub figure: Figure,
    /// It refuses root.
    pub is_unprivileged: bool,
}

/// How a program is loaded from outside.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// It can take its load when it has printed this; nothing: when it listens at `{port}`.
    pub ready: &'static str,
    /// A line for the shell.
    pub load: &'static str,
    /// The load holds its connections once it has printed this.
    pub loaded: &'static str,
    pub idle_seconds: u64,
    pub end: End,
}

/// The purpose of a row, besides CPU time and peak memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Cpu,
    /// Nanoseconds of a malloc and free, as the program prints them.
    Pair,
    /// Anonymous memory after the idle seconds.
    Held,
    /// The program has its allocator built in, says which, and prints what it computed.
    Crate,
}

pub(super) const BY_TERM: End = End::By(Signal::SIGTERM);

pub(super) const fn run(name: &'static str, needs: Words, command: Words) -> Program {
    let (made, reads, environment, scratch, server, threads) = ("", "", "", "", None, 1);
    let (sets, operations, figure, is_unprivileged) = ("whole", (1, "run"), Figure::Cpu, false);
    #[rustfmt::skip]
    let program = Program {
        name, sets, needs, command, made, reads, environment, scratch, server, threads, operations, figure, is_unprivileged,
    };
    program
}

/// A pattern of vcm-load by a number of operations.
pub(super) const fn load(name: &'static str, command: Words, threads: u32, operations: u64) -> Program {
    run(name, "load", command).on(threads).does(operations, "operations of the pattern")
}

/// A server at `{port}` that is loaded and asked to end.
pub(super) const fn server(name: &'static str, needs: Words, command: Words, load: &'static str) -> Program {
    let server = Server { ready: "", load, loaded: "", idle_seconds: 0, end: BY_TERM };
    Program { server: Some(server), ..run(name, needs, command) }
}

/// A program that idles for 5 s: once it has printed `ready` until its input ends, or after a load.
pub(super) const fn idle(name: &'static str, needs: Words, command: Words, load: &'static str) -> Program {
    let is_alone = load.is_empty();
    let (ready, load, end) = if is_alone { ("ready", "true", End::Input) } else { ("", load, BY_TERM) };
    let server = Server { ready, load, loaded: "", idle_seconds: 5, end };
    Program { server: Some(server), ..run(name, needs, command) }.shows(Figure::Held).of("idle")
}

#[rustfmt::skip]
impl Program {
    pub(super) const fn of(self, sets: Words) -> Self { Program { sets, ..self } }
    pub(super) const fn does(self, many: u64, what: &'static str) -> Self { Program { operations: (many, what), ..self } }
    pub(super) const fn on(self, threads: u32) -> Self { Program { threads, ..self } }
    pub(super) const fn reads(self, reads: &'static str) -> Self { Program { reads, ..self } }
    pub(super) const fn from(self, made: Words) -> Self { Program { made, ..self } }
    pub(super) const fn with(self, environment: Words) -> Self { Program { environment, ..self } }
    pub(super) const fn clearing(self, scratch: &'static str) -> Self { Program { scratch, ..self } }
    pub(super) const fn shows(self, figure: Figure) -> Self { Program { figure, ..self } }
    pub(super) const fn unprivileged(self) -> Self { Program { is_unprivileged: true, ..self } }
    /// Its load stays connected while it idles for so long.
    pub(super) const fn held(self, idle_seconds: u64, loaded: &'static str, ready: &'static str, end: End) -> Self {
        let load = match self.server { Some(server) => server.load, None => "" };
        Program { server: Some(Server { ready, load, loaded, idle_seconds, end }), ..self }
    }
}
