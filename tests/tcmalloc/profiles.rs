//! Heap profiles: the files that gperftools' functions leave, read by gperftools' own reader.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use vcmalloc_tests::run;

use super::{On, program};

/// The profiler's own program keeps 60 MB by one function and little by another.
pub fn read_by_pprof() -> Result<(), String> {
    for on in [On::Gperftools, On::Ours] {
        let folder = TempDir::new().map_err(|error| error.to_string())?;
        let prefix = folder.path().join("p").display().to_string();
        let finished = on.run("profiler.cc", &[&prefix])?;
        let (first, second) = (format!("{prefix}.0001.heap"), format!("{prefix}.0002.heap"));
        for line in [&format!("Dumping heap profile to {first} (because)"), "Starting tracking the heap"] {
            if !finished.complaints.contains(line) {
                return Err(format!("'{line}' on {on:?} in\n{}", finished.complaints));
            }
        }
        let files = std::fs::read_dir(folder.path()).map_err(|error| error.to_string())?.count();
        if files != 2 {
            return Err(format!("{files} files on {on:?}, not 2"));
        }
        let (live, of) = most_of(&first)?;
        // gperftools writes down all 57 MB; a sample stands for half a megabyte, give or take.
        let expected = if on == On::Ours { 1.0..100.0 } else { 50.0..70.0 };
        if !expected.contains(&live) || of != "allocate_much" {
            return Err(format!("{live} MB of {of} on {on:?}, not about 57 of allocate_much"));
        }
        let (afterwards, _) = most_of(&second).unwrap_or((0.0, String::new()));
        if afterwards > 5.0 {
            return Err(format!("{afterwards} MB live on {on:?} when all is freed"));
        }
    }
    Ok(())
}

/// Megabytes and name of the function that holds most, in google-pprof's reading.
fn most_of(profile: &str) -> Result<(f64, String), String> {
    let mut command = Command::new("google-pprof");
    command.args(["--text", "--inuse_space"]).arg(program("profiler.cc")?).arg(profile);
    let finished = run(&mut command, Duration::from_secs(60))?;
    finished.succeeded()?;
    let text = finished.text();
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Total: ")).skip(1);
    let first = lines.next().and_then(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.first()?.parse().ok()?, (*words.get(5)?).to_string()))
    });
    first.ok_or_else(|| format!("no line of a function in\n{text}{}", finished.complaints))
}

pub fn from_the_environment() -> Result<(), String> {
    for on in [On::Gperftools, On::Ours] {
        let folder = TempDir::new().map_err(|error| error.to_string())?;
        let prefix = folder.path().join("whole");
        let mut command = on.command("without_cxx.c")?;
        if on == On::Gperftools {
            command.env("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4");
        }
        let finished = run(command.env("HEAPPROFILE", &prefix), Duration::from_secs(100))?;
        finished.succeeded()?;
        let file = format!("{}.0001.heap", prefix.display());
        let text = std::fs::read_to_string(Path::new(&file))
            .map_err(|error| format!("{file} on {on:?}: {error}\n{}", finished.complaints))?;
        if !text.starts_with("heap profile:") || !text.contains("MAPPED_LIBRARIES:") {
            return Err(format!("on {on:?} it begins with {:?}", text.lines().next()));
        }
    }
    Ok(())
}

/// A program that starts another, and forks: each process is profiled, under a name of its own. (gperftools' forked
/// child takes its parent's.)
pub fn of_children() -> Result<(), String> {
    for on in [On::Gperftools, On::Ours] {
        let folder = TempDir::new().map_err(|error| error.to_string())?;
        let mut command = on.command("children.c")?;
        command.env("HEAPPROFILE", folder.path().join("p"));
        run(&mut command, Duration::from_secs(60))?.succeeded()?;
        let names = names_in(folder.path())?;
        let of_child = |name: &String| {
            let process = name.strip_prefix("p_").and_then(|rest| rest.strip_suffix(".0001.heap"));
            process.is_some_and(|process| process.parse::<u32>().is_ok())
        };
        let children = names.iter().filter(|name| of_child(name)).count();
        let expected = if on == On::Ours { 2 } else { 1 };
        if names.len() != expected + 1 || children != expected || !names.contains(&"p.0001.heap".to_string())
        {
            return Err(format!("on {on:?}: {names:?}"));
        }
    }
    Ok(())
}

fn names_in(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?.flatten();
    Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// Somebody else's files where a profile is to go: a link, a pipe, files of an earlier run.
pub fn beside_strangers() -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    for cleans in [true, false] {
        let folder = TempDir::new().map_err(failed)?;
        let (own, victim) = (folder.path().join("p.0001.heap"), folder.path().join("victim"));
        let end = |command: &mut Command| run(command, Duration::from_secs(60))?.succeeded();
        for is_link in [true, false] {
            let _ = fs::remove_file(&own);
            fs::write(&victim, "theirs").map_err(failed)?;
            for name in ["p.0007.heap", "q.0001.heap", "p.heap", "p.0001.text"] {
                fs::write(folder.path().join(name), "old").map_err(failed)?;
            }
            if is_link {
                symlink(&victim, &own).map_err(failed)?;
            } else {
                end(Command::new("mkfifo").arg(&own))?;
            }
            let mut command = On::Ours.command("without_cxx.c")?;
            command.env("HEAPPROFILE", folder.path().join("p"));
            if !cleans {
                command.env("HEAP_PROFILE_CLEANUP", "false");
            }
            end(&mut command)?;
            if fs::read_to_string(&victim).map_err(failed)? != "theirs" {
                return Err("a link was followed".into());
            }
            let status = fs::symlink_metadata(&own).map_err(failed)?;
            if status.is_file() != cleans || (cleans && status.mode() & 0o777 != 0o600) {
                return Err(format!("cleans {cleans}, link {is_link}: {status:?}"));
            }
            let mut names = names_in(folder.path())?;
            names.sort();
            let old: &[&str] = if cleans { &[] } else { &["p.0007.heap"] };
            let expected =
                [&["p.0001.heap", "p.0001.text"], old, &["p.heap", "q.0001.heap", "victim"]].concat();
            if names != expected {
                return Err(format!("{names:?} are there, not {expected:?}"));
            }
        }
    }
    Ok(())
}

pub fn across_fork() -> Result<(), String> {
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    On::Ours.run("profiler_fork.c", &[&folder.path().join("p").display().to_string()]).map(|_| ())
}
