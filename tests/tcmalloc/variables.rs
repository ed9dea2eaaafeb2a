//! The environment variables of gperftools.

use std::process::Command;
use std::time::Duration;

use vcmalloc_tests::{library, run};

use super::On;

/// The options when a variable is set, as the library itself says.
pub fn obeyed() -> Result<(), String> {
    let cases = [
        ("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "134217728", "cache_limit = 128M (environment, alias)"),
        ("TCMALLOC_RELEASE_RATE", "10", "release_delay = 100ms (environment, alias)"),
        ("TCMALLOC_AGGRESSIVE_DECOMMIT", "1", "retain = 0 (environment, alias)"),
        ("TCMALLOC_HEAP_LIMIT_MB", "300", "hard_limit = 300M (environment, alias)"),
        ("TCMALLOC_SAMPLE_PARAMETER", "65536", "sample_interval = 64K (environment, alias)"),
    ];
    for (variable, value, line) in cases {
        let mut command = On::Ours.command("options.c")?;
        let finished = run(command.env(variable, value), Duration::from_secs(100))?;
        finished.succeeded()?;
        if !finished.text().contains(line) || !finished.complaints.is_empty() {
            return Err(format!(
                "{variable}={value}: no '{line}' in\n{}{}",
                finished.text(),
                finished.complaints
            ));
        }
    }
    Ok(())
}

pub fn named() -> Result<(), String> {
    let mut command = Command::new("/bin/true");
    command.env("LD_PRELOAD", library::stand_in()?);
    command
        .env("TCMALLOC_SKIP_SBRK", "1")
        .env("TCMALLOC_RELEASE_RATE", "fast")
        .env("TCMALLOC_UNHEARD_OF", "1");
    let finished = run(&mut command, Duration::from_secs(100))?;
    finished.succeeded()?;
    let lines: Vec<&str> = finished.complaints.lines().collect();
    let expected = [
        "vcmalloc: TCMALLOC_RELEASE_RATE: 'fast' cannot be read; it stays at the value it had",
        "vcmalloc: TCMALLOC_SKIP_SBRK has no effect here: the heap takes its memory from mmap",
        "vcmalloc: TCMALLOC_UNHEARD_OF is no variable of gperftools that means something here",
    ];
    match lines == expected {
        true => Ok(()),
        false => Err(format!("it should say {expected:#?}, not {lines:#?}")),
    }
}
