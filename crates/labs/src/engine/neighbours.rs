//! Whether daemons or files of a kind are on this machine that no lab has made.

use super::identity::{pids, stat_field};
use super::undo::MARK_VARIABLE;
use std::fs;
use std::path::Path;

/// The first running process of one of these names that carries no lab's mark, or the first of these places that has
/// something in it.
pub fn first(processes: &[&str], places: &[&str]) -> Option<String> {
    let running = pids().find_map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned();
        (processes.contains(&name.as_str()) && !is_of_a_lab(pid) && stat_field(pid, 0)? != "Z")
            .then(|| format!("{name}, pid {pid}"))
    });
    running.or_else(|| places.iter().find(|place| has_something(place)).map(|place| (*place).to_owned()))
}

fn is_of_a_lab(pid: i32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let begin = format!("{MARK_VARIABLE}=");
    environment.split(|byte| *byte == 0).any(|word| word.starts_with(begin.as_bytes()))
}

/// A file, or a folder that is not empty: packages leave empty ones.
fn has_something(place: &str) -> bool {
    let place = Path::new(place);
    place.is_file() || fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_only_with_something_in_it_and_a_daemon_only_without_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        assert_eq!(first(&[], &[&place, "/nowhere"]), None);
        fs::write(folder.path().join("whoami"), "0").unwrap();
        assert_eq!(first(&[], &[&place]), Some(place.clone()));
        let fake = folder.path().join("ceph-mine");
        assert!(std::process::Command::new("cp").arg("/bin/cat").arg(&fake).status().unwrap().success());
        let start = |mark: Option<&str>| {
            let mut command = std::process::Command::new(&fake);
            command.env_remove(MARK_VARIABLE).stdin(std::process::Stdio::piped());
            mark.map(|mark| command.env(MARK_VARIABLE, mark));
            let child = command.spawn().unwrap();
            // It has its name a moment after it was started.
            let comm = format!("/proc/{}/comm", child.id());
            while fs::read_to_string(&comm).unwrap() != "ceph-mine\n" {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            child
        };
        for (mark, found) in [(Some("ceph-1"), false), (None, true)] {
            let mut child = start(mark);
            assert_eq!(first(&["ceph-mine"], &[]).is_some(), found);
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
