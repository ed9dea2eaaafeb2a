//! What the tests of the tool share: a folder with a stub of the library, programs made on the spot, and
//! `vcm`.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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

/// True for root; to anybody else it says what is not tested.
pub fn only_root_can(act: &str) -> bool {
    let is_root = nix::unistd::getuid().is_root();
    if !is_root {
        eprintln!("not tested: only root can {act}");
    }
    is_root
}

/// A process that sleeps, ended with the test.
pub struct Sleeper(Child);

impl Sleeper {
    /// The command says one line when it is ready.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        Sleeper(child)
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
