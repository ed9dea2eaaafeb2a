//! The share of a daemon's processor time that is spent inside its allocator, by perf.
//!
//! Owns what counts as inside: the allocator's library, or malloc's own functions of the C library. A machine
//! without perf costs the figure, not the run. Never at the same time as what is measured: it slows the
//! daemon.

use crate::engine::process::Process;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The functions of glibc's malloc; libc6-dbg has the names of those that are not exported.
const OF_MALLOC: [&str; 26] = [
    "malloc",
    "free",
    "cfree",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "_int_malloc",
    "_int_free",
    "_int_free_create_chunk",
    "_int_free_merge_chunk",
    "_int_realloc",
    "_int_memalign",
    "_mid_memalign",
    "malloc_consolidate",
    "unlink_chunk",
    "sysmalloc",
    "systrim",
    "alloc_perturb",
    "arena_get2",
    "arena_get_retry",
    "heap_trim",
    "grow_heap",
    "checked_request2size",
    "ptmalloc_init",
];

/// A daemon to look at: its pid, and the file name of its allocator's library; none for glibc.
pub struct Looked {
    pub pid: i32,
    pub library: Option<String>,
}

/// With fewer looks at a process a share says nothing.
const FEWEST_LOOKS: f64 = 200.0;

pub struct Sampling {
    process: Process,
    file: PathBuf,
}

/// Begins to look at these for so many seconds; None if this machine has no perf that works.
pub fn begin(session: &Session, pids: &[i32], seconds: u64) -> Result<Option<Sampling>> {
    let file = session.directory().join("perf.data");
    let _ = std::fs::remove_file(&file);
    let list: Vec<String> = pids.iter().map(i32::to_string).collect();
    // A clock of the kernel's: virtual machines often have no counters.
    let perf = session.command("perf").args([
        "record",
        "--quiet",
        "-e",
        "cpu-clock",
        "-F",
        "499",
        "-p",
        &list.join(","),
    ]);
    let perf = perf.arg("-o").arg(&file).args(["--", "sleep", &seconds.to_string()]);
    match perf.start("perf") {
        Ok(process) => Ok(Some(Sampling { process, file })),
        Err(error) if vcm_measure::stop::is_stopped(&error) => Err(error),
        Err(error) => {
            session.note(format!("No share of the allocator: {error:#}"));
            Ok(None)
        }
    }
}

impl Sampling {
    /// Waits for its end and gives the share inside the allocator, in percent, in the order of `looked`.
    pub fn end(self, session: &Session, looked: &[Looked]) -> Result<Vec<Option<f64>>> {
        let process = &self.process;
        session.wait_for("perf", Duration::from_secs(120), || Ok(process.check().is_err().then_some(())))?;
        let script = session.command("perf").args(["script", "-F", "pid,ip,sym,dso", "-i"]).arg(&self.file);
        let script = script.limit(Duration::from_secs(120)).output()?;
        let _ = std::fs::remove_file(&self.file);
        if !script.status.success() || script.stdout.is_empty() {
            let said = std::fs::read_to_string(&process.log).unwrap_or_default();
            let why = said.lines().chain(script.stderr.lines()).next().unwrap_or("it saw nothing");
            session.note(format!("No share of the allocator: perf: {why}"));
            return Ok(vec![None; looked.len()]);
        }
        let shares = shares(&script.stdout, looked, FEWEST_LOOKS).context("perf script")?;
        if shares.contains(&None) {
            session.note(format!(
                "Where a share of the allocator is missing, perf saw the OSD less than {FEWEST_LOOKS} times."
            ));
        }
        Ok(shares)
    }
}

/// Samples by process: all, and those inside.
fn shares(script: &str, looked: &[Looked], fewest: f64) -> Result<Vec<Option<f64>>> {
    let mut counts: BTreeMap<i32, (f64, f64)> = BTreeMap::new();
    for line in script.lines() {
        let Some((pid, symbol, object)) = parse(line) else { continue };
        let Some(one) = looked.iter().find(|one| one.pid == pid) else { continue };
        let count = counts.entry(pid).or_default();
        count.0 += 1.0;
        let inside = match &one.library {
            Some(library) => object == library,
            None => is_c_library(object) && OF_MALLOC.contains(&plain(symbol)),
        };
        count.1 += f64::from(u8::from(inside));
    }
    let share = |one: &Looked| {
        let (all, inside) = counts.get(&one.pid).filter(|(all, _)| *all >= fewest)?;
        Some(100.0 * inside / all)
    };
    Ok(looked.iter().map(share).collect())
}

/// Before 2.34 the file had the version in its name.
fn is_c_library(object: &str) -> bool {
    object.starts_with("libc.so") || object.starts_with("libc-2.")
}

/// `  4711     7f12ab operator new[] (/usr/lib/libx.so)`: the pid, the symbol, the object's file name.
fn parse(line: &str) -> Option<(i32, &str, &str)> {
    let (pid, rest) = line.trim_start().split_once(char::is_whitespace)?;
    let (_, rest) = rest.trim_start().split_once(' ')?;
    let (symbol, object) = rest.rsplit_once(" (")?;
    let object = object.strip_suffix(')')?;
    Some((pid.parse().ok()?, symbol, Path::new(object).file_name()?.to_str()?))
}

/// Without what the symbol table adds.
fn plain(symbol: &str) -> &str {
    let symbol = symbol.split(['@', '+']).next().unwrap_or(symbol);
    let symbol = symbol.trim_start_matches("__libc_").trim_start_matches("__GI_").trim_start_matches("__");
    symbol
        .split(".part")
        .next()
        .unwrap_or(symbol)
        .split(".isra")
        .next()
        .unwrap_or(symbol)
        .split(".constprop")
        .next()
        .unwrap_or(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "   11     7f1 operator new[] (/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.10)\n   \
        11  ffff8 finish_task_switch.isra.0 ([kernel.kallsyms])\n   \
        12     7f2 _int_malloc (/usr/lib/x86_64-linux-gnu/libc.so.6)\n   \
        12     7f2 cfree@GLIBC_2.2.5 (/usr/lib/x86_64-linux-gnu/libc.so.6)\n   \
        12     7f3 __memmove_avx512_unaligned_erms (/usr/lib/x86_64-linux-gnu/libc.so.6)\n   \
        12     55a OSD::ShardedOpWQ::_process (/usr/bin/ceph-osd)\n   99 7f [unknown] (/usr/bin/other)\n";

    #[test]
    fn time_inside_is_that_of_the_library_or_of_mallocs_functions() {
        let looked = [
            Looked { pid: 11, library: Some("libtcmalloc.so.4.5.10".into()) },
            Looked { pid: 12, library: None },
            Looked { pid: 13, library: None },
        ];
        assert_eq!(shares(SCRIPT, &looked, 2.0).unwrap(), [Some(50.0), Some(50.0), None]);
        assert_eq!(shares(SCRIPT, &looked, 4.0).unwrap(), [None, Some(50.0), None], "too few looks");
    }

    #[test]
    fn a_symbol_is_compared_without_its_version() {
        assert_eq!(plain("cfree@GLIBC_2.2.5"), "cfree");
        assert_eq!(plain("__libc_calloc"), "calloc");
        assert_eq!(plain("unlink_chunk.isra.0"), "unlink_chunk");
    }
}
