//! The parts that the tests of the tool share: a folder with a stub of the library, programs made on the spot,
//! and `vcm`.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

pub struct Place {
    pub folder: tempfile::TempDir,
    pub stub: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The setuid test runs a program from here as another user.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let stub = folder.path().join("libvcmalloc.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/stub.c");
        gcc(&["-shared", "-fPIC", "-o", text(&stub), text(&source)]);
        Place { folder, stub }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program from C source.
    pub fn program(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let (path, file) = (self.path(name), self.path(&format!("{name}.c")));
        std::fs::write(&file, source).unwrap();
        gcc(&[&["-w", "-o", text(&path), text(&file)], flags].concat());
        path
    }

    /// A library whose malloc is as `ALLOCATOR` says.
    pub fn allocator(&self, name: &str, cost: u32, growth: u32, fails: bool) -> PathBuf {
        let (path, file) = (self.path(name), self.path(&format!("{name}.c")));
        std::fs::write(&file, ALLOCATOR).unwrap();
        let defined =
            [format!("-DCOST={cost}"), format!("-DGROWTH={growth}"), format!("-DFAILS={}", u8::from(fails))];
        let mut words = vec!["-shared", "-fPIC", "-O1"];
        words.extend(defined.iter().map(String::as_str));
        words.extend(["-o", text(&path), text(&file)]);
        gcc(&words);
        path
    }

    pub fn script(&self, name: &str, content: &str) -> PathBuf {
        let (path, file) = (self.path(name), self.path(&format!("{name}.written")));
        std::fs::write(&file, content).unwrap();
        install(&file, &path);
        path
    }

    /// `vcm run` with the stub, ready for more arguments.
    pub fn run(&self, arguments: &[&str]) -> Command {
        let mut command = vcm(&["run", "--library", text(&self.stub)]);
        command.args(arguments);
        command
    }
}

/// Counts COST steps a call, takes GROWTH tenths of what is asked for, and ends the program at its start where it FAILS.
const ALLOCATOR: &str = "#include <stddef.h>\n#include <stdlib.h>\n\
    extern void *__libc_malloc(size_t); extern void *__libc_calloc(size_t, size_t);\n\
    extern void *__libc_realloc(void *, size_t); extern void __libc_free(void *);\n\
    static long steps;\n\
    void *malloc(size_t size) { steps += COST; return __libc_malloc(size * GROWTH / 10); }\n\
    void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }\n\
    void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }\n\
    void free(void *block) { __libc_free(block); }\n\
    long allocator_steps(void) { return steps; }\n\
    __attribute__((constructor)) static void begin(void) { if (FAILS) abort(); }\n";

/// The finished library: it exports malloc and knows the proof.
pub fn real_library() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_vcm")).parent()?.join("../release/libvcmalloc.so");
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/libvcmalloc.so");
    let knows_proof = |path: &PathBuf| {
        let needle = b"VCM_RUN_PROOF";
        std::fs::read(path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
    };
    let found = [beside, usual].into_iter().find(knows_proof).and_then(|path| path.canonicalize().ok());
    if found.is_none() {
        vcmalloc_tests::skip!("target/release/libvcmalloc.so is not built");
    }
    found
}

/// Puts a filter of system calls before a command, there before it starts, whose answer (`SECCOMP_RET_...`) to one of them is this.
pub fn filtered(command: &mut Command, number: libc::c_long, answer: u32) -> &mut Command {
    let line = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut lines = [
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, answer),
        line(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: 4, filter: lines.as_mut_ptr() };
            let refused = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0;
            if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        })
    }
}

/// True for root; to anybody else it says what is not tested.
pub fn only_root_can(act: &str) -> bool {
    let is_root = nix::unistd::getuid().is_root();
    if !is_root {
        vcmalloc_tests::skip!("only root can {act}");
    }
    is_root
}

/// A process that sleeps, ended with the test.
pub struct Sleeper(Child, BufReader<ChildStdout>);

impl Sleeper {
    /// The command says one line when it is ready.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        Sleeper(child, out)
    }

    /// Gives it this, where its stdin is a pipe, and waits for a line.
    pub fn say(&mut self, text: &str) {
        self.0.stdin.as_ref().unwrap().write_all(text.as_bytes()).unwrap();
        self.1.read_line(&mut String::new()).unwrap();
    }

    pub fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Copies a program so that it can be started at once. No descriptor of this process may be open for writing
/// on it: a child that another test forks at that moment holds the descriptor until its own exec, and the
/// kernel refuses to start a file that somebody writes (ETXTBSY).
pub fn install(program: &Path, target: &Path) {
    let done = Command::new("install").args(["-m", "755"]).args([program, target]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

pub fn gcc(arguments: &[&str]) {
    let done = Command::new("gcc").args(arguments).output().expect("gcc is needed for the tests");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The tool, with an environment that says nothing to it.
pub fn vcm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vcm"));
    for variable in ["LD_PRELOAD", "LD_LIBRARY_PATH", "VCM_LIBRARY", "VCM_CONFIG", "VCM_RUN_PROOF"] {
        command.env_remove(variable);
    }
    command.args(arguments);
    command
}

pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    pub output: Output,
}

pub fn done(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        output,
    }
}
