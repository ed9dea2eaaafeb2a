//! The ground that programs run on: a folder, a port, and the paths of what they need.

use super::table::Program;
use crate::harness::surroundings::program_beside;
use anyhow::{Context, Result, ensure};
use nix::unistd::{User, geteuid};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub struct Ground {
    folder: TempDir,
    /// Nobody listened there.
    pub port: u16,
    /// Needs that were looked for, and why one is not there.
    found: RefCell<BTreeMap<String, Result<PathBuf, String>>>,
}

impl Ground {
    pub fn new() -> Result<Ground> {
        let folder = tempfile::Builder::new().prefix("vcmalloc-programs-").tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let ground = Ground { folder, port, found: RefCell::default() };
        fs::set_permissions(ground.folder(), fs::Permissions::from_mode(0o755))?;
        if let Some((user, group)) = ground.unprivileged() {
            std::os::unix::fs::chown(ground.folder(), Some(user), Some(group))?;
        }
        Ok(ground)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The user and group of programs that refuse root; none for anybody else.
    pub fn unprivileged(&self) -> Option<(u32, u32)> {
        let named = |name: &str| User::from_name(name).ok().flatten();
        let user =
            geteuid().is_root().then(|| ["postgres", "nobody"].into_iter().find_map(named)).flatten()?;
        Some((user.uid.as_raw(), user.gid.as_raw()))
    }

    /// Why a program cannot run here, if so.
    pub fn lacks(&self, program: &Program) -> Option<String> {
        program.needs.split(' ').find_map(|need| self.found(need).err())
    }

    /// The path of a need, or why there is none.
    pub fn found(&self, need: &str) -> Result<PathBuf, String> {
        if let Some(known) = self.found.borrow().get(need) {
            return known.clone();
        }
        let found = self.look(need);
        self.found.borrow_mut().insert(need.to_owned(), found.clone());
        found
    }

    fn look(&self, need: &str) -> Result<PathBuf, String> {
        let built = |name: &str, source: &str, compiler: &[&str]| {
            let made = self.compiled(name, source, compiler);
            made.map_err(|error| format!("{name} does not compile: {error:#}"))
        };
        match need {
            "load" => program_beside("vcm-load").map_err(|error| format!("{error:#}")),
            // Each column has its own.
            "rust" => Ok(PathBuf::new()),
            "crowd" => built(
                "crowd.cc",
                include_str!("../../programs/crowd.cc"),
                &["g++", "-O2", "-std=c++17", "-pthread"],
            ),
            "bursts" => built(
                "bursts.c",
                include_str!("../../programs/bursts.c"),
                &["gcc", "-O1", "-fno-builtin-malloc", "-fno-builtin-free"],
            ),
            "python3" => python("sys"),
            need => match need.split_once(':') {
                Some((_, module)) => python(module),
                None => said("sh", &["-c", SEARCH, need]).ok_or_else(|| format!("there is no {need} here")),
            },
        }
    }

    fn compiled(&self, name: &str, source: &str, compiler: &[&str]) -> Result<PathBuf> {
        let file = self.folder().join(name);
        fs::write(&file, source)?;
        let program = file.with_extension("");
        let (first, flags) = compiler.split_first().context("a compiler")?;
        finished(Command::new(first).args(flags).arg("-o").arg(&program).arg(&file))?;
        Ok(program)
    }

    /// Words with their places filled: `{port}`, `{folder}`, and the path of each need.
    pub fn filled(&self, words: &str, program: &Program, rust: &Path) -> String {
        let known = [("port", self.port.to_string()), ("folder", self.folder().display().to_string())];
        let needs = program.needs.split(' ').map(|need| {
            let path = if need == "rust" { rust.to_owned() } else { self.found(need).unwrap_or_default() };
            (need, path.display().to_string())
        });
        let fill =
            |words: String, (name, value): (&str, String)| words.replace(&format!("{{{name}}}"), &value);
        known.into_iter().chain(needs).fold(words.to_owned(), fill)
    }
}

/// Programs of the path, of the folders of daemons and games, and of the newest PostgreSQL; a version may end the name of a daemon.
const SEARCH: &str = r#"PATH=$PATH:/usr/sbin:/usr/games:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
command -v "$0" || ls /usr/sbin/"$0"[0-9]* 2>/dev/null | tail -1"#;

/// An interpreter that has the module: that of the path, behind any shim, or the system's.
fn python(module: &str) -> Result<PathBuf, String> {
    let script = format!("import {module}, os, sys; print(os.path.realpath(sys.executable))");
    let found = ["python3", "/usr/bin/python3"].into_iter().find_map(|python| said(python, &["-c", &script]));
    found.ok_or_else(|| format!("there is no python3 with the module {module} here"))
}

/// The path that a program prints.
fn said(program: &str, words: &[&str]) -> Option<PathBuf> {
    let output = Command::new(program).args(words).stderr(Stdio::null()).output().ok()?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !path.is_empty()).then(|| PathBuf::from(path))
}

/// Runs a command of the preparation to its end.
pub fn finished(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name}: {}; {}",
        output.status,
        errors.trim().lines().last().unwrap_or_default()
    );
    Ok(())
}
