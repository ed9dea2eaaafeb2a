//! The environment of a process, also where it wrote its title over the one that the kernel shows.
//!
//! Owns the way to the C library's `environ` in the process's memory: programs that write over the environment of
//! their start (redis, postgres) keep a copy, since they go on reading it. The copy is of now and not of the start;
//! few programs change their own variables.

use super::elf::{self, Among};
use super::process::Process;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use vcm_foreign::file;

pub type Pairs = Vec<(OsString, OsString)>;

pub struct Variables {
    pub pairs: Pairs,
    /// Out of the process's memory.
    pub is_of_now: bool,
}

/// The names of one place. A program that uses it may hold it itself, and the C library then uses that.
const NAMES: [&str; 2] = ["__environ", "environ"];
/// As long as the kernel lets one string be, and all of them together with the arguments: what a process says of itself
/// must not fill our memory.
const MOST_BYTES: usize = 128 << 10;
const MOST_BYTES_TOGETHER: usize = 6 << 20;
const WORD: usize = size_of::<u64>();

impl Process {
    /// The environment that it was started with; if it has written over that, the one that it holds now.
    pub fn variables(&self) -> io::Result<Variables> {
        let pairs = self.environment()?;
        if !pairs.is_empty() && !self.has_written_over_its_environment() {
            return Ok(Variables { pairs, is_of_now: false });
        }
        let pairs = self.variables_in_memory().unwrap_or_default();
        Ok(Variables { is_of_now: !pairs.is_empty(), pairs })
    }

    /// A title that is shorter than the environment leaves an end of that behind it, and nothing in between (sshd).
    fn has_written_over_its_environment(&self) -> bool {
        file::of_kernel(&self.file("environ")).is_ok_and(|bytes| is_written_over(&bytes))
    }

    fn variables_in_memory(&self) -> Option<Pairs> {
        let memory = self.memory().ok()?;
        let list = word(&memory, self.place_of_environ()?)?;
        let (mut pairs, mut bytes) = (Pairs::new(), 0);
        for at in 0.. {
            let string = word(&memory, list.checked_add((at * WORD) as u64)?)?;
            if string == 0 || bytes > MOST_BYTES_TOGETHER {
                break;
            }
            let entry = text(&memory, string)?;
            bytes += entry.len() + WORD;
            pairs.extend(super::process::pair(&entry));
        }
        Some(pairs)
    }

    /// The address of the variable `environ`: the program's own, else the C library's.
    fn place_of_environ(&self) -> Option<u64> {
        let program = self.program().ok()?;
        let is_libc = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == "libc.so.6" || name.starts_with("libc-2.") || name.starts_with("ld-musl-")
        };
        let libc = self.mapped_files().ok()?.into_iter().find(is_libc);
        [Some(program), libc]
            .into_iter()
            .flatten()
            .find_map(|path| self.address_of(&path, &NAMES, Among::All))
    }

    /// The text to which a variable of an object leads: its first symbol of these names is a `const char *`.
    pub fn text_behind(&self, object: &Path, names: &[&str], among: Among) -> Option<Vec<u8>> {
        let place = self.address_of(object, names, among)?;
        let memory = self.memory().ok()?;
        let text_at = word(&memory, place).filter(|address| *address != 0)?;
        text(&memory, text_at)
    }

    pub(super) fn memory(&self) -> io::Result<File> {
        File::open(self.file("mem"))
    }

    pub(super) fn address_of(&self, object: &Path, names: &[&str], among: Among) -> Option<u64> {
        let offset = elf::offset_of(&self.as_kernel_names_it(object), names, among).ok()??;
        self.start_of(object)?.checked_add(offset)
    }

    /// The lowest address at which a file is mapped.
    fn start_of(&self, path: &Path) -> Option<u64> {
        let maps = vcm_foreign::file::text_of_kernel(&self.file("maps")).ok()?;
        let line = maps.lines().find(|line| line.ends_with(&*path.to_string_lossy()))?;
        u64::from_str_radix(line.split('-').next()?, 16).ok()
    }
}

/// The kernel puts strings with one zero behind each there, and each has a name.
fn is_written_over(environment: &[u8]) -> bool {
    let strings = environment.strip_suffix(b"\0").unwrap_or(environment);
    strings.split(|byte| *byte == 0).any(|string| string.is_empty() || string.starts_with(b"="))
}

pub(super) fn word(memory: &File, address: u64) -> Option<u64> {
    let mut bytes = [0; WORD];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// The bytes up to a zero.
fn text(memory: &File, address: u64) -> Option<Vec<u8>> {
    const STEP: usize = 256;
    let mut text = Vec::new();
    while text.len() < MOST_BYTES {
        let mut part = [0; STEP];
        let read = memory.read_at(&mut part, address.checked_add(text.len() as u64)?).ok()?;
        let part = part.get(..read).filter(|part| !part.is_empty())?;
        match part.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(part.get(..end)?);
                return Some(text);
            }
            None => text.extend_from_slice(part),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_own_memory_has_the_environment_of_its_start() {
        let own = Process::new(std::process::id() as i32);
        let (mut start, mut now) = (own.environment().unwrap(), own.variables_in_memory().unwrap());
        start.sort();
        now.sort();
        // Other tests of this process may set variables of their own.
        assert!(start.iter().all(|pair| now.contains(pair)) && !start.is_empty());
        assert!(!own.variables().unwrap().is_of_now);
    }

    #[test]
    fn what_a_title_leaves_of_an_environment_is_none() {
        assert!(is_written_over(b"hd -D [listener]\0\0\0\0=x\0") && is_written_over(b"=\0"));
        assert!(!is_written_over(b"A=1\0odd\0B=\0"));
    }

    #[test]
    fn a_string_without_an_end_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory");
        std::fs::write(&file, "abc\0def").unwrap();
        let memory = File::open(file).unwrap();
        assert_eq!(text(&memory, 0).unwrap(), b"abc");
        assert_eq!((text(&memory, 4), text(&memory, 99), word(&memory, 6)), (None, None, None));
    }
}
