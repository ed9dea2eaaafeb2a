//! The OSDs of a cluster on this machine, whoever started them.
//!
//! Owns which process an admin socket belongs to, and which allocator serves it. Promises that both are of the
//! process that listens at the socket: the kernel says who that is. A number after `-i` says nothing, as every
//! cluster of a machine has its osd.0. `existing` calls it.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use vcm_inspect::allocator::{self, Kind};
use vcm_inspect::ceph::socket::{LONG, Question, ask};
use vcm_inspect::loaded;
use vcm_inspect::process::Process;

pub struct Found {
    pub number: u64,
    pub pid: i32,
    pub socket: PathBuf,
    pub allocator: &'static str,
}

/// The OSDs that say at their admin sockets that they belong to this cluster.
pub fn found(folders: &[PathBuf], fsid: &str) -> Vec<Found> {
    let mut osds: Vec<Found> = Vec::new();
    for socket in folders.iter().flat_map(|folder| sockets_below(folder)) {
        let Ok(status) = ask(&socket, Question::Status, LONG) else { continue };
        let Some(number) = status["whoami"].as_u64().filter(|_| status["cluster_fsid"] == fsid) else {
            continue;
        };
        let Some(pid) = listener_of(&socket) else { continue };
        if !osds.iter().any(|osd| osd.pid == pid) {
            osds.push(Found { number, pid, socket, allocator: allocator_of(pid) });
        }
    }
    osds.sort_by_key(|osd| osd.number);
    osds
}

/// The process that listens there, as this one names it; none where this one cannot see it, from another container.
fn listener_of(socket: &Path) -> Option<i32> {
    let stream = UnixStream::connect(socket).ok()?;
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (at, room) = ((&raw mut peer).cast(), &raw mut length);
    // SAFETY: the socket is open, and the kernel writes no more than `length` bytes to `peer`.
    let done = unsafe { libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, room) };
    (done == 0 && peer.pid > 0).then_some(peer.pid)
}

/// cephadm has a directory for each cluster.
fn sockets_below(folder: &Path) -> Vec<PathBuf> {
    let entries =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_socket = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains("osd") && name.ends_with(".asok")
    };
    let below =
        entries(folder).filter(|path| path.is_dir()).flat_map(|path| entries(&path).collect::<Vec<_>>());
    entries(folder).chain(below).filter(is_socket).collect()
}

/// Whose malloc the process gets, in a word.
fn allocator_of(pid: i32) -> &'static str {
    let process = Process::new(pid);
    let environment = process.variables().ok().map(|variables| variables.pairs);
    let loaded = loaded::of(&process, environment.as_deref());
    loaded.ok().and_then(|loaded| allocator::of(&loaded).kind()).map_or("unknown", Kind::word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vcm_inspect::testing::answer;

    #[test]
    fn sockets_are_found_in_the_directory_and_one_below() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("1234")).unwrap();
        for name in ["ceph-osd.0.asok", "ceph-mon.a.asok", "1234/ceph-osd.1.asok", "note"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let mut found = sockets_below(folder.path());
        found.sort();
        assert_eq!(found, ["1234/ceph-osd.1.asok", "ceph-osd.0.asok"].map(|name| folder.path().join(name)));
        assert!(sockets_below(Path::new("/nowhere")).is_empty());
    }

    /// Another cluster's osd.0: a process of the same name with the same number.
    fn neighbour(folder: &Path) -> std::process::Child {
        let fake = folder.join("ceph-osd");
        // Written by another process: a child of another test would hold our descriptor, and what somebody
        // writes cannot be started.
        let copied = std::process::Command::new("cp").arg("/bin/sh").arg(&fake).status().unwrap();
        assert!(copied.success());
        let mut child = std::process::Command::new(&fake);
        child.args(["-c", "read line", "-f", "-i", "0"]).stdin(std::process::Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn an_osd_is_the_process_that_listens_at_its_socket_and_no_neighbour_of_the_same_number() {
        let folder = tempfile::tempdir().unwrap();
        let mut neighbour = neighbour(folder.path());
        answer(&folder.path().join("osd.0.asok"), |_| {
            json!({ "cluster_fsid": "ours", "whoami": 0 }).to_string()
        });
        answer(&folder.path().join("osd.1.asok"), |_| {
            json!({ "cluster_fsid": "theirs", "whoami": 1 }).to_string()
        });
        let osds = found(&[folder.path().to_owned()], "ours");
        let own = std::process::id() as i32;
        assert_eq!(osds.iter().map(|osd| (osd.number, osd.pid)).collect::<Vec<_>>(), [(0, own)]);
        assert_eq!(osds[0].allocator, allocator_of(own));
        assert!(["glibc", "vcmalloc"].contains(&osds[0].allocator), "{}", osds[0].allocator);
        let _ = neighbour.kill();
        let _ = neighbour.wait();
    }
}
