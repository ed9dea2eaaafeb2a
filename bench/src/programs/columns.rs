//! The columns of a session: allocators that are preloaded, files beside them, and global allocators of Rust.

use super::choice::Choice;
use crate::harness::shelf;
use crate::harness::surroundings::own_bench;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use vcm_measure::allocators::{self, ALLOCATORS, CRATES, Places};
use vcm_measure::arm::Arm;

/// The allocator that a program runs on.
pub struct Column {
    pub arm: Arm,
    /// The binary of bench/rust that is built with it; none for a preload.
    pub rust: Option<PathBuf>,
    pub is_traced: bool,
    /// Of the file or crate, for the page; the declared allocators have theirs there already.
    pub version: Option<String>,
}

/// The column of `--tracer`.
pub const TRACED: &str = "vcmalloc-traced";

/// An error unless each name is that of a preload, of a crate, or of a group.
pub fn understood(names: &[String]) -> Result<()> {
    let is_crate = |name: &str| CRATES.iter().any(|(known, _)| *known == name);
    let others = names.iter().filter(|name| !is_group(name) && !is_crate(name));
    others.into_iter().try_for_each(|name| allocators::named(name).map(drop)).map_err(anyhow::Error::msg)
}

fn is_group(name: &str) -> bool {
    ["default", "all"].contains(&name)
}

/// The chosen preloads that are here, and the files of `NAME=FILE`; copies of all lie in the folder.
pub fn preloads(choice: &Choice, places: &Places, folder: &Path) -> Result<Vec<Column>> {
    let is_preload = |name: &&String| is_group(name) || allocators::known(name).is_some();
    let names: Vec<String> = choice.allocators.iter().filter(is_preload).cloned().collect();
    let chosen = allocators::chosen(&names, |allocator| allocator.is_peer).map_err(anyhow::Error::msg)?;
    let mut arms: Vec<Arm> = allocators::ready(&chosen, places).iter().map(Arm::of).collect();
    for added in &choice.add {
        let (name, file) =
            added.split_once('=').with_context(|| format!("--add {added}: write NAME=FILE"))?;
        ensure!(arms.iter().all(|arm| arm.name != name), "--add {added}: '{name}' is another column");
        let arm = Arm::preloading(Path::new(file)).map_err(anyhow::Error::msg)?;
        arms.push(Arm { name: name.to_owned(), ..arm });
    }
    if choice.tracer {
        let ours = ALLOCATORS.iter().find(|one| one.name == "vcmalloc").context("ours is no allocator")?;
        arms.push(Arm { name: TRACED.to_owned(), ..Arm::of(&places.find(ours)?) });
    }
    let column = |arm: Arm| {
        let (is_traced, name) = (arm.name == TRACED, arm.name.clone());
        let is_added = !is_traced && allocators::known(&name).is_none();
        let version = arm.library.as_deref().filter(|_| is_added).and_then(shelf::version_of);
        let arm = arm.fixed(folder).with_context(|| format!("cannot copy the library of {name}"))?;
        Ok(Column { arm, rust: None, is_traced, version })
    };
    arms.into_iter().map(column).collect()
}

/// The crates of these names, each with a binary of its own. What does not build is named on stderr.
pub fn crates(names: &[String], places: &Places) -> Result<Vec<Column>> {
    let bench =
        own_bench().context("their programs are bench/rust: run this in the repository of vcmalloc")?;
    let is_chosen = |name: &str| names.iter().any(|one| one == name || is_group(one));
    let mut columns = Vec::new();
    for (name, _) in CRATES.iter().filter(|(name, _)| is_chosen(name)) {
        match built(name, &bench.join("rust"), &places.built_peers.with_file_name("rust-allocators")) {
            Ok(rust) => {
                let arm = Arm { name: (*name).to_owned(), ..Arm::plain() };
                columns.push(Column { arm, rust: Some(rust), is_traced: false, version: version_of(name) });
            }
            Err(error) => eprintln!("without {name}: {error:#}"),
        }
    }
    Ok(columns)
}

fn workspace(name: &str, rust: &Path) -> PathBuf {
    if name == "mimalloc-pprof" { rust.join("pprof") } else { rust.to_owned() }
}

fn built(name: &str, rust: &Path, target: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]);
    cargo.arg(workspace(name, rust).join("Cargo.toml")).arg("--target-dir").arg(target);
    if name != "system" {
        cargo.args(["--features", name]);
    }
    ensure!(cargo.status().context("cannot run cargo")?.success(), "it is not built");
    let binary = target.join(format!("rust-{name}"));
    std::fs::copy(target.join("release/rust-allocators"), &binary)?;
    Ok(binary)
}

/// The crate of a global allocator, and its version.
fn version_of(name: &str) -> Option<String> {
    let (_, package) = CRATES.iter().find(|(known, package)| *known == name && !package.is_empty())?;
    let lock =
        std::fs::read_to_string(workspace(name, &own_bench()?.join("rust")).join("Cargo.lock")).ok()?;
    let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    Some(format!("{package} {}", rest.split('"').next()?))
}
