//! The OSDs of a cluster on this machine, whoever started them.
//!
//! Owns which process an admin socket belongs to, and which allocator serves it. Promises that both are of the
//! process that listens at the socket: the kernel says who that is. A number after `-i` says nothing, as every
//! cluster of a machine has its osd.0. `existing` calls it.

use super::admin_socket;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

pub struct Found {
    pub number: u64,
    pub pid: i32,
    pub socket: PathBuf,
    pub allocator: String,
}

/// Those that say at their admin sockets that they belong to this cluster.
pub fn found(folders: &[PathBuf], fsid: &str) -> Vec<Found> {
    let mut osds: Vec<Found> = Vec::new();
    for socket in folders.iter().flat_map(|folder| sockets_below(folder)) {
        let Ok(status) = admin_socket::ask(&socket, "status") else { continue };
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

/// Who listens there, as this process names it; none where it cannot see it, from another container.
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

/// By what is mapped: what is preloaded counts before what is linked.
fn allocator_of(pid: i32) -> String {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let known = ["libvcmalloc", "libjemalloc", "libmimalloc", "libtcmalloc"];
    let mapped = |name: &&str| maps.lines().find(|line| line.contains(&format!("/{name}")));
    let Some((name, line)) = known.into_iter().find_map(|name| Some((name, mapped(&name)?))) else {
        return "glibc".to_owned();
    };
    match name == "libtcmalloc" && files_of(pid, line).iter().any(|file| is_stand_in(file)) {
        true => "vcmalloc".to_owned(),
        false => name.trim_start_matches("lib").to_owned(),
    }
}

/// Ways to the file of a line of maps. The first is that file, wherever the process's root is and whatever lies
/// under the name today, and needs root. Of a process in a chroot the kernel shows the whole path, of one in a
/// mount namespace the path there.
fn files_of(pid: i32, line: &str) -> Vec<PathBuf> {
    let range = line.split(' ').next().unwrap_or_default();
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{range}"));
    let path = line.find('/').map_or("", |begin| &line[begin..]);
    if fs::File::open(&mapped).is_ok() {
        return vec![mapped];
    }
    vec![PathBuf::from(format!("/proc/{pid}/root{path}")), PathBuf::from(path)]
}

/// Our library under TCMalloc's name: it exports functions that gperftools does not have.
fn is_stand_in(library: &Path) -> bool {
    const OURS: &[u8] = b"vcm_option_get";
    let bytes = fs::read(library).unwrap_or_default();
    bytes.windows(OURS.len()).any(|window| window == OURS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

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

    fn answering(socket: &Path, answer: &'static str) {
        let listener = UnixListener::bind(socket).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut byte = [1];
                while stream.read_exact(&mut byte).is_ok() && byte[0] != 0 {}
                let _ = stream.write_all(&(answer.len() as u32).to_be_bytes());
                let _ = stream.write_all(answer.as_bytes());
            }
        });
    }

    #[test]
    fn an_osd_is_the_process_that_listens_at_its_socket_and_no_neighbour_of_the_same_number() {
        let folder = tempfile::tempdir().unwrap();
        let mut neighbour = neighbour(folder.path());
        answering(&folder.path().join("osd.0.asok"), r#"{"cluster_fsid":"ours","whoami":0}"#);
        answering(&folder.path().join("osd.1.asok"), r#"{"cluster_fsid":"theirs","whoami":1}"#);
        let osds = found(&[folder.path().to_owned()], "ours");
        let own = std::process::id() as i32;
        assert_eq!(osds.iter().map(|osd| (osd.number, osd.pid)).collect::<Vec<_>>(), [(0, own)]);
        assert!(!osds[0].allocator.is_empty());
        let _ = neighbour.kill();
        let _ = neighbour.wait();
    }

    #[test]
    fn the_stand_in_is_told_from_tcmalloc_by_its_symbols() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libtcmalloc.so.4");
        fs::write(&library, b"\x7fELF tc_version\0MallocExtension\0").unwrap();
        assert!(!is_stand_in(&library));
        fs::write(&library, b"\x7fELF tc_version\0vcm_option_get\0").unwrap();
        assert!(is_stand_in(&library));
        assert!(!is_stand_in(Path::new("/nowhere")));
    }

    /// A process that has the file mapped and then goes into a chroot, as an OSD of another Debian.
    fn in_a_chroot(root: &Path, file: &Path) -> Option<i32> {
        let name = |path: &Path| std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let (root, file) = (name(root), name(file));
        // SAFETY: the child makes system calls only, on memory that was prepared here.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let open = libc::open(file.as_ptr(), libc::O_RDONLY);
                libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE, open, 0);
                libc::chroot(root.as_ptr());
                libc::kill(libc::getpid(), libc::SIGSTOP);
                libc::_exit(0);
            }
            libc::waitpid(pid, std::ptr::null_mut(), libc::WUNTRACED);
            (pid > 0).then_some(pid)
        }
    }

    #[test]
    fn the_stand_in_of_an_osd_in_a_chroot_is_no_tcmalloc() {
        if !nix::unistd::geteuid().is_root() {
            return eprintln!("skipped: needs root for a chroot");
        }
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("lib/libtcmalloc.so.4");
        fs::create_dir(folder.path().join("lib")).unwrap();
        fs::write(&library, b"vcm_option_get").unwrap();
        let pid = in_a_chroot(folder.path(), &library).unwrap();
        let allocator = allocator_of(pid);
        // SAFETY: a child of ours that nobody else waits for.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        assert_eq!(allocator, "vcmalloc");
    }
}
