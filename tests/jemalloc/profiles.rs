//! Heap profiles: the files that jemalloc's switches leave, read by jemalloc's own reader.

use std::fs;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use vcmalloc_tests::{library, run};

use super::{On, program};

fn folder() -> Result<TempDir, String> {
    TempDir::new().map_err(|error| error.to_string())
}

fn files(folder: &TempDir) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder.path()).map_err(|error| error.to_string())?;
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// The profiler's own program keeps 64 MB by one function.
pub fn read_by_jeprof() -> Result<(), String> {
    for on in [On::Jemalloc, On::Ours, On::Locked] {
        let folder = folder()?;
        let path = folder.path().display().to_string();
        on.run("profiler.c", &[&path], "prof:true,lg_prof_sample:16")?;
        let names = files(&folder)?;
        let are_named = names.len() == 3
            && names[1].starts_with("prefix.")
            && names[1].ends_with(".0.m0.heap")
            && names[2].ends_with(".1.m1.heap");
        if !are_named {
            return Err(format!("on {on:?} {names:?}"));
        }
        if Command::new("jeprof").arg("--version").output().is_err() {
            vcmalloc_tests::skip!("jeprof (libjemalloc-dev) reads profiles");
            return Ok(());
        }
        for name in ["by-name.heap", &names[1]] {
            let (megabytes, function) = most_of(&folder.path().join(name).display().to_string())?;
            if !(50.0..80.0).contains(&megabytes) || function != "keeps_much" {
                return Err(format!("{megabytes} MB of {function} on {on:?}, not about 64 of keeps_much"));
            }
        }
    }
    Ok(())
}

/// Megabytes and name of the function that holds most, in jeprof's reading.
fn most_of(profile: &str) -> Result<(f64, String), String> {
    most_by("jeprof", &["--text", "--inuse_space"], profile)
}

/// The same by a reader with these arguments, of a table whose first line is behind `Total:` or the names of its columns.
fn most_by(reader: &str, arguments: &[&str], profile: &str) -> Result<(f64, String), String> {
    let mut command = Command::new(reader);
    command.args(arguments).arg(program("profiler.c")?).arg(profile);
    // Go builds its reader where it is wanted first: a minute of a busy machine.
    let finished = run(&mut command, Duration::from_secs(400))?;
    finished.succeeded()?;
    let text = finished.text();
    let is_head = |line: &str| line.starts_with("Total: ") || line.trim_start().starts_with("flat  flat%");
    let mut lines = text.lines().skip_while(|line| !is_head(line)).skip(1);
    let first = lines.next().and_then(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.first()?.trim_end_matches("MB").parse().ok()?, (*words.get(5)?).to_string()))
    });
    first.ok_or_else(|| format!("no line of a function in\n{text}{}", finished.complaints))
}

const OTHER_READERS: [(&str, &[&str], &[&str]); 2] = [
    ("google-pprof", &["--version"], &["--text", "--inuse_space"]),
    ("go", &["version"], &["tool", "pprof", "-text", "-sample_index=space"]),
];

/// Neither of them takes jemalloc's format, from whichever library; the script changes its form, not its figures.
pub fn converted_for_other_readers() -> Result<(), String> {
    for on in [On::Jemalloc, On::Ours] {
        let folder = folder()?;
        on.run("profiler.c", &[&folder.path().display().to_string()], "prof:true,lg_prof_sample:16")?;
        let profile = folder.path().join("by-name.heap");
        let mut convert = Command::new("awk");
        convert.arg("-f").arg(library::repository().join("contrib/heap_v2.awk")).arg(&profile);
        let converted = run(&mut convert, Duration::from_secs(60))?;
        converted.succeeded()?;
        let path = folder.path().join("converted.heap");
        fs::write(&path, converted.text()).map_err(|error| error.to_string())?;
        for (reader, probe, arguments) in OTHER_READERS {
            if Command::new(reader).args(probe).output().is_err() {
                vcmalloc_tests::skip!("{reader} reads converted profiles");
                continue;
            }
            let (megabytes, function) = most_by(reader, arguments, &path.display().to_string())?;
            // jemalloc's own frames are in its profiles, with names that depend on its symbols.
            let is_named = on == On::Jemalloc || function == "keeps_much";
            if !(50.0..80.0).contains(&megabytes) || !is_named {
                return Err(format!(
                    "{reader}: {megabytes} MB of {function} on {on:?}, not about 64 of keeps_much"
                ));
            }
        }
    }
    // A part of a profile is told.
    let mut convert = Command::new("awk");
    convert.arg("-f").arg(library::repository().join("contrib/heap_v2.awk")).arg("/dev/null");
    match run(&mut convert, Duration::from_secs(60))?.succeeded() {
        Err(error) if error.contains("no whole heap_v2 profile") => Ok(()),
        other => Err(format!("nothing is no profile: {other:?}")),
    }
}

/// The files of a program that allocates 100 MB, a little at a time.
fn of_growing(conf: &str) -> Result<Vec<String>, String> {
    let folder = folder()?;
    let mut command = On::Ours.command("leaky.c")?;
    command.current_dir(folder.path()).env("MALLOC_CONF", conf);
    run(&mut command, Duration::from_secs(100))?.succeeded()?;
    files(&folder)
}

pub fn at_their_times() -> Result<(), String> {
    let names = of_growing("prof:true,lg_prof_interval:24,prof_final:true,prof_prefix:x")?;
    let of = |kind: &str| names.iter().filter(|name| name.contains(kind)).count();
    // 100 MB in steps of 16 MiB.
    if !(4..=8).contains(&of(".i")) || of(".f.heap") != 1 || names.iter().any(|name| !name.starts_with("x."))
    {
        return Err(format!("{names:?}"));
    }
    let names = of_growing("prof:true,prof_gdump:true")?;
    match names.iter().filter(|name| name.starts_with("jeprof.") && name.contains(".u")).count() {
        5.. => Ok(()),
        _ => Err(format!("{names:?}")),
    }
}

pub fn leaks() -> Result<(), String> {
    let folder = folder()?;
    let leaky = |conf: &str| -> Result<(bool, String), String> {
        let mut command = On::Ours.command("leaky.c")?;
        command.current_dir(folder.path()).env("MALLOC_CONF", conf);
        let finished = run(&mut command, Duration::from_secs(60))?;
        Ok((finished.succeeded().is_ok(), finished.complaints.clone() + &finished.text()))
    };
    let (succeeds, told) = leaky("prof:true,prof_final:true,prof_leak:true")?;
    if !succeeds || !told.contains("leaks: ~") {
        return Err(told);
    }
    // It brings the profile.
    let (succeeds, told) = leaky("prof_leak:true,prof_final:true,lg_prof_sample:10")?;
    if !succeeds || !told.contains("leaks: ~") {
        return Err(format!("prof_leak alone: {told}"));
    }
    let (_, told) = leaky("prof_leak_error:true")?;
    if !told.contains("prof_final:true") {
        return Err(format!("it should name what it needs: {told}"));
    }
    let (succeeds, told) = leaky("prof:true,prof_final:true,prof_leak_error:true")?;
    match !succeeds && told.contains("leaks: ~") && told.contains("the program's last line") {
        true => Ok(()),
        false => Err(format!("it should end with 1: {told}")),
    }
}
