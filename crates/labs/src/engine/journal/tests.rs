use super::*;
use crate::engine::undo::MARK_VARIABLE;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn state() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn only(state: &Path) -> Found {
    let mut all = found(state, "toy").unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn what_was_made_last_is_undone_first() {
    let state = state();
    let outer = state.path().join("a/outer");
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    fs::create_dir(state.path().join("a")).unwrap();
    journal.add(Undo::RemoveFile { path: outer.clone() }).unwrap();
    journal.add(Undo::RemoveDirectory { path: outer.clone() }).unwrap();
    fs::create_dir(&outer).unwrap();
    // The other way round, removing a directory as a file would fail.
    assert!(journal.end().is_empty());
    assert!(!outer.exists());
    assert!(!journal.path().exists());
}

#[test]
fn undoing_to_a_place_leaves_what_was_made_before() {
    let state = state();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    let (before, after) = (state.path().join("before"), state.path().join("after"));
    for path in [&before, &after] {
        fs::write(path, "").unwrap();
    }
    journal.add(Undo::RemoveFile { path: before.clone() }).unwrap();
    let place = journal.place();
    journal.add(Undo::RemoveFile { path: after.clone() }).unwrap();
    assert!(journal.undo_to(place).is_empty());
    assert!(before.exists() && !after.exists());
    assert_eq!(only(state.path()).made.len(), 2, "the mark and the file before");
    drop(journal);
    assert!(!before.exists(), "dropping a journal undoes the rest");
}

#[test]
fn a_failure_to_undo_is_told_and_the_rest_is_undone() {
    let state = state();
    let file = state.path().join("file");
    fs::write(&file, "").unwrap();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    journal.add(Undo::RemoveFile { path: file.clone() }).unwrap();
    journal.add(Undo::RemoveDirectory { path: "/usr".into() }).unwrap();
    let leftovers = journal.end();
    assert_eq!(leftovers.len(), 1);
    assert!(!file.exists());
    assert!(journal.path().exists(), "kept for a later attempt");
}

#[test]
fn what_could_not_be_undone_in_between_is_tried_again_at_the_end() {
    let state = state();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    let (place, folder) = (journal.place(), state.path().join("folder"));
    // Not a directory, so not what was made: it stays as long as it is there.
    fs::write(&folder, "").unwrap();
    journal.add(Undo::RemoveDirectory { path: folder.clone() }).unwrap();
    assert_eq!(journal.undo_to(place).len(), 1);
    assert_eq!(journal.end().len(), 1, "still there, and still told");
    assert!(journal.path().exists(), "kept for a later attempt");
    fs::remove_file(&folder).unwrap();
    assert!(journal.end().is_empty());
    assert!(!journal.path().exists());
}

#[test]
fn the_journal_of_a_killed_run_is_replayed_from_disk() {
    let state = state();
    let made = state.path().join("made");
    fs::create_dir(&made).unwrap();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    journal.add(Undo::RemoveDirectory { path: made.clone() }).unwrap();
    let part = journal.add_part().unwrap();
    let mut process = Command::new("sleep").arg("60").env(MARK_VARIABLE, part).spawn().unwrap();
    let child = Identity::of(process.id() as i32).unwrap();
    std::mem::forget(journal);
    // Killed while it wrote: half a line.
    let path = only(state.path()).path;
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"made\":{\"num").unwrap();
    let killed = only(state.path());
    assert!(killed.owner_is_alive(), "this test is the owner");
    assert!(killed.replay().is_empty());
    assert!(!made.exists() && !path.exists());
    assert!(!child.is_alive());
    let _ = process.wait();
}

#[test]
fn after_a_boot_only_files_and_directories_are_undone() {
    let state = state();
    let made = state.path().join("made");
    fs::create_dir(&made).unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let identity = Identity::of(child.id() as i32).unwrap();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    journal.add(Undo::RemoveDirectory { path: made.clone() }).unwrap();
    journal.add(Undo::EndProcess { name: "sleep".into(), identity }).unwrap();
    std::mem::forget(journal);
    let mut old = only(state.path());
    old.header.boot = "another".into();
    assert!(!old.owner_is_alive());
    assert!(old.replay().is_empty());
    assert!(!made.exists());
    assert!(identity.is_alive());
    child.kill().unwrap();
    let _ = child.wait();
}

#[test]
fn a_file_that_is_no_journal_is_named_and_left_alone() {
    let state = state();
    let path = state.path().join("toy-x.journal");
    fs::write(&path, "something else\n").unwrap();
    let error = found(state.path(), "toy").unwrap_err();
    assert!(error.to_string().contains("toy-x.journal"), "{error}");
    assert!(path.exists());
}

#[test]
fn a_journal_that_may_not_be_read_is_named_and_left_alone() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let state = state();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    fs::set_permissions(journal.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let as_nobody = || {
        // SAFETY: by this call, unlike by the C library's function, this thread alone becomes another user.
        unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        found(state.path(), "toy").map(drop).map_err(|error| format!("{error:#}"))
    };
    let said = std::thread::scope(|scope| scope.spawn(as_nobody).join().unwrap());
    assert!(said.is_err_and(|said| said.contains("cannot read") && said.contains(".journal")));
    assert!(journal.path().exists());
}

#[test]
fn kept_things_stay_when_the_run_ends() {
    let state = state();
    let made = state.path().join("made");
    fs::create_dir(&made).unwrap();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    journal.add(Undo::RemoveDirectory { path: made.clone() }).unwrap();
    journal.keep().unwrap();
    drop(journal);
    assert!(made.exists());
    let kept = only(state.path());
    assert!(kept.kept);
    assert!(kept.replay().is_empty());
    assert!(!made.exists());
}

#[test]
fn after_a_boot_no_cluster_is_up() {
    let state = state();
    let journal = Journal::begin(state.path(), "toy", "up").unwrap();
    journal.keep().unwrap();
    std::mem::forget(journal);
    let mut kept = only(state.path());
    assert!(kept.is_up() && kept.is_live());
    kept.header.boot = "another".into();
    assert!(!kept.is_up() && !kept.is_live(), "so it is undone like that of a killed run");
    assert!(kept.replay().is_empty());
}

/// On a disk of its own that is seen by the calling thread only. Without root there is none.
fn on_a_disk_of(bytes: &str, test: impl FnOnce(&Path) + Send) {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let place = state();
    let on_disk = || {
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        let options = format!("size={bytes}");
        mount(Some("test"), place.path(), Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).unwrap();
        test(place.path());
    };
    std::thread::scope(|scope| scope.spawn(on_disk).join().unwrap());
}

#[test]
fn a_full_disk_leaves_a_journal_that_can_be_read() {
    on_a_disk_of("8k", |disk| {
        let journal = Journal::begin(disk, "toy", "test").unwrap();
        let ballast = disk.join("ballast");
        fs::write(&ballast, [0; 4096]).unwrap();
        let add = || journal.add(Undo::RemoveFile { path: disk.join("x".repeat(100)) });
        let fitting = (0..100).take_while(|_| add().is_ok()).count();
        assert!((1..100).contains(&fitting), "{fitting}");
        fs::remove_file(ballast).unwrap();
        add().unwrap();
        assert_eq!(only(disk).made.len(), 1 + fitting + 1, "the mark, what fitted, and the last");
        assert!(journal.end().is_empty());
    });
}

#[test]
fn a_journal_without_its_name_is_nobody_elses_while_its_run_lives() {
    let state = state();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    let unfinished = journal.path().with_extension("new");
    fs::copy(journal.path(), &unfinished).unwrap();
    assert_eq!(found(state.path(), "toy").unwrap().len(), 1);
    assert!(unfinished.exists());
    let text = fs::read_to_string(&unfinished).unwrap().replace(&boot(), "another");
    fs::write(&unfinished, text).unwrap();
    assert_eq!(found(state.path(), "toy").unwrap().len(), 1);
    assert!(!unfinished.exists(), "its run was killed");
}
