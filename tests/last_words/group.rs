//! A control group with a limit on memory, made for one program.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Version {
    One,
    Two,
}

/// Ended with its folder when it is dropped; by then nobody is in it.
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// Why there can be none is the error.
    pub fn new(version: Version, limit: u64) -> Result<Group, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("vcmalloc-words-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = mount(version)?.join(name);
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Group { folder };
        let [most, swap] = match version {
            Version::One => ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"],
            Version::Two => ["memory.max", "memory.swap.max"],
        };
        group.write(most, limit).map_err(|error| format!("{most}: {error}"))?;
        // Not everywhere: without accounts of swap, or without swap.
        let _ = group.write(swap, if version == Version::One { limit } else { 0 });
        Ok(group)
    }

    fn write(&self, file: &str, value: u64) -> io::Result<()> {
        fs::write(self.folder.join(file), value.to_string())
    }

    /// The command starts in the group.
    pub fn hold(&self, command: &mut Command) {
        let file = fs::OpenOptions::new().write(true).open(self.folder.join("cgroup.procs"));
        let file = file.expect("a group has members");
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(move || {
                debug_assert!(file.as_raw_fd() > 2);
                (&file).write_all(b"0")
            })
        };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was in it is counted for a moment after its end.
        for _ in 0..200 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                _ => return,
            }
        }
    }
}

/// The folder of groups of this version that can limit memory; as the library looks for them.
fn mount(version: Version) -> Result<PathBuf, String> {
    match version {
        Version::One => {
            let folder = Path::new("/sys/fs/cgroup/memory");
            let is_there = folder.join("memory.limit_in_bytes").exists();
            if is_there {
                Ok(folder.into())
            } else {
                Err("version 1 has no controller of memory here".into())
            }
        }
        Version::Two => {
            let folder = Path::new("/sys/fs/cgroup");
            let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
            if !controllers.split_whitespace().any(|name| name == "memory") {
                return Err("version 2 has no controller of memory here".into());
            }
            let passed_on = fs::write(folder.join("cgroup.subtree_control"), "+memory");
            passed_on.map_err(|error| format!("the controller of memory: {error}"))?;
            Ok(folder.into())
        }
    }
}
