//! Last words: a process's blocks stand in a file when the kernel has ended it, and when `hard_limit` refuses.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use vcm_inspect::process::Process;
use vcm_inspect::window::Seen;
use vcm_inspect::window::orders::{Answer, Order, give};
use vcm_measure::group::{Group, Version};
use vcmalloc_tests::child::{self, Finished};
use vcmalloc_tests::{Ground, compile, library, machine};

const MIB: u64 = 1 << 20;
const GROUP_BYTES: u64 = 128 * MIB;
const END: &str = "# end of the last words\n";
const LIMIT: Duration = Duration::from_secs(120);

fn program(ground: Ground) -> PathBuf {
    let source = library::repository().join("tests/last_words/leak.c");
    compile::program(&source, ground, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// The program on this ground, with a path for its last words in a folder.
fn leak(ground: Ground, way: &str, threads: u32, path: &Path) -> Command {
    let mut command = machine::command(&program(ground));
    ground.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
    command.args([way, &threads.to_string()]);
    command.env("VCM_PROFILE", "on").env("VCM_SAMPLE_INTERVAL", "64K").env("VCM_LAST_WORDS", path);
    command
}

fn run(command: &mut Command) -> Finished {
    child::run(command, LIMIT).unwrap_or_else(|error| panic!("{error}"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The only file of a folder, which is whole.
fn words_in(folder: &Path) -> String {
    let names = names(folder);
    assert_eq!(names.len(), 1, "{names:?}");
    let text = fs::read_to_string(folder.join(&names[0])).expect("it can be read");
    assert!(text.starts_with("heap profile: ") && text.ends_with(END), "{text}");
    text
}

/// The number in a line that begins so.
fn number(text: &str, label: &str) -> u64 {
    let line = text.lines().find(|line| line.trim_start_matches("# ").trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no line '{label}' in\n{text}"));
    line.split_whitespace().last().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

fn is_near(left: u64, right: u64, percent: u64) -> bool {
    left.abs_diff(right) * 100 <= right * percent
}

/// The bridge adds up and ends at what the system counts. Other threads allocate while its rows are counted one after the other.
fn the_bridge_ends_at_the_resident_bytes(text: &str, threads: u32) {
    let sum: i64 = text
        .lines()
        .filter_map(|line| {
            let (sign, rest) = line.strip_prefix("# ")?.split_at_checked(2)?;
            let is_row = rest.starts_with("live, as requested") || ["+ ", "- "].contains(&sign);
            let bytes: i64 = rest.split_whitespace().last().filter(|_| is_row)?.parse().ok()?;
            Some(if sign == "- " { -bytes } else { bytes })
        })
        .sum();
    let (resident, own) = (number(text, "= resident"), number(text, "process, own memory:"));
    assert!(
        is_near(sum as u64, resident, if threads == 1 { 1 } else { 4 }),
        "{sum} and {resident} in\n{text}"
    );
    assert!(is_near(resident, own, 5), "{resident} and {own} in\n{text}");
}

/// The output of google-pprof; none where it is not installed.
fn shown_by_pprof(ground: Ground, file: &Path) -> Option<String> {
    match Command::new("google-pprof").arg("--text").arg(program(ground)).arg(file).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            vcmalloc_tests::skip!("google-pprof: {error}");
            None
        }
    }
}

/// The leak is the first line; of a program with the archive in it the archive's functions come before, below which it is
/// the most.
fn names_the_leak(ground: Ground, folder: &Path) {
    let Some(shown) = shown_by_pprof(ground, &folder.join(&names(folder)[0])) else { return };
    let is_row = |line: &&str| line.split_whitespace().count() >= 6 && line.contains('%');
    let rows: Vec<&str> = shown.lines().filter(is_row).collect();
    let of_leak = rows.iter().position(|row| row.ends_with(" planted_leak"));
    let of_leak = of_leak.unwrap_or_else(|| panic!("{shown}"));
    let share =
        rows[of_leak].split_whitespace().nth(4).and_then(|share| share.strip_suffix('%')?.parse().ok());
    assert!(ground == Ground::Static || of_leak == 0, "{shown}");
    assert!(share.is_some_and(|share: f64| share > 75.0), "{shown}");
}

/// A group of each version that this machine has; says which it has not.
fn groups(bytes: u64) -> Vec<Group> {
    let made = [Version::One, Version::Two].map(|version| Group::of_version(version, bytes));
    made.into_iter().filter_map(|made| made.map_err(|why| vcmalloc_tests::skip!("{why}")).ok()).collect()
}

fn killed_in(group: &Group, command: &mut Command) {
    group.hold(command).expect("a group has members");
    let finished = run(command);
    assert_eq!(finished.status.signal(), Some(libc::SIGKILL), "{}{}", finished.complaints, finished.text());
    assert_eq!(finished.complaints, "");
}

#[test]
fn what_fills_its_group_has_said_who_leaks_when_the_kernel_ends_it() {
    for group in groups(GROUP_BYTES) {
        for (ground, way, threads) in [
            (Ground::Preload, "small", 1),
            (Ground::Preload, "small", 8),
            (Ground::Preload, "large", 1),
            (Ground::Preload, "large", 8),
            (Ground::Locked, "small", 4),
            (Ground::Static, "small", 1),
        ] {
            // The kernel may end the process before the file is whole, which then lies beside its place; not each time.
            let leaks = |_| {
                let folder = folder();
                killed_in(&group, &mut leak(ground, way, threads, &folder.path().join("%e.%p")));
                (!names(folder.path()).iter().all(|name| name.ends_with(".part"))).then_some(folder)
            };
            let folder = (0..8).find_map(leaks).expect("one of eight is whole");
            let text = words_in(folder.path());
            assert!(text.contains(": the control group is 98% full\n"), "{way} {threads}: {text}");
            assert_eq!(number(&text, "control group, limit:"), GROUP_BYTES);
            // Read once more for the file: some of it may have gone back since it was 98 %.
            assert!(number(&text, "control group, in use:") >= GROUP_BYTES / 100 * 97, "{text}");
            assert!(is_near(number(&text, "= resident"), GROUP_BYTES, 8), "{text}");
            the_bridge_ends_at_the_resident_bytes(&text, threads);
            names_the_leak(ground, folder.path());
        }
    }
}

#[test]
fn a_block_that_fills_the_group_at_one_blow_is_told_before_it_is_written_to() {
    for group in groups(GROUP_BYTES) {
        let folder = folder();
        killed_in(&group, &mut leak(Ground::Preload, "doubles", 1, &folder.path().join("words")));
        let text = words_in(folder.path());
        assert!(text.contains(": what the heap has taken would fill the control group\n"), "{text}");
        assert!(number(&text, "live, as requested") > GROUP_BYTES, "{text}");
        the_bridge_ends_at_the_resident_bytes(&text, 1);
        names_the_leak(Ground::Preload, folder.path());
    }
}

#[test]
fn the_hardened_library_says_the_same_of_its_own_blocks() {
    for group in groups(GROUP_BYTES) {
        let folder = folder();
        killed_in(&group, &mut leak(Ground::Hardened, "small", 4, &folder.path().join("words")));
        let text = words_in(folder.path());
        assert!(text.starts_with("heap profile: ") && !text.starts_with("heap profile: 0:"), "{text}");
        the_bridge_ends_at_the_resident_bytes(&text, 1);
    }
}

#[test]
fn a_setuid_program_writes_nothing_wherever_its_user_points_it() {
    let Some(group) = groups(GROUP_BYTES).pop() else { return };
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return vcmalloc_tests::skip!("only root can start a setuid program as somebody else");
    }
    for (mode, is_written) in [(0o755, true), (0o4755, false)] {
        let folder = folder();
        let copy = folder.path().join("leak");
        fs::copy(program(Ground::Static), &copy).expect("a copy");
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).expect("a mode");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
        let words = folder.path().join("words");
        let mut command = Command::new(&copy);
        Ground::Static.prepare(&mut command).expect("a ground");
        killed_in(&group, command.arg("small").env("VCM_LAST_WORDS", &words).uid(65534));
        assert_eq!(words.exists(), is_written, "mode {mode:o}");
    }
}

fn refused(ground: Ground, threads: u32, path: &Path) -> Finished {
    let finished = run(leak(ground, "refused", threads, path).env("VCM_HARD_LIMIT", "64M"));
    finished.succeeded().unwrap_or_else(|error| panic!("{ground:?}: {error}"));
    finished
}

#[test]
fn a_refusal_is_told_once_and_refuses_as_it_did() {
    for (ground, threads) in [
        (Ground::Preload, 1),
        (Ground::Preload, 8),
        (Ground::Locked, 4),
        (Ground::Hardened, 4),
        (Ground::Static, 4),
    ] {
        let folder = folder();
        let finished = refused(ground, threads, &folder.path().join("words"));
        assert_eq!(finished.complaints, "");
        let text = words_in(folder.path());
        assert!(text.contains(": hard_limit refused memory\n"), "{text}");
        assert_eq!(number(&text, "hard_limit:"), 64 * MIB);
        the_bridge_ends_at_the_resident_bytes(&text, 1);
        if ground != Ground::Hardened {
            names_the_leak(ground, folder.path());
        }
    }
}

#[test]
fn threads_without_a_janitor_write_it_themselves() {
    let folder = folder();
    let mut command = leak(Ground::Preload, "refused", 8, &folder.path().join("words"));
    let finished = run(command.env("VCM_HARD_LIMIT", "64M").env("VCM_JANITOR", "off"));
    finished.succeeded().unwrap_or_else(|error| panic!("{error}"));
    assert!(words_in(folder.path()).contains(": hard_limit refused memory\n"));
}

#[test]
fn a_child_of_fork_writes_its_own() {
    let folder = folder();
    let finished =
        run(leak(Ground::Preload, "child", 1, &folder.path().join("%p")).env("VCM_HARD_LIMIT", "64M"));
    finished.succeeded().unwrap_or_else(|error| panic!("{error}"));
    let mut numbers: Vec<String> = finished.text().split_whitespace().map(str::to_string).collect();
    numbers.sort();
    assert_eq!(names(folder.path()), numbers);
    for number in numbers {
        let text = fs::read_to_string(folder.path().join(&number)).expect("words");
        assert!(text.contains(&format!("process {number}, ")) && text.ends_with(END), "{text}");
    }
}

#[test]
fn a_running_process_is_told_where_to_write() {
    let folder = folder();
    let mut command = leak(Ground::Preload, "waits", 1, Path::new("off"));
    command.env("VCM_HARD_LIMIT", "64M").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let seen = Seen::open(Process::new(child.id() as i32)).unwrap_or_else(|why| panic!("{why}"));
    let path = folder.path().join("words");
    let order = format!("last_words={}", path.display());
    // One thread that sleeps: it is done with the next allocation.
    let given = give(&seen, &Order::Set(&order));
    assert!(!matches!(given, Ok(Answer::Refused(_))), "{given:?}");
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    assert!(child.wait().expect("it ends").success());
    assert!(words_in(folder.path()).contains(": hard_limit refused memory\n"));
}

#[test]
fn a_path_that_is_set_is_shown_as_it_was_written() {
    let folder = folder();
    let path = folder.path().join("words.%p");
    let mut command = leak(Ground::Preload, "waits", 1, &path);
    command.env("VCM_HARD_LIMIT", "64M");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let mut tool = Command::new(library::tool().unwrap_or_else(|error| panic!("{error}")));
    let shown = run(tool.args(["config", &child.id().to_string()]));
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    assert!(child.wait().expect("it ends").success());
    let text = shown.text();
    let option = text.lines().find(|line| line.contains("last_words")).unwrap_or_default();
    assert!(option.contains(&path.display().to_string()), "{text}{}", shown.complaints);
}

/// The complaint where nothing can be written; the program does not notice.
fn complaint(command: &mut Command) -> String {
    let finished = run(command.env("VCM_HARD_LIMIT", "64M"));
    finished.succeeded().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(finished.complaints.lines().count(), 1, "{}", finished.complaints);
    finished.complaints
}

#[test]
fn a_place_that_cannot_be_written_is_told_in_one_line() {
    let folder = folder();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).expect("a link");
    for (path, why) in [
        (folder.path().join("no/such/folder"), "error 2"),
        ("/proc/words".into(), "error 2"),
        (link, "something else than a file"),
        ("/dev/null".into(), "something else than a file"),
    ] {
        for threads in [1, 4] {
            let said = complaint(&mut leak(Ground::Preload, "refused", threads, &path));
            let begin = format!("vcmalloc: last_words: {} cannot be written: ", path.display());
            assert!(said.starts_with(&begin) && said.contains(why), "{said}");
        }
    }
    assert_eq!(names(folder.path()), ["link"]);
    assert!(fs::metadata("/dev/null").is_ok_and(|null| !null.is_file()));
}

#[test]
fn a_path_that_cannot_be_one_is_refused_at_the_start() {
    for path in ["words", "", "/words/%x", "/words/%"] {
        let said = complaint(&mut leak(Ground::Preload, "refused", 1, Path::new(path)));
        assert!(
            said.contains("VCM_LAST_WORDS") && said.contains("expected off, or a path such as"),
            "{said}"
        );
    }
}

#[test]
fn a_limit_on_files_ends_the_file_and_not_the_program() {
    let folder = folder();
    let path = folder.path().join("words");
    fs::write(&path, "old words").expect("a file");
    for threads in [1, 4] {
        let mut command = leak(Ground::Preload, "refused", threads, &path);
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| {
                let limit = libc::rlimit { rlim_cur: 2000, rlim_max: 2000 };
                match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        };
        assert!(complaint(&mut command).contains("error 27"));
    }
    assert_eq!(fs::read_to_string(&path).expect("a file"), "old words");
}

#[test]
fn a_full_disk_keeps_the_old_words_and_what_there_was_room_for() {
    let folder = folder();
    let mount = |arguments: &[&str]| Command::new("mount").args(arguments).arg(folder.path()).output();
    let made = mount(&["-t", "tmpfs", "-o", "size=8k,mode=755", "tmpfs"]);
    if !made.as_ref().is_ok_and(|made| made.status.success()) {
        return vcmalloc_tests::skip!("no disk of two pages can be mounted here: {made:?}");
    }
    let path = folder.path().join("words");
    fs::write(&path, "old words").expect("a file");
    let said = complaint(&mut leak(Ground::Preload, "refused", 4, &path));
    let (old, names) = (fs::read_to_string(&path), names(folder.path()));
    let part = names.iter().find(|name| name.ends_with(".part"));
    let part = part.map(|name| fs::read_to_string(folder.path().join(name)).expect("a part"));
    let unmounted = Command::new("umount").arg(folder.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert!(said.contains("error 28"), "{said}");
    assert_eq!(old.expect("the old one"), "old words");
    let part = part.expect("a part");
    assert!(
        part.starts_with("heap profile: ") && part.contains("# = resident") && !part.ends_with(END),
        "{part}"
    );
}
