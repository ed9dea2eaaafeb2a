//! A process as it was started, whatever it has made of itself since.
//!
//! Owns the reading of the auxiliary vector (getauxval(3)), which the kernel writes at exec and nobody
//! changes: the identity then, and the path that was started, from which the kernel made its name.

use super::process::Process;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use vcm_foreign::{Text, file};
use vcmalloc_core::options::NAME_BYTES;

/// The name by which the kernel knew a process when it was started.
pub struct StartName {
    pub name: Text,
    /// The other that it, or a library of it, gave it since.
    pub now: Option<Text>,
}

impl Process {
    /// The library reads its settings by the name at the start; prctl(PR_SET_NAME) changes it later.
    pub fn name_at_start(&self) -> std::io::Result<StartName> {
        let now = self.name()?;
        let name =
            self.path_at_start().map_or_else(|| self.likely_name(now.as_bytes()), |path| cut(&base(&path)));
        let name = Text::new(name);
        let is_changed = name != now && !name.is_empty();
        Ok(if is_changed { StartName { name, now: Some(now) } } else { StartName { name: now, now: None } })
    }

    /// Whether the start gave it rights that its caller had not: the C library and ours obey no variable then.
    pub fn was_privileged(&self) -> bool {
        self.at_start(libc::AT_SECURE) == Some(1)
    }

    /// An entry of the auxiliary vector; none where it may not be read.
    pub(super) fn at_start(&self, kind: u64) -> Option<u64> {
        const WORD: usize = size_of::<u64>();
        let vector = file::of_kernel(&self.file("auxv")).ok()?;
        let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_ne_bytes);
        let pairs = vector.chunks_exact(2 * WORD);
        pairs
            .map(|pair| pair.split_at(WORD))
            .find(|(key, _)| word(key) == Some(kind))
            .and_then(|(_, value)| word(value))
    }

    /// The path that was given to exec: of a script its own, not that of its interpreter.
    fn path_at_start(&self) -> Option<Vec<u8>> {
        const MOST_BYTES: usize = 4096;
        let mut path = vec![0; MOST_BYTES];
        let read = File::open(self.file("mem")).ok()?.read_at(&mut path, self.at_start(libc::AT_EXECFN)?);
        path.truncate(read.ok()?);
        let end = path.iter().position(|byte| *byte == 0)?;
        path.truncate(end);
        Some(path).filter(|path| !path.is_empty())
    }

    /// The name as far as it can be told without the right to read its memory.
    fn likely_name(&self, now: &[u8]) -> Vec<u8> {
        let program = self.program().unwrap_or_default();
        let program = program.as_os_str().as_bytes();
        let program = base(program.strip_suffix(b" (deleted)").unwrap_or(program));
        let words = self.command_line().unwrap_or_default();
        let first = words.first().map(|word| base(word.as_bytes())).unwrap_or_default();
        // A script stands behind its interpreter, and perhaps behind one argument from its first line.
        let behind: Vec<Vec<u8>> = words.iter().skip(1).take(2).map(|word| base(word.as_bytes())).collect();
        if [&program, &first].into_iter().chain(&behind).any(|name| begins(name, now)) {
            return now.to_vec();
        }
        let is_script = |path: &Path| {
            let file = self.as_seen_by_it(path);
            file.is_file() && file::open(&file).is_ok_and(|file| starts_a_script(&file))
        };
        let script = words.iter().skip(1).take(2).find(|word| is_script(Path::new(word)));
        cut(&script.map_or(program, |script| base(script.as_bytes())))
    }
}

fn starts_a_script(file: &File) -> bool {
    let mut mark = [0; 2];
    file.read_exact_at(&mut mark, 0).is_ok() && mark == *b"#!"
}

/// The last part of a path, of which a title may have blanks behind it.
fn base(path: &[u8]) -> Vec<u8> {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_vec()
}

fn cut(name: &[u8]) -> Vec<u8> {
    name.get(..NAME_BYTES).unwrap_or(name).to_vec()
}

/// `redis-server` begins `redis-server *:6379`, and `python3` begins `python3.11`; `work` is another name
/// than `worker`.
fn begins(name: &[u8], kernels: &[u8]) -> bool {
    let ends = |next: &u8| !next.is_ascii_alphanumeric() && !b"-_".contains(next);
    let rest = name.strip_prefix(kernels).filter(|_| !kernels.is_empty());
    rest.is_some_and(|rest| kernels.len() == NAME_BYTES || rest.first().is_none_or(ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;

    #[test]
    fn without_its_memory_the_name_at_the_start_follows_from_its_words() {
        let cases = [
            ("/usr/bin/redis-check-rdb", "/usr/bin/redis-server *:6379", "redis-server", "redis-server"),
            ("/usr/bin/python3.11", "-other", "python3", "python3"),
            ("/usr/sbin/glusterfsd", "/usr/sbin/glusterd\0-N", "glusterd", "glusterd"),
            ("/usr/bin/averyverylongname", "x", "averyverylongna", "averyverylongna"),
            ("/usr/bin/averyverylongname (deleted)", "x", "renamed", "averyverylongna"),
            ("/usr/bin/python3.11", "/usr/bin/python3\0-u\0/opt/job", "job", "job"),
            ("/usr/bin/python3.11", "/usr/bin/python3\0-u\0/opt/job", "renamed", "job"),
            ("/usr/bin/worker-main", "worker-main", "worker", "worker-main"),
        ];
        for (program, words, now, expected) in cases {
            let (_folder, root) = Root::with_files(&[("/proc/7/cmdline", words), ("/proc/7/comm", now)]);
            root.write("/opt/job", "#!/usr/bin/python3 -u\n");
            root.link(program, "/proc/7/exe");
            root.link("/", "/proc/7/root");
            root.link("mnt:[1]", "/proc/7/ns/mnt");
            root.link("mnt:[1]", "/proc/self/ns/mnt");
            let name = Process::in_root(&root, 7).name_at_start().unwrap();
            assert_eq!(name.name, expected, "{program}, now {now}");
            assert_eq!(name.now.is_some(), now != expected);
        }
    }

    #[test]
    fn the_tests_own_process_shows_who_started_it() {
        let own = Process::new(std::process::id() as i32);
        assert_eq!(own.at_start(libc::AT_EUID), Some(u64::from(nix::unistd::geteuid().as_raw())));
        assert!(own.path_at_start().is_some());
    }
}
