//! From the words of a command to the program that will run: PATH, `#!` lines, and `env` on the way.
//!
//! Owns that search; promises what execvp(3) and the kernel would start, and says where `env` clears the
//! environment, because a preload does not survive that.

use super::elf::{self, Depth, Look};
use super::root::Root;
use nix::unistd::{AccessFlags, access};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub struct Command {
    /// The file to start.
    pub path: PathBuf,
    /// The file that allocates in the end: the interpreter of a script, the program behind `env`.
    pub program: PathBuf,
    /// The kind of that file.
    pub look: Look,
    /// The script or command in which `env` clears the environment.
    pub clears_environment: Option<PathBuf>,
}

#[derive(Debug)]
pub enum Missing {
    NotFound,
    NotExecutable(io::Error),
}

/// Finds `name` as execvp does.
pub fn resolve(name: &OsStr, search_path: &OsStr) -> Result<PathBuf, Missing> {
    resolve_in(&Root::real(), name, search_path)
}

fn resolve_in(root: &Root, name: &OsStr, search_path: &OsStr) -> Result<PathBuf, Missing> {
    if name.is_empty() {
        return Err(Missing::NotFound);
    }
    if name.as_bytes().contains(&b'/') {
        return executable(place(root, Path::new(name)));
    }
    let mut refused = Missing::NotFound;
    for folder in std::env::split_paths(search_path) {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        match executable(place(root, &folder.join(name))) {
            Ok(path) => return Ok(path),
            Err(Missing::NotFound) => {}
            Err(why) => refused = why,
        }
    }
    Err(refused)
}

/// Our path of what the machine calls `path`: links of another machine lead to places of that machine.
pub fn place(root: &Root, path: &Path) -> PathBuf {
    if root.is_real() { path.to_path_buf() } else { root.path(root.resolve(path)) }
}

fn executable(path: PathBuf) -> Result<PathBuf, Missing> {
    let file = match std::fs::metadata(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Missing::NotExecutable(error));
        }
        Err(_) => return Err(Missing::NotFound),
    };
    if file.is_dir() {
        return Err(Missing::NotExecutable(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    match access(&path, AccessFlags::X_OK) {
        Ok(()) => Ok(path),
        Err(error) => Err(Missing::NotExecutable(error.into())),
    }
}

/// Follows the command to the program that will allocate, on the machine whose files are in `root`; `path` is
/// our own. A file that cannot be read is `Look::Other`: the start will tell.
pub fn follow(root: &Root, path: PathBuf, arguments: &[OsString], search_path: &OsStr) -> Command {
    // Linux follows a script to its interpreter at most this often.
    const DEEPEST: usize = 5;
    let mut command = Command { program: path.clone(), path, look: Look::Other, clears_environment: None };
    let mut arguments = arguments.to_vec();
    for _ in 0..DEEPEST {
        command.look = elf::look(&command.program, Depth::AllSymbols).unwrap_or(Look::Other);
        if let Look::Script { line } = &command.look {
            let (interpreter, argument) = split_line(line);
            let script = std::mem::replace(&mut command.program, place(root, &interpreter));
            arguments.insert(0, script.into_os_string());
            // env gets the rest of the line as one word and divides it itself after -S.
            for word in
                argument.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).rev()
            {
                arguments.insert(0, OsStr::from_bytes(word).to_os_string());
            }
        } else if command.program.file_name() == Some(OsStr::new("env")) {
            let behind = behind_env(&arguments);
            if behind.clears && command.clears_environment.is_none() {
                command.clears_environment = Some(command.path.clone());
            }
            let Some(next) = behind.arguments.first() else { break };
            let Ok(program) = resolve_in(root, next, search_path) else { break };
            command.program = program;
            arguments = behind.arguments.get(1..).unwrap_or_default().to_vec();
        } else {
            break;
        }
    }
    command
}

/// A `#!` line is a path and at most one argument.
fn split_line(line: &[u8]) -> (PathBuf, &[u8]) {
    let end = line.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(line.len());
    let (path, argument) = line.split_at(end);
    (PathBuf::from(OsString::from_vec(path.to_vec())), argument.trim_ascii())
}

struct BehindEnv {
    clears: bool,
    /// The command that env starts, and its arguments.
    arguments: Vec<OsString>,
}

/// Reads the arguments of `env` (env(1)) as far as is needed to find what it starts.
fn behind_env(arguments: &[OsString]) -> BehindEnv {
    let mut clears = false;
    let mut rest = arguments.iter();
    while let Some(word) = rest.as_slice().first() {
        let bytes = word.as_bytes();
        match bytes {
            b"-" | b"-i" | b"--ignore-environment" | b"-iS" => clears = true,
            b"-u" | b"-C" | b"--unset" | b"--chdir" => drop(rest.next()),
            // Somebody who hands the preload over by hand means it.
            _ if bytes.starts_with(b"LD_PRELOAD=") => clears = false,
            b"--" => {
                rest.next();
                break;
            }
            [b'-', ..] => {}
            _ if bytes.contains(&b'=') => {}
            _ => break,
        }
        rest.next();
    }
    BehindEnv { clears, arguments: rest.as_slice().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(words: &[&str]) -> (bool, Vec<String>) {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let found = behind_env(&words);
        (found.clears, found.arguments.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn the_program_behind_env_is_found() {
        assert_eq!(behind(&["A=1", "-u", "B", "ls", "-l"]), (false, vec!["ls".into(), "-l".into()]));
        assert_eq!(behind(&["-i", "PATH=/bin", "--", "ls"]), (true, vec!["ls".into()]));
        assert_eq!(behind(&["-S", "python3", "x.py"]), (false, vec!["python3".into(), "x.py".into()]));
        assert_eq!(behind(&["-i"]), (true, vec![]));
    }

    #[test]
    fn a_script_leads_to_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env -S -i sh\n").unwrap();
        let command = follow(&Root::real(), script.clone(), &[], OsStr::new("/usr/bin:/bin"));
        assert_eq!(command.program.file_name(), Some(OsStr::new("sh")));
        assert_eq!(command.clears_environment, Some(script));
        assert!(matches!(command.look, Look::Elf(_)));
    }

    #[test]
    fn what_cannot_be_started_is_told_from_what_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data"), "x").unwrap();
        let path = folder.path().as_os_str();
        assert!(matches!(resolve(OsStr::new("data"), path), Err(Missing::NotExecutable(_))));
        assert!(matches!(resolve(OsStr::new("absent"), path), Err(Missing::NotFound)));
        assert!(matches!(resolve(path, path), Err(Missing::NotExecutable(_))));
    }
}
