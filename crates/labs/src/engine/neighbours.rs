//! Whether daemons or files of a kind are on this machine that no lab has made.

use super::marked::mark_of;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use vcm_inspect::daemon::Role;
use vcm_inspect::process::{self, Process};
use vcm_inspect::root::Root;

/// The first running daemon of such a role that carries no lab's mark, or the first of these places that has
/// something in it.
pub fn first(is_one: fn(Role) -> bool, places: &[&str]) -> Option<String> {
    let running = process::all(&Root::real()).into_iter().find_map(|pid| {
        let daemon = Process::new(pid);
        let role = Role::of_process(&daemon);
        let is_neighbour = is_one(role) && !is_marked(pid) && daemon.is_alive();
        is_neighbour.then(|| format!("{}, pid {pid}", role.name()))
    });
    running.or_else(|| places.iter().find(|place| has_something(place)).map(|place| (*place).to_owned()))
}

/// Whether a lab has started it. In the middle of an `exec` the kernel shows no environment yet, and so for a
/// moment a lab's own daemon looks like one that has none.
fn is_marked(pid: i32) -> bool {
    let daemon = Process::new(pid);
    let is_known = || daemon.environment().is_ok_and(|variables| !variables.is_empty());
    for _ in 0..20 {
        if is_known() || !daemon.is_alive() {
            break;
        }
        sleep(Duration::from_millis(5));
    }
    mark_of(pid).is_some()
}

/// A file, or a folder that is not empty: packages leave empty ones.
fn has_something(place: &str) -> bool {
    let place = Path::new(place);
    place.is_file() || fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::marked::MARK_VARIABLE;
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_place_counts_only_with_something_in_it_and_a_daemon_only_without_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let nobody: fn(Role) -> bool = |_| false;
        assert_eq!(first(nobody, &[&place, "/nowhere"]), None);
        fs::write(folder.path().join("whoami"), "0").unwrap();
        assert_eq!(first(nobody, &[&place]), Some(place.clone()));
        // No lab takes a client for a neighbour, so this one frightens no test beside it.
        let fake = folder.path().join("glusterfs");
        assert!(Command::new("cp").arg("/bin/cat").arg(&fake).status().unwrap().success());
        for (mark, found) in [(Some("ceph-1"), false), (None, true)] {
            let mut command = Command::new(&fake);
            command.env_remove(MARK_VARIABLE).stdin(Stdio::piped());
            mark.map(|mark| command.env(MARK_VARIABLE, mark));
            let mut child = command.spawn().unwrap();
            let name = format!("glusterfs, pid {}", child.id());
            assert_eq!(first(|role| role == Role::Glusterfs, &[]) == Some(name), found);
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
