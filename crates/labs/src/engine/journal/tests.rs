use super::*;
use crate::engine::marked::MARK_VARIABLE;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn state() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn only(state: &Path) -> Record {
    let mut all = found(state, "toy").unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn remove(lasting: fn(PathBuf) -> Lasting, path: &Path) -> Undo {
    Undo::Remove(lasting(path.to_owned()))
}

#[test]
fn what_was_made_last_is_undone_first_and_what_was_made_before_a_place_stays() {
    let state = state();
    let (before, outer) = (state.path().join("before"), state.path().join("outer"));
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    journal.add(remove(Lasting::File, &before)).unwrap();
    fs::write(&before, "").unwrap();
    let place = journal.place();
    journal.add(remove(Lasting::File, &outer)).unwrap();
    journal.add(remove(Lasting::Directory, &outer)).unwrap();
    fs::create_dir(&outer).unwrap();
    // The other way round, removing a directory as a file would fail.
    journal.undo_to(place).unwrap();
    assert!(before.exists() && !outer.exists());
    assert_eq!(only(state.path()).lasting, [Lasting::File(before.clone())]);
    drop(journal);
    assert!(!before.exists(), "dropping a journal undoes the rest");
    assert!(found(state.path(), "toy").unwrap().is_empty());
}

#[test]
fn a_failure_to_undo_is_told_and_the_rest_is_undone_and_the_end_tries_again() {
    let state = state();
    let (file, folder) = (state.path().join("file"), state.path().join("folder"));
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    // Not a directory, so not what was made: it stays as long as it is there.
    [&file, &folder].into_iter().for_each(|path| fs::write(path, "").unwrap());
    journal.add(remove(Lasting::File, &file)).unwrap();
    journal.add(remove(Lasting::Directory, &folder)).unwrap();
    assert!(journal.undo_to(0).is_err() && !file.exists());
    assert!(journal.end().is_err() && journal.path().exists(), "kept for a later attempt");
    fs::remove_file(&folder).unwrap();
    journal.end().unwrap();
    assert!(!journal.path().exists());
}

#[test]
fn the_journal_of_a_killed_run_is_replayed_from_disk() {
    let state = state();
    let made = state.path().join("made");
    fs::create_dir(&made).unwrap();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    journal.add(remove(Lasting::Directory, &made)).unwrap();
    let part = journal.add_part().unwrap();
    let mut process = Command::new("sleep").arg("60").env(MARK_VARIABLE, part).spawn().unwrap();
    let child = Identity::of(process.id() as i32).unwrap();
    std::mem::forget(journal);
    let killed = only(state.path());
    assert!(killed.owner_is_alive(), "this test is the owner");
    assert!(killed.replay().is_empty());
    assert!(!made.exists() && !killed.path.exists());
    assert!(!child.is_alive());
    let _ = process.wait();
}

#[test]
fn a_kept_cluster_is_up_as_long_as_its_namespaces_and_after_a_boot_only_its_files_are_undone() {
    let state = state();
    let made = state.path().join("made");
    fs::create_dir(&made).unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let first = Identity::of(child.id() as i32).unwrap();
    let journal = Journal::begin(state.path(), "toy", "up").unwrap();
    journal.add(remove(Lasting::Directory, &made)).unwrap();
    journal.set_holder(first).unwrap();
    journal.keep().unwrap();
    drop(journal);
    let kept = only(state.path());
    assert!(kept.is_up() && kept.is_live() && made.exists());
    let old = Record { boot: "another".into(), ..kept.clone() };
    assert!(!old.is_up() && !old.is_live());
    assert!(old.replay().is_empty());
    assert!(!made.exists() && first.is_alive());
    let elsewhere = Record { namespace: "pid:[1]".into(), holder: None, ..kept.clone() };
    assert!(elsewhere.is_up() && elsewhere.owner_is_alive() && elsewhere.check_rights().is_err());
    assert!(kept.replay().is_empty());
    assert!(!kept.is_up() && !first.is_alive());
    let _ = child.wait();
}

#[test]
fn what_lies_in_a_directory_that_goes_whole_is_not_written_down() {
    let state = state();
    let journal = Journal::begin(state.path(), "toy", "test").unwrap();
    let folder = Lasting::Directory(state.path().join("run"));
    journal.add(Undo::Remove(folder.clone())).unwrap();
    journal.add(remove(Lasting::File, &folder.path().join("file"))).unwrap();
    assert_eq!(only(state.path()).lasting, [folder]);
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
        return vcmalloc_tests::skip!("only root can become another user");
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

/// On a disk of its own that is seen by the calling thread only. Without root there is none.
fn on_a_disk_of(bytes: &str, test: impl FnOnce(&Path) + Send) {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    if !nix::unistd::geteuid().is_root() {
        return vcmalloc_tests::skip!("only root can mount a disk");
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
    on_a_disk_of("16k", |disk| {
        let journal = Journal::begin(disk, "toy", "test").unwrap();
        let ballast = disk.join("ballast");
        fs::write(&ballast, [0; 4096]).unwrap();
        let add = |number: usize| journal.add(remove(Lasting::File, &disk.join(format!("{number:0100}"))));
        let fitting = (0..200).take_while(|number| add(*number).is_ok()).count();
        assert!((1..200).contains(&fitting), "{fitting}");
        assert_eq!(only(disk).lasting.len(), fitting, "as it was before");
        fs::remove_file(ballast).unwrap();
        add(200).unwrap();
        assert_eq!(only(disk).lasting.len(), fitting + 1);
        journal.end().unwrap();
    });
}
