//! Looking at a running process through /proc.
//!
//! Owns the paths and formats of procfs that say what a process is; `resources` has what it uses. Every
//! answer may be refused (another user's process) or outdated a moment later.

use super::root::Root;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vcm_foreign::{Text, file};

#[derive(Clone, Debug)]
pub struct Process {
    pub id: i32,
    root: Root,
}

impl Process {
    pub fn new(id: i32) -> Self {
        Process { id, root: Root::real() }
    }

    pub fn in_root(root: &Root, id: i32) -> Self {
        Process { id, root: root.clone() }
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.root.path(format!("/proc/{}/{name}", self.id))
    }

    /// The words that it was started with; empty for a kernel thread.
    pub fn command_line(&self) -> io::Result<Vec<OsString>> {
        let bytes = file::of_kernel(&self.file("cmdline"))?;
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
        let words = bytes.split(|byte| *byte == 0);
        Ok(words.filter(|_| !bytes.is_empty()).map(|word| OsStr::from_bytes(word).to_os_string()).collect())
    }

    /// The name by which the kernel knows it now, at most 15 bytes.
    pub fn name(&self) -> io::Result<Text> {
        Ok(Text::new(file::of_kernel(&self.file("comm"))?.trim_ascii_end()))
    }

    /// Whether it is still systemd on the way to the program of a service: forked, and not yet past exec. Its name is then that
    /// program's in brackets.
    pub fn is_before_exec(&self) -> bool {
        const STARTERS: [&str; 2] = ["systemd", "systemd-executor"];
        let is_named_so = self
            .name()
            .is_ok_and(|name| name.as_bytes().starts_with(b"(") && name.as_bytes().ends_with(b")"));
        is_named_so
            && self.program().is_ok_and(|program| {
                STARTERS.iter().any(|starter| program.file_name() == Some(OsStr::new(starter)))
            })
    }

    /// Waits until it is the program of its service; false where it is not by then. A process that ends meanwhile ends the wait.
    pub fn wait_for_exec(&self, limit: Duration) -> bool {
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        let begin = Instant::now();
        while self.is_before_exec() {
            if begin.elapsed() > limit {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }

    /// The environment it was started with; a program may have overwritten it since.
    pub fn environment(&self) -> io::Result<Vec<(OsString, OsString)>> {
        let bytes = file::of_kernel(&self.file("environ"))?;
        Ok(bytes.split(|byte| *byte == 0).filter_map(pair).collect())
    }

    /// The program; none for a kernel thread.
    pub fn program(&self) -> io::Result<PathBuf> {
        fs::read_link(self.file("exe"))
    }

    /// The files that are mapped, each once. A file that was replaced since has " (deleted)" at its end.
    pub fn mapped_files(&self) -> io::Result<Vec<PathBuf>> {
        let maps = file::of_kernel(&self.file("maps"))?;
        let mut files: Vec<PathBuf> = Vec::new();
        for line in maps.split(|byte| *byte == b'\n') {
            let Some(at) = line.iter().position(|byte| *byte == b'/') else { continue };
            let path = PathBuf::from(OsStr::from_bytes(line.get(at..).unwrap_or_default()));
            if !files.contains(&path) {
                files.push(path);
            }
        }
        Ok(files)
    }

    /// Our path of the file that the process itself calls `path`: in a container or a chroot its root is
    /// not ours.
    pub fn as_seen_by_it(&self, path: &Path) -> PathBuf {
        self.view().path(path)
    }

    /// Our path of the file that the kernel calls `path` in the process's `exe` and `maps`. The kernel names
    /// files for the reader, so a chroot makes no difference; files on other mounts it names from their root.
    pub fn as_kernel_names_it(&self, path: &Path) -> PathBuf {
        if self.shares_our_mounts() {
            return self.root.path(path);
        }
        let own_root = fs::read_link(self.file("root")).unwrap_or_default();
        let inside = path
            .strip_prefix(&own_root)
            .map_or_else(|_| path.to_path_buf(), |rest| Path::new("/").join(rest));
        self.as_seen_by_it(&inside)
    }

    /// The files of the machine as the process sees them.
    pub fn view(&self) -> Root {
        if self.shares_our_files() { self.root.clone() } else { Root::at(self.file("root")) }
    }

    fn shares_our_mounts(&self) -> bool {
        let own = self.root.path("/proc/self/ns/mnt");
        fs::read_link(self.file("ns/mnt")).ok() == fs::read_link(own).ok()
    }

    /// False in a container, in a chroot, and where it has mounts of its own.
    pub fn shares_our_files(&self) -> bool {
        self.shares_our_mounts() && fs::read_link(self.file("root")).is_ok_and(|root| root == Path::new("/"))
    }

    /// False in a container or a chroot. Mounts of its own alone are a sandbox, such as systemd's PrivateTmp=.
    pub fn has_our_root(&self) -> bool {
        let identity = |path: PathBuf| fs::metadata(path).ok().map(|folder| (folder.dev(), folder.ino()));
        // The link reads "/" in a container too; the folder that the kernel finds behind it counts. In a
        // folder that stands for a machine it is a link like any other.
        let behind = if self.root.is_real() {
            self.file("root")
        } else {
            self.root.path(self.root.resolve(format!("/proc/{}/root", self.id)))
        };
        let own = identity(self.root.path("/"));
        own.is_some() && identity(behind) == own
    }

    /// When it was started.
    pub fn started(&self) -> Option<SystemTime> {
        let ticks = self.status_field(START_TIME)?;
        let boot = file::text_of_kernel(&self.root.path("/proc/stat")).ok()?;
        let boot: u64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        // USER_HZ is 100 on every architecture that Linux supports.
        Some(UNIX_EPOCH + Duration::from_secs(boot) + Duration::from_millis(ticks * 10))
    }

    fn parent(&self) -> Option<i32> {
        self.status_field(PARENT).and_then(|id| i32::try_from(id).ok())
    }

    /// The letter of its state.
    pub(super) fn state(&self) -> Option<String> {
        self.status_word(STATE)
    }

    /// Not a zombie, which holds nothing any more.
    pub fn is_alive(&self) -> bool {
        self.state().is_some_and(|state| state != "Z" && state != "X")
    }

    /// In clock ticks since the machine was started: with the id it names a process for good.
    pub fn start_ticks(&self) -> Option<u64> {
        self.status_field(START_TIME)
    }

    pub fn threads(&self) -> Option<u64> {
        self.status_field(THREADS)
    }

    /// Whether a file is mapped, whatever links lead to it.
    pub fn maps(&self, file: &Path) -> bool {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        self.mapped_files().is_ok_and(|files| files.contains(&file))
    }

    /// A numeric field of /proc/PID/stat by its number after the name (proc_pid_stat(5)).
    pub fn status_field(&self, field: usize) -> Option<u64> {
        self.status_word(field)?.parse().ok()
    }

    fn status_word(&self, field: usize) -> Option<String> {
        // In one call, and of every process of a host: `fs::read` takes ten to find out how long it is.
        let mut room = [0; MOST_OF_STAT];
        let length = fs::File::open(self.file("stat")).ok()?.read(&mut room).ok()?;
        let status = room.get(..length)?;
        // The name may contain blanks and parentheses; the last one ends it.
        let end = status.iter().rposition(|byte| *byte == b')')?;
        let rest = str::from_utf8(status.get(end + 1..)?).ok()?;
        rest.split_ascii_whitespace().nth(field).map(str::to_string)
    }
}

/// 52 numbers of at most 20 digits, and a name of at most 64 bytes.
const MOST_OF_STAT: usize = 2048;
const STATE: usize = 0;
const PARENT: usize = 1;
pub(super) const THREADS: usize = 17;
const START_TIME: usize = 19;

/// A variable's name and value; none without `=`.
pub(super) fn pair(entry: &[u8]) -> Option<(OsString, OsString)> {
    let at = entry.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (entry.get(..at)?, entry.get(at + 1..)?);
    Some((OsStr::from_bytes(name).to_os_string(), OsStr::from_bytes(value).to_os_string()))
}

/// The ids of all processes that can be seen, in order.
pub fn all(root: &Root) -> Vec<i32> {
    let entries = fs::read_dir(root.path("/proc")).into_iter().flatten().flatten();
    let mut ids: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect();
    ids.sort_unstable();
    ids
}

/// All living descendants of a process, at this moment.
pub fn descendants(ancestor: i32) -> Vec<i32> {
    let family: Vec<(i32, i32)> = all(&Root::real())
        .into_iter()
        .filter_map(|id| Process::new(id).parent().map(|parent| (id, parent)))
        .collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(family.iter().filter(|(_, of)| *of == parent).map(|(id, _)| *id));
        next += 1;
    }
    found.remove(0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_has_not_yet_made_a_program_of_is_known() {
        for (name, program, is_before) in [
            ("(s-server)", "/usr/lib/systemd/systemd", true),
            ("(d)", "/usr/lib/systemd/systemd-executor", true),
            ("(sd-pam)", "/usr/bin/other", false),
            ("systemd", "/usr/lib/systemd/systemd", false),
            ("redis-server", "/usr/bin/redis-server", false),
        ] {
            let (_folder, root) = Root::with_files(&[("/proc/7/comm", name)]);
            root.link(program, "/proc/7/exe");
            assert_eq!(Process::in_root(&root, 7).is_before_exec(), is_before, "{name}");
        }
    }

    fn own() -> Process {
        Process::new(std::process::id() as i32)
    }

    #[test]
    fn a_process_sees_itself() {
        let program = own().program().unwrap();
        assert_eq!(program, std::env::current_exe().unwrap().canonicalize().unwrap());
        assert!(own().mapped_files().unwrap().contains(&program));
        assert!(!own().name().unwrap().is_empty());
    }

    #[test]
    fn the_start_lies_in_the_past_and_not_long_ago() {
        let age = SystemTime::now().duration_since(own().started().unwrap()).unwrap_or_default();
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }

    #[test]
    fn a_child_is_a_descendant() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let found = descendants(std::process::id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&(child.id() as i32)));
    }
}
