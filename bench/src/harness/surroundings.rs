//! Helpers of both measuring programs around a measurement: the programs beside them, whole files, a bar.

use crate::load::MOST_THREADS;
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use vcm_measure::allocators;
use vcm_report::Colour;
use vcm_report::chart::Name;

/// A program of this package beside this one. Under `cargo run` it is brought up to date first: cargo builds
/// only the program that it was asked to run.
pub fn program_beside(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(name);
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "vcmalloc-bench", "--bin", name]);
        // Of the run, not of the build.
        if let Some(package) = std::env::var_os("CARGO_MANIFEST_DIR") {
            build.current_dir(package);
        }
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        ensure!(build.status()?.success(), "{name} does not build");
    }
    ensure!(
        program.exists(),
        "{} is not there; build it with `cargo build --release -p vcmalloc-bench`",
        program.display()
    );
    program.canonicalize().with_context(|| format!("cannot find {name}"))
}

/// `bench/` of the repository that this program runs in. Not of the one that it was built in: the program may
/// have been copied, with or without its directory.
pub fn own_bench() -> Option<PathBuf> {
    let is_ours = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line == concat!("name = \"", env!("CARGO_PKG_NAME"), "\""))
    };
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|above| above.join("bench")).find(is_ours)
}

/// An allocator in pictures, in the colour of its declaration.
pub fn named(name: &str) -> Name {
    let (red, green, blue) = allocators::colour_of(name);
    Name::new(name, Colour(red, green, blue))
}

/// The old text stays until the new text is whole.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let written = vcm_measure::replace::replace(path, text.as_bytes());
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// For `clap`: our library as it was named. A library that nobody named may be missing and is left out; this
/// one not.
pub fn library_named(text: &str) -> Result<PathBuf, String> {
    let kind = fs::metadata(text).map_err(|error| error.to_string())?;
    if kind.is_dir() {
        return Err("it is a folder; name the file in it, libvcmalloc.so".to_owned());
    }
    Ok(text.into())
}

/// For `clap`: seconds that a process works or is watched.
pub fn seconds(text: &str) -> Result<f64, String> {
    const MOST: f64 = 86_400.0;
    let seconds = text.parse().ok().filter(|seconds| (0.0..=MOST).contains(seconds));
    seconds.ok_or_else(|| format!("give seconds from 0 to {MOST}"))
}

/// For `clap`: threads of a load program.
pub fn threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
    threads.ok_or_else(|| format!("give a number from 1 to {MOST_THREADS}"))
}

pub fn progress_bar(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {wide_msg}");
    let bar =
        ProgressBar::new(runs as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_a_time_that_can_pass() {
        assert_eq!((seconds("0"), seconds("1.5")), (Ok(0.0), Ok(1.5)));
        for wrong in ["-1", "NaN", "inf", "1e300", "x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
