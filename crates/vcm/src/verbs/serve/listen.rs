//! The place where it listens: a port, or a unix socket that is taken away at the end.

use crate::cli::serve::Place;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener as BlockingListener, UnixStream as Blocking};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use vcm_foreign::Shown;

/// The place where it listens, whoever answers there.
pub enum Bound {
    Port(std::net::TcpListener, SocketAddr),
    Socket(BlockingListener, SocketFile),
}

/// The same, in the process that answers.
pub enum Listener {
    Port(TcpListener),
    Socket(UnixListener),
}

/// A connection of either kind.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Bound {
    pub fn bind(place: &Place, group: Option<&str>) -> Result<Bound, String> {
        match place {
            Place::Port(address) => on_port(*address).map_err(|error| why(&address.to_string(), &error)),
            Place::Socket(path) => {
                let group = group.map(group_id).transpose()?;
                let name = path.shown().to_string();
                make_room(path)?;
                let listener =
                    privately(|| BlockingListener::bind(path)).map_err(|error| why(&name, &error))?;
                // From here on it is taken away also where the rest fails.
                let file = SocketFile::of(path).map_err(|error| why(&name, &error))?;
                file.allow(group).map_err(|error| why(&name, &error))?;
                listener.set_nonblocking(true).map_err(|error| why(&name, &error))?;
                Ok(Bound::Socket(listener, file))
            }
        }
    }

    /// For the runtime of the one that answers.
    pub fn listener(&self) -> io::Result<Listener> {
        Ok(match self {
            Bound::Port(listener, _) => Listener::Port(TcpListener::from_std(listener.try_clone()?)?),
            Bound::Socket(listener, _) => Listener::Socket(UnixListener::from_std(listener.try_clone()?)?),
        })
    }
}

impl Listener {
    pub async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Listener::Port(listener) => Box::new(listener.accept().await?.0),
            Listener::Socket(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Port(_, address) => write!(out, "http://{address}/"),
            Bound::Socket(_, file) => write!(out, "unix:{}", file.path.shown()),
        }
    }
}

/// Files that are made meanwhile are this user's alone, from their first moment.
fn privately<T>(make: impl FnOnce() -> T) -> T {
    use nix::sys::stat::{Mode, umask};
    let before = umask(Mode::from_bits_truncate(0o177));
    let made = make();
    umask(before);
    made
}

fn on_port(address: SocketAddr) -> io::Result<Bound> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok(Bound::Port(listener, address))
}

fn why(place: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => {
            format!("{place} is in use ('ss -ltnxp' shows the process); use another: --listen ADDRESS:PORT")
        }
        ErrorKind::AddrNotAvailable => format!("{place}: this host has no such address"),
        ErrorKind::NotFound => format!("{place}: its folder does not exist"),
        _ => format!("cannot listen on {place}: {error}"),
    }
}

/// Removes a socket that nobody listens on any more.
fn make_room(path: &Path) -> Result<(), String> {
    let name = path.shown();
    let Ok(facts) = fs::symlink_metadata(path) else { return Ok(()) };
    if !facts.file_type().is_socket() {
        return Err(format!("{name} exists and is not a socket; not replaced"));
    }
    match Blocking::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| format!("{name}: {error}"))
        }
        _ => Err(format!("{name} is in use ('ss -lxp' shows the process)")),
    }
}

fn group_id(name: &str) -> Result<u32, String> {
    let found = nix::unistd::Group::from_name(name).ok().flatten();
    found.map(|group| group.gid.as_raw()).ok_or_else(|| format!("no such group: '{name}'"))
}

/// Removed when it is dropped, if it is still that one. The process that answers ends without that.
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let facts = fs::symlink_metadata(path)?;
        Ok(SocketFile { path: path.to_path_buf(), identity: (facts.dev(), facts.ino()) })
    }

    fn allow(&self, group: Option<u32>) -> io::Result<()> {
        let Some(group) = group else { return Ok(()) };
        chown(&self.path, None, Some(group))?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o660))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|facts| (facts.dev(), facts.ino()) == self.identity) {
            // If that fails, the next agent finds that nobody listens.
            let _ = fs::remove_file(&self.path);
        }
    }
}
