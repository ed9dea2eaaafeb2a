//! The ground a cluster stands on: directories, mounts, loop devices, a network of its own.
//!
//! Promises that each is in the journal before it exists, and that nothing that was there before is ever
//! undone.

use super::session::Session;
use super::undo::{Undo, is_mounted};
use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Session {
    /// A new directory; it must not be there yet.
    pub fn make_directory(&self, path: &Path) -> Result<()> {
        self.make(path, Undo::RemoveDirectory { path: path.to_owned() })
    }

    fn make(&self, path: &Path, undo: Undo) -> Result<()> {
        self.check()?;
        if fs::symlink_metadata(path).is_ok() {
            bail!("{} is there already", path.display());
        }
        let number = self.journal().add(undo)?;
        match fs::create_dir(path) {
            Ok(()) => Ok(()),
            Err(error) => {
                // Somebody else may have been quicker; then it is theirs.
                self.journal().forget(number)?;
                let hint = match error.kind() {
                    ErrorKind::PermissionDenied => "; run as root, or name another place with --work DIR",
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
        missing.try_for_each(|place| self.make(place, Undo::RemoveEmptyDirectory { path: place.to_owned() }))
    }

    /// A control group; the processes in it must have ended when it goes.
    pub fn make_group(&self, path: &Path) -> Result<()> {
        self.make(path, Undo::RemoveEmptyDirectory { path: path.to_owned() })
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
        if is_mounted(path) {
            bail!("something is mounted on {} already", path.display());
        }
        self.journal().add(Undo::Unmount { path: path.to_owned() })?;
        Ok(())
    }

    /// A block device on a file, without the page cache between them where the file system allows it.
    pub fn loop_device(&self, backing: &Path) -> Result<PathBuf> {
        let backing = backing.canonicalize().with_context(|| format!("no {}", backing.display()))?;
        self.journal().add(Undo::DetachLoop { backing: backing.clone() })?;
        let losetup = || self.command("losetup").args(["--find", "--show"]);
        let direct = losetup().arg("--direct-io=on").arg(&backing).output()?;
        let output = if direct.status.success() { direct } else { losetup().arg(&backing).run()? };
        Ok(PathBuf::from(output.stdout.trim()))
    }

    /// A file of this size, with its blocks, that goes at the end.
    pub fn make_file(&self, path: &Path, bytes: u64) -> Result<()> {
        self.check()?;
        if path.exists() {
            bail!("{} is there already", path.display());
        }
        self.journal().add(Undo::RemoveFile { path: path.to_owned() })?;
        let file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
        let length = i64::try_from(bytes).context("too large")?;
        nix::fcntl::posix_fallocate(&file, 0, length)
            .with_context(|| format!("no {} MiB for {}", bytes >> 20, path.display()))
    }

    /// A network with nothing but a loopback device: fixed ports are free in it, and nobody can look in. It
    /// goes with the last process in it.
    pub fn own_network(&self) -> Result<Arc<File>> {
        self.check()?;
        // Namespaces belong to threads; this one is thrown away.
        let maker = std::thread::spawn(|| -> Result<File> {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
            raise_loopback()?;
            Ok(File::open("/proc/thread-self/ns/net")?)
        });
        let made = maker.join().unwrap_or_else(|_| bail!("the thread that makes it failed"));
        made.map(Arc::new)
            .context("cannot make a network namespace; run as root, outside an unprivileged container")
    }
}

fn raise_loopback() -> Result<()> {
    // SAFETY: a socket of our own, and a request that is valid for the call.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let done = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request);
        let error = std::io::Error::last_os_error();
        libc::close(socket);
        if done != 0 {
            return Err(error).context("cannot raise the loopback device");
        }
    }
    Ok(())
}
