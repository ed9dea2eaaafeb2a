//! Heap profiles: the files that gperftools' functions leave, read by gperftools' own reader.

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
        if on == On::Ours {
            // Samples have no stacks yet, so there is nothing that pprof could add up.
            continue;
        }
        let live = live_megabytes(&first)?;
        if !(50.0..70.0).contains(&live) {
            return Err(format!("{live} MB live on {on:?}, not about 57"));
        }
        let afterwards = live_megabytes(&second)?;
        if afterwards > 5.0 {
            return Err(format!("{afterwards} MB live on {on:?} when all is freed"));
        }
    }
    Ok(())
}

/// What google-pprof takes for the total, from the line `Total: 57.2 MB`.
fn live_megabytes(profile: &str) -> Result<f64, String> {
    let mut command = Command::new("google-pprof");
    command.args(["--text", "--inuse_space"]).arg(program("profiler.cc")?).arg(profile);
    let finished = run(&mut command, Duration::from_secs(60))?;
    finished.succeeded()?;
    let text = finished.text();
    let total =
        text.lines().find_map(|line| line.strip_prefix("Total: ")?.strip_suffix(" MB")?.trim().parse().ok());
    total.ok_or_else(|| format!("no total in\n{text}{}", finished.complaints))
}

pub fn from_the_environment() -> Result<(), String> {
    for on in [On::Gperftools, On::Ours] {
        let folder = TempDir::new().map_err(|error| error.to_string())?;
        let prefix = folder.path().join("whole");
        let mut command = on.command("without_cxx.c")?;
        if on == On::Gperftools {
            command.env("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4");
        }
        let finished = run(command.env("HEAPPROFILE", &prefix), Duration::from_secs(20))?;
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
