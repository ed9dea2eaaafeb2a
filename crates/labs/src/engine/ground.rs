//! The ground a cluster stands on: directories, mounts, loop devices.
//!
//! Promises that each is in the journal before it exists, and that nothing that was there before is ever
//! undone.

use super::session::Session;
use super::undo::{Lasting, Undo};
use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

impl Session {
    /// A new directory; it must not be there yet.
    pub fn make_directory(&self, path: &Path) -> Result<()> {
        self.make(Lasting::Directory(path.to_owned()))
    }

    fn make(&self, lasting: Lasting) -> Result<()> {
        let path = lasting.path().to_owned();
        let path = path.as_path();
        self.check()?;
        if fs::symlink_metadata(path).is_ok() {
            bail!("{} is there already", path.display());
        }
        self.journal().add(Undo::Remove(lasting))?;
        match fs::create_dir(path) {
            Ok(()) => Ok(()),
            Err(error) => {
                // Somebody else may have been quicker; then it is theirs.
                self.journal().forget_last()?;
                let hint = match error.kind() {
                    ErrorKind::PermissionDenied => "; run as root, or choose another folder with --work DIR",
                    _ => "",
                };
                Err(error).with_context(|| format!("cannot make {}{hint}", path.display()))
            }
        }
    }

    /// A directory that may be there already; only if it was not, it goes at the end.
    pub fn ensure_directory(&self, path: &Path) -> Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.ensure_directory(above)?;
        }
        self.make_directory(path)
    }

    /// One in which other runs may be as well: only what is empty goes at the end.
    pub fn ensure_shared_directory(&self, path: &Path) -> Result<()> {
        let from_above: Vec<&Path> = path.ancestors().collect();
        let mut missing = from_above.into_iter().rev().filter(|place| !place.is_dir());
        missing.try_for_each(|place| self.make(Lasting::EmptyDirectory(place.to_owned())))
    }

    /// A control group; the processes in it must have ended when it goes.
    pub fn make_group(&self, path: &Path) -> Result<()> {
        self.make(Lasting::EmptyDirectory(path.to_owned()))
    }

    /// A file system in memory on an existing directory.
    pub fn mount_tmpfs(&self, path: &Path, options: &str) -> Result<()> {
        self.mounting(path)?;
        let done = mount(Some("vcm-lab"), path, Some("tmpfs"), MsFlags::empty(), Some(options));
        done.with_context(|| format!("cannot mount a tmpfs on {}; run as root", path.display()))
    }

    /// Makes `from` visible at the existing directory `to`, as for a chroot.
    pub fn bind(&self, from: &Path, to: &Path) -> Result<()> {
        self.mounting(to)?;
        let none = None::<&str>;
        let done = mount(Some(from), to, none, MsFlags::MS_BIND, none);
        done.with_context(|| format!("cannot bind {} to {}", from.display(), to.display()))?;
        // A mount that is taken away here must not go away there.
        mount(none, to, none, MsFlags::MS_PRIVATE, none).with_context(|| format!("{}", to.display()))
    }

    fn mounting(&self, path: &Path) -> Result<()> {
        self.check()?;
        self.journal().add(Undo::Unmount(path.to_owned()))?;
        Ok(())
    }

    /// A block device on a file, without the page cache between them where the file system allows it. The kernel takes
    /// it away when nobody has it open any more.
    pub fn loop_device(&self, backing: &Path) -> Result<PathBuf> {
        let (path, device) = loop_device(backing)
            .with_context(|| format!("cannot make a loop device on {}; run as root", backing.display()))?;
        self.journal().add(Undo::CloseLoop(device))?;
        Ok(path)
    }

    /// A file of this size, with its blocks, that goes at the end.
    pub fn make_file(&self, path: &Path, bytes: u64) -> Result<()> {
        self.check()?;
        if path.exists() {
            bail!("{} is there already", path.display());
        }
        self.journal().add(Undo::Remove(Lasting::File(path.to_owned())))?;
        let file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
        let length = i64::try_from(bytes).context("too large")?;
        nix::fcntl::posix_fallocate(&file, 0, length)
            .with_context(|| format!("no {} MiB for {}", bytes >> 20, path.display()))
    }
}

fn loop_device(backing: &Path) -> Result<(PathBuf, File)> {
    const GET_FREE: libc::c_ulong = 0x4c82;
    const CONFIGURE: libc::c_ulong = 0x4c0a;
    const AUTOCLEAR_AND_DIRECT: u32 = 4 | 16;
    /// `struct loop_config` of linux/loop.h: the file's descriptor, a block size, `struct loop_info64`.
    const WORDS: usize = 304 / 4;
    const FLAGS: usize = 2 + (5 * 8 + 3 * 4) / 4;
    let file = File::options().read(true).write(true).open(backing)?;
    let control = File::options().read(true).write(true).open("/dev/loop-control")?;
    loop {
        // SAFETY: the request takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE) };
        if number < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = File::options().read(true).write(true).open(&path)?;
        let mut configuration = [0u32; WORDS];
        configuration[0] = file.as_raw_fd() as u32;
        configuration[FLAGS] = AUTOCLEAR_AND_DIRECT;
        // SAFETY: the kernel reads so many words of ours.
        if unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE, configuration.as_mut_ptr()) } == 0 {
            return Ok((path, device));
        }
        let error = std::io::Error::last_os_error();
        // Somebody else was quicker.
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(error.into());
        }
    }
}
