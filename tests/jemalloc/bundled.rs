//! A program that has jemalloc within it, under names with a prefix, and is linked with the library too.
//!
//! Debian's archive with other names is that copy: programs that compile jemalloc with `--with-jemalloc-prefix` have the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vcmalloc_tests::{Ground, compile, library, run};

use super::On;

const THEIRS: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc_pic.a";
const PREFIX: &str = "_rjem_";

/// The archive's functions and variables for programs; those of its own parts have a prefix already.
fn names() -> Result<Vec<String>, String> {
    let mut list = Command::new("nm");
    let listed = run(list.args(["--extern-only", "--defined-only", THEIRS]), Duration::from_secs(60))?;
    listed.succeeded()?;
    let text = listed.text();
    let mut names: Vec<String> =
        text.lines().filter_map(|line| line.split(' ').nth(2).map(str::to_string)).collect();
    names.retain(|name| !name.starts_with("je_") && !name.starts_with("DW.ref."));
    names.sort();
    names.dedup();
    Ok(names)
}

/// The program with that copy.
fn program() -> Result<PathBuf, String> {
    let folder = library::work_directory("programs/bundled");
    let (table, archive) = (folder.join("names"), folder.join("libbundled.a"));
    let lines: Vec<String> = names()?.iter().map(|name| format!("{name} {PREFIX}{name}\n")).collect();
    fs::write(&table, lines.concat()).map_err(|error| format!("{}: {error}", table.display()))?;
    let mut rename = Command::new("objcopy");
    rename.arg(format!("--redefine-syms={}", table.display())).arg(THEIRS).arg(&archive);
    run(&mut rename, Duration::from_secs(60))?.succeeded()?;
    let repository = library::repository();
    let flags = [
        format!("-I{}", repository.join("include").display()),
        archive.display().to_string(),
        "-l:libjemalloc.so.2".to_string(),
        "-lm".to_string(),
        "-lstdc++".to_string(),
    ];
    compile::program(&repository.join("tests/jemalloc/bundled.c"), Ground::Glibc, &flags)
}

pub fn beside_the_linked_one() -> Result<(), String> {
    if !Path::new(THEIRS).exists() {
        vcmalloc_tests::skip!("{THEIRS} (libjemalloc-dev) is there to be put into a program");
        return Ok(());
    }
    let program = program()?;
    for on in On::ALL {
        let mut command = Command::new(&program);
        on.prepare(&mut command)?;
        run(&mut command, Duration::from_secs(200))?
            .succeeded()
            .map_err(|error| format!("on {on:?}: {error}"))?;
    }
    Ok(())
}
