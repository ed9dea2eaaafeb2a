//! The proof that the library was loaded: each process that loads it writes one line to a descriptor it
//! inherits.
//!
//! Owns the descriptor. It is a memory file, so that a writer can neither block nor be killed by a closed
//! pipe; it is sealed against growth, so that a tree of a million processes does not fill memory; and its
//! number is high, so that scripts with descriptors of their own do not meet it. The library writes only to a
//! descriptor that carries the growth seal: a program that closed ours and opened a file in its place is left
//! alone.

use vcm_inspect::allocator::IS_RUST_HALF;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Room for some 15,000 lines; only what is written takes memory.
const ROOM: u64 = 1 << 20;
/// Above what shells and their scripts use.
const LOWEST_NUMBER: i32 = 300;

pub struct Proof {
    file: File,
}

/// The line that one process wrote when the library started in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub version: String,
    pub process: i32,
    /// `ours`, or the path of the object whose malloc wins.
    pub malloc: String,
    pub front: String,
}

impl Proof {
    pub fn new() -> io::Result<Self> {
        let file = File::from(memfd_create(c"vcm-run-proof", MFdFlags::MFD_ALLOW_SEALING)?);
        file.set_len(ROOM)?;
        let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        // A low limit on descriptors leaves only the number we have.
        match fcntl(&file, FcntlArg::F_DUPFD(LOWEST_NUMBER)) {
            // SAFETY: fcntl returned a new descriptor that nothing else owns.
            Ok(number) => Ok(Proof { file: File::from(unsafe { OwnedFd::from_raw_fd(number) }) }),
            Err(_) => Ok(Proof { file }),
        }
    }

    /// The number under which children inherit it.
    pub fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The last line of a process: each program that it turned into by exec wrote one. If its Rust half is on a library
    /// of its own, that one counts only alone.
    pub fn last_of(&self, process: i32) -> Option<Line> {
        let mut lines: Vec<Line> = self.lines().into_iter().filter(|line| line.process == process).collect();
        let is_half = |line: &Line| line.version.contains(IS_RUST_HALF);
        let last = lines.iter().rposition(|line| !is_half(line)).or(lines.len().checked_sub(1))?;
        Some(lines.swap_remove(last))
    }

    fn lines(&self) -> Vec<Line> {
        const STEP: usize = 16 << 10;
        let mut text = Vec::new();
        let mut chunk = vec![0; STEP];
        while let Ok(read) = self.file.read_at(&mut chunk, text.len() as u64) {
            let written = chunk.iter().take(read).position(|byte| *byte == 0).unwrap_or(read);
            text.extend_from_slice(chunk.get(..written).unwrap_or_default());
            if written < STEP {
                break;
            }
        }
        // The text behind the last newline is a line that is being written.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(text.get(..whole).unwrap_or_default()).into_owned();
        text.lines().filter_map(parse).collect()
    }
}

/// `vcmalloc <version> pid <pid> malloc <ours|path> front <front>`; the path may contain blanks.
fn parse(line: &str) -> Option<Line> {
    let (version, rest) = line.strip_prefix("vcmalloc ")?.split_once(" pid ")?;
    let (process, rest) = rest.split_once(" malloc ")?;
    let (malloc, front) = rest.rsplit_once(" front ")?;
    Some(Line {
        version: version.to_string(),
        process: process.parse().ok()?,
        malloc: malloc.to_string(),
        front: front.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_line_of_a_process_counts() {
        let proof = Proof::new().unwrap();
        let mut child = proof.file.try_clone().unwrap();
        child.write_all(b"vcmalloc 1 pid 7 malloc ours front locked\n").unwrap();
        child.write_all(b"vcmalloc 1 pid 8 malloc ours front locked\n").unwrap();
        child.write_all(b"vcmalloc 1 pid 7 malloc /opt/a b front locked\nvcmalloc 1 pid 9 mal").unwrap();
        assert_eq!(proof.last_of(7).unwrap().malloc, "/opt/a b");
        assert_eq!(proof.last_of(8).unwrap().malloc, "ours");
        assert_eq!(proof.last_of(9), None);
    }

    #[test]
    fn the_rust_half_counts_only_alone() {
        let proof = Proof::new().unwrap();
        let mut child = proof.file.try_clone().unwrap();
        child.write_all(b"vcmalloc 1 pid 7 malloc ours front locked\n").unwrap();
        child.write_all(b"vcmalloc 1 (Rust half) pid 7 malloc /lib/v.so front locked\n").unwrap();
        child.write_all(b"vcmalloc 1 (Rust half) pid 8 malloc /lib/c.so front locked\n").unwrap();
        assert_eq!(proof.last_of(7).unwrap().malloc, "ours");
        assert_eq!(proof.last_of(8).unwrap().malloc, "/lib/c.so");
    }

    #[test]
    fn a_full_descriptor_refuses_and_grows_no_further() {
        let proof = Proof::new().unwrap();
        let mut child = proof.file.try_clone().unwrap();
        let line = b"vcmalloc 1 pid 7 malloc ours front locked\n";
        while child.write_all(line).is_ok() {}
        assert_eq!(proof.file.metadata().unwrap().len(), ROOM);
        assert!(proof.last_of(7).is_some());
    }
}
